//! Keys that tfhe-rs generates, used by our library and by tfhe-rs.

use crate::common::{pair::Pair, *};

#[test]
fn keys_of_tfhe_rs_of_the_classical_set_2_2_work_in_both_libraries() {
    Pair::<u64>::made_by_tfhe(CLASSICAL_2_2).check();
}

#[test]
fn keys_of_tfhe_rs_of_the_gaussian_set_2_2_work_in_both_libraries() {
    Pair::<u64>::made_by_tfhe(GAUSSIAN_2_2).check();
}

#[test]
fn keys_of_tfhe_rs_with_a_key_switch_to_32_bits_work_in_both_libraries() {
    Pair::<u32>::made_by_tfhe(KS32_2_2).check();
}

#[test]
fn keys_of_tfhe_rs_with_a_key_switch_to_21_bits_work_in_both_libraries() {
    Pair::<u32>::made_by_tfhe(HPU_2_2).check();
}

#[test]
fn keys_of_tfhe_rs_of_the_classical_set_1_1_work_in_both_libraries() {
    Pair::<u64>::made_by_tfhe(CLASSICAL_1_1).check();
}

#[test]
fn keys_of_tfhe_rs_with_multi_bit_groups_of_3_work_in_both_libraries() {
    Pair::<u64>::made_by_tfhe(GROUP_3_2_2).check();
}

#[test]
fn keys_of_tfhe_rs_with_multi_bit_groups_of_4_work_in_both_libraries() {
    Pair::<u64>::made_by_tfhe(GROUP_4_2_2).check();
}
