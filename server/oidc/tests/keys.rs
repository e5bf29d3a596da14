//! Private keys of the issuer, and tokens that they sign.

use std::{process::Command, sync::OnceLock};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ring::{
    rand::SystemRandom,
    rsa::PublicKeyComponents,
    signature::{
        ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
        RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaKeyPair,
    },
};
use serde_json::{Value, json};

/// The time of the tests: Unix time in seconds.
pub(crate) const NOW: i64 = 1_800_000_000;

/// A private key of an issuer, under a name.
#[derive(Clone)]
pub(crate) struct Signer {
    pub(crate) id: &'static str,
    kind: Kind,
    pkcs8: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rsa,
    P256,
    Ed25519,
}

impl Signer {
    /// An RSA key. All such keys of one name are equal, and there are two names.
    pub(crate) fn rsa(id: &'static str) -> Self {
        static KEYS: [OnceLock<Vec<u8>>; 2] = [OnceLock::new(), OnceLock::new()];
        let place = ["rsa", "other rsa"].iter().position(|name| *name == id).expect("a name of an RSA key");
        Self { id, kind: Kind::Rsa, pkcs8: KEYS[place].get_or_init(new_rsa).clone() }
    }

    pub(crate) fn p256(id: &'static str) -> Self {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        Self { id, kind: Kind::P256, pkcs8: document.expect("a key").as_ref().to_vec() }
    }

    pub(crate) fn ed25519(id: &'static str) -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        Self { id, kind: Kind::Ed25519, pkcs8: document.expect("a key").as_ref().to_vec() }
    }

    /// The algorithm that tokens of this key name by default.
    pub(crate) fn algorithm(&self) -> &'static str {
        match self.kind {
            Kind::Rsa => "RS256",
            Kind::P256 => "ES256",
            Kind::Ed25519 => "EdDSA",
        }
    }

    /// The public key as a member of a key set.
    pub(crate) fn jwk(&self) -> Value {
        match self.kind {
            Kind::Rsa => {
                let key = RsaKeyPair::from_pkcs8(&self.pkcs8).expect("a key");
                let public = PublicKeyComponents::<Vec<u8>>::from(key.public());
                json!({"kty": "RSA", "kid": self.id, "use": "sig", "n": encode(&public.n), "e": encode(&public.e)})
            }
            Kind::P256 => {
                let point = self.public();
                let (x, y) = point[1..].split_at(32);
                json!({"kty": "EC", "crv": "P-256", "kid": self.id, "x": encode(x), "y": encode(y)})
            }
            Kind::Ed25519 => json!({"kty": "OKP", "crv": "Ed25519", "kid": self.id, "x": encode(&self.public())}),
        }
    }

    /// The bytes of the public key: a point, or the DER form of an RSA key.
    pub(crate) fn public(&self) -> Vec<u8> {
        match self.kind {
            Kind::Rsa => RsaKeyPair::from_pkcs8(&self.pkcs8).expect("a key").public().as_ref().to_vec(),
            Kind::P256 => self.ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING).public_key().as_ref().to_vec(),
            Kind::Ed25519 => self.edwards().public_key().as_ref().to_vec(),
        }
    }

    /// The signature under a message, in the algorithm that the header names.
    pub(crate) fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        match self.kind {
            Kind::Rsa => {
                let key = RsaKeyPair::from_pkcs8(&self.pkcs8).expect("a key");
                let mut signature = vec![0; key.public().modulus_len()];
                let random = SystemRandom::new();
                if algorithm == "PS256" {
                    key.sign(&RSA_PSS_SHA256, &random, message, &mut signature).expect("a signature");
                } else {
                    key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).expect("a signature");
                }
                signature
            }
            Kind::P256 => {
                let key = self.ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING);
                key.sign(&SystemRandom::new(), message).expect("a signature").as_ref().to_vec()
            }
            Kind::Ed25519 => self.edwards().sign(message).as_ref().to_vec(),
        }
    }

    /// An ECDSA signature in DER, as X.509 has them.
    pub(crate) fn sign_der(&self, message: &[u8]) -> Vec<u8> {
        let key = self.ecdsa(&ECDSA_P256_SHA256_ASN1_SIGNING);
        key.sign(&SystemRandom::new(), message).expect("a signature").as_ref().to_vec()
    }

    fn ecdsa(&self, form: &'static ring::signature::EcdsaSigningAlgorithm) -> EcdsaKeyPair {
        EcdsaKeyPair::from_pkcs8(form, &self.pkcs8, &SystemRandom::new()).expect("a key")
    }

    fn edwards(&self) -> Ed25519KeyPair {
        Ed25519KeyPair::from_pkcs8(&self.pkcs8).expect("a key")
    }

    /// A header that names this key.
    pub(crate) fn header(&self) -> Value {
        json!({"alg": self.algorithm(), "typ": "JWT", "kid": self.id})
    }

    /// A token with these claims.
    pub(crate) fn token(&self, claims: &Value) -> String {
        self.token_of(&self.header(), claims)
    }

    /// A token with this header and these claims.
    pub(crate) fn token_of(&self, header: &Value, claims: &Value) -> String {
        self.token_of_text(&header.to_string(), &claims.to_string())
    }

    /// A token with this text as its header and its claims.
    pub(crate) fn token_of_text(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", encode(header.as_bytes()), encode(claims.as_bytes()));
        let algorithm =
            serde_json::from_str(header).ok().and_then(|header: Value| Some(header["alg"].as_str()?.to_owned()));
        let signature = self.sign(&algorithm.unwrap_or_default(), signed.as_bytes());
        format!("{signed}.{}", encode(&signature))
    }
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A new RSA key of 2048 bits in PKCS #8. `ring` makes none.
fn new_rsa() -> Vec<u8> {
    let arguments = ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"];
    let output = Command::new("openssl").args(arguments).output().expect("openssl runs");
    assert!(output.status.success(), "openssl: {}", String::from_utf8_lossy(&output.stderr));
    let pem = String::from_utf8(output.stdout).expect("PEM");
    let lines: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    STANDARD.decode(lines).expect("base64")
}
