//! Authentication and authorization of callers. A call that no rule allows is refused.

mod cache;
mod issued;
pub mod policy;
mod store;
mod token;

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use cloakwork_oidc::Issuer;
use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use tonic::Code;

pub use cache::Verifier;
pub(crate) use store::name_of;
pub use store::{StoreError, TenantRow, TokenRow, TokenStore};
pub(crate) use token::hex;
pub use token::{Secret, TokenId};

use crate::{
    address::{AddressBlock, Addresses},
    error::{ApiError, PERMISSION_DENIED, UNAUTHENTICATED},
    limits::Limits,
    tenant::Tenant,
};
use policy::{Access, Rule};

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The tenant that the caller acts for.
    pub tenant: Tenant,
    /// The shard of the tenant, as of a moment ago.
    pub shard: i32,
    /// The rights of the caller.
    pub scopes: Scopes,
    /// The credential that the caller has shown.
    pub credential: Credential,
}

/// The credential of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// No token. The connection has a certificate, or comes from this machine.
    Connection,
    /// A token of this installation, by its public part.
    Token(TokenId),
    /// A token of the issuer that the settings name.
    Issued {
        /// The user, by the issuer's name, in printable text.
        subject: Arc<str>,
        /// Expiry of the token in microseconds since 1970.
        expires_micros: i64,
    },
}

impl Principal {
    /// A caller without a token.
    pub fn without_token(tenant: Tenant, scopes: Scopes) -> Self {
        Self { tenant, shard: 0, scopes, credential: Credential::Connection }
    }

    /// The caller as the audit log names it.
    pub fn actor(&self) -> String {
        match &self.credential {
            Credential::Token(token) => format!("{} (token {token})", self.tenant),
            Credential::Issued { subject, .. } => format!("{} (user {subject})", self.tenant),
            Credential::Connection => self.tenant.to_string(),
        }
    }
}

/// A right that a token grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Upload ciphertexts and programs; submit and cancel jobs.
    Jobs,
    /// Upload, register and delete keys.
    Keys,
    /// List and fetch resources.
    Read,
    /// Act as a worker.
    Worker,
    /// Operate the server, on the operator port and in the console.
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 5] = [Self::Jobs, Self::Keys, Self::Read, Self::Worker, Self::Admin];

    /// The scope's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Keys => "keys",
            Self::Read => "read",
            Self::Worker => "worker",
            Self::Admin => "admin",
        }
    }

    /// Returns the scope with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// A set of scopes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// All scopes.
    pub const ALL: Self = Self(0b1_1111);

    /// Whether the set contains `scope`.
    pub fn contains(self, scope: Scope) -> bool {
        self.0 & 1 << scope as u8 != 0
    }

    /// The set without `scope`.
    #[must_use]
    pub fn without(self, scope: Scope) -> Self {
        Self(self.0 & !(1 << scope as u8))
    }

    /// The scopes in the set.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.contains(*scope))
    }

    /// Parses names separated by commas. The error is the first unknown name.
    pub fn parse(text: &str) -> Result<Self, String> {
        text.split(',').map(|name| Scope::named(name.trim()).ok_or_else(|| name.to_owned())).collect()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | 1 << scope as u8))
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.iter().map(Scope::name).collect::<Vec<_>>().join(","))
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// The origin of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The worker inside this process.
    Embedded,
    /// The network.
    Network {
        /// The caller's address: that of the connection, or the one that a trusted proxy reports.
        address: IpAddr,
        /// The caller has presented a certificate signed by the configured authority.
        certified: bool,
        /// The call shows no sign of a proxy between the caller and this port.
        direct: bool,
    },
}

impl Peer {
    /// The caller's address, or `None` for the worker inside this process.
    pub fn ip(self) -> Option<IpAddr> {
        match self {
            Self::Network { address, .. } => Some(address),
            Self::Embedded => None,
        }
    }

    /// The address block to which limits by address apply, or `None` for the worker inside this
    /// process.
    pub fn address(self) -> Option<AddressBlock> {
        self.ip().map(AddressBlock::from)
    }
}

/// The rules for authentication that the configuration sets.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Admit callers on this machine without a token.
    pub anonymous: bool,
    /// Require a client certificate from workers on the network.
    pub worker_mtls: bool,
}

/// Interval at which the credentials of a long-lived call are verified again.
const REVERIFY_INTERVAL: Duration = Duration::from_secs(2);

/// Authenticates callers and checks their rights.
#[derive(Debug)]
pub struct Authenticator {
    rules: Rules,
    tokens: Verifier,
}

impl Authenticator {
    /// Creates an authenticator that looks tokens up in `store`, within the limits.
    pub fn new(rules: Rules, store: TokenStore, addresses: Arc<Addresses>, limits: &Limits) -> Self {
        Self { rules, tokens: Verifier::new(store, addresses, limits) }
    }

    /// Accepts tokens of this issuer too.
    #[must_use]
    pub fn with_issuer(self, issuer: Option<Issuer>) -> Self {
        Self { tokens: self.tokens.with_issuer(issuer), ..self }
    }

    /// Authenticates the caller and applies the rule. This is the only place that decides on
    /// access.
    ///
    /// Returns `None` only if the rule allows unauthenticated callers ([`Access::Anyone`]).
    pub async fn admit(&self, peer: Peer, headers: &HeaderMap, rule: &Rule) -> Result<Option<Principal>, ApiError> {
        if rule.access == Access::Anyone {
            return Ok(None);
        }
        self.admit_from(peer, peer.address(), headers, rule).await.map(Some)
    }

    /// Authenticates the caller. Without `address`, the caller was admitted before and is verified
    /// again (see [`Verifier::verify`]).
    async fn admit_from(
        &self,
        peer: Peer,
        address: Option<AddressBlock>,
        headers: &HeaderMap,
        rule: &Rule,
    ) -> Result<Principal, ApiError> {
        let principal = self.identify(peer, address, headers, rule).await?;
        if let Access::AnyOf(scopes) = rule.access
            && !scopes.iter().any(|scope| principal.scopes.contains(*scope))
        {
            let wanted = scopes.iter().map(|scope| scope.name()).collect::<Vec<_>>().join(" or ");
            let message =
                format!("{} needs the scope {wanted}, and the caller has {:?}", rule.method, principal.scopes);
            return Err(PERMISSION_DENIED.error(message).with("scope", wanted));
        }
        Ok(principal)
    }

    /// Authenticates an operator who logs in to the console with a token.
    pub async fn operator(&self, token: &str, address: Option<AddressBlock>) -> Result<Principal, ApiError> {
        let principal = self.tokens.verify(token, address).await?;
        if principal.scopes.contains(Scope::Admin) {
            return Ok(principal);
        }
        Err(PERMISSION_DENIED.error("the console needs a token with the scope admin").with("scope", "admin"))
    }

    /// Resolves when the credentials with which the caller was admitted are no longer valid. Used
    /// for long-lived calls.
    pub async fn refused(&self, peer: Peer, credentials: &[HeaderValue], rule: &Rule) -> ApiError {
        let headers: HeaderMap = credentials.iter().map(|value| (AUTHORIZATION, value.clone())).collect();
        loop {
            tokio::time::sleep(REVERIFY_INTERVAL).await;
            match self.admit_from(peer, None, &headers, rule).await {
                Err(error) if error.reason().grpc == Code::Unauthenticated => return error,
                // A failing database does not invalidate credentials.
                _ => {}
            }
        }
    }

    async fn identify(
        &self,
        peer: Peer,
        from: Option<AddressBlock>,
        headers: &HeaderMap,
        rule: &Rule,
    ) -> Result<Principal, ApiError> {
        let Peer::Network { address, certified, direct } = peer else {
            return Ok(Principal::without_token(Tenant::local(), Scopes::ALL));
        };
        if rule.access == Access::AnyOf(&[Scope::Worker]) {
            if certified {
                return Ok(Principal::without_token(Tenant::workers(), [Scope::Worker].into_iter().collect()));
            }
            if self.rules.worker_mtls {
                return Err(UNAUTHENTICATED.error("workers must show a client certificate to this server"));
            }
        }
        if let Some(token) = bearer(headers)? {
            return self.tokens.verify(token, from).await;
        }
        if self.rules.anonymous && address.to_canonical().is_loopback() {
            if !direct {
                // A proxy on this machine would make all its callers the tenant `local`.
                tracing::warn!(
                    caller = %address,
                    "a call without a token came through a proxy, or for another host name than a loopback one, and \
                     is refused: set auth.anonymous = false, and give each caller a token"
                );
                let message = "the call has no token, and came through a proxy or for another host name: anonymous \
                               callers connect directly, to 127.0.0.1, [::1] or localhost";
                return Err(UNAUTHENTICATED.error(message));
            }
            let scopes = Scopes::ALL.without(Scope::Worker).without(Scope::Admin);
            return Ok(Principal::without_token(Tenant::local(), scopes));
        }
        Err(UNAUTHENTICATED.error("the call has no token"))
    }
}

/// Returns the token of the `authorization` header, or `None` without the header. A second header
/// is refused.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(UNAUTHENTICATED.error("the call has more than one authorization header"));
    }
    // The message does not quote the header, which may contain a secret of another service.
    let malformed = || UNAUTHENTICATED.error("the authorization header is not of the form 'Bearer cw_...'");
    let (scheme, token) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(malformed)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(Some(token.trim())) } else { Err(malformed()) }
}

#[cfg(test)]
mod tests;
