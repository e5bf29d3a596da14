//! The rows of the table.

use super::{CkksBootstrap, CkksSecurity, CkksSet};
use crate::set::{SetId, Standing};

/// Every CKKS set. Numbers are never reused: served sets start at 0x80, toys at 0xff80.
pub static CKKS_SETS: &[CkksSet] = &[
    CkksSet {
        id: SetId(0x80),
        name: "CKKS_54_60",
        size_log2: 16,
        chain: CHAIN_54,
        special: SPECIAL_60,
        digit_sizes: &[4, 4, 4, 4, 4, 4, 3],
        scale_log2: 54,
        working_level: 26,
        secret_weight: SECRET_WEIGHT,
        noise: NOISE,
        bootstrap: BOOTSTRAP_54,
        security: CkksSecurity { log2: 131.2, model: ESTIMATED },
        standing: Standing::Served,
        source: "bits of each prime as in the set CKKS_54_60_BOOTSTRAP of Desilo/fhe at 9b4ce45c; the primes next to them",
    },
    CkksSet {
        id: SetId(0x81),
        name: "CKKS_45_60_50",
        size_log2: 16,
        chain: CHAIN_45_60_50,
        special: SPECIAL_50,
        digit_sizes: &[6, 6, 5, 5, 5, 1],
        scale_log2: 45,
        working_level: 14,
        secret_weight: SECRET_WEIGHT,
        noise: NOISE,
        bootstrap: BOOTSTRAP_45_60_50,
        security: CkksSecurity { log2: 130.4, model: ESTIMATED },
        standing: Standing::Served,
        source: "our own: bits that each step needs, and primes below 2^50 where they are enough",
    },
    toy(0xff80, "TOY_CKKS_54_60", CHAIN_54, SPECIAL_60, &[4, 4, 4, 4, 4, 4, 3], 54, 26, BOOTSTRAP_54),
    toy(0xff81, "TOY_CKKS_45_60_50", CHAIN_45_60_50, SPECIAL_50, &[6, 6, 5, 5, 5, 1], 45, 14, BOOTSTRAP_45_60_50),
];

/// Nonzero coefficients of 2^16. Divisions leave an error in a number that is 2.7 bits lower than
/// with 2/3 of all coefficients. Guessing zero coefficients does not pay for an attacker: lattice
/// reduction alone costs less.
const SECRET_WEIGHT: usize = 1024;

/// Standard deviation in the guidelines.
const NOISE: f64 = 3.19;

/// log2 of the coefficients of a toy.
const TOY_SIZE_LOG2: u32 = 10;

/// The chain of a real set over a small ring.
const fn toy(
    id: u16,
    name: &'static str,
    chain: &'static [u64],
    special: &'static [u64],
    digit_sizes: &'static [usize],
    scale_log2: u32,
    working_level: usize,
    bootstrap: CkksBootstrap,
) -> CkksSet {
    CkksSet {
        id: SetId(id),
        name,
        size_log2: TOY_SIZE_LOG2,
        chain,
        special,
        digit_sizes,
        scale_log2,
        working_level,
        // In proportion to a real ring, the weight would be below the weight of a bootstrap's
        // sparse secret.
        secret_weight: (1 << TOY_SIZE_LOG2) / 4,
        noise: NOISE,
        bootstrap,
        security: CkksSecurity { log2: 0.0, model: "none: the ring is far too small" },
        standing: Standing::Toy,
        source: "made up for tests and simulators; protects nothing",
    }
}

/// Estimate for weight 32 modulo 121 bits, which is more than any set has there. The cheapest of
/// those attacks is a dual hybrid attack with meet-in-the-middle.
const SPARSE_SECURITY_LOG2: f64 = 163.5;

/// Probability that the sum of 32 uniform numbers between -1/2 and 1/2 is beyond 15.5, on either
/// side: 2 / (2^32 32!).
const COEFFICIENT_FAILURE_LOG2: f64 = -148.66;

/// All levels have primes of equal size, and a bootstrap begins at the highest level.
const BOOTSTRAP_54: CkksBootstrap = CkksBootstrap {
    sparse_weight: 32,
    sparse_security_log2: SPARSE_SECURITY_LOG2,
    coefficient_failure_log2: COEFFICIENT_FAILURE_LOG2,
    doublings: 2,
    raised: [26; 5],
};

/// Each matrix takes a prime below 2^50.
const BOOTSTRAP_45_60_50: CkksBootstrap = CkksBootstrap {
    sparse_weight: 32,
    sparse_security_log2: SPARSE_SECURITY_LOG2,
    coefficient_failure_log2: COEFFICIENT_FAILURE_LOG2,
    doublings: 3,
    raised: [23, 24, 25, 26, 27],
};

/// The cheapest of the attacks that docs/ckks.md estimates.
const ESTIMATED: &str = "primal uSVP, the cheapest of primal uSVP and hybrid, dual and dual hybrid attacks; MATZOV cost model, GSA shape; malb/lattice-estimator at 27a581bb";

/// One prime of 60 bits, and 26 next to 2^54.
const CHAIN_54: &[u64] = &[
    0xfff_ffff_fffc_0001,
    0x40_0000_0012_0001,
    0x3f_ffff_ffd6_0001,
    0x40_0000_002c_0001,
    0x3f_ffff_ffca_0001,
    0x40_0000_0048_0001,
    0x40_0000_0054_0001,
    0x40_0000_005c_0001,
    0x40_0000_006c_0001,
    0x40_0000_00b0_0001,
    0x3f_ffff_ff36_0001,
    0x3f_ffff_ff2a_0001,
    0x40_0000_00e4_0001,
    0x40_0000_00f6_0001,
    0x3f_ffff_ff00_0001,
    0x3f_ffff_fefa_0001,
    0x40_0000_010a_0001,
    0x3f_ffff_fef4_0001,
    0x40_0000_011a_0001,
    0x40_0000_0120_0001,
    0x40_0000_0134_0001,
    0x3f_ffff_feaa_0001,
    0x3f_ffff_fe92_0001,
    0x40_0000_017a_0001,
    0x3f_ffff_fe80_0001,
    0x40_0000_01c4_0001,
    0x40_0000_01ca_0001,
];

const SPECIAL_60: &[u64] = &[0x1000_0000_006e_0001, 0xfff_ffff_ff84_0001, 0x1000_0000_0086_0001, 0xfff_ffff_ff6a_0001];

/// One prime next to 2^53, 14 next to 2^45, eight next to 2^60, five below 2^50.
const CHAIN_45_60_50: &[u64] = &[
    0x20_0000_000e_0001,
    0x2000_000a_0001,
    0x2000_000e_0001,
    0x1fff_ffc2_0001,
    0x2000_0044_0001,
    0x2000_0050_0001,
    0x2000_0062_0001,
    0x1fff_ff98_0001,
    0x2000_006a_0001,
    0x1fff_ff7e_0001,
    0x2000_0086_0001,
    0x2000_00a6_0001,
    0x2000_00aa_0001,
    0x2000_00b2_0001,
    0x2000_00c8_0001,
    0xfff_ffff_fffc_0001,
    0x1000_0000_006e_0001,
    0xfff_ffff_ff84_0001,
    0x1000_0000_0086_0001,
    0xfff_ffff_ff6a_0001,
    0x1000_0000_0098_0001,
    0xfff_ffff_ff5a_0001,
    0x1000_0000_00b0_0001,
    0x3_ffff_ffd2_0001,
    0x3_ffff_ffb8_0001,
    0x3_ffff_fed6_0001,
    0x3_ffff_fec8_0001,
    0x3_ffff_febe_0001,
];

const SPECIAL_50: &[u64] = &[
    0x3_ffff_fea6_0001,
    0x3_ffff_fea4_0001,
    0x3_ffff_fe9e_0001,
    0x3_ffff_fe9a_0001,
    0x3_ffff_fe94_0001,
    0x3_ffff_fe62_0001,
];
