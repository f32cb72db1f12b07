//! What launchers tell of restarts, and whether kills explain them.
//!
//! Ranks start again when one of them was killed: each *incarnation* but the last ends in a kill. Who kills
//! from outside does not see the number of an incarnation, but sees the processes that belong to it: two
//! strikes whose victims were seen together hit one incarnation.

use super::strikes::Hit;
use scash_bench::namespaces::address;
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

/// How many incarnations kills have hit, at most.
pub(super) fn incarnations_hit(hits: &[Hit], injected: &[Injected]) -> u64 {
    let mut groups: Vec<BTreeSet<i32>> = Vec::new();
    let numbers: BTreeSet<u64> = injected.iter().map(|one| one.incarnation).collect();
    let of_number =
        |number: &u64| injected.iter().filter(|one| one.incarnation == *number).map(|one| one.pid).collect();
    // Who loses a host does not know whether the ranks that were seen there were started anew meanwhile.
    let of_ranks = hits.iter().filter(|hit| !hit.killed.is_empty());
    let of_hosts: usize = hits.iter().map(|hit| hit.hosts.len()).sum();
    let all = of_ranks.map(|hit| hit.seen.clone()).chain(numbers.iter().map(of_number));
    for mut group in all.collect::<Vec<BTreeSet<i32>>>() {
        // Whatever has a process in common is one.
        let (same, others) = groups.into_iter().partition(|other| !other.is_disjoint(&group));
        groups = others;
        same.into_iter().for_each(|other: BTreeSet<i32>| group.extend(other));
        groups.push(group);
    }
    (groups.len() + of_hosts) as u64
}

/// Whom a launcher says to have lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    /// A rank, on this host if there are several, by a signal.
    Rank(u32, Option<u32>, String),
    /// A host.
    Host(u32),
    /// The launcher before.
    Launcher,
}

/// What a launcher tells of what became of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// All go on from this epoch, since somebody was lost.
    GoOn {
        /// Who was lost last.
        lost: Whom,
        /// The epoch.
        epoch: u64,
        /// How often ranks were started for it: whoever is lost while they start makes it one more.
        restarts: u64,
    },
    /// A rank comes back on another host.
    Comes {
        /// The rank.
        rank: u32,
        /// Where it comes back.
        host: u32,
        /// What it had printed, if that is lost with this host: bytes.
        lost: Option<(u64, u32)>,
    },
    /// Ranks move to these hosts, and all go on from this epoch.
    Moves(Vec<(u32, u32)>, u64),
    /// A host is back.
    Back(u32),
    /// Ranks wait until a host is back.
    Waits(u32),
    /// A host has kept nothing for the next launcher.
    KeepsNothing(u32),
    /// The job ends: a rank's checkpoint of this epoch is lost.
    Lost(u64),
    /// All ranks have ended, and some of what those of a host have printed is lost with it,
    OutputLost(u32),
    /// by which the job ends.
    EndsWithout(u32),
    /// All ranks have ended, and go on after all, as some of what those of this host have printed is lost.
    OutputMissing(u32),
}

/// What a launcher has told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Restarts.
    pub restarts: u64,
    /// The newest incarnation that it has named.
    pub incarnation: Option<u64>,
    /// What became of ranks, in its order.
    pub news: Vec<News>,
    /// Lines that say something else.
    pub others: Vec<String>,
}

impl Told {
    /// Whether it says that some of what ranks had printed is lost.
    pub(super) fn lacks_output(&self) -> bool {
        self.news.iter().any(|news| matches!(news, News::Comes { lost: Some(_), .. }))
    }

    /// Whether the job has ended since it has lost some of what its ranks have printed at their end.
    pub(super) fn lacks_end(&self) -> bool {
        let is_so =
            |two: &[News]| matches!(two, [News::OutputLost(of), News::EndsWithout(host)] if of == host);
        self.news.windows(2).any(is_so)
    }

    /// The epoch of which the job has lost a checkpoint, by which it has ended.
    pub(super) fn lost(&self) -> Option<u64> {
        self.news.iter().find_map(|news| if let News::Lost(epoch) = news { Some(*epoch) } else { None })
    }
}

/// What is in the stderr of a launcher, which was killed or not.
pub(super) fn told(text: &str, was_killed: bool) -> Told {
    let mut told = Told::default();
    // Whoever is killed may be so in mid-line.
    let text = if was_killed { text.rfind('\n').map_or("", |end| &text[..end]) } else { text };
    for line in text.lines() {
        let incarnation = number_behind(line, "incarnation ");
        match news(line, incarnation.is_some()) {
            Some(news) => {
                if matches!(news, News::GoOn { .. } | News::Moves(..)) {
                    told.restarts += restarts(line);
                }
                told.news.push(news);
            }
            None if incarnation.is_some() && line.starts_with("scash: the job goes on from ") => {}
            // Its launcher was killed when all its ranks had ended.
            None if line.starts_with("scash: the job had ended: ") => {}
            None if was_killed && is_of_an_end(line) => continue,
            None => told.others.push(line.to_owned()),
        }
        told.incarnation = told.incarnation.max(incarnation);
    }
    told
}

/// What a line tells of ranks, which may name an incarnation.
fn news(line: &str, has_incarnation: bool) -> Option<News> {
    let text = line.strip_prefix("scash: ")?;
    if let Some(host) = text.strip_prefix("host ").and_then(|rest| host(rest.strip_suffix(" is back")?)) {
        return Some(News::Back(host));
    }
    if let Some((name, _)) =
        text.strip_prefix("ranks wait until host ").and_then(|rest| rest.split_once(" is back"))
    {
        return host(name).map(News::Waits);
    }
    if let Some((name, why)) = text.strip_prefix("host ").and_then(|rest| rest.split_once(": ")) {
        // It may have been lost just as it was called.
        let ends = ["` was killed by signal 9 ", "` has closed its output"];
        let is_killed =
            why.starts_with("no agent has answered: ") && ends.iter().any(|end| why.contains(end));
        if let Some(host) = host(name).filter(|_| is_killed || why.starts_with("nothing is kept of job ")) {
            return Some(News::KeepsNothing(host));
        }
    }
    if has_incarnation && let Some((moves, rest)) = moves(text) {
        return Some(News::Moves(moves, number_behind(rest, "(epoch ").unwrap_or(0)));
    }
    if has_incarnation {
        let epoch = number_behind(text, "(epoch ").unwrap_or(0);
        return Some(News::GoOn { lost: whom(text)?, epoch, restarts: restarts(text) });
    }
    if let Some(epoch) = number_behind(text, " is lost: no store that is left has its checkpoint of epoch ") {
        return Some(News::Lost(epoch));
    }
    if text.contains(" is lost: no store that is left has a checkpoint of it") {
        return Some(News::Lost(0));
    }
    if let Some((_, name)) = text.split_once(" bytes that its ranks have printed are lost with host ") {
        return host(name).map(News::OutputLost);
    }
    let missing = text.strip_prefix("not all that its ranks had printed had come from host ");
    if let Some(name) = missing {
        return host(name).map(News::OutputMissing);
    }
    let without = text
        .strip_prefix("host ")
        .and_then(|rest| rest.split_once(": its agent is gone, and its ranks with it: "));
    if let Some((name, _)) = without {
        return host(name).map(News::EndsWithout);
    }
    let (rank, rest) = text.strip_prefix("rank ")?.split_once(" comes back on host ")?;
    let bytes =
        number_behind(rest, "; ").filter(|_| rest.contains(" bytes that it has printed are lost with "));
    let lost = bytes.and_then(|bytes| Some((bytes, host(rest.rsplit_once(" host ")?.1)?)));
    Some(News::Comes { rank: rank.parse().ok()?, host: host(rest.split(';').next()?)?, lost })
}

/// How often ranks were started until they went on, by the line that says so.
fn restarts(line: &str) -> u64 {
    line.rsplit_once(" s and ").and_then(|(_, rest)| number_behind(rest, "")).unwrap_or(1)
}

/// Which ranks move, each with the host that it moves to; and what else is told.
fn moves(text: &str) -> Option<(Vec<(u32, u32)>, &str)> {
    let (moves, rest) = text.split_once("; ")?;
    let one = |text: &str| {
        let (rank, name) = text.strip_prefix("rank ")?.split_once(" moves to host ")?;
        Some((rank.parse().ok()?, host(name)?))
    };
    Some((moves.split(", ").map(one).collect::<Option<Vec<(u32, u32)>>>()?, rest))
}

/// Who was lost.
fn whom(text: &str) -> Option<Whom> {
    if let Some(rest) = text.strip_prefix("host ") {
        let (name, rest) = rest.split_once(": ")?;
        return host(name).filter(|_| rest.starts_with("its agent is gone, ")).map(Whom::Host);
    }
    if text.strip_prefix("the launcher of job ").is_some_and(|rest| rest.contains(" is lost; ")) {
        return Some(Whom::Launcher);
    }
    let (who, rest) = text.strip_prefix("rank ")?.split_once(" was killed by ")?;
    let (signal, _) = rest.split_once([';', ',', ' '])?;
    let (rank, place) = who.split_once(" on host ").map_or((who, None), |(rank, name)| (rank, Some(name)));
    let place = place.map(|name| host(name).ok_or(())).transpose().ok()?;
    Some(Whom::Rank(rank.parse().ok()?, place, signal.to_owned()))
}

/// The number of a host, from its name.
fn host(name: &str) -> Option<u32> {
    let number = name.rsplit_once('.')?.1.parse().ok()?;
    (address(number) == name).then_some(number)
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
    use crate::soak::Process;

    #[test]
    fn lines_of_a_launcher_are_understood() {
        let text = "scash: the job goes on from epoch 6 (incarnation 1)\n\
            scash: rank 1 was killed by SIGKILL; all 2 ranks go on from barrier 20 (epoch 2, incarnation 2) after 0.12 s\n\
            scash: rank 0 was killed by SIGSEGV; it goes on from the beginning (incarnation 5) after 0.3 s and 3 restarts\n\
            scash: rank 1 was killed by SIGKILL, most likely for want of memory; \
            all 2 ranks go on from barrier 9 (epoch 1, incarnation 6) after 0.1 s\n\
            scash: something else\n";
        let told = told(text, false);
        assert_eq!((told.restarts, told.incarnation), (5, Some(6)));
        let lost = |rank, signal: &str, epoch, restarts| News::GoOn {
            lost: Whom::Rank(rank, None, signal.to_owned()),
            epoch,
            restarts,
        };
        assert_eq!(told.news, [lost(1, "SIGKILL", 2, 1), lost(0, "SIGSEGV", 0, 3), lost(1, "SIGKILL", 1, 1)]);
        assert_eq!(told.others, ["scash: something else"]);
    }

    #[test]
    fn lines_of_a_launcher_that_has_lost_hosts_are_understood() {
        let text = "scash: rank 2 comes back on host 10.77.0.3\n\
            scash: rank 3 comes back on host 10.77.0.1; 17 bytes that it has printed are lost with host 10.77.0.2\n\
            scash: host 10.77.0.2: its agent is gone, and its ranks with it: `rsh 10.77.0.2 scash agent` was killed by signal 9 (SIGKILL); all 4 ranks go on from barrier 20 (epoch 2, incarnation 1) after 0.12 s\n\
            scash: rank 1 on host 10.77.0.1 was killed by SIGKILL; all 4 ranks go on from the beginning (incarnation 3) after 0.1 s and 2 restarts\n\
            scash: host 10.77.0.1: its agent is gone, and rank 2 is lost: no store that is left has its checkpoint of epoch 5\n\
            scash: ranks wait until host 10.77.0.2 is back, for up to 600 s\n\
            scash: host 10.77.0.2 is back\n\
            scash: rank 2 moves to host 10.77.0.2, rank 3 moves to host 10.77.0.2; \
            all 4 ranks go on from barrier 30 (epoch 6, incarnation 4) after 0.1 s\n\
            scash: host 10.77.0.2: nothing is kept of job 7-8: its agent is not there (it has ended)\n\
            scash: host 10.77.0.3: no agent has answered: `rsh 10.77.0.3 scash agent --of 7-8` \
            was killed by signal 9 (SIGKILL).\n\
            scash: the launcher of job 7-8 is lost; all 4 ranks go on from barrier 40 (epoch 7, incarnation 4) after 0.2 s\n\
            scash: host elsewhere: its agent is gone, and all 4 ranks go on from barrier 20 (epoch 2, incarnation 1)\n";
        let told = told(text, false);
        let rank = Whom::Rank(1, Some(1), "SIGKILL".to_owned());
        let comes = |rank, host, lost| News::Comes { rank, host, lost };
        let go_on = |lost, epoch, restarts| News::GoOn { lost, epoch, restarts };
        let news = [comes(2, 3, None), comes(3, 1, Some((17, 2))), go_on(Whom::Host(2), 2, 1)];
        let moves = News::Moves(vec![(2, 2), (3, 2)], 6);
        let later = [go_on(rank, 0, 2), News::Lost(5), News::Waits(2), News::Back(2), moves];
        let next = [News::KeepsNothing(2), News::KeepsNothing(3), go_on(Whom::Launcher, 7, 1)];
        assert_eq!(told.news, [&news[..], &later[..], &next[..]].concat());
        assert_eq!((told.restarts, told.incarnation, told.others.len()), (5, Some(4), 1));
        assert!(told.lacks_output() && told.lost() == Some(5));
    }

    #[test]
    fn output_that_is_lost_behind_the_end_of_all_ranks_ends_the_job() {
        let text = "scash: 1602 bytes that its ranks have printed are lost with host 10.77.0.1\n\
            scash: host 10.77.0.1: its agent is gone, and its ranks with it: \
            `rsh 10.77.0.1 scash agent` was killed by signal 9 (SIGKILL)\n";
        let told = told(text, false);
        assert_eq!(told.news, [News::OutputLost(1), News::EndsWithout(1)]);
        assert!(told.lacks_end() && told.others.is_empty());
        assert!(
            !Told { news: vec![News::OutputLost(1), News::EndsWithout(2)], ..Told::default() }.lacks_end()
        );
    }

    #[test]
    fn the_end_of_a_launcher_is_nothing_else_if_it_was_killed() {
        let text = "scash: the launcher's second process was killed by SIGKILL; the ranks have ended with it\nscash: ra";
        assert_eq!(told(text, true), Told::default());
        assert_eq!(told(text, false).others.len(), 2);
    }

    #[test]
    fn kills_of_processes_that_were_seen_together_hit_one_incarnation() {
        let process = Process { pid: 1, rank: 0 };
        let hit = |pids: &[i32]| Hit {
            seen: pids.iter().copied().collect(),
            killed: vec![process],
            hosts: Vec::new(),
        };
        let injected = |incarnation, pid| Injected { incarnation, rank: 0, pid };
        assert_eq!(incarnations_hit(&[], &[]), 0);
        assert_eq!(incarnations_hit(&[hit(&[1, 2]), hit(&[2]), hit(&[3, 4])], &[]), 2);
        assert_eq!(incarnations_hit(&[hit(&[1]), hit(&[2]), hit(&[1, 2])], &[]), 1);
        let host = Hit { hosts: vec![2], ..Hit::default() };
        assert_eq!(incarnations_hit(&[hit(&[1]), host], &[]), 2, "they may have been started anew meanwhile");
        let two = [injected(0, 1), injected(0, 2), injected(3, 7)];
        assert_eq!(incarnations_hit(&[hit(&[2, 5]), hit(&[8])], &two), 3);
    }

    #[test]
    fn what_ranks_note_is_read_line_by_line() {
        assert_eq!(injected("3 1 4711\n"), [Injected { incarnation: 3, rank: 1, pid: 4711 }]);
        assert_eq!(injected("").len(), 0);
    }
}
