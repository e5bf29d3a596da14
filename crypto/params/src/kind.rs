//! Object kinds of an envelope, and the ids of the keys that objects belong to.

use std::fmt;

/// Kind of an object, with its number in an envelope. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ObjectKind {
    /// LWE ciphertexts with their masks.
    LweList,
    /// LWE ciphertexts whose masks come from a seed.
    SeededLweList,
    /// LWE ciphertexts that share masks, encrypted with a compact public key.
    CompactList,
    /// LWE ciphertexts packed into GLWE ciphertexts of a small modulus.
    CompressedGlweList,
    /// A lookup table for bootstraps. A table is public and belongs to no key.
    Lut,
    /// Encrypted approximate numbers: body and mask.
    CkksCiphertext,
    /// Encrypted approximate numbers, fresh from the secret key, with the mask from a seed.
    SeededCkksCiphertext,
    /// The bootstrap key, classical or multi-bit.
    SeededBootstrapKey,
    /// The key-switch key from the big to the small key.
    SeededKeySwitchKey,
    /// The packing key-switch key from the big to the packing key.
    SeededPackingKey,
    /// The bootstrap key from the packing to the big key.
    SeededDecompressionKey,
    /// A public key to encrypt with.
    CompactPublicKey,
    /// A key from one CKKS secret to another: one of the many parts of a client's evaluation key.
    SeededCkksSwitchKey,
    /// A public key of CKKS to encrypt with.
    SeededCkksPublicKey,
    /// A client's secret keys, which never leave the client. Every program on a server refuses this
    /// kind.
    ClientKey,
    /// A client's secret key for CKKS, with equal restrictions.
    CkksClientKey,
}

/// First number of secret kinds. All kinds from this number on are secret, including kinds of later
/// versions.
pub const FIRST_SECRET_KIND: u16 = 0x8000;

/// Kind, number, name, and whether the masks come from a seed in the header.
const KINDS: &[(ObjectKind, u16, &str, bool)] = &[
    (ObjectKind::LweList, 1, "LWE ciphertext list", false),
    (ObjectKind::SeededLweList, 2, "seeded LWE ciphertext list", true),
    (ObjectKind::CompactList, 3, "compact ciphertext list", false),
    (ObjectKind::CompressedGlweList, 4, "compressed GLWE ciphertext list", false),
    (ObjectKind::Lut, 5, "lookup table", false),
    (ObjectKind::CkksCiphertext, 6, "CKKS ciphertext", false),
    (ObjectKind::SeededCkksCiphertext, 7, "seeded CKKS ciphertext", true),
    (ObjectKind::SeededBootstrapKey, 0x10, "seeded bootstrap key", true),
    (ObjectKind::SeededKeySwitchKey, 0x11, "seeded key-switch key", true),
    (ObjectKind::SeededPackingKey, 0x12, "seeded packing key", true),
    (ObjectKind::SeededDecompressionKey, 0x13, "seeded decompression key", true),
    (ObjectKind::CompactPublicKey, 0x14, "compact public key", true),
    (ObjectKind::SeededCkksSwitchKey, 0x15, "seeded CKKS switch key", true),
    (ObjectKind::SeededCkksPublicKey, 0x16, "seeded CKKS public key", true),
    (ObjectKind::ClientKey, 0x8000, "client key", false),
    (ObjectKind::CkksClientKey, 0x8001, "CKKS client key", false),
];

impl ObjectKind {
    /// All kinds.
    pub fn all() -> impl Iterator<Item = Self> {
        KINDS.iter().map(|row| row.0)
    }

    /// The kind with this number.
    pub fn from_number(number: u16) -> Option<Self> {
        KINDS.iter().find(|row| row.1 == number).map(|row| row.0)
    }

    /// The number of the kind.
    pub fn number(self) -> u16 {
        self.row().1
    }

    /// Whether the masks come from a seed in the header.
    pub fn is_seeded(self) -> bool {
        self.row().3
    }

    /// Whether the object must never reach a server.
    pub fn is_secret(self) -> bool {
        self.number() >= FIRST_SECRET_KIND
    }

    /// Whether the kind belongs to CKKS. Kinds of CKKS have parameter sets of their own, and their
    /// dimensions are in [`crate::ckks::layout`].
    pub fn is_ckks(self) -> bool {
        use ObjectKind::{
            CkksCiphertext, CkksClientKey, SeededCkksCiphertext, SeededCkksPublicKey, SeededCkksSwitchKey,
        };
        matches!(
            self,
            CkksCiphertext | SeededCkksCiphertext | SeededCkksSwitchKey | SeededCkksPublicKey | CkksClientKey
        )
    }

    fn row(self) -> &'static (ObjectKind, u16, &'static str, bool) {
        KINDS.iter().find(|row| row.0 == self).expect("every kind has a row")
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.row().2)
    }
}

/// Public random id of a client's secret keys, carried by every object that is made under these
/// keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; 16]);

impl KeyId {
    /// Key id of objects that belong to no key.
    pub const NONE: Self = Self([0; 16]);
}

impl fmt::Debug for KeyId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "KeyId({self})")
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_only_client_keys_are_secret() {
        let mut numbers: Vec<u16> = ObjectKind::all().map(ObjectKind::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), KINDS.len());
        for kind in ObjectKind::all() {
            assert_eq!(ObjectKind::from_number(kind.number()), Some(kind));
            let is_client_key = matches!(kind, ObjectKind::ClientKey | ObjectKind::CkksClientKey);
            assert_eq!(kind.is_secret(), is_client_key);
            assert_eq!(kind.is_ckks(), kind.to_string().contains("CKKS"));
        }
        assert_eq!(ObjectKind::from_number(0), None);
    }

    #[test]
    fn a_key_id_prints_as_hex() {
        let mut bytes = [0; 16];
        (bytes[0], bytes[15]) = (0xab, 1);
        assert_eq!(KeyId(bytes).to_string(), "ab000000000000000000000000000001");
    }
}
