//! Working memory belongs to the caller: a bootstrap with a warm scratch allocates nothing.

use cloakwork_math::Torus;
use cloakwork_tests_core::Pair;
use cloakwork_tfhe::{Gate, Gates, Lut, LweList};

fn allocations_of_a_bootstrap<S: Torus>(name: &str) -> u64 {
    let mut pair = Pair::<u64, S>::generate(name);
    let luts = [
        Lut::from_fn(pair.set, |value| value).expect("a table"),
        Lut::from_fns(pair.set, &[&|value| value, &|value| 15 - value]).expect("a table"),
    ];
    let luts: Vec<&Lut<u64>> = (0..70).map(|lane| &luts[lane % 2]).collect();
    let inputs = pair.client.encrypt(pair.set, &[1; 70], &mut pair.randomness).expect("ciphertexts");
    let mut outputs = LweList::zeros(inputs.dimension(), 105);
    let mut run = || pair.server.bootstrap(&inputs, &luts, &mut outputs, &mut pair.scratches[..1]).expect("it fits");
    run();
    allocation_counter::measure(run).count_total
}

#[test]
fn bootstraps_allocate_nothing() {
    for name in ["TOY_MESSAGE_2_CARRY_2", "TOY_MULTI_BIT_GROUP_3_MESSAGE_2_CARRY_2"] {
        assert_eq!(allocations_of_a_bootstrap::<u64>(name), 0, "{name}");
    }
    assert_eq!(allocations_of_a_bootstrap::<u32>("TOY_MESSAGE_2_CARRY_2_KS32"), 0);
}

#[test]
fn gates_allocate_nothing() {
    for name in ["TOY_BOOLEAN", "TOY_BOOLEAN_KS_PBS"] {
        let mut pair = Pair::<u32, u32>::generate(name);
        let bits = pair.client.encrypt(pair.set, &[1; 70], &mut pair.randomness).expect("ciphertexts");
        let mut outputs = LweList::zeros(bits.dimension(), bits.len());
        let (gates, circuit) = (Gates::new(&pair.server), [Gate::Nand; 70]);
        let mut run = || {
            gates.evaluate(&circuit, &bits, &bits, &mut outputs, &mut pair.scratches[..1]).expect("it fits");
            gates.mux(&bits, &bits, &bits, &mut outputs, &mut pair.scratches[..1]).expect("it fits");
        };
        run();
        assert_eq!(allocation_counter::measure(run).count_total, 0, "{name}");
    }
}
