//! Constructors refuse keys whose shape no computation supports, with a typed error.

use cloakwork_math::{GgswShape, random::MaskSeed};
use cloakwork_params::Decomposition;
use cloakwork_tfhe::{LweList, SeededBootstrapKey, SeededKeySwitchKey, SeededPackingKey};

const SEED: MaskSeed = MaskSeed { key: 1, block: 0, byte: 0 };

fn gadget(base_log: u32, levels: usize) -> Decomposition {
    Decomposition { base_log, levels }
}

#[test]
fn bootstrap_keys_with_a_shape_that_no_kernel_supports_are_refused() {
    let new = |glwe_dimension, polynomial_size, gadget: Decomposition, count: usize| {
        let shape = GgswShape { glwe_dimension, polynomial_size, gadget };
        let words = if polynomial_size.max(count) < 100 { count * shape.body_words() } else { 0 };
        SeededBootstrapKey::<u64>::new(shape, count, SEED, vec![0; words])
    };
    assert!(new(1, 64, gadget(23, 1), 3).is_ok());
    for (k, size, gadget) in [
        (0, 64, gadget(23, 1)),
        (5, 64, gadget(23, 1)),
        (1, 32, gadget(23, 1)),
        (1, 96, gadget(23, 1)),
        (1, 1 << 62, gadget(23, 2)),
        (1, 64, gadget(0, 1)),
        (1, 64, gadget(32, 1)),
        (1, 64, gadget(23, 0)),
        (1, 64, gadget(16, 4)),
        // The shape is well formed, but no parameter set has as many levels with as many
        // polynomials.
        (3, 64, gadget(10, 3)),
    ] {
        assert!(new(k, size, gadget, 3).is_err(), "k = {k}, N = {size}, {gadget:?}");
    }
    let many = new(1, 64, gadget(23, 1), usize::MAX).expect_err("bodies that no memory holds");
    assert_eq!((many.expected, many.got), (usize::MAX, 0));
}

#[test]
fn key_switch_and_packing_keys_with_gadgets_wider_than_their_words_are_refused() {
    let key_switch = |output, gadget: Decomposition, log2| {
        SeededKeySwitchKey::<u32>::new(2, output, gadget, log2, SEED, vec![0; 2 * gadget.levels]).is_ok()
    };
    assert!(key_switch(3, gadget(4, 4), 32));
    assert!(!key_switch(0, gadget(4, 4), 32) && !key_switch(3, gadget(4, 8), 32));
    assert!(!key_switch(3, gadget(4, 4), 0) && !key_switch(3, gadget(4, 4), 33));
    let packing = |k, size, gadget: Decomposition| {
        let words = if size < 100 { 2 * gadget.levels * size } else { 0 };
        SeededPackingKey::<u64>::new(2, k, size, gadget, SEED, vec![0; words]).is_ok()
    };
    assert!(packing(4, 8, gadget(4, 3)));
    assert!(!packing(0, 8, gadget(4, 3)) && !packing(4, 1 << 61, gadget(4, 3)) && !packing(4, 8, gadget(4, 16)));
    assert!(LweList::<u64>::from_words(usize::MAX, vec![]).is_err() && LweList::<u64>::from_words(0, vec![]).is_err());
}
