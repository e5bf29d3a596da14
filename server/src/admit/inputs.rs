//! The input lists of a job: this module finds them, checks them against program and key, and
//! counts their rows.

use std::collections::HashMap;

use bytes::Bytes;
use cloakwork_circuit::{Input, ckks};
use cloakwork_keystore::BlobInfo;
use cloakwork_params::{KeyId, ObjectKind, ckks::layout::CiphertextShape};
use cloakwork_proto::v1::{JobInput, job_input::Source};
use cloakwork_scheduler::JobId;

use super::{Admission, InputBytes};
use crate::{
    caller::Caller,
    error::{
        ApiError, CIPHERTEXT_NOT_FOUND, FIELD_MISSING, INPUT_INVALID, JOB_NOT_FOUND, KEY_MISMATCH, OUTPUT_EXPIRED,
        OUTPUT_NOT_READY, REQUEST_TOO_LARGE,
    },
    jobs::Content,
    programs::{Compiled, Family},
    resource::{CiphertextName, ListName, OutputName},
};

/// The program and the key that the inputs must match.
pub(super) struct Wanted<'p> {
    pub(super) key_id: KeyId,
    pub(super) program: &'p Compiled,
}

impl<'p> Wanted<'p> {
    /// The inputs that the program declares.
    fn inputs(&self) -> Vec<Declared<'p>> {
        match &self.program.family {
            Family::Blocks(blocks) => blocks.inputs.iter().map(Declared::Blocks).collect(),
            Family::Vectors(outline) => outline.inputs.iter().map(Declared::Vector).collect(),
        }
    }
}

/// A declared input of a program.
#[derive(Clone, Copy)]
enum Declared<'p> {
    Blocks(&'p Input),
    Vector(&'p ckks::Input),
}

/// Bytes that inputs take in memory until the dispatcher has them, except the bytes of the lists.
/// An input without content takes two bytes in its message.
pub(super) fn decoded_bytes(inputs: &[JobInput]) -> u64 {
    /// The input as decoded, as found, and as a list that later inputs may name. A map has up to
    /// two places for each of its entries.
    const INPUT_BYTES: usize = size_of::<JobInput>() + size_of::<Content>() + 2 * size_of::<(String, Found)>();
    let name_bytes = |input: &JobInput| match &input.source {
        Some(Source::Name(name)) => name.len(),
        _ => 0,
    };
    // Each name is stored twice.
    inputs.iter().map(|input| (INPUT_BYTES + 2 * name_bytes(input)) as u64).sum()
}

/// Returns the job's inputs, and their common number of rows.
pub(super) async fn resolve(
    admission: &Admission,
    caller: &Caller,
    wanted: &Wanted<'_>,
    inputs: Vec<JobInput>,
    memory: &mut InputBytes,
) -> Result<(Vec<Content>, u64), ApiError> {
    let all_declared = wanted.inputs();
    if inputs.len() != all_declared.len() {
        let message = format!("{} inputs: the program takes {}", inputs.len(), all_declared.len());
        return Err(INPUT_INVALID.error(message));
    }
    let inline: usize = inputs.iter().map(inline_bytes).sum();
    if inline as u64 > admission.limits.inline_bytes {
        let message = format!(
            "{inline} bytes of inputs inside the request: at most {}; store them first",
            admission.limits.inline_bytes
        );
        return Err(REQUEST_TOO_LARGE.error(message));
    }
    let mut contents = Vec::with_capacity(inputs.len());
    let mut rows = None;
    let mut room = Room { left: admission.limits.inline_bytes, found: HashMap::new(), memory };
    for (index, (input, declared)) in inputs.into_iter().zip(all_declared).enumerate() {
        let (content, info) = room.find(admission, caller, index, input).await?;
        conform(wanted, index, &info)?;
        let found = match declared {
            Declared::Blocks(declared) => {
                blocks_conform(index, declared, &info)?;
                rows_of_blocks(index, declared, info.count)?
            }
            Declared::Vector(declared) => {
                vector_conforms(index, declared, &info)?;
                1
            }
        };
        let expected = *rows.get_or_insert(found);
        if found != expected {
            return Err(INPUT_INVALID.error(format!("input {index} has {found} rows, input 0 has {expected}")));
        }
        contents.push(content);
    }
    // A program without inputs runs for one row.
    Ok((contents, rows.unwrap_or(1)))
}

/// Number of rows of a list of `count` ciphertexts.
fn rows_of_blocks(index: usize, declared: &Input, count: u64) -> Result<u64, ApiError> {
    let blocks = declared.row.blocks() as u64;
    if count.is_multiple_of(blocks) {
        return Ok(count / blocks);
    }
    let (name, ty) = (&declared.name, declared.row);
    let message = format!("input {index} ('{name}') has {count} ciphertexts: expected {blocks} for each {ty}");
    Err(INPUT_INVALID.error(message))
}

/// A list that an input stands for.
type Found = (Content, BlobInfo);

/// The bytes that one job may still read from the server's own database, and the lists found so
/// far. A job may name a list often.
struct Room<'m> {
    left: u64,
    found: HashMap<String, Found>,
    /// Counts the bytes of the lists that are in memory.
    memory: &'m mut InputBytes,
}

impl Room<'_> {
    /// Finds an input. Outputs of other jobs that do not fit into the job's assignment become
    /// blobs.
    async fn find(
        &mut self,
        admission: &Admission,
        caller: &Caller,
        index: usize,
        input: JobInput,
    ) -> Result<Found, ApiError> {
        let name = match &input.source {
            Some(Source::Name(name)) => Some(name.clone()),
            _ => None,
        };
        let known = name.as_ref().and_then(|name| self.found.get(name).cloned());
        let (mut content, info) = match known {
            Some(known) => known,
            None => find(admission, caller, index, input).await?,
        };
        match &content.bytes {
            Some(bytes) if bytes.len() as u64 > self.left => {
                self.memory.add(content.size_bytes)?;
                admission.keystore.put(&caller.tenant, bytes.clone(), None).await?;
                content.bytes = None;
                self.memory.remove(content.size_bytes);
            }
            Some(bytes) => {
                self.left -= bytes.len() as u64;
                self.memory.add(content.size_bytes)?;
            }
            None => {}
        }
        if let Some(name) = name {
            self.found.insert(name, (content.clone(), info.clone()));
        }
        Ok((content, info))
    }
}

fn inline_bytes(input: &JobInput) -> usize {
    match &input.source {
        Some(Source::Inline(bytes)) => bytes.len(),
        _ => 0,
    }
}

async fn find(admission: &Admission, caller: &Caller, index: usize, input: JobInput) -> Result<Found, ApiError> {
    let name = match input.source {
        None => return Err(FIELD_MISSING.error(format!("input {index} is empty: expected a list or its name"))),
        Some(Source::Inline(bytes)) => {
            let info = admission.keystore.check(&bytes).map_err(ApiError::from)?;
            // A copy, because the bytes are a slice of the request and would keep all of it in
            // memory.
            return Ok((Content::inline(Bytes::copy_from_slice(&bytes)), info));
        }
        Some(Source::Name(name)) => name,
    };
    let tenant = &caller.tenant;
    match ListName::parse_own(&name, &caller.principal)? {
        ListName::Ciphertext(CiphertextName { digest, .. }) => {
            let info = admission
                .keystore
                .blob_named(tenant, &digest)
                .await?
                .ok_or_else(|| CIPHERTEXT_NOT_FOUND.error(format!("input {index}: {name} is not here")))?;
            Ok((Content { digest, size_bytes: info.digest.size_bytes, bytes: None }, info))
        }
        ListName::Output(OutputName { job, index: place }) => {
            let job = JobId(job.job.as_u128());
            // The view of an ended job holds all its outputs, and is dropped before the next wait.
            let content = {
                let view = admission.dispatcher.find(tenant.as_str(), job).await?;
                let view =
                    view.ok_or_else(|| JOB_NOT_FOUND.error(format!("input {index}: there is no job for {name}")))?;
                let Some(end) = view.borrow().end.clone() else {
                    return Err(OUTPUT_NOT_READY.error(format!("input {index}: the job of {name} has not ended")));
                };
                let count = end.outputs.len();
                end.outputs.get(place as usize).cloned().ok_or_else(|| {
                    OUTPUT_EXPIRED.error(format!("input {index}: the job of {name} has {count} outputs to read"))
                })?
            };
            let info = match &content.bytes {
                Some(bytes) => admission.keystore.check(bytes)?,
                None => admission.keystore.blob(tenant, &content.blob()).await?,
            };
            Ok((content, info))
        }
    }
}

/// Checks the parameter set and the key of an input.
fn conform(wanted: &Wanted<'_>, index: usize, info: &BlobInfo) -> Result<(), ApiError> {
    let set = wanted.program.set();
    if info.set.id() != set.id() {
        let message = format!("input {index} was made for {}: the program is for {}", info.set.name(), set.name());
        return Err(INPUT_INVALID.error(message));
    }
    if info.key_id != wanted.key_id {
        let message = format!("input {index} was made under key {}: the job runs under {}", info.key_id, wanted.key_id);
        return Err(KEY_MISMATCH.error(message));
    }
    Ok(())
}

fn blocks_conform(index: usize, declared: &Input, info: &BlobInfo) -> Result<(), ApiError> {
    if !declared.takes(info.kind) {
        let expected = match declared.is_fresh {
            true => "a seeded or compact list, whose ciphertexts are freshly encrypted",
            false => "an LWE ciphertext list",
        };
        return Err(INPUT_INVALID.error(format!("input {index} is a {}: expected {expected}", info.kind)));
    }
    for (what, limit, got) in [
        ("degree", declared.degree_max, info.degree_max),
        ("noise level", declared.noise_level_max, info.noise_level_max),
    ] {
        if got > limit {
            let message = format!(
                "input {index} ('{}') has a {what} of {got}: the program declares at most {limit}",
                declared.name
            );
            return Err(INPUT_INVALID.error(message));
        }
    }
    Ok(())
}

fn vector_conforms(index: usize, declared: &ckks::Input, info: &BlobInfo) -> Result<(), ApiError> {
    let shape = match info.kind {
        ObjectKind::CkksCiphertext | ObjectKind::SeededCkksCiphertext => info.set.ckks(),
        _ => None,
    };
    let shape = shape.and_then(|set| CiphertextShape::of(set, &info.dimensions).ok());
    let Some(shape) = shape else {
        return Err(INPUT_INVALID.error(format!("input {index} is a {}: expected a CKKS ciphertext", info.kind)));
    };
    match declared.vector.difference(shape) {
        None => Ok(()),
        Some(difference) => Err(INPUT_INVALID.error(format!("input {index} ('{}') has {difference}", declared.name))),
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_circuit::{RowType, Type};
    use cloakwork_keystore::Digest;
    use cloakwork_params::{AnySet, ckks::CKKS_SETS};

    use super::*;
    use crate::test_objects::KEY;

    #[test]
    fn an_input_counts_with_all_its_values_in_memory() {
        let named = |name: &str| JobInput { source: Some(Source::Name(name.to_owned())) };
        let inline = JobInput { source: Some(Source::Inline(Bytes::from_static(&[7; 1000]))) };
        assert_eq!(decoded_bytes(&[]), 0);
        let empty = decoded_bytes(&[JobInput::default()]);
        let least = (size_of::<JobInput>() + size_of::<Content>() + size_of::<Found>()) as u64;
        assert!((least..3 * least).contains(&empty), "{empty} and {least}");
        assert_eq!(decoded_bytes(&[inline]), empty, "the bytes of a list count when they are copied");
        assert_eq!(decoded_bytes(&[named("name"), named("")]), 2 * empty + 2 * 4);
    }

    fn info(kind: ObjectKind) -> BlobInfo {
        BlobInfo {
            digest: Digest { blake3: [0; 32], size_bytes: 0 },
            kind,
            set: AnySet::Ckks(&CKKS_SETS[0]),
            key_id: KEY,
            dimensions: [0; 8],
            count: 1,
            degree_max: 3,
            noise_level_max: 1,
            created_micros: 0,
        }
    }

    #[test]
    fn blocks_must_keep_the_degree_and_the_noise_level_that_the_program_declares() {
        let declared = |degree_max, noise_level_max, is_fresh| Input {
            name: "x".to_owned(),
            row: RowType { ty: Type::Block, length: None },
            degree_max,
            noise_level_max,
            is_fresh,
        };
        let conforms = |declared, kind| blocks_conform(0, &declared, &info(kind)).is_ok();
        assert!(conforms(declared(3, 1, false), ObjectKind::LweList));
        assert!(!conforms(declared(2, 1, false), ObjectKind::LweList));
        assert!(!conforms(declared(3, 0, false), ObjectKind::LweList));
        assert!(!conforms(declared(3, 1, true), ObjectKind::LweList));
        assert!(conforms(declared(3, 1, true), ObjectKind::CompactList));
        assert!(!conforms(declared(3, 1, false), ObjectKind::SeededCkksCiphertext));
    }

    #[test]
    fn a_vector_must_have_the_declared_shape() {
        let shape = CiphertextShape { level: 1, slots_log2: 3, scale: 1e9 };
        let vector = ckks::Vector { slots_log2: 3, level: 1, scale: 1e9 };
        let declared = |vector| ckks::Input { name: "x".to_owned(), vector };
        let dimensions = shape.to_dimensions(&CKKS_SETS[0]).expect("a shape of the set");
        let conforms =
            |kind, vector| vector_conforms(0, &declared(vector), &BlobInfo { dimensions, ..info(kind) }).is_ok();
        assert!(conforms(ObjectKind::CkksCiphertext, vector));
        assert!(conforms(ObjectKind::SeededCkksCiphertext, vector));
        assert!(!conforms(ObjectKind::SeededCkksSwitchKey, vector));
        assert!(!conforms(ObjectKind::CkksCiphertext, ckks::Vector { slots_log2: 4, ..vector }));
    }
}
