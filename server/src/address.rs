//! Addresses of callers: trusted proxies, and the budget of each address for unauthenticated acts.

use std::{
    collections::HashMap,
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use http::HeaderMap;

use crate::limits::Limits;

/// Maximum number of addresses whose budgets are stored. Addresses with full budgets are dropped
/// first.
const ADDRESSES_MAX: usize = 16_384;

/// The unit of limits by address: an IPv4 address, or a /64 network of IPv6, which is the usual
/// assignment to one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressBlock(IpAddr);

impl fmt::Display for AddressBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(address) => address.fmt(f),
            IpAddr::V6(network) => write!(f, "{network}/64"),
        }
    }
}

impl From<IpAddr> for AddressBlock {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        })
    }
}

/// A network in CIDR notation, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

impl Network {
    /// Whether the address lies in this network.
    pub fn contains(self, address: IpAddr) -> bool {
        let shared_bits = match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => (own.to_bits() ^ other.to_bits()).leading_zeros(),
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits() ^ other.to_bits()).leading_zeros(),
            _ => return false,
        };
        shared_bits >= self.prefix_bits.into()
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || format!("must be addresses or networks, such as 10.0.0.7 or 10.0.0.0/8, not '{text}'");
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| malformed())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = prefix.map_or(Ok(bits), |prefix| prefix.parse().map_err(|_| malformed()))?;
        if prefix_bits > bits {
            return Err(malformed());
        }
        Ok(Self { address, prefix_bits })
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.address, self.prefix_bits)
    }
}

/// Proxies that are trusted to report the caller's address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(pub Vec<Network>);

impl TrustedProxies {
    /// Whether the address belongs to a trusted proxy.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// The caller's address, as reported in `x-forwarded-for` by the chain of trusted proxies that
    /// begins at `proxy`.
    ///
    /// Each proxy appends the address of its peer. So the list is read from its end, and the first
    /// address that does not belong to a trusted proxy is the caller's. Entries before that address
    /// were written by the caller and are ignored.
    pub fn caller(&self, proxy: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut caller = proxy;
        let lists = headers.get_all("x-forwarded-for").iter().rev();
        for entry in lists.flat_map(|list| list.to_str().unwrap_or_default().rsplit(',')) {
            let Some(address) = forwarded_address(entry.trim()) else { break };
            caller = address;
            if !self.contains(caller) {
                break;
            }
        }
        caller
    }
}

/// Parses an address as proxies write it: with or without brackets and a port.
fn forwarded_address(text: &str) -> Option<IpAddr> {
    let bracketed = || text.strip_prefix('[')?.split_once(']')?.0.parse().ok();
    let with_port = || text.parse().ok().map(|address: std::net::SocketAddr| address.ip());
    text.parse().ok().or_else(bracketed).or_else(with_port)
}

/// An act that is charged to an address.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// A connection, or an unauthenticated call.
    Call,
    /// A wrong token.
    Failure,
}

/// Token buckets for the unauthenticated acts of each address.
///
/// Each address has two budgets, which refill at a constant rate. An address that spends more is in
/// debt until the budget has refilled. A budget is stored as the time at which it is full again, so
/// no timer has to refill it.
#[derive(Debug)]
pub struct Addresses {
    /// For each kind of act: the cost of one act, and the size of a full budget, both as refill
    /// time.
    prices: [(Duration, Duration); 2],
    /// For each address: the times at which its two budgets are full again.
    full_at: Mutex<HashMap<AddressBlock, [Instant; 2]>>,
}

impl Addresses {
    /// Creates the budgets that the limits set.
    pub fn new(limits: &Limits) -> Self {
        let price = |period: Duration, acts: u64| (period / u32::try_from(acts).unwrap_or(u32::MAX).max(1), period);
        let prices = [
            price(Duration::from_secs(1), limits.address_calls_per_second),
            price(Duration::from_secs(60), limits.address_failures_per_minute),
        ];
        Self { prices, full_at: Mutex::default() }
    }

    /// Charges an address for an act, and returns the duration of its debt.
    pub fn charge(&self, address: AddressBlock, act: Act) -> Duration {
        self.charge_at(Instant::now(), address, act)
    }

    /// The duration of an address's debt.
    pub fn debt(&self, address: AddressBlock, act: Act) -> Duration {
        let now = Instant::now();
        let full_at = self.full_at().get(&address).map_or(now, |full_at| full_at[act as usize]);
        self.debt_at(now, full_at, act)
    }

    fn charge_at(&self, now: Instant, address: AddressBlock, act: Act) -> Duration {
        let mut addresses = self.full_at();
        if addresses.len() >= ADDRESSES_MAX && !addresses.contains_key(&address) {
            addresses.retain(|_, full_at| full_at.iter().any(|full_at| *full_at > now));
            // A flood from this many addresses does not come from one caller. The limits for all
            // callers together still apply.
            if addresses.len() >= ADDRESSES_MAX {
                addresses.clear();
            }
        }
        let full_at = &mut addresses.entry(address).or_insert([now; 2])[act as usize];
        let (price, budget) = self.prices[act as usize];
        // A debt is at most one full budget, so a caller that stops is out of debt after one
        // period.
        *full_at = ((*full_at).max(now) + price).min(now + budget * 2);
        self.debt_at(now, *full_at, act)
    }

    fn debt_at(&self, now: Instant, full_at: Instant, act: Act) -> Duration {
        let (_, budget) = self.prices[act as usize];
        full_at.saturating_duration_since(now).saturating_sub(budget)
    }

    fn full_at(&self) -> MutexGuard<'_, HashMap<AddressBlock, [Instant; 2]>> {
        self.full_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_block_is_an_ipv4_address_or_an_ipv6_64_network() {
        let block = |text| AddressBlock::from(ip(text));
        assert_eq!(block("192.0.2.1"), block("::ffff:192.0.2.1"));
        assert_ne!(block("192.0.2.1"), block("192.0.2.2"));
        assert_eq!(block("2001:db8::1"), block("2001:db8::ffff:1"));
        assert_ne!(block("2001:db8::1"), block("2001:db8:0:1::1"));
    }

    #[test]
    fn networks_contain_exactly_their_addresses() {
        let network: Network = "10.1.0.0/16".parse().unwrap();
        assert!(network.contains(ip("10.1.255.1")) && network.contains(ip("::ffff:10.1.0.1")));
        assert!(!network.contains(ip("10.2.0.0")) && !network.contains(ip("::1")));
        let one: Network = "2001:db8::1".parse().unwrap();
        assert!(one.contains(ip("2001:db8::1")) && !one.contains(ip("2001:db8::2")));
        assert!("0.0.0.0/0".parse::<Network>().unwrap().contains(ip("203.0.113.9")));
        for wrong in ["", "10.0.0.0/33", "10.0.0.0/", "localhost", "::/129", "10.0.0.0/-1"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_last_address_that_is_not_a_proxys_is_the_callers() {
        let proxies = TrustedProxies(vec!["127.0.0.1".parse().unwrap(), "10.0.0.0/8".parse().unwrap()]);
        let caller = |lists: &[&str]| {
            let lists =
                lists.iter().map(|list| (http::HeaderName::from_static("x-forwarded-for"), list.parse().unwrap()));
            proxies.caller(ip("127.0.0.1"), &lists.collect())
        };
        assert_eq!(caller(&[]), ip("127.0.0.1"));
        assert_eq!(caller(&["203.0.113.9"]), ip("203.0.113.9"));
        // The front of the list was written by the caller.
        assert_eq!(caller(&["192.0.2.1, 203.0.113.9"]), ip("203.0.113.9"));
        assert_eq!(caller(&["192.0.2.1", "203.0.113.9,10.0.0.4"]), ip("203.0.113.9"));
        assert_eq!(caller(&["[2001:db8::1]:443"]), ip("2001:db8::1"));
        assert_eq!(caller(&["203.0.113.9:1234"]), ip("203.0.113.9"));
        assert_eq!(caller(&["203.0.113.9, nonsense"]), ip("127.0.0.1"));
    }

    #[test]
    fn an_address_beyond_its_budget_is_in_debt_until_the_budget_refills() {
        let limits = Limits { address_calls_per_second: 10, address_failures_per_minute: 2, ..Limits::default() };
        let (addresses, now) = (Addresses::new(&limits), Instant::now());
        let [a, b] = ["192.0.2.1", "192.0.2.2"].map(|text| AddressBlock::from(ip(text)));
        for _ in 0..10 {
            assert_eq!(addresses.charge_at(now, a, Act::Call), Duration::ZERO);
        }
        assert_eq!(addresses.charge_at(now, a, Act::Call), Duration::from_millis(100));
        assert_eq!(addresses.charge_at(now, a, Act::Call), Duration::from_millis(200));
        assert_eq!(addresses.charge_at(now, b, Act::Call), Duration::ZERO, "another address has its own budget");
        assert_eq!(addresses.charge_at(now, a, Act::Failure), Duration::ZERO, "failures have a budget of their own");
        let later = now + Duration::from_millis(300);
        assert_eq!(addresses.charge_at(later, a, Act::Call), Duration::ZERO);
        for _ in 0..1000 {
            addresses.charge_at(later, a, Act::Call);
        }
        assert_eq!(addresses.charge_at(later, a, Act::Call), Duration::from_secs(1), "a debt is bounded");
    }

    #[test]
    fn the_number_of_stored_addresses_is_limited() {
        let (addresses, now) = (Addresses::new(&Limits::default()), Instant::now());
        let block = |number: u32| AddressBlock::from(IpAddr::from(number.to_be_bytes()));
        for number in 0..3 * ADDRESSES_MAX as u32 {
            addresses.charge_at(now, block(number), Act::Call);
            assert!(addresses.full_at().len() <= ADDRESSES_MAX);
        }
    }
}
