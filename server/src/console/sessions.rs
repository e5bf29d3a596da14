//! Sessions of logged-in operators, in memory. A restart of the server ends them.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use cloakwork_clock::Clock;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::auth::{Credential, Principal, hex};

/// Maximum number of sessions. Beyond it, the session that ends first is dropped.
const SESSIONS_MAX: usize = 64;

/// Maximum number of sessions of one operator. Beyond it, the one that ends first is dropped.
const ACTOR_SESSIONS_MAX: usize = 8;

/// Life of a session.
pub(super) const SESSION_SECONDS: i64 = 12 * 3600;

/// Length of secrets in bytes.
const SECRET_BYTES: usize = 32;

/// A logged-in operator.
#[derive(Clone, Debug)]
pub(super) struct Session {
    /// The operator, as the audit log names it.
    pub(super) actor: String,
    /// The caller that logged in.
    pub(super) principal: Principal,
    /// Proves that a call comes from a page of the console.
    pub(super) csrf: Secret,
    /// End of the session in microseconds since 1970.
    pub(super) expires_micros: i64,
}

/// Sessions by the hash of their cookies. A hash cannot be used as a cookie, and looking one up
/// tells nothing about others.
pub(super) struct Sessions {
    clock: Clock,
    by_hash: Mutex<HashMap<[u8; 32], Session>>,
}

/// A random secret in hexadecimal.
#[derive(Clone)]
pub(super) struct Secret(Zeroizing<String>);

impl Secret {
    pub(super) fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
        getrandom::fill(bytes.as_mut())?;
        let mut text = Zeroizing::new(String::with_capacity(2 * SECRET_BYTES));
        hex(&mut text, bytes.as_ref());
        Ok(Self(text))
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether `text` is this secret. Takes constant time for texts of the same length.
    pub(super) fn is(&self, text: &str) -> bool {
        self.0.as_bytes().ct_eq(text.as_bytes()).into()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Secret(..)")
    }
}

impl Sessions {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, by_hash: Mutex::default() }
    }

    /// Begins a session. Returns it with the value of its cookie.
    pub(super) fn begin(&self, actor: String, principal: Principal) -> Result<(Session, Secret), getrandom::Error> {
        let cookie = Secret::generate()?;
        let mut expires_micros = self.clock.unix_micros().saturating_add(SESSION_SECONDS * 1_000_000);
        if let Credential::Issued { expires_micros: of_token, .. } = &principal.credential {
            expires_micros = expires_micros.min(*of_token);
        }
        let session = Session { actor, principal, csrf: Secret::generate()?, expires_micros };
        let mut sessions = self.sessions();
        let of_actor = sessions.values().filter(|known| known.actor == session.actor).count();
        if of_actor >= ACTOR_SESSIONS_MAX || sessions.len() >= SESSIONS_MAX {
            // An operator with many sessions loses one of its own.
            let is_candidate = |known: &Session| of_actor < ACTOR_SESSIONS_MAX || known.actor == session.actor;
            let candidates = sessions.iter().filter(|(_, known)| is_candidate(known));
            let first = candidates.min_by_key(|(_, known)| known.expires_micros).map(|(hash, _)| *hash);
            first.map(|hash| sessions.remove(&hash));
        }
        sessions.insert(hash(cookie.reveal()), session.clone());
        Ok((session, cookie))
    }

    /// The session with this cookie.
    pub(super) fn find(&self, cookie: &str) -> Option<Session> {
        let now_micros = self.clock.unix_micros();
        let mut sessions = self.sessions();
        sessions.retain(|_, session| session.expires_micros > now_micros);
        sessions.get(&hash(cookie)).cloned()
    }

    /// Ends the session with this cookie.
    pub(super) fn end(&self, cookie: &str) {
        self.sessions().remove(&hash(cookie));
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<[u8; 32], Session>> {
        self.by_hash.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(cookie: &str) -> [u8; 32] {
    *blake3::hash(cookie.as_bytes()).as_bytes()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cloakwork_clock::ManualClock;

    use super::*;
    use crate::{auth::Scopes, tenant::Tenant};

    fn principal() -> Principal {
        Principal::without_token(Tenant::local(), Scopes::default())
    }

    #[test]
    fn a_session_ends_by_its_time_by_a_logout_and_by_newer_ones() {
        let time = ManualClock::at(0);
        let sessions = Sessions::new(time.clock());
        let (session, cookie) = sessions.begin("ops".to_owned(), principal()).unwrap();
        assert_eq!(sessions.find(cookie.reveal()).unwrap().actor, "ops");
        assert!(session.csrf.is(sessions.find(cookie.reveal()).unwrap().csrf.reveal()));
        assert!(!session.csrf.is("") && !session.csrf.is(cookie.reveal()));
        assert!(sessions.find("").is_none() && sessions.find(&cookie.reveal()[1..]).is_none());
        sessions.end(cookie.reveal());
        assert!(sessions.find(cookie.reveal()).is_none());
        let (_, old) = sessions.begin("old".to_owned(), principal()).unwrap();
        time.advance(Duration::from_secs(1));
        let begin = |actor: String| drop(sessions.begin(actor, principal()).unwrap());
        (0..SESSIONS_MAX).for_each(|_| begin("new".to_owned()));
        assert!(sessions.find(old.reveal()).is_some(), "one operator takes no places of others");
        assert_eq!(sessions.sessions().len(), 1 + ACTOR_SESSIONS_MAX);
        (0..SESSIONS_MAX).for_each(|number| begin(format!("new {number}")));
        assert!(sessions.find(old.reveal()).is_none());
        let (_, last) = sessions.begin("last".to_owned(), principal()).unwrap();
        assert_eq!(sessions.sessions().len(), SESSIONS_MAX);
        time.advance(Duration::from_secs(SESSION_SECONDS.unsigned_abs()));
        assert!(sessions.find(last.reveal()).is_none());
        assert_eq!(sessions.sessions().len(), 0);
    }

    #[test]
    fn debug_output_shows_no_secret() {
        let secret = Secret::generate().unwrap();
        assert!(!format!("{secret:?}").contains(&secret.reveal()[..4]));
    }
}
