//! Where in the program an instruction is: for peers, whose addresses are others, in words of file and
//! offset; for people, with the source line where the file tells it.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ops::Range;

/// Source lines of one instruction that are told: where it is, and what that was inlined into.
const MOST_LINES: usize = 3;

/// What was found out about instructions.
#[derive(Debug, Default)]
pub(super) struct SourceLines {
    words: BTreeMap<u64, String>,
    lines: BTreeMap<String, String>,
}

/// A piece of a file that is mapped.
struct Mapping {
    range: Range<usize>,
    path: String,
}

impl SourceLines {
    /// An instruction as `file+0xoffset`, as `addr2line -e file` takes them; empty if it is in no file.
    pub(super) fn words(&mut self, pc: u64) -> String {
        let known = self.words.entry(pc).or_insert_with(|| words(pc).unwrap_or_default());
        known.clone()
    }

    /// The same for people, with source lines.
    pub(super) fn with_lines(&mut self, words: &str) -> String {
        if let Some(known) = self.lines.get(words) {
            return known.clone();
        }
        let told = match lines(words) {
            Some(lines) if !lines.is_empty() => format!("{lines}, {words}"),
            _ => words.to_owned(),
        };
        self.lines.insert(words.to_owned(), told.clone());
        told
    }
}

fn words(pc: u64) -> Option<String> {
    let (pc, maps) = (usize::try_from(pc).ok()?, mappings());
    let path = &maps.iter().find(|m| m.range.contains(&pc))?.path;
    Some(format!("{path}+{:#x}", pc - base(&maps, path)?))
}

/// Where the file is mapped: its first piece.
fn base(maps: &[Mapping], path: &str) -> Option<usize> {
    maps.iter().filter(|m| m.path == path).map(|m| m.range.start).min()
}

/// The source lines of an instruction of this or another process of the program.
fn lines(words: &str) -> Option<String> {
    let (path, offset) = words.rsplit_once("+0x")?;
    let offset = usize::from_str_radix(offset, 16).ok()?;
    // It looks up the instruction before: it expects return addresses.
    let pc = base(&mappings(), path)?.checked_add(offset)?.checked_add(1)?;
    let mut lines: Vec<String> = Vec::new();
    backtrace::resolve(std::ptr::without_provenance_mut::<c_void>(pc), |symbol| {
        let (Some(file), Some(line)) = (symbol.filename(), symbol.lineno()) else { return };
        // The standard library's own lines say little.
        if !file.starts_with("/rustc") && lines.len() < MOST_LINES {
            lines.push(format!("{}:{line}", short(&file.to_string_lossy())));
        }
    });
    Some(lines.join(" in "))
}

/// The last two parts of a path.
fn short(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/').map(|(at, _)| at + 1);
    slashes.nth(1).map_or(path, |at| &path[at..])
}

/// The files that this process has mapped.
fn mappings() -> Vec<Mapping> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter_map(mapping).collect()
}

/// A line such as `55d0-55f0 r-xp 00002000 08:01 131 /usr/bin/cat`.
fn mapping(line: &str) -> Option<Mapping> {
    let path = &line[line.find('/')?..];
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some(Mapping { range: number(start)?..number(end)?, path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_of_this_program_is_told_with_its_file_and_a_source_line() {
        let mut places = SourceLines::default();
        let here = an_instruction_of_this_program_is_told_with_its_file_and_a_source_line as fn();
        let words = places.words(here as usize as u64);
        let program = std::env::current_exe().unwrap();
        assert!(words.starts_with(&format!("{}+0x", program.display())), "{words}");
        let told = places.with_lines(&words);
        assert!(told.contains("source_lines.rs:") && told.ends_with(&words), "{told}");
    }

    #[test]
    fn what_is_in_no_file_has_no_words() {
        let mut places = SourceLines::default();
        assert_eq!(places.words(0), "");
        let local = 0u8;
        assert_eq!(places.words(&raw const local as usize as u64), "");
        assert_eq!(places.with_lines(""), "");
        assert_eq!(places.with_lines("/no/such/file+0x12"), "/no/such/file+0x12");
        assert_eq!(places.with_lines("junk+0xzz"), "junk+0xzz");
    }

    #[test]
    fn lines_of_the_list_of_mappings_are_read() {
        let one = mapping("55d0a000-55d0c000 r-xp 00002000 08:01 131   /usr/bin/a file").unwrap();
        assert_eq!((one.range, one.path.as_str()), (0x55d0_a000..0x55d0_c000, "/usr/bin/a file"));
        assert!(mapping("7ffd1000-7ffd2000 rw-p 00000000 00:00 0   [stack]").is_none());
        assert_eq!(
            (short("/a/b/src/main.rs"), short("main.rs"), short("/main.rs")),
            ("src/main.rs", "main.rs", "/main.rs")
        );
    }
}
