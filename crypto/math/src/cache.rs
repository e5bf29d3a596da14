//! The caches of this machine.

use std::{fs, sync::OnceLock};

/// Directory in which Linux lists the caches of the first processor.
const LISTED: &str = "/sys/devices/system/cpu/cpu0/cache";
/// Bytes of the second-level cache of most servers, assumed if none is listed.
const DEFAULT_SECOND_LEVEL_BYTES: usize = 1 << 20;

/// Accepted range of listed sizes. A virtual machine may list a cache that its processor lacks.
const SECOND_LEVEL_BYTES_RANGE: (usize, usize) = (256 << 10, 2 << 20);

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// Bytes of the first core's second-level cache, between 256 KiB and 2 MiB. Read from the system
/// once.
pub fn second_level_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        listed(2).unwrap_or(DEFAULT_SECOND_LEVEL_BYTES).clamp(SECOND_LEVEL_BYTES_RANGE.0, SECOND_LEVEL_BYTES_RANGE.1)
    })
}

fn listed(level: u32) -> Option<usize> {
    let read = |cache: usize, file: &str| fs::read_to_string(format!("{LISTED}/index{cache}/{file}")).ok();
    let cache = (0..8).find(|cache| read(*cache, "level").is_some_and(|text| text.trim().parse() == Ok(level)))?;
    parse(&read(cache, "size")?)
}

/// Parses a size such as `1024K`.
fn parse(size: &str) -> Option<usize> {
    let kib: usize = size.trim().strip_suffix('K')?.parse().ok()?;
    kib.checked_mul(1 << 10).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_sizes_are_parsed() {
        assert_eq!(parse("1024K\n"), Some(1 << 20));
        for broken in ["", "K", "0K", "12", "1M", "-1K", "99999999999999999999K", "18014398509481984K"] {
            assert_eq!(parse(broken), None, "{broken:?}");
        }
    }
}
