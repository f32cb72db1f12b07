//! Reports and decisions as bytes, for whatever carries them.
//!
//! ```text
//!  0        1                 5
//!  +--------+-----------------+------------- - -
//!  | kind   | rank            | the rest …             numbers are little-endian
//!  +--------+-----------------+------------- - -
//! ```
//!
//! | kind | of a report | rest |
//! |---|---|---|
//! | 1 | Packet, of a rank's message | the packet |
//! | 2 | Malformed | why (UTF-8) |
//! | 3 | Exited | 0 for a status, 1 for a signal, 2 for nobody knows how `u8`; its number `u8` |
//!
//! | kind | of a decision | rest |
//! |---|---|---|
//! | 1 | Packet, of a message for all ranks (rank 0 stands there) | the packet |
//! | 2 | Mark, for the job page | as 3 above, or 3 for one that finalized and 4 for one that runs `u8`; its number `u8` |

use super::super::frame::Reader;
use super::super::identity::text;
use super::{Decision, Report};
use crate::boot::{Exit, RankState};

impl Report {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Report::Packet(rank, packet) => frame(1, *rank, packet),
            Report::Malformed(rank, why) => frame(2, *rank, why.as_bytes()),
            Report::Exited(rank, exit) => frame(
                3,
                *rank,
                &match *exit {
                    Exit::Status(status) => [0, status],
                    Exit::Signal(signal) => [1, signal],
                    Exit::Unseen => [2, 0],
                },
            ),
        }
    }

    /// The inverse of [`encode`](Self::encode). The text says what is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Report, String> {
        let (kind, rank, rest) = split(bytes)?;
        match (kind, rest) {
            (1, packet) => Ok(Report::Packet(rank, packet.to_vec())),
            (2, why) => Ok(Report::Malformed(rank, text(why))),
            (3, &[0, status]) => Ok(Report::Exited(rank, Exit::Status(status))),
            (3, &[1, signal]) => Ok(Report::Exited(rank, Exit::Signal(signal))),
            (3, &[2, 0]) => Ok(Report::Exited(rank, Exit::Unseen)),
            (kind, rest) => Err(format!("a report of kind {kind} with {} bytes", rest.len())),
        }
    }
}

impl Decision {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Decision::Packet(packet) => frame(1, 0, packet),
            Decision::Mark(rank, state) => frame(
                2,
                *rank,
                &match *state {
                    RankState::Exited(status) => [0, status],
                    RankState::Killed(signal) => [1, signal],
                    RankState::Gone => [2, 0],
                    RankState::Finalized => [3, 0],
                    RankState::Running => [4, 0],
                },
            ),
        }
    }

    /// The inverse of [`encode`](Self::encode). The text says what is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Decision, String> {
        let (kind, rank, rest) = split(bytes)?;
        match (kind, rest) {
            (1, packet) => Ok(Decision::Packet(packet.to_vec())),
            (2, &[0, status]) => Ok(Decision::Mark(rank, RankState::Exited(status))),
            (2, &[1, signal]) => Ok(Decision::Mark(rank, RankState::Killed(signal))),
            (2, &[2, 0]) => Ok(Decision::Mark(rank, RankState::Gone)),
            (2, &[3, 0]) => Ok(Decision::Mark(rank, RankState::Finalized)),
            (2, &[4, 0]) => Ok(Decision::Mark(rank, RankState::Running)),
            (kind, rest) => Err(format!("a decision of kind {kind} with {} bytes", rest.len())),
        }
    }
}

fn frame(kind: u8, rank: u32, rest: &[u8]) -> Vec<u8> {
    [&[kind][..], &rank.to_le_bytes(), rest].concat()
}

fn split(bytes: &[u8]) -> Result<(u8, u32, &[u8]), String> {
    let mut reader = Reader::new(bytes);
    let head = reader.u8().and_then(|kind| Ok((kind, reader.u32()?)));
    let (kind, rank) = head.map_err(|rubbish| rubbish.0)?;
    Ok((kind, rank, reader.rest()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_said_survives_the_wire() {
        let exits = [Exit::Status(3), Exit::Signal(9), Exit::Unseen].map(|exit| Report::Exited(7, exit));
        let others = [Report::Packet(1 << 20, vec![1, 2]), Report::Malformed(0, "why".into())];
        for report in exits.into_iter().chain(others) {
            assert_eq!(Report::decode(&report.encode()), Ok(report));
        }
        use RankState::{Exited, Finalized, Gone, Killed, Running};
        let marks = [Exited(3), Killed(9), Gone, Finalized, Running].map(|state| Decision::Mark(5, state));
        for decision in marks.into_iter().chain([Decision::Packet(vec![9; 99])]) {
            assert_eq!(Decision::decode(&decision.encode()), Ok(decision));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_said_by_somebody_or_refused(bytes in prop::collection::vec(0_u8..6, 0..12)) {
            if let Ok(report) = Report::decode(&bytes) {
                prop_assert_eq!(Report::decode(&report.encode()), Ok(report));
            }
            if let Ok(decision) = Decision::decode(&bytes) {
                prop_assert_eq!(Decision::decode(&decision.encode()), Ok(decision));
            }
        }
    }
}
