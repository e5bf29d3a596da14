//! What a bootstrap costs, from its parameters alone.

use cloakwork_params::ParameterSet;

/// Work of one bootstrap, in multiplications. Only good for comparing sets.
pub(crate) fn work(set: &ParameterSet) -> f64 {
    let (size, n) = (set.glwe_size() as f64, set.polynomial_size as f64);
    let levels = set.bootstrap.levels as f64;
    let transforms = (levels * size + size) * n * n.log2() / 2.0;
    let products = levels * size * size * n;
    // A multi-bit step sums up the rotated ciphertexts of a group and transforms the sum first.
    let bundle = match set.grouping {
        1 => 0.0,
        grouping => products * f64::from(1u32 << grouping) + levels * size * size * n * n.log2() / 2.0,
    };
    let key_switch = (set.big_dimension() * set.key_switch.levels * (set.lwe_dimension + 1)) as f64 / 4.0;
    set.rotation_steps() as f64 * (transforms + products + bundle) + key_switch
}

/// How many bootstraps of the cheapest of `sets` one of `set` is worth.
pub(crate) fn relative(set: &ParameterSet, sets: &[&'static ParameterSet]) -> f64 {
    let cheapest = sets.iter().map(|set| work(set)).fold(f64::MAX, f64::min);
    (work(set) / cheapest).max(1.0)
}

#[cfg(test)]
mod tests {
    use cloakwork_params::{Standing, table::SETS};

    use super::*;

    #[test]
    fn larger_messages_cost_more_and_nothing_less_than_one() {
        let served: Vec<_> = SETS.iter().filter(|set| set.standing == Standing::Served).collect();
        let of = |name: &str| relative(cloakwork_params::table::by_name(name).expect("a set"), &served);
        let (small, large) = (
            of("V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128"),
            of("V1_8_PARAM_MESSAGE_3_CARRY_3_KS_PBS_TUNIFORM_2M128"),
        );
        assert!(large > 3.0 * small, "{small} and {large}");
        assert!(served.iter().all(|set| relative(set, &served) >= 1.0));
    }
}
