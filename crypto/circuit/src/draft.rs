//! A graph under construction.
//!
//! A [`Cell`] is a linear combination of what inputs bring and bootstraps return: adding, subtracting and scaling cells
//! costs nothing and makes no node. A [`Draft::lookup`] does. It looks for less to do first: a constant needs no
//! bootstrap, the same lookup is made once, several functions of one combination share a bootstrap where they fit, and
//! a function of a lone result is a function of what that was looked up from. Bits that are mostly added modulo 2 are
//! better kept as [parities](Parity).
//!
//! What a cell can hold and how much noise it bears is known exactly at every point, so that whoever builds can ask
//! whether a combination [fits](Draft::fits) before looking it up. One that does not fit is a bug of the builder's, and
//! ends in a panic that no program of a client may be able to cause: tests hold every operation to that on every set.

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

use cloakwork_params::{Encoding, ParameterSet, table::input_noise_halves};

pub(crate) use self::{
    cell::{Cell, Range},
    parity::Parity,
};
use self::{
    cell::{Source, SourceId},
    table::Function,
};
use crate::{Cost, Goal, Graph, Node, Output, Table, Term, ValueId};

/// Values are counted in halves of a block's step.
const HALVES: i64 = 2;

/// A graph under construction.
pub(crate) struct Draft {
    set: &'static ParameterSet,
    /// Values of a block: half of the torus.
    values: i64,
    noise_max: u64,
    /// What the variance of noisier values counts for, in halves: that of inputs, and of results of the set's companion.
    noisier_halves: u64,
    /// Of what is returned.
    level_max: u64,
    goal: Goal,
    sources: Vec<Source>,
    bootstraps: Vec<Bootstrap>,
    /// For each family, the latest of its bootstraps. A family is all bootstraps of one input: their rotations are the
    /// same, so their noise is related.
    families: Vec<usize>,
    /// The family of each input. The map shares the input with the bootstraps, because inputs of parities are long.
    known: HashMap<Rc<Combination>, FamilyId>,
    /// What each function of a family's input returns. A program can have 100,000 functions of one input, and a search
    /// among them for each new one would take minutes.
    results: HashMap<(FamilyId, Rc<Function>), SourceId>,
}

/// Number of a family.
type FamilyId = usize;

/// What a bootstrap decides on: a combination that starts at 0, whose factors have no common divisor.
#[derive(Clone, PartialEq, Eq)]
struct Combination {
    terms: Vec<(SourceId, i64)>,
    /// In halves.
    constant: i64,
    /// Largest value, in steps.
    span: i64,
}

impl Hash for Combination {
    /// Hashes one word for each term, because hashing takes most of the time of lowering AES otherwise.
    fn hash<H: Hasher>(&self, state: &mut H) {
        #[cfg(test)]
        effort::spend(1 + self.terms.len());
        for (source, factor) in &self.terms {
            state.write_u64((*source as u64) ^ (*factor as u64).rotate_left(32));
        }
        state.write_u64((self.constant as u64) ^ (self.span as u64).rotate_left(32));
    }
}

struct Bootstrap {
    input: Rc<Combination>,
    /// Would it bear its input if everything in it were noisier?
    bears_noisier: bool,
    family: FamilyId,
    functions: Vec<Rc<Function>>,
    /// What each function returns.
    results: Vec<SourceId>,
}

impl Draft {
    /// An empty one for a shortint set.
    pub(crate) fn new(set: &'static ParameterSet, goal: Goal) -> Self {
        let Encoding::Shortint { message_modulus, carry_modulus, max_noise_level } = set.encoding else {
            unreachable!("{} has gates, not blocks", set.name)
        };
        Self {
            set,
            values: (message_modulus * carry_modulus) as i64,
            noise_max: set.squared_noise_max,
            noisier_halves: input_noise_halves(set),
            level_max: max_noise_level,
            goal,
            sources: Vec::new(),
            bootstraps: Vec::new(),
            families: Vec::new(),
            known: HashMap::new(),
            results: HashMap::new(),
        }
    }

    /// The next input of the graph: a block that holds at most `degree`, with a noise level of at most `noise_level`.
    pub(crate) fn input(&mut self, degree: u32, noise_level: u32) -> Cell {
        debug_assert!(self.bootstraps.is_empty(), "inputs come first");
        let range = Range { min: 0, max: HALVES * i64::from(degree) };
        self.sources.push(Source { origin: None, noise: u64::from(noise_level), depth: 0 });
        Cell::of(self.sources.len() - 1, range)
    }

    /// `function(x)`, by a bootstrap at most.
    ///
    /// Over more values than a block has, up to twice as many, there is room for functions whose results at x and half
    /// the torus further add up to a constant: signs and comparisons.
    pub(crate) fn lookup(&mut self, x: &Cell, function: impl Fn(i64) -> i64) -> Cell {
        self.composed(x, &function).unwrap_or_else(|| self.lookup_as_asked(x, function))
    }

    /// The same, not by way of what `x` was looked up from.
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

    /// Does a bootstrap take it, with a table of any kind? It has as many values as a block, and bears its noise.
    pub(crate) fn fits(&self, x: &Cell) -> bool {
        x.span() < self.values && self.bears(&x.terms)
    }

    /// The same over all of the torus, for functions that are symmetric.
    pub(crate) fn fits_symmetric(&self, x: &Cell) -> bool {
        x.span() < 2 * self.values && self.bears(&x.terms)
    }

    /// Is there room for so many more deviations of a bootstrap, however they and what is there depend on each other?
    pub(crate) fn bears_more(&self, x: &Cell, more: u64) -> bool {
        (root(self.noise(&x.terms)) + more).pow(2) <= self.noise_max
    }

    /// Results that one lookup can weigh 1, 2, 4 .., whatever they have to do with each other.
    pub(crate) fn weighable(&self) -> usize {
        (self.noise_max.isqrt() + 1).ilog2() as usize
    }

    /// The same, with no more noise than the set lets a ciphertext have that is handed on.
    pub(crate) fn returned(&mut self, x: Cell) -> Cell {
        if self.noise_level(&x.terms) <= self.level_max { x } else { self.lookup_as_asked(&x, |value| value) }
    }

    /// The same from a bootstrap, if it is an input that counts for more than what a bootstrap returns.
    pub(crate) fn bootstrapped(&mut self, x: &Cell) -> Cell {
        if self.noise(&x.terms) > self.noise_of(x) { self.lookup_as_asked(x, |value| value) } else { x.clone() }
    }

    /// Squared noise, in multiples of a bootstrap's, where inputs count like results.
    pub(crate) fn noise_of(&self, x: &Cell) -> u64 {
        self.variances(&x.terms).iter().sum()
    }

    /// Bootstraps that must come before it.
    pub(crate) fn depth(&self, x: &Cell) -> u32 {
        self.depth_of(&x.terms)
    }

    fn bears(&self, terms: &[(SourceId, i64)]) -> bool {
        self.noise(terms) <= self.noise_max
    }

    /// What it counts for in a lookup: inputs are noisier than results.
    fn noise(&self, terms: &[(SourceId, i64)]) -> u64 {
        let [inputs, results] = self.variances(terms);
        self.noisier(inputs) + results
    }

    /// The same as a noise level, in which all that is handed on counts alike.
    fn noise_level(&self, terms: &[(SourceId, i64)]) -> u64 {
        let [inputs, results] = self.variances(terms);
        root(inputs + results)
    }

    /// What a variance counts for of inputs, or of results of the companion.
    fn noisier(&self, variance: u64) -> u64 {
        (variance * self.noisier_halves).div_ceil(2)
    }

    /// The variances of inputs and of results of bootstraps, each in multiples of its own.
    ///
    /// Results of bootstraps of different inputs are independent, so their variances add up. Results of one family are
    /// not independent, and inputs may be the same ciphertext: here the deviations add up.
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
                Some(bootstrap) => deviations.push((self.bootstraps[*bootstrap].family, deviation)),
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

    /// A function of a lone result, as one of what that was looked up from: no deeper, and maybe by the same bootstrap.
    fn composed(&mut self, x: &Cell, function: impl Fn(i64) -> i64) -> Option<Cell> {
        let range = x.range();
        let [(source, factor)] = x.terms[..] else { return None };
        let origin = self.sources[source].origin?;
        let bootstrap = &self.bootstraps[origin];
        let place = bootstrap.results.iter().position(|result| *result == source)?;
        let at = |index: i64| {
            let value = (bootstrap.functions[place].at(index, self.values) * factor + x.constant) / HALVES;
            (range.min..=range.max).contains(&value).then(|| function(value))
        };
        let composed: Vec<i64> = (0..=bootstrap.input.span).map(at).collect::<Option<_>>()?;
        if composed.iter().all(|result| *result == composed[0]) {
            return Some(Cell::constant(composed[0]));
        }
        let function = Function::new(&composed, self.values)?;
        // Of a wide input each function takes a bootstrap, where those of its result could have shared one.
        let is_cheaper = self.goal == Goal::Depth || 2 * (bootstrap.input.span + 1) <= self.values;
        let family = bootstrap.family;
        is_cheaper.then(|| self.bootstrap_in(family, self.noise_max, function))
    }

    /// A bootstrap of an input that it bears, being able to bear so much noise.
    fn bootstrap(&mut self, input: Combination, noise_max: u64, function: Function) -> Cell {
        let family = match self.known.get(&input) {
            Some(family) => *family,
            None => {
                let (family, input) = (self.families.len(), Rc::new(input));
                self.known.insert(input.clone(), family);
                let first = self.add_bootstrap(input, family, noise_max);
                self.families.push(first);
                family
            }
        };
        self.bootstrap_in(family, noise_max, function)
    }

    /// A further function of an input that has a bootstrap.
    fn bootstrap_in(&mut self, family: FamilyId, noise_max: u64, function: Function) -> Cell {
        let (range, offset) = (function.range, function.offset);
        let key = (family, Rc::new(function));
        if let Some(result) = self.results.get(&key) {
            return Cell::of(*result, range).plus_halves(offset);
        }
        // All bootstraps of a family have room for as many functions, so only the latest can have some left.
        let latest = &self.bootstraps[self.families[family]];
        let input = latest.input.clone();
        let taken = (latest.functions.len() as i64 + 1) * (input.span + 1);
        if !latest.functions.is_empty() && taken > self.values {
            self.families[family] = self.add_bootstrap(input.clone(), family, noise_max);
        }
        let index = self.families[family];
        let depth = 1 + self.depth_of(&input.terms);
        self.sources.push(Source { origin: Some(index), noise: 1, depth });
        let result = self.sources.len() - 1;
        self.bootstraps[index].functions.push(key.1.clone());
        self.bootstraps[index].results.push(result);
        self.results.insert(key, result);
        Cell::of(result, range).plus_halves(offset)
    }

    /// A bootstrap without a function yet.
    fn add_bootstrap(&mut self, input: Rc<Combination>, family: FamilyId, noise_max: u64) -> usize {
        let bears_noisier = self.noisier(self.variances(&input.terms).iter().sum()) <= noise_max;
        let index = self.bootstraps.len();
        self.bootstraps.push(Bootstrap { input, bears_noisier, family, functions: Vec::new(), results: Vec::new() });
        index
    }

    /// What the graph of these cells costs, without building that graph. It panics where [`Self::finish`] does.
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

    /// The graph that computes these cells, and nothing that none of them needs. `blocks` are those of each input.
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
            let terms = terms(&bootstrap.input.terms, &numbers);
            let constant = (bootstrap.input.constant as u64).wrapping_mul(half);
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

    /// The noise level of an output, which whoever takes it as an input relies on.
    fn output_noise_level(&self, cell: &Cell) -> u64 {
        let noise_level = self.noise_level(&cell.terms);
        assert!(noise_level <= self.level_max, "an output of more noise than {} bears", self.set.name);
        noise_level
    }

    /// By source: do all lookups that it is part of bear noisier values? Of what is returned, whoever takes it as an input expects it.
    fn may_be_noisier(&self, needed: &[bool]) -> Vec<bool> {
        let mut may = vec![true; self.sources.len()];
        let is_needed = |bootstrap: &&Bootstrap| bootstrap.results.iter().any(|result| needed[*result]);
        for bootstrap in self.bootstraps.iter().filter(is_needed).filter(|bootstrap| !bootstrap.bears_noisier) {
            bootstrap.input.terms.iter().for_each(|(source, _)| may[*source] = false);
        }
        may
    }

    /// By source: does an output depend on it?
    fn needed<'c>(&self, outputs: impl Iterator<Item = &'c Cell>) -> Vec<bool> {
        let mut needed = vec![false; self.sources.len()];
        for (source, _) in outputs.flat_map(|cell| &cell.terms) {
            needed[*source] = true;
        }
        for bootstrap in self.bootstraps.iter().rev() {
            if bootstrap.results.iter().any(|result| needed[*result]) {
                bootstrap.input.terms.iter().for_each(|(source, _)| needed[*source] = true);
            }
        }
        needed
    }
}

/// The root, rounded up.
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

    /// A lookup of four times a sum of some results and of a sum of as many others: may its results and theirs be noisier?
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
    fn only_what_is_summed_up_with_room_to_spare_may_be_noisier() {
        // Of 51 that the set bears: 34, which are 51 if they count for half as much again, and 51.
        let set = "TOY_MESSAGE_2_CARRY_2_N2048";
        assert_eq!(flags(set, 2), (true, vec![true; 4]));
        assert_eq!(flags(set, 3), (true, vec![false; 6]), "what is returned is an input of others, which expect it");
        assert_eq!(flags("TOY_MESSAGE_2_CARRY_2", 3), (true, vec![true; 6]), "nothing is noisier there");
    }

    #[test]
    fn inputs_count_as_results_of_the_companion_do() {
        for (name, two, three) in [("TOY_MESSAGE_2_CARRY_2_N2048", true, false), ("TOY_MESSAGE_2_CARRY_2", true, true)]
        {
            let set = by_name(name).expect("a set");
            assert_eq!(companion_of(set).is_some(), !three);
            let mut draft = Draft::new(set, Goal::Work);
            let inputs: Vec<Cell> = (0..2).map(|_| draft.input(3, 1)).collect();
            // Deviations of inputs are added up: 25, and 49.
            let sums = [[1, 4], [3, 4]].map(|[left, right]| inputs[0].times(left).plus(&inputs[1].times(right)));
            assert_eq!(sums.each_ref().map(|sum| draft.bears(&sum.terms)), [two, three], "{name}");
            assert_eq!(sums.each_ref().map(|sum| draft.noise_of(sum)), [25, 49]);
            let bootstrapped = draft.bootstrapped(&inputs[0]);
            assert_eq!(bootstrapped == inputs[0], three, "{name}");
        }
    }

    /// One deviation more than the set lets an output have.
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
    fn nor_is_it_priced() {
        let (draft, outputs) = too_noisy();
        draft.cost(&outputs);
    }
}
