//! The examples in the documentation of DESILO's library, written with our library. docs/ckks.md
//! repeats them word for word.

use cloakwork_ckks::{
    Bootstrap, BootstrapKeys, Complex, Evaluator, KeyPlan, KeySize, Ring, bootstrap::SeededBootstrapKeys,
};
use cloakwork_params::ckks::CkksSet;
use cloakwork_secret::{
    Randomness, SecretError,
    ckks::{KeyGenerator, SecretKey},
};

/// The decrypted numbers, and the expected numbers.
pub(crate) struct Outcome {
    pub(crate) got: Vec<Complex>,
    pub(crate) expected: Vec<Complex>,
}

type Example = fn(&'static CkksSet, usize) -> Result<Vec<Outcome>, SecretError>;

/// Examples by name. The names are headings of docs/ckks.md.
pub(crate) const EXAMPLES: [(&str, Example); 6] = [
    ("A regular bootstrap", regular),
    ("With a small key", small),
    ("Of few numbers", sparse),
    ("Of few numbers, with a small key", sparse_small),
    ("A lossy bootstrap", lossy),
    ("A lossy bootstrap with a small key", lossy_small),
];

fn regular(set: &'static CkksSet, threads: usize) -> Result<Vec<Outcome>, SecretError> {
    // A regular bootstrap
    let ring = Ring::new(set);
    let mut randomness = Randomness::from_os()?;
    let secret = SecretKey::generate(set, &mut randomness)?;
    let bootstrap = Bootstrap::new(&ring, ring.slots_log2(), 3, KeySize::Medium)?;
    let seeded = KeyGenerator::new(&secret, &ring).bootstrap(&bootstrap, &mut randomness)?;
    let keys = BootstrapKeys::expand(&ring, seeded)?;

    let mut message = vec![Complex::ZERO; ring.slots()];
    message[..3].copy_from_slice(&[-1.0, 0.0, 1.0].map(Complex::from));
    let ciphertext = secret.encrypt(&ring, &message, 0, &mut randomness)?;
    let bootstrapped = Evaluator::new(&ring, threads).bootstrap(&ciphertext, &bootstrap, &keys)?;
    let numbers = secret.decrypt(&ring, &bootstrapped)?;
    // end
    Ok(vec![Outcome { got: numbers, expected: message }])
}

fn small(set: &'static CkksSet, threads: usize) -> Result<Vec<Outcome>, SecretError> {
    // With a small key
    let ring = Ring::new(set);
    let mut randomness = Randomness::from_os()?;
    let secret = SecretKey::generate(set, &mut randomness)?;
    let in_three = Bootstrap::new(&ring, ring.slots_log2(), 3, KeySize::Small)?;
    let in_five = Bootstrap::new(&ring, ring.slots_log2(), 5, KeySize::Small)?;
    let mut plan = KeyPlan::default();
    plan.bootstrap(&ring, in_three.shape())?;
    plan.bootstrap(&ring, in_five.shape())?;
    let parts = KeyGenerator::new(&secret, &ring).parts(&plan, &mut randomness)?.collect::<Result<Vec<_>, _>>()?;
    let keys = BootstrapKeys::expand(&ring, SeededBootstrapKeys::of_parts(parts)?)?;

    let mut message = vec![Complex::ZERO; ring.slots()];
    message[..3].copy_from_slice(&[-1.0, 0.0, 1.0].map(Complex::from));
    let ciphertext = secret.encrypt(&ring, &message, 0, &mut randomness)?;
    let evaluator = Evaluator::new(&ring, threads);
    let bootstrapped = evaluator.bootstrap(&ciphertext, &in_three, &keys)?;
    let bootstrapped_in_five = evaluator.bootstrap(&ciphertext, &in_five, &keys)?;
    // end
    [bootstrapped, bootstrapped_in_five]
        .into_iter()
        .map(|result| Ok(Outcome { got: secret.decrypt(&ring, &result)?, expected: message.clone() }))
        .collect()
}

fn sparse(set: &'static CkksSet, threads: usize) -> Result<Vec<Outcome>, SecretError> {
    let slots = slots_of_example(set);
    // Of few numbers
    let ring = Ring::new(set);
    let mut randomness = Randomness::from_os()?;
    let secret = SecretKey::generate(set, &mut randomness)?;
    let bootstrap = Bootstrap::new(&ring, slots.ilog2(), 3, KeySize::Medium)?;
    let seeded = KeyGenerator::new(&secret, &ring).bootstrap(&bootstrap, &mut randomness)?;
    let keys = BootstrapKeys::expand(&ring, seeded)?;

    let message = [-1.0, 0.0, 1.0, 0.0].map(Complex::from).repeat(slots / 4);
    let ciphertext = secret.encrypt(&ring, &message, 0, &mut randomness)?;
    let bootstrapped = Evaluator::new(&ring, threads).bootstrap(&ciphertext, &bootstrap, &keys)?;
    // end
    Ok(vec![Outcome { got: secret.decrypt(&ring, &bootstrapped)?, expected: message }])
}

fn sparse_small(set: &'static CkksSet, threads: usize) -> Result<Vec<Outcome>, SecretError> {
    let slots = slots_of_example(set);
    // Of few numbers, with a small key
    let ring = Ring::new(set);
    let mut randomness = Randomness::from_os()?;
    let secret = SecretKey::generate(set, &mut randomness)?;
    let bootstrap = Bootstrap::new(&ring, slots.ilog2(), 1, KeySize::Small)?;
    let seeded = KeyGenerator::new(&secret, &ring).bootstrap(&bootstrap, &mut randomness)?;
    let keys = BootstrapKeys::expand(&ring, seeded)?;

    let message = [-1.0, 0.0, 1.0, 0.0].map(Complex::from).repeat(slots / 4);
    let ciphertext = secret.encrypt(&ring, &message, 0, &mut randomness)?;
    let bootstrapped = Evaluator::new(&ring, threads).bootstrap(&ciphertext, &bootstrap, &keys)?;
    // end
    Ok(vec![Outcome { got: secret.decrypt(&ring, &bootstrapped)?, expected: message }])
}

fn lossy(set: &'static CkksSet, threads: usize) -> Result<Vec<Outcome>, SecretError> {
    // A lossy bootstrap
    let ring = Ring::new(set);
    let mut randomness = Randomness::from_os()?;
    let secret = SecretKey::generate(set, &mut randomness)?;
    let bootstrap = Bootstrap::lossy(&ring, ring.slots_log2(), 3, KeySize::Medium)?;
    let seeded = KeyGenerator::new(&secret, &ring).bootstrap(&bootstrap, &mut randomness)?;
    let keys = BootstrapKeys::expand(&ring, seeded)?;

    let mut message = vec![Complex::ZERO; ring.slots()];
    message[..3].copy_from_slice(&[-1.0, 0.0, 1.0].map(Complex::from));
    let ciphertext = secret.encrypt(&ring, &message, bootstrap.level_in(), &mut randomness)?;
    let bootstrapped = Evaluator::new(&ring, threads).bootstrap(&ciphertext, &bootstrap, &keys)?;
    // end
    Ok(vec![Outcome { got: secret.decrypt(&ring, &bootstrapped)?, expected: message }])
}

fn lossy_small(set: &'static CkksSet, threads: usize) -> Result<Vec<Outcome>, SecretError> {
    // A lossy bootstrap with a small key
    let ring = Ring::new(set);
    let mut randomness = Randomness::from_os()?;
    let secret = SecretKey::generate(set, &mut randomness)?;
    let in_three = Bootstrap::lossy(&ring, ring.slots_log2(), 3, KeySize::Small)?;
    let in_five = Bootstrap::lossy(&ring, ring.slots_log2(), 5, KeySize::Small)?;
    let mut plan = KeyPlan::default();
    plan.bootstrap(&ring, in_three.shape())?;
    plan.bootstrap(&ring, in_five.shape())?;
    let parts = KeyGenerator::new(&secret, &ring).parts(&plan, &mut randomness)?.collect::<Result<Vec<_>, _>>()?;
    let keys = BootstrapKeys::expand(&ring, SeededBootstrapKeys::of_parts(parts)?)?;

    let mut message = vec![Complex::ZERO; ring.slots()];
    message[..3].copy_from_slice(&[-1.0, 0.0, 1.0].map(Complex::from));
    let ciphertext = secret.encrypt(&ring, &message, in_five.level_in(), &mut randomness)?;
    let evaluator = Evaluator::new(&ring, threads);
    let bootstrapped = evaluator.bootstrap(&ciphertext, &in_three, &keys)?;
    let bootstrapped_in_five = evaluator.bootstrap(&ciphertext, &in_five, &keys)?;
    // end
    [bootstrapped, bootstrapped_in_five]
        .into_iter()
        .map(|result| Ok(Outcome { got: secret.decrypt(&ring, &result)?, expected: message.clone() }))
        .collect()
}

/// Number of slots of the sparse examples: as on the page, or half the slots of a toy ring.
fn slots_of_example(set: &CkksSet) -> usize {
    1024.min(set.slots() / 2)
}

#[cfg(test)]
mod tests {
    use cloakwork_params::ckks;

    use super::*;
    use crate::precision::bits;

    /// The lines between an example's name and its end, without their indentation.
    fn code(name: &str) -> String {
        let lines = include_str!("examples.rs").lines().map(|line| line.strip_prefix("    ").unwrap_or(line));
        let of_example =
            lines.skip_while(|line| *line != format!("// {name}")).skip(1).take_while(|line| *line != "// end");
        of_example.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn examples_equal_those_of_the_document() {
        let document = include_str!("../../../docs/ckks.md");
        for (name, _) in EXAMPLES {
            let expected = format!("### {name}\n\n```rust\n{}\n```\n", code(name));
            assert!(document.contains(&expected), "docs/ckks.md lacks this, or has another:\n{expected}");
        }
    }

    #[test]
    fn examples_return_their_numbers() {
        let set = ckks::by_name("TOY_CKKS_45_60_50").expect("a set");
        for (name, example) in EXAMPLES {
            for Outcome { got, expected } in example(set, 2).expect("an example that runs") {
                let [mean, worst] = bits(&got, &expected);
                assert!(mean > 14.0 && worst > 12.0, "{name}: {mean:.1}, {worst:.1}");
            }
        }
    }
}
