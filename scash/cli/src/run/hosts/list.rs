//! Which hosts the user names, with how many slots each, and how ranks are dealt to them.

use crate::run::{Refusal, status};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use scash_join::boot::{Layout, MOST_HOSTS};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Most bytes of a file of hosts.
const MOST: usize = 16 << 20;
/// Milliseconds in which somebody must begin to write to a pipe that is given as that file.
const SILENCE: u16 = 2_000;

/// A host that the user has named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::run) struct Named {
    pub(in crate::run) name: String,
    /// Ranks that it has room for; none if it is spare.
    pub(in crate::run) slots: u32,
    /// What it shares with others that may be lost with it.
    pub(in crate::run) rack: Option<String>,
}

/// Hosts that have ranks, and behind them spare ones.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::run) struct Dealt {
    pub(in crate::run) names: Vec<String>,
    pub(in crate::run) layout: Layout,
    /// The number of each host's rack, which it has alone if none is named for it; empty if none is for any.
    pub(in crate::run) racks: Vec<u32>,
}

/// What stands where slots stand if a host is there for the ranks of one that is lost.
const SPARE: &str = "spare";

/// Reads the values of `--host`: names with commas between them, each with its slots behind a colon or with
/// one, or with `spare`.
pub(in crate::run) fn from_options(values: &[String]) -> Result<Vec<Named>, Refusal> {
    let items = values.iter().flat_map(|value| value.split(','));
    let read = |item: &str| from_item(item).map_err(|why| usage(format!("--host {item}: {why}")));
    items.map(read).collect::<Result<_, _>>().map(merged)
}

fn from_item(item: &str) -> Result<Named, String> {
    let (name, slots) = match item.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, "")) => (name, None),
        Some((name, slots)) => (name, Some(slots.strip_prefix(':').ok_or("expected [ADDRESS]:SLOTS")?)),
        // An IPv6 address without brackets has no slots.
        None if item.matches(':').count() > 1 => (item, None),
        None => item.split_once(':').map_or((item, None), |(name, slots)| (name, Some(slots))),
    };
    named(name, slots)
}

/// Reads a file of hosts.
pub(in crate::run) fn from_file(path: &Path) -> Result<Vec<Named>, Refusal> {
    let shown = path.display();
    let text = read(path).map_err(|why| usage(format!("reading the hosts in {shown}: {why}")))?;
    from_text(&text).map_err(|(line, why)| usage(format!("{shown}, line {line}: {why}")))
}

/// The text of a file that may be anything: the text says why there is none.
fn read(path: &Path) -> Result<String, String> {
    // A pipe without a writer is not waited for here.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let mut file = file.map_err(|error| error.to_string())?;
    let kind = file.metadata().map_err(|error| error.to_string())?.file_type();
    if kind.is_dir() {
        return Err("it is a directory".to_owned());
    }
    let (mut bytes, mut part, mut may_wait) = (Vec::new(), vec![0; 64 << 10], kind.is_fifo());
    loop {
        match file.read(&mut part) {
            // Without a writer a pipe looks as if it had ended.
            Ok(0) if may_wait && bytes.is_empty() => wait(&file, SILENCE.into()),
            Ok(0) => break,
            Ok(length) => bytes.extend_from_slice(&part[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait(&file, PollTimeout::NONE),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.to_string()),
        }
        may_wait = false;
        if bytes.len() > MOST {
            return Err(format!("it has more than {} MiB: is it a list of hosts?", MOST >> 20));
        }
    }
    if kind.is_fifo() && bytes.is_empty() {
        return Err("nobody has written to this pipe".to_owned());
    }
    String::from_utf8(bytes).map_err(|_| "it is not text (UTF-8)".to_owned())
}

/// Waits until something can be read, or for so long.
fn wait(file: &File, limit: PollTimeout) {
    let _ = poll(&mut [PollFd::new(file.as_fd(), PollFlags::POLLIN)], limit);
}

/// Reads the text of such a file: `NAME [slots=N] [rack=R]` or `NAME spare [rack=R]` in each line, and
/// comments behind `#`. An error has the number of its line.
fn from_text(text: &str) -> Result<Vec<Named>, (usize, String)> {
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(name) = words.next() else { continue };
        let host = from_words(name, words);
        hosts.push(host.map_err(|why| (number, why))?);
    }
    Ok(merged(hosts))
}

/// Reads what stands behind a host's name in its line.
fn from_words<'a>(name: &str, words: impl Iterator<Item = &'a str>) -> Result<Named, String> {
    let (mut slots, mut rack) = (None, None);
    for word in words {
        match word.split_once('=') {
            Some(("slots", count)) if slots.is_none() && count != SPARE => slots = Some(count),
            Some(("rack", name)) if rack.is_none() && !name.is_empty() => rack = Some(name.to_owned()),
            None if word == SPARE && slots.is_none() => slots = Some(word),
            _ => {
                let word = brief(word);
                return Err(format!("expected NAME [slots=N] [rack=R] or NAME spare [rack=R], not {word:?}"));
            }
        }
    }
    Ok(Named { rack, ..named(name, slots)? })
}

fn named(name: &str, slots: Option<&str>) -> Result<Named, String> {
    // What begins with a dash would be an option of the remote shell's command.
    if name.is_empty()
        || name.starts_with('-')
        || name.contains(|c: char| c.is_whitespace() || c.is_control())
    {
        return Err(format!("{:?} is no name of a host", brief(name)));
    }
    let slots = match slots {
        None => 1,
        Some(SPARE) => 0,
        Some(text) => text
            .parse()
            .ok()
            .filter(|slots| *slots > 0)
            .ok_or_else(|| format!("{:?} is no number of slots: expected 1 or more", brief(text)))?,
    };
    Ok(Named { name: name.to_owned(), slots, rack: None })
}

/// As much of a word as people care to read.
fn brief(word: &str) -> String {
    const MOST: usize = 60;
    if word.chars().nth(MOST).is_none() {
        word.to_owned()
    } else {
        word.chars().take(MOST).chain(['…']).collect()
    }
}

/// Each host once, where it is named first, with all its slots.
fn merged(hosts: Vec<Named>) -> Vec<Named> {
    let mut all: Vec<Named> = Vec::new();
    for host in hosts {
        match all.iter_mut().find(|known| known.name == host.name) {
            Some(known) => {
                known.slots = known.slots.saturating_add(host.slots);
                known.rack = known.rack.take().or(host.rack);
            }
            None => all.push(host),
        }
    }
    all
}

/// Deals ranks to hosts in order, filling the slots of each before the next; without `ranks`, fills all.
pub(in crate::run) fn deal(hosts: Vec<Named>, ranks: Option<u32>) -> Result<Dealt, Refusal> {
    let room: u64 = hosts.iter().map(|host| u64::from(host.slots)).sum();
    let wanted = ranks.map_or(room, u64::from);
    if hosts.is_empty() {
        return Err(usage("no host is named: `--host a,b:2`, or lines `NAME [slots=N]` in --hostfile"));
    }
    if room == 0 {
        return Err(usage("all hosts are spare: name some that ranks start on"));
    }
    if wanted > room {
        return Err(usage(format!(
            "{wanted} ranks, and the hosts have {room} slots: give them more (`--host {}:{wanted}`, or slots={wanted} in \
             --hostfile), or start fewer ranks",
            hosts[0].name
        )));
    }
    let most = u64::from(u16::MAX);
    let (mut taken, mut counts, mut left) = (Vec::new(), Vec::new(), wanted);
    let (spares, hosts): (Vec<Named>, Vec<Named>) = hosts.into_iter().partition(|host| host.slots == 0);
    for host in hosts {
        let count = left.min(u64::from(host.slots));
        left -= count;
        if count > 0 {
            taken.push(host);
            counts.push(u32::try_from(count).unwrap_or(u32::MAX));
        }
    }
    let spare = u32::try_from(spares.len()).unwrap_or(u32::MAX);
    taken.extend(spares);
    let layout = Layout::with_spares(&counts, spare).filter(|_| wanted <= most);
    let layout = layout.ok_or_else(|| {
        usage(format!(
            "{wanted} ranks on {} hosts: {most} ranks and {MOST_HOSTS} hosts are the most",
            taken.len()
        ))
    })?;
    let racks = racks(&taken);
    Ok(Dealt { names: taken.into_iter().map(|host| host.name).collect(), layout, racks })
}

/// The numbers of the hosts' racks.
fn racks(hosts: &[Named]) -> Vec<u32> {
    if hosts.iter().all(|host| host.rack.is_none()) {
        return Vec::new();
    }
    let first = |(number, host): (u32, &Named)| {
        let is_same = |(_, other): &(u32, &Named)| host.rack.is_some() && other.rack == host.rack;
        (0..).zip(hosts).find(is_same).map_or(number, |(number, _)| number)
    };
    (0..).zip(hosts).map(first).collect()
}

fn usage(why: impl Into<String>) -> Refusal {
    Refusal::new(status::USAGE, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(values: &[&str]) -> Vec<(String, u32)> {
        let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        from_options(&values).unwrap().into_iter().map(|host| (host.name, host.slots)).collect()
    }

    fn pairs(pairs: &[(&str, u32)]) -> Vec<(String, u32)> {
        pairs.iter().map(|(name, slots)| ((*name).to_owned(), *slots)).collect()
    }

    #[test]
    fn a_host_has_the_slots_behind_its_colon_or_one() {
        assert_eq!(hosts(&["a,b:2", "me@c:3"]), pairs(&[("a", 1), ("b", 2), ("me@c", 3)]));
        assert_eq!(
            hosts(&["fd00::1,[fd00::2]:4,[::3]"]),
            pairs(&[("fd00::1", 1), ("fd00::2", 4), ("::3", 1)])
        );
    }

    #[test]
    fn a_host_that_is_named_twice_has_the_slots_of_both() {
        assert_eq!(hosts(&["a:2,b", "a"]), pairs(&[("a", 3), ("b", 1)]));
    }

    #[test]
    fn a_file_has_a_host_in_each_line_and_comments() {
        let read = from_text("# ours\n\na slots=2 # two\n  b\n").unwrap();
        let read: Vec<_> = read.into_iter().map(|host| (host.name, host.slots)).collect();
        assert_eq!(read, pairs(&[("a", 2), ("b", 1)]));
        for (text, line, word) in
            [("a\nb 2", 2, "\"2\""), ("a slots=2 x", 1, "\"x\""), ("a slots=0", 1, "\"0\"")]
        {
            let (number, why) = from_text(text).unwrap_err();
            assert!(number == line && why.contains(word), "{number}: {why}");
        }
    }

    #[test]
    fn hosts_of_one_rack_have_one_number_and_others_have_their_own() {
        let text = "a slots=2 rack=north\nb rack=north slots=1\nc\nd spare rack=south\ne rack=south\n";
        let dealt = deal(from_text(text).unwrap(), None).unwrap();
        assert_eq!(dealt.names, ["a", "b", "c", "e", "d"]);
        assert_eq!(dealt.racks, [0, 0, 2, 3, 3]);
        for wrong in ["a rack=", "a rack=x rack=y", "a spare slots=2", "a slots=1 slots=2"] {
            assert!(from_text(wrong).unwrap_err().1.contains("[rack=R]"), "{wrong}");
        }
    }

    #[test]
    fn a_file_that_is_no_list_of_hosts_is_refused_with_what_is_wrong() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            std::fs::write(directory.path().join(name), bytes).unwrap();
            directory.path().join(name)
        };
        let fifo = directory.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for (path, words) in [
            ("/dev/zero".into(), "it has more than 16 MiB"),
            (directory.path().to_owned(), "it is a directory"),
            (directory.path().join("none"), "No such file"),
            (file("binary", &[0x7f, b'E', 0xff]), "it is not text"),
            (file("zeros", &[0; 4000]), "is no name of a host"),
            (file("long", &[b'\x01'; 100_000]), "is no name of a host"),
            (fifo, "nobody has written to this pipe"),
        ] {
            let refusal = from_file(&path).unwrap_err();
            assert_eq!(refusal.status, status::USAGE);
            assert!(refusal.why.contains(words) && refusal.why.len() < 1000, "{}", refusal.why);
            assert!(refusal.why.contains(path.to_str().unwrap()), "{}", refusal.why);
        }
        assert!(from_file(Path::new("/dev/null")).unwrap().is_empty());
        assert_eq!(from_file(&file("good", b"a slots=2\n")).unwrap().len(), 1);
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for value in ["", "a,,b", "a:", "a:0", "a:x", "-oProxyCommand=x", "a b", "[::1]2"] {
            let refusal = from_options(&[value.to_owned()]).unwrap_err();
            assert!(refusal.status == status::USAGE && refusal.why.starts_with("--host "), "{}", refusal.why);
        }
    }

    #[test]
    fn ranks_fill_each_hosts_slots_in_turn() {
        let dealt = |ranks| deal(from_options(&["a:2,b:3,c".to_owned()]).unwrap(), ranks);
        let Dealt { names, layout, racks } = dealt(Some(3)).unwrap();
        assert!(racks.is_empty());
        assert_eq!((names, layout), (vec!["a".into(), "b".into()], Layout::new(&[2, 1]).unwrap()));
        assert_eq!(dealt(None).unwrap().layout, Layout::new(&[2, 3, 1]).unwrap());
        let why = dealt(Some(7)).unwrap_err().why;
        assert!(why.contains("7 ranks, and the hosts have 6 slots: give them more"), "{why}");
        assert!(deal(Vec::new(), None).unwrap_err().why.contains("no host is named"));
        let many = vec![Named { name: "a".into(), slots: 70_000, rack: None }];
        assert!(deal(many, None).unwrap_err().why.contains("65535 ranks"));
        let spared = deal(from_options(&["s:spare,a:2,b".to_owned()]).unwrap(), Some(2)).unwrap();
        let Dealt { names, layout, .. } = spared;
        assert_eq!((names, layout), (vec!["a".into(), "s".into()], Layout::with_spares(&[2], 1).unwrap()));
        assert!(
            deal(from_options(&["s:spare".to_owned()]).unwrap(), None)
                .unwrap_err()
                .why
                .contains("all hosts are spare")
        );
    }
}
