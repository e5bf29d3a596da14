//! A graph under construction.
//!
//! A [`Cell`] is a linear combination of inputs and of results of bootstraps. Adding, subtracting
//! and scaling cells is free and creates no node. [`Draft::lookup`] creates a node, unless a
//! cheaper way exists:
//!
//! - A constant needs no bootstrap.
//! - Equal lookups are made once.
//! - Several functions of one combination share a bootstrap if they fit.
//! - A function of a single result becomes a function of the input that the result was looked up
//!   from.
//!
//! Bits that are mostly added modulo 2 are better kept as [parities](Parity).
//!
//! Range and noise of every cell are known exactly. Code that builds a graph can therefore ask
//! whether a combination [fits](Draft::fits) before looking it up. A lookup of a combination that
//! does not fit is a bug in that code, and panics. No program of a client may be able to cause this
//! panic: tests check every operation on every set.

mod cell;
#[cfg(test)]
pub(crate) mod effort;
mod parity;
mod table;

use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
    rc::Rc,
};

use cloakwork_params::{Encoding, ParameterSet, table::input_noise_tenths};

pub(crate) use self::{
    cell::{Cell, Range},
    parity::Parity,
};
use self::{
    cell::{Source, SourceId},
    table::Function,
};
use crate::{Cost, Goal, Graph, Node, Output, Table, Term, ValueId};

/// Number of counting units in a block's plaintext step: values are counted in half steps.
const HALVES: i64 = 2;

/// A graph under construction.
pub(crate) struct Draft {
    set: &'static ParameterSet,
    /// Number of values of a block, which fill half of the torus.
    values: i64,
    noise_max: u64,
    /// Factor, in tenths, for the variance of noisier values: inputs, and results of the set's
    /// companion.
    noisier_tenths: u64,
    /// Largest noise level of an output.
    level_max: u64,
    goal: Goal,
    sources: Vec<Source>,
    bootstraps: Vec<Bootstrap>,
    inputs: Vec<Input>,
    /// The number of each input.
    known: HashMap<Rc<Combination>, InputId>,
    /// The number of families, and the family of each list of terms. Inputs that differ in constant
    /// or span have ciphertexts with the same mask.
    families: HashMap<Rc<[(SourceId, i64)]>, FamilyId>,
    /// The result of each function of an input. A program can have 100,000 functions of one input,
    /// and a linear search among them for each new function would take minutes.
    results: HashMap<(InputId, Rc<Function>), SourceId>,
}

/// Number of an input of bootstraps.
type InputId = usize;

/// Number of a family. A family is all bootstraps of inputs with the same terms. Their rotations
/// differ by a constant, so their noise is correlated.
type FamilyId = usize;

/// An input of bootstraps.
struct Input {
    combination: Rc<Combination>,
    family: FamilyId,
    /// The latest bootstrap of the input.
    latest: usize,
}

/// Input of a bootstrap: a combination that starts at 0, whose factors have no common divisor.
#[derive(Clone, PartialEq, Eq)]
struct Combination {
    terms: Rc<[(SourceId, i64)]>,
    /// In half steps.
    constant: i64,
    /// Largest value, in steps.
    span: i64,
}

impl Hash for Combination {
    /// Hashes one word for each term. Hashing takes most of the time of lowering AES otherwise.
    fn hash<H: Hasher>(&self, state: &mut H) {
        #[cfg(test)]
        effort::spend(1 + self.terms.len());
        for (source, factor) in &*self.terms {
            state.write_u64((*source as u64) ^ (*factor as u64).rotate_left(32));
        }
        state.write_u64((self.constant as u64) ^ (self.span as u64).rotate_left(32));
    }
}

struct Bootstrap {
    input: InputId,
    /// Whether the bootstrap would still bear its input if all values in it were noisier.
    bears_noisier: bool,
    functions: Vec<Rc<Function>>,
    /// The result of each function.
    results: Vec<SourceId>,
}

impl Draft {
    /// An empty draft for a shortint set.
    pub(crate) fn new(set: &'static ParameterSet, goal: Goal) -> Self {
        let Encoding::Shortint { message_modulus, carry_modulus, max_noise_level } = set.encoding else {
            unreachable!("{} has gates, not blocks", set.name)
        };
        Self {
            set,
            values: (message_modulus * carry_modulus) as i64,
            noise_max: set.squared_noise_max,
            noisier_tenths: input_noise_tenths(set),
            level_max: max_noise_level,
            goal,
            sources: Vec::new(),
            bootstraps: Vec::new(),
            inputs: Vec::new(),
            known: HashMap::new(),
            families: HashMap::new(),
            results: HashMap::new(),
        }
    }

    /// The next input of the graph: a block that holds at most `degree`, with a noise level of at
    /// most `noise_level`.
    pub(crate) fn input(&mut self, degree: u32, noise_level: u32) -> Cell {
        debug_assert!(self.bootstraps.is_empty(), "inputs come first");
        let range = Range { min: 0, max: HALVES * i64::from(degree) };
        self.sources.push(Source { origin: None, noise: u64::from(noise_level), depth: 0 });
        Cell::of(self.sources.len() - 1, range)
    }

    /// `function(x)`, with at most one bootstrap.
    ///
    /// x may have more values than a block, up to twice as many. Its function must then be
    /// symmetric: the results at x and half the torus further add up to a constant. Signs and
    /// comparisons are symmetric.
    pub(crate) fn lookup(&mut self, x: &Cell, function: impl Fn(i64) -> i64) -> Cell {
        self.composed(x, &function).unwrap_or_else(|| self.lookup_as_asked(x, function))
    }

    /// Like [`Self::lookup`], but always looks up `x` itself, and never the input that `x` was
    /// looked up from.
    pub(crate) fn lookup_as_asked(&mut self, x: &Cell, function: impl Fn(i64) -> i64) -> Cell {
        let (least, step) = (x.range().min, x.divisor());
        let results: Vec<i64> = (0..=x.span()).map(|index| function(least + index * step)).collect();
        if results.iter().all(|result| *result == results[0]) {
            return Cell::constant(results[0]);
        }
        let input = x.combination();
        assert!(self.bears(&input.terms), "a lookup of more noise than {} bears", self.set.name);
        let function = Function::new(&results, self.values).expect("a lookup that fits the torus");
        self.bootstrap(input, self.noise_max, function)
    }

    /// Whether a bootstrap can take `x` with any table: `x` has at most as many values as a block,
    /// and the bootstrap bears its noise.
    pub(crate) fn fits(&self, x: &Cell) -> bool {
        x.span() < self.values && self.bears(&x.terms)
    }

    /// Like [`Self::fits`], over the whole torus, for functions that are symmetric.
    pub(crate) fn fits_symmetric(&self, x: &Cell) -> bool {
        x.span() < 2 * self.values && self.bears(&x.terms)
    }

    /// Whether the noise of `x` leaves room for `more` deviations of a bootstrap. The two noises
    /// may depend on each other in any way.
    pub(crate) fn bears_more(&self, x: &Cell, more: u64) -> bool {
        (root(self.noise(&x.terms)) + more).pow(2) <= self.noise_max
    }

    /// Number of results that one lookup can take with the weights 1, 2, 4 and so on. The noises of
    /// the results may depend on each other in any way.
    pub(crate) fn weighable(&self) -> usize {
        (self.noise_max.isqrt() + 1).ilog2() as usize
    }

    /// `x`, bootstrapped if it has more noise than the set allows for outputs.
    pub(crate) fn returned(&mut self, x: Cell) -> Cell {
        if self.noise_level(&x.terms) <= self.level_max { x } else { self.lookup_as_asked(&x, |value| value) }
    }

    /// `x`, bootstrapped if it is an input that counts as noisier than a bootstrap's result.
    pub(crate) fn bootstrapped(&mut self, x: &Cell) -> Cell {
        if self.noise(&x.terms) > self.noise_of(x) { self.lookup_as_asked(x, |value| value) } else { x.clone() }
    }

    /// Squared noise, in multiples of a bootstrap's variance, with inputs counted like results.
    pub(crate) fn noise_of(&self, x: &Cell) -> u64 {
        self.variances(&x.terms).iter().sum()
    }

    /// Length of the longest chain of bootstraps that `x` depends on.
    pub(crate) fn depth(&self, x: &Cell) -> u32 {
        self.depth_of(&x.terms)
    }

    fn bears(&self, terms: &[(SourceId, i64)]) -> bool {
        self.noise(terms) <= self.noise_max
    }

    /// Squared noise in a lookup, where inputs count as noisier than results.
    fn noise(&self, terms: &[(SourceId, i64)]) -> u64 {
        let [inputs, results] = self.variances(terms);
        self.noisier(inputs) + results
    }

    /// Noise level of an output, where inputs count like results.
    fn noise_level(&self, terms: &[(SourceId, i64)]) -> u64 {
        let [inputs, results] = self.variances(terms);
        root(inputs + results)
    }

    /// Counted variance of inputs or of results of the companion.
    fn noisier(&self, variance: u64) -> u64 {
        (variance * self.noisier_tenths).div_ceil(10)
    }

    /// The variances of inputs and of results of bootstraps, each in multiples of its own unit.
    ///
    /// Results of different families are independent, so their variances add up. Results of one
    /// family are correlated, and two inputs of the graph may be the same ciphertext. In these
    /// cases the deviations add up.
    fn variances(&self, terms: &[(SourceId, i64)]) -> [u64; 2] {
        #[cfg(test)]
        effort::spend(1 + terms.len());
        if let [(source, factor)] = terms {
            let Source { origin, noise, .. } = &self.sources[*source];
            let variance = (factor.unsigned_abs() * noise).pow(2);
            return if origin.is_some() { [0, variance] } else { [variance, 0] };
        }
        let mut inputs = 0;
        let mut deviations: Vec<(FamilyId, u64)> = Vec::with_capacity(terms.len());
        for (source, factor) in terms {
            let Source { origin, noise, .. } = &self.sources[*source];
            let deviation = factor.unsigned_abs() * noise;
            match origin {
                Some(bootstrap) => deviations.push((self.input_of(*bootstrap).family, deviation)),
                None => inputs += deviation,
            }
        }
        deviations.sort_unstable();
        let families = deviations.chunk_by(|(one, _), (other, _)| one == other);
        let results = families.map(|family| family.iter().map(|(_, deviation)| deviation).sum::<u64>().pow(2)).sum();
        [inputs * inputs, results]
    }

    fn depth_of(&self, terms: &[(SourceId, i64)]) -> u32 {
        #[cfg(test)]
        effort::spend(1 + terms.len());
        terms.iter().map(|(source, _)| self.sources[*source].depth).max().unwrap_or(0)
    }

    /// Expresses a function of a single result as a function of what the result was looked up from.
    /// The new lookup is no deeper, and may share the bootstrap.
    fn composed(&mut self, x: &Cell, function: impl Fn(i64) -> i64) -> Option<Cell> {
        let range = x.range();
        let [(source, factor)] = x.terms[..] else { return None };
        let origin = self.sources[source].origin?;
        let (bootstrap, span) = (&self.bootstraps[origin], self.input_of(origin).combination.span);
        let place = bootstrap.results.iter().position(|result| *result == source)?;
        let at = |index: i64| {
            let value = (bootstrap.functions[place].at(index, self.values) * factor + x.constant) / HALVES;
            (range.min..=range.max).contains(&value).then(|| function(value))
        };
        let composed: Vec<i64> = (0..=span).map(at).collect::<Option<_>>()?;
        if composed.iter().all(|result| *result == composed[0]) {
            return Some(Cell::constant(composed[0]));
        }
        let function = Function::new(&composed, self.values)?;
        // Each function of a wide input takes its own bootstrap, while functions of the result
        // could share one.
        let is_cheaper = self.goal == Goal::Depth || 2 * (span + 1) <= self.values;
        let input = bootstrap.input;
        is_cheaper.then(|| self.bootstrap_of(input, self.noise_max, function))
    }

    /// Looks up a function of an input. `noise_max` is the squared noise that the bootstrap bears,
    /// and the caller has checked the input against it.
    fn bootstrap(&mut self, combination: Combination, noise_max: u64, function: Function) -> Cell {
        let input = match self.known.get(&combination) {
            Some(input) => *input,
            None => {
                let (input, next_family) = (self.inputs.len(), self.families.len());
                let family = *self.families.entry(combination.terms.clone()).or_insert(next_family);
                let combination = Rc::new(combination);
                self.known.insert(combination.clone(), input);
                self.inputs.push(Input { combination, family, latest: self.bootstraps.len() });
                self.add_bootstrap(input, noise_max);
                input
            }
        };
        self.bootstrap_of(input, noise_max, function)
    }

    /// Looks up a function of an input that has bootstraps already.
    fn bootstrap_of(&mut self, input: InputId, noise_max: u64, function: Function) -> Cell {
        let (range, offset) = (function.range, function.offset);
        let key = (input, Rc::new(function));
        if let Some(result) = self.results.get(&key) {
            return Cell::of(*result, range).plus_halves(offset);
        }
        // All bootstraps of an input have room for equally many functions, so only the latest one
        // can have room left.
        let combination = self.inputs[input].combination.clone();
        let latest = &self.bootstraps[self.inputs[input].latest];
        let taken = (latest.functions.len() as i64 + 1) * (combination.span + 1);
        if !latest.functions.is_empty() && taken > self.values {
            self.add_bootstrap(input, noise_max);
        }
        let index = self.inputs[input].latest;
        let depth = 1 + self.depth_of(&combination.terms);
        self.sources.push(Source { origin: Some(index), noise: 1, depth });
        let result = self.sources.len() - 1;
        self.bootstraps[index].functions.push(key.1.clone());
        self.bootstraps[index].results.push(result);
        self.results.insert(key, result);
        Cell::of(result, range).plus_halves(offset)
    }

    /// Adds a bootstrap of an input. The bootstrap has no function yet.
    fn add_bootstrap(&mut self, input: InputId, noise_max: u64) {
        let terms = &self.inputs[input].combination.terms;
        let bears_noisier = self.noisier(self.variances(terms).iter().sum()) <= noise_max;
        self.inputs[input].latest = self.bootstraps.len();
        self.bootstraps.push(Bootstrap { input, bears_noisier, functions: Vec::new(), results: Vec::new() });
    }

    fn input_of(&self, bootstrap: usize) -> &Input {
        &self.inputs[self.bootstraps[bootstrap].input]
    }

    /// Cost of the graph that returns these cells, without building the graph. Panics where
    /// [`Self::finish`] does.
    pub(crate) fn cost(&self, outputs: &[Vec<Cell>]) -> Cost {
        for cell in outputs.iter().flatten() {
            self.output_noise_level(cell);
        }
        let needed = self.needed(outputs.iter().flatten());
        let is_needed = |bootstrap: &&Bootstrap| bootstrap.results.iter().any(|result| needed[*result]);
        let pbs_count = self.bootstraps.iter().filter(is_needed).count() as u64;
        let depth = outputs.iter().flatten().map(|cell| self.depth(cell)).max().unwrap_or(0);
        Cost { pbs_count, depth }
    }

    /// The graph that computes these cells, without nodes that no output needs. `blocks` holds the
    /// number of blocks of each input.
    pub(crate) fn finish(self, blocks: Vec<usize>, outputs: &[Vec<Cell>]) -> Graph {
        let needed = self.needed(outputs.iter().flatten());
        let may_be_noisier = self.may_be_noisier(&needed);
        let inputs = self.sources.iter().take_while(|source| source.origin.is_none()).count();
        let mut graph =
            Graph { set: self.set, inputs: blocks, tables: Vec::new(), nodes: Vec::new(), outputs: Vec::new() };
        let mut numbers: Vec<Option<ValueId>> = (0..self.sources.len()).map(|id| (id < inputs).then_some(id)).collect();
        let (mut next, mut tables) = (inputs, HashMap::new());
        let half = self.set.plaintext_step() / HALVES as u64;
        for bootstrap in &self.bootstraps {
            let results = bootstrap.results.iter().zip(&bootstrap.functions);
            let wanted: Vec<_> = results.filter(|(result, _)| needed[**result]).collect();
            if wanted.is_empty() {
                continue;
            }
            let table = Table::functions(wanted.iter().map(|(_, function)| &function.entries[..]), self.values);
            let table = *tables.entry(table).or_insert_with_key(|table| {
                graph.tables.push(table.clone());
                graph.tables.len() - 1
            });
            let Combination { terms: of_input, constant, .. } = &*self.inputs[bootstrap.input].combination;
            let terms = terms(of_input, &numbers);
            let constant = (*constant as u64).wrapping_mul(half);
            let may_be_noisier = bootstrap.results.iter().all(|result| may_be_noisier[*result]);
            graph.nodes.push(Node { terms, constant, table: Some(table), first_value: next, may_be_noisier });
            for (result, _) in wanted {
                numbers[*result] = Some(next);
                next += 1;
            }
        }
        let mut output = |cell: &Cell| {
            let value = match cell.terms[..] {
                [(source, 1)] if cell.constant == 0 => numbers[source].expect("a value that is needed"),
                _ => {
                    let terms = terms(&cell.terms, &numbers);
                    let constant = (cell.constant as u64).wrapping_mul(half);
                    graph.nodes.push(Node { terms, constant, table: None, first_value: next, may_be_noisier: true });
                    next += 1;
                    next - 1
                }
            };
            let noise_level = self.output_noise_level(cell);
            Output { value, degree: cell.range().max as u32, noise_level: noise_level as u32 }
        };
        graph.outputs = outputs.iter().map(|cells| cells.iter().map(&mut output).collect()).collect();
        graph
    }

    /// The noise level of an output. Programs that take the output as an input rely on it.
    fn output_noise_level(&self, cell: &Cell) -> u64 {
        let noise_level = self.noise_level(&cell.terms);
        assert!(noise_level <= self.level_max, "an output of more noise than {} bears", self.set.name);
        noise_level
    }

    /// For each source: whether all lookups that contain it bear noisier values. Outputs are always
    /// allowed to be noisier, because a program that takes one as an input counts inputs as
    /// noisier.
    fn may_be_noisier(&self, needed: &[bool]) -> Vec<bool> {
        let mut may = vec![true; self.sources.len()];
        let is_needed = |bootstrap: &&Bootstrap| bootstrap.results.iter().any(|result| needed[*result]);
        for bootstrap in self.bootstraps.iter().filter(is_needed).filter(|bootstrap| !bootstrap.bears_noisier) {
            self.inputs[bootstrap.input].combination.terms.iter().for_each(|(source, _)| may[*source] = false);
        }
        may
    }

    /// For each source: whether an output depends on it.
    fn needed<'c>(&self, outputs: impl Iterator<Item = &'c Cell>) -> Vec<bool> {
        let mut needed = vec![false; self.sources.len()];
        for (source, _) in outputs.flat_map(|cell| &cell.terms) {
            needed[*source] = true;
        }
        for bootstrap in self.bootstraps.iter().rev() {
            if bootstrap.results.iter().any(|result| needed[*result]) {
                let terms = &self.inputs[bootstrap.input].combination.terms;
                terms.iter().for_each(|(source, _)| needed[*source] = true);
            }
        }
        needed
    }
}

/// The square root, rounded up.
fn root(variance: u64) -> u64 {
    variance.isqrt() + u64::from(variance.isqrt().pow(2) < variance)
}

fn terms(terms: &[(SourceId, i64)], numbers: &[Option<ValueId>]) -> Vec<Term> {
    let term = |(source, factor): &(SourceId, i64)| Term {
        value: numbers[*source].expect("a value that is needed"),
        factor: *factor,
    };
    terms.iter().map(term).collect()
}

#[cfg(test)]
mod tests {
    use cloakwork_params::table::{by_name, companion_of};

    use super::*;

    /// The flags `may_be_noisier` of a last lookup, and of the results that it looks up. The last
    /// lookup takes a sum of half of the results plus four times the sum of the other half.
    fn flags(set: &str, results: usize) -> (bool, Vec<bool>) {
        let mut draft = Draft::new(by_name(set).expect("a set"), Goal::Work);
        let inputs: Vec<Cell> = (0..2 * results).map(|_| draft.input(1, 1)).collect();
        let looked_up: Vec<Cell> = inputs.iter().map(|input| draft.lookup_as_asked(input, |bit| 1 - bit)).collect();
        let (low, high) = looked_up.split_at(results);
        let sum = Cell::sum(low).plus(&Cell::sum(high).times(4));
        let last = draft.lookup_as_asked(&sum, |value| value % 2);
        let graph = draft.finish(vec![1; 2 * results], &[vec![last]]);
        let mut flags: Vec<bool> = graph.nodes.iter().map(|node| node.may_be_noisier).collect();
        (flags.pop().expect("the last lookup"), flags)
    }

    #[test]
    fn only_results_whose_lookups_have_noise_to_spare_may_be_noisier() {
        // The set bears 51. One and one result have 17, which is 28 with a factor of 1.6. Two and
        // two results have 34, which is 55 with the factor.
        let set = "TOY_MESSAGE_2_CARRY_2_N2048";
        assert_eq!(flags(set, 1), (true, vec![true; 2]));
        assert_eq!(flags(set, 2), (true, vec![false; 4]), "programs that take the output as an input expect its noise");
        assert_eq!(flags("TOY_MESSAGE_2_CARRY_2", 3), (true, vec![true; 6]), "nothing is noisier there");
    }

    #[test]
    fn inputs_count_like_results_of_the_companion() {
        for (name, two, three) in [("TOY_MESSAGE_2_CARRY_2_N2048", true, false), ("TOY_MESSAGE_2_CARRY_2", true, true)]
        {
            let set = by_name(name).expect("a set");
            assert_eq!(companion_of(set).is_some(), !three);
            let mut draft = Draft::new(set, Goal::Work);
            let inputs: Vec<Cell> = (0..2).map(|_| draft.input(3, 1)).collect();
            // Deviations of inputs add up: (1 + 4)^2 is 25, and (3 + 4)^2 is 49.
            let sums = [[1, 4], [3, 4]].map(|[left, right]| inputs[0].times(left).plus(&inputs[1].times(right)));
            assert_eq!(sums.each_ref().map(|sum| draft.bears(&sum.terms)), [two, three], "{name}");
            assert_eq!(sums.each_ref().map(|sum| draft.noise_of(sum)), [25, 49]);
            let bootstrapped = draft.bootstrapped(&inputs[0]);
            assert_eq!(bootstrapped == inputs[0], three, "{name}");
        }
    }

    /// Inputs with the same terms have the same mask, so the deviations of their results add up.
    /// The tables of two inputs may even be equal up to a rotation, and then the ciphertexts are
    /// equal.
    #[test]
    fn lookups_of_the_same_terms_are_correlated_whatever_their_ranges_and_constants() {
        let mut draft = Draft::new(by_name("TOY_MESSAGE_2_CARRY_2").expect("a set"), Goal::Work);
        let inputs: Vec<Cell> = (0..3).map(|_| draft.input(1, 1)).collect();
        let sum = Cell::sum(&inputs);
        let narrow = sum.clone().within(0, 2);
        let raised = sum.clone().within(1, 3);
        let results: Vec<Cell> =
            [&sum, &narrow, &raised].map(|cell| draft.lookup_as_asked(cell, |value| value / 2)).into();
        assert_eq!(draft.bootstraps.len(), 3, "the inputs differ");
        assert_eq!(draft.noise_of(&Cell::sum(&results)), 9);
        let other = draft.lookup_as_asked(&inputs[0].plus(&inputs[1]), |value| value / 2);
        assert_eq!(draft.noise_of(&results[0].plus(&other)), 2, "other terms have another mask");
    }

    /// An output with one deviation more than the set allows.
    fn too_noisy() -> (Draft, Vec<Vec<Cell>>) {
        let mut draft = Draft::new(by_name("TOY_MESSAGE_2_CARRY_2").expect("a set"), Goal::Work);
        let input = draft.input(1, 1);
        let result = draft.lookup_as_asked(&input, |bit| 1 - bit);
        let factor = draft.level_max as i64 + 1;
        (draft, vec![vec![result.times(factor)]])
    }

    #[test]
    #[should_panic(expected = "an output of more noise")]
    fn a_graph_whose_output_is_too_noisy_is_not_built() {
        let (draft, outputs) = too_noisy();
        draft.finish(vec![1], &outputs);
    }

    #[test]
    #[should_panic(expected = "an output of more noise")]
    fn a_graph_whose_output_is_too_noisy_has_no_cost() {
        let (draft, outputs) = too_noisy();
        draft.cost(&outputs);
    }
}
