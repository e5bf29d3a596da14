//! Verification of the origin of results.
//!
//! A worker signs for which job it computed a result. The client compares the statement with what
//! it asked for, and takes no result that differs. The proof is of origin, not of correctness.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cloakwork_attestation::{
    Anchor, AttestationError, CLOCK_SKEW_MICROS, Statement, Subject, Verifier, digest_of_list,
};
use cloakwork_clock::Clock;
use cloakwork_proto::v1::{self, Job, JobOutput};
use tokio::sync::OnceCell;

use crate::{Client, ClientError, Digest, Result, response::required};

/// Which results a client takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Results that workers of this installation have signed. Its operator prints the anchor
    /// (`cloakwork-server anchor`).
    Anchor(Anchor),
    /// On a loopback address, results of the installation that the server names on the first use of
    /// the client. On other addresses the client refuses to submit jobs.
    FirstUse,
    /// All results, of any origin.
    Unverified,
}

/// The request for a job, as far as a worker's statement names it. An application that fetches a
/// result in a later process keeps these values with the job's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The request's id.
    pub request: [u8; 16],
    /// BLAKE3 of the program.
    pub program: [u8; 32],
    /// Public id of the client key.
    pub key: [u8; 16],
    /// Number of the parameter set.
    pub set: u16,
    /// Number of rows, if the client knows it.
    pub rows: Option<u64>,
    /// [`digest_of_list`] of the inputs' digests.
    pub inputs: [u8; 32],
    /// When the request was made, in microseconds of Unix time.
    pub since_micros: i64,
}

/// The part of a client that verifies.
#[derive(Debug)]
pub(crate) struct Verification {
    pub(crate) trust: Trust,
    pub(crate) url: String,
    pub(crate) is_loopback: bool,
    pub(crate) clock: Clock,
    verifier: OnceCell<Verifier>,
    /// Digests of the parts of the client's own evaluation keys.
    parts: Mutex<HashSet<[u8; 32]>>,
}

impl Verification {
    pub(crate) fn new(trust: Trust, url: &str, is_loopback: bool) -> Arc<Self> {
        let (url, clock) = (url.to_owned(), Clock::system());
        Arc::new(Self { trust, url, is_loopback, clock, verifier: OnceCell::new(), parts: Mutex::default() })
    }

    /// Adds parts to those of the client's own keys.
    pub(crate) fn know(&self, parts: &[Digest]) {
        self.parts().extend(parts.iter().map(|part| part.blake3));
    }

    fn parts(&self) -> MutexGuard<'_, HashSet<[u8; 32]>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The digest over the evaluation key that a job was computed with. Fails unless all its parts
    /// are the client's own: a key that others made decrypts to what they want.
    fn evaluation_key(&self, attestation: &v1::Attestation) -> std::result::Result<[u8; 32], AttestationError> {
        let own = self.parts();
        let digest = |part: &bytes::Bytes| part.as_ref().try_into().ok().filter(|part| own.contains(part));
        let parts = attestation.key_parts.iter().map(digest).collect::<Option<Vec<[u8; 32]>>>();
        parts.map(|parts| digest_of_list(&parts)).ok_or(AttestationError::Mismatch { field: "evaluation key" })
    }
}

impl Client {
    /// The installation whose results the client takes. `None` if the client takes all results.
    pub async fn anchor(&self) -> Result<Option<&Anchor>> {
        Ok(self.verifier().await?.map(Verifier::anchor))
    }

    /// Fails if the client could not verify the result of a job.
    pub(crate) async fn check_can_verify(&self) -> Result<()> {
        match self.verifier().await? {
            Some(_) if self.verification.parts().is_empty() => Err(ClientError::NoEvaluationKey),
            _ => Ok(()),
        }
    }

    /// The verifier of results. Fails if nothing says whose results the client may take.
    pub(crate) async fn verifier(&self) -> Result<Option<&Verifier>> {
        let Verification { trust, url, is_loopback, verifier, .. } = &*self.verification;
        let anchor = async || match trust {
            Trust::Anchor(anchor) => Ok(anchor.clone()),
            Trust::FirstUse if *is_loopback => named_anchor(&self.capabilities().await?.installation_keys),
            Trust::FirstUse | Trust::Unverified => Err(ClientError::NoAnchor { url: url.clone() }),
        };
        if *trust == Trust::Unverified {
            return Ok(None);
        }
        verifier.get_or_try_init(async || anchor().await.map(Verifier::new)).await.map(Some)
    }

    /// Refuses a succeeded job unless a worker of the installation has signed that these are the
    /// outputs of the job with this name, and that the job is the one that was asked for.
    pub async fn verify(&self, job: &Job, asked: Option<&Asked>) -> Result<()> {
        let Some(verifier) = self.verifier().await? else { return Ok(()) };
        let Some(attestation) = &job.attestation else {
            return Err(ClientError::Unsigned { job: job.name.clone() });
        };
        let outputs = job.outputs.iter().map(|output| digest_of(output).map(|digest| digest.blake3));
        let outputs = outputs.collect::<Result<Vec<_>>>()?;
        let now = self.verification.clock.unix_micros();
        let verified = verifier.verify(&attestation.signed, now).and_then(|statement| {
            let Statement { subject, signed_at_micros, .. } = statement;
            if subject.request == Subject::NO_REQUEST {
                return Err(AttestationError::Mismatch { field: "request" });
            }
            let evaluation_key = self.verification.evaluation_key(attestation)?;
            let known = Subject { job: id_of(job)?, outputs: digest_of_list(&outputs), evaluation_key, ..subject };
            subject.check(&asked.map_or(known, |asked| asked.complete(known)))?;
            match asked {
                Some(asked) if signed_at_micros.saturating_add(CLOCK_SKEW_MICROS) < asked.since_micros => {
                    Err(AttestationError::Expired { problem: "signs a statement that is older than the request" })
                }
                _ => Ok(()),
            }
        });
        verified.map_err(|error| ClientError::WrongOrigin { job: job.name.clone(), error })
    }

    /// The digest of a list on the server. For the output of a job, a worker must have signed it,
    /// and the job must be the one that was asked for, if the caller knows.
    pub async fn list_digest(&self, name: &str, asked: Option<&Asked>) -> Result<Digest> {
        let wrong = || ClientError::malformed(format!("{name} is not among the outputs of its job"));
        let Some((job, index)) = name.split_once("/outputs/") else { return self.stored_digest(name).await };
        let job = self.job(job).await?;
        self.verify(&job, asked).await?;
        let index: usize = index.parse().map_err(|_| wrong())?;
        digest_of(job.outputs.get(index).ok_or_else(wrong)?)
    }

    /// The digest of a stored list, whose name is its BLAKE3. The server adds the length alone.
    async fn stored_digest(&self, name: &str) -> Result<Digest> {
        let digest = Digest::from_message(&required(self.describe(name).await?.digest, "digest of a list")?)?;
        match name.rsplit('/').next() == Some(&digest.to_string()) {
            true => Ok(digest),
            false => Err(ClientError::malformed(format!("the digest of {name} is another than its name"))),
        }
    }
}

impl Asked {
    /// The subject of a job, with all fields that were asked for.
    fn complete(&self, known: Subject) -> Subject {
        let Self { request, program, key, set, rows, inputs, since_micros: _ } = *self;
        Subject { request, program, key, set, rows: rows.unwrap_or(known.rows), inputs, ..known }
    }
}

/// The anchor that a server names. Only a server on this machine is asked for it.
fn named_anchor(keys: &[String]) -> Result<Anchor> {
    let anchor = keys.join(",").parse();
    anchor.map_err(|error| ClientError::malformed(format!("the server's anchor: {error}")))
}

fn digest_of(output: &JobOutput) -> Result<Digest> {
    Digest::from_message(required(output.digest.as_ref(), "digest of an output")?)
}

/// The id in a job's name.
fn id_of(job: &Job) -> std::result::Result<[u8; 16], AttestationError> {
    let id = job.name.rsplit('/').next().and_then(|id| uuid::Uuid::parse_str(id).ok());
    id.map(uuid::Uuid::into_bytes).ok_or(AttestationError::Mismatch { field: "job" })
}
