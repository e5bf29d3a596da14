//! Admission: checks a request and makes a job that can be stored and run. The dispatcher may still
//! refuse the job, because queues are full, the server drains, or the request repeats another.

mod inputs;
mod memory;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use cloakwork_circuit::ProgramId;
use cloakwork_clock::Clock;
use cloakwork_keystore::{Digest, KeyInfo, Keystore, Reservation, TenantId};
use cloakwork_params::{AnySet, KeyId, ckks::layout::KeyShape};
use cloakwork_proto::v1::{self, job_spec};

pub use memory::{InputBytes, InputMemory};

use inputs::Wanted;

use crate::{
    caller::Caller,
    day_quota::DayQuota,
    dispatch::{Admitted, Dispatcher},
    error::{
        ApiError, FIELD_MISSING, INPUT_INVALID, INVALID_ARGUMENT, KEY_INCOMPLETE, PROGRAM_NOT_FOUND, REQUEST_TOO_LARGE,
        SET_NOT_SERVED,
    },
    jobs::{Content, JobMeta, Request, Timeline, cost_of_blocks, id},
    keys::KeyUses,
    limits::Limits,
    programs::{Compiled, Compiler, Family},
    quota::Quota,
    resource::{KeyName, ProgramName},
    store::Store,
};

/// Checks requests for jobs.
#[derive(Clone)]
pub struct Admission {
    /// The registered programs.
    pub store: Store,
    /// Finds jobs whose outputs are read.
    pub dispatcher: Dispatcher,
    /// Blobs and keys.
    pub keystore: Keystore,
    /// The compiler, which remembers compiled programs.
    pub compiler: Compiler,
    /// Keys in use by jobs that are being submitted.
    pub keys: KeyUses,
    /// Room of each tenant in the store.
    pub quota: Quota,
    /// Bootstraps of each tenant in a day.
    pub day_quota: DayQuota,
    /// Memory of the inputs of jobs that are being submitted.
    pub memory: InputMemory,
    /// Source of the current time.
    pub clock: Clock,
    /// Limits.
    pub limits: Arc<Limits>,
    /// Whether weak parameter sets are served.
    pub allow_weak_sets: bool,
}

impl Admission {
    /// Checks a request that arrived at `received`. The caller keeps `memory` until the dispatcher
    /// has the job.
    ///
    /// Blobs that the job reads are reserved until the dispatcher stores the job. The transaction
    /// that stores the job pins them.
    pub async fn admit(
        &self,
        caller: &Caller,
        request: Request,
        spec: v1::JobSpec,
        received: Instant,
        memory: &mut InputBytes,
    ) -> Result<Admitted, ApiError> {
        let tenant = &caller.tenant;
        // The inputs count before the first wait, because compiling the program may take minutes.
        memory.add(inputs::decoded_bytes(&spec.inputs))?;
        let program = self.program(caller, &spec).await?;
        let set = program.set();
        check_computes(set, self.allow_weak_sets)?;
        let key_id = KeyId(KeyName::parse_own(&spec.key, &caller.principal)?.key_id);
        let key_use = self.keys.begin(tenant, key_id);
        // Fails unless the key is active.
        let key = self.keystore.active_key(tenant, key_id).await?;
        let key_parts = key_parts(&program, &key)?;
        let companion_parts = set.tfhe().map(|set| key.companion_parts_for(set)).unwrap_or_default();
        let wanted = Wanted { key_id, program: &program };
        let (inputs, rows) = inputs::resolve(self, caller, &wanted, spec.inputs, memory).await?;
        let Size { pbs_count, cost } = self.size(&program, rows)?;
        let inline: usize = inputs.iter().filter_map(|input| input.bytes.as_ref()).map(Bytes::len).sum();
        self.day_quota.take(tenant.as_str(), pbs_count).await?;
        self.quota.take(tenant.as_str(), (inline + program.bytes.len()) as u64).await?;
        let created_micros = self.clock.unix_micros();
        let meta = JobMeta {
            id: id::new(created_micros),
            tenant: tenant.as_str().into(),
            request_id: request.id,
            request_digest: request.digest,
            program: program.id,
            key_id,
            set,
            operation: program.operation(),
            trace: caller.trace,
            rows,
            pbs_count,
            cost,
            priority: priority(spec.priority)?,
            inline_outputs: spec.inline_outputs,
            keep_outputs_micros: span(
                "keep_outputs",
                spec.keep_outputs,
                self.limits.output_keep_seconds,
                self.limits.output_keep_seconds_max,
            )?,
            created_micros,
            deadline_micros: created_micros.saturating_add(span(
                "time_limit",
                spec.time_limit,
                self.limits.job_seconds,
                self.limits.job_seconds_max,
            )?),
        };
        let reserved = Arc::new(self.reserve(tenant, &inputs).await?);
        Ok(Admitted {
            meta: Arc::new(meta),
            program: program.bytes.clone(),
            inputs: inputs.into(),
            key_parts,
            companion_parts,
            key_use,
            reserved,
            timeline: Timeline::start(received),
        })
    }

    async fn program(&self, caller: &Caller, spec: &v1::JobSpec) -> Result<Arc<Compiled>, ApiError> {
        match &spec.program {
            Some(job_spec::Program::ProgramInline(bytes)) => self.compiler.receive(caller.tenant.as_str(), bytes).await,
            Some(job_spec::Program::ProgramName(name)) => {
                let id = ProgramId(ProgramName::parse_own(name, &caller.principal)?.digest);
                let program = self.compiler.stored(&self.store, caller.tenant.as_str(), id).await?;
                program.ok_or_else(|| PROGRAM_NOT_FOUND.error(format!("{name} is not registered")))
            }
            None => Err(FIELD_MISSING.error("the job has no program").field("spec.program", "missing")),
        }
    }

    fn size(&self, program: &Compiled, rows: u64) -> Result<Size, ApiError> {
        let limits = &self.limits;
        if rows == 0 {
            return Err(INPUT_INVALID.error("the inputs hold no ciphertexts: expected at least one row"));
        }
        let (pbs_count, cost, row_bytes) = match &program.family {
            Family::Blocks(blocks) => {
                let pbs_count = blocks.cost(rows).pbs_count.saturating_mul(rows);
                let cost = cost_of_blocks(blocks.set, pbs_count, rows);
                (pbs_count, cost, blocks.count().saturating_mul(blocks.set.ciphertext_bytes()))
            }
            Family::Vectors(outline) => {
                let of_rows = |of_row: u64| of_row.saturating_mul(rows);
                (of_rows(outline.cost.bootstraps), of_rows(outline.cost.work), outline.held_row_bytes())
            }
        };
        let bytes = rows.saturating_mul(row_bytes);
        for (what, limit, got) in [
            ("rows", limits.job_rows, rows),
            ("bootstraps", limits.job_bootstraps, pbs_count),
            ("bytes of inputs and outputs", limits.job_bytes, bytes),
        ] {
            if got > limit {
                return Err(REQUEST_TOO_LARGE.error(format!("{got} {what} in one job: at most {limit}")));
            }
        }
        Ok(Size { pbs_count, cost })
    }

    /// Reserves the blobs among the inputs.
    async fn reserve(&self, tenant: &TenantId, inputs: &[Content]) -> Result<Reservation, ApiError> {
        let blobs: Vec<Digest> = inputs.iter().filter(|input| input.bytes.is_none()).map(Content::blob).collect();
        if blobs.is_empty() {
            return Ok(Reservation::none(tenant));
        }
        Ok(self.keystore.reserve(tenant, &blobs).await?)
    }
}

/// The size of a job.
struct Size {
    /// Bootstraps.
    pbs_count: u64,
    /// The scheduler's cost.
    cost: u64,
}

/// The parts of a key that a program needs, or an error that names the missing part.
fn key_parts(program: &Compiled, key: &KeyInfo) -> Result<Vec<Digest>, ApiError> {
    let outline = match &program.family {
        Family::Blocks(blocks) => return Ok(key.parts_for(blocks.set)?),
        Family::Vectors(outline) => outline,
    };
    let (shapes, digests): (Vec<KeyShape>, Vec<Digest>) = key.vector_parts(outline.set).into_iter().unzip();
    let chosen = outline.choose_keys(&shapes).map_err(|missing| {
        KEY_INCOMPLETE.error(format!("key {} under {} is not enough: {missing}", key.key_id, outline.set.name))
    })?;
    Ok(chosen.into_iter().map(|place| digests[place]).collect())
}

/// Refuses sets that this server does not compute with.
pub fn check_computes(set: AnySet, allow_weak_sets: bool) -> Result<(), ApiError> {
    let (name, standing) = (set.name(), set.standing());
    match standing.weakness() {
        Some(weakness) if !standing.computes(allow_weak_sets) => {
            Err(SET_NOT_SERVED.error(format!("{name} is a weak parameter set: {weakness}")))
        }
        _ => Ok(()),
    }
}

fn priority(given: i32) -> Result<i8, ApiError> {
    match i8::try_from(given) {
        Ok(priority) if (-10..=10).contains(&priority) => Ok(priority),
        _ => Err(INVALID_ARGUMENT
            .error(format!("a priority of {given}: expected -10 to 10"))
            .field("spec.priority", "expected -10 to 10")),
    }
}

/// Converts a duration of the request to microseconds: `default` seconds if absent, at most `max`
/// seconds.
fn span(field: &'static str, given: Option<prost_types::Duration>, default: u64, max: u64) -> Result<i64, ApiError> {
    let given = match given {
        None => Duration::from_secs(default),
        Some(duration) => Duration::try_from(duration).map_err(|_| {
            INVALID_ARGUMENT
                .error(format!("{field} is not a duration of at least 0"))
                .field(field, "expected at least 0")
        })?,
    };
    Ok(i64::try_from(given.min(Duration::from_secs(max)).as_micros()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
