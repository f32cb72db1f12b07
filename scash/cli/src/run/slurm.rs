//! What a Slurm allocation gives: hosts and their slots, and a command that reaches them.

use super::hosts::list::Named;
use super::{Refusal, status};
use scash_join::boot::MOST_HOSTS;

/// The command that runs another on a host of the allocation, whose name follows it. It shares what the
/// allocation has with whatever else runs there, leaves the choice of processors to the ranks, and passes
/// bytes on as they come, not by lines.
pub(super) const RSH: &str =
    "srun --overlap --nodes=1 --ntasks=1 --mpi=none --cpu-bind=none --unbuffered --quiet --nodelist";

/// Most digits of a number in a host's name.
const DIGITS: usize = 9;

/// The hosts of the allocation that this process runs in, if it runs in any. `var` looks up environment
/// variables.
pub(super) fn allocation(var: impl Fn(&str) -> Option<String>) -> Result<Option<Vec<Named>>, Refusal> {
    let nodes = "SLURM_JOB_NODELIST";
    let (Some(_), Some(list)) = (var("SLURM_JOB_ID"), var(nodes)) else { return Ok(None) };
    let refuse = |name: &str, value: &str, why: String| {
        Refusal::new(status::USAGE, format!("{name}={value}: {why}; name the hosts with --host"))
    };
    let names = names(&list).map_err(|why| refuse(nodes, &list, why))?;
    let tasks = "SLURM_TASKS_PER_NODE";
    let slots = match var(tasks) {
        Some(text) => counts(&text).map_err(|why| refuse(tasks, &text, why))?,
        None => vec![1; names.len()],
    };
    if slots.len() != names.len() {
        let why = format!("tasks of {} nodes, and {nodes} names {}", slots.len(), names.len());
        return Err(refuse(tasks, &var(tasks).unwrap_or_default(), why));
    }
    Ok(Some(names.into_iter().zip(slots).map(|(name, slots)| Named { name, slots, rack: None }).collect()))
}

/// Whether that allocation is no more than the host on which this process runs.
pub(super) fn is_here(hosts: &[Named], var: impl Fn(&str) -> Option<String>) -> bool {
    matches!(hosts, [only] if var("SLURMD_NODENAME").as_ref() == Some(&only.name))
}

/// The names that a hostlist stands for: `n[1-3,07],m2`, and several brackets in a name.
fn names(list: &str) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for item in items(list)? {
        let mut made = vec![String::new()];
        let mut rest = item;
        while let Some((plain, bracket)) = rest.split_once('[') {
            let (ranges, behind) = bracket.split_once(']').ok_or("a bracket is not closed")?;
            let mut numbers = Vec::new();
            for range in ranges.split(',') {
                expand(range, &mut numbers)?;
            }
            if made.len() * numbers.len() > MOST_HOSTS {
                return Err(too_many());
            }
            made = made
                .iter()
                .flat_map(|name| numbers.iter().map(move |number| format!("{name}{plain}{number}")))
                .collect();
            rest = behind;
        }
        made.iter_mut().for_each(|name| name.push_str(rest));
        all.extend(made);
        if all.len() > MOST_HOSTS {
            return Err(too_many());
        }
    }
    let is_name = |name: &String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !name.is_empty() && !name.starts_with('-') && name.chars().all(plain)
    };
    match all.iter().find(|name| !is_name(name)) {
        Some(name) => Err(format!("{name:?} is no name of a host")),
        None => Ok(all),
    }
}

/// Cuts a list at the commas that are not in brackets.
fn items(list: &str) -> Result<Vec<&str>, String> {
    let (mut items, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, c) in list.char_indices() {
        match c {
            '[' if inside => return Err("a bracket in a bracket".to_owned()),
            '[' => inside = true,
            ']' => inside = false,
            ',' if !inside => {
                items.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(&list[start..]);
    Ok(items)
}

/// The numbers of `07` or `08-10`, as wide as the first is written.
fn expand(range: &str, into: &mut Vec<String>) -> Result<(), String> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let number = |text: &str| -> Result<usize, String> {
        let is_number = !text.is_empty() && text.len() <= DIGITS && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|_| is_number).ok_or_else(|| format!("{range:?} is no range of numbers"))
    };
    let (from, to, width) = (number(first)?, number(last)?, first.len());
    if from > to {
        return Err(format!("{range:?} is no range of numbers"));
    }
    if to - from >= MOST_HOSTS || into.len() + (to - from) >= MOST_HOSTS {
        return Err(too_many());
    }
    into.extend((from..=to).map(|number| format!("{number:0width$}")));
    Ok(())
}

/// The counts that `2(x3),1` stands for.
fn counts(text: &str) -> Result<Vec<u32>, String> {
    let mut all = Vec::new();
    for item in text.split(',') {
        let odd = || format!("{item:?} is no number of tasks, such as 2 or 2(x3)");
        let (count, times) = match item.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')').ok_or_else(odd)?),
            None => (item, "1"),
        };
        let count: u32 = count.parse().ok().filter(|count| *count > 0).ok_or_else(odd)?;
        let times: usize = times.parse().ok().filter(|times| *times > 0).ok_or_else(odd)?;
        if times > MOST_HOSTS || all.len() + times > MOST_HOSTS {
            return Err(too_many());
        }
        all.extend(std::iter::repeat_n(count, times));
    }
    Ok(all)
}

fn too_many() -> String {
    format!("more than {MOST_HOSTS} hosts")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Option<Vec<(String, u32)>>, String> {
        let var = |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        match allocation(var) {
            Ok(hosts) => Ok(hosts.map(|all| all.into_iter().map(|host| (host.name, host.slots)).collect())),
            Err(refusal) => Err(refusal.why),
        }
    }

    #[test]
    fn a_hostlist_is_what_scontrol_would_say() {
        let cases: [(&str, &[&str]); 5] = [
            ("n[1-3,7],m2", &["n1", "n2", "n3", "n7", "m2"]),
            ("a", &["a"]),
            ("n[08-11]", &["n08", "n09", "n10", "n11"]),
            ("r[0-1]c[1-2]-x,a-b.c", &["r0c1-x", "r0c2-x", "r1c1-x", "r1c2-x", "a-b.c"]),
            ("n[5],n[6]", &["n5", "n6"]),
        ];
        for (list, expected) in cases {
            assert_eq!(names(list).unwrap(), expected, "{list}");
        }
        for list in [
            "",
            "n[",
            "n[1",
            "n[]",
            "n[2-1]",
            "n[a]",
            "n[1-9999999]",
            "n[1-",
            "n[[1]]",
            "a,,b",
            "-w",
            "a b",
            "n[0-99]m[0-99]",
        ] {
            names(list).unwrap_err();
        }
    }

    #[test]
    fn an_allocation_has_hosts_with_slots() {
        let job =
            [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "n[1-3]"), ("SLURM_TASKS_PER_NODE", "2(x2),1")];
        let expected = [("n1", 2), ("n2", 2), ("n3", 1)].map(|(name, slots)| (name.to_owned(), slots));
        assert_eq!(read(&job).unwrap().unwrap(), expected);
        assert_eq!(read(&job[..2]).unwrap().unwrap().iter().map(|(_, slots)| slots).sum::<u32>(), 3);
        assert_eq!(read(&job[1..]), Ok(None));
        for (tasks, words) in [
            ("2", "SLURM_TASKS_PER_NODE=2: tasks of 1 nodes"),
            ("2(x", "no number of tasks"),
            ("0(x3)", "no number"),
        ] {
            let why = read(&[job[0], job[1], ("SLURM_TASKS_PER_NODE", tasks)]).unwrap_err();
            assert!(why.contains(words) && why.contains("--host"), "{why}");
        }
    }

    #[test]
    fn one_host_that_is_this_one_needs_no_agent() {
        let host = |name: &str| Named { name: name.to_owned(), slots: 2, rack: None };
        let at =
            |name: &'static str| move |asked: &str| (asked == "SLURMD_NODENAME").then(|| name.to_owned());
        assert!(is_here(&[host("a")], at("a")));
        assert!(!is_here(&[host("a")], at("b")));
        assert!(!is_here(&[host("a")], |_| None));
        assert!(!is_here(&[host("a"), host("b")], at("a")));
    }

    proptest! {
        #[test]
        fn whatever_stands_in_the_environment_is_read_or_refused(list in "[a-c0-3,\\[\\]-]{0,24}", tasks in "[0-9(x),]{0,16}") {
            if let Ok(names) = names(&list) {
                prop_assert!((1..=MOST_HOSTS).contains(&names.len()));
            }
            if let Ok(counts) = counts(&tasks) {
                prop_assert!(counts.iter().all(|count| *count > 0));
            }
        }
    }
}
