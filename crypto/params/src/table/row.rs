//! Shorthand that keeps a row of the table as short as in its source.

use crate::set::{
    Decomposition, Encoding, FailureProbability, ModulusSwitch, Noise, Order, ParameterSet, Security, SetId, Standing,
    TorusWidth,
};

/// A set under construction; [`Row::security`] or [`Row::toy`] completes it.
pub(super) struct Row(ParameterSet);

/// A classical shortint set on 64-bit words, key switch first, centered modulus switch, 2_2
/// encoding.
pub(super) const fn shortint(id: u16, name: &'static str, source: &'static str) -> Row {
    Row(ParameterSet {
        id: SetId(id),
        name,
        torus: TorusWidth::U64,
        lwe_dimension: 0,
        glwe_dimension: 0,
        polynomial_size: 0,
        lwe_noise: tuniform(0),
        glwe_noise: tuniform(0),
        bootstrap: gadget(0, 0),
        key_switch: gadget(0, 0),
        order: Order::KeySwitchFirst,
        small_modulus_log2: 64,
        modulus_switch: ModulusSwitch::CenteredMean,
        grouping: 1,
        encoding: Encoding::Shortint { message_modulus: 4, carry_modulus: 4, max_noise_level: 5 },
        squared_noise_max: 25,
        failure: FailureProbability { published_log2: None, computed_log2: 0.0 },
        security: Security { lwe_log2: 0.0, glwe_log2: Some(0.0), model: "none: the dimensions are small on purpose" },
        standing: Standing::Served,
        source,
    })
}

/// A boolean set on 32-bit words with the plain modulus switch.
pub(super) const fn boolean(id: u16, name: &'static str, order: Order, source: &'static str) -> Row {
    let Row(base) = shortint(id, name, source);
    Row(ParameterSet {
        torus: TorusWidth::U32,
        order,
        small_modulus_log2: 32,
        modulus_switch: ModulusSwitch::Plain,
        encoding: Encoding::Boolean,
        squared_noise_max: 8,
        ..base
    })
}

pub(super) const fn tuniform(bound_log2: u32) -> Noise {
    Noise::TUniform { bound_log2 }
}

pub(super) const fn gaussian(std_dev: f64) -> Noise {
    Noise::Gaussian { std_dev }
}

pub(super) const fn gadget(base_log: u32, levels: usize) -> Decomposition {
    Decomposition { base_log, levels }
}

impl Row {
    pub(super) const fn encoding(self, message_modulus: u64, carry_modulus: u64, max_noise_level: u64) -> Self {
        let encoding = Encoding::Shortint { message_modulus, carry_modulus, max_noise_level };
        Self(ParameterSet { encoding, squared_noise_max: max_noise_level * max_noise_level, ..self.0 })
    }

    /// Sets a larger variance than the square of the largest noise level.
    pub(super) const fn with_squared_noise_max(self, squared_noise_max: u64) -> Self {
        Self(ParameterSet { squared_noise_max, ..self.0 })
    }

    /// Sets several secret bits per step. Multi-bit sets switch the modulus of sums, so the switch
    /// is plain.
    pub(super) const fn multi_bit(self, grouping: usize) -> Self {
        Self(ParameterSet { grouping, modulus_switch: ModulusSwitch::Plain, ..self.0 })
    }

    pub(super) const fn small_modulus(self, small_modulus_log2: u32) -> Self {
        Self(ParameterSet { small_modulus_log2, ..self.0 })
    }

    /// Length and noise of the small key.
    pub(super) const fn lwe(self, lwe_dimension: usize, lwe_noise: Noise) -> Self {
        Self(ParameterSet { lwe_dimension, lwe_noise, ..self.0 })
    }

    /// k, N and noise of the big key.
    pub(super) const fn glwe(self, glwe_dimension: usize, polynomial_size: usize, glwe_noise: Noise) -> Self {
        Self(ParameterSet { glwe_dimension, polynomial_size, glwe_noise, ..self.0 })
    }

    /// log2 of the base, then levels.
    pub(super) const fn bootstrap(self, base_log: u32, levels: usize) -> Self {
        Self(ParameterSet { bootstrap: gadget(base_log, levels), ..self.0 })
    }

    /// log2 of the base, then levels.
    pub(super) const fn key_switch(self, base_log: u32, levels: usize) -> Self {
        Self(ParameterSet { key_switch: gadget(base_log, levels), ..self.0 })
    }

    pub(super) const fn weak(self, reason: &'static str) -> Self {
        Self(ParameterSet { standing: Standing::Weak(reason), ..self.0 })
    }

    /// log2 of the failure probability: the published value, then the value by our formula.
    pub(super) const fn failure(self, published_log2: Option<f64>, computed_log2: f64) -> Self {
        Self(ParameterSet { failure: FailureProbability { published_log2, computed_log2 }, ..self.0 })
    }

    /// log2 of the attack cost on the small and on the big key.
    pub(super) const fn security(self, lwe_log2: f64, glwe_log2: Option<f64>) -> ParameterSet {
        let model = "least of primal uSVP, BDD, dual hybrid and drop-and-rotate; lattice-estimator 27a581bb, MATZOV";
        ParameterSet { security: Security { lwe_log2, glwe_log2, model }, ..self.0 }
    }

    pub(super) const fn toy(self) -> ParameterSet {
        ParameterSet { standing: Standing::Toy, ..self.0 }
    }
}
