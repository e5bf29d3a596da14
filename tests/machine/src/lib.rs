//! What a benchmark ran on, and when: without it, a figure says nothing.

#![forbid(unsafe_code)]

use std::{fs, process::Command};

/// The processor.
pub fn cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_once(": ").map(|(_, value)| value.trim().to_owned())
    };
    let part = |name| field(name).unwrap_or_default();
    // Virtual machines hide the name; family and model still tell the generation.
    format!("{} (family {} model {})", part("model name"), part("cpu family"), part("model\t"))
}

/// Its cores, as far as this process may use them.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Load average over the last minute: how far to trust the figures.
pub fn load() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next()?.parse().ok()
}

/// Date and time in UTC.
pub fn date() -> String {
    let output = Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]).output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The most memory that this process has ever held.
pub fn peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let rest = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(rest.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
}
