//! Tokens of the issuer that the settings name.
//!
//! The issuer says who the caller is, and which tenant and scopes it has. The tenant must exist
//! here: an issuer creates no tenants, and a revoked tenant stays revoked.

use std::time::Duration;

use cloakwork_oidc::{Issuer, Refusal};
use cloakwork_proto::printable_at_most;

use super::{Credential, Principal, Scope, TokenStore};
use crate::{
    database,
    error::{ApiError, ISSUER_UNAVAILABLE, TOKEN_EXPIRED, UNAUTHENTICATED},
    tenant::Tenant,
};

/// Maximum length of a user's name in logs and in the audit log.
const SUBJECT_CHARS_MAX: usize = 64;

/// Time after which a caller may try again while the keys of the issuer are not known.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Verifies a token. Returns its principal, and the time until its expiry.
pub(super) async fn verify(
    issuer: &Issuer,
    store: &TokenStore,
    token: &str,
) -> Result<(Principal, Duration), ApiError> {
    let claims = issuer.verify(token).await.map_err(refused)?;
    let unknown = || UNAUTHENTICATED.error("the token names no tenant of this installation");
    let tenant = Tenant::new(&claims.tenant).map_err(|_| unknown())?;
    let (shard, is_revoked) = store.standing(&tenant).await.map_err(database::failed)?.ok_or_else(unknown)?;
    if is_revoked {
        return Err(TOKEN_EXPIRED.error("the tenant of the token was revoked"));
    }
    // A later version may know more scopes.
    let scopes = claims.scopes.iter().filter_map(|name| Scope::named(name)).collect();
    let left = claims.expires_unix_micros.saturating_sub(store.clock().unix_micros());
    let credential = Credential::Issued {
        subject: printable_at_most(&claims.subject, SUBJECT_CHARS_MAX).into(),
        expires_micros: claims.expires_unix_micros,
    };
    let left = Duration::from_micros(u64::try_from(left).unwrap_or_default());
    Ok((Principal { tenant, shard, scopes, credential }, left))
}

fn refused(refusal: Refusal) -> ApiError {
    match refusal {
        Refusal::Expired => TOKEN_EXPIRED.error("the token has expired"),
        away if away.is_temporary() => ISSUER_UNAVAILABLE.error(away.to_string()).retry_after(RETRY_DELAY),
        other => UNAUTHENTICATED.error(other.to_string()),
    }
}
