//! Computations deeper than any modulus chain: products use up the levels and bootstraps restore
//! them, several times over.

use cloakwork_ckks::{Bootstrap, Complex, Evaluator, KeySize};

use crate::client::{Client, numbers, ring};

const ROUNDS: usize = 5;

#[test]
fn computations_continue_over_many_bootstraps() {
    for (set, is_lossy, slots_log2, stages, size, mean_bits, worst_bits) in [
        ("TOY_CKKS_45_60_50", false, 9, 5, KeySize::Medium, 23.5, 21.5),
        ("TOY_CKKS_45_60_50", false, 9, 3, KeySize::Small, 23.5, 21.5),
        ("TOY_CKKS_45_60_50", true, 9, 3, KeySize::Medium, 24.0, 21.5),
        ("TOY_CKKS_45_60_50", false, 5, 2, KeySize::Medium, 20.0, 18.5),
        ("TOY_CKKS_54_60", false, 9, 5, KeySize::Medium, 19.5, 18.0),
    ] {
        let ring = ring(set);
        let of = if is_lossy { Bootstrap::lossy } else { Bootstrap::new };
        let mut client = Client::with(of(&ring, slots_log2, stages, size).expect("a bootstrap"));
        check(&mut client, mean_bits, worst_bits);
    }
}

/// Uses up all levels by products with numbers of magnitude one, which leave the size of errors
/// unchanged.
///
/// After a round, the error is thus the sum of the errors of all bootstraps. In the worst case mean
/// errors add up. One bootstrap's bits then fall by log2 of the number of rounds, and by a quarter
/// for all the products.
pub(crate) fn check(client: &mut Client<'_>, mean_bits: f64, worst_bits: f64) {
    let slots = client.bootstrap.slots();
    let mut plain = numbers(slots, 5);
    // Powers of these numbers have no pattern either: a pattern would be a few large coefficients.
    let turns: Vec<Complex> = (0..slots).map(|at| Complex::at_turn((at as f64 * 12.9898).sin() * 4375.85)).collect();
    let factor = client.encrypt(&turns, client.bootstrap.level_out());
    let mut x = client.encrypt(&plain, client.bootstrap.level_in());
    for round in 1..=ROUNDS {
        x = client.bootstrap(&x, 2);
        assert_eq!(x.level(), client.bootstrap.level_out());
        while x.level() > client.bootstrap.level_in() {
            let evaluator = Evaluator::new(client.ring, 2);
            x = evaluator.multiply_rescaled(&x, &factor, &client.keys.evaluation).expect("a product");
            plain.iter_mut().zip(&turns).for_each(|(number, turn)| *number = *number * *turn);
        }
        let (mean, worst) = client.precision(&x, &plain);
        let lost = (round as f64).log2() + 0.25;
        println!("{}, round {round}: {mean:.2} {worst:.2}", client.ring.set().name);
        let is_enough = mean > mean_bits - lost && worst > worst_bits - lost;
        assert!(is_enough, "{}, round {round}: {mean:.2}, {worst:.2}", client.ring.set().name);
    }
}
