//! Whether what launchers tell of lost ranks and hosts is true: who was lost, where ranks come back, and
//! whether a job had to end.

use super::plan::Blow;
use super::run::{Finding, Wrong};
use super::spread::Spread;
use super::told::{News, Whom};
use std::collections::BTreeSet;

/// Who was lost in a run.
#[derive(Debug)]
pub(super) struct Losses<'a> {
    /// How the job was spread over hosts, if there were several.
    pub spread: Option<&'a Spread>,
    /// Hosts that were lost.
    pub hosts: Vec<u32>,
    /// Ranks that were killed, by themselves or from outside.
    pub ranks: Vec<u32>,
    /// What the user wanted of ranks.
    pub orders: Vec<Blow>,
    /// How many launchers were killed.
    pub launchers: u64,
}

impl Losses<'_> {
    /// Whether the user wants a rank to go to this host.
    fn is_wanted(&self, rank: u32, host: u32) -> bool {
        self.orders.iter().any(|order| match *order {
            // If that was lost, a spare one may stand in for it.
            Blow::Move(wanted, to) => {
                wanted == rank && (to == host || self.hosts.contains(&to) && self.is_spare(host))
            }
            Blow::Drain(from) => from != host,
            _ => false,
        })
    }

    /// Whether it is a spare host as the job begins.
    fn is_spare(&self, host: u32) -> bool {
        self.spread.is_some_and(|spread| !spread.has_ranks(host))
    }

    /// What of the news of a job, in their order, is not so.
    pub(super) fn untrue<'n>(&self, news: impl Iterator<Item = &'n News>) -> Vec<Finding> {
        let mut places = self.spread.map(Spread::places).unwrap_or_default();
        // Where ranks go is told before why.
        let mut before = places.clone();
        let (mut untrue, mut newest) = (Vec::new(), 0);
        for news in news {
            untrue.extend(self.is_untrue(news, &mut places, &before));
            if let News::GoOn { epoch, .. } | News::Moves(_, epoch) = *news {
                before.clone_from(&places);
                // Whoever launches.
                if epoch < newest {
                    let what =
                        format!("ranks go on from epoch {epoch}, and have gone on from {newest} before");
                    untrue.push(Finding { wrong: Wrong::Failure, what });
                }
                newest = newest.max(epoch);
            }
        }
        untrue
    }

    /// `places`: the host of each rank, which the news may change; `before`: as ranks were started last.
    fn is_untrue(&self, news: &News, places: &mut [u32], before: &[u32]) -> Option<Finding> {
        let find = |wrong, what| Some(Finding { wrong, what });
        let is_lost = |host: &u32| self.hosts.contains(host);
        match news {
            News::GoOn { lost: Whom::Rank(rank, host, signal), restarts, .. } => {
                let at = *rank as usize;
                let mut place = before.get(at).copied();
                // Killed while it started where it comes back.
                if *restarts > 1 && *host == places.get(at).copied() {
                    place = *host;
                }
                if signal != "SIGKILL"
                    || !self.ranks.contains(rank) && !place.is_some_and(|host| is_lost(&host))
                {
                    return find(Wrong::Spontaneous, format!("nobody has sent {signal} to rank {rank}"));
                }
                if *host != place {
                    return find(
                        Wrong::Failure,
                        format!("rank {rank} was not on host {host:?}, but {place:?}"),
                    );
                }
            }
            News::GoOn { lost: Whom::Host(host), .. } if !is_lost(host) => {
                return find(Wrong::Spontaneous, format!("nobody has killed host {host}"));
            }
            News::Comes { rank, host, lost } => {
                let Some(place) = places.get_mut(*rank as usize) else {
                    return find(Wrong::Failure, format!("rank {rank} comes back, which there is not"));
                };
                let before = std::mem::replace(place, *host);
                // It goes home to a host that is back, from one that was not lost.
                let goes_home = self.spread.is_some_and(|spread| spread.hosts_return) && is_lost(host);
                if !(is_lost(&before) || goes_home || self.is_wanted(*rank, *host))
                    || before == *host
                    || lost.is_some_and(|(_, host)| host != before)
                {
                    let what = format!("rank {rank} comes from host {before} to {host} ({lost:?} lost)");
                    return find(Wrong::Failure, what);
                }
            }
            News::GoOn { lost: Whom::Launcher, .. } if self.launchers == 0 => {
                return find(Wrong::Spontaneous, "nobody has killed the launcher".to_owned());
            }
            News::KeepsNothing(host)
            | News::OutputLost(host)
            | News::EndsWithout(host)
            | News::OutputMissing(host)
            | News::Waits(host)
            | News::Back(host)
                if !is_lost(host) =>
            {
                return find(Wrong::Failure, format!("nobody has killed host {host}: {news:?}"));
            }
            News::Moves(moves, _) => {
                for (rank, host) in moves {
                    let has_cause = is_lost(host) || self.is_wanted(*rank, *host);
                    if !has_cause || places.get(*rank as usize) != Some(host) {
                        return find(Wrong::Failure, format!("rank {rank} has not moved to host {host}"));
                    }
                }
            }
            News::GoOn { lost: Whom::Host(_) | Whom::Launcher, .. }
            | News::KeepsNothing(_)
            | News::Lost(_)
            | News::OutputLost(_)
            | News::EndsWithout(_)
            | News::OutputMissing(_)
            | News::Waits(_)
            | News::Back(_) => {}
        }
        None
    }

    /// Whether a rank's checkpoint of this epoch may have been lost, with which the job has ended: whether as
    /// many hosts as there are copies, and one more, were lost since all copies had been made.
    pub(super) fn may_have_lost(&self, epoch: u64, news: &[&News]) -> bool {
        let Some(spread) = self.spread else { return false };
        let mut places = spread.places();
        let (mut missed, mut made_up_for) = (Vec::new(), Vec::new());
        // Hosts that are back, and those that have had ranks: others never had a copy.
        let (mut back, mut had_ranks) = (BTreeSet::new(), BTreeSet::from_iter(places.clone()));
        // Hosts without ranks hold none.
        let room = |places: &[u32]| places.iter().collect::<BTreeSet<_>>().len().saturating_sub(1);
        let mut copies = room(&places).min(spread.copies as usize);
        for news in news {
            match news {
                News::Comes { rank, host, .. } => {
                    let Some(place) = places.get_mut(*rank as usize) else { continue };
                    let before = std::mem::replace(place, *host);
                    had_ranks.insert(*host);
                    // The user wants it there, or it goes home: where it was may have been lost later. The
                    // store that it has left there counts until the next checkpoint.
                    let is_move = self.is_wanted(*rank, *host) || back.contains(host);
                    if self.hosts.contains(&before) && !is_move {
                        missed.push(before);
                    }
                }
                // What was committed after it had all its copies.
                News::GoOn { epoch: from, .. } | News::Moves(_, from) if *from < epoch => {
                    made_up_for.append(&mut missed);
                    copies = room(&places).min(spread.copies as usize);
                }
                News::Back(host) => drop(back.insert(*host)),
                // Its ranks come back where they were.
                News::Waits(host) => missed.push(*host),
                News::GoOn { .. }
                | News::KeepsNothing(_)
                | News::Moves(..)
                | News::Lost(_)
                | News::OutputLost(_)
                | News::EndsWithout(_)
                | News::OutputMissing(_) => {}
            }
        }
        let counts = |host: &&u32| had_ranks.contains(*host) && !made_up_for.contains(*host);
        self.hosts.iter().filter(counts).count() > copies.min(room(&places))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three hosts of two ranks, of which these are lost, and a rank is killed. The user wants rank 4 on the
    /// first one.
    fn losses<'a>(spread: &'a Spread, hosts: &[u32]) -> Losses<'a> {
        let orders = vec![Blow::Move(4, 1)];
        Losses { spread: Some(spread), hosts: hosts.to_vec(), ranks: vec![0], orders, launchers: 0 }
    }

    fn spread() -> Spread {
        Spread {
            slots: vec![2, 2, 2],
            copies: 1,
            is_encrypted: false,
            hosts_return: true,
            late: None,
            ranks_wait: false,
            racks: None,
        }
    }

    fn go_on(lost: Whom, restarts: u64) -> News {
        News::GoOn { lost, epoch: 3, restarts }
    }

    /// This rank was killed on this host.
    fn rank(rank: u32, host: u32) -> News {
        go_on(Whom::Rank(rank, Some(host), "SIGKILL".to_owned()), 1)
    }

    fn comes(rank: u32, host: u32) -> News {
        News::Comes { rank, host, lost: None }
    }

    #[test]
    fn news_are_true_of_those_who_were_lost_and_of_where_they_were() {
        let spread = spread();
        let untrue = |hosts: &[u32], news: &[News]| losses(&spread, hosts).untrue(news.iter()).len();
        let host = |host| go_on(Whom::Host(host), 1);
        assert_eq!(untrue(&[2], &[comes(2, 3), comes(3, 3), host(2), rank(0, 1)]), 0);
        assert_eq!(untrue(&[2], &[rank(3, 2)]), 0, "it was lost with its host");
        assert_eq!(
            untrue(&[2, 3], &[comes(2, 3), host(2), comes(2, 1), rank(2, 1)]),
            1,
            "nobody killed it then"
        );
        let again = |host| go_on(Whom::Rank(0, Some(host), "SIGKILL".to_owned()), 2);
        assert_eq!(untrue(&[1], &[comes(0, 3), comes(1, 3), again(3)]), 0, "as it started there");
        assert_eq!(untrue(&[1], &[comes(0, 3), comes(1, 3), again(1)]), 0, "before its host was lost");
        assert_eq!(untrue(&[1], &[comes(0, 3), comes(1, 3), again(2)]), 1);
        assert_eq!(untrue(&[1], &[comes(0, 3), comes(1, 3), rank(0, 3)]), 1, "it had not come back there");
        let lost = News::Comes { rank: 2, host: 3, lost: Some((7, 2)) };
        assert_eq!(untrue(&[2], &[lost]), 0);
        let elsewhere = News::Comes { rank: 2, host: 3, lost: Some((7, 1)) };
        let launcher = go_on(Whom::Launcher, 1);
        let from = |epoch| News::GoOn { lost: Whom::Host(2), epoch, restarts: 1 };
        assert_eq!(untrue(&[2], &[from(3), from(3), from(7)]), 0);
        assert_eq!(untrue(&[2], &[from(3), from(0), from(2)]), 2, "what was committed is not lost");
        for wrong in [
            host(1),
            launcher,
            News::KeepsNothing(1),
            News::Waits(1),
            News::OutputLost(1),
            News::EndsWithout(3),
            News::OutputMissing(3),
            rank(0, 2),
            rank(1, 1),
            comes(0, 3),
            comes(5, 1),
            comes(2, 2),
            comes(6, 1),
            elsewhere,
        ] {
            assert_eq!(untrue(&[2], std::slice::from_ref(&wrong)), 1, "{wrong:?}");
        }
        let moves = |rank, host| [comes(rank, host), News::Moves(vec![(rank, host)], 3)];
        assert_eq!(untrue(&[], &moves(4, 1)), 0);
        assert_eq!(untrue(&[], &moves(5, 1)), 2, "nobody wants it there");
        assert_eq!(untrue(&[], &moves(4, 1)[1..]), 1, "it has not come");
        let segfault = go_on(Whom::Rank(0, Some(1), "SIGSEGV".to_owned()), 1);
        assert_eq!(untrue(&[2], &[segfault]), 1);
    }

    #[test]
    fn a_job_may_end_when_more_hosts_were_lost_than_there_were_copies() {
        let spread = spread();
        let may = |hosts: &[u32], epoch, news: &[News]| {
            losses(&spread, hosts).may_have_lost(epoch, &news.iter().collect::<Vec<_>>())
        };
        assert!(!may(&[2], 3, &[]));
        assert!(may(&[2, 3], 3, &[]));
        let one_after_the_other = [comes(2, 3), comes(3, 3), go_on(Whom::Host(2), 1)];
        assert!(may(&[2, 3], 3, &one_after_the_other), "new copies have not been made");
        assert!(!may(&[2, 3], 4, &one_after_the_other));
        // It was the user who wanted rank 4 on host 1: host 3 was lost later.
        let before_it_is_lost = [comes(4, 1), rank(0, 1)];
        assert!(may(&[2, 3], 4, &before_it_is_lost));
        assert!(!may(&[3], 4, &before_it_is_lost), "what a rank has left counts");
        // Ranks wait for host 2, so that nobody says that they come back.
        let it_is_back = [News::Waits(2), News::Back(2), go_on(Whom::Host(2), 1)];
        assert!(may(&[2, 3], 3, &it_is_back) && !may(&[2, 3], 4, &it_is_back));
        let all_on_one = [2, 3, 4, 5].map(|rank| comes(rank, 1));
        assert!(may(&[1], 0, &all_on_one), "hosts without ranks hold no copies");
    }

    #[test]
    fn a_spare_host_that_is_lost_had_no_copy() {
        let spread = Spread { slots: vec![2, 2, 2, 0], ..spread() };
        let may = |news: &[News]| losses(&spread, &[2, 4]).may_have_lost(4, &news.iter().collect::<Vec<_>>());
        assert!(!may(&[]));
        assert!(may(&[comes(2, 4), comes(3, 4)]));
        // Rank 4 was to move to host 2, and the spare one stands in for that.
        let orders = vec![Blow::Move(4, 2)];
        let losses = Losses { orders, ..losses(&spread, &[2]) };
        assert_eq!(losses.untrue([comes(4, 4)].iter()).len(), 0);
        assert_eq!(losses.untrue([comes(4, 1)].iter()).len(), 1);
    }

    #[test]
    fn where_few_hosts_are_left_there_are_fewer_copies_until_the_others_are_back() {
        let spread = Spread { copies: 2, ..spread() };
        let may = |hosts: &[u32], news: &[News]| {
            losses(&spread, hosts).may_have_lost(4, &news.iter().collect::<Vec<_>>())
        };
        let one = [comes(2, 3), comes(3, 3), go_on(Whom::Host(2), 1)];
        assert!(!may(&[2, 3], &one), "one of them was lost before");
        let home = [News::Back(2), comes(2, 2), comes(3, 2), News::Moves(vec![(2, 2), (3, 2)], 4)];
        let both: Vec<News> = one.into_iter().chain(home).collect();
        assert!(!may(&[2, 3], &both), "what ranks have left on host 3 was copied to host 1");
        assert!(may(&[1, 2, 3], &both), "of three hosts one was not there");
    }
}
