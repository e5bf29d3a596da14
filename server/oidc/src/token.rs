//! The form of a token: a header, claims and a signature, each in base64url.

use serde_json::Value;

use crate::{algorithm::Algorithm, base64url::decode, object::Object, refusal::Refusal};

/// Maximum size of a token in bytes.
const TOKEN_BYTES_MAX: usize = 8 << 10;

/// Maximum size of a token's decoded header in bytes.
const HEADER_BYTES_MAX: usize = 2 << 10;

/// Types that a header may name, without regard to case. Tokens of other types, such as logout
/// tokens, have the same signature and another meaning.
const TYPES: [&str; 4] = ["JWT", "at+jwt", "application/jwt", "application/at+jwt"];

/// A token whose signature is not verified yet.
pub(crate) struct Token<'t> {
    pub(crate) algorithm: Algorithm,
    pub(crate) key_id: Option<String>,
    /// The signed bytes.
    pub(crate) signed: &'t [u8],
    /// The claims. Their reader must have verified the signature.
    pub(crate) payload: Vec<u8>,
    pub(crate) signature: Vec<u8>,
}

impl<'t> Token<'t> {
    /// Parses a token up to its claims.
    pub(crate) fn parse(text: &'t str) -> Result<Self, Refusal> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err(Refusal::TooLarge { bytes_max: TOKEN_BYTES_MAX });
        }
        let three = || Refusal::Malformed("three parts are expected");
        let (signed, signature) = text.rsplit_once('.').ok_or_else(three)?;
        let (header, payload) = signed.split_once('.').ok_or_else(three)?;
        if payload.contains('.') {
            return Err(three());
        }
        let part = |text: &str| decode(text).ok_or(Refusal::Malformed("a part is not base64url without padding"));
        let header = part(header)?;
        if header.len() > HEADER_BYTES_MAX {
            return Err(Refusal::Malformed("the header is too large"));
        }
        let (algorithm, key_id) = read(&header)?;
        Ok(Self { algorithm, key_id, signed: signed.as_bytes(), payload: part(payload)?, signature: part(signature)? })
    }
}

/// Reads the algorithm and the key's name from a header. Keys and addresses in the header are
/// ignored, because anyone can write them.
fn read(header: &[u8]) -> Result<(Algorithm, Option<String>), Refusal> {
    let header = Object::parse(header).ok_or(Refusal::Malformed("the header is not an object of JSON"))?;
    if header.get("crit").is_some() {
        return Err(Refusal::Critical);
    }
    let allowed = |value: &Value| {
        value.as_str().is_some_and(|name| TYPES.iter().any(|allowed| allowed.eq_ignore_ascii_case(name)))
    };
    if header.get("typ").is_some_and(|value| !allowed(value)) {
        return Err(Refusal::Type);
    }
    let algorithm = header.get("alg").and_then(Value::as_str).and_then(Algorithm::named).ok_or(Refusal::Algorithm)?;
    let key_id = match header.get("kid") {
        None => None,
        Some(Value::String(id)) => Some(id.clone()),
        Some(_) => return Err(Refusal::Malformed("the kid is not a string")),
    };
    Ok((algorithm, key_id))
}
