//! Tables as text: the first column to the left, numbers to the right.

use scash_bench::figures::Spread;
use std::fmt;

/// Lines of cells.
#[derive(Debug, Default)]
pub(super) struct Table {
    lines: Vec<Vec<String>>,
}

impl Table {
    /// A table with a line of column names.
    pub(super) fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Table {
        let mut table = Table::default();
        table.line(names);
        table
    }

    /// Adds a line.
    pub(super) fn line<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.lines.push(cells.into_iter().map(Into::into).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.lines.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        for line in &self.lines {
            let mut text = String::new();
            for (column, (cell, &width)) in line.iter().zip(&widths).enumerate() {
                text += &if column == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

/// A number of three significant digits or more; `-` if there is none.
pub(super) fn number(value: Option<f64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    let digits = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// A ratio and how far it reached: `1.94 (1.90–1.97)`.
pub(super) fn spread(spread: Option<Spread>) -> String {
    spread.map_or_else(|| "-".to_owned(), |s| format!("{:.2} ({:.2}–{:.2})", s.median, s.min, s.max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_left_and_numbers_right_whatever_their_length() {
        let mut table = Table::new(["", "ms", "µs/page"]);
        table.line(["sequential", "28.7", "1"]);
        table.line(["2 µ", "9", ""]);
        assert_eq!(
            table.to_string(),
            "              ms  µs/page\nsequential  28.7        1\n2 µ            9\n"
        );
    }

    #[test]
    fn numbers_have_three_digits_that_matter() {
        for (value, text) in [
            (0.0, "0.00"),
            (1.2345, "1.23"),
            (9.999, "10.0"),
            (12.34, "12.3"),
            (99.96, "100"),
            (4096.4, "4096"),
        ] {
            assert_eq!(number(Some(value)), text);
        }
        assert_eq!(number(None), "-");
    }

    #[test]
    fn a_spread_shows_its_ends() {
        let it = Spread { median: 1.944, min: 1.9, max: 2.0 };
        assert_eq!(spread(Some(it)), "1.94 (1.90–2.00)");
        assert_eq!(spread(None), "-");
    }
}
