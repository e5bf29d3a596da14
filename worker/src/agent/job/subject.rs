//! The subject of a worker's statement about a job's result.

use bytes::Bytes;
use cloakwork_attestation::{Subject, digest_of_list};
use cloakwork_params::AnySet;
use cloakwork_proto::v1;

use super::{DigestedOutput, Held, invalid, key_id};
use crate::failure::JobFailure;

/// A subject without the digests of inputs and outputs, as it is known before the job is computed.
pub(super) struct Unfinished(Subject);

impl Unfinished {
    /// The subject of a job. The digest of its program is computed here, so that the statement
    /// names the program that ran.
    pub(super) fn of(held: &Held, set: AnySet, content: &v1::JobContent) -> Result<Self, JobFailure> {
        Ok(Self(Subject {
            job: id(&held.lease.job_id, "job")?,
            request: id(&content.request_id, "request")?,
            program: *blake3::hash(&content.program).as_bytes(),
            key: key_id(content)?.0,
            evaluation_key: digest_of_parts(all_parts(content))?,
            set: set.id().0,
            // A check has rows of its own.
            rows: if content.check_rows.is_empty() { content.rows } else { content.check_rows.len() as u64 },
            inputs: [0; 32],
            outputs: [0; 32],
        }))
    }

    /// The whole subject of a computed job.
    pub(super) fn complete(self, inputs: &[[u8; 32]], outputs: &[DigestedOutput]) -> Subject {
        let outputs = outputs.iter().map(|output| output.blake3.as_bytes());
        Subject { inputs: digest_of_list(inputs), outputs: digest_of_list(outputs), ..self.0 }
    }
}

fn id(bytes: &Bytes, of: &str) -> Result<[u8; 16], JobFailure> {
    let got = bytes.len();
    bytes.as_ref().try_into().map_err(|_| invalid(format!("a {of} id of {got} bytes: it has 16")))
}

/// One digest over parts of a key.
pub(super) fn digest_of_parts<'a>(parts: impl IntoIterator<Item = &'a v1::Digest>) -> Result<[u8; 32], JobFailure> {
    let digest = |part: &v1::Digest| {
        let got = part.blake3.len();
        part.blake3.as_ref().try_into().map_err(|_| invalid(format!("a digest of {got} bytes: it has 32")))
    };
    Ok(digest_of_list(&parts.into_iter().map(digest).collect::<Result<Vec<_>, _>>()?))
}

/// All parts that the job may be computed with: those of its set, then those of the companion.
fn all_parts(content: &v1::JobContent) -> impl Iterator<Item = &v1::Digest> {
    content.key_parts.iter().chain(content.companion.iter().flat_map(|companion| &companion.key_parts))
}
