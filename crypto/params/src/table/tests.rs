use std::collections::HashSet;

use super::*;
use crate::set::{Encoding, ModulusSwitch, Order, Standing, TorusWidth};

#[test]
fn ids_and_names_are_unique_and_found() {
    let ids: HashSet<_> = SETS.iter().map(|set| set.id).collect();
    let names: HashSet<_> = SETS.iter().map(|set| set.name).collect();
    assert_eq!((ids.len(), names.len()), (SETS.len(), SETS.len()));
    for set in SETS {
        assert!(std::ptr::eq(find(set.id).expect("by id"), set));
        assert!(std::ptr::eq(by_name(set.name).expect("by name"), set));
    }
    assert_eq!(find(SetId(0)), None);
    assert_eq!(by_name(""), None);
}

#[test]
fn dimensions_are_consistent() {
    for set in SETS {
        let name = set.name;
        let word = if set.torus == TorusWidth::U64 { 64 } else { 32 };
        assert!(set.polynomial_size.is_power_of_two() && set.polynomial_size >= 64, "{name}");
        assert!(set.lwe_dimension > 0 && set.glwe_dimension > 0, "{name}");
        assert!((1..=4).contains(&set.grouping) && set.lwe_dimension.is_multiple_of(set.grouping), "{name}");
        assert!((set.rotation_modulus_log2() + 1..=word).contains(&set.small_modulus_log2), "{name}");
        for gadget in [set.bootstrap, set.key_switch] {
            assert!(gadget.base_log > 0 && gadget.levels > 0, "{name}");
            assert!(gadget.base_log * (gadget.levels as u32) < word, "{name}");
        }
        // The gadget of a key switch to a small modulus must fit into that modulus as well.
        assert!(set.key_switch.base_log * (set.key_switch.levels as u32) <= set.small_modulus_log2, "{name}");
        if set.grouping > 1 {
            assert_eq!(set.modulus_switch, ModulusSwitch::Plain, "{name}");
        }
        if let Encoding::Shortint { message_modulus, carry_modulus, max_noise_level } = set.encoding {
            assert!(message_modulus.is_power_of_two() && carry_modulus.is_power_of_two(), "{name}");
            assert!(set.polynomial_size as u64 >= 2 * message_modulus * carry_modulus, "{name}");
            assert!(max_noise_level >= 1, "{name}");
        }
    }
}

#[test]
fn served_sets_keep_both_bounds_and_weak_ones_do_not() {
    for set in SETS {
        let secure = set.security.lwe_log2 >= 128.0 && set.security.glwe_log2.is_none_or(|log2| log2 >= 128.0);
        // Both figures must hold. If the published figure is worse than ours, ours alone does not
        // remove the weak mark.
        let failure = set.failure;
        let reliable = failure.computed_log2.max(failure.published_log2.unwrap_or(failure.computed_log2)) <= -128.0;
        assert_eq!(set.standing == Standing::Served, secure && reliable, "{}", set.name);
    }
}

#[test]
fn compression_sets_fit_their_parameter_sets() {
    let ids: HashSet<_> = COMPRESSION_SETS.iter().map(|row| row.id).collect();
    assert_eq!(ids.len(), COMPRESSION_SETS.len());
    for row in COMPRESSION_SETS {
        assert!(std::ptr::eq(find_compression(row.id).expect("by id"), row));
        assert!(row.packing_polynomial_size.is_power_of_two(), "{}", row.name);
        assert!(row.lwe_per_glwe <= row.packing_polynomial_size, "{}", row.name);
        for id in row.parameter_sets {
            let set = find(*id).expect("a compression set names sets of the table");
            assert!(std::ptr::eq(compression_for(set).expect("linked"), row), "{} has two", set.name);
            // Unpacking then has nothing left to round.
            assert!(row.storage_modulus_log2 <= set.rotation_modulus_log2(), "{}", row.name);
            assert!(row.bootstrap.base_log * (row.bootstrap.levels as u32) < 64, "{}", row.name);
        }
    }
}

#[test]
fn companions_bootstrap_the_ciphertexts_of_their_sets() {
    let mut pairs = 0;
    for set in SETS {
        let Some(Companion { set: other, noise_tenths }) = companion_of(set) else { continue };
        let key = |set: &ParameterSet| (set.torus, set.glwe_dimension, set.polynomial_size, set.glwe_noise);
        let plaintext = |set: &ParameterSet| (set.encoding, set.squared_noise_max, set.standing);
        assert_eq!((key(set), plaintext(set)), (key(other), plaintext(other)), "{}", set.name);
        assert_eq!([set.order, other.order], [Order::KeySwitchFirst; 2], "{}", set.name);
        assert!(set.grouping == 1 && other.grouping > 1 && companion_of(other).is_none(), "{}", set.name);
        assert_eq!(input_noise_tenths(set), noise_tenths);
        pairs += 1;
    }
    assert_eq!(pairs, 5);
}

#[test]
fn rows_agree_with_their_source_in_derived_sizes() {
    // Sizes in bytes from the facts sheet of tfhe-rs: expanded bootstrap key, expanded key-switch
    // key.
    let cases = [
        ("V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128", 60_162_048, 60_227_584),
        ("V1_8_PARAM_MESSAGE_2_CARRY_2_KS32_PBS_TUNIFORM_2M128", 60_162_048, 30_113_792),
        ("V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128", 241_172_480, 75_448_320),
        ("V1_8_HPU_PARAM_MESSAGE_2_CARRY_2_KS32_PBS_TUNIFORM_2M128", 57_606_144, 57_671_680),
        ("TFHE_LIB_PARAMETERS", 30_965_760, 20_676_608),
    ];
    for (name, bootstrap_bytes, key_switch_bytes) in cases {
        let set = by_name(name).expect(name);
        let word = if set.torus == TorusWidth::U64 { 8 } else { 4 };
        let small_word = if set.small_modulus_log2 > 32 { 8 } else { 4 };
        let ggsw = set.bootstrap.levels * set.glwe_size() * set.glwe_size() * set.polynomial_size * word;
        assert_eq!(set.ggsw_count() * ggsw, bootstrap_bytes, "{name}");
        let switch = set.big_dimension() * set.key_switch.levels * (set.lwe_dimension + 1) * small_word;
        assert_eq!(switch, key_switch_bytes, "{name}");
    }
}
