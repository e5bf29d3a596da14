//! Ciphertexts in files and on the server, held to the keys that they are to go with.

use std::{fmt::Display, path::Path};

use cloakwork_client::{CkksKeys, Client, Encrypted, Input, Vector, VectorHeader, params::KeyId};

use crate::{context::Context, failure::Failure};

/// A ciphertext by the name of its file or of the server's, and what it holds.
pub(super) async fn find(
    context: &Context,
    client: &Client,
    keys: &CkksKeys,
    source: &str,
) -> Result<(Input, Vector), Failure> {
    if source.starts_with("tenants/") {
        let described = client.describe(source).await?;
        let numbers = described
            .ckks
            .filter(|numbers| numbers.slots.is_power_of_two())
            .ok_or_else(|| Failure::Usage(format!("{source} is no ciphertext of numbers")))?;
        let key_id = described.key_id[..].try_into().map_or(KeyId::NONE, KeyId);
        check(context, keys, source, &described.parameter_set, key_id)?;
        let vector = Vector { slots_log2: numbers.slots.ilog2(), level: numbers.level as usize, scale: numbers.scale };
        return Ok((Input::Name(source.to_owned()), vector));
    }
    let (envelope, VectorHeader { vector, .. }) = read(context, keys, Path::new(source))?;
    Ok((Input::Encrypted(Encrypted { envelope: envelope.into(), count: 1 << vector.slots_log2 }), vector))
}

/// A ciphertext from its file, and what it says of itself. That its numbers are whole is not looked at.
pub(super) fn read(context: &Context, keys: &CkksKeys, file: &Path) -> Result<(Vec<u8>, VectorHeader), Failure> {
    let wrong = |problem: &dyn Display| Failure::Usage(format!("{}: {problem}", file.display()));
    let envelope = std::fs::read(file).map_err(|error| wrong(&error))?;
    let header = VectorHeader::of(&envelope).map_err(|error| wrong(&error))?;
    check(context, keys, &file.display().to_string(), header.set.name, header.key_id)?;
    Ok((envelope, header))
}

/// Refuses what was made for another set or under another key: nothing comes of it, and only whoever has the keys can tell what
/// went wrong.
fn check(context: &Context, keys: &CkksKeys, source: &str, set: &str, key_id: KeyId) -> Result<(), Failure> {
    let directory = context.global.keys.display();
    if set != keys.set().name {
        let own = keys.set().name;
        return Err(Failure::OtherKey(format!("{source}: made for {set}; the keys in {directory} are for {own}")));
    }
    if key_id != keys.key_id() {
        let own = keys.key_id();
        return Err(Failure::OtherKey(format!("{source}: made under key {key_id}; {directory} has key {own}")));
    }
    Ok(())
}

/// So many numbers, as people say it.
pub(super) fn numbers(count: u64) -> String {
    match count {
        1 => "1 number".to_owned(),
        count => format!("{count} numbers"),
    }
}
