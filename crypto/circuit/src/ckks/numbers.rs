//! Clear numbers in a message.

use crate::wire;

/// Complex numbers, all of them finite.
pub(super) fn complex(operation: &wire::Operation) -> Result<Vec<[f64; 2]>, String> {
    let (real, imaginary) = (&operation.numbers, &operation.imaginary);
    if !imaginary.is_empty() && imaginary.len() != real.len() {
        return Err(format!(
            "{} imaginary parts of {} numbers: expected as many, or none",
            imaginary.len(),
            real.len()
        ));
    }
    let number = |(index, re): (usize, &f64)| {
        let im = imaginary.get(index).copied().unwrap_or(0.0);
        finite(index, *re)?;
        finite(index, im)?;
        Ok([*re, im])
    };
    real.iter().enumerate().map(number).collect()
}

/// Real numbers, all of them finite.
pub(super) fn real(operation: &wire::Operation) -> Result<Vec<f64>, String> {
    if !operation.imaginary.is_empty() {
        return Err("imaginary parts: its numbers are real".to_owned());
    }
    operation.numbers.iter().enumerate().map(|(index, number)| finite(index, *number).map(|()| *number)).collect()
}

fn finite(index: usize, number: f64) -> Result<(), String> {
    if number.is_finite() { Ok(()) } else { Err(format!("number {index} is not finite")) }
}
