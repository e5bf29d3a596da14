//! The allowed signature algorithms.

/// An algorithm that a token may name. There is none without a signature and none with a shared
/// secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// RSA with padding of PKCS #1 v1.5.
    Rs256,
    /// RSA with padding of PSS.
    Ps256,
    /// ECDSA on the curve P-256.
    Es256,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    const ALL: [Self; 4] = [Self::Rs256, Self::Ps256, Self::Es256, Self::EdDsa];

    /// The name in the `alg` of tokens and keys.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Ps256 => "PS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The algorithm with exactly this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}
