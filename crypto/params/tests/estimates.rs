//! The security figure of each set is the least estimate for its keys in `tests/estimates`. A set
//! whose parameters change without an estimate fails here.
//!
//! With `CLOAKWORK_UPDATE_DOCS=1`, these tests write the list of keys, for which
//! `tests/estimates/estimate.py` then makes the estimates, and the tables of the documents.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use cloakwork_params::{
    CompressionSet, Noise, ParameterSet, Standing,
    ckks::{CKKS_SETS, CkksSet},
    table::{COMPRESSION_SETS, SETS, find},
};

#[test]
fn the_list_of_keys_is_that_of_the_sets() {
    let of_tfhe = SETS.iter().filter(|set| set.standing != Standing::Toy).flat_map(|set| [small(set), big(set)]);
    let of_packing = COMPRESSION_SETS.iter().filter(|set| !is_toy(set)).map(packing);
    let of_ckks =
        CKKS_SETS.iter().filter(|set| set.standing != Standing::Toy).flat_map(|set| [dense(set), sparse(set)]);
    let keys: BTreeSet<String> = of_tfhe.chain(of_packing).chain(of_ckks).map(|key| key.0).collect();
    let estimates = Estimates::read();
    let is_stale = |key: &&String| !keys.contains(*key);
    assert_eq!(estimates.costs.keys().map(|(key, _)| key).find(is_stale), None, "estimates.tsv has a key of no set");
    let lines = keys.into_iter().map(|key| key + "\n");
    let expected: String = std::iter::once(format!("{COLUMNS}\n")).chain(lines).collect();
    let path = directory().join("keys.tsv");
    if std::env::var_os("CLOAKWORK_UPDATE_DOCS").is_some() {
        fs::write(&path, &expected).expect("keys.tsv is writable");
    }
    let stored = fs::read_to_string(&path).expect("keys.tsv");
    assert!(stored == expected, "keys.tsv is stale: run this test with CLOAKWORK_UPDATE_DOCS=1");
}

#[test]
fn security_figures_are_the_least_estimates() {
    let estimates = Estimates::read();
    let least = |key: &Key| estimates.least(key);
    for set in SETS.iter().filter(|set| set.standing != Standing::Toy) {
        assert_eq!(Some(set.security.lwe_log2), least(&small(set)), "small key of {}", set.name);
        assert_eq!(set.security.glwe_log2, least(&big(set)), "big key of {}", set.name);
    }
    for set in COMPRESSION_SETS.iter().filter(|set| !is_toy(set)) {
        assert_eq!(Some(set.security_log2), least(&packing(set)), "packing key of {}", set.name);
    }
    for set in CKKS_SETS.iter().filter(|set| set.standing != Standing::Toy) {
        assert_eq!(Some(set.security.log2), least(&dense(set)), "key of {}", set.name);
        assert_eq!(Some(set.bootstrap.sparse_security_log2), least(&sparse(set)), "sparse key of {}", set.name);
        if set.standing == Standing::Served {
            for key in [dense(set), sparse(set)] {
                assert!(estimates.cost(&key, BEYOND).is_none_or(|log2| log2 >= 128.0), "{}", set.name);
            }
        }
    }
}

#[test]
fn packing_keys_of_served_sets_have_128_bits() {
    let is_served = |set: &&CompressionSet| {
        let sets = set.parameter_sets.iter().filter_map(|id| find(*id));
        sets.into_iter().any(|set| set.standing == Standing::Served)
    };
    for set in COMPRESSION_SETS.iter().filter(is_served) {
        assert!(set.security_log2 >= 128.0, "{}", set.name);
    }
}

#[test]
fn attacks_that_are_alike_have_estimates_that_are_close() {
    // The estimator's searches can end at a local minimum, far above the best cost.
    let estimates = Estimates::read();
    let keys: BTreeSet<&String> = estimates.costs.keys().map(|(key, _)| key).collect();
    for key in keys {
        let key = Key(key.clone());
        let costs = ["bdd", "usvp", QUANTUM, "dual hybrid"].map(|attack| estimates.cost(&key, attack));
        let [Some(bdd), Some(usvp), Some(quantum), Some(dual)] = costs else {
            assert_eq!(costs, [None; 4], "only some attacks on {} have a cost", key.0);
            continue;
        };
        // BDD is never worse. Its last step saves a few block sizes.
        assert!((bdd..=bdd + 4.0).contains(&usvp), "BDD {bdd}, uSVP {usvp}: {}", key.0);
        // Quantum machines make a sieve cheaper, by less than a tenth of its bits.
        assert!((0.9 * usvp..=usvp).contains(&quantum), "uSVP {usvp}, quantum {quantum}: {}", key.0);
        // Either may be better, but they have never differed by a twentieth.
        assert!((bdd - dual).abs() <= 0.05 * bdd, "BDD {bdd}, dual hybrid {dual}: {}", key.0);
    }
}

#[test]
fn tables_of_the_documents_have_all_estimates() {
    let estimates = Estimates::read();
    for (page, table) in [("parameters.md", tfhe_table(&estimates)), ("ckks.md", ckks_table(&estimates))] {
        let path = directory().join("../../docs").join(page);
        let document = fs::read_to_string(&path).expect(page);
        let (begin, end) = ("<!-- estimates: begin -->\n", "<!-- estimates: end -->\n");
        let (before, rest) = document.split_once(begin).expect("a begin mark");
        let (_, after) = rest.split_once(end).expect("an end mark");
        let expected = format!("{before}{begin}{table}{end}{after}");
        if std::env::var_os("CLOAKWORK_UPDATE_DOCS").is_some() {
            fs::write(&path, &expected).expect(page);
        } else {
            assert!(document == expected, "docs/{page} is stale: run this test with CLOAKWORK_UPDATE_DOCS=1");
        }
    }
}

/// Names of the columns of a key.
const COLUMNS: &str = "dimension\tmodulus_log2\tsecret\tnoise\trotations_log2";

/// A key in the notation of the files: a line without its end.
struct Key(String);

/// The key of n bits. Its ciphertexts have no ring structure, so each has a lattice of its own.
fn small(set: &ParameterSet) -> Key {
    key(set.lwe_dimension, set.small_modulus_log2, "binary", deviation(set.lwe_noise, set.small_modulus_log2), 0)
}

/// The key of k N bits. Its N rotations share a lattice.
fn big(set: &ParameterSet) -> Key {
    let modulus_log2 = set.torus.bits();
    let noise = deviation(set.glwe_noise, modulus_log2);
    key(set.big_dimension(), modulus_log2, "binary", noise, set.polynomial_size.ilog2())
}

/// The key of packed ciphertexts, modulo 2^64.
fn packing(set: &CompressionSet) -> Key {
    let size = set.packing_polynomial_size;
    key(set.packing_glwe_dimension * size, 64, "binary", deviation(set.packing_noise, 64), size.ilog2())
}

/// The secret of a CKKS set, modulo all primes. Half of its rotations share the lattice of the key
/// for the automorphism X to X^(1 + N), as docs/ckks.md explains.
fn dense(set: &CkksSet) -> Key {
    key(set.size(), whole(set.modulus_log2()), &ternary(set.secret_weight), set.noise, set.size_log2 - 1)
}

/// The sparse secret of a bootstrap, modulo the first prime and one special prime. Ciphertexts
/// modulo the first prime alone share a lattice with all their rotations.
fn sparse(set: &CkksSet) -> Key {
    let modulus_log2 = (set.chain[0] as f64).log2() + (set.special[0] as f64).log2();
    key(set.size(), whole(modulus_log2), &ternary(set.bootstrap.sparse_weight), set.noise, set.size_log2)
}

/// The bits of a modulus. Products of primes are not exactly powers of two.
fn whole(modulus_log2: f64) -> u32 {
    assert!((modulus_log2 - modulus_log2.round()).abs() < 0.01, "{modulus_log2} bits");
    modulus_log2.round() as u32
}

/// Whether a compression set packs ciphertexts of toys only.
fn is_toy(set: &CompressionSet) -> bool {
    let sets = set.parameter_sets.iter().filter_map(|id| find(*id));
    sets.into_iter().all(|set| set.standing == Standing::Toy)
}

fn ternary(weight: usize) -> String {
    format!("ternary {weight}")
}

fn key(dimension: usize, modulus_log2: u32, secret: &str, noise: f64, rotations_log2: u32) -> Key {
    // Six digits: the noise of equal keys may differ in its last bits.
    let noise: f64 = format!("{noise:.5e}").parse().expect("a number");
    Key(format!("{dimension}\t{modulus_log2}\t{secret}\t{noise}\t{rotations_log2}"))
}

/// Standard deviation in steps of the modulus.
fn deviation(noise: Noise, modulus_log2: u32) -> f64 {
    match noise {
        Noise::Gaussian { std_dev } => std_dev * 2_f64.powi(modulus_log2 as i32),
        // Half weight on both ends: the variance is (2^(2b + 1) + 1) / 6.
        Noise::TUniform { bound_log2 } => ((2_f64.powi(2 * bound_log2 as i32 + 1) + 1.0) / 6.0).sqrt(),
    }
}

/// The estimates of all keys.
struct Estimates {
    /// By key and attack. The cost of an attack is absent if it is not finite.
    costs: BTreeMap<(String, String), Option<f64>>,
    /// Versions of the estimator, each with the date of an estimate.
    made: BTreeSet<(String, String)>,
}

/// The attack on quantum machines. All others are on classical machines.
const QUANTUM: &str = "usvp, quantum";

const ROTATIONS: [&str; 2] = ["rotations", "rotations, meeting"];

/// Models that reach further than the attacks that are known. Their cost is no figure of a set.
/// Served CKKS sets keep 128 bits, but some served TFHE sets do not.
const BEYOND: &str = "rotations, representations";
const BEYOND_ALONE: &str = "hybrid, representations";

impl Estimates {
    fn read() -> Self {
        let text = fs::read_to_string(directory().join("estimates.tsv")).expect("estimates.tsv");
        let mut estimates = Self { costs: BTreeMap::new(), made: BTreeSet::new() };
        for line in text.lines().skip(1) {
            let cells: Vec<&str> = line.split('\t').collect();
            let [key @ .., attack, log2, _choices, estimator, date] = &cells[..] else { panic!("{line}") };
            let cost = if *log2 == "none" { None } else { Some(log2.parse().expect("a number")) };
            estimates.costs.insert((key.join("\t"), (*attack).to_owned()), cost);
            estimates.made.insert(((*estimator).to_owned(), (*date).to_owned()));
        }
        estimates
    }

    /// Tools and dates, in words.
    fn provenance(&self) -> String {
        let made = self.made.iter().map(|(version, date)| format!("malb/lattice-estimator at {version}, {date}"));
        format!("\nMATZOV cost model; {}.\n", made.collect::<Vec<_>>().join("; "))
    }

    /// The cost of an attack on a key. Fails if it was not estimated.
    fn cost(&self, key: &Key, attack: &str) -> Option<f64> {
        *self
            .costs
            .get(&(key.0.clone(), attack.to_owned()))
            .unwrap_or_else(|| panic!("no estimate: {attack} of {}", key.0))
    }

    /// The least cost on classical machines.
    fn least(&self, key: &Key) -> Option<f64> {
        for attack in key.attacks() {
            // Fails if there is no estimate.
            self.cost(key, attack);
        }
        let is_figure = |attack: &str| ![QUANTUM, BEYOND, BEYOND_ALONE].contains(&attack);
        let of_key = self.costs.iter().filter(|((of, attack), _)| *of == key.0 && is_figure(attack));
        of_key.filter_map(|(_, cost)| *cost).min_by(f64::total_cmp)
    }

    /// The least cost of some attacks, as a cell of a table.
    fn cell(&self, key: &Key, attacks: &[&str]) -> String {
        let costs = attacks.iter().filter_map(|attack| self.cost(key, attack));
        costs.min_by(f64::total_cmp).map_or("none".into(), |log2| format!("{log2:.1}"))
    }
}

impl Key {
    /// The attacks that have an estimate, as in `estimate.py`.
    fn attacks(&self) -> impl Iterator<Item = &'static str> {
        let of_weight = ["dual", "dual hybrid, sparse", "hybrid", "hybrid, meeting"];
        let has_weight = self.0.contains("ternary");
        let has_rotations = !self.0.ends_with("\t0");
        let alone = ["hybrid, meeting", BEYOND_ALONE].into_iter().filter(move |_| !has_weight && !has_rotations);
        let always = ["usvp", "bdd", "dual hybrid", QUANTUM];
        let of_weight = of_weight.into_iter().filter(move |_| has_weight);
        let of_rotations = ROTATIONS.into_iter().chain([BEYOND]).filter(move |_| has_rotations);
        always.into_iter().chain(of_weight).chain(of_rotations).chain(alone)
    }
}

fn tfhe_table(estimates: &Estimates) -> String {
    let mut out = estimates.provenance()
        + "\n| set | small key: uSVP | BDD | dual hybrid | meeting | representations | uSVP, quantum | big key: uSVP | BDD | dual hybrid | rotations | rotations, meeting | representations | uSVP, quantum |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    for set in SETS.iter().filter(|set| set.standing != Standing::Toy) {
        let [small, big] = [cells(estimates, &small(set), &OF_SMALL), cells(estimates, &big(set), &OF_BIG)];
        out += &format!("| {} | {small} | {big} |\n", set.name);
    }
    out += "\n| packing key of | uSVP | BDD | dual hybrid | rotations | rotations, meeting | representations | uSVP, quantum |\n\
            |---|---|---|---|---|---|---|---|\n";
    for set in COMPRESSION_SETS.iter().filter(|set| !is_toy(set)) {
        out += &format!("| {} | {} |\n", set.name, cells(estimates, &packing(set), &OF_BIG));
    }
    out + "\n"
}

/// Attacks on a small key, and on a key with rotations, in the order of the columns.
const OF_SMALL: [&str; 6] = ["usvp", "bdd", "dual hybrid", "hybrid, meeting", BEYOND_ALONE, QUANTUM];
const OF_BIG: [&str; 7] = ["usvp", "bdd", "dual hybrid", ROTATIONS[0], ROTATIONS[1], BEYOND, QUANTUM];

fn cells(estimates: &Estimates, key: &Key, attacks: &[&str]) -> String {
    let cells: Vec<String> = attacks.iter().map(|attack| estimates.cell(key, &[attack])).collect();
    cells.join(" | ")
}

fn ckks_table(estimates: &Estimates) -> String {
    let mut out = estimates.provenance()
        + "\n| secret | bits of the modulus | sets | uSVP | BDD | hybrid | rotations | rotations, meeting | representations | dual | dual hybrid | uSVP, quantum |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n";
    let real = || CKKS_SETS.iter().filter(|set| set.standing != Standing::Toy);
    let mut keys: Vec<(Key, Vec<&str>)> = Vec::new();
    for (key, set) in real().map(|set| (dense(set), set)).chain(real().map(|set| (sparse(set), set))) {
        match keys.iter_mut().find(|(known, _)| known.0 == key.0) {
            Some((_, sets)) => sets.push(set.name),
            None => keys.push((key, vec![set.name])),
        }
    }
    for (key, sets) in keys {
        let cells: Vec<&str> = key.0.split('\t').collect();
        let costs = [
            &["usvp"][..],
            &["bdd"],
            &["hybrid", "hybrid, meeting"],
            &["rotations"],
            &["rotations, meeting"],
            &[BEYOND],
            &["dual"],
            &["dual hybrid", "dual hybrid, sparse"],
            &[QUANTUM],
        ];
        let costs = costs.map(|attacks| estimates.cell(&key, attacks)).join(" | ");
        let sets: Vec<String> = sets.iter().map(|set| format!("`{set}`")).collect();
        let weight = cells[2].replace("ternary", "weight");
        out += &format!("| {weight} | {} | {} | {costs} |\n", cells[1], sets.join(", "));
    }
    out + "\n"
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/estimates")
}
