//! Names of hosts under which browsers may reach a port.

use std::{net::IpAddr, str::FromStr};

/// Maximum number of host names.
const CONSOLE_HOSTS_MAX: usize = 16;

/// Host names under which browsers may reach the console, beside addresses and `localhost`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(pub Vec<String>);

impl FromStr for Hosts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        let hosts: Vec<String> = names.map(str::to_ascii_lowercase).collect();
        let is_plain = |name: &String| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
        match hosts.iter().find(|name| !is_plain(name)) {
            Some(name) => Err(format!("must be host names without ports, such as console.internal, not '{name}'")),
            None if hosts.len() > CONSOLE_HOSTS_MAX => Err(format!("must be at most {CONSOLE_HOSTS_MAX} host names")),
            None => Ok(Self(hosts)),
        }
    }
}

impl Hosts {
    /// Whether a browser may name this host. A page of another site can make its own host name lead
    /// to this machine, but not an address.
    pub fn allows(&self, host: &str) -> bool {
        let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let name = name.map_or(host, |(name, _)| name).to_ascii_lowercase();
        let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&name);
        address.parse::<IpAddr>().is_ok() || name == "localhost" || self.0.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_listed_names_are_hosts_of_the_console() {
        let hosts: Hosts = "Console.internal, ops.example".parse().unwrap();
        let good =
            ["127.0.0.1:7271", "10.0.0.7", "[::1]:7271", "[::1]", "localhost:1", "LOCALHOST", "console.internal:443"];
        for host in good {
            assert!(hosts.allows(host), "{host}");
        }
        for host in
            ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "x.console.internal", ":7271"]
        {
            assert!(!hosts.allows(host), "{host}");
        }
        assert!("a:7".parse::<Hosts>().is_err() && "a/b".parse::<Hosts>().is_err());
        assert_eq!("".parse::<Hosts>().unwrap(), Hosts::default());
    }
}
