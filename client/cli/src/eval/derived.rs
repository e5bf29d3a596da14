//! Functions that are several operations.

use cloakwork_client::{Kind, Type};

use super::compile::{Compiler, Typed};
use crate::syntax::{Node, at};

/// Bits of the longest integers.
const BITS_MAX: u32 = 256;
/// Results of `lookup`: as many as integers of eight bits have values.
const RESULTS_MAX: usize = 256;

impl Compiler<'_> {
    /// The result beside the first key that equals a value, or the last one.
    pub(super) fn matched(
        &mut self,
        place: usize,
        value: &Node,
        cases: &[Node],
        otherwise: &Node,
        wanted: Option<Type>,
    ) -> Result<Typed, String> {
        let keys: Vec<&Node> = [value].into_iter().chain(cases.iter().step_by(2)).collect();
        let results: Vec<&Node> = cases.iter().skip(1).step_by(2).chain([otherwise]).collect();
        let keys = self.alike(place, &keys, None)?;
        let results = self.alike(place, &results, wanted)?;
        Ok(self.choose(place, &keys, &results))
    }

    /// The result of that number, counted from 0; behind the last one there is 0.
    pub(super) fn looked_up(
        &mut self,
        place: usize,
        number: &Node,
        results: &[Node],
        wanted: Option<Type>,
    ) -> Result<Typed, String> {
        let number = self.typed(number, None)?;
        let values = number.ty.bits().map_or(2, |bits| 1_usize.checked_shl(bits).unwrap_or(usize::MAX));
        if results.len() > values.min(RESULTS_MAX) {
            let most = values.min(RESULTS_MAX);
            return Err(at(place, format!("{} results for a {}: at most {most}", results.len(), number.ty)));
        }
        let mut results = self.alike(place, &results.iter().collect::<Vec<_>>(), wanted)?;
        results.push(self.constant(place, "0", results[0].ty)?);
        let keys = (0..results.len() - 1).map(|key| self.constant(place, &key.to_string(), number.ty));
        let keys: Vec<Typed> = [Ok(number)].into_iter().chain(keys).collect::<Result<_, _>>()?;
        Ok(self.choose(place, &keys, &results))
    }

    /// The first one is what is looked for among the other keys.
    fn choose(&mut self, place: usize, keys: &[Typed], results: &[Typed]) -> Typed {
        let mut arguments = vec![keys[0]];
        arguments.extend(keys[1..].iter().zip(results).flat_map(|(key, result)| [*key, *result]));
        arguments.extend(results.last());
        self.apply(place, Kind::Match, &arguments, results[0].ty)
    }

    /// A product over a third number: the product has room for all of its bits.
    pub(super) fn product_divided(
        &mut self,
        place: usize,
        nodes: [&Node; 3],
        wanted: Option<Type>,
    ) -> Result<Typed, String> {
        let numbers = self.alike(place, &nodes, wanted)?;
        let ty = numbers[0].ty;
        let wide = match ty {
            Type::Uint(bits) if 2 * bits <= BITS_MAX => Type::Uint(2 * bits),
            Type::Int(bits) if 2 * bits <= BITS_MAX => Type::Int(2 * bits),
            other => return Err(at(place, format!("mul_div takes integers of up to 128 bits, not {other}"))),
        };
        let numbers: Vec<Typed> = numbers.into_iter().map(|number| self.cast_to(place, number, wide)).collect();
        let product = self.apply(place, Kind::Multiply, &numbers[..2], wide);
        let quotient = self.apply(place, Kind::Divide, &[product, numbers[2]], wide);
        Ok(self.cast_to(place, quotient, ty))
    }

    /// Is a number odd, or is it even?
    pub(super) fn parity(&mut self, place: usize, number: &Node, odd: bool) -> Result<Typed, String> {
        let number = self.typed(number, None)?;
        let ty = Type::Uint(2);
        let digit = self.cast_to(place, number, ty);
        let one = self.constant(place, "1", ty)?;
        let bit = self.apply(place, Kind::And, &[digit, one], ty);
        let kind = if odd { Kind::Equal } else { Kind::NotEqual };
        Ok(self.apply(place, kind, &[bit, one], Type::Bool))
    }

    /// The place of the highest bit that is set; of 0, the greatest number.
    pub(super) fn log2(&mut self, place: usize, number: &Node) -> Result<Typed, String> {
        let number = self.typed(number, None)?;
        let bits = number.ty.bits().ok_or_else(|| at(place, format!("it takes integers, not {}", number.ty)))?;
        let count = Type::Uint(32);
        let zeros = self.apply(place, Kind::LeadingZeros, &[number], count);
        let top = self.constant(place, &(bits - 1).to_string(), count)?;
        Ok(self.apply(place, Kind::Subtract, &[top, zeros], count))
    }
}
