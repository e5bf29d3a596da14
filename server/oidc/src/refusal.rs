//! Reasons to refuse a token.

/// Why a token is refused. Messages quote neither the token nor values of its claims, so that they
/// can go to logs and callers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The token is too large.
    #[error("the token has more than {bytes_max} bytes")]
    TooLarge {
        /// The size limit.
        bytes_max: usize,
    },
    /// The token does not have the form of a signed JWT.
    #[error("the token is not a signed JWT: {0}")]
    Malformed(&'static str),
    /// The algorithm is not on the list.
    #[error("the token's algorithm is not RS256, PS256, ES256 or EdDSA")]
    Algorithm,
    /// The header says that the token is something else than a JWT.
    #[error("the token's type is neither JWT nor at+jwt")]
    Type,
    /// The header names extensions that the reader must understand.
    #[error("the token needs extensions (crit), and none are supported")]
    Critical,
    /// No key fits.
    #[error("the issuer has no key that fits the token")]
    UnknownKey,
    /// More than one key fits, and the token does not say which one it needs.
    #[error("several keys of the issuer fit the token")]
    AmbiguousKey,
    /// The signature is wrong.
    #[error("the token's signature is wrong")]
    Signature,
    /// Another issuer has signed the token.
    #[error("the token is from another issuer")]
    Issuer,
    /// The token is for another service.
    #[error("the token is for another audience")]
    Audience,
    /// The token has expired.
    #[error("the token has expired")]
    Expired,
    /// The token is not valid yet.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// The token was issued in the future.
    #[error("the token was issued in the future")]
    IssuedLater,
    /// The token is valid for too long.
    #[error("the token is valid for more than {hours_max} hours")]
    Life {
        /// The limit.
        hours_max: u64,
    },
    /// A claim is missing.
    #[error("the token has no claim {0}")]
    Missing(String),
    /// A claim has another form than the expected one.
    #[error("the token's claim {0} has a wrong form")]
    Claim(String),
    /// The issuer's keys are not known, and cannot be fetched now.
    #[error("the keys of the issuer cannot be fetched at the moment")]
    IssuerAway,
}

impl Refusal {
    /// Whether the same token may be accepted a little later, because the refusal says nothing
    /// about the token.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::IssuerAway)
    }
}
