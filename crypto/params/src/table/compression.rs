//! List compression: many LWE ciphertexts are packed into one GLWE ciphertext of a smaller modulus,
//! and unpacked.

use super::row::{gadget, gaussian, tuniform};
use crate::set::{CompressionId, CompressionSet, ParameterSet, SetId};

/// Every compression set.
pub static COMPRESSION_SETS: &[CompressionSet] = &[
    CompressionSet {
        id: CompressionId(1),
        name: "V1_8_COMP_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128",
        // Classical and KS32 2_2 have one big key and one encoding.
        parameter_sets: &[SetId(2), SetId(9)],
        packing: gadget(4, 3),
        packing_glwe_dimension: 4,
        packing_polynomial_size: 256,
        packing_noise: tuniform(43),
        lwe_per_glwe: 256,
        storage_modulus_log2: 12,
        bootstrap: gadget(23, 1),
        published_failure_log2: Some(-129.275),
        security_log2: 136.7,
        source: V1_8,
    },
    CompressionSet {
        id: CompressionId(2),
        name: "V1_8_COMP_PARAM_MESSAGE_2_CARRY_2_KS_PBS_GAUSSIAN_2M128",
        parameter_sets: &[SetId(6)],
        packing: gadget(6, 2),
        packing_glwe_dimension: 4,
        packing_polynomial_size: 256,
        packing_noise: gaussian(1.339775301998614e-07),
        lwe_per_glwe: 256,
        storage_modulus_log2: 12,
        bootstrap: gadget(23, 1),
        published_failure_log2: Some(-128.218),
        security_log2: 131.2,
        source: V1_8,
    },
    CompressionSet {
        id: CompressionId(0xff00),
        name: "TOY_COMP_MESSAGE_2_CARRY_2",
        parameter_sets: &[SetId(0xff00)],
        packing: gadget(4, 3),
        packing_glwe_dimension: 2,
        packing_polynomial_size: 8,
        packing_noise: tuniform(40),
        lwe_per_glwe: 8,
        storage_modulus_log2: 9,
        bootstrap: gadget(23, 1),
        published_failure_log2: None,
        security_log2: 0.0,
        source: "made up for tests and simulators; protects nothing",
    },
];

const V1_8: &str = "tfhe-rs 1.8.2, src/shortint/parameters/v1_8/list_compression/p_fail_2_minus_128/mod.rs";

/// The compression set with this number.
pub fn find_compression(id: CompressionId) -> Option<&'static CompressionSet> {
    COMPRESSION_SETS.iter().find(|row| row.id == id)
}

/// The compression set for ciphertexts of `set`, if there is one.
pub fn compression_for(set: &ParameterSet) -> Option<&'static CompressionSet> {
    COMPRESSION_SETS.iter().find(|row| row.parameter_sets.contains(&set.id))
}
