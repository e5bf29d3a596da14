//! The plan: steps on values whose level and scale are known.

use std::collections::HashMap;

use cloakwork_params::ckks::{CkksSet, bootstrap::BootstrapShape, chebyshev};

use super::{
    Action, Clear, Diagonal, Input, Output, Step, Vector,
    scales::{Scales, is_same},
};
use crate::ValueId;

/// A plan under construction.
pub(super) struct Plan {
    set: &'static CkksSet,
    scales: Scales,
    values: Vec<Vector>,
    inputs: usize,
    steps: Vec<Step>,
    pub(super) clear: Clear,
    /// The greatest magnitude in each vector of clear numbers. Computed once, as a vector may be
    /// used often.
    largest: Vec<f64>,
    /// Index of the operation that is being planned.
    pub(super) operation: usize,
    /// Values that have been aligned to a level and a scale. The scale is a key by its bits.
    brought: HashMap<(ValueId, usize, u64), ValueId>,
}

impl Plan {
    /// An empty plan.
    pub(super) fn new(set: &'static CkksSet, inputs: &[Input]) -> Self {
        Self {
            set,
            scales: Scales::of(set),
            values: inputs.iter().map(|input| input.vector).collect(),
            inputs: inputs.len(),
            steps: Vec::new(),
            clear: Clear::default(),
            largest: Vec::new(),
            operation: 0,
            brought: HashMap::new(),
        }
    }

    pub(super) fn vector(&self, value: ValueId) -> Vector {
        self.values[value]
    }

    /// Adds clear numbers to the plan, and returns their index.
    pub(super) fn push_clear(&mut self, numbers: Vec<[f64; 2]>) -> usize {
        self.largest.push(largest(&numbers));
        self.clear.vectors.push(numbers);
        self.clear.vectors.len() - 1
    }

    pub(super) fn add(&mut self, values: &[ValueId]) -> Result<ValueId, String> {
        let values = self.of_one_scale(values)?;
        Ok(values[1..].iter().fold(values[0], |sum, value| self.joined(Action::Add(sum, *value))))
    }

    pub(super) fn subtract(&mut self, a: ValueId, b: ValueId) -> Result<ValueId, String> {
        let values = self.of_one_scale(&[a, b])?;
        Ok(self.joined(Action::Subtract(values[0], values[1])))
    }

    pub(super) fn negate(&mut self, a: ValueId) -> ValueId {
        self.push(Action::Negate(a), self.vector(a))
    }

    /// Adds clear numbers to a vector.
    pub(super) fn add_clear(&mut self, a: ValueId, clear: usize) -> Result<ValueId, String> {
        let vector = self.vector(a);
        let action = match self.number(clear) {
            Some(number) => Action::AddNumber(a, number),
            None => Action::AddClear(a, self.as_many(clear, vector)?),
        };
        self.fits(self.largest[clear], vector.scale, vector.level)?;
        Ok(self.push(action, vector))
    }

    /// Multiplies a vector by clear numbers.
    pub(super) fn multiply_clear(&mut self, a: ValueId, clear: usize) -> Result<ValueId, String> {
        let vector = self.vector(a);
        let result = self.below(vector, 1)?;
        self.fits(self.largest[clear], self.factor_scale(vector, result), vector.level)?;
        let action = match self.number(clear) {
            Some(number) => Action::MultiplyNumber(a, number),
            None => Action::MultiplyClear(a, self.as_many(clear, vector)?),
        };
        Ok(self.push(action, result))
    }

    pub(super) fn multiply(&mut self, a: ValueId, b: ValueId) -> Result<ValueId, String> {
        let [mut a, mut b] = [a, b];
        self.same_slots(&[a, b])?;
        let level = self.vector(a).level.min(self.vector(b).level);
        if level == 0 {
            return Err(OUT_OF_LEVELS.to_owned());
        }
        if self.vector(a).level != self.vector(b).level {
            let (upper, lower) = if self.vector(a).level > level { (&mut a, b) } else { (&mut b, a) };
            // The operand of higher level has a level to spare. Use that to compensate for the
            // drift of the other operand's scale.
            let scale = self.scales.at(level - 1) * self.prime(level) / self.vector(lower).scale;
            if self.scales.bears(scale) {
                *upper = self.bring(*upper, level, scale);
            }
        }
        if !self.scales.bears(self.product_scale(a, b, level)) {
            let below = level - 1;
            if below == 0 {
                return Err(format!("the scale of the product would be too far from the set's own: {OUT_OF_LEVELS}"));
            }
            [a, b] = [a, b].map(|value| self.bring(value, below, self.scales.at(below)));
        }
        let level = self.vector(a).level.min(self.vector(b).level);
        let scale = self.product_scale(a, b, level);
        let vector = Vector { level: level - 1, scale, ..self.vector(a) };
        Ok(self.push(Action::Multiply(a, b), vector))
    }

    pub(super) fn rotate(&mut self, a: ValueId, by: i64) -> ValueId {
        let vector = self.vector(a);
        match by.rem_euclid(1 << vector.slots_log2) {
            0 => a,
            by => self.push(Action::Rotate(a, by), vector),
        }
    }

    pub(super) fn conjugate(&mut self, a: ValueId) -> ValueId {
        self.push(Action::Conjugate(a), self.vector(a))
    }

    pub(super) fn total(&mut self, a: ValueId) -> ValueId {
        let vector = self.vector(a);
        if vector.slots_log2 == 0 { a } else { self.push(Action::Total(a), vector) }
    }

    pub(super) fn lower(&mut self, a: ValueId, level: usize) -> Result<ValueId, String> {
        let vector = self.vector(a);
        match level {
            level if level > vector.level => {
                Err(format!("down to level {level}: its argument has level {}; only a bootstrap goes up", vector.level))
            }
            level if level == vector.level => Ok(a),
            level => Ok(self.push(Action::Lower(a), Vector { level, ..vector })),
        }
    }

    /// A sum of Chebyshev polynomials, with at least one coefficient.
    pub(super) fn chebyshev(&mut self, a: ValueId, mut coefficients: Vec<f64>) -> Result<ValueId, String> {
        while coefficients.len() > 1 && coefficients.last() == Some(&0.0) {
            coefficients.pop();
        }
        let result = self.below(self.vector(a), chebyshev::depth(coefficients.len() - 1))?;
        let all: Vec<[f64; 2]> = coefficients.iter().map(|coefficient| [*coefficient, 0.0]).collect();
        self.fits(largest(&all), result.scale * self.prime(result.level + 1), result.level + 1)?;
        Ok(self.push(Action::Chebyshev(a, coefficients), result))
    }

    /// Multiplies by a matrix, whose diagonals have as many numbers as the vector.
    pub(super) fn transform(&mut self, a: ValueId, diagonals: Vec<Diagonal>) -> Result<ValueId, String> {
        let vector = self.vector(a);
        let result = self.below(vector, 1)?;
        for diagonal in &diagonals {
            self.fits(largest(&diagonal.numbers), self.factor_scale(vector, result), vector.level)?;
        }
        self.clear.matrices.push(diagonals);
        Ok(self.push(Action::Transform(a, self.clear.matrices.len() - 1), result))
    }

    /// Bootstraps a vector, with matrices of at most `bytes_max` bytes.
    pub(super) fn bootstrap(
        &mut self,
        a: ValueId,
        bootstrap: BootstrapShape,
        bytes_max: u64,
    ) -> Result<ValueId, String> {
        let vector = self.vector(a);
        bootstrap.check(self.set).map_err(|refusal| refusal.to_string())?;
        let bytes = bootstrap.matrix_bytes(self.set);
        if bytes > bytes_max {
            return Err(format!(
                "its matrices take {bytes} bytes: at most {bytes_max}; with more stages they take fewer"
            ));
        }
        let (level, level_in) = (vector.level, bootstrap.level_in());
        if level < level_in {
            return Err(format!(
                "level {level}: a lossy bootstrap of {level_in} stages takes a vector of level {level_in} or above, and a regular \
                 one of any level"
            ));
        }
        // A bootstrap keeps the scale of its argument. If the argument has a level to spare, that
        // level restores the set's own scale.
        let a = if level > level_in { self.bring(a, level_in, self.scales.own()) } else { a };
        let result = Vector { level: bootstrap.level_out(self.set), ..self.vector(a) };
        Ok(self.push(Action::Bootstrap(a, bootstrap), result))
    }

    /// Bootstraps two vectors of real numbers as the real and imaginary parts of one vector. Adding
    /// or subtracting the conjugate returns each part doubled. If both arguments have a level to
    /// spare, that level halves them beforehand. Otherwise a level of the results halves those.
    pub(super) fn bootstrap_both(
        &mut self,
        parts: [ValueId; 2],
        bootstrap: BootstrapShape,
        bytes_max: u64,
    ) -> Result<[ValueId; 2], String> {
        self.same_slots(&parts)?;
        let level_in = bootstrap.level_in();
        let is_halved = parts.iter().all(|part| self.vector(*part).level > level_in);
        let [real, imaginary] = if is_halved {
            let scale = self.scales.own();
            parts.map(|part| self.halved(part, Vector { level: level_in, scale, ..self.vector(part) }))
        } else {
            parts
        };
        let imaginary = self.times_i(imaginary);
        let merged = self.add(&[real, imaginary])?;
        let merged = self.bootstrap(merged, bootstrap, bytes_max)?;
        let conjugate = self.conjugate(merged);
        let (real, imaginary) = (self.add(&[merged, conjugate])?, self.subtract(conjugate, merged)?);
        let twice = [real, self.times_i(imaginary)];
        if is_halved {
            return Ok(twice);
        }
        let below = self.below(self.vector(real), 1)?;
        Ok(twice.map(|twice| self.halved(twice, below)))
    }

    /// The steps that the outputs need, the outputs, and the clear numbers that these steps name.
    pub(super) fn finish(self, outputs: Vec<ValueId>) -> (Vec<Step>, Vec<Output>, Clear) {
        let Self { values, inputs, steps, clear, .. } = self;
        let mut needed = vec![false; values.len()];
        outputs.iter().for_each(|value| needed[*value] = true);
        for (place, step) in steps.iter().enumerate().rev() {
            if needed[inputs + place] {
                step.action.arguments().for_each(|value| needed[value] = true);
            }
        }
        let mut names: Vec<ValueId> = (0..inputs).collect();
        let mut next = inputs;
        for needed in &needed[inputs..] {
            names.push(next);
            next += usize::from(*needed);
        }
        let mut kept: Vec<Step> =
            steps.into_iter().zip(&needed[inputs..]).filter(|(_, needed)| **needed).map(|(step, _)| step).collect();
        let outputs: Vec<Output> =
            outputs.into_iter().map(|value| Output { value: names[value], vector: values[value] }).collect();
        let mut is_done = vec![false; next];
        outputs.iter().for_each(|output| is_done[output.value] = true);
        for step in kept.iter_mut().rev() {
            step.action.arguments_mut().for_each(|value| *value = names[*value]);
            for value in step.action.arguments() {
                if !std::mem::replace(&mut is_done[value], true) {
                    step.last_uses.push(value);
                }
            }
        }
        let clear = clear.named_by(&mut kept);
        (kept, outputs, clear)
    }

    pub(super) fn same_slots(&self, values: &[ValueId]) -> Result<(), String> {
        let slots = |value: &ValueId| 1_u64 << self.vector(*value).slots_log2;
        let first = slots(&values[0]);
        match values.iter().map(slots).find(|slots| *slots != first) {
            None => Ok(()),
            Some(other) => Err(format!("vectors of {first} and of {other} numbers: all arguments have as many")),
        }
    }

    /// Aligns values to one level and scale, so that they can be added.
    fn of_one_scale(&mut self, values: &[ValueId]) -> Result<Vec<ValueId>, String> {
        self.same_slots(values)?;
        let level = values.iter().map(|value| self.vector(*value).level).min().unwrap_or(0);
        let mut lowest = values.iter().map(|value| self.vector(*value)).filter(|vector| vector.level == level);
        let scale = lowest.next().map_or(self.scales.own(), |vector| vector.scale);
        let (level, scale) = if lowest.all(|vector| is_same(scale, vector.scale)) {
            (level, scale)
        } else if level > 0 {
            (level - 1, self.scales.at(level - 1))
        } else {
            return Err(format!("its arguments have scales that differ: {OUT_OF_LEVELS}"));
        };
        Ok(values.iter().map(|value| self.bring(*value, level, scale)).collect())
    }

    /// Aligns a value to a level and a scale. A value of another scale must have a higher level as
    /// well.
    fn bring(&mut self, value: ValueId, level: usize, scale: f64) -> ValueId {
        let vector = self.vector(value);
        if is_same(vector.scale, scale) && vector.level == level {
            return value;
        }
        let key = (value, level, scale.to_bits());
        if let Some(brought) = self.brought.get(&key) {
            return *brought;
        }
        let brought = if is_same(vector.scale, scale) {
            self.push(Action::Lower(value), Vector { level, ..vector })
        } else {
            self.push(Action::MultiplyNumber(value, 1.0), Vector { level, scale, ..vector })
        };
        self.brought.insert(key, brought);
        brought
    }

    /// Adds a step on two values of one scale.
    fn joined(&mut self, action: Action) -> ValueId {
        let lowest = action.arguments().map(|value| self.vector(value)).min_by_key(|vector| vector.level);
        let vector = lowest.expect("it has arguments");
        self.push(action, vector)
    }

    fn push(&mut self, action: Action, vector: Vector) -> ValueId {
        self.steps.push(Step { action, vector, operation: self.operation, last_uses: Vec::new() });
        self.values.push(vector);
        self.values.len() - 1
    }

    fn times_i(&mut self, a: ValueId) -> ValueId {
        self.push(Action::TimesI(a), self.vector(a))
    }

    fn halved(&mut self, a: ValueId, to: Vector) -> ValueId {
        self.push(Action::MultiplyNumber(a, 0.5), to)
    }

    /// A vector `levels` levels lower, with the scale that values have at that level.
    fn below(&self, vector: Vector, levels: usize) -> Result<Vector, String> {
        let level = vector.level.checked_sub(levels);
        let level = level.ok_or_else(|| match levels {
            1 => OUT_OF_LEVELS.to_owned(),
            _ => format!(
                "it takes {levels} levels, and its argument has {}: a bootstrap before it gives new ones",
                vector.level
            ),
        })?;
        Ok(Vector { level, scale: self.scales.at(level), ..vector })
    }

    /// Scale of clear factors for which the product has the scale of `to`.
    fn factor_scale(&self, from: Vector, to: Vector) -> f64 {
        to.scale * self.prime(from.level) / from.scale
    }

    fn product_scale(&self, a: ValueId, b: ValueId, level: usize) -> f64 {
        self.vector(a).scale * self.vector(b).scale / self.prime(level)
    }

    fn prime(&self, level: usize) -> f64 {
        self.set.chain[level] as f64
    }

    /// The number, if there is only one and it is real.
    fn number(&self, clear: usize) -> Option<f64> {
        match self.clear.vectors[clear][..] {
            [[re, 0.0]] => Some(re),
            _ => None,
        }
    }

    /// Checks that clear numbers suit a vector: one for all slots, or one for each.
    fn as_many(&self, clear: usize, vector: Vector) -> Result<usize, String> {
        match (self.clear.vectors[clear].len(), 1 << vector.slots_log2) {
            (1, _) => Ok(clear),
            (got, expected) if got == expected => Ok(clear),
            (got, expected) => Err(format!("{got} clear numbers: the vector has {expected}")),
        }
    }

    /// Refuses clear numbers of magnitude up to `largest` if, multiplied by the scale, they do not
    /// fit the modulus of the level.
    fn fits(&self, largest: f64, scale: f64, level: usize) -> Result<(), String> {
        let room: f64 = self.set.chain[..=level].iter().map(|prime| (*prime as f64).log2()).sum::<f64>() - 1.0;
        let room = room.min(BITS_MAX) - scale.log2();
        if largest == 0.0 || largest.log2() < room {
            return Ok(());
        }
        Err(format!("a clear number of 2^{:.1}: at this level they are below 2^{room:.1}", largest.log2()))
    }
}

/// The greatest magnitude of the numbers.
fn largest(numbers: &[[f64; 2]]) -> f64 {
    numbers.iter().map(|[re, im]| re.hypot(*im)).fold(0.0, f64::max)
}

/// Largest log2 of numbers times their scale. Encoding refuses coefficients of 120 bits, and no
/// coefficient is greater than the greatest number. The bit between is for the rounding of the
/// transform.
const BITS_MAX: f64 = 119.0;

const OUT_OF_LEVELS: &str = "it takes a level, and its argument has none left: a bootstrap before it gives new ones";
