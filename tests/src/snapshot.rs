//! Figures that are to stay as they are until somebody changes them on purpose: a table in a file, and the
//! comparison with what is measured now.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// A table of numbers: each row has a name and as many numbers as there are columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows in their order.
    pub rows: Vec<(String, Vec<u64>)>,
}

/// The variable that has a snapshot written instead of compared, if it is `write`.
const VARIABLE: &str = "SCASH_SNAPSHOT";

impl Table {
    /// The table as text: comments, the names of the columns, and the rows.
    pub fn to_text(&self, comment: &str) -> String {
        let width = self.rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut text = String::new();
        let mut line = |name: &str, cells: &mut dyn Iterator<Item = String>| {
            let cells: String = cells.map(|cell| format!(" {cell:>9}")).collect();
            let _ = writeln!(text, "{name:<width$}{cells}");
        };
        comment.lines().for_each(|comment| line(&format!("# {comment}"), &mut std::iter::empty()));
        line("", &mut self.columns.iter().cloned());
        self.rows.iter().for_each(|(name, row)| line(name, &mut row.iter().map(u64::to_string)));
        text.lines().fold(String::new(), |all, line| all + line.trim_end() + "\n")
    }

    /// The table that [`to_text`](Self::to_text) made into text.
    ///
    /// # Panics
    /// If it is none.
    pub fn from_text(text: &str) -> Self {
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let columns: Vec<String> =
            lines.next().unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        let row = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (name, numbers) = words.split_at(words.len().saturating_sub(columns.len()));
            let number = |word: &&str| word.parse().unwrap_or_else(|_| panic!("{word} is no number: {line}"));
            (name.join(" "), numbers.iter().map(number).collect())
        };
        let rows = lines.map(row).collect();
        Table { columns, rows }
    }

    /// Every figure that is not the same in `new`, one a line.
    fn differences(&self, new: &Table) -> Vec<String> {
        let figures = |table: &Table| -> BTreeMap<(String, String), u64> {
            let of_row = |(name, row): &(String, Vec<u64>)| {
                let name = name.clone();
                let cells = table.columns.clone().into_iter().zip(row.clone());
                cells.map(move |(column, figure)| ((name.clone(), column), figure)).collect::<Vec<_>>()
            };
            table.rows.iter().flat_map(of_row).collect()
        };
        let (before, after) = (figures(self), figures(new));
        let mut lines = Vec::new();
        for ((row, column), &now) in &after {
            match before.get(&(row.clone(), column.clone())) {
                None => lines.push(format!("{row}: {column} {now}, of which the snapshot knows nothing")),
                Some(&then) if then < now => lines.push(format!("{row}: {column} ROSE from {then} to {now}")),
                Some(&then) if then > now => lines.push(format!("{row}: {column} fell from {then} to {now}")),
                Some(_) => {}
            }
        }
        let gone = before.keys().filter(|key| !after.contains_key(*key));
        lines.extend(gone.map(|(row, column)| format!("{row}: {column} is in the snapshot alone")));
        lines
    }

    /// Holds the table to the one in a file; or, if `SCASH_SNAPSHOT=write`, writes the file.
    ///
    /// # Errors
    /// Which figures differ, and what to do about it: `accept` is the command that runs the test.
    pub fn compare(&self, path: &Path, comment: &str, accept: &str) -> Result<(), String> {
        let writes = std::env::var_os(VARIABLE).is_some_and(|value| value == "write");
        self.compare_or_write(path, comment, accept, writes)
    }

    fn compare_or_write(&self, path: &Path, comment: &str, accept: &str, writes: bool) -> Result<(), String> {
        let told = |error: std::io::Error| format!("{}: {error}", path.display());
        let write = format!("{VARIABLE}=write {accept}");
        if writes {
            return std::fs::write(path, self.to_text(comment)).map_err(told);
        }
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}\nTo make it: {write}", told(e)))?;
        let differences = Table::from_text(&text).differences(self);
        if differences.is_empty() {
            return Ok(());
        }
        Err(format!(
            "{}\n\nWhat rose is a loss, unless the change is worth it: then accept it, and say why in the commit's message.\n\
             What fell is a gain: write it down, so that it stays.\nBoth by: {write}",
            differences.join("\n")
        ))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn table(rows: &[(&str, [u64; 2])]) -> Table {
        let rows = rows.iter().map(|(name, row)| ((*name).to_owned(), row.to_vec())).collect();
        Table { columns: vec!["messages".to_owned(), "faults".to_owned()], rows }
    }

    #[test]
    fn a_table_is_the_same_when_it_comes_back_from_text() {
        let table = table(&[("lu 4 shm", [12, 0]), ("counter-lock 16 tcp", [7, u64::MAX])]);
        assert_eq!(Table::from_text(&table.to_text("What it is.\nAnd why.")), table);
    }

    #[test]
    fn every_figure_that_rose_fell_came_or_went_is_named() {
        let old = table(&[("lu", [100, 10]), ("fft", [5, 5]), ("gone", [1, 1])]);
        let new = table(&[("lu", [101, 9]), ("fft", [5, 5]), ("new", [2, 2])]);
        assert_eq!(
            old.differences(&new),
            [
                "lu: faults fell from 10 to 9",
                "lu: messages ROSE from 100 to 101",
                "new: faults 2, of which the snapshot knows nothing",
                "new: messages 2, of which the snapshot knows nothing",
                "gone: faults is in the snapshot alone",
                "gone: messages is in the snapshot alone",
            ]
        );
        assert!(old.differences(&old).is_empty());
    }

    #[test]
    fn a_failed_comparison_says_how_to_accept_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("table.txt");
        let compare = |table: &Table, writes| table.compare_or_write(&path, "", "cargo test x", writes);
        let missing = compare(&table(&[]), false).unwrap_err();
        assert!(
            missing.contains("table.txt") && missing.contains("SCASH_SNAPSHOT=write cargo test x"),
            "{missing}"
        );
        assert_eq!(compare(&table(&[("lu", [3, 4])]), true), Ok(()));
        assert_eq!(compare(&table(&[("lu", [3, 4])]), false), Ok(()));
        let text = compare(&table(&[("lu", [3, 5])]), false).unwrap_err();
        assert!(text.contains("lu: faults ROSE from 4 to 5"), "{text}");
        assert!(text.contains("SCASH_SNAPSHOT=write cargo test x"), "{text}");
    }
}
