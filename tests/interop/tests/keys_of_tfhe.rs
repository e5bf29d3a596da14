//! Keys that tfhe-rs generates, used by our library and by tfhe-rs.

#![allow(clippy::unwrap_used)]

mod common;

use common::{pair::Pair, *};

#[test]
fn classical_2_2() {
    Pair::<u64>::made_by_tfhe(CLASSICAL_2_2).check();
}

#[test]
fn gaussian_2_2() {
    Pair::<u64>::made_by_tfhe(GAUSSIAN_2_2).check();
}

#[test]
fn key_switch_to_32_bits() {
    Pair::<u32>::made_by_tfhe(KS32_2_2).check();
}

#[test]
fn key_switch_to_21_bits() {
    Pair::<u32>::made_by_tfhe(HPU_2_2).check();
}

#[test]
fn classical_1_1() {
    Pair::<u64>::made_by_tfhe(CLASSICAL_1_1).check();
}

#[test]
fn groups_of_3() {
    Pair::<u64>::made_by_tfhe(GROUP_3_2_2).check();
}

#[test]
fn groups_of_4() {
    Pair::<u64>::made_by_tfhe(GROUP_4_2_2).check();
}
