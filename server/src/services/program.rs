//! The program service. A job can name a registered program instead of carrying its bytes.

use std::sync::Arc;

use cloakwork_circuit::{ProgramId, RowType, ckks::Outline, wire};
use cloakwork_clock::Clock;
use cloakwork_keystore::TenantId;
use cloakwork_proto::v1::{
    CheckRequest, CheckResponse, CkksCiphertext, GetProgramRequest, GetProgramResponse, PoolEstimate, ProgramReport,
    RegisterRequest, RegisterResponse, program_service_server::ProgramService,
};
use tonic::{Request, Response, Status};

use crate::{
    caller::Caller,
    database,
    dispatch::{Dispatcher, PoolView},
    error::{PROGRAM_NOT_FOUND, QUOTA_EXCEEDED},
    limits::Limits,
    programs::{Blocks, Compiled, Compiler, Family},
    quota::Quota,
    resource::ProgramName,
    store::Store,
};

/// The program service.
#[derive(Clone)]
pub struct Programs {
    /// The compiler.
    pub compiler: Compiler,
    /// The store, which keeps the programs.
    pub store: Store,
    /// Room of each tenant in the store.
    pub quota: Quota,
    /// The dispatcher, for its view of the workers.
    pub dispatcher: Dispatcher,
    /// Source of the current time.
    pub clock: Clock,
    /// Limits.
    pub limits: Arc<Limits>,
}

#[tonic::async_trait]
impl ProgramService for Programs {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<RegisterResponse>, Status> {
        let caller = Caller::of(&request)?;
        let compiled = self.compiler.receive(caller.tenant.as_str(), &request.get_ref().program).await?;
        let count = self.store.program_count(caller.tenant.as_str()).await.map_err(database::failed)?;
        let registered =
            self.store.is_registered(caller.tenant.as_str(), compiled.id).await.map_err(database::failed)?;
        if registered != Some(true) && count >= self.limits.tenant_programs {
            let message = format!("{count} programs are registered: that is the limit");
            return Err(QUOTA_EXCEEDED
                .error(message.clone())
                .quota(format!("tenants/{}", caller.tenant), message)
                .into());
        }
        // If a job has carried the program, its bytes are already counted.
        if registered.is_none() {
            let bytes = compiled.bytes.len() as u64;
            self.quota.take(caller.tenant.as_str(), bytes).await?;
        }
        self.store
            .put_program(caller.tenant.as_str(), compiled.id, &compiled.bytes, self.clock.unix_micros())
            .await
            .map_err(database::failed)?;
        Ok(Response::new(RegisterResponse { report: Some(self.report(&caller.tenant, &compiled)) }))
    }

    async fn get_program(&self, request: Request<GetProgramRequest>) -> Result<Response<GetProgramResponse>, Status> {
        let caller = Caller::of(&request)?;
        let name = &request.get_ref().name;
        let id = ProgramId(ProgramName::parse_own(name, &caller.principal)?.digest);
        let compiled = self.compiler.stored(&self.store, caller.tenant.as_str(), id).await?;
        let compiled = compiled.ok_or_else(|| PROGRAM_NOT_FOUND.error(format!("{name} is not registered")))?;
        let report = Some(self.report(&caller.tenant, &compiled));
        Ok(Response::new(GetProgramResponse { program: compiled.bytes.clone(), report }))
    }

    async fn check(&self, request: Request<CheckRequest>) -> Result<Response<CheckResponse>, Status> {
        let caller = Caller::of(&request)?;
        let compiled = self.compiler.receive(caller.tenant.as_str(), &request.get_ref().program).await?;
        Ok(Response::new(CheckResponse { report: Some(self.report(&caller.tenant, &compiled)) }))
    }
}

impl Programs {
    fn report(&self, tenant: &TenantId, program: &Compiled) -> ProgramReport {
        let name = format!("tenants/{tenant}/programs/{}", program.id);
        let parameter_set = program.set().name().to_owned();
        let common = ProgramReport { name, parameter_set, ..Default::default() };
        match &program.family {
            Family::Blocks(blocks) => {
                let estimates = self.dispatcher.pools().iter().filter_map(|pool| estimate(pool, blocks)).collect();
                ProgramReport { estimates, ..report_on_blocks(blocks, common) }
            }
            Family::Vectors(outline) => report_on_vectors(outline, common),
        }
    }
}

fn report_on_blocks(program: &Blocks, common: ProgramReport) -> ProgramReport {
    let wire = |row: &RowType| (row.ty.wire(), row.wire_length());
    let outputs = program.outputs.iter().map(wire).map(|((ty, bits), length)| (ty as i32, (bits, length)));
    let (output_types, (output_bits, output_lengths)) = outputs.unzip();
    let row = program.cost(1);
    let (pbs_count, depth) = (row.pbs_count, row.depth);
    ProgramReport { output_types, output_bits, output_lengths, pbs_count, depth, ..common }
}

fn report_on_vectors(program: &Outline, common: ProgramReport) -> ProgramReport {
    let vectors = program.outputs.iter().map(|vector| CkksCiphertext {
        level: vector.level as u32,
        slots: 1 << vector.slots_log2,
        scale: vector.scale,
    });
    let keys = program.keys.iter().map(|need| format!("{}, up to level {}", need.purpose, need.level));
    ProgramReport {
        output_types: vec![wire::Type::Vector.into(); program.outputs.len()],
        output_vectors: vectors.collect(),
        keys: keys.collect(),
        pbs_count: program.cost.bootstraps,
        memory_bytes: program.cost.memory_bytes,
        ..common
    }
}

/// Estimates the time of a row from the pool's wave-time curve, if the pool has a curve for the
/// set.
fn estimate(pool: &PoolView, program: &Blocks) -> Option<PoolEstimate> {
    let curve = || pool.waves.iter().filter(|wave| wave.parameter_set == program.set.name && wave.width > 0);
    let narrow = curve().min_by_key(|wave| wave.width)?;
    let wide = curve().max_by_key(|wave| wave.width)?;
    let one_wave = if narrow.width == 1 { narrow.micros } else { narrow.micros / u64::from(narrow.width) };
    let filled = |pbs_count: u64| wide.micros.saturating_mul(pbs_count) / u64::from(wide.width);
    let row = program.cost(1);
    Some(PoolEstimate {
        pool: pool.kind.clone(),
        // The sum of the waves that depend on each other and the work in them. The estimate is no
        // less than the real time.
        one_row_micros: one_wave.saturating_mul(u64::from(row.depth)).saturating_add(filled(row.pbs_count)),
        batched_row_micros: filled(program.work.pbs_count),
    })
}
