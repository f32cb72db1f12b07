//! A rank that is gone: what its peers are told.

use crate::house::House;
use scash_comm::Error;
use scash_comm::boot::RankState;

/// The error for calls that need a rank which the endpoint has lost.
///
/// A rank that hears that another one is gone ends as well, and others may miss it first. Where the launcher has said
/// by then which rank was killed, or is gone with its host, the error names that one. (On another host, its word may
/// come later.)
pub(crate) fn error(house: &House, lost: u32) -> Error {
    let page = &house.page;
    let was_killed = |rank: u32| matches!(page.state(rank), RankState::Killed(_) | RankState::Gone);
    let killed = (0..page.size()).find(|&rank| was_killed(rank)).filter(|_| !was_killed(lost));
    let rank = killed.unwrap_or(lost);
    let why =
        house.endpoint.cut(rank).unwrap_or_else(|| "it ended; its end is reported by scash run".to_owned());
    Error::Down { rank, why }
}
