//! What launchers tell of restarts, and whether kills explain them.
//!
//! Ranks start again when one of them was killed: each *incarnation* but the last ends in a kill. Who kills from
//! outside does not see the number of an incarnation, but sees the processes that belong to it: two strikes
//! whose victims were seen together hit one incarnation.

use super::torment::Hit;
use std::collections::BTreeSet;

/// A rank that has killed itself as it was told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injected {
    /// Its incarnation.
    pub incarnation: u64,
    /// Its rank.
    pub rank: u32,
    /// Its process.
    pub pid: i32,
}

/// The lines that ranks have left in the file of `SCASH_INJECTED`.
pub(super) fn injected(text: &str) -> Vec<Injected> {
    let one = |line: &str| {
        let mut words = line.split(' ');
        let incarnation = words.next()?.parse().ok()?;
        Some(Injected { incarnation, rank: words.next()?.parse().ok()?, pid: words.next()?.parse().ok()? })
    };
    text.lines().filter_map(one).collect()
}

/// How many incarnations kills have hit.
pub(super) fn incarnations_hit(hits: &[Hit], injected: &[Injected]) -> u64 {
    let mut groups: Vec<BTreeSet<i32>> = Vec::new();
    let numbers: BTreeSet<u64> = injected.iter().map(|one| one.incarnation).collect();
    let of_number =
        |number: &u64| injected.iter().filter(|one| one.incarnation == *number).map(|one| one.pid).collect();
    let all = hits.iter().map(|hit| hit.seen.clone()).chain(numbers.iter().map(of_number));
    for mut group in all.collect::<Vec<BTreeSet<i32>>>() {
        // Whatever has a process in common is one.
        let (same, others) = groups.into_iter().partition(|other| !other.is_disjoint(&group));
        groups = others;
        same.into_iter().for_each(|other: BTreeSet<i32>| group.extend(other));
        groups.push(group);
    }
    groups.len() as u64
}

/// What a launcher has told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Restarts.
    pub restarts: u64,
    /// The newest incarnation that it has named.
    pub incarnation: Option<u64>,
    /// Ranks that were lost, and by which signal.
    pub lost: Vec<(u32, String)>,
    /// Lines that say something else.
    pub others: Vec<String>,
}

/// What is in the stderr of a launcher, which was killed or not.
pub(super) fn told(text: &str, was_killed: bool) -> Told {
    let mut told = Told::default();
    // Whoever is killed may be so in mid-line.
    let text = if was_killed { text.rfind('\n').map_or("", |end| &text[..end]) } else { text };
    for line in text.lines() {
        let incarnation = number_behind(line, "incarnation ");
        match lost(line).filter(|_| incarnation.is_some()) {
            Some(lost) => {
                told.lost.push(lost);
                let often = line.rsplit_once(" s and ").and_then(|(_, rest)| number_behind(rest, ""));
                told.restarts += often.unwrap_or(1);
            }
            None if incarnation.is_some() && line.starts_with("scash: the job goes on from ") => {}
            None if was_killed && is_of_an_end(line) => continue,
            None => told.others.push(line.to_owned()),
        }
        told.incarnation = told.incarnation.max(incarnation);
    }
    told
}

/// Who was lost, and by which signal.
fn lost(line: &str) -> Option<(u32, String)> {
    let (rank, rest) = line.strip_prefix("scash: rank ")?.split_once(" was killed by ")?;
    let (signal, _) = rest.split_once([';', ' '])?;
    Some((rank.parse().ok()?, signal.to_owned()))
}

/// Whether it tells of the end of a launcher by force.
fn is_of_an_end(line: &str) -> bool {
    ["the ranks have ended with it", "`scash resume "].iter().any(|words| line.contains(words))
}

fn number_behind(text: &str, words: &str) -> Option<u64> {
    let rest = text.split_once(words).map(|(_, rest)| rest)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_launcher_are_understood() {
        let text = "scash: the job goes on from epoch 6 (incarnation 1)\n\
            scash: rank 1 was killed by SIGKILL; all 2 ranks go on from barrier 20 (epoch 2, incarnation 2) after 0.12 s\n\
            scash: rank 0 was killed by SIGSEGV; it goes on from the beginning (incarnation 5) after 0.3 s and 3 restarts\n\
            scash: something else\n";
        let told = told(text, false);
        assert_eq!((told.restarts, told.incarnation), (4, Some(5)));
        assert_eq!(told.lost, [(1, "SIGKILL".to_owned()), (0, "SIGSEGV".to_owned())]);
        assert_eq!(told.others, ["scash: something else"]);
    }

    #[test]
    fn the_end_of_a_launcher_is_nothing_else_if_it_was_killed() {
        let text = "scash: the launcher's second process was killed by SIGKILL; the ranks have ended with it\nscash: ra";
        assert_eq!(told(text, true), Told::default());
        assert_eq!(told(text, false).others.len(), 2);
    }

    #[test]
    fn kills_of_processes_that_were_seen_together_hit_one_incarnation() {
        let hit = |pids: &[i32]| Hit { seen: pids.iter().copied().collect(), killed: Vec::new() };
        let injected = |incarnation, pid| Injected { incarnation, rank: 0, pid };
        assert_eq!(incarnations_hit(&[], &[]), 0);
        assert_eq!(incarnations_hit(&[hit(&[1, 2]), hit(&[2]), hit(&[3, 4])], &[]), 2);
        assert_eq!(incarnations_hit(&[hit(&[1]), hit(&[2]), hit(&[1, 2])], &[]), 1);
        let two = [injected(0, 1), injected(0, 2), injected(3, 7)];
        assert_eq!(incarnations_hit(&[hit(&[2, 5]), hit(&[8])], &two), 3);
    }

    #[test]
    fn what_ranks_note_is_read_line_by_line() {
        assert_eq!(injected("3 1 4711\n"), [Injected { incarnation: 3, rank: 1, pid: 4711 }]);
        assert_eq!(injected("").len(), 0);
    }
}
