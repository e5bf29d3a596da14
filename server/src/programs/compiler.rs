//! Compiles programs: decodes, types and prices them.

use std::{
    collections::HashMap,
    future::ready,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::available_parallelism,
};

use bytes::Bytes;
use cloakwork_circuit::{AnyProgram, Program, ProgramError, ProgramId, ckks};
use cloakwork_params::AnySet;
use tokio::{
    sync::{OnceCell, oneshot},
    task::spawn_blocking,
};

use super::{
    Blocks, Compiled, Family,
    known::{Known, Outcome},
    queue::{Bound, CHEAP_BOOTSTRAPS, Place, Queue},
};
use crate::{
    database,
    error::{ApiError, INTERNAL, PROGRAM_INVALID, PROGRAM_NOT_FOUND, REQUEST_TOO_LARGE},
    limits::Limits,
    store::Store,
};

/// Compiles programs and remembers the latest outcomes. Clones share the state.
#[derive(Clone)]
pub struct Compiler(Arc<Shared>);

struct Shared {
    known: Known,
    queue: Queue,
    /// Programs that are being compiled, by tenant. Calls with equal bytes wait for one result.
    /// Tenants do not share entries, because a tenant would then wait for another tenant's place in
    /// the line.
    flights: Mutex<HashMap<FlightKey, Awaited>>,
    steps: Steps,
    /// Maximum number of bytes of a program that a tenant sends.
    bytes_max: u64,
}

type FlightKey = (Box<str>, ProgramId);

/// A result that calls wait for.
#[derive(Default)]
struct Awaited {
    cell: Arc<OnceCell<Outcome>>,
    /// Number of calls that wait for the result.
    calls: usize,
}

/// The two steps that take time.
struct Steps {
    decode: fn(&[u8]) -> Result<AnyProgram, ProgramError>,
    price: Box<dyn Fn(&Program) -> Blocks + Send + Sync>,
}

/// Maximum number of slots for compiling.
const SLOTS_MAX: usize = 8;

/// Maximum length of a program whose cost the receiving task computes itself, in a fraction of a
/// millisecond. Longer programs wait in the expensive line, and their cost is computed in their
/// turn.
const SHORT_BYTES: usize = 8 << 10;

/// Bytes whose decoding or planning takes as long as compiling a bootstrap.
const BYTES_OF_A_BOOTSTRAP: u64 = 32;

/// Bootstraps whose compiling takes as long as planning one kind of bootstraps of vectors.
const BOOTSTRAPS_OF_A_KIND: u64 = 64;

impl Compiler {
    /// A compiler with these limits.
    pub fn new(limits: &Limits) -> Self {
        Self::with(limits, Steps { decode: AnyProgram::decode, price: Box::new(Blocks::of) })
    }

    fn with(limits: &Limits, steps: Steps) -> Self {
        // One processor is left for other work, if there are more processors than the two slots
        // that the queue needs.
        let slots = available_parallelism().map_or(1, usize::from).saturating_sub(1).min(SLOTS_MAX);
        Self(Arc::new(Shared {
            known: Known::default(),
            queue: Queue::new(slots, limits.tenant_compile_bootstraps),
            flights: Mutex::default(),
            steps,
            bytes_max: limits.program_bytes,
        }))
    }

    /// Checks a program that a tenant sends.
    pub async fn receive(&self, tenant: &str, bytes: &Bytes) -> Result<Arc<Compiled>, ApiError> {
        let max = self.0.bytes_max;
        if bytes.len() as u64 > max {
            return Err(REQUEST_TOO_LARGE.error(format!("a program of {} bytes: at most {max}", bytes.len())));
        }
        self.get(tenant, id_of(bytes), Bound::Tenant, ready(Ok(bytes.clone()))).await
    }

    /// Checks a program that a tenant has in the store, or returns none if the tenant has no such
    /// program.
    ///
    /// The bytes are read only for the call that has the program compiled. Calls that each read
    /// them, and then wait for one result, would hold far more bytes than they have sent.
    pub async fn stored(&self, store: &Store, tenant: &str, id: ProgramId) -> Result<Option<Arc<Compiled>>, ApiError> {
        if store.is_registered(tenant, id).await.map_err(database::failed)?.is_none() {
            return Ok(None);
        }
        let read = async {
            let bytes = store.program(tenant, id).await.map_err(database::failed)?;
            let bytes = bytes.ok_or_else(|| PROGRAM_NOT_FOUND.error(format!("program {id} is not registered")))?;
            // All tenants share the outcome by this id, so no other bytes may pass for the program.
            match id_of(&bytes) == id {
                true => Ok(bytes),
                false => Err(INTERNAL.error(format!("the stored bytes of program {id} are damaged"))),
            }
        };
        self.get(tenant, id, Bound::Tenant, read).await.map(Some)
    }

    /// Checks the program of an acknowledged job. The program may wait, but load never causes a
    /// refusal.
    pub async fn of_job(&self, tenant: &str, bytes: &Bytes) -> Result<Arc<Compiled>, ApiError> {
        self.get(tenant, id_of(bytes), Bound::None, ready(Ok(bytes.clone()))).await
    }

    async fn get(
        &self,
        tenant: &str,
        id: ProgramId,
        bound: Bound,
        bytes: impl Future<Output = Result<Bytes, ApiError>>,
    ) -> Outcome {
        if let Some(outcome) = self.0.known.get(id) {
            return outcome;
        }
        let flight = self.flight(tenant, id);
        let compile = || async move { self.compile(tenant, id, &bytes.await?, bound).await };
        flight.cell.get_or_try_init(compile).await?.clone()
    }

    /// The outcome for some bytes. An error means that the outcome is unknown: the call was
    /// refused, or the work failed.
    async fn compile(&self, tenant: &str, id: ProgramId, bytes: &Bytes, bound: Bound) -> Result<Outcome, ApiError> {
        let cost = if bytes.len() > SHORT_BYTES {
            CHEAP_BOOTSTRAPS + 1 + cost_of_bytes(bytes)
        } else {
            // The program decoded for its cost is dropped. In memory it takes up to 200 times the
            // bytes.
            match self.cost(bytes) {
                Ok(cost) => cost,
                Err(error) => return Ok(self.found(id, Err(error))),
            }
        };
        let this = self.clone();
        self.run(tenant, bytes, cost, bound, move |bytes, place| this.compile_now(id, bytes, place)).await?
    }

    /// The cost of compiling some bytes.
    fn cost(&self, bytes: &Bytes) -> Result<u64, ProgramError> {
        if let AnySet::Ckks(_) = AnyProgram::set_of(bytes)? {
            return Ok(cost_of_planning(bytes));
        }
        let program = (self.0.steps.decode)(bytes)?;
        Ok(if let AnyProgram::Blocks(program) = program { cost_of_pricing(bytes, &program) } else { 0 })
    }

    /// Compiles a program in its turn. The whole cost is charged before the work that takes time.
    fn compile_now(&self, id: ProgramId, bytes: Bytes, place: &mut Place) -> Result<Outcome, ApiError> {
        // Meanwhile another tenant, or an earlier call of this tenant that was cancelled, may have
        // compiled the program.
        if let Some(outcome) = self.0.known.get(id) {
            return Ok(outcome);
        }
        if let Ok(AnySet::Ckks(_)) = AnyProgram::set_of(&bytes) {
            place.raise(cost_of_planning(&bytes))?;
        }
        let family = match (self.0.steps.decode)(&bytes) {
            Ok(AnyProgram::Blocks(program)) => {
                place.raise(cost_of_pricing(&bytes, &program))?;
                Ok(Family::Blocks((self.0.steps.price)(&program)))
            }
            Ok(AnyProgram::Vectors(program)) => Ok(Family::Vectors(program.outline().clone())),
            Err(error) => Err(error),
        };
        Ok(self.found(id, family.map(|family| Compiled { id, bytes, family })))
    }

    /// Remembers the outcome, also for callers that have gone, because they may come again.
    fn found(&self, id: ProgramId, compiled: Result<Compiled, ProgramError>) -> Outcome {
        let outcome = compiled.map(Arc::new).map_err(|error| PROGRAM_INVALID.error(error.to_string()));
        self.0.known.insert(id, outcome.clone());
        outcome
    }

    /// Runs work on some bytes that takes time, in the tenant's turn.
    async fn run<T: Send + 'static>(
        &self,
        tenant: &str,
        bytes: &Bytes,
        cost: u64,
        bound: Bound,
        work: impl FnOnce(Bytes, &mut Place) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let mut place = self.0.queue.take(tenant, cost, bound).await?;
        // A copy, because the bytes may be a slice of a much larger request. The work may outlive
        // the request, and the cache keeps the bytes.
        let bytes = Bytes::copy_from_slice(bytes);
        let (done, result) = oneshot::channel();
        spawn_blocking(move || {
            // If the caller has gone, work that has not begun is skipped. Work that has begun keeps
            // its slot until it ends.
            if done.is_closed() {
                return;
            }
            let result = work(bytes, &mut place);
            // The place is released before the result is sent. Otherwise this program could cause a
            // refusal of the caller's next program.
            drop(place);
            let _ = done.send(result);
        });
        result.await.map_err(|_| INTERNAL.error("a program could not be compiled"))
    }

    fn flight(&self, tenant: &str, id: ProgramId) -> Flight<'_> {
        let key: FlightKey = (tenant.into(), id);
        let mut flights = self.0.flights();
        let awaited = flights.entry(key.clone()).or_default();
        awaited.calls += 1;
        Flight { shared: &self.0, key, cell: awaited.cell.clone() }
    }
}

impl Shared {
    fn flights(&self) -> MutexGuard<'_, HashMap<FlightKey, Awaited>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn id_of(bytes: &[u8]) -> ProgramId {
    ProgramId(*blake3::hash(bytes).as_bytes())
}

fn cost_of_bytes(bytes: &Bytes) -> u64 {
    bytes.len() as u64 / BYTES_OF_A_BOOTSTRAP
}

/// The cost of decoding a program on vectors, which includes planning it.
fn cost_of_planning(bytes: &Bytes) -> u64 {
    cost_of_bytes(bytes) + BOOTSTRAPS_OF_A_KIND * ckks::bootstrap_kinds_max(bytes) as u64
}

/// The cost of decoding and pricing a program on blocks.
fn cost_of_pricing(bytes: &Bytes, program: &Program) -> u64 {
    program.bootstraps_max().saturating_add(cost_of_bytes(bytes))
}

/// A call that waits for a result. The last call to finish removes the entry.
struct Flight<'c> {
    shared: &'c Shared,
    key: FlightKey,
    cell: Arc<OnceCell<Outcome>>,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut flights = self.shared.flights();
        // Calls are counted under the lock. Suppose each call instead checked the reference count
        // and dropped its own reference afterwards. Two calls that end at the same time would each
        // see the other's reference, and the entry would stay for ever.
        let Some(awaited) = flights.get_mut(&self.key) else { return };
        awaited.calls -= 1;
        if awaited.calls == 0 {
            flights.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests;
