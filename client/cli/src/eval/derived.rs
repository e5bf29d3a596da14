//! Functions that consist of several operations.

use cloakwork_client::{Kind, Type};

use super::compile::{Compiler, Typed};
use crate::syntax::{Problem, at};

/// Bits of the longest integers.
const BITS_MAX: u32 = 256;

/// Divides the product of two numbers by a third number. The product is computed at twice the
/// width, so no bit is lost.
pub(super) fn product_divided(compiler: &mut Compiler<'_>, place: usize, numbers: &[Typed]) -> Result<Typed, Problem> {
    let ty = numbers[0].ty;
    let wide = match ty {
        Type::Uint(bits) if 2 * bits <= BITS_MAX => Type::Uint(2 * bits),
        Type::Int(bits) if 2 * bits <= BITS_MAX => Type::Int(2 * bits),
        other => return Err(at(place, format!("mul_div takes integers of up to 128 bits, not {other}"))),
    };
    let numbers: Vec<Typed> = numbers.iter().map(|number| compiler.cast_to(place, *number, wide)).collect();
    let product = compiler.apply(place, Kind::Multiply, &numbers[..2], wide);
    let quotient = compiler.apply(place, Kind::Divide, &[product, numbers[2]], wide);
    Ok(compiler.cast_to(place, quotient, ty))
}

/// Whether a number is odd, or, if `odd` is false, whether a number is even.
pub(super) fn parity(compiler: &mut Compiler<'_>, place: usize, number: Typed, odd: bool) -> Result<Typed, Problem> {
    let ty = Type::Uint(2);
    let digit = compiler.cast_to(place, number, ty);
    let one = compiler.constant(place, "1", ty)?;
    let bit = compiler.apply(place, Kind::And, &[digit, one], ty);
    let kind = if odd { Kind::Equal } else { Kind::NotEqual };
    Ok(compiler.apply(place, kind, &[bit, one], Type::Bool))
}

/// Index of the highest bit that is set; for 0, the greatest number.
pub(super) fn log2(compiler: &mut Compiler<'_>, place: usize, number: Typed) -> Result<Typed, Problem> {
    let bits = number.ty.bits().ok_or_else(|| at(place, format!("it takes integers, not {}", number.ty)))?;
    let count = Type::Uint(32);
    let zeros = compiler.apply(place, Kind::LeadingZeros, &[number], count);
    let top = compiler.constant(place, &(bits - 1).to_string(), count)?;
    Ok(compiler.apply(place, Kind::Subtract, &[top, zeros], count))
}
