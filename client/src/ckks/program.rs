//! Construction of programs on vectors of approximate numbers.

use bytes::Bytes;
use cloakwork_circuit::{
    ProgramId,
    ckks::{LIMITS, Program, Vector},
    wire::{
        self, Operation,
        operation::{
            self, Kind,
            bootstrap::{Kind as WireKind, Size},
        },
    },
};
use cloakwork_params::{SetId, ckks::CkksSet};
use prost::Message as _;

use super::{BootstrapKind, Complex, KeySize};
use crate::{
    Result,
    program::AnyProgram,
    shape::{Shape, VectorShape},
};

/// A program on vectors that has passed the checks that every server makes.
#[derive(Clone, Debug)]
pub struct VectorProgram {
    bytes: Bytes,
    pub(super) checked: Program,
}

impl VectorProgram {
    /// Checks an encoded `cloakwork.v1.Program`.
    pub fn decode(bytes: impl Into<Bytes>) -> Result<Self> {
        let bytes = bytes.into();
        let checked = Program::decode(&bytes, &LIMITS)?;
        Ok(Self { bytes, checked })
    }

    /// The BLAKE3 of the program's bytes, which is its name.
    pub fn id(&self) -> ProgramId {
        self.checked.id()
    }

    /// The parameter set that the program is written for.
    pub fn set(&self) -> &'static CkksSet {
        self.checked.set()
    }

    /// Slots, level and scale of each output.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = Vector> {
        self.checked.outputs().iter().map(|output| output.vector)
    }

    /// Number of bootstraps for each row.
    pub fn bootstraps(&self) -> u64 {
        self.checked.cost().bootstraps
    }

    /// Evaluates the program on clear numbers. A job returns these numbers with the errors of
    /// encryption.
    pub fn evaluate(&self, inputs: &[Vec<Complex>]) -> Vec<Vec<Complex>> {
        let inputs: Vec<Vec<[f64; 2]>> =
            inputs.iter().map(|input| input.iter().map(|number| [number.re, number.im]).collect()).collect();
        let outputs = self.checked.evaluate(&inputs).into_iter();
        outputs.map(|output| output.into_iter().map(|[re, im]| Complex::new(re, im)).collect()).collect()
    }
}

impl AnyProgram for VectorProgram {
    fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    fn set_id(&self) -> SetId {
        self.set().id
    }

    fn input_lengths(&self) -> Vec<usize> {
        vec![1; self.checked.inputs().len()]
    }

    fn output_shapes(&self) -> Vec<Shape> {
        self.outputs().map(|vector| Shape::Vector(VectorShape { set: self.set(), vector })).collect()
    }
}

/// A vector of a program under construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorValue(u32);

/// Builds a program on vectors, operation by operation. [`VectorProgramBuilder::build`] reports
/// errors.
///
/// No rescaling is needed, and operands may differ in level. A product, a polynomial and a matrix
/// take levels, and a bootstrap gives new ones.
#[derive(Clone, Debug)]
pub struct VectorProgramBuilder {
    message: wire::Program,
    values: u32,
}

impl VectorProgramBuilder {
    /// An empty program for a set.
    pub fn new(set: &'static CkksSet) -> Self {
        Self { message: wire::Program { parameter_set: set.name.into(), ..Default::default() }, values: 0 }
    }

    /// An input of 2^`slots_log2` numbers that are encrypted at a level. Inputs come before all
    /// operations.
    pub fn input(&mut self, name: &str, slots_log2: u32, level: usize) -> VectorValue {
        self.stored(name, slots_log2, level, 0.0)
    }

    /// An input that is the output of another job, at the given scale.
    pub fn stored(&mut self, name: &str, slots_log2: u32, level: usize, scale: f64) -> VectorValue {
        // A later input would change the numbers of the operations' results.
        debug_assert!(self.message.operations.is_empty(), "inputs come before all operations");
        let (name, r#type, level) = (name.to_owned(), wire::Type::Vector.into(), word(level));
        self.message.inputs.push(wire::program::Input { name, r#type, slots_log2, level, scale, ..Default::default() });
        self.value()
    }

    /// Clear numbers: one for all slots, or one for each.
    pub fn constant(&mut self, numbers: &[Complex]) -> VectorValue {
        let operation = Operation { r#type: wire::Type::Vector.into(), ..clear(numbers) };
        self.push(Kind::Constant, &[], operation)
    }

    /// a + b.
    pub fn add(&mut self, a: VectorValue, b: VectorValue) -> VectorValue {
        self.push(Kind::Add, &[a, b], Operation::default())
    }

    /// a - b.
    pub fn subtract(&mut self, a: VectorValue, b: VectorValue) -> VectorValue {
        self.push(Kind::Subtract, &[a, b], Operation::default())
    }

    /// The sum of all values.
    pub fn sum(&mut self, values: &[VectorValue]) -> VectorValue {
        self.push(Kind::Sum, values, Operation::default())
    }

    /// -a.
    pub fn negate(&mut self, a: VectorValue) -> VectorValue {
        self.push(Kind::Negate, &[a], Operation::default())
    }

    /// a * b, slot by slot. Takes one level.
    pub fn multiply(&mut self, a: VectorValue, b: VectorValue) -> VectorValue {
        self.push(Kind::Multiply, &[a, b], Operation::default())
    }

    /// Rotates to the left: slot i of the result is slot i + `steps` of the argument, with
    /// wrap-around.
    pub fn rotate(&mut self, a: VectorValue, steps: i32) -> VectorValue {
        self.push(Kind::Rotate, &[a], Operation { steps, ..Default::default() })
    }

    /// Every number conjugated.
    pub fn conjugate(&mut self, a: VectorValue) -> VectorValue {
        self.push(Kind::Conjugate, &[a], Operation::default())
    }

    /// The sum of all slots, in every slot.
    pub fn total(&mut self, a: VectorValue) -> VectorValue {
        self.push(Kind::Total, &[a], Operation::default())
    }

    /// A polynomial of each number, by its coefficients from degree 0 on. Takes one level for each
    /// binary digit of its degree.
    pub fn polynomial(&mut self, a: VectorValue, coefficients: &[f64]) -> VectorValue {
        self.push(Kind::Polynomial, &[a], Operation { numbers: coefficients.to_vec(), ..Default::default() })
    }

    /// Like [`Self::polynomial`], with coefficients of Chebyshev polynomials.
    pub fn chebyshev(&mut self, a: VectorValue, coefficients: &[f64]) -> VectorValue {
        self.push(Kind::Chebyshev, &[a], Operation { numbers: coefficients.to_vec(), ..Default::default() })
    }

    /// A clear square matrix times the vector. Each diagonal has its distance from the main
    /// diagonal, in columns to the right, and its entries row by row. Takes one level.
    pub fn matrix(&mut self, a: VectorValue, diagonals: &[(usize, Vec<Complex>)]) -> VectorValue {
        let entries: Vec<Complex> = diagonals.iter().flat_map(|(_, entries)| entries).copied().collect();
        let offsets = diagonals.iter().map(|(offset, _)| word(*offset)).collect();
        self.push(Kind::Matrix, &[a], Operation { offsets, ..clear(&entries) })
    }

    /// Lowers the level, so that less has to be computed and sent. The numbers stay as they are.
    pub fn level_down(&mut self, a: VectorValue, level: usize) -> VectorValue {
        self.push(Kind::LevelDown, &[a], Operation { level: word(level), ..Default::default() })
    }

    /// Bootstraps to a new level. The numbers' magnitude is at most about one.
    pub fn bootstrap(&mut self, a: VectorValue, stages: usize, size: KeySize, kind: BootstrapKind) -> VectorValue {
        self.push(Kind::Bootstrap, &[a], bootstrap(stages, size, kind))
    }

    /// Bootstraps two vectors of real numbers in one bootstrap. Arguments must have no imaginary
    /// parts: each would mix into the other argument's real part.
    pub fn bootstrap_both(
        &mut self,
        real: [VectorValue; 2],
        stages: usize,
        size: KeySize,
        kind: BootstrapKind,
    ) -> [VectorValue; 2] {
        let first = self.push(Kind::BootstrapBoth, &real, bootstrap(stages, size, kind));
        [first, self.value()]
    }

    /// Returns a vector from the program.
    pub fn output(&mut self, value: VectorValue) {
        self.message.outputs.push(value.0);
    }

    /// Checks the program as a server does.
    pub fn build(self) -> Result<VectorProgram> {
        VectorProgram::decode(self.message.encode_to_vec())
    }

    fn push(&mut self, kind: Kind, arguments: &[VectorValue], operation: Operation) -> VectorValue {
        let arguments = arguments.iter().map(|value| value.0).collect();
        self.message.operations.push(Operation { kind: kind.into(), arguments, ..operation });
        self.value()
    }

    fn value(&mut self) -> VectorValue {
        self.values += 1;
        VectorValue(self.values - 1)
    }
}

fn bootstrap(stages: usize, size: KeySize, kind: BootstrapKind) -> Operation {
    let size = match size {
        KeySize::Small => Size::Small,
        KeySize::Medium => Size::Medium,
        KeySize::Large => Size::Large,
    };
    let kind = match kind {
        BootstrapKind::Regular => WireKind::Unspecified,
        BootstrapKind::Lossy => WireKind::Lossy,
    };
    let bootstrap = Some(operation::Bootstrap { stages: word(stages), size: size.into(), kind: kind.into() });
    Operation { bootstrap, ..Default::default() }
}

fn clear(numbers: &[Complex]) -> Operation {
    let is_real = numbers.iter().all(|number| number.im == 0.0);
    let imaginary = if is_real { Vec::new() } else { numbers.iter().map(|number| number.im).collect() };
    Operation { numbers: numbers.iter().map(|number| number.re).collect(), imaginary, ..Default::default() }
}

/// A number as a message's field. A number above 32 bits exceeds the limits, and so does
/// `u32::MAX`.
fn word(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use cloakwork_params::ckks::by_name;

    use super::*;

    fn builder() -> VectorProgramBuilder {
        VectorProgramBuilder::new(by_name("TOY_CKKS_45_60_50").expect("a set"))
    }

    #[test]
    fn built_programs_compute_their_operations() {
        let mut program = builder();
        let (x, y) = (program.input("x", 2, 5), program.input("y", 2, 9));
        let i = program.constant(&[Complex::new(0.0, 1.0)]);
        let half = program.constant(&[Complex::from(0.5)]);
        let product = program.multiply(x, y);
        let turned = program.rotate(product, 1);
        let values = [
            product,
            turned,
            program.add(turned, x),
            program.subtract(x, half),
            program.sum(&[x, y, half]),
            program.negate(y),
            program.multiply(x, i),
            program.total(x),
            program.polynomial(x, &[1.0, 0.0, 2.0]),
            program.chebyshev(x, &[0.0, 0.0, 1.0]),
            program.matrix(x, &[(0, vec![Complex::from(1.0); 4]), (3, vec![Complex::new(0.0, 2.0); 4])]),
            program.level_down(y, 1),
            program.bootstrap(product, 2, KeySize::Medium, BootstrapKind::Regular),
            program.bootstrap(product, 1, KeySize::Small, BootstrapKind::Lossy),
        ];
        let conjugate = program.conjugate(values[6]);
        let both = program.bootstrap_both([y, x], 2, KeySize::Large, BootstrapKind::Lossy);
        values.into_iter().chain([conjugate]).chain(both).for_each(|value| program.output(value));
        let program = program.build().expect("a program");
        assert_eq!((program.outputs().len(), program.bootstraps()), (17, 3));
        let (x, y) = ([0.1, 0.2, 0.3, 0.4], [0.5, -0.5, 0.25, 1.0]);
        let inputs = [x, y].map(|numbers| numbers.map(Complex::from).to_vec());
        let got = program.evaluate(&inputs);
        let at = |output: usize, place: usize| (got[output][place].re, got[output][place].im);
        let is = |output: usize, place: usize, re: f64, im: f64| {
            let (got_re, got_im) = at(output, place);
            assert!((got_re - re).hypot(got_im - im) < 1e-12, "output {output}: {got_re} + {got_im} i");
        };
        for place in 0..4 {
            let (next, last) = ((place + 1) % 4, (place + 3) % 4);
            is(0, place, x[place] * y[place], 0.0);
            is(1, place, x[next] * y[next], 0.0);
            is(2, place, x[next] * y[next] + x[place], 0.0);
            is(3, place, x[place] - 0.5, 0.0);
            is(4, place, x[place] + y[place] + 0.5, 0.0);
            is(5, place, -y[place], 0.0);
            is(6, place, 0.0, x[place]);
            is(7, place, 1.0, 0.0);
            is(8, place, 1.0 + 2.0 * x[place] * x[place], 0.0);
            is(9, place, 2.0 * x[place] * x[place] - 1.0, 0.0);
            is(10, place, x[place], 2.0 * x[last]);
            is(11, place, y[place], 0.0);
            is(12, place, x[place] * y[place], 0.0);
            is(13, place, x[place] * y[place], 0.0);
            is(14, place, 0.0, -x[place]);
            is(15, place, y[place], 0.0);
            is(16, place, x[place], 0.0);
        }
        let again = VectorProgram::decode(program.bytes().clone()).expect("the same program");
        assert_eq!(again.id(), program.id());
    }

    #[test]
    fn invalid_programs_are_refused_by_the_builder() {
        let mut program = builder();
        let x = program.input("x", 2, 0);
        let square = program.multiply(x, x);
        program.output(square);
        let refusal = program.build().expect_err("it has no level").to_string();
        assert!(refusal.contains("a bootstrap before it gives new ones"), "{refusal}");
    }
}
