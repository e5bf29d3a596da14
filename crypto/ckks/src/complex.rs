//! Complex numbers.

use std::ops::{Add, Mul, Neg, Sub};

use cloakwork_math::reals::circle_point;
use zeroize::DefaultIsZeroes;

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Complex {
    /// Real part.
    pub re: f64,
    /// Imaginary part.
    pub im: f64,
}

impl Complex {
    /// Zero.
    pub const ZERO: Self = Self { re: 0.0, im: 0.0 };

    /// Creates a number from its parts.
    pub const fn new(re: f64, im: f64) -> Self {
        Self { re, im }
    }

    /// The point on the unit circle at `turns` whole turns from 1.
    pub fn at_turn(turns: f64) -> Self {
        let [re, im] = circle_point(turns - turns.floor());
        Self { re, im }
    }

    /// The complex conjugate.
    pub fn conjugate(self) -> Self {
        Self { re: self.re, im: -self.im }
    }

    /// The product with a real number.
    pub fn scale(self, factor: f64) -> Self {
        Self { re: self.re * factor, im: self.im * factor }
    }

    /// Distance from zero.
    pub fn magnitude(self) -> f64 {
        self.re.hypot(self.im)
    }

    /// Whether both parts are finite.
    pub fn is_finite(self) -> bool {
        self.re.is_finite() && self.im.is_finite()
    }
}

impl DefaultIsZeroes for Complex {}

impl From<f64> for Complex {
    fn from(re: f64) -> Self {
        Self { re, im: 0.0 }
    }
}

impl Add for Complex {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }
}

impl Sub for Complex {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { re: self.re - other.re, im: self.im - other.im }
    }
}

impl Mul for Complex {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }
}

impl Neg for Complex {
    type Output = Self;

    fn neg(self) -> Self {
        Self { re: -self.re, im: -self.im }
    }
}
