//! Names of objects.

use crate::{Digest, Error, TenantId};

/// The bytes of a blob in the store.
///
/// Each commit writes an object of its own, and the row of the blob names its generation. A server
/// that was suspended may send a removal late, when another server has committed the same blob
/// again. The removal then names the earlier object, and the blob keeps its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) tenant: TenantId,
    pub(crate) blake3: [u8; 32],
    /// A random number; 0 for objects of versions without generations.
    pub(crate) generation: i64,
}

impl Object {
    pub(crate) fn new(tenant: &TenantId, digest: &Digest, generation: i64) -> Self {
        Self { tenant: tenant.clone(), blake3: digest.blake3, generation }
    }

    /// An object that no other commit writes.
    pub(crate) fn fresh(tenant: &TenantId, digest: &Digest) -> Result<Self, Error> {
        let mut number = [0; 8];
        getrandom::fill(&mut number).map_err(Error::failed)?;
        Ok(Self::new(tenant, digest, (i64::from_be_bytes(number) & i64::MAX).max(1)))
    }

    /// Name in the store, made of checked names only.
    pub(crate) fn name(&self) -> String {
        let Self { tenant, blake3, generation } = self;
        let hex = blake3::Hash::from_bytes(*blake3).to_hex();
        let name = format!("{tenant}/{}/{hex}", &hex[..2]);
        if *generation == 0 { name } else { format!("{name}-{generation:016x}") }
    }

    /// The object of this name, if the name has the form of [`Object::name`].
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split('/');
        let (tenant, _, last) = (parts.next()?, parts.next()?, parts.next()?);
        let (hex, generation) = match last.split_once('-') {
            Some((hex, generation)) => (hex, i64::from_str_radix(generation, 16).ok()?),
            None => (last, 0),
        };
        let blake3 = *blake3::Hash::from_hex(hex).ok()?.as_bytes();
        let object = Self { tenant: TenantId::new(tenant).ok()?, blake3, generation };
        // Other spellings of a number are names of no object.
        (object.name() == name).then_some(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_back_to_its_object_and_no_other_name_does() {
        let tenant = TenantId::new("alice").expect("a name");
        let digest = Digest { blake3: [0xab; 32], size_bytes: 1 };
        let hex = "ab".repeat(32);
        for (generation, name) in [
            (0, format!("alice/ab/{hex}")),
            (1, format!("alice/ab/{hex}-0000000000000001")),
            (i64::MAX, format!("alice/ab/{hex}-7fffffffffffffff")),
        ] {
            let object = Object::new(&tenant, &digest, generation);
            assert_eq!(object.name(), name);
            assert_eq!(Object::parse(&name), Some(object));
        }
        for other in [
            format!("alice/ab/{hex}-0000000000000000"),
            format!("alice/ab/{hex}-1"),
            format!("alice/ab/{hex}-+000000000000001"),
            format!("alice/ab/{hex}-ffffffffffffffff"),
            format!("alice/ab/{hex}-000000000000000A"),
            format!("alice/ab/{hex}.new"),
            format!("alice/ac/{hex}"),
            format!("alice/ab/{hex}/more"),
            format!("alice/ab/{}", hex.to_uppercase()),
            "marker.txt".to_owned(),
        ] {
            assert_eq!(Object::parse(&other), None, "{other}");
        }
    }

    #[test]
    fn no_two_commits_write_the_same_object() {
        let tenant = TenantId::new("alice").expect("a name");
        let fresh = || Object::fresh(&tenant, &Digest { blake3: [1; 32], size_bytes: 1 }).expect("randomness");
        let (one, other) = (fresh(), fresh());
        assert!(one != other && one.generation > 0 && other.generation > 0);
    }
}
