//! What a parameter set is.

/// A stable number for a set, as written in every envelope. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SetId(pub u16);

/// Every number that a TFHE computation needs, with its provenance. Sets exist only as rows of
/// [`crate::table::SETS`]; code passes `&'static ParameterSet` around.
#[derive(Debug, PartialEq)]
pub struct ParameterSet {
    /// Stable number, as on the wire.
    pub id: SetId,
    /// Name, as in tfhe-rs where the set comes from there.
    pub name: &'static str,
    /// Word in which ciphertexts under the big key live.
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
    /// Which comes first, and with it the key that ciphertexts live under between operations.
    pub order: Order,
    /// log2 of the modulus after the key switch: 64, 32, or 21 (kept in the top bits of a 32-bit word).
    pub small_modulus_log2: u32,
    /// How the modulus switch rounds.
    pub modulus_switch: ModulusSwitch,
    /// Secret bits handled per blind-rotation step: 1 is the classical bootstrap, 2 to 4 are multi-bit.
    pub grouping: usize,
    /// What a plaintext is.
    pub encoding: Encoding,
    /// Largest variance that may enter a bootstrap, in multiples of what one returns: for programs that keep account of
    /// each sum. At least the square of the largest noise level, and no more than any lowering asks for.
    pub squared_noise_max: u64,
    /// Failure probability of one key switch and bootstrap at the largest allowed noise.
    pub failure: FailureProbability,
    /// Cost of the best attack known to us.
    pub security: Security,
    /// May a server use it without being told to allow weak sets?
    pub standing: Standing,
    /// Where the numbers were read.
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
    /// Centred normal; the standard deviation is a fraction of the modulus.
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
    /// Key switch, then bootstrap: ciphertexts live under the big key.
    KeySwitchFirst,
    /// Bootstrap, then key switch: ciphertexts live under the small key.
    BootstrapFirst,
}

/// Rounding of the modulus switch to 2N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModulusSwitch {
    /// Each word to the nearest step.
    Plain,
    /// As plain, with the expected rounding error of the mask taken out of the body.
    CenteredMean,
}

/// What a plaintext is and where it sits in the torus.
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
    /// As published with the set; absent where the source states none.
    pub published_log2: Option<f64>,
    /// By our formula, the rounding error of our transform included.
    pub computed_log2: f64,
}

/// log2 of the cost of the best attack, per key, and the estimate's provenance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Security {
    /// Small key.
    pub lwe_log2: f64,
    /// Big key; absent where the estimator found no finite attack.
    pub glwe_log2: Option<f64>,
    /// Attack and cost model behind both figures.
    pub model: &'static str,
}

/// May a server use the set?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// At least 128-bit security and failure at most 2^-128.
    Served,
    /// Below one of the two bounds; the text says which.
    Weak(&'static str),
    /// For tests and simulators only; protects nothing.
    Toy,
}

impl ParameterSet {
    /// Length of the big key, k N.
    pub const fn big_dimension(&self) -> usize {
        self.glwe_dimension * self.polynomial_size
    }

    /// Length of the key that ciphertexts live under between operations.
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

    /// Bits of the word that a ciphertext under the small key is made of.
    pub const fn small_word_bits(&self) -> u32 {
        word_bits(self.small_modulus_log2)
    }

    /// Distance of two plaintexts of a block, in units of 2^-64 of the torus; of booleans, of true from nothing.
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
        // A classical step has one selector; a multi-bit step has one for each subset of its bits.
        if self.grouping == 1 { self.lwe_dimension } else { self.rotation_steps() << self.grouping }
    }

    /// What one bootstrap costs beside those of other sets: about its millions of multiplications, at least 1. The
    /// unit in which work is counted where sets meet.
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

/// A stable number for a compression set, as written in envelopes. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CompressionId(pub u16);

/// How lists of ciphertexts are packed into GLWE ciphertexts of a small modulus, and unpacked again.
#[derive(Debug, PartialEq)]
pub struct CompressionSet {
    /// Stable number, as on the wire.
    pub id: CompressionId,
    /// Name, as in tfhe-rs where the set comes from there.
    pub name: &'static str,
    /// Sets whose ciphertexts it serves. No set has two.
    pub parameter_sets: &'static [SetId],
    /// Gadget of the packing key switch.
    pub packing: Decomposition,
    /// k of the packed ciphertexts.
    pub packing_glwe_dimension: usize,
    /// N of the packed ciphertexts.
    pub packing_polynomial_size: usize,
    /// Noise of the packing key.
    pub packing_noise: Noise,
    /// Ciphertexts that one packed ciphertext holds at most.
    pub lwe_per_glwe: usize,
    /// log2 of the modulus that packed ciphertexts are stored in.
    pub storage_modulus_log2: u32,
    /// Gadget of the bootstrap that unpacks: from the packing key to the big key.
    pub bootstrap: Decomposition,
    /// As published with the set; absent where the source states none.
    pub published_failure_log2: Option<f64>,
    /// Where the numbers were read.
    pub source: &'static str,
}

impl CompressionSet {
    /// Length of the packing key as an LWE key, k N.
    pub const fn packing_dimension(&self) -> usize {
        self.packing_glwe_dimension * self.packing_polynomial_size
    }
}
