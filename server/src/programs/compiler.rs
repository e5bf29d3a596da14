//! Compiles programs: decodes, types and prices them.

use std::{
    collections::HashMap,
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
    error::{ApiError, INTERNAL, PROGRAM_INVALID, REQUEST_TOO_LARGE},
    limits::Limits,
};

/// Compiles programs and remembers the latest ones. Clones share everything.
#[derive(Clone)]
pub struct Compiler(Arc<Shared>);

struct Shared {
    known: Known,
    queue: Queue,
    /// Programs that are being compiled, by tenant: calls with the same bytes wait for one result. Tenants do not share
    /// these, because a tenant would then wait for another one's place in the line.
    flights: Mutex<HashMap<FlightKey, Awaited>>,
    steps: Steps,
    /// Bytes of a program that is sent.
    bytes_max: u64,
}

type FlightKey = (Box<str>, ProgramId);

/// A result that calls wait for.
#[derive(Default)]
struct Awaited {
    cell: Arc<OnceCell<Outcome>>,
    /// Calls that wait for it.
    calls: usize,
}

/// The two steps that take time.
struct Steps {
    decode: fn(&[u8]) -> Result<AnyProgram, ProgramError>,
    price: Box<dyn Fn(&Program) -> Blocks + Send + Sync>,
}

/// Slots for compiling, at most.
const SLOTS_MAX: usize = 8;

/// The cost of so many bytes is told in a fraction of a millisecond, so whoever receives them does it. Longer programs wait
/// with the expensive ones until their turn comes, and their cost is told then.
const SHORT_BYTES: usize = 8 << 10;

/// Bytes whose decoding, or planning, takes as long as compiling a bootstrap.
const BYTES_OF_A_BOOTSTRAP: u64 = 32;

/// Bootstraps whose compiling takes as long as planning one kind of bootstraps of vectors.
const BOOTSTRAPS_OF_A_KIND: u64 = 64;

impl Compiler {
    /// One that keeps to the limits.
    pub fn new(limits: &Limits) -> Self {
        Self::with(limits, Steps { decode: AnyProgram::decode, price: Box::new(Blocks::of) })
    }

    fn with(limits: &Limits, steps: Steps) -> Self {
        // One processor is left for everything else, where there are more than the two slots that the queue needs.
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
        self.get(tenant, bytes, Bound::Tenant).await
    }

    /// Checks a program that a tenant has registered.
    pub async fn registered(&self, tenant: &str, bytes: &Bytes) -> Result<Arc<Compiled>, ApiError> {
        self.get(tenant, bytes, Bound::Tenant).await
    }

    /// Checks the program of an acknowledged job. It may wait, but is never refused for load.
    pub async fn of_job(&self, tenant: &str, bytes: &Bytes) -> Result<Arc<Compiled>, ApiError> {
        self.get(tenant, bytes, Bound::None).await
    }

    async fn get(&self, tenant: &str, bytes: &Bytes, bound: Bound) -> Outcome {
        let id = ProgramId(*blake3::hash(bytes).as_bytes());
        if let Some(outcome) = self.0.known.get(id) {
            return outcome;
        }
        let flight = self.flight(tenant, id);
        flight.cell.get_or_try_init(|| self.compile(tenant, id, bytes, bound)).await?.clone()
    }

    /// What comes of some bytes. An error says that this is not known: the call was refused, or the work has failed.
    async fn compile(&self, tenant: &str, id: ProgramId, bytes: &Bytes, bound: Bound) -> Result<Outcome, ApiError> {
        let cost = if bytes.len() > SHORT_BYTES {
            CHEAP_BOOTSTRAPS + 1 + cost_of_bytes(bytes)
        } else {
            // What is decoded to tell the cost is not kept: in memory it is up to 200 times as long as the bytes.
            match self.cost(bytes) {
                Ok(cost) => cost,
                Err(error) => return Ok(self.found(id, Err(error), bytes)),
            }
        };
        let (this, bytes) = (self.clone(), bytes.clone());
        self.run(tenant, cost, bound, move |place| this.compile_now(id, &bytes, place)).await?
    }

    /// What compiling some bytes costs.
    fn cost(&self, bytes: &Bytes) -> Result<u64, ProgramError> {
        if let AnySet::Ckks(_) = AnyProgram::set_of(bytes)? {
            return Ok(cost_of_planning(bytes));
        }
        let program = (self.0.steps.decode)(bytes)?;
        Ok(if let AnyProgram::Blocks(program) = program { cost_of_pricing(bytes, &program) } else { 0 })
    }

    /// Compiles in a turn, which is counted for all that it costs before it takes the time.
    fn compile_now(&self, id: ProgramId, bytes: &Bytes, place: &mut Place) -> Result<Outcome, ApiError> {
        // Another tenant may have sent it meanwhile, or the same one, who then gave up.
        if let Some(outcome) = self.0.known.get(id) {
            return Ok(outcome);
        }
        if let Ok(AnySet::Ckks(_)) = AnyProgram::set_of(bytes) {
            place.raise(cost_of_planning(bytes))?;
        }
        let family = match (self.0.steps.decode)(bytes) {
            Ok(AnyProgram::Blocks(program)) => {
                place.raise(cost_of_pricing(bytes, &program))?;
                Ok(Family::Blocks((self.0.steps.price)(&program)))
            }
            Ok(AnyProgram::Vectors(program)) => Ok(Family::Vectors(program.outline().clone())),
            Err(error) => Err(error),
        };
        Ok(self.found(id, family, bytes))
    }

    /// Remembers what was found out, also for callers who have gone: they may come again.
    fn found(&self, id: ProgramId, family: Result<Family, ProgramError>, bytes: &Bytes) -> Outcome {
        let outcome = match family {
            // A copy: the bytes may be a slice of a much larger request.
            Ok(family) => Ok(Arc::new(Compiled { id, bytes: Bytes::copy_from_slice(bytes), family })),
            Err(error) => Err(PROGRAM_INVALID.error(error.to_string())),
        };
        self.0.known.insert(id, outcome.clone());
        outcome
    }

    /// Does work that takes time, in the tenant's turn.
    async fn run<T: Send + 'static>(
        &self,
        tenant: &str,
        cost: u64,
        bound: Bound,
        work: impl FnOnce(&mut Place) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let mut place = self.0.queue.take(tenant, cost, bound).await?;
        let (done, result) = oneshot::channel();
        spawn_blocking(move || {
            // Work that has not begun is not done for a caller who has gone. Once it has begun it keeps the slot until it ends.
            if done.is_closed() {
                return;
            }
            let result = work(&mut place);
            // The place goes back before the result is sent. Otherwise a caller's next program could be refused because of
            // this one.
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

fn cost_of_bytes(bytes: &Bytes) -> u64 {
    bytes.len() as u64 / BYTES_OF_A_BOOTSTRAP
}

/// What decoding a program on vectors costs, because decoding plans it.
fn cost_of_planning(bytes: &Bytes) -> u64 {
    cost_of_bytes(bytes) + BOOTSTRAPS_OF_A_KIND * ckks::bootstrap_kinds_max(bytes) as u64
}

/// What decoding and pricing a program on blocks costs.
fn cost_of_pricing(bytes: &Bytes, program: &Program) -> u64 {
    program.bootstraps_max().saturating_add(cost_of_bytes(bytes))
}

/// A call that waits for a result. The last one to go takes the entry away.
struct Flight<'c> {
    shared: &'c Shared,
    key: FlightKey,
    cell: Arc<OnceCell<Outcome>>,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut flights = self.shared.flights();
        // Calls are counted under the lock. If each looked at the references that there are and gave up its own afterwards, two
        // that go at the same time would each find the other one, and the entry would stay for ever.
        let Some(awaited) = flights.get_mut(&self.key) else { return };
        awaited.calls -= 1;
        if awaited.calls == 0 {
            flights.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests;
