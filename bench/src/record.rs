//! The line of JSON that every program and every benchmark prints: one object a measurement.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A measurement: what was run, on what, and what it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The program's name.
    pub program: String,
    /// What of it: of a program, on what its workers run; of `scash-micro`, what was measured.
    pub mode: String,
    /// Number of ranks.
    pub ranks: usize,
    /// Threads of each rank.
    pub threads: usize,
    /// What carries data between the ranks.
    pub provider: Option<String>,
    /// What notices accesses to shared memory.
    pub engine: Option<String>,
    /// What the timed part took.
    pub seconds: f64,
    /// Whether the result is right, if that was looked at: `"equal"` or `"different"`.
    pub check: Option<String>,
    /// The parts of the memory barrier. This and what follows is 0 where memory is not shared.
    #[serde(default)]
    pub barrier: BarrierSeconds,
    /// Page faults taken.
    #[serde(default)]
    pub faults: u64,
    /// Messages sent.
    #[serde(default)]
    pub messages: u64,
    /// Bytes moved.
    #[serde(default)]
    pub bytes: u64,
    /// Figures of a benchmark, by name. The last word of a name is the unit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
    /// All else that the line has: the program's parameters.
    #[serde(flatten)]
    pub parameters: Map<String, Value>,
}

/// Seconds in each of the memory barrier's parts, over all barriers of the timed part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BarrierSeconds {
    /// Waiting for all ranks.
    pub sync: f64,
    /// Finding and sending what changed.
    pub diff: f64,
    /// Bringing copies up to date.
    pub update: f64,
}

/// The records in what a program printed: one a line.
///
/// # Errors
/// A line is none, which is quoted.
pub fn parse(text: &str) -> Result<Vec<Record>, String> {
    let record =
        |line: &str| serde_json::from_str(line).map_err(|error| format!("{error} in the line {line:?}"));
    text.lines().map(record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"program":"lu","mode":"dsm","threads":1,"provider":"shm","engine":"uffd","ranks":2,
        "size":2048,"repetition":0,"seconds":0.25,"check":null,"barrier":{"sync":0.5,"diff":0.25,"update":0.125},
        "faults":1,"messages":2,"bytes":3}"#;

    #[test]
    fn a_programs_line_is_read_and_keeps_its_parameters() {
        let records = parse(&LINE.replace('\n', "")).unwrap();
        let [record] = &records[..] else { panic!("{records:?}") };
        assert_eq!((record.seconds, record.barrier.diff, record.bytes), (0.25, 0.25, 3));
        assert_eq!((record.parameters["size"].as_u64(), record.figures.len()), (Some(2048), 0));
        let again = serde_json::to_string(record).unwrap();
        assert_eq!(parse(&again).unwrap(), records);
    }

    #[test]
    fn a_line_that_is_no_record_is_quoted() {
        let error = parse("hello\n").unwrap_err();
        assert!(error.contains("\"hello\""), "{error}");
        assert!(parse(r#"{"program":"lu"}"#).is_err());
    }

    #[test]
    fn a_program_that_passes_messages_need_not_tell_what_memory_cost() {
        let line = r#"{"program":"nas","mode":"scash","ranks":2,"threads":1,"seconds":0.5,"kernel":"is"}"#;
        let record = parse(line).unwrap().remove(0);
        assert_eq!((record.provider, record.check, record.faults), (None, None, 0));
        assert_eq!(record.parameters["kernel"], "is");
    }
}
