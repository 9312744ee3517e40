//! Lines of fixed columns.

use std::fmt::Write as _;

use crate::base::{Bytes, Nanos};

/// Whether times are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Shown.
    Shown,
    /// Left out, with their columns.
    Hidden,
}

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its head.
    pub title: &'static str,
    /// Its width in characters. A longer text pushes the rest of its line to the right.
    pub width: usize,
    /// Figures stand right, words left.
    pub right: bool,
    /// Whether it holds a time.
    pub time: bool,
}

impl Column {
    /// A column of words.
    #[must_use]
    pub const fn word(title: &'static str, width: usize) -> Column {
        Column {
            title,
            width,
            right: false,
            time: false,
        }
    }

    /// A column of figures.
    #[must_use]
    pub const fn figure(title: &'static str, width: usize) -> Column {
        Column {
            title,
            width,
            right: true,
            time: false,
        }
    }

    /// A column of times.
    #[must_use]
    pub const fn time(title: &'static str, width: usize) -> Column {
        Column {
            title,
            width,
            right: true,
            time: true,
        }
    }
}

/// A value that prints as one line of a table.
pub trait Row {
    /// The columns, in order.
    const COLUMNS: &'static [Column];

    /// The texts of the columns, as many as there are columns.
    fn cells(&self) -> Vec<String>;

    /// The line.
    fn line(&self, times: Times) -> String {
        let cells = self.cells();
        line(Self::COLUMNS.iter().zip(cells.iter().map(String::as_str)), times)
    }

    /// The heads of the columns.
    #[must_use]
    fn heads(times: Times) -> String {
        line(Self::COLUMNS.iter().map(|column| (column, column.title)), times)
    }
}

fn line<'a>(cells: impl Iterator<Item = (&'a Column, &'a str)>, times: Times) -> String {
    let mut out = String::new();
    for (column, text) in cells.filter(|(column, _)| times == Times::Shown || !column.time) {
        let text = ascii(text);
        let width = column.width;
        // Writing to a string can't fail.
        let _ = if column.right {
            write!(out, "{text:>width$}  ")
        } else {
            write!(out, "{text:<width$}  ")
        };
    }
    out.truncate(out.trim_end().len());
    out
}

/// The text with all but printable ASCII escaped.
pub(crate) fn ascii(text: &str) -> String {
    let plain = |c: char| c == ' ' || c.is_ascii_graphic();
    if text.chars().all(plain) {
        return text.to_owned();
    }
    let escape = |c: char| {
        if plain(c) {
            c.to_string()
        } else {
            c.escape_default().to_string()
        }
    };
    text.chars().map(escape).collect()
}

/// Rows of one table that are printed. The values have all.
pub(crate) const ROWS_SHOWN: usize = 64;

/// A head, the column heads and the first [`ROWS_SHOWN`] rows; nothing where there are no rows.
pub(crate) fn table<R: Row>(title: &str, rows: &[R], times: Times) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let shown = rows.iter().take(ROWS_SHOWN);
    let mut lines: Vec<String> = shown.map(|row| row.line(times)).collect();
    if rows.len() > ROWS_SHOWN {
        lines.push(format!("and {} more", rows.len() - ROWS_SHOWN));
    }
    format!("{title}\n{}\n{}\n\n", R::heads(times), lines.join("\n"))
}

/// A sum that may be negative, as a readable size.
pub(crate) fn size(bytes: i128) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    let magnitude = i128::try_from(bytes.unsigned_abs()).unwrap_or(i128::MAX);
    format!("{sign}{}", Bytes::clamped(magnitude))
}

/// A time in ASCII.
pub(crate) fn span(nanos: Nanos) -> String {
    nanos.to_string().replace('µ', "u")
}

/// Implements `Display` as the line with times.
macro_rules! display_as_line {
    ($($name:ident),*) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&$crate::report::row::Row::line(self, $crate::report::row::Times::Shown))
            }
        }
    )*};
}
pub(crate) use display_as_line;

#[cfg(test)]
mod tests {
    use super::{ascii, size};

    #[test]
    fn names_from_a_trace_can_not_break_a_line() {
        assert_eq!(ascii("a b\n\u{1b}[2Jé"), "a b\\n\\u{1b}[2J\\u{e9}");
        assert_eq!(size(-1536), "-1.50 KiB");
    }
}
