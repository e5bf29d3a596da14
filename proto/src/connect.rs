//! Rules that clients and workers share before they connect.

use std::net::IpAddr;

/// Whether traffic to this host of a URL stays on the machine. Only then may a token travel without
/// TLS.
///
/// A loopback host is an IP address of the loopback range, with or without brackets, or
/// `localhost`. No other name is resolved, because another party decides which address it means.
pub fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.map_or_else(|_| host.eq_ignore_ascii_case("localhost"), |address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_and_localhost_stay_on_the_machine() {
        let within = [
            "127.0.0.1",
            "127.255.255.254",
            "::1",
            "[::1]",
            "::ffff:127.0.0.1",
            "[::ffff:7f00:1]",
            "localhost",
            "LocalHost",
        ];
        for host in within {
            assert!(is_loopback(host), "{host}");
        }
        let beyond = [
            "",
            "0.0.0.0",
            "[::]",
            "10.0.0.1",
            "128.0.0.1",
            "::ffff:10.0.0.1",
            "[fe80::1]",
            "2130706433",
            "127.1",
            "127.0.0.1.example.org",
            "localhost.",
            "localhost.example.org",
            "[localhost]",
            "example.org",
        ];
        for host in beyond {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
