//! The rows of the table. Figures are those of the source, except the security estimates and the
//! computed failure figures, which are ours.

use super::row::{boolean, gaussian, shortint, tuniform};
use crate::set::{Order, ParameterSet};

/// Every parameter set. Numbers are never reused: below 0x40 shortint, from 0x40 boolean, from
/// 0xff00 toys.
pub static SETS: &[ParameterSet] = &[
    // Classical sets for CPUs.
    shortint(1, "V1_8_PARAM_MESSAGE_1_CARRY_1_KS_PBS_TUNIFORM_2M128", V1_4_CLASSIC_TUNIFORM)
        .encoding(2, 2, 3)
        .lwe(879, tuniform(46))
        .glwe(4, 512, tuniform(17))
        .bootstrap(23, 1)
        .key_switch(5, 3)
        .failure(Some(-144.322), -146.746)
        .security(133.3, Some(134.3)),
    shortint(2, "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128", V1_4_CLASSIC_TUNIFORM)
        .encoding(4, 4, 5)
        .with_squared_noise_max(51)
        .lwe(918, tuniform(45))
        .glwe(1, 2048, tuniform(17))
        .bootstrap(23, 1)
        .key_switch(4, 4)
        .failure(Some(-129.581), -131.121)
        .security(133.2, Some(134.3)),
    shortint(3, "V1_8_PARAM_MESSAGE_3_CARRY_3_KS_PBS_TUNIFORM_2M128", V1_4_CLASSIC_TUNIFORM)
        .encoding(8, 8, 9)
        .lwe(1077, tuniform(41))
        .glwe(1, 8192, tuniform(3))
        .bootstrap(15, 2)
        .key_switch(4, 5)
        .failure(Some(-128.992), -130.887)
        .security(133.1, Some(478.7)),
    shortint(4, "V1_8_PARAM_MESSAGE_4_CARRY_4_KS_PBS_TUNIFORM_2M128", V1_4_CLASSIC_TUNIFORM)
        .encoding(16, 16, 17)
        .lwe(1117, tuniform(40))
        .glwe(1, 65536, tuniform(3))
        .bootstrap(11, 3)
        .key_switch(3, 7)
        .failure(Some(-141.559), -144.744)
        .security(133.2, None),
    shortint(5, "V1_8_PARAM_MESSAGE_1_CARRY_1_KS_PBS_GAUSSIAN_2M128", V1_4_CLASSIC_GAUSSIAN)
        .encoding(2, 2, 3)
        .lwe(837, gaussian(3.3747142481837397e-06))
        .glwe(4, 512, gaussian(2.845267479601915e-15))
        .bootstrap(23, 1)
        .key_switch(5, 3)
        .failure(Some(-128.186), -129.575)
        .security(130.7, Some(132.8)),
    shortint(6, "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_GAUSSIAN_2M128", V1_4_CLASSIC_GAUSSIAN)
        .encoding(4, 4, 5)
        .with_squared_noise_max(51)
        .lwe(866, gaussian(2.046151696979124e-06))
        .glwe(1, 2048, gaussian(2.845267479601915e-15))
        .bootstrap(23, 1)
        .key_switch(3, 5)
        .failure(Some(-128.597), -130.559)
        .security(130.8, Some(132.8)),
    shortint(7, "V1_8_PARAM_MESSAGE_3_CARRY_3_KS_PBS_GAUSSIAN_2M128", V1_4_CLASSIC_GAUSSIAN)
        .encoding(8, 8, 9)
        .lwe(1006, gaussian(1.8277101294215978e-07))
        .glwe(1, 8192, gaussian(2.168404344971009e-19))
        .bootstrap(15, 2)
        .key_switch(3, 7)
        .failure(Some(-128.115), -130.330)
        .security(131.1, Some(476.9)),
    shortint(8, "V1_8_PARAM_MESSAGE_4_CARRY_4_KS_PBS_GAUSSIAN_2M128", V1_4_CLASSIC_GAUSSIAN)
        .encoding(16, 16, 17)
        .lwe(1098, gaussian(3.73718341270979e-08))
        .glwe(1, 65536, gaussian(2.168404344971009e-19))
        .bootstrap(11, 3)
        .key_switch(3, 7)
        .failure(Some(-128.731), -131.764)
        .security(131.4, None),
    shortint(9, "V1_8_PARAM_MESSAGE_2_CARRY_2_KS32_PBS_TUNIFORM_2M128", V1_8_KS32_TUNIFORM)
        .encoding(4, 4, 5)
        .with_squared_noise_max(51)
        .small_modulus(32)
        .lwe(918, tuniform(13))
        .glwe(1, 2048, tuniform(17))
        .bootstrap(23, 1)
        .key_switch(4, 4)
        .failure(Some(-129.581), -131.121)
        .security(133.2, Some(134.3)),
    // Classical sets for GPUs.
    shortint(10, "V1_8_PARAM_GPU_MESSAGE_1_CARRY_1_KS_PBS_TUNIFORM_2M128", V1_8_CLASSIC_GPU_TUNIFORM)
        .encoding(2, 2, 3)
        .lwe(759, tuniform(49))
        .glwe(1, 2048, tuniform(17))
        .bootstrap(23, 1)
        .key_switch(3, 4)
        .failure(Some(-144.851), -147.979)
        .security(133.3, Some(134.3)),
    shortint(11, "V1_8_PARAM_GPU_MESSAGE_1_CARRY_1_KS_PBS_GAUSSIAN_2M128", V1_8_CLASSIC_GPU_GAUSSIAN)
        .encoding(2, 2, 3)
        .lwe(737, gaussian(1.894717698310226e-05))
        .glwe(1, 2048, gaussian(2.845267479601874e-15))
        .bootstrap(23, 1)
        .key_switch(3, 4)
        .failure(Some(-131.084), -133.764)
        .security(130.3, Some(132.8)),
    // Sets for the HPU.
    shortint(12, "V1_8_HPU_PARAM_MESSAGE_2_CARRY_2_KS32_PBS_TUNIFORM_2M128", HPU)
        .encoding(4, 4, 5)
        .with_squared_noise_max(51)
        .small_modulus(21)
        .lwe(879, tuniform(3))
        .glwe(1, 2048, tuniform(17))
        .bootstrap(23, 1)
        .key_switch(2, 8)
        .failure(Some(-128.0), -147.755)
        .security(133.3, Some(134.3)),
    // Multi-bit sets.
    shortint(32, "V1_8_PARAM_GPU_MULTI_BIT_GROUP_2_MESSAGE_1_CARRY_1_KS_PBS_TUNIFORM_2M128", V1_1_MULTI_BIT_TUNIFORM)
        .encoding(2, 2, 3)
        .multi_bit(2)
        .lwe(800, tuniform(48))
        .glwe(2, 1024, tuniform(17))
        .bootstrap(22, 1)
        .key_switch(4, 3)
        .failure(Some(-136.056), -136.624)
        .security(133.4, Some(134.3)),
    shortint(33, "V1_8_PARAM_GPU_MULTI_BIT_GROUP_2_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128", V1_1_MULTI_BIT_TUNIFORM)
        .encoding(4, 4, 5)
        .with_squared_noise_max(38)
        .multi_bit(2)
        .lwe(918, tuniform(45))
        .glwe(1, 4096, tuniform(3))
        .bootstrap(21, 1)
        .key_switch(3, 5)
        .failure(Some(-140.341), -155.364)
        .security(133.2, Some(218.7)),
    shortint(34, "V1_8_PARAM_GPU_MULTI_BIT_GROUP_2_MESSAGE_3_CARRY_3_KS_PBS_TUNIFORM_2M128", V1_1_MULTI_BIT_TUNIFORM)
        .encoding(8, 8, 9)
        .multi_bit(2)
        .lwe(998, tuniform(43))
        .glwe(1, 16384, tuniform(3))
        .bootstrap(14, 2)
        .key_switch(3, 6)
        .failure(Some(-135.674), -143.543)
        .security(133.3, None),
    shortint(35, "V1_8_PARAM_GPU_MULTI_BIT_GROUP_3_MESSAGE_1_CARRY_1_KS_PBS_TUNIFORM_2M128", V1_1_MULTI_BIT_TUNIFORM)
        .encoding(2, 2, 3)
        .multi_bit(3)
        .lwe(918, tuniform(45))
        .glwe(4, 512, tuniform(17))
        .bootstrap(22, 1)
        .key_switch(5, 3)
        .failure(Some(-131.536), -136.757)
        .security(133.2, Some(134.3)),
    shortint(36, "V1_8_PARAM_GPU_MULTI_BIT_GROUP_3_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128", V1_1_MULTI_BIT_TUNIFORM)
        .encoding(4, 4, 5)
        .with_squared_noise_max(51)
        .multi_bit(3)
        .lwe(879, tuniform(46))
        .glwe(1, 2048, tuniform(17))
        .bootstrap(14, 2)
        .key_switch(2, 8)
        .failure(Some(-128.29), -134.035)
        .security(133.3, Some(134.3)),
    shortint(37, "V1_8_PARAM_GPU_MULTI_BIT_GROUP_3_MESSAGE_3_CARRY_3_KS_PBS_TUNIFORM_2M128", V1_1_MULTI_BIT_TUNIFORM)
        .encoding(8, 8, 9)
        .multi_bit(3)
        .lwe(999, tuniform(43))
        .glwe(1, 16384, tuniform(3))
        .bootstrap(14, 2)
        .key_switch(3, 6)
        .failure(Some(-147.007), -156.539)
        .security(133.4, None),
    shortint(38, "V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_1_CARRY_1_KS_PBS_TUNIFORM_2M128", V1_4_MULTI_BIT_TUNIFORM)
        .encoding(2, 2, 3)
        .multi_bit(4)
        .lwe(760, tuniform(49))
        .glwe(1, 2048, tuniform(17))
        .bootstrap(22, 1)
        .key_switch(3, 4)
        .failure(Some(-145.02), -148.304)
        .security(133.5, Some(134.3)),
    shortint(39, "V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128", V1_1_MULTI_BIT_TUNIFORM)
        .encoding(4, 4, 5)
        .with_squared_noise_max(51)
        .multi_bit(4)
        .lwe(920, tuniform(45))
        .glwe(1, 2048, tuniform(17))
        .bootstrap(22, 1)
        .key_switch(3, 5)
        .failure(Some(-134.345), -151.577)
        .security(133.4, Some(134.3)),
    shortint(40, "V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_3_CARRY_3_KS_PBS_TUNIFORM_2M128", V1_1_MULTI_BIT_TUNIFORM)
        .encoding(8, 8, 9)
        .multi_bit(4)
        .lwe(1040, tuniform(42))
        .glwe(1, 8192, tuniform(3))
        .bootstrap(14, 2)
        .key_switch(3, 6)
        .failure(Some(-130.951), -137.942)
        .security(133.5, Some(478.7)),
    shortint(41, "V1_8_PARAM_GPU_MULTI_BIT_GROUP_2_MESSAGE_1_CARRY_1_KS_PBS_GAUSSIAN_2M128", V1_1_MULTI_BIT_GAUSSIAN)
        .encoding(2, 2, 3)
        .multi_bit(2)
        .lwe(746, gaussian(1.622209110889238e-05))
        .glwe(2, 1024, gaussian(2.845267479601915e-15))
        .bootstrap(22, 1)
        .key_switch(3, 4)
        .failure(Some(-128.997), -131.012)
        .security(130.4, Some(132.8)),
    shortint(42, "V1_8_PARAM_GPU_MULTI_BIT_GROUP_2_MESSAGE_2_CARRY_2_KS_PBS_GAUSSIAN_2M128", V1_1_MULTI_BIT_GAUSSIAN)
        .encoding(4, 4, 5)
        .with_squared_noise_max(31)
        .multi_bit(2)
        .lwe(904, gaussian(1.0621869847945622e-06))
        .glwe(1, 4096, gaussian(2.168404344971009e-19))
        .bootstrap(21, 1)
        .key_switch(4, 4)
        .failure(Some(-128.138), -140.053)
        .security(130.9, Some(218.0)),
    shortint(43, "V1_8_PARAM_GPU_MULTI_BIT_GROUP_2_MESSAGE_3_CARRY_3_KS_PBS_GAUSSIAN_2M128", V1_1_MULTI_BIT_GAUSSIAN)
        .encoding(8, 8, 9)
        .multi_bit(2)
        .lwe(980, gaussian(2.862379879879129e-07))
        .glwe(1, 16384, gaussian(2.168404344971009e-19))
        .bootstrap(14, 2)
        .key_switch(3, 6)
        .failure(Some(-131.491), -138.907)
        .security(131.1, None),
    shortint(44, "V1_8_PARAM_GPU_MULTI_BIT_GROUP_3_MESSAGE_1_CARRY_1_KS_PBS_GAUSSIAN_2M128", V1_1_MULTI_BIT_GAUSSIAN)
        .encoding(2, 2, 3)
        .multi_bit(3)
        .lwe(783, gaussian(8.56767647590072e-06))
        .glwe(4, 512, gaussian(2.845267479601915e-15))
        .bootstrap(22, 1)
        .key_switch(3, 5)
        .failure(Some(-129.466), -134.241)
        .security(130.5, Some(132.8)),
    shortint(45, "V1_8_PARAM_GPU_MULTI_BIT_GROUP_3_MESSAGE_2_CARRY_2_KS_PBS_GAUSSIAN_2M128", V1_1_MULTI_BIT_GAUSSIAN)
        .encoding(4, 4, 5)
        .with_squared_noise_max(51)
        .multi_bit(3)
        .lwe(855, gaussian(2.4737833030723735e-06))
        .glwe(1, 2048, gaussian(2.845267479601915e-15))
        .bootstrap(15, 2)
        .key_switch(2, 8)
        .failure(Some(-128.606), -134.641)
        .security(130.8, Some(132.8)),
    shortint(46, "V1_8_PARAM_GPU_MULTI_BIT_GROUP_3_MESSAGE_3_CARRY_3_KS_PBS_GAUSSIAN_2M128", V1_1_MULTI_BIT_GAUSSIAN)
        .encoding(8, 8, 9)
        .multi_bit(3)
        .lwe(975, gaussian(3.1202733787911553e-07))
        .glwe(1, 16384, gaussian(2.168404344971009e-19))
        .bootstrap(14, 2)
        .key_switch(3, 6)
        .failure(Some(-129.012), -136.604)
        .security(131.1, None),
    shortint(47, "V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_1_CARRY_1_KS_PBS_GAUSSIAN_2M128", V1_4_MULTI_BIT_GAUSSIAN)
        .encoding(2, 2, 3)
        .multi_bit(4)
        .lwe(736, gaussian(1.9276917419403266e-05))
        .glwe(1, 2048, gaussian(2.845267479601915e-15))
        .bootstrap(22, 1)
        .key_switch(3, 4)
        .failure(Some(-128.034), -130.788)
        .security(130.3, Some(132.8)),
    shortint(48, "V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2_KS_PBS_GAUSSIAN_2M128", V1_1_MULTI_BIT_GAUSSIAN)
        .encoding(4, 4, 5)
        .with_squared_noise_max(51)
        .multi_bit(4)
        .lwe(872, gaussian(1.844927811696596e-06))
        .glwe(1, 2048, gaussian(2.845267479601915e-15))
        .bootstrap(22, 1)
        .key_switch(3, 5)
        .failure(Some(-129.112), -143.616)
        .security(130.8, Some(132.8)),
    shortint(49, "V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_3_CARRY_3_KS_PBS_GAUSSIAN_2M128", V1_1_MULTI_BIT_GAUSSIAN)
        .encoding(8, 8, 9)
        .multi_bit(4)
        .lwe(1004, gaussian(1.8918794894970598e-07))
        .glwe(1, 8192, gaussian(2.168404344971009e-19))
        .bootstrap(14, 2)
        .key_switch(3, 6)
        .failure(Some(-128.201), -134.549)
        .security(131.1, Some(476.9)),
    // Boolean sets.
    boolean(64, "DEFAULT_PARAMETERS", Order::BootstrapFirst, BOOLEAN)
        .lwe(805, gaussian(5.8615896642671336e-06))
        .glwe(3, 512, gaussian(9.315272083503367e-10))
        .bootstrap(10, 2)
        .key_switch(3, 5)
        .weak("published with one failure in 2^64 bootstraps")
        .failure(Some(-64.344), -247.107)
        .security(130.6, Some(154.9)),
    boolean(65, "DEFAULT_PARAMETERS_KS_PBS", Order::KeySwitchFirst, BOOLEAN)
        .lwe(739, gaussian(1.8304520733507305e-05))
        .glwe(3, 512, gaussian(9.315272083503367e-10))
        .bootstrap(10, 2)
        .key_switch(3, 4)
        .weak("published with one failure in 2^64 bootstraps")
        .failure(Some(-64.017), -245.691)
        .security(130.3, Some(154.9)),
    boolean(66, "PARAMETERS_ERROR_PROB_2_POW_MINUS_165", Order::BootstrapFirst, BOOLEAN)
        .lwe(837, gaussian(3.374714376692653e-06))
        .glwe(2, 1024, gaussian(9.313225746198247e-10))
        .bootstrap(10, 2)
        .key_switch(3, 5)
        .failure(Some(-165.434), -649.482)
        .security(130.7, Some(209.6)),
    boolean(67, "PARAMETERS_ERROR_PROB_2_POW_MINUS_165_KS_PBS", Order::KeySwitchFirst, BOOLEAN)
        .lwe(770, gaussian(1.0721931696480342e-05))
        .glwe(2, 1024, gaussian(9.313225746198247e-10))
        .bootstrap(10, 2)
        .key_switch(3, 5)
        .failure(Some(-166.826), -655.517)
        .security(130.5, Some(209.6)),
    boolean(68, "TFHE_LIB_PARAMETERS", Order::BootstrapFirst, BOOLEAN_LIB)
        .lwe(630, gaussian(3.0517578125e-05))
        .glwe(1, 1024, gaussian(2.980232238769531e-08))
        .bootstrap(7, 3)
        .key_switch(2, 8)
        .weak("below 128-bit security; fails once in 2^94 bootstraps at worst")
        .failure(None, -94.319)
        .security(116.4, Some(121.1)),
    // Toys. The rounding in the modulus switch alone can never reach the half box, and the noise is
    // far below it.
    shortint(0xff00, "TOY_MESSAGE_2_CARRY_2", TOY)
        .with_squared_noise_max(51)
        .lwe(16, tuniform(40))
        .glwe(1, 256, tuniform(17))
        .bootstrap(23, 1)
        .key_switch(5, 4)
        .toy(),
    shortint(0xff01, "TOY_MESSAGE_2_CARRY_2_KS32", TOY)
        .with_squared_noise_max(51)
        .small_modulus(21)
        .lwe(16, tuniform(1))
        .glwe(1, 256, tuniform(17))
        .bootstrap(23, 1)
        .key_switch(2, 7)
        .toy(),
    shortint(0xff02, "TOY_MULTI_BIT_GROUP_2_MESSAGE_2_CARRY_2", TOY)
        .with_squared_noise_max(51)
        .multi_bit(2)
        .lwe(12, tuniform(40))
        .glwe(1, 512, tuniform(17))
        .bootstrap(22, 1)
        .key_switch(5, 4)
        .toy(),
    shortint(0xff03, "TOY_MULTI_BIT_GROUP_3_MESSAGE_2_CARRY_2", TOY)
        .with_squared_noise_max(51)
        .multi_bit(3)
        .lwe(12, tuniform(40))
        .glwe(1, 512, tuniform(17))
        .bootstrap(14, 2)
        .key_switch(5, 4)
        .toy(),
    shortint(0xff04, "TOY_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2", TOY)
        .with_squared_noise_max(51)
        .multi_bit(4)
        .lwe(12, tuniform(40))
        .glwe(1, 512, tuniform(17))
        .bootstrap(22, 1)
        .key_switch(5, 4)
        .toy(),
    boolean(0xff05, "TOY_BOOLEAN", Order::BootstrapFirst, TOY)
        .lwe(16, gaussian(1e-6))
        .glwe(2, 64, gaussian(1e-8))
        .bootstrap(10, 2)
        .key_switch(3, 5)
        .toy(),
    boolean(0xff06, "TOY_BOOLEAN_KS_PBS", Order::KeySwitchFirst, TOY)
        .lwe(16, gaussian(1e-6))
        .glwe(2, 64, gaussian(1e-8))
        .bootstrap(10, 2)
        .key_switch(3, 5)
        .toy(),
    // Polynomials are as long as in real sets, so that their transforms take equal passes over the
    // widest vectors.
    shortint(0xff07, "TOY_MESSAGE_2_CARRY_2_N2048", TOY)
        .with_squared_noise_max(51)
        .lwe(4, tuniform(40))
        .glwe(1, 2048, tuniform(17))
        .bootstrap(23, 1)
        .key_switch(5, 4)
        .toy(),
    boolean(0xff08, "TOY_BOOLEAN_KS_PBS_N1024", Order::KeySwitchFirst, TOY)
        .lwe(4, gaussian(1e-6))
        .glwe(1, 1024, gaussian(1e-9))
        .bootstrap(7, 3)
        .key_switch(3, 5)
        .toy(),
    shortint(0xff09, "TOY_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2_N2048", TOY)
        .with_squared_noise_max(51)
        .multi_bit(4)
        .lwe(8, tuniform(40))
        .glwe(1, 2048, tuniform(17))
        .bootstrap(22, 1)
        .key_switch(5, 4)
        .toy(),
];

const BOOLEAN: &str = "tfhe-rs 1.8.2, src/boolean/parameters/params.rs";
const BOOLEAN_LIB: &str = "tfhe-rs 1.8.2, src/boolean/parameters/mod.rs";
const HPU: &str = "tfhe-rs 1.8.2, src/shortint/parameters/v1_8/hpu.rs";
const V1_1_MULTI_BIT_GAUSSIAN: &str =
    "tfhe-rs 1.8.2, src/shortint/parameters/v1_1/multi_bit/gaussian/p_fail_2_minus_128/ks_pbs_gpu.rs";
const V1_1_MULTI_BIT_TUNIFORM: &str =
    "tfhe-rs 1.8.2, src/shortint/parameters/v1_1/multi_bit/tuniform/p_fail_2_minus_128/ks_pbs_gpu.rs";
const V1_4_CLASSIC_GAUSSIAN: &str =
    "tfhe-rs 1.8.2, src/shortint/parameters/v1_4/classic/gaussian/p_fail_2_minus_128/ks_pbs.rs";
const V1_4_CLASSIC_TUNIFORM: &str =
    "tfhe-rs 1.8.2, src/shortint/parameters/v1_4/classic/tuniform/p_fail_2_minus_128/ks_pbs.rs";
const V1_4_MULTI_BIT_GAUSSIAN: &str =
    "tfhe-rs 1.8.2, src/shortint/parameters/v1_4/multi_bit/gaussian/p_fail_2_minus_128/ks_pbs_gpu.rs";
const V1_4_MULTI_BIT_TUNIFORM: &str =
    "tfhe-rs 1.8.2, src/shortint/parameters/v1_4/multi_bit/tuniform/p_fail_2_minus_128/ks_pbs_gpu.rs";
const V1_8_CLASSIC_GPU_GAUSSIAN: &str =
    "tfhe-rs 1.8.2, src/shortint/parameters/v1_8/classic/gaussian/p_fail_2_minus_128/ks_pbs_gpu.rs";
const V1_8_CLASSIC_GPU_TUNIFORM: &str =
    "tfhe-rs 1.8.2, src/shortint/parameters/v1_8/classic/tuniform/p_fail_2_minus_128/ks_pbs_gpu.rs";
const V1_8_KS32_TUNIFORM: &str =
    "tfhe-rs 1.8.2, src/shortint/parameters/v1_8/ks32/tuniform/p_fail_2_minus_128/ks_pbs.rs";
const TOY: &str = "made up for tests and simulators; protects nothing";
