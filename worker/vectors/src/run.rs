//! Execution of a plan on ciphertexts, step by step.

use cloakwork_circuit::ckks::{Action, Program, Vector, is_same};
use cloakwork_ckks::{Basis, Ciphertext, CkksError, Complex, Diagonals, EncodedMatrix, Evaluator, Plaintext};
use cloakwork_device::{RowError, RowResult};
use cloakwork_params::ckks::offsets::Way;

use crate::{
    Keys, Matrices, ring,
    times::{self, Clock},
};

/// Runs a program on a row of inputs. The run calls `goes_on` before each step and within long
/// steps, and stops when it returns false. Long steps check between the rotations of a total, and
/// between the parts of a bootstrap.
pub fn run(
    program: &Program,
    inputs: Vec<Ciphertext>,
    keys: &Keys,
    matrices: &Matrices,
    threads: usize,
    goes_on: impl Fn() -> bool + Sync,
) -> Result<RowResult, RowError> {
    let (expected, got) = (program.inputs().len(), inputs.len());
    if expected != got {
        return Err(RowError::Inputs { expected, got });
    }
    for (input, declared) in inputs.iter().zip(program.inputs()) {
        on_plan(input, declared.vector, || format!("input '{}'", declared.name))?;
    }
    let clock = Clock::default();
    let watch = |step| {
        clock.is_at(times::of_bootstrap(step));
        goes_on()
    };
    let evaluator = Evaluator::new(ring(program.set()), threads).watched(&watch);
    let runner = Runner { program, keys, matrices, evaluator, goes_on: &goes_on };
    let values = runner.evaluator.together(|| runner.values(inputs, &clock))?;
    let outputs = program.outputs().iter().map(|output| held(&values, output.value).clone().fitted()).collect();
    Ok(RowResult { outputs, times: clock.into_times() })
}

fn held(values: &[Option<Ciphertext>], value: usize) -> &Ciphertext {
    values[value].as_ref().expect("a plan lets go of a value after its last use")
}

fn on_plan(ciphertext: &Ciphertext, vector: Vector, what: impl Fn() -> String) -> Result<(), RowError> {
    let Vector { level, scale, slots_log2 } = vector;
    let (got_level, got_scale) = (ciphertext.level(), ciphertext.scale);
    if got_level == level && is_same(scale, got_scale) && ciphertext.slots_log2 == slots_log2 {
        return Ok(());
    }
    Err(RowError::OffPlan { what: what(), level, scale, got_level, got_scale })
}

struct Runner<'a> {
    program: &'a Program,
    keys: &'a Keys,
    matrices: &'a Matrices,
    evaluator: Evaluator<'a>,
    goes_on: &'a (dyn Fn() -> bool + Sync),
}

/// Why a step has no result.
enum Stop {
    Problem(CkksError),
    GivenUp,
}

impl From<CkksError> for Stop {
    fn from(problem: CkksError) -> Self {
        match problem {
            CkksError::GivenUp => Self::GivenUp,
            problem => Self::Problem(problem),
        }
    }
}

impl Runner<'_> {
    /// Computes all steps. A value is dropped after its last use, so only the values needed at the
    /// end remain.
    fn values(&self, inputs: Vec<Ciphertext>, clock: &Clock) -> Result<Vec<Option<Ciphertext>>, RowError> {
        // Long-lived values are copied into buffers of exact size, so that they take no more memory
        // than the plan is charged for.
        let mut values: Vec<Option<Ciphertext>> = inputs.into_iter().map(|input| Some(input.fitted())).collect();
        for step in self.program.steps() {
            if !(self.goes_on)() {
                return Err(RowError::GivenUp);
            }
            clock.begins(times::of_action(&step.action));
            let operation = step.operation;
            let mut result = self.step(&step.action, step.vector, &values).map_err(|stop| match stop {
                Stop::Problem(problem) => RowError::Step { operation, problem },
                Stop::GivenUp => RowError::GivenUp,
            })?;
            on_plan(&result, step.vector, || format!("operation {operation}"))?;
            // The scale differs from the plan's by rounding only. The plan's scale replaces it, so
            // that later steps compare exactly.
            result.scale = step.vector.scale;
            step.last_uses.iter().for_each(|value| values[*value] = None);
            values.push(Some(result.fitted()));
        }
        Ok(values)
    }

    fn step(&self, action: &Action, to: Vector, values: &[Option<Ciphertext>]) -> Result<Ciphertext, Stop> {
        let (evaluator, keys) = (&self.evaluator, self.keys.evaluation());
        let value = |value: &usize| held(values, *value);
        let result = match action {
            Action::Add(a, b) => evaluator.add(value(a), value(b)),
            Action::Subtract(a, b) => evaluator.sub(value(a), value(b)),
            Action::Negate(a) => Ok(evaluator.negate(value(a))),
            Action::TimesI(a) => Ok(evaluator.times_i(value(a))),
            Action::AddNumber(a, number) => evaluator.add_constant(value(a), *number),
            Action::AddClear(a, clear) => evaluator.add_plain(value(a), &self.encoded(*clear, value(a), to.scale)?),
            Action::MultiplyNumber(a, number) => evaluator.multiply_number(value(a), *number, to.level, to.scale),
            Action::MultiplyClear(a, clear) => {
                let factor = self.encoded(*clear, value(a), self.factor_scale(value(a), to))?;
                evaluator.rescaled(evaluator.multiply_plain(value(a), &factor)?)
            }
            Action::Multiply(a, b) => evaluator.multiply_rescaled(value(a), value(b), keys),
            Action::Rotate(a, by) => evaluator.rotate(value(a), *by, keys),
            Action::Conjugate(a) => evaluator.conjugate(value(a), keys),
            Action::Total(a) => {
                let mut total = value(a).clone();
                for log2 in 0..to.slots_log2 {
                    self.ask()?;
                    total = evaluator.add(&total, &evaluator.rotate(&total, 1 << log2, keys)?)?;
                }
                Ok(total)
            }
            Action::Lower(a) => value(a).at_level(to.level),
            Action::Chebyshev(a, coefficients) => evaluator.chebyshev(value(a), coefficients, to.scale, keys),
            Action::Transform(a, matrix) => {
                let diagonals = self.program.clear().matrices[*matrix].iter();
                let diagonals =
                    diagonals.map(|diagonal| (diagonal.offset, diagonal.numbers.iter().map(complex).collect()));
                let matrix = Diagonals::new(1 << to.slots_log2, diagonals);
                let scale = self.factor_scale(value(a), to);
                let encoded = EncodedMatrix::new(evaluator, &matrix, Way::Apart { more: 0 }, value(a).level(), scale)?;
                evaluator.transform(value(a), &encoded, keys)
            }
            Action::Bootstrap(a, shape) => {
                let bootstrap = self.matrices.get(self.program.set(), *shape)?;
                // The matrices may have had to be made first, which takes long.
                self.ask()?;
                evaluator.bootstrap(value(a), &bootstrap, self.keys.bootstrap()?)
            }
        };
        Ok(result?)
    }

    /// Checks for cancellation within a step.
    fn ask(&self) -> Result<(), Stop> {
        if (self.goes_on)() { Ok(()) } else { Err(Stop::GivenUp) }
    }

    /// Encodes clear numbers for a ciphertext's level and slots.
    fn encoded(&self, clear: usize, with: &Ciphertext, scale: f64) -> Result<Plaintext, CkksError> {
        let numbers = &self.program.clear().vectors[clear];
        let numbers: Vec<Complex> = numbers.iter().map(complex).cycle().take(with.slots()).collect();
        self.evaluator.ring().encode(&numbers, scale, Basis::of_level(with.level()))
    }

    /// Scale of a clear factor. The product then has the plan's scale after the division by the
    /// last prime.
    fn factor_scale(&self, from: &Ciphertext, to: Vector) -> f64 {
        to.scale * self.program.set().chain[from.level()] as f64 / from.scale
    }
}

fn complex([re, im]: &[f64; 2]) -> Complex {
    Complex::new(*re, *im)
}
