//! The step of a blind rotation: a GGSW ciphertext times a GLWE ciphertext.

mod convert;
mod fft;
mod multiply;
mod plan;

use cloakwork_params::Decomposition;

pub use fft::{FftProduct, Scratch};

use crate::torus::Torus;

/// The shape shared by every GGSW ciphertext of a bootstrap key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GgswShape {
    /// k.
    pub glwe_dimension: usize,
    /// N.
    pub polynomial_size: usize,
    /// Gadget.
    pub gadget: Decomposition,
}

impl GgswShape {
    /// Polynomials of a GLWE ciphertext, k + 1.
    pub fn glwe_size(&self) -> usize {
        self.glwe_dimension + 1
    }

    /// Words of a GLWE ciphertext.
    pub fn glwe_words(&self) -> usize {
        self.glwe_size() * self.polynomial_size
    }

    /// GLWE rows of one GGSW ciphertext: one for each level and polynomial.
    pub fn rows(&self) -> usize {
        self.gadget.levels * self.glwe_size()
    }

    /// Words of the bodies of one GGSW ciphertext.
    pub fn body_words(&self) -> usize {
        self.rows() * self.polynomial_size
    }

    /// Words of one GGSW ciphertext, masks included.
    pub fn words(&self) -> usize {
        self.rows() * self.glwe_words()
    }
}

/// External products by one kind of kernel: digits go in, wrapped torus words come out.
///
/// A GGSW ciphertext is first turned into the kernel's own *spectrum*; its order is the kernel's secret
/// and never leaves the process. All methods take whole tiles, so that one read of the spectrum serves
/// many ciphertexts, and none of them allocates.
pub trait ExternalProduct<T: Torus>: Send + Sync {
    /// Shape of the GGSW ciphertexts.
    fn shape(&self) -> GgswShape;

    /// f64 values in one spectrum.
    fn spectrum_len(&self) -> usize;

    /// Working memory for the other methods, for one thread.
    fn scratch(&self) -> Scratch;

    /// Turns `ggsw` (standard domain, rows in key order) into `spectrum`.
    fn transform(&self, ggsw: &[T], spectrum: &mut [f64], scratch: &mut Scratch);

    /// For each GLWE ciphertext of `tile` and its own rotation r, below 2N:
    /// `glwe += ggsw * (X^r glwe - glwe)`. A rotation by 0 costs nothing.
    ///
    /// `next` is the spectrum of the step after this one, if there is one, to be brought closer meanwhile.
    fn rotate_accumulate(
        &self,
        spectrum: &[f64],
        next: &[f64],
        tile: &mut [T],
        rotations: &[u32],
        scratch: &mut Scratch,
    );

    /// `glwe = ggsw * glwe`.
    fn replace(&self, spectrum: &[f64], glwe: &mut [T], scratch: &mut Scratch);
}
