//! What clients and workers have to agree in before they connect.

use std::net::IpAddr;

/// Does what is sent to this host of an URL stay on the machine? Only there may a token go without TLS.
///
/// An address with or without its brackets, or `localhost`. Other names are never asked for: what they mean, somebody
/// else decides.
pub fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.map_or_else(|_| host.eq_ignore_ascii_case("localhost"), |address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_and_its_own_name_stay_on_it() {
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
