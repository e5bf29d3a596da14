//! The public keys of an issuer.

use std::sync::Arc;

use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde::{Deserialize, de::IgnoredAny};

use crate::{algorithm::Algorithm, base64url::decode, refusal::Refusal};

/// Maximum number of keys in a set, keys of unknown types included.
const KEYS_MAX: usize = 64;

/// Minimum size of an RSA key in bits.
const RSA_BITS_MIN: usize = 2048;

/// Maximum size of an RSA key in bits. Larger keys make each verification slow.
const RSA_BITS_MAX: usize = 8192;

/// Why a key set cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetError {
    Malformed,
    TooMany,
}

/// The keys of an issuer that can verify a signature.
#[derive(Debug, Default)]
pub(crate) struct Keys(Vec<Arc<Key>>);

/// A public key for signatures.
#[derive(Debug)]
pub(crate) struct Key {
    id: Option<String>,
    /// The only algorithm for which the issuer uses the key. By default, all of the key's type.
    algorithm: Option<Algorithm>,
    public: Public,
}

#[derive(Debug)]
enum Public {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// An uncompressed point of P-256.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl Keys {
    /// Reads a key set. Keys of other types or for other purposes are left out: an issuer may use
    /// them for something else.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, SetError> {
        let set: Set = serde_json::from_slice(text).map_err(|_| SetError::Malformed)?;
        if set.keys.len() > KEYS_MAX {
            return Err(SetError::TooMany);
        }
        Ok(Self(set.keys.into_iter().filter_map(Member::key).map(Arc::new).collect()))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The one key that fits a header.
    pub(crate) fn find(&self, algorithm: Algorithm, id: Option<&str>) -> Result<Arc<Key>, Refusal> {
        let named = |key: &Key| id.is_none() || key.id.as_deref() == id;
        let mut fitting = self.0.iter().filter(|key| named(key) && key.is_for(algorithm));
        match (fitting.next(), fitting.next()) {
            (Some(key), None) => Ok(Arc::clone(key)),
            (None, _) => Err(Refusal::UnknownKey),
            (Some(_), Some(_)) => Err(Refusal::AmbiguousKey),
        }
    }
}

impl Key {
    fn is_for(&self, algorithm: Algorithm) -> bool {
        self.algorithm.is_none_or(|own| own == algorithm) && self.public.is_for(algorithm)
    }

    /// Whether the key has made the signature under the message. A key has made no signature of an
    /// algorithm that is not for its type.
    pub(crate) fn has_signed(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let verified = match (&self.public, algorithm) {
            (Public::Rsa { modulus, exponent }, Algorithm::Rs256 | Algorithm::Ps256) => {
                let padding = match algorithm {
                    Algorithm::Ps256 => &RSA_PSS_2048_8192_SHA256,
                    _ => &RSA_PKCS1_2048_8192_SHA256,
                };
                RsaPublicKeyComponents { n: modulus, e: exponent }.verify(padding, message, signature)
            }
            (Public::P256(point), Algorithm::Es256) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            (Public::Ed25519(point), Algorithm::EdDsa) => {
                UnparsedPublicKey::new(&ED25519, point).verify(message, signature)
            }
            _ => return false,
        };
        verified.is_ok()
    }
}

impl Public {
    fn is_for(&self, algorithm: Algorithm) -> bool {
        match self {
            Self::Rsa { .. } => matches!(algorithm, Algorithm::Rs256 | Algorithm::Ps256),
            Self::P256(_) => algorithm == Algorithm::Es256,
            Self::Ed25519(_) => algorithm == Algorithm::EdDsa,
        }
    }
}

/// A key set as the issuer writes it (RFC 7517).
#[derive(Deserialize)]
struct Set {
    keys: Vec<Member>,
}

/// A key as the issuer writes it. A second member of one of these names is an error, and other
/// members are ignored.
#[derive(Deserialize)]
struct Member {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    d: Option<IgnoredAny>,
}

impl Member {
    fn key(self) -> Option<Key> {
        let verifies = self.purpose.as_deref().is_none_or(|purpose| purpose == "sig")
            && self.key_ops.as_ref().is_none_or(|operations| operations.iter().any(|operation| operation == "verify"));
        // A published private key signs for everyone.
        if !verifies || self.d.is_some() {
            return None;
        }
        let algorithm = match &self.alg {
            Some(name) => Some(Algorithm::named(name)?),
            None => None,
        };
        let public = self.public()?;
        algorithm.is_none_or(|algorithm| public.is_for(algorithm)).then_some(Key { id: self.kid, algorithm, public })
    }

    fn public(&self) -> Option<Public> {
        let number = |text: &Option<String>| text.as_deref().and_then(decode);
        let element = |text: &Option<String>| number(text).filter(|bytes| bytes.len() == 32);
        match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => {
                let (modulus, exponent) = (number(&self.n)?, number(&self.e)?);
                let first = modulus.first().filter(|first| **first != 0)?;
                let bits = modulus.len() * 8 - first.leading_zeros() as usize;
                (RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits).then_some(Public::Rsa { modulus, exponent })
            }
            ("EC", Some("P-256")) => Some(Public::P256([vec![4], element(&self.x)?, element(&self.y)?].concat())),
            ("OKP", Some("Ed25519")) => Some(Public::Ed25519(element(&self.x)?)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    use serde_json::{Value, json};

    use super::*;

    fn number(bytes: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// A key with a modulus of so many bits. No one knows its factors.
    fn rsa(bits: usize) -> Value {
        let mut modulus = vec![0xff; bits.div_ceil(8)];
        modulus[0] = 0xff >> (modulus.len() * 8 - bits);
        json!({"kty": "RSA", "kid": "a", "n": number(&modulus), "e": "AQAB"})
    }

    fn with(mut key: Value, name: &str, value: Value) -> Value {
        key[name] = value;
        key
    }

    /// The number of usable keys of a set with this key alone.
    fn usable(key: Value) -> usize {
        Keys::parse(json!({"keys": [key]}).to_string().as_bytes()).expect("a key set").len()
    }

    #[test]
    fn rsa_keys_have_2048_to_8192_bits() {
        for (bits, count) in [(1024, 0), (2047, 0), (2048, 1), (3072, 1), (8192, 1), (8193, 0), (16384, 0)] {
            assert_eq!(usable(rsa(bits)), count, "{bits}");
        }
        let padded = number(&[&[0][..], &[0xff; 256]].concat());
        assert_eq!(usable(with(rsa(2048), "n", json!(padded))), 0, "a leading zero");
        assert_eq!(usable(with(rsa(2048), "n", json!(""))), 0);
        assert_eq!(usable(with(rsa(2048), "e", json!("AQAB="))), 0);
        assert_eq!(usable(with(rsa(2048), "e", Value::Null)), 0);
    }

    #[test]
    fn only_keys_for_signatures_of_the_allowed_algorithms_are_used() {
        let point = number(&[7; 32]);
        let curve = json!({"kty": "EC", "crv": "P-256", "x": point, "y": point});
        let edwards = json!({"kty": "OKP", "crv": "Ed25519", "x": point});
        for (key, count) in [
            (curve.clone(), 1),
            (edwards.clone(), 1),
            (with(curve.clone(), "crv", json!("P-384")), 0),
            (with(curve.clone(), "x", json!(number(&[7; 33]))), 0),
            (with(edwards.clone(), "crv", json!("X25519")), 0),
            (with(edwards.clone(), "x", json!(number(&[7; 31]))), 0),
            (with(edwards.clone(), "alg", json!("EdDSA")), 1),
            (with(edwards, "alg", json!("RS256")), 0),
            (with(curve, "d", json!(point)), 0),
            (json!({"kty": "oct", "k": point, "alg": "HS256"}), 0),
            (json!({"kty": "quantum"}), 0),
            (with(rsa(2048), "alg", json!("PS256")), 1),
            (with(rsa(2048), "alg", json!("RS512")), 0),
            (with(rsa(2048), "alg", json!("RSA-OAEP")), 0),
            (with(rsa(2048), "alg", json!("HS256")), 0),
            (with(rsa(2048), "use", json!("sig")), 1),
            (with(rsa(2048), "use", json!("enc")), 0),
            (with(rsa(2048), "key_ops", json!(["verify"])), 1),
            (with(rsa(2048), "key_ops", json!(["encrypt", "wrapKey"])), 0),
        ] {
            let text = key.to_string();
            assert_eq!(usable(key), count, "{text}");
        }
    }

    #[test]
    fn a_set_is_an_object_with_at_most_64_keys() {
        let set = |count: usize| json!({"keys": vec![rsa(2048); count], "more": [1]}).to_string();
        assert_eq!(Keys::parse(set(64).as_bytes()).expect("a key set").len(), 64);
        assert_eq!(Keys::parse(set(65).as_bytes()).expect_err("too many keys"), SetError::TooMany);
        assert_eq!(Keys::parse(set(0).as_bytes()).expect("a key set").len(), 0);
        let twice = format!(
            r#"{{"keys": [{{"kty": "RSA", "kid": "a", "kid": "b", "n": "{0}", "e": "AQAB"}}]}}"#,
            number(&[0xff; 256])
        );
        for malformed in
            ["", "{}", "[]", r#"{"keys": {}}"#, r#"{"keys": [{"kty": 1}]}"#, r#"{"keys": [], "keys": []}"#, &twice]
        {
            assert_eq!(Keys::parse(malformed.as_bytes()).expect_err("no key set"), SetError::Malformed, "{malformed}");
        }
    }
}
