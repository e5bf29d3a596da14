//! The claims of a token whose signature is right.

use std::time::Duration;

use cloakwork_clock::{unix_micros_after, unix_micros_before};
use serde_json::Value;

use crate::{object::Object, options::Options, refusal::Refusal};

/// By how much the clock of the issuer may be ahead of ours.
const LEEWAY: Duration = Duration::from_secs(60);

/// Longest time from a token's issue to its expiry. A token cannot be revoked, so a stolen one
/// stays valid for this long.
const LIFE_HOURS_MAX: u64 = 24;

/// Maximum number of scopes of a token.
const SCOPES_MAX: usize = 16;

/// Maximum size of a subject in bytes, as OpenID Connect defines it.
const SUBJECT_BYTES_MAX: usize = 255;

/// Latest time that a claim may state, in seconds: the end of the year 9999.
const SECONDS_MAX: u64 = 253_402_300_799;

/// The claims of a valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The user or the service, by the issuer's name for it.
    pub subject: String,
    /// The tenant, as the token names it. The caller checks the form of the name.
    pub tenant: String,
    /// Scopes, as the token names them. Scopes may be unknown or duplicate.
    pub scopes: Vec<String>,
    /// Time of the issue: Unix time in microseconds.
    pub issued_unix_micros: i64,
    /// Time at which the token expires: Unix time in microseconds.
    pub expires_unix_micros: i64,
}

/// Reads the claims of a token and compares them with the options and the time.
pub(crate) fn check(payload: &[u8], options: &Options, now_micros: i64) -> Result<Claims, Refusal> {
    let claims = Object::parse(payload).ok_or(Refusal::Malformed("the claims are not an object of JSON"))?;
    if text(&claims, "iss")? != options.issuer {
        return Err(Refusal::Issuer);
    }
    if !list(&claims, "aud")?.contains(&options.audience.as_str()) {
        return Err(Refusal::Audience);
    }
    let expires = time(&claims, "exp")?;
    let issued = time(&claims, "iat")?;
    let latest = unix_micros_after(now_micros, LEEWAY);
    if expires <= now_micros {
        return Err(Refusal::Expired);
    }
    if claims.get("nbf").is_some() && time(&claims, "nbf")? > latest {
        return Err(Refusal::NotYetValid);
    }
    if issued > latest {
        return Err(Refusal::IssuedLater);
    }
    if unix_micros_before(expires, Duration::from_secs(LIFE_HOURS_MAX * 3600)) > issued {
        return Err(Refusal::Life { hours_max: LIFE_HOURS_MAX });
    }
    let subject = filled(&claims, "sub")?;
    if subject.len() > SUBJECT_BYTES_MAX {
        return Err(Refusal::Claim("sub".to_owned()));
    }
    Ok(Claims {
        subject: subject.to_owned(),
        tenant: filled(&claims, &options.tenant_claim)?.to_owned(),
        scopes: scopes(&claims, &options.scopes_claim)?,
        issued_unix_micros: issued,
        expires_unix_micros: expires,
    })
}

fn member<'c>(claims: &'c Object, name: &str) -> Result<&'c Value, Refusal> {
    claims.get(name).ok_or_else(|| Refusal::Missing(name.to_owned()))
}

fn wrong(name: &str) -> impl Fn() -> Refusal {
    move || Refusal::Claim(name.to_owned())
}

fn text<'c>(claims: &'c Object, name: &str) -> Result<&'c str, Refusal> {
    member(claims, name)?.as_str().ok_or_else(wrong(name))
}

/// A text that is not empty.
fn filled<'c>(claims: &'c Object, name: &str) -> Result<&'c str, Refusal> {
    Some(text(claims, name)?).filter(|text| !text.is_empty()).ok_or_else(wrong(name))
}

/// A string, or the strings of an array.
fn list<'c>(claims: &'c Object, name: &str) -> Result<Vec<&'c str>, Refusal> {
    match member(claims, name)? {
        Value::String(text) => Ok(vec![text]),
        Value::Array(values) => values.iter().map(Value::as_str).collect::<Option<Vec<&str>>>().ok_or_else(wrong(name)),
        _ => Err(wrong(name)()),
    }
}

/// Names in one string with spaces between, or in an array.
fn scopes(claims: &Object, name: &str) -> Result<Vec<String>, Refusal> {
    let found: Vec<&str> = match member(claims, name)? {
        Value::String(text) => text.split(' ').filter(|scope| !scope.is_empty()).collect(),
        _ => list(claims, name)?,
    };
    let plain = |scope: &&str| !scope.is_empty() && scope.bytes().all(|byte| byte.is_ascii_graphic());
    if found.len() > SCOPES_MAX || !found.iter().all(plain) {
        return Err(wrong(name)());
    }
    Ok(found.into_iter().map(str::to_owned).collect())
}

/// A time in Unix microseconds, of a claim in seconds. Fractions are allowed.
fn time(claims: &Object, name: &str) -> Result<i64, Refusal> {
    let value = member(claims, name)?;
    let whole = value.as_u64().filter(|seconds| *seconds <= SECONDS_MAX).map(Duration::from_secs);
    let fraction = || {
        let seconds = value.as_f64().filter(|seconds| *seconds <= SECONDS_MAX as f64)?;
        Duration::try_from_secs_f64(seconds).ok()
    };
    let since_1970 = whole.or_else(fraction).ok_or_else(wrong(name))?;
    Ok(unix_micros_after(0, since_1970))
}
