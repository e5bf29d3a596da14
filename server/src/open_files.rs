//! The number of files that the process may open. Connections count as files too.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{limits::Limits, services::READS_MAX};

/// Raises the soft limit on open files to the hard limit, and warns if the hard limit is lower than
/// the number of files that the server may need.
///
/// Many systems start processes with a soft limit of 1024. One tenant's unread answers could then
/// take all files, and the server could accept no connection.
pub(crate) fn raise_limit(limits: &Limits) {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let needed = needed(limits);
    if allowed < needed {
        tracing::warn!(
            allowed,
            needed,
            "the process may open fewer files than connections and calls can take: raise the hard limit (ulimit -Hn)"
        );
    }
}

/// Files that the server needs if each connection and each call is taken and each upload is being
/// written, and some for results, the database and the process itself.
fn needed(limits: &Limits) -> u64 {
    const OWN: u64 = 128;
    [limits.connections, limits.requests, limits.watchers, limits.receiving, READS_MAX]
        .iter()
        .fold(OWN, |sum, limit| sum.saturating_add(*limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_limit() {
        let before = getrlimit(Resource::Nofile);
        // One file less than before: other tests of this process need files too.
        let less = before.current.map(|current| current - 1);
        setrlimit(Resource::Nofile, Rlimit { current: less, ..before }).unwrap();
        raise_limit(&Limits::default());
        assert_eq!(getrlimit(Resource::Nofile), Rlimit { current: before.maximum, ..before });
    }

    #[test]
    fn each_connection_and_each_call_counts() {
        let limits = Limits { connections: 10, requests: 20, watchers: 3, receiving: 4, ..Limits::default() };
        assert_eq!(needed(&limits), 128 + 37 + READS_MAX);
        assert_eq!(needed(&Limits { requests: u64::MAX, ..limits }), u64::MAX);
    }
}
