//! Tables for people, JSON documents for programs.

use std::{
    fmt::Display,
    io::{self, Write as _},
    path::Path,
};

use cloakwork_client::{Timestamp, printable_json};
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::{
    failure::Failure,
    visible::{one_line, visible},
};

/// Rows under a header, with columns as wide as their widest cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<const N: usize>(header: [&str; N]) -> Self {
        Self { rows: vec![header.map(str::to_owned).to_vec()] }
    }

    /// Adds a row. A cell stays within its line and column, whatever text of the server it has.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.iter().map(|cell| one_line(cell)).collect());
    }

    /// The table as text, with columns of numbers aligned to the right.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cells = |column: usize| self.rows.iter().filter_map(move |row| row.get(column));
        let width = |column| cells(column).map(|cell| cell.chars().count()).max().unwrap_or(0);
        let number =
            |column| cells(column).skip(1).all(|cell| cell.starts_with(|first: char| "-0123456789".contains(first)));
        let layout: Vec<(usize, bool)> = (0..columns).map(|column| (width(column), number(column))).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, &(width, number)) in row.iter().zip(&layout) {
                let padded = if number { format!("{cell:>width$}  ") } else { format!("{cell:<width$}  ") };
                line.push_str(&padded);
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Prints either the document or the text.
pub(crate) fn show(json: bool, document: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> Result<(), Failure> {
    print(&if json { format!("{}\n", printable_json(&document().to_string())) } else { visible(&text()) })
}

/// Prints a text. A failed write is an error, because the caller of the program must know that
/// output is lost.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has seen enough and closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => written
            .map_err(|error| Failure::Io(io::Error::new(error.kind(), format!("nothing can be printed: {error}")))),
    }
}

/// Refuses a file that cannot be written: the file exists, or its directory accepts no new file.
pub(crate) fn check_new(path: &Path) -> Result<(), Failure> {
    let problem = match path.symlink_metadata() {
        Ok(_) => return Err(there_already(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return draft(path).map(drop),
        Err(error) => error,
    };
    Err(Failure::Usage(format!("{}: {problem}", path.display())))
}

/// Writes a new file, whole or not at all, even if the process ends meanwhile.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut draft = draft(path)?;
    let written = draft.write_all(bytes).and_then(|()| draft.as_file().sync_all());
    let placed = written.and_then(|()| draft.persist_noclobber(path).map_err(|error| error.error));
    placed.map(drop).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => there_already(path),
        kind => Failure::Io(io::Error::new(kind, format!("{}: {error}", path.display()))),
    })
}

/// A temporary file beside the final path.
fn draft(path: &Path) -> Result<NamedTempFile, Failure> {
    let wrong = |problem: &dyn Display| Failure::Usage(format!("{}: {problem}", path.display()));
    if [&b"/"[..], b"/."].iter().any(|end| path.as_os_str().as_encoded_bytes().ends_with(end)) {
        return Err(wrong(&"it names a directory: expected a file"));
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut options = tempfile::Builder::new();
    options.prefix(".cloakwork-");
    // Mode of any new file. The user's mask removes bits from it.
    #[cfg(unix)]
    options.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    options.tempfile_in(directory).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => wrong(&format_args!("there is no directory {}", directory.display())),
        kind => wrong(&kind),
    })
}

/// The failure of a file that already exists.
pub(crate) fn there_already(path: &Path) -> Failure {
    Failure::Usage(format!("{}: it is there already, and is not overwritten", path.display()))
}

/// A count with its noun in the singular or the plural.
pub(crate) fn counted(count: u64, one: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count => format!("{count} {one}s"),
    }
}

/// Formats a duration, for example as `12.3 ms`.
pub(crate) fn duration(nanos: u64) -> String {
    let value = nanos as f64;
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{:.1} us", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", value / 1e6),
        _ => format!("{:.2} s", value / 1e9),
    }
}

/// Formats a time of day to the second, as `2026-01-31T12:00:00Z`, or `-` for none.
pub(crate) fn time(time: Option<&Timestamp>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| Timestamp { nanos: 0, ..*time }.to_string())
}

/// Formats a size, for example as `12.3 MB`.
pub(crate) fn bytes(count: u64) -> String {
    let value = count as f64;
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{:.1} kB", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", value / 1e6),
        _ => format!("{:.2} GB", value / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_cells_and_numbers_go_right() {
        let mut table = Table::new(["name", "count"]);
        table.row(["a".into(), "7".into()]);
        table.row(["longer".into(), "123".into()]);
        assert_eq!(table.render(), "name    count\na           7\nlonger    123\n");
    }

    #[test]
    fn terminal_control_characters_are_escaped() {
        assert_eq!(visible("naïve\n\u{1b}[2J\r\u{9b}1m"), "naïve\n\\u{1b}[2J\\r\\u{9b}1m");
        assert_eq!(visible("\u{202e}a\n"), "\\u{202e}a\n");
    }

    #[test]
    fn a_cell_stays_in_its_line_and_column() {
        let mut table = Table::new(["name", "why"]);
        table.row(["a\nb".into(), "\u{202e}x".into()]);
        table.row(["longer".into(), "y".into()]);
        assert_eq!(table.render(), "name    why\na\\nb    \\u{202e}x\nlonger  y\n");
    }

    #[test]
    fn times_are_shown_to_the_second() {
        let at = |seconds| Timestamp { seconds, nanos: 999_999_999 };
        assert_eq!(time(Some(&at(1_769_860_800))), "2026-01-31T12:00:00Z");
        assert_eq!(time(None), "-");
        // Any number that a server may send has a text.
        for seconds in [i64::MIN, -1, i64::MAX] {
            assert!(time(Some(&at(seconds))).ends_with('Z'));
        }
    }

    #[test]
    fn new_files_are_whole_and_replace_nothing() {
        let home = tempfile::tempdir().expect("a directory");
        let [x, absent] = ["x", "none/x"].map(|name| home.path().join(name));
        check_new(&x).expect("nothing is there");
        write_new(&x, b"whole").expect("a file");
        for refused in [check_new(&x), write_new(&x, b"another")] {
            assert!(refused.expect_err("it is there").to_string().contains("not overwritten"));
        }
        for refused in [absent, home.path().join("new/"), home.path().join("new/.")] {
            check_new(&refused).expect_err("no directory");
        }
        let left: Vec<_> = std::fs::read_dir(home.path()).expect("a directory").collect();
        assert_eq!((left.len(), std::fs::read(&x).expect("a file").as_slice()), (1, &b"whole"[..]));
    }

    #[test]
    fn units_fit_their_numbers() {
        let durations = [999, 1_500, 2_345_678, 90_000_000_000].map(duration);
        assert_eq!(durations, ["999 ns", "1.5 us", "2.35 ms", "90.00 s"]);
        assert_eq!([999, 30_100_000, 4_000_000_000].map(bytes), ["999 B", "30.1 MB", "4.00 GB"]);
        assert_eq!([0, 1, 2].map(|count| counted(count, "row")), ["0 rows", "1 row", "2 rows"]);
    }
}
