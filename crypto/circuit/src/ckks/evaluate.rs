//! Evaluation of plans on plaintexts: the results that a worker would compute without noise.

use super::{Action, Diagonal, Program};

impl Program {
    /// Runs the plan on numbers, given as real and imaginary parts, with as many numbers for each
    /// input as it has slots. Returns the numbers of the outputs.
    pub fn evaluate(&self, inputs: &[Vec<[f64; 2]>]) -> Vec<Vec<[f64; 2]>> {
        let mut values = inputs.to_vec();
        for step in &self.steps {
            let value = self.step(&step.action, &values);
            values.push(value);
        }
        self.outputs.iter().map(|output| values[output.value].clone()).collect()
    }

    fn step(&self, action: &Action, values: &[Vec<[f64; 2]>]) -> Vec<[f64; 2]> {
        let each =
            |value: usize, of: &dyn Fn([f64; 2]) -> [f64; 2]| values[value].iter().map(|number| of(*number)).collect();
        let both = |a: usize, b: &[[f64; 2]], of: fn([f64; 2], [f64; 2]) -> [f64; 2]| {
            values[a].iter().zip(b.iter().cycle()).map(|(a, b)| of(*a, *b)).collect()
        };
        match action {
            Action::Add(a, b) => both(*a, &values[*b], add),
            Action::Subtract(a, b) => both(*a, &values[*b], |a, [re, im]| add(a, [-re, -im])),
            Action::Multiply(a, b) => both(*a, &values[*b], multiply),
            Action::AddClear(a, clear) => both(*a, &self.clear.vectors[*clear], add),
            Action::MultiplyClear(a, clear) => both(*a, &self.clear.vectors[*clear], multiply),
            Action::Negate(a) => each(*a, &|[re, im]| [-re, -im]),
            Action::TimesI(a) => each(*a, &|[re, im]| [-im, re]),
            Action::AddNumber(a, number) => each(*a, &|[re, im]| [re + number, im]),
            Action::MultiplyNumber(a, number) => each(*a, &|[re, im]| [re * number, im * number]),
            Action::Conjugate(a) => each(*a, &|[re, im]| [re, -im]),
            Action::Rotate(a, by) => rotated(&values[*a], *by as usize),
            Action::Total(a) => {
                let total = values[*a].iter().fold([0.0; 2], |sum, number| add(sum, *number));
                each(*a, &|_| total)
            }
            Action::Lower(a) | Action::Bootstrap(a, _) => values[*a].clone(),
            Action::Chebyshev(a, coefficients) => each(*a, &|x| chebyshev(coefficients, x)),
            Action::Transform(a, matrix) => {
                let mut sum = vec![[0.0; 2]; values[*a].len()];
                for Diagonal { offset, numbers } in &self.clear.matrices[*matrix] {
                    for ((sum, entry), x) in sum.iter_mut().zip(numbers).zip(rotated(&values[*a], *offset)) {
                        *sum = add(*sum, multiply(*entry, x));
                    }
                }
                sum
            }
        }
    }
}

fn rotated(numbers: &[[f64; 2]], by: usize) -> Vec<[f64; 2]> {
    let mut numbers = numbers.to_vec();
    let by = by % numbers.len();
    numbers.rotate_left(by);
    numbers
}

fn chebyshev(coefficients: &[f64], x: [f64; 2]) -> [f64; 2] {
    let (mut before, mut power, mut sum) = (x, [1.0, 0.0], [0.0; 2]);
    for coefficient in coefficients {
        sum = add(sum, power.map(|part| part * coefficient));
        let [re, im] = multiply(x, power).map(|part| 2.0 * part);
        (before, power) = (power, [re - before[0], im - before[1]]);
    }
    sum
}

fn add(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [a[0] + b[0], a[1] + b[1]]
}

fn multiply(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}
