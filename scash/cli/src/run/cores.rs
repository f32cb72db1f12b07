//! Which processors each rank of a host is bound to, if the user wants that (`--bind core`).
//!
//! A rank gets as many cores as it has application threads, which no other rank of the job has. The hardware
//! threads of a core share its units, so a core counts once: its first hardware thread. Where ranks need more
//! than there are cores, the second hardware threads follow, and where they need more than there are hardware
//! threads, nobody is bound: ranks that share a processor are better placed by the kernel.
//!
//! Not the default: a rank has threads of scash's own besides, and the program's others, for which the kernel
//! finds an idle core if it may.

use super::{Refusal, status};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::fs;
use std::path::Path;

/// Where Linux describes processors.
const SYSTEM: &str = "/sys/devices/system/cpu";

/// The variable that tells a rank that its processors are its own.
pub(super) const BOUND: &str = "SCASH_BOUND";

/// Places for the ranks of this host, if each can have its own.
#[derive(Debug)]
pub(super) struct CoreSets {
    /// By rank, from the host's first: the processors of each.
    sets: Vec<CpuSet>,
}

/// Places for so many ranks, if they are to be bound. If they cannot be, the user hears why.
pub(super) fn places(bind: bool, ranks: u32, threads: u32) -> Result<Option<CoreSets>, Refusal> {
    if !bind {
        return Ok(None);
    }
    let places = CoreSets::find(ranks, threads)?;
    if places.is_none() {
        crate::say(&format!(
            "--bind core: {ranks} ranks here, each of {threads} threads, need more processors than there are; they are not bound"
        ));
    }
    Ok(places)
}

impl CoreSets {
    /// For so many ranks of so many threads, on the processors that this process may use. `None` if those are
    /// too few.
    fn find(ranks: u32, threads: u32) -> Result<Option<CoreSets>, Refusal> {
        let refuse =
            |error| Refusal::new(status::LAUNCHER, format!("asking for this process's processors: {error}"));
        let allowed = sched_getaffinity(Pid::from_raw(0)).map_err(refuse)?;
        let processors: Vec<usize> =
            (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu) == Ok(true)).collect();
        let order = cores_first(&processors, |cpu| siblings(Path::new(SYSTEM), cpu));
        let Some(dealt) = deal(&order, ranks, threads) else { return Ok(None) };
        let set_of = |processors: &[usize]| {
            let mut set = CpuSet::new();
            processors.iter().try_for_each(|&cpu| set.set(cpu)).map(|()| set).map_err(refuse)
        };
        Ok(Some(CoreSets { sets: dealt.into_iter().map(set_of).collect::<Result<_, _>>()? }))
    }

    /// Those of the host's rank of that number, counted from the host's first.
    pub(super) fn of(&self, rank: u32) -> Option<CpuSet> {
        self.sets.get(rank as usize).copied()
    }
}

/// Binds the calling process, between fork and exec.
pub(super) fn bind(set: &CpuSet) -> nix::Result<()> {
    sched_setaffinity(Pid::from_raw(0), set)
}

/// Gives each rank as many of the processors as it has threads. `None` if there are not enough.
fn deal(order: &[usize], ranks: u32, threads: u32) -> Option<Vec<&[usize]>> {
    let needed = ranks.checked_mul(threads)?;
    let dealt = order.get(..needed as usize)?.chunks(threads.max(1) as usize);
    Some(dealt.collect())
}

/// The processors, the first hardware thread of every core before the second of any. `siblings` knows the
/// hardware threads of a processor's core.
fn cores_first(processors: &[usize], siblings: impl Fn(usize) -> Vec<usize>) -> Vec<usize> {
    // How many of its core's hardware threads that may be used come before it.
    let place = |cpu: usize| {
        siblings(cpu).iter().filter(|&&other| other < cpu && processors.contains(&other)).count()
    };
    let mut order: Vec<_> = processors.iter().map(|&cpu| (place(cpu), cpu)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, cpu)| cpu).collect()
}

/// The hardware threads of a processor's core; none where the system does not say.
fn siblings(system: &Path, cpu: usize) -> Vec<usize> {
    let file = system.join(format!("cpu{cpu}/topology/thread_siblings_list"));
    fs::read_to_string(file).map(|text| list(&text)).unwrap_or_default()
}

/// Reads a list such as `0-1,8`. What makes no sense counts for nothing.
fn list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (last < CpuSet::count()).then_some(first..=last)
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_hardware_threads_come_after_all_cores() {
        // As Linux numbers them on most machines, and on others.
        let far = |cpu: usize| vec![cpu % 4, cpu % 4 + 4];
        let near = |cpu: usize| vec![cpu / 2 * 2, cpu / 2 * 2 + 1];
        assert_eq!(cores_first(&[0, 1, 2, 3, 4, 5, 6, 7], far), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(cores_first(&[0, 1, 2, 3, 4, 5], near), [0, 2, 4, 1, 3, 5]);
        // Of a core whose first one is not ours, the second is as good.
        assert_eq!(cores_first(&[1, 2, 3, 5], near), [1, 2, 5, 3]);
        assert_eq!(cores_first(&[3, 9], |_| Vec::new()), [3, 9], "a system that does not say");
    }

    #[test]
    fn each_rank_has_processors_of_its_own_or_nobody_is_bound() {
        let order = [0, 2, 4, 1, 3];
        assert_eq!(deal(&order, 2, 2), Some(vec![&[0, 2][..], &[4, 1]]));
        assert_eq!(deal(&order, 5, 1).map(|dealt| dealt.len()), Some(5));
        assert_eq!(deal(&order, 3, 2), None);
        assert_eq!(deal(&order, u32::MAX, 2), None);
    }

    #[test]
    fn lists_of_processors_are_read_as_linux_writes_them() {
        assert_eq!(list("0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(list("5\n"), [5]);
        for nonsense in ["", "x", "3-", "7-2", "0-99999999999"] {
            assert!(list(nonsense).is_empty(), "{nonsense}");
        }
    }
}
