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
mod parity;
mod table;

use std::collections::HashMap;

use cloakwork_params::{Encoding, ParameterSet};

pub(crate) use self::{
    cell::{Cell, Range},
    parity::Parity,
};
use self::{
    cell::{Source, SourceId},
    table::Function,
};
use crate::{Goal, Graph, Node, Output, Table, Term, ValueId};

/// Values are counted in halves of a block's step.
const HALVES: i64 = 2;

/// A graph under construction.
pub(crate) struct Draft {
    set: &'static ParameterSet,
    /// Values of a block: half of the torus.
    values: i64,
    noise_max: u64,
    /// Of what is returned.
    level_max: u64,
    goal: Goal,
    sources: Vec<Source>,
    bootstraps: Vec<Bootstrap>,
    /// Bootstraps of each combination.
    known: HashMap<Combination, Vec<usize>>,
}

/// What a bootstrap decides on: a combination that starts at 0, whose factors have no common divisor.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Combination {
    terms: Vec<(SourceId, i64)>,
    /// In halves.
    constant: i64,
    /// Largest value, in steps.
    span: i64,
}

struct Bootstrap {
    input: Combination,
    /// The first bootstrap of the same input. Their rotations are the same, and their noise is therefore related.
    family: usize,
    functions: Vec<Function>,
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
            level_max: max_noise_level,
            goal,
            sources: Vec::new(),
            bootstraps: Vec::new(),
            known: HashMap::new(),
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
        self.bootstrap(input, function)
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
        (self.noise_level(&x.terms) + more).pow(2) <= self.noise_max
    }

    /// Results that one lookup can weigh 1, 2, 4 .., whatever they have to do with each other.
    pub(crate) fn weighable(&self) -> usize {
        (self.noise_max.isqrt() + 1).ilog2() as usize
    }

    /// The same, with no more noise than the set lets a ciphertext have that is handed on.
    pub(crate) fn returned(&mut self, x: Cell) -> Cell {
        if self.noise_level(&x.terms) <= self.level_max { x } else { self.lookup_as_asked(&x, |value| value) }
    }

    /// Squared noise, in multiples of a bootstrap's.
    pub(crate) fn noise_of(&self, x: &Cell) -> u64 {
        self.noise(&x.terms)
    }

    /// Bootstraps that must come before it.
    pub(crate) fn depth(&self, x: &Cell) -> u32 {
        self.depth_of(&x.terms)
    }

    fn bears(&self, terms: &[(SourceId, i64)]) -> bool {
        self.noise(terms) <= self.noise_max
    }

    /// Results of bootstraps of different inputs are independent. Those of one input are not, and inputs may be the same
    /// ciphertext: their deviations are added up.
    fn noise(&self, terms: &[(SourceId, i64)]) -> u64 {
        let mut deviations: HashMap<Option<usize>, u64> = HashMap::new();
        for (source, factor) in terms {
            let Source { origin, noise, .. } = &self.sources[*source];
            let family = origin.map(|bootstrap| self.bootstraps[bootstrap].family);
            *deviations.entry(family).or_default() += factor.unsigned_abs() * noise;
        }
        deviations.values().map(|deviation| deviation * deviation).sum()
    }

    /// The same as a deviation, rounded up: a noise level.
    fn noise_level(&self, terms: &[(SourceId, i64)]) -> u64 {
        let noise = self.noise(terms);
        noise.isqrt() + u64::from(noise.isqrt().pow(2) < noise)
    }

    fn depth_of(&self, terms: &[(SourceId, i64)]) -> u32 {
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
        let input = bootstrap.input.clone();
        // Of a wide input each function takes a bootstrap, where those of its result could have shared one.
        let is_cheaper = self.goal == Goal::Depth || 2 * (input.span + 1) <= self.values;
        is_cheaper.then(|| self.bootstrap(input, function))
    }

    fn bootstrap(&mut self, input: Combination, function: Function) -> Cell {
        let (range, offset) = (function.range, function.offset);
        let known = self.known.entry(input.clone()).or_default();
        for &index in known.iter() {
            let bootstrap = &mut self.bootstraps[index];
            if let Some(place) = bootstrap.functions.iter().position(|known| *known == function) {
                return Cell::of(bootstrap.results[place], range).plus_halves(offset);
            }
        }
        let room = |bootstrap: &Bootstrap| (bootstrap.functions.len() as i64 + 1) * (input.span + 1) <= self.values;
        let shared = known.iter().copied().find(|&index| room(&self.bootstraps[index]));
        let index = shared.unwrap_or_else(|| {
            known.push(self.bootstraps.len());
            let (functions, results) = (Vec::new(), Vec::new());
            self.bootstraps.push(Bootstrap { input: input.clone(), family: known[0], functions, results });
            self.bootstraps.len() - 1
        });
        let depth = 1 + self.depth_of(&input.terms);
        self.sources.push(Source { origin: Some(index), noise: 1, depth });
        let result = self.sources.len() - 1;
        self.bootstraps[index].functions.push(function);
        self.bootstraps[index].results.push(result);
        Cell::of(result, range).plus_halves(offset)
    }

    /// The graph that computes these cells, and nothing that none of them needs. `blocks` are those of each input.
    pub(crate) fn finish(self, blocks: Vec<usize>, outputs: &[Vec<Cell>]) -> Graph {
        let needed = self.needed(outputs.iter().flatten());
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
            graph.nodes.push(Node { terms, constant, table: Some(table), first_value: next });
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
                    graph.nodes.push(Node { terms, constant, table: None, first_value: next });
                    next += 1;
                    next - 1
                }
            };
            let noise_level = self.noise_level(&cell.terms);
            assert!(noise_level <= self.level_max, "an output of more noise than {} bears", self.set.name);
            Output { value, degree: cell.range().max as u32, noise_level: noise_level as u32 }
        };
        graph.outputs = outputs.iter().map(|cells| cells.iter().map(&mut output).collect()).collect();
        graph
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

fn terms(terms: &[(SourceId, i64)], numbers: &[Option<ValueId>]) -> Vec<Term> {
    let term = |(source, factor): &(SourceId, i64)| Term {
        value: numbers[*source].expect("a value that is needed"),
        factor: *factor,
    };
    terms.iter().map(term).collect()
}
