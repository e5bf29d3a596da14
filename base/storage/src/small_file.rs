//! Small files that operators may replace while the process runs, such as a password.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};

/// Reads the text of a regular file of at most `bytes_max` bytes. The file is read beside the tasks
/// of the process, and the wait ends after `patience`. Otherwise a share that does not answer would
/// hold the tasks up. `held` is dropped at the end of the reading, which may come after the wait.
pub async fn read_small_file(
    file: PathBuf,
    bytes_max: u64,
    patience: Duration,
    held: impl Send + 'static,
) -> io::Result<String> {
    let reading = tokio::task::spawn_blocking(move || {
        let _held = held;
        read_small_file_now(&file, bytes_max)
    });
    match tokio::time::timeout(patience, reading).await {
        Ok(read) => read.map_err(io::Error::other)?,
        Err(_) => Err(io::Error::other("it was not read in time")),
    }
}

/// Reads such a file without a limit on the wait. Only the start of a process may do so.
pub fn read_small_file_now(file: &Path, bytes_max: u64) -> io::Result<String> {
    // Opening a pipe would wait for a writer.
    if !fs::metadata(file)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = String::new();
    fs::File::open(file)?.take(bytes_max + 1).read_to_string(&mut text)?;
    if text.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("it has more than {bytes_max} bytes")));
    }
    Ok(text)
}
