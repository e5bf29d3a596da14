//! The rows of the table.

use super::{CkksBootstrap, CkksSecurity, CkksSet};
use crate::set::{SetId, Standing};

/// Every CKKS set. Numbers are never reused: real sets start at 0x80, toys at 0xff80.
pub static CKKS_SETS: &[CkksSet] = &[
    chain_54(0x82, "CKKS_54_60_H4096").real(4096, 130.5, Standing::Served),
    chain_45_60_50(0x83, "CKKS_45_60_50_H4096").real(4096, 129.6, Standing::Served),
    chain_54(0x80, "CKKS_54_60").real(1024, 126.2, Standing::Retired("the best known attack costs 2^126.2")),
    chain_45_60_50(0x81, "CKKS_45_60_50").real(1024, 125.6, Standing::Retired("the best known attack costs 2^125.6")),
    chain_54(0xff80, "TOY_CKKS_54_60").toy(),
    chain_45_60_50(0xff81, "TOY_CKKS_45_60_50").toy(),
];

/// A set under construction; [`Row::real`] or [`Row::toy`] completes it.
struct Row(CkksSet);

/// All levels have primes of equal size, and a bootstrap begins at the highest level.
const fn chain_54(id: u16, name: &'static str) -> Row {
    Row(CkksSet {
        id: SetId(id),
        name,
        size_log2: 0,
        chain: CHAIN_54,
        special: SPECIAL_60,
        digit_sizes: &[4, 4, 4, 4, 4, 4, 3],
        scale_log2: 54,
        result_digits: 3,
        working_level: 26,
        secret_weight: 0,
        noise: NOISE,
        bootstrap: CkksBootstrap { sparse_security_log2: 147.5, doublings: 2, raised: [26; 5], ..SPARSE },
        security: CkksSecurity { log2: 0.0, model: "none: the ring is far too small" },
        standing: Standing::Toy,
        source: "bits of each prime as in the set CKKS_54_60_BOOTSTRAP of Desilo/fhe at 9b4ce45c; the primes next to them",
    })
}

/// Levels below a bootstrap have primes of 45 bits. Each matrix of a bootstrap takes a prime below
/// 2^50.
const fn chain_45_60_50(id: u16, name: &'static str) -> Row {
    let Row(base) = chain_54(id, name);
    Row(CkksSet {
        chain: CHAIN_45_60_50,
        special: SPECIAL_50,
        digit_sizes: &[6, 6, 5, 5, 5, 1],
        scale_log2: 45,
        result_digits: 4,
        working_level: 14,
        bootstrap: CkksBootstrap { sparse_security_log2: 152.2, doublings: 3, raised: [23, 24, 25, 26, 27], ..SPARSE },
        source: "our own: bits that each step needs, and primes below 2^50 where they are enough",
        ..base
    })
}

impl Row {
    /// The set over the ring of 2^16, with secrets of this weight.
    ///
    /// Divisions leave an error in a number that grows with the root of the weight. With a lower
    /// weight, an attacker who guesses zeros guesses more of them.
    const fn real(self, secret_weight: usize, security_log2: f64, standing: Standing) -> CkksSet {
        let security = CkksSecurity { log2: security_log2, model: ESTIMATED };
        CkksSet { size_log2: 16, secret_weight, security, standing, ..self.0 }
    }

    /// The set over a small ring. In proportion to a real ring, the weight would be below the
    /// weight of a bootstrap's sparse secret.
    const fn toy(self) -> CkksSet {
        let source = "made up for tests and simulators; protects nothing";
        let bootstrap = CkksBootstrap { sparse_security_log2: 0.0, ..self.0.bootstrap };
        CkksSet { size_log2: 10, secret_weight: (1 << 10) / 4, bootstrap, source, ..self.0 }
    }
}

/// Standard deviation in the guidelines.
const NOISE: f64 = 3.19;

/// Probability that the sum of 32 uniform numbers between -1/2 and 1/2 is beyond 15.5, on either
/// side: 2 / (2^32 32!).
const COEFFICIENT_FAILURE_LOG2: f64 = -148.66;

/// The sparse secret of a bootstrap. A chain adds its own levels, and the estimate for its primes.
const SPARSE: CkksBootstrap = CkksBootstrap {
    sparse_weight: 32,
    sparse_security_log2: 0.0,
    coefficient_failure_log2: COEFFICIENT_FAILURE_LOG2,
    doublings: 0,
    raised: [0; 5],
};

/// Attacks, cost model and tool. tests/estimates has each figure.
const ESTIMATED: &str = "least of primal uSVP, BDD, hybrid and drop-and-rotate, dual and dual hybrid attacks; MATZOV cost model, GSA shape; malb/lattice-estimator at 27a581bb";

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
