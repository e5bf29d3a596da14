//! Noise of integer programs. Along the deepest chain, the noise of results does not grow. Sums
//! before lookups have no more noise than the graph was built for.

use cloakwork_circuit::{
    Goal, Graph, LIMITS, Program, Table,
    wire::{self, operation::Kind},
};
use cloakwork_params::{noise::NoiseBudget, table::by_name};
use cloakwork_secret::Randomness;
use cloakwork_tests_noise::{
    keys::{Keys, THREADS, fraction},
    statistics::Comparison,
};
use cloakwork_tfhe::{Lut, LweList};
use prost::Message as _;

#[test]
fn noise_does_not_grow_along_the_deepest_chain() {
    let keys = Keys::<u64, u64>::generate(by_name(SET).expect("in the table"), SEED);
    let graph = quotient();
    assert!(graph.depth() > 600, "{}", graph.depth());
    let digits: Vec<u64> = (0..graph.input_blocks() as u64).map(|place| (place * place + 3) % 4).collect();
    let run = Run::new(&keys, &graph, &digits);

    let step = graph.set.plaintext_step();
    let phases: Vec<u64> = digits.iter().map(|digit| digit * step).collect();
    let outputs: Vec<u64> = graph.outputs.iter().flatten().map(|output| run.exact[output.value]).collect();
    assert_eq!(outputs, graph.evaluate(&phases).expect("it runs"), "what it computes");

    let one = NoiseBudget::with_key(graph.set, keys.weight()).output();
    let (first, last) = run.results.split_at(run.results.len() / 2);
    for (part, results) in [("first half", first), ("second half", last)] {
        let measured = mean_square(results);
        println!("{part}: {measured:.4e} of {} results, the formula says {one:.4e}", results.len());
        let comparison = Comparison::of_normal_variance(measured, results.len(), one, ROTATION_TOLERANCE * one);
        assert!(comparison.holds(), "{part}: {comparison:?}");
        assert!(!comparison.against(1.4 * one).holds(), "{part}: no power");
    }
    let bound = graph.set.squared_noise_max as f64 * one;
    let (mean, worst) = (mean_square(&run.sums), run.sums.iter().fold(0.0, |worst, error| error.abs().max(worst)));
    println!("sums: {mean:.4e} on average, {worst:.4e} at worst; the set bears {bound:.4e}");
    assert!(mean <= bound && worst * worst <= DEVIATIONS * DEVIATIONS * bound);
}

const SET: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";
const SEED: u64 = 0xc4a1;
/// Allowance for effects that the formula of a rotation leaves out, and for what results of one
/// rotation have in common.
const ROTATION_TOLERANCE: f64 = 0.06;
/// No sum among some thousand is off by this many standard deviations.
const DEVIATIONS: f64 = 6.5;

/// A division of 64 bits whose inputs are results of other jobs.
fn quotient() -> Graph {
    let input = |name: &str| wire::program::Input {
        name: name.to_owned(),
        r#type: wire::Type::Uint.into(),
        bits: 64,
        ..Default::default()
    };
    let operation = |kind: Kind| wire::Operation { kind: kind.into(), arguments: vec![0, 1], ..Default::default() };
    let message = wire::Program {
        parameter_set: SET.to_owned(),
        inputs: vec![input("x"), input("y")],
        operations: vec![operation(Kind::Divide), operation(Kind::Remainder)],
        outputs: vec![2, 3],
        ..Default::default()
    };
    Program::decode(&message.encode_to_vec(), &LIMITS).expect("a program").lower(Goal::Work)
}

fn mean_square(errors: &[f64]) -> f64 {
    errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64
}

/// A graph that has run on ciphertexts, with their errors.
struct Run {
    /// All values without their errors.
    exact: Vec<u64>,
    /// Errors of the sums before lookups.
    sums: Vec<f64>,
    /// Errors of the results of lookups. Results with the longest chains before them come last.
    results: Vec<f64>,
}

impl Run {
    fn new(keys: &Keys<u64, u64>, graph: &Graph, digits: &[u64]) -> Self {
        let big = keys.big().flattened();
        let stride = big.dimension() + 1;
        let half_step = graph.set.plaintext_step() / 2;
        // All values are multiples of half a step, and no error comes near a quarter of a step.
        let split = |words: &[u64]| {
            let phase = big.phase(words).expect("ciphertexts of the key's shape");
            let exact = (phase.wrapping_add(half_step / 2) / half_step).wrapping_mul(half_step);
            (exact, fraction(phase.wrapping_sub(exact)))
        };
        let lut = |table: &Table| match table {
            Table::Functions(functions) => Lut::from_halves(graph.set, functions).expect("a table of the set"),
            Table::Sign => unreachable!("the set has blocks"),
        };
        let luts: Vec<Lut<u64>> = graph.tables.iter().map(lut).collect();
        let mut randomness = Randomness::insecure_for_tests(SEED);
        let inputs: LweList<u64> =
            keys.client.encrypt(graph.set, digits, &mut randomness).expect("messages below the modulus");
        let mut run = Self { exact: vec![0; graph.values()], sums: Vec::new(), results: Vec::new() };
        let mut values: Vec<Vec<u64>> = vec![Vec::new(); graph.values()];
        for (value, words) in inputs.iter().enumerate() {
            run.exact[value] = split(words).0;
            values[value] = words.to_vec();
        }
        let mut scratches: Vec<_> = (0..THREADS).map(|_| keys.server.scratch()).collect();
        for level in levels(graph) {
            let (mut sums, mut tables) = (Vec::new(), Vec::new());
            for &node in &level {
                let mut sum = vec![0_u64; stride];
                sum[stride - 1] = graph.nodes[node].constant;
                for term in &graph.nodes[node].terms {
                    for (sum, word) in sum.iter_mut().zip(&values[term.value]) {
                        *sum = sum.wrapping_add(word.wrapping_mul(term.factor as u64));
                    }
                }
                let (exact, error) = split(&sum);
                match graph.nodes[node].table {
                    Some(table) => {
                        run.sums.push(error);
                        sums.extend(sum);
                        tables.push(&luts[table]);
                    }
                    None => {
                        let value = graph.nodes[node].first_value;
                        (run.exact[value], values[value]) = (exact, sum);
                    }
                }
            }
            let lookups = || level.iter().filter(|node| graph.nodes[**node].table.is_some());
            let count = lookups().map(|node| graph.results(*node).len()).sum();
            let mut outputs = LweList::zeros(stride - 1, count);
            let inputs = LweList::from_words(stride - 1, sums).expect("whole ciphertexts");
            keys.server.bootstrap(&inputs, &tables, &mut outputs, &mut scratches).expect("shapes of the set");
            let results = lookups().flat_map(|node| graph.results(*node));
            for (value, words) in results.zip(outputs.iter()) {
                let (exact, error) = split(words);
                run.exact[value] = exact;
                run.results.push(error);
                values[value] = words.to_vec();
            }
        }
        run
    }
}

/// Nodes by the number of bootstraps on the longest chain before them.
fn levels(graph: &Graph) -> Vec<Vec<usize>> {
    let mut depths = vec![0; graph.values()];
    let mut levels: Vec<Vec<usize>> = Vec::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let depth = node.terms.iter().map(|term| depths[term.value]).max().unwrap_or(0);
        depths[graph.results(index)].fill(depth + usize::from(node.table.is_some()));
        levels.resize_with(levels.len().max(depth + 1), Vec::new);
        levels[depth].push(index);
    }
    levels
}
