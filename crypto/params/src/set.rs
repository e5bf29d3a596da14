//! Definition of a parameter set.

/// A stable number for a set, as written in every envelope. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SetId(pub u16);

/// Every number that a TFHE computation needs, with its provenance. Sets exist only as rows of
/// [`crate::table::SETS`]. Code passes `&'static ParameterSet` around.
#[derive(Debug, PartialEq)]
pub struct ParameterSet {
    /// Stable number, as on the wire.
    pub id: SetId,
    /// Name of the set, as in tfhe-rs if the set comes from there.
    pub name: &'static str,
    /// Word type of ciphertexts under the big key.
    pub torus: TorusWidth,
    /// n: length of the small key.
    pub lwe_dimension: usize,
    /// k: mask polynomials of a GLWE ciphertext.
    pub glwe_dimension: usize,
    /// N: coefficients of a polynomial.
    pub polynomial_size: usize,
    /// Noise of ciphertexts under the small key.
    pub lwe_noise: Noise,
    /// Noise of ciphertexts under the big key.
    pub glwe_noise: Noise,
    /// Gadget of the bootstrap key.
    pub bootstrap: Decomposition,
    /// Gadget of the key-switch key.
    pub key_switch: Decomposition,
    /// Order of key switch and bootstrap, which defines the key of ciphertexts between operations.
    pub order: Order,
    /// log2 of the modulus after the key switch: 64, 32, or 21 (kept in the top bits of a 32-bit
    /// word).
    pub small_modulus_log2: u32,
    /// Rounding of the modulus switch.
    pub modulus_switch: ModulusSwitch,
    /// Secret bits in each blind-rotation step: 1 is the classical bootstrap, 2 to 4 are multi-bit.
    pub grouping: usize,
    /// Encoding of plaintexts.
    pub encoding: Encoding,
    /// Largest variance at the input of a bootstrap, in multiples of the variance of a bootstrap's
    /// result. Programs that account for each sum use this limit. The limit is at least the square
    /// of the largest noise level, and no higher than any lowering needs.
    pub squared_noise_max: u64,
    /// Failure probability of one key switch and bootstrap at the largest allowed noise.
    pub failure: FailureProbability,
    /// Cost of the best known attack.
    pub security: Security,
    /// Whether a server may use the set without an explicit permission for weak sets.
    pub standing: Standing,
    /// Source of the numbers.
    pub source: &'static str,
}

/// Width of a torus word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TorusWidth {
    /// 2^32.
    U32,
    /// 2^64.
    U64,
}

impl TorusWidth {
    /// Bits of a word.
    pub const fn bits(self) -> u32 {
        match self {
            Self::U32 => 32,
            Self::U64 => 64,
        }
    }
}

/// Bits of the narrowest word that a modulus of 2^`modulus_log2` fits.
pub const fn word_bits(modulus_log2: u32) -> u32 {
    if modulus_log2 > u32::BITS { u64::BITS } else { u32::BITS }
}

/// An error distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    /// Centred normal distribution. The standard deviation is a fraction of the modulus.
    Gaussian {
        /// Standard deviation over the modulus.
        std_dev: f64,
    },
    /// Uniform on [-2^b, 2^b] with half weight on both ends, in units of the modulus' least step.
    TUniform {
        /// b.
        bound_log2: u32,
    },
}

/// A gadget: `levels` digits in base 2^`base_log`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decomposition {
    /// log2 of the base.
    pub base_log: u32,
    /// Number of digits.
    pub levels: usize,
}

/// Order of the two halves of a bootstrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Key switch, then bootstrap: ciphertexts between operations are under the big key.
    KeySwitchFirst,
    /// Bootstrap, then key switch: ciphertexts between operations are under the small key.
    BootstrapFirst,
}

/// Rounding of the modulus switch to 2N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModulusSwitch {
    /// Each word is rounded to the nearest step.
    Plain,
    /// Like plain, with the expected rounding error of the mask subtracted from the body.
    CenteredMean,
}

/// The plaintext type and its position in the torus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// One padding bit, carry, message, from the top bit down.
    Shortint {
        /// Number of messages.
        message_modulus: u64,
        /// Number of carries.
        carry_modulus: u64,
        /// Largest noise level, in multiples of a fresh bootstrap output's standard deviation,
        /// that a ciphertext may have when it enters a bootstrap.
        max_noise_level: u64,
    },
    /// True is 1/8, false is -1/8.
    Boolean,
}

/// log2 of the probability that one bootstrap at the largest allowed noise decrypts wrongly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailureProbability {
    /// The published figure, absent if the source states none.
    pub published_log2: Option<f64>,
    /// The figure by our formula, including the rounding error of our transform.
    pub computed_log2: f64,
}

/// log2 of the cost of the best attack, per key, and the provenance of the estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Security {
    /// Cost for the small key.
    pub lwe_log2: f64,
    /// Cost for the big key, absent if the estimator found no finite attack.
    pub glwe_log2: Option<f64>,
    /// Attack and cost model behind both figures.
    pub model: &'static str,
}

/// Permission of servers to use a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// At least 128-bit security and failure at most 2^-128.
    Served,
    /// Served until an attack was found that costs less than 2^128. The text states the cost.
    /// Stored keys still compute, so that their owners can move to another set. New keys need a
    /// permission.
    Retired(&'static str),
    /// Below one of the two bounds, which the text names.
    Weak(&'static str),
    /// For tests and simulators only. The set protects nothing.
    Toy,
}

impl Standing {
    /// Whether a server takes new keys of the set.
    pub fn takes_keys(self, allow_weak_sets: bool) -> bool {
        self == Self::Served || allow_weak_sets
    }

    /// Whether a server computes with stored keys of the set.
    pub fn computes(self, allow_weak_sets: bool) -> bool {
        matches!(self, Self::Served | Self::Retired(_)) || allow_weak_sets
    }

    /// Reason not to make keys of the set, if there is one.
    pub const fn weakness(self) -> Option<&'static str> {
        match self {
            Self::Served => None,
            Self::Retired(reason) | Self::Weak(reason) => Some(reason),
            Self::Toy => Some("for tests; protects nothing"),
        }
    }
}

impl ParameterSet {
    /// Length of the big key, k N.
    pub const fn big_dimension(&self) -> usize {
        self.glwe_dimension * self.polynomial_size
    }

    /// Length of the key of ciphertexts between operations.
    pub const fn input_dimension(&self) -> usize {
        match self.order {
            Order::KeySwitchFirst => self.big_dimension(),
            Order::BootstrapFirst => self.lwe_dimension,
        }
    }

    /// Bytes of a ciphertext between operations, mask and body.
    pub const fn ciphertext_bytes(&self) -> u64 {
        (self.input_dimension() as u64 + 1) * (self.torus.bits() / 8) as u64
    }

    /// Bits of a word of a ciphertext under the small key.
    pub const fn small_word_bits(&self) -> u32 {
        word_bits(self.small_modulus_log2)
    }

    /// Distance between two plaintexts of a block, in units of 2^-64 of the torus. For booleans,
    /// the distance between true and zero.
    pub const fn plaintext_step(&self) -> u64 {
        match self.encoding {
            Encoding::Shortint { message_modulus, carry_modulus, .. } => (1 << 63) / (message_modulus * carry_modulus),
            Encoding::Boolean => 1 << 61,
        }
    }

    /// Polynomials of a GLWE ciphertext, k + 1.
    pub const fn glwe_size(&self) -> usize {
        self.glwe_dimension + 1
    }

    /// Steps of a blind rotation.
    pub const fn rotation_steps(&self) -> usize {
        self.lwe_dimension / self.grouping
    }

    /// GGSW ciphertexts in the bootstrap key.
    pub const fn ggsw_count(&self) -> usize {
        // A classical step has one selector. A multi-bit step has one selector for each subset of
        // its bits.
        if self.grouping == 1 { self.lwe_dimension } else { self.rotation_steps() << self.grouping }
    }

    /// Relative cost of one bootstrap: about its millions of multiplications, at least 1. Work is
    /// counted in this unit wherever several sets meet.
    pub const fn bootstrap_weight(&self) -> u64 {
        let transforms = self.glwe_size() * (self.bootstrap.levels + 1);
        let products = self.glwe_size() * self.glwe_size() * self.bootstrap.levels;
        let log2 = self.polynomial_size.ilog2() as usize;
        let step = (transforms * log2 + 2 * products) * self.polynomial_size;
        let key_switch = self.big_dimension() * self.key_switch.levels * self.lwe_dimension;
        1 + ((self.ggsw_count() * step + key_switch) >> 20) as u64
    }

    /// log2 of 2N, the modulus of a blind rotation.
    pub const fn rotation_modulus_log2(&self) -> u32 {
        self.polynomial_size.trailing_zeros() + 1
    }
}

/// A stable number for a compression set, as written in envelopes. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CompressionId(pub u16);

/// Packing of lists of ciphertexts into GLWE ciphertexts of a small modulus, and unpacking.
#[derive(Debug, PartialEq)]
pub struct CompressionSet {
    /// Stable number, as on the wire.
    pub id: CompressionId,
    /// Name of the set, as in tfhe-rs if the set comes from there.
    pub name: &'static str,
    /// Parameter sets of the ciphertexts that can be packed. No parameter set has two compression
    /// sets.
    pub parameter_sets: &'static [SetId],
    /// Gadget of the packing key switch.
    pub packing: Decomposition,
    /// k of the packed ciphertexts.
    pub packing_glwe_dimension: usize,
    /// N of the packed ciphertexts.
    pub packing_polynomial_size: usize,
    /// Noise of the packing key.
    pub packing_noise: Noise,
    /// Maximum number of ciphertexts in one packed ciphertext.
    pub lwe_per_glwe: usize,
    /// log2 of the modulus of stored packed ciphertexts.
    pub storage_modulus_log2: u32,
    /// Gadget of the unpacking bootstrap, from the packing key to the big key.
    pub bootstrap: Decomposition,
    /// The published figure, absent if the source states none.
    pub published_failure_log2: Option<f64>,
    /// log2 of the cost of the best attack on the packing key, 0 if the key protects nothing.
    pub security_log2: f64,
    /// Source of the numbers.
    pub source: &'static str,
}

impl CompressionSet {
    /// Length of the packing key as an LWE key, k N.
    pub const fn packing_dimension(&self) -> usize {
        self.packing_glwe_dimension * self.packing_polynomial_size
    }
}
