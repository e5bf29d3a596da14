//! Bits that are encoded as halves of the torus.

#[cfg(test)]
use super::effort;
use super::{Cell, Combination, Draft, HALVES, cell::SourceId, table::Function};

/// A bit, encoded as half of the torus or as 0. Exclusive ors of parities are sums, and take no
/// bootstrap.
///
/// A lookup of a parity distinguishes only two values, the bit and its opposite, and therefore
/// bears the noise of thousands of parities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parity {
    /// Sources in ascending order, without duplicates, each with an offset to be added, in half
    /// steps.
    sources: Vec<(SourceId, i64)>,
    /// Constant to be added to the sources and their offsets, in half steps.
    constant: i64,
}

impl Parity {
    /// The exclusive or of two bits.
    pub(crate) fn xor(&self, other: &Self) -> Self {
        #[cfg(test)]
        effort::spend(1 + self.sources.len() + other.sources.len());
        let mut sources = Vec::with_capacity(self.sources.len() + other.sources.len());
        let mut constant = self.constant + other.constant;
        let (mut left, mut right) = (self.sources.iter().peekable(), other.sources.iter().peekable());
        while let (Some(&&one), Some(&&two)) = (left.peek(), right.peek()) {
            if one.0 == two.0 {
                // The sum of a source and its offset is a multiple of half the torus, so twice the
                // sum is 0. Only the difference of the two offsets remains.
                constant += two.1 - one.1;
            } else {
                sources.push(if one.0 < two.0 { one } else { two });
            }
            if one.0 <= two.0 {
                left.next();
            }
            if two.0 <= one.0 {
                right.next();
            }
        }
        sources.extend(left.chain(right));
        Self { sources, constant }
    }

    /// The bit, or its opposite if `if_set` is true.
    pub(crate) fn flipped(mut self, draft: &Draft, if_set: bool) -> Self {
        self.constant += if if_set { HALVES * draft.values } else { 0 };
        self
    }
}

impl Draft {
    /// `function(x)` as a parity, with at most one bootstrap.
    pub(crate) fn parity(&mut self, x: &Cell, function: impl Fn(i64) -> bool) -> Parity {
        let half = self.values;
        let result = self.lookup(x, |x| if function(x) { half } else { 0 });
        let sources = result.terms.iter().map(|&(source, _)| (source, result.constant));
        let sources: Vec<_> = sources.collect();
        let constant = if sources.is_empty() { result.constant } else { 0 };
        Parity { sources, constant }
    }

    /// `if_set` if the bit is set, otherwise `if_not`, with at most one bootstrap.
    pub(crate) fn of_parity(&mut self, bit: &Parity, if_not: i64, if_set: i64) -> Cell {
        #[cfg(test)]
        effort::spend(1 + bit.sources.len());
        let turn = 2 * HALVES * self.values;
        let constant = bit.sources.iter().fold(bit.constant, |sum, (_, offset)| sum + offset).rem_euclid(turn);
        if bit.sources.is_empty() {
            return Cell::constant(if constant == 0 { if_not } else { if_set });
        }
        let terms: Vec<(SourceId, i64)> = bit.sources.iter().map(|(source, _)| (*source, 1)).collect();
        // Opposite bits are half of the torus apart instead of one step, which is `values` times as
        // far. The squared noise may therefore be `values` squared times the usual bound.
        let noise_max = self.noise_max * (self.values * self.values) as u64;
        assert!(self.noise(&terms) <= noise_max, "a parity of more noise than {} bears", self.set.name);
        let half = self.values as usize;
        let results: Vec<i64> = (0..2 * half).map(|place| if place < half { if_not } else { if_set }).collect();
        let function = Function::new(&results, self.values).expect("both halves differ by as much everywhere");
        // Places the bit in the middle of its half of the torus, as far from both ends as possible.
        // Otherwise noise could move the bit across an end.
        let constant = (constant + HALVES * self.values / 2) % turn;
        self.bootstrap(Combination { terms: terms.into(), constant, span: 2 * self.values - 1 }, noise_max, function)
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_params::table::by_name;
    use proptest::prelude::*;

    use super::*;
    use crate::Goal;

    proptest! {
        /// An exclusive or of bits of three digits has the expected value, and so has an exclusive
        /// or of such sums. Each takes one lookup.
        #[test]
        fn an_exclusive_or_of_parities_is_a_sum(
            digits in any::<[u8; 3]>(),
            functions in prop::collection::vec((0..3_usize, any::<u16>()), 1..12),
            flip: bool,
            results in any::<[i8; 2]>(),
        ) {
            let set = by_name("TOY_MESSAGE_2_CARRY_2").expect("a set");
            let [if_not, if_set] = results.map(|result| i64::from(result.rem_euclid(4)));
            for goal in [Goal::Work, Goal::Depth] {
                let mut draft = Draft::new(set, goal);
                let inputs: Vec<Cell> = (0..3).map(|_| draft.input(15, 1)).collect();
                let mut sum = Parity::default().flipped(&draft, flip);
                let mut expected = flip;
                for &(input, table) in &functions {
                    let bit = |x: i64| table >> (x % 16) & 1 == 1;
                    sum = sum.xor(&draft.parity(&inputs[input], bit));
                    expected ^= bit(i64::from(digits[input] % 16));
                }
                let twice = sum.xor(&sum);
                prop_assert!(twice.sources.is_empty());
                let cells = [draft.of_parity(&sum, if_not, if_set), draft.of_parity(&twice, 1, 3)];
                let graph = draft.finish(vec![1; 3], &[cells.to_vec()]);
                prop_assert!(graph.pbs_count() <= functions.len() as u64 + 1);
                let step = set.plaintext_step();
                let outputs = graph.evaluate(&digits.map(|digit| u64::from(digit % 16) * step)).expect("it runs");
                prop_assert_eq!(outputs, vec![(if expected { if_set } else { if_not }) as u64 * step, step]);
            }
        }
    }
}
