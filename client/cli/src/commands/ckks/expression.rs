//! Expressions over encrypted numbers, and their compilation to programs.

use cloakwork_client::{
    BootstrapKind, ClientError, Complex, KeySize, ProgramError, Vector, VectorProgram, VectorProgramBuilder,
    VectorValue,
    params::ckks::{CkksSet, bootstrap::BootstrapShape},
};

use super::{bootstrap::check, number::Number, size::Size};
use crate::{
    eval::hint_among,
    output::counted,
    syntax::{Node, NodeKind, Problem, at, parse_several},
};

/// A ciphertext with a name.
pub(super) struct Named<'a> {
    pub(super) name: &'a str,
    pub(super) vector: Vector,
}

/// Compiles expressions over named ciphertexts. Each expression makes one or two outputs.
pub(super) fn compile(text: &str, set: &'static CkksSet, names: &[Named<'_>]) -> Result<VectorProgram, Problem> {
    let trees = parse_several(text)?;
    let mut builder = VectorProgramBuilder::new(set);
    let mut values = Vec::with_capacity(names.len());
    for (index, Named { name, vector }) in names.iter().enumerate() {
        if names[..index].iter().any(|other| other.name == *name) {
            return Err(format!("'{name}' is given twice").into());
        }
        values.push(builder.stored(name, vector.slots_log2, vector.level, vector.scale));
    }
    let is_used = vec![false; names.len()];
    let mut compiler = Compiler { set, builder, names, values, is_used, places: Vec::new() };
    for tree in &trees {
        compiler.results(tree)?.into_iter().for_each(|value| compiler.builder.output(value));
    }
    if let Some((unused, _)) = names.iter().zip(&compiler.is_used).find(|(_, is_used)| !**is_used) {
        return Err(format!("'{}' is given, but the expression does not use it", unused.name).into());
    }
    let places = compiler.places;
    compiler.builder.build().map_err(|error| match error {
        ClientError::Program(ProgramError::Operation { index, problem, .. }) => at(places[index], problem),
        other => other.to_string().into(),
    })
}

struct Compiler<'a> {
    set: &'static CkksSet,
    builder: VectorProgramBuilder,
    names: &'a [Named<'a>],
    values: Vec<VectorValue>,
    is_used: Vec<bool>,
    /// Place in the text of each operation.
    places: Vec<usize>,
}

/// Value of a node.
#[derive(Clone, Copy)]
enum Operand {
    Number(Complex),
    Vector(VectorValue),
}

use Operand::{Number as Known, Vector as Encrypted};

/// Stages and key size of a bootstrap by default.
const DEFAULT_STAGES: usize = 5;
const DEFAULT_SIZE: Size = Size(KeySize::Medium);

/// Notation of each function.
const FUNCTIONS: &[&str] = &[
    "bootstrap(x, stages, size, lossy)",
    "bootstrap_both(x, y, stages, size, lossy)",
    "chebyshev(x, c0, c1, ..)",
    "conjugate(x)",
    "level(x, n)",
    "poly(x, c0, c1, ..)",
    "rotate(x, n)",
    "total(x)",
];

/// The only function with two results, which therefore cannot be an operand.
const BOTH: &str = "bootstrap_both";

impl Compiler<'_> {
    /// Compiles a whole expression to its results.
    fn results(&mut self, node: &Node) -> Result<Vec<VectorValue>, Problem> {
        match &node.kind {
            NodeKind::Call(name, arguments) if name == BOTH => match &arguments[..] {
                [x, y, how @ ..] if how.len() <= 3 => {
                    let real = [self.vector(x)?, self.vector(y)?];
                    let (stages, size, kind) = self.how(node.place, how)?;
                    self.places.push(node.place);
                    Ok(self.builder.bootstrap_both(real, stages, size, kind).to_vec())
                }
                _ => Err(unknown(node.place, name, arguments)),
            },
            _ => match self.operand(node)? {
                Encrypted(value) => Ok(vec![value]),
                Known(_) => Err(at(node.place, "a number that is known needs no computation")),
            },
        }
    }

    fn operand(&mut self, node: &Node) -> Result<Operand, Problem> {
        let place = node.place;
        match &node.kind {
            NodeKind::Number(text) => {
                let number: Result<Number, String> = text.parse();
                number.map(|Number(number)| Known(number)).map_err(|problem| at(place, problem))
            }
            NodeKind::Name(name) if name == "i" => Ok(Known(Complex::new(0.0, 1.0))),
            NodeKind::Name(name) => {
                let index = self.names.iter().position(|named| named.name == name);
                let index =
                    index.ok_or_else(|| at(place, format!("'{name}' is no ciphertext: give it as {name}=FILE")))?;
                self.is_used[index] = true;
                Ok(Encrypted(self.values[index]))
            }
            NodeKind::Call(name, arguments) => self.call(place, name, arguments),
            NodeKind::Array(_) | NodeKind::Element(_) => {
                Err(at(place, "a ciphertext is a vector already: there are no arrays"))
            }
        }
    }

    fn call(&mut self, place: usize, name: &str, arguments: &[Node]) -> Result<Operand, Problem> {
        match (name, arguments) {
            ("+" | "-" | "*" | "/", [left, right]) => {
                let (left, right) = (self.operand(left)?, self.operand(right)?);
                self.operation(place, name, left, right)
            }
            ("-", [inner]) => match self.operand(inner)? {
                Known(number) => Ok(Known(-number)),
                Encrypted(value) => Ok(self.made(place, |builder| builder.negate(value))),
            },
            ("rotate", [x, steps]) => {
                let (x, steps) = (self.vector(x)?, self.whole(steps)?);
                Ok(self.made(place, |builder| builder.rotate(x, steps)))
            }
            ("conjugate", [x]) => {
                let x = self.vector(x)?;
                Ok(self.made(place, |builder| builder.conjugate(x)))
            }
            ("total", [x]) => {
                let x = self.vector(x)?;
                Ok(self.made(place, |builder| builder.total(x)))
            }
            ("poly" | "chebyshev", [x, coefficients @ ..]) if !coefficients.is_empty() => {
                let x = self.vector(x)?;
                let coefficients = coefficients.iter().map(|node| self.real(node)).collect::<Result<Vec<_>, _>>()?;
                Ok(self.made(place, |builder| match name {
                    "poly" => builder.polynomial(x, &coefficients),
                    _ => builder.chebyshev(x, &coefficients),
                }))
            }
            ("level", [x, level]) => {
                let (x, level) = (self.vector(x)?, self.count(level)?);
                Ok(self.made(place, |builder| builder.level_down(x, level)))
            }
            ("bootstrap", [x, how @ ..]) if how.len() <= 3 => {
                let x = self.vector(x)?;
                let (stages, size, kind) = self.how(place, how)?;
                Ok(self.made(place, |builder| builder.bootstrap(x, stages, size, kind)))
            }
            (BOTH, _) => Err(at(place, "it has two results, and stands alone between semicolons")),
            _ => Err(unknown(place, name, arguments)),
        }
    }

    /// Stages, size and kind of a bootstrap, with defaults for absent arguments.
    fn how(&mut self, place: usize, how: &[Node]) -> Result<(usize, KeySize, BootstrapKind), Problem> {
        let stages = how.first().map_or(Ok(DEFAULT_STAGES), |stages| self.count(stages))?;
        let Size(size) = how.get(1).map_or(Ok(DEFAULT_SIZE), size)?;
        let kind = how.get(2).map_or(Ok(BootstrapKind::Regular), kind)?;
        // If ciphertexts have different counts of numbers, the operation that combines them reports
        // the error.
        let slots_log2 = self.names.first().map(|first| first.vector.slots_log2);
        let same = slots_log2.filter(|slots| self.names.iter().all(|named| named.vector.slots_log2 == *slots));
        if let Some(slots_log2) = same {
            check(self.set, BootstrapShape { slots_log2, stages, size, kind }).map_err(|problem| at(place, problem))?;
        }
        Ok((stages, size, kind))
    }

    fn operation(&mut self, place: usize, name: &str, left: Operand, right: Operand) -> Result<Operand, Problem> {
        if let (Known(left), Known(right)) = (left, right) {
            return known(place, name, left, right).map(Known);
        }
        if name == "/" {
            let Known(divisor) = right else { return Err(at(place, "only a number can be divided by")) };
            let factor = known(place, "/", Complex::from(1.0), divisor)?;
            return self.operation(place, "*", left, Known(factor));
        }
        let (left, right) = (self.lifted(place, left), self.lifted(place, right));
        Ok(self.made(place, |builder| match name {
            "+" => builder.add(left, right),
            "-" => builder.subtract(left, right),
            _ => builder.multiply(left, right),
        }))
    }

    /// Turns an operand into a vector. A known number becomes a constant.
    fn lifted(&mut self, place: usize, operand: Operand) -> VectorValue {
        match operand {
            Encrypted(value) => value,
            Known(number) => {
                self.places.push(place);
                self.builder.constant(&[number])
            }
        }
    }

    fn made(&mut self, place: usize, make: impl FnOnce(&mut VectorProgramBuilder) -> VectorValue) -> Operand {
        self.places.push(place);
        Encrypted(make(&mut self.builder))
    }

    fn vector(&mut self, node: &Node) -> Result<VectorValue, Problem> {
        match self.operand(node)? {
            Encrypted(value) => Ok(value),
            Known(_) => Err(at(node.place, "expected a ciphertext, not a number")),
        }
    }

    fn real(&mut self, node: &Node) -> Result<f64, Problem> {
        match self.operand(node)? {
            Known(number) if number.im == 0.0 => Ok(number.re),
            _ => Err(at(node.place, "expected a real number")),
        }
    }

    fn whole(&mut self, node: &Node) -> Result<i32, Problem> {
        let number = self.real(node)?;
        let whole = number as i32;
        if f64::from(whole) == number { Ok(whole) } else { Err(at(node.place, "expected a whole number")) }
    }

    fn count(&mut self, node: &Node) -> Result<usize, Problem> {
        usize::try_from(self.whole(node)?).map_err(|_| at(node.place, "expected a number of at least 0"))
    }
}

fn unknown(place: usize, name: &str, arguments: &[Node]) -> Problem {
    let count = counted(arguments.len() as u64, "argument");
    let hint = hint_among(FUNCTIONS, name).unwrap_or_else(|| "`cloakwork ckks run --help` lists the functions".into());
    at(place, format!("'{name}' of {count} is not known: {hint}"))
}

fn size(node: &Node) -> Result<Size, Problem> {
    match &node.kind {
        NodeKind::Name(name) => name.parse().map_err(|problem: String| at(node.place, problem)),
        _ => Err(at(node.place, "expected the size of a key: small, medium or large")),
    }
}

fn kind(node: &Node) -> Result<BootstrapKind, Problem> {
    match &node.kind {
        NodeKind::Name(name) if name == "lossy" => Ok(BootstrapKind::Lossy),
        _ => Err(at(node.place, "expected lossy, or nothing for a regular bootstrap")),
    }
}

/// Result of an operation on two known numbers.
fn known(place: usize, name: &str, left: Complex, right: Complex) -> Result<Complex, Problem> {
    let result = match name {
        "+" => left + right,
        "-" => left - right,
        "*" => left * right,
        _ => {
            let square = right.re * right.re + right.im * right.im;
            left * Complex::new(right.re / square, -right.im / square)
        }
    };
    if result.re.is_finite() && result.im.is_finite() {
        Ok(result)
    } else {
        Err(at(place, "it is not a finite number"))
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_client::ckks_set_by_name;

    use super::*;

    fn program(text: &str) -> Result<VectorProgram, String> {
        let set = ckks_set_by_name("TOY_CKKS_45_60_50").expect("a set");
        let vector = |level| Vector { slots_log2: 2, level, scale: 2_f64.powi(45) };
        let names = [Named { name: "x", vector: vector(9) }, Named { name: "y", vector: vector(4) }];
        compile(text, set, &names).map_err(|problem| problem.to_string())
    }

    #[test]
    fn expressions_have_the_expected_values() {
        let x = [0.5, -0.25, 1.0, 0.0].map(Complex::from);
        let y = [Complex::new(0.0, 1.0), Complex::from(2.0), Complex::new(0.5, -0.5), Complex::from(-1.0)];
        for (text, expected) in [
            ("x + y", [x[0] + y[0], x[3] + y[3]]),
            ("0.5 * x * y - 2i", [x[0] * y[0] * Complex::from(0.5) - Complex::new(0.0, 2.0), Complex::new(0.0, -2.0)]),
            ("-(x / 4) + 0 * y", [Complex::from(-0.125), Complex::from(0.0)]),
            ("rotate(x, 1) + 0*y", [x[1], x[0]]),
            ("rotate(x, -1) + 0*y", [x[3], x[2]]),
            ("conjugate(y) + 0*x", [Complex::new(0.0, -1.0), Complex::from(-1.0)]),
            ("total(x) + 0*y", [Complex::from(1.25); 2]),
            ("poly(x, 1, 2, 1/2) + 0*y", [Complex::from(2.125), Complex::from(1.0)]),
            ("chebyshev(x, 0, 0, 2) + 0*y", [Complex::from(-1.0), Complex::from(-2.0)]),
            ("bootstrap(x, 2, small, lossy) + 0*y", [x[0], x[3]]),
            ("bootstrap(level(x, 1), 2, large) * (1 + i) + 0*y", [x[0] * Complex::new(1.0, 1.0), Complex::from(0.0)]),
        ] {
            let program = program(text).expect(text);
            let got = &program.evaluate(&[x.to_vec(), y.to_vec()])[0];
            for (got, expected) in [got[0], got[3]].into_iter().zip(expected) {
                assert!((got - expected).magnitude() < 1e-12, "{text}: {got:?}, not {expected:?}");
            }
        }
        assert_eq!(program("x; y; x*y").expect("three").outputs().len(), 3);
        let both = program("x - 1; bootstrap_both(2 * x, x * x, 2, small); y").expect("four");
        assert_eq!((both.outputs().len(), both.bootstraps()), (4, 1));
        let got = both.evaluate(&[x.to_vec(), y.to_vec()]);
        assert!((got[1][0] - Complex::from(1.0)).magnitude() < 1e-12, "{got:?}");
        assert!((got[2][0] - Complex::from(0.25)).magnitude() < 1e-12, "{got:?}");
    }

    #[test]
    fn errors_name_the_place_and_the_problem() {
        for (text, expected) in [
            ("x + z; y", "at 4: 'z' is no ciphertext: give it as z=FILE"),
            ("x", "'y' is given, but the expression does not use it"),
            ("x; y; 1 + 2", "at 8: a number that is known needs no computation"),
            ("x / y", "at 2: only a number can be divided by"),
            ("x * y / 0", "at 6: it is not a finite number"),
            ("rotate(x, 0.5) + y", "at 10: expected a whole number"),
            ("poly(x, 2i) + y", "at 8: expected a real number"),
            ("rotate(2, 1) + x + y", "at 7: expected a ciphertext, not a number"),
            ("bootstrap(x, 3, huge) + y", "at 16: 'huge' is no size of a key"),
            ("bootstrap(x, 3, small, fast) + y", "at 23: expected lossy"),
            ("x[0] + y", "at 1: a ciphertext is a vector already"),
            ("sin(x) + y", "at 0: 'sin' of 1 argument is not known: `cloakwork ckks run --help`"),
            ("rotate(x) + y", "at 0: 'rotate' of 1 argument is not known: it is written rotate(x, n)"),
            ("totl(x) + y", "at 0: 'totl' of 1 argument is not known: is it total(x)?"),
            (
                "bootstrap(x, 3) + y",
                "at 0: 3 stages: a bootstrap of 4 numbers has 1 to 2; name fewer, or encrypt with `--slots",
            ),
            ("bootstrap(x, 6) + y", "at 0: 6 stages: a bootstrap of 4 numbers has 1 to 2"),
            ("bootstrap_both(x) + y", "at 0: it has two results, and stands alone"),
            (
                "y; bootstrap_both(x)",
                "at 3: 'bootstrap_both' of 1 argument is not known: it is written bootstrap_both(x, y, ",
            ),
            ("bootstrap_both(x, y, 2, huge)", "at 24: 'huge' is no size of a key"),
            ("x + 1.2.3 + y", "at 7: "),
        ] {
            let problem = program(text).expect_err(text);
            assert!(problem.starts_with(expected), "{text}: {problem}");
        }
        let deep = program("y * y * y * y * y * y * y + x").expect_err("no levels are left");
        assert!(deep.starts_with("at ") && deep.contains("level"), "{deep}");
    }
}
