//! Bits that have half of the torus for themselves.

#[cfg(test)]
use super::effort;
use super::{Cell, Combination, Draft, HALVES, cell::SourceId, table::Function};

/// A bit, as half of the torus or nothing: exclusive ors of such bits are sums, and cost no bootstrap.
///
/// A lookup of one has no neighbours to tell apart but itself and its opposite, and bears the noise of thousands of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parity {
    /// In the order of sources, none twice: with each, in halves, what has to be added to it.
    sources: Vec<(SourceId, i64)>,
    /// In halves, on top of all that.
    constant: i64,
}

impl Parity {
    /// The bit or another one, and not both.
    pub(crate) fn xor(&self, other: &Self) -> Self {
        #[cfg(test)]
        effort::spend(1 + self.sources.len() + other.sources.len());
        let mut sources = Vec::with_capacity(self.sources.len() + other.sources.len());
        let mut constant = self.constant + other.constant;
        let (mut left, mut right) = (self.sources.iter().peekable(), other.sources.iter().peekable());
        while let (Some(&&one), Some(&&two)) = (left.peek(), right.peek()) {
            if one.0 == two.0 {
                // Twice half of the torus is nothing; so is twice one of both and what has to be added to it.
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

    /// The bit as it is, or its opposite.
    pub(crate) fn flipped(mut self, draft: &Draft, if_set: bool) -> Self {
        self.constant += if if_set { HALVES * draft.values } else { 0 };
        self
    }
}

impl Draft {
    /// `function(x)` as a parity, by a bootstrap at most.
    pub(crate) fn parity(&mut self, x: &Cell, function: impl Fn(i64) -> bool) -> Parity {
        let half = self.values;
        let result = self.lookup(x, |x| if function(x) { half } else { 0 });
        let sources = result.terms.iter().map(|&(source, _)| (source, result.constant));
        let sources: Vec<_> = sources.collect();
        let constant = if sources.is_empty() { result.constant } else { 0 };
        Parity { sources, constant }
    }

    /// `if_not` or `if_set`, as the bit says, by a bootstrap at most.
    pub(crate) fn of_parity(&mut self, bit: &Parity, if_not: i64, if_set: i64) -> Cell {
        #[cfg(test)]
        effort::spend(1 + bit.sources.len());
        let turn = 2 * HALVES * self.values;
        let constant = bit.sources.iter().fold(bit.constant, |sum, (_, offset)| sum + offset).rem_euclid(turn);
        if bit.sources.is_empty() {
            return Cell::constant(if constant == 0 { if_not } else { if_set });
        }
        let terms: Vec<(SourceId, i64)> = bit.sources.iter().map(|(source, _)| (*source, 1)).collect();
        // Opposite bits are half of the torus apart, not one step: noise may be as many times what a lookup bears.
        let noise_max = self.noise_max * (self.values * self.values) as u64;
        assert!(self.noise(&terms) <= noise_max, "a parity of more noise than {} bears", self.set.name);
        let half = self.values as usize;
        let results: Vec<i64> = (0..2 * half).map(|place| if place < half { if_not } else { if_set }).collect();
        let function = Function::new(&results, self.values).expect("both halves differ by as much everywhere");
        // In the middle of its half, so that noise moves it to neither end.
        let constant = (constant + HALVES * self.values / 2) % turn;
        self.bootstrap(Combination { terms, constant, span: 2 * self.values - 1 }, noise_max, function)
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_params::table::by_name;
    use proptest::prelude::*;

    use super::*;
    use crate::Goal;

    proptest! {
        /// Any exclusive or of bits of three digits, and of such, is what it says, and looked up once.
        #[test]
        fn parities_are_sums(
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
