//! Machine and date of a benchmark, without which its figures mean nothing.

#![forbid(unsafe_code)]

use std::{fs, process::Command};

/// Name, family and model of the processor.
pub fn cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_once(": ").map(|(_, value)| value.trim().to_owned())
    };
    let part = |name| field(name).unwrap_or_default();
    // Virtual machines hide the name. Family and model still identify the generation.
    format!("{} (family {} model {})", part("model name"), part("cpu family"), part("model\t"))
}

/// Number of cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Load average over the last minute, which shows how far the figures can be trusted.
pub fn load() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next()?.parse().ok()
}

/// Date and time in UTC.
pub fn date() -> String {
    let output = Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]).output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Peak resident memory of this process in bytes.
pub fn peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let rest = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(rest.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
}
