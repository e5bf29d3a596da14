//! Keys that our library generates, used by our library and by tfhe-rs.

use crate::common::{pair::Pair, *};

#[test]
fn keys_of_our_library_of_the_classical_set_2_2_work_in_both_libraries() {
    Pair::<u64>::made_by_us(CLASSICAL_2_2).check();
}

#[test]
fn keys_of_our_library_of_the_gaussian_set_2_2_work_in_both_libraries() {
    Pair::<u64>::made_by_us(GAUSSIAN_2_2).check();
}

#[test]
fn keys_of_our_library_with_a_key_switch_to_32_bits_work_in_both_libraries() {
    Pair::<u32>::made_by_us(KS32_2_2).check();
}

#[test]
fn keys_of_our_library_with_a_key_switch_to_21_bits_work_in_both_libraries() {
    Pair::<u32>::made_by_us(HPU_2_2).check();
}

#[test]
fn keys_of_our_library_of_the_classical_set_1_1_work_in_both_libraries() {
    Pair::<u64>::made_by_us(CLASSICAL_1_1).check();
}

#[test]
fn keys_of_our_library_with_multi_bit_groups_of_3_work_in_both_libraries() {
    Pair::<u64>::made_by_us(GROUP_3_2_2).check();
}

#[test]
fn keys_of_our_library_with_multi_bit_groups_of_4_work_in_both_libraries() {
    Pair::<u64>::made_by_us(GROUP_4_2_2).check();
    Pair::<u64>::made_by_us(GROUP_4_1_1_GAUSSIAN).check();
}
