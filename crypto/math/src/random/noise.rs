//! Sampling from the distributions of keys and errors.

use cloakwork_params::Noise;
use zeroize::Zeroizing;

use super::SecretRng;
use crate::torus::Torus;

impl SecretRng {
    /// Fills `bits` with uniform zeros and ones.
    pub fn fill_binary(&mut self, bits: &mut [u8]) {
        for chunk in bits.chunks_mut(64) {
            let word = Zeroizing::new(self.word());
            for (shift, bit) in chunk.iter_mut().enumerate() {
                *bit = (*word >> shift) as u8 & 1;
            }
        }
    }

    /// Fills `coefficients` with -1, 0 and 1, all with equal probability.
    pub fn fill_ternary(&mut self, coefficients: &mut [i8]) {
        let mut filled = 0;
        while filled < coefficients.len() {
            let word = Zeroizing::new(self.word());
            for pair in (0..u64::BITS).step_by(2) {
                // Of the four values of two bits, one is rejected.
                let value = (*word >> pair) as i8 & 3;
                if value < 3 && filled < coefficients.len() {
                    coefficients[filled] = value - 1;
                    filled += 1;
                }
            }
        }
    }

    /// Sets all `coefficients` to zero except `weight` of them at random places, which become 1 or
    /// -1.
    ///
    /// The coefficients are sorted by random numbers, so that no address or branch depends on a
    /// place. Equal random numbers would prefer some orders, so all are drawn again then.
    pub fn fill_sparse(&mut self, weight: usize, coefficients: &mut [i8]) {
        assert!(weight <= coefficients.len() && coefficients.len().is_power_of_two(), "places of a power of two");
        // A word has 62 random bits above a random sign, above whether the coefficient is not zero.
        let mut words = Zeroizing::new(vec![0_u64; coefficients.len()]);
        loop {
            for (index, word) in words.iter_mut().enumerate() {
                *word = self.word() & !1 | u64::from(index < weight);
            }
            sort(&mut words);
            let ties = words.windows(2).fold(0, |ties, pair| ties + u64::from(pair[0] >> 2 == pair[1] >> 2));
            if ties == 0 {
                break;
            }
        }
        for (coefficient, word) in coefficients.iter_mut().zip(&*words) {
            *coefficient = (word & 1) as i8 * (1 - (word & 2) as i8);
        }
    }

    /// Fills `integers` with normal errors of this standard deviation, each rounded to the nearest
    /// integer.
    pub fn fill_gaussian(&mut self, std_dev: f64, integers: &mut [i64]) {
        let mut integers = integers.iter_mut();
        self.normals(integers.len(), |normal| {
            if let Some(integer) = integers.next() {
                *integer = (normal * std_dev).round() as i64;
            }
        });
    }

    /// One error of a distribution modulo 2^`modulus_log2`, kept in the top bits of the word.
    pub fn noise<T: Torus>(&mut self, noise: Noise, modulus_log2: u32) -> T {
        let mut word = [T::default()];
        self.add_noise(noise, modulus_log2, &mut word);
        word[0]
    }

    /// Adds an independent error to each word. The modulus is 2^`modulus_log2`, kept in the top
    /// bits.
    pub fn add_noise<T: Torus>(&mut self, noise: Noise, modulus_log2: u32, words: &mut [T]) {
        let scale = T::BITS - modulus_log2;
        let mut add = |word: &mut T, error: i64| *word = word.wrapping_add(T::from_u64((error as u64) << scale));
        match noise {
            Noise::TUniform { bound_log2 } => self.t_uniform(bound_log2, words, &mut add),
            Noise::Gaussian { std_dev } => {
                let mut words = words.iter_mut();
                self.normals(words.len(), |normal| {
                    if let Some(word) = words.next() {
                        add(word, gaussian_steps(normal * std_dev, modulus_log2));
                    }
                });
            }
        }
    }

    /// Samples TUniform exactly. b + 2 random bits make an integer x in [0, 2^(b+2)). ceil(x / 2) -
    /// 2^b maps two x to each inner value and one x to each end.
    fn t_uniform<T: Torus>(&mut self, bound_log2: u32, words: &mut [T], add: &mut impl FnMut(&mut T, i64)) {
        debug_assert!(bound_log2 <= 61);
        let bits = bound_log2 + 2;
        let mask = u64::MAX >> (64 - bits);
        let error = |random: u64| {
            let x = random & mask;
            ((x >> 1) + (x & 1)) as i64 - (1 << bound_log2)
        };
        let mut bytes = Zeroizing::new([0; 2048]);
        if bits <= 32 {
            for chunk in words.chunks_mut(bytes.len() / 4) {
                let bytes = &mut bytes[..chunk.len() * 4];
                self.fill_bytes(bytes);
                for (word, bytes) in chunk.iter_mut().zip(bytes.as_chunks::<4>().0) {
                    add(word, error(u64::from(u32::from_le_bytes(*bytes))));
                }
            }
        } else {
            for chunk in words.chunks_mut(bytes.len() / 8) {
                let bytes = &mut bytes[..chunk.len() * 8];
                self.fill_bytes(bytes);
                for (word, bytes) in chunk.iter_mut().zip(bytes.as_chunks::<8>().0) {
                    add(word, error(u64::from_le_bytes(*bytes)));
                }
            }
        }
    }

    /// Gives `count` or more independent standard normal values, by Marsaglia's polar method on a
    /// grid of 2^-63.
    ///
    /// A point is uniform in the unit disc, and its radius decides the size of a pair of values: a
    /// size of r needs s < exp(-r^2/2). At 9.4 standard deviations, 2^61 grid points remain, so the
    /// density there has a relative error of 2^-30. The grid ends only at 13.2 (a mass of 2^-128).
    ///
    /// The remaining error is the rounding of f64. Each value has a relative error of 2^-49, which
    /// moves mass only between neighbouring steps of the torus. The sampler is not constant-time:
    /// the loop reveals the number of rejected points, which is independent of the values kept.
    fn normals(&mut self, count: usize, mut give: impl FnMut(f64)) {
        const GRID: f64 = 1.0 / 9_223_372_036_854_775_808.0; // 2^-63
        let mut bytes = Zeroizing::new([0; 1024]);
        let mut given = 0;
        while given < count {
            // One point in 1.27 is in the disc. A few more points are drawn than needed on average,
            // so that most calls end after one round.
            let points = ((count - given) * 3 / 4 + 2).min(bytes.len() / 16);
            self.fill_bytes(&mut bytes[..points * 16]);
            for point in bytes[..points * 16].as_chunks::<8>().0.as_chunks::<2>().0 {
                let [u, v] = point.map(|bytes| i64::from_le_bytes(bytes) as f64 * GRID);
                let s = u * u + v * v;
                if 0.0 < s && s < 1.0 {
                    let factor = (-2.0 * s.ln() / s).sqrt();
                    give(u * factor);
                    give(v * factor);
                    given += 2;
                }
            }
        }
    }
}

/// Sorts a power of two of words. Addresses and branches are the same for all values: this is
/// Batcher's bitonic network.
fn sort(words: &mut [u64]) {
    let count = words.len();
    let sizes = || (1..=count.ilog2()).map(|log2| 1 << log2);
    for run in sizes() {
        for block in sizes().rev().filter(|block| *block <= run) {
            for (index, words) in words.chunks_exact_mut(block).enumerate() {
                let is_descending = (index * block) & run != 0;
                let (lower, upper) = words.split_at_mut(block / 2);
                for (left, right) in lower.iter_mut().zip(upper) {
                    let (least, most) = ((*left).min(*right), (*left).max(*right));
                    (*left, *right) = if is_descending { (most, least) } else { (least, most) };
                }
            }
        }
    }
}

/// Converts a fraction of the modulus to the nearest integer number of its least steps.
fn gaussian_steps(fraction: f64, modulus_log2: u32) -> i64 {
    let modulus = f64::from_bits(u64::from(1023 + modulus_log2) << 52);
    // Drop whole turns of the torus first. The product then fits an i64.
    ((fraction - fraction.round()) * modulus).round() as i64
}

#[cfg(test)]
mod tests;
