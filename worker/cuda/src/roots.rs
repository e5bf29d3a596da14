//! Roots of unity for transforms.

use crate::gpu::Complex;

/// `exp(i pi j / size)` for j below `2 size`, in 106 bits: the upper halves, correctly rounded,
/// then the remainders.
pub fn roots(size: usize) -> Vec<Complex> {
    let quarter = size / 2;
    let root = |index: usize| {
        // The nearest axis is at most an eighth of a turn away.
        let axis = (index + quarter / 2) / quarter;
        let rest = index as f64 - (axis * quarter) as f64;
        // The division is exact, because the size is a power of two.
        let angle =
            Wide { high: PI.high / size as f64, low: PI.low / size as f64 }.times(Wide { high: rest, low: 0.0 });
        let (cos, sin) = angle.cos_sin();
        match axis % 4 {
            0 => [cos, sin],
            1 => [sin.negative(), cos],
            2 => [cos.negative(), sin.negative()],
            _ => [sin, cos.negative()],
        }
    };
    let roots: Vec<[Wide; 2]> = (0..2 * size).map(root).collect();
    let high = roots.iter().map(|root| root.map(|part| part.high));
    high.chain(roots.iter().map(|root| root.map(|part| part.low))).collect()
}

/// A sum of two doubles, the second below half of the last bit of the first. `kernels/wide.h` is
/// the GPU's version.
#[derive(Clone, Copy)]
struct Wide {
    high: f64,
    low: f64,
}

const PI: Wide = Wide { high: std::f64::consts::PI, low: 1.224_646_799_147_353_2e-16 };
const ONE: Wide = Wide { high: 1.0, low: 0.0 };

impl Wide {
    fn normalized(high: f64, low: f64) -> Self {
        let sum = high + low;
        Self { high: sum, low: low - (sum - high) }
    }

    fn negative(self) -> Self {
        Self { high: -self.high, low: -self.low }
    }

    fn plus(self, other: Self) -> Self {
        let sum = self.high + other.high;
        let of_other = sum - self.high;
        let lost = (self.high - (sum - of_other)) + (other.high - of_other);
        Self::normalized(sum, lost + (self.low + other.low))
    }

    fn times(self, other: Self) -> Self {
        let product = self.high * other.high;
        let lost = self.high.mul_add(other.high, -product);
        Self::normalized(product, lost + self.high.mul_add(other.low, self.low * other.high))
    }

    fn over(self, divisor: f64) -> Self {
        let quotient = self.high / divisor;
        Self::normalized(quotient, ((-quotient).mul_add(divisor, self.high) + self.low) / divisor)
    }

    /// Cosine and sine of an angle of at most an eighth of a turn, by their power series.
    fn cos_sin(self) -> (Self, Self) {
        let square = self.times(self).negative();
        let (mut cos, mut sin, mut cos_term, mut sin_term) = (ONE, self, ONE, self);
        for power in (2..32).step_by(2).map(f64::from) {
            cos_term = cos_term.times(square).over((power - 1.0) * power);
            sin_term = sin_term.times(square).over(power * (power + 1.0));
            (cos, sin) = (cos.plus(cos_term), sin.plus(sin_term));
        }
        (cos, sin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_lie_on_the_unit_circle_in_order() {
        let (size, roots) = (256, roots(256));
        assert_eq!(roots.len(), 4 * size);
        let (roots, low) = roots.split_at(2 * size);
        assert_eq!((roots[0], roots[size]), ([1.0, 0.0], [-1.0, -0.0]));
        assert_eq!(roots[size / 2], [-0.0, 1.0]);
        for (index, root) in roots.iter().enumerate() {
            let angle = std::f64::consts::PI * index as f64 / size as f64;
            assert!((root[0] - angle.cos()).abs() < 1e-15 && (root[1] - angle.sin()).abs() < 1e-15, "root {index}");
            let opposite = roots[(index + size) % (2 * size)];
            assert_eq!((root[0], root[1]), (-opposite[0], -opposite[1]), "root {index}");
            // The roots lie on the circle to a hundred bits.
            let square = |high: f64, low: f64| Wide { high, low }.times(Wide { high, low });
            let norm = square(root[0], low[index][0]).plus(square(root[1], low[index][1])).plus(ONE.negative());
            assert!(norm.high.abs() < 1e-30, "root {index}: {}", norm.high);
        }
        // The real part at an eighth of a turn is the root of one half, whose bits are known.
        assert_eq!(roots[size / 4][0], std::f64::consts::FRAC_1_SQRT_2);
        assert!((low[size / 4][0] + 4.833_646_656_726_457e-17).abs() < 1e-32);
    }
}
