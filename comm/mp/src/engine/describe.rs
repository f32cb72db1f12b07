//! What an operation waits for, in words, for people whose program does not go on.

use super::{Engine, Running};
use crate::requests::{Awaited, Request, RequestNumber};

/// Ranks that are named.
const SHOWN: usize = 8;

impl Engine {
    /// What an operation waits for.
    pub(crate) fn describe(&mut self, operation: RequestNumber) -> String {
        match self.requests.get_mut(operation) {
            Some(Request::Expected { source, tag, .. }) => message(*source, *tag),
            Some(Request::Offered { to, status, .. }) => {
                format!("rank {to} to receive {} bytes with tag {}", status.len, status.tag)
            }
            Some(Request::Leaving { to, status }) => {
                format!("{} bytes with tag {} to leave for rank {to}", status.len, status.tag)
            }
            Some(Request::Coming { from, status, .. } | Request::Read { from, status, .. }) => {
                format!(
                    "the rest of a message of {} bytes from rank {from} with tag {}",
                    status.len, status.tag
                )
            }
            Some(Request::Get { from, .. }) => format!("bytes of rank {from}'s part of a window"),
            Some(Request::Mark { to, .. }) => format!("what was put or sent to rank {to} to be in place"),
            Some(Request::Collective) => self.describe_collective(operation),
            Some(Request::Withdrawn | Request::Received(_) | Request::Over(_)) | None => {
                "an operation that is over".to_owned()
            }
        }
    }

    fn describe_collective(&mut self, operation: RequestNumber) -> String {
        let running = std::mem::take(&mut self.running);
        let one = running.iter().find(|one| one.request == operation);
        let text = one.map_or_else(String::new, |one| {
            let root = one.root.map_or_else(String::new, |root| format!(" with root {root}"));
            let mut ranks = self.awaited_in(one);
            ranks.sort_unstable();
            ranks.dedup();
            let more = if ranks.len() > SHOWN { ", …" } else { "" };
            let named = ranks.iter().take(SHOWN).map(u32::to_string).collect::<Vec<_>>().join(", ");
            format!("{}{root}, there for rank {named}{more}", one.stamp)
        });
        self.running = running;
        text
    }

    /// The ranks that a collective operation waits for. Some may have done their part.
    pub(super) fn awaited_in(&mut self, one: &Running) -> Vec<u32> {
        let mut ranks = Vec::new();
        for &(transfer, _) in one.pending.iter().flatten() {
            let awaited = self.requests.get_mut(transfer).and_then(|request| request.awaits());
            if let Some(Awaited::Rank(rank)) = awaited {
                ranks.push(rank);
            }
        }
        if let Some(mark) = one.awaits() {
            ranks.extend(super::running::needed(&self.groups, mark));
        }
        ranks.retain(|&rank| rank != self.rank);
        ranks
    }
}

/// A message of this source and tag, if they are not left open.
pub(crate) fn message(source: Option<u32>, tag: Option<u64>) -> String {
    let source = source.map_or_else(|| "any rank".to_owned(), |rank| format!("rank {rank}"));
    let tag = tag.map_or_else(|| "any tag".to_owned(), |tag| format!("tag {tag}"));
    format!("a message from {source} with {tag}")
}
