//! Ciphertexts in files and on the server, checked against the keys.

use std::{fmt::Display, path::Path};

use cloakwork_client::{CkksKeys, Client, Encrypted, Input, Shape, Vector, VectorHeader, params::KeyId};

use crate::{
    context::Context,
    failure::Failure,
    results::{self, Recorded},
};

/// Finds a ciphertext by its file or its resource name, and returns it with the vector that it
/// holds.
pub(super) async fn find(
    context: &Context,
    client: &Client,
    keys: &CkksKeys,
    source: &str,
) -> Result<(Input, Vector), Failure> {
    if is_of_the_server(source) {
        let Recorded { shape, asked } = recorded(context, keys, source)?;
        client.use_key(keys).await?;
        let digest = client.list_digest(source, asked.as_ref()).await?;
        return Ok((Input::Known { name: source.to_owned(), digest }, shape.vector));
    }
    let (list, VectorHeader { vector, .. }) = read(context, keys, Path::new(source))?;
    Ok((Input::Encrypted(list), vector))
}

/// A ciphertext by its file or its resource name, and the vector that it holds. The server sends
/// the bytes of a named ciphertext.
pub(super) async fn fetch(context: &Context, keys: &CkksKeys, source: &str) -> Result<(Encrypted, Vector), Failure> {
    if !is_of_the_server(source) {
        let (list, VectorHeader { vector, .. }) = read(context, keys, Path::new(source))?;
        return Ok((list, vector));
    }
    let Recorded { shape, asked } = recorded(context, keys, source)?;
    let client = context.connect().await?;
    client.use_key(keys).await?;
    let list = client.ciphertext(source, Shape::Vector(shape), asked.as_ref()).await?;
    Ok((list, shape.vector))
}

/// Whether a source is a resource name of the server, and not a file.
fn is_of_the_server(source: &str) -> bool {
    source.starts_with("tenants/")
}

/// The record of a result on the server. The server's own description is not used: a lying
/// server could make decryption print digits that depend on the secret key.
fn recorded(context: &Context, keys: &CkksKeys, name: &str) -> Result<Recorded, Failure> {
    let directory = &context.global.keys;
    results::find(directory, keys.set(), name)?.ok_or_else(|| {
        Failure::Usage(format!(
            "{name}: {} has no record of this result, so nothing says what it must be. `ckks run` and `ckks bootstrap` \
             record the results of their jobs there",
            directory.display()
        ))
    })
}

/// Reads a ciphertext from its file, and the metadata in its header. The file is the user's own, so
/// its header states the shape. The numbers themselves are not checked.
fn read(context: &Context, keys: &CkksKeys, file: &Path) -> Result<(Encrypted, VectorHeader), Failure> {
    let said = |problem: &dyn Display| format!("{}: {problem}", file.display());
    let envelope = std::fs::read(file).map_err(|error| Failure::Usage(said(&error)))?;
    let header = VectorHeader::of(&envelope).map_err(|error| Failure::Invalid(said(&error)))?;
    check(context, keys, &file.display().to_string(), header.set.name, header.key_id)?;
    Ok((Encrypted { envelope: envelope.into(), shape: header.shape() }, header))
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
