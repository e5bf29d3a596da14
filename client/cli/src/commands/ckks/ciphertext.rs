//! Ciphertexts in files and on the server, checked against the keys.

use std::{fmt::Display, path::Path};

use cloakwork_client::{
    CkksKeys, Client, Encrypted, Input, Vector, VectorHeader,
    params::KeyId,
    proto::{Ciphertext, JobOutput},
};

use crate::{context::Context, failure::Failure};

/// Finds a ciphertext by its file or its resource name, and returns it with the vector that it
/// holds.
pub(super) async fn find(
    context: &Context,
    client: &Client,
    keys: &CkksKeys,
    source: &str,
) -> Result<(Input, Vector), Failure> {
    if is_of_the_server(source) {
        let (_, vector) = describe(context, client, keys, source).await?;
        return Ok((Input::Name(source.to_owned()), vector));
    }
    let (envelope, VectorHeader { vector, .. }) = read(context, keys, Path::new(source))?;
    Ok((Input::Encrypted(Encrypted { envelope: envelope.into(), count: 1 << vector.slots_log2 }), vector))
}

/// Bytes of a ciphertext by its file or its resource name. The server sends the bytes of a named
/// ciphertext.
pub(super) async fn fetch(context: &Context, keys: &CkksKeys, source: &str) -> Result<Vec<u8>, Failure> {
    if !is_of_the_server(source) {
        return Ok(read(context, keys, Path::new(source))?.0);
    }
    let client = context.connect().await?;
    let (described, _) = describe(context, &client, keys, source).await?;
    let output = JobOutput { name: source.to_owned(), digest: described.digest, ..Default::default() };
    Ok(client.output(&output).await?.into())
}

/// Whether a source is a resource name of the server, and not a file.
fn is_of_the_server(source: &str) -> bool {
    source.starts_with("tenants/")
}

/// Asks the server for the metadata of a ciphertext.
async fn describe(
    context: &Context,
    client: &Client,
    keys: &CkksKeys,
    source: &str,
) -> Result<(Ciphertext, Vector), Failure> {
    let described = client.describe(source).await?;
    let numbers = described
        .ckks
        .filter(|numbers| numbers.slots.is_power_of_two())
        .ok_or_else(|| Failure::Invalid(format!("{source}: not a ciphertext of numbers")))?;
    let key_id = described.key_id[..].try_into().map_or(KeyId::NONE, KeyId);
    check(context, keys, source, &described.parameter_set, key_id)?;
    let vector = Vector { slots_log2: numbers.slots.ilog2(), level: numbers.level as usize, scale: numbers.scale };
    Ok((described, vector))
}

/// Reads a ciphertext from its file, and the metadata in its header. The numbers themselves are not
/// checked.
pub(super) fn read(context: &Context, keys: &CkksKeys, file: &Path) -> Result<(Vec<u8>, VectorHeader), Failure> {
    let said = |problem: &dyn Display| format!("{}: {problem}", file.display());
    let envelope = std::fs::read(file).map_err(|error| Failure::Usage(said(&error)))?;
    let header = VectorHeader::of(&envelope).map_err(|error| Failure::Invalid(said(&error)))?;
    check(context, keys, &file.display().to_string(), header.set.name, header.key_id)?;
    Ok((envelope, header))
}

/// Refuses a ciphertext of another set or under another key. A computation on it gives nothing
/// useful, and only the holder of the keys could tell why.
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
