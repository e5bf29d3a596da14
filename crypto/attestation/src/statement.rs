//! Statements about results.

use crate::{AttestationError, Certificate, WorkerKey, fields::Fields};

/// Bytes of an encoded statement.
pub(crate) const BYTES: usize = 8 + 16 + Subject::BYTES + 8;

/// The first bytes of a statement.
const MAGIC: [u8; 8] = *b"CWKRSLT1";

/// A worker's statement: it computed this result, at this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The worker.
    pub worker: [u8; 16],
    /// The result.
    pub subject: Subject,
    /// When the worker signed, in microseconds of Unix time, by the worker's clock.
    pub signed_at_micros: i64,
}

/// A result, and the job that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The job's id.
    pub job: [u8; 16],
    /// The client's id of its request. The server chooses the job's id, so only this id keeps an
    /// older result from being taken for a new one.
    pub request: [u8; 16],
    /// BLAKE3 of the program.
    pub program: [u8; 32],
    /// The client key's public id.
    pub key: [u8; 16],
    /// [`digest_of_list`] of the parts of the evaluation key. The public id alone would not do:
    /// another tenant can register a key of its own under any id.
    pub evaluation_key: [u8; 32],
    /// Number of the parameter set.
    pub set: u16,
    /// Number of rows.
    pub rows: u64,
    /// [`digest_of_list`] of the inputs' digests.
    pub inputs: [u8; 32],
    /// [`digest_of_list`] of the outputs' digests.
    pub outputs: [u8; 32],
}

impl Statement {
    /// The attestation of this statement: with its signature, and the certificate of the key that
    /// signs.
    pub fn sign(&self, key: &WorkerKey, certificate: &Certificate) -> Vec<u8> {
        let statement = self.encode();
        [&statement[..], &key.sign(&statement), &certificate.encode()].concat()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let signed_at = self.signed_at_micros.to_le_bytes();
        [&MAGIC, &self.worker[..], &self.subject.encode(), &signed_at].concat()
    }

    pub(crate) fn decode(bytes: &[u8; BYTES]) -> Result<Self, AttestationError> {
        let decoded = || {
            let mut fields = Fields::of(bytes);
            if fields.take()? != MAGIC {
                return None;
            }
            let (worker, subject) = (fields.take()?, Subject::decode(&mut fields)?);
            let signed_at_micros = i64::from_le_bytes(fields.take()?);
            fields.end().map(|()| Self { worker, subject, signed_at_micros })
        };
        decoded().ok_or(AttestationError::Malformed { what: "the statement" })
    }
}

impl Subject {
    /// The request's id in a statement about rows that were computed a second time. No client made
    /// such a request, and the id of a request is never zero.
    pub const NO_REQUEST: [u8; 16] = [0; 16];

    const BYTES: usize = 16 + 16 + 32 + 16 + 32 + 2 + 8 + 32 + 32;

    /// Compares the subject with the expected one. The error names the first field that differs.
    pub fn check(&self, expected: &Self) -> Result<(), AttestationError> {
        let fields = [
            ("request", self.request == expected.request),
            ("job", self.job == expected.job),
            ("program", self.program == expected.program),
            ("key", self.key == expected.key),
            ("evaluation key", self.evaluation_key == expected.evaluation_key),
            ("parameter set", self.set == expected.set),
            ("number of rows", self.rows == expected.rows),
            ("inputs", self.inputs == expected.inputs),
            ("outputs", self.outputs == expected.outputs),
        ];
        match fields.into_iter().find(|(_, is_equal)| !is_equal) {
            Some((field, _)) => Err(AttestationError::Mismatch { field }),
            None => Ok(()),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let (set, rows) = (self.set.to_le_bytes(), self.rows.to_le_bytes());
        let fields: [&[u8]; 9] = [
            &self.job,
            &self.request,
            &self.program,
            &self.key,
            &self.evaluation_key,
            &set,
            &rows,
            &self.inputs,
            &self.outputs,
        ];
        fields.concat()
    }

    fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self {
            job: fields.take()?,
            request: fields.take()?,
            program: fields.take()?,
            key: fields.take()?,
            evaluation_key: fields.take()?,
            set: u16::from_le_bytes(fields.take()?),
            rows: u64::from_le_bytes(fields.take()?),
            inputs: fields.take()?,
            outputs: fields.take()?,
        })
    }
}

/// One digest of a list of BLAKE3 digests, in order. Its context keeps it apart from the digest of
/// a file that consists of the same bytes.
pub fn digest_of_list<'a>(digests: impl IntoIterator<Item = &'a [u8; 32]>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("cloakwork 2026-11-28 list of digests in a statement");
    for digest in digests {
        hasher.update(digest);
    }
    *hasher.finalize().as_bytes()
}
