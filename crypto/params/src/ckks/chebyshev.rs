//! The split of a sum of Chebyshev polynomials, which follows from its degree alone. Computations
//! and cost estimates both take levels and products from this module alone.

/// Levels that a sum up to this degree consumes.
pub fn depth(degree: usize) -> usize {
    degree.max(1).ilog2() as usize + 1
}

/// The degrees of the two factors of a polynomial of degree 2 or more: T_(a+b) = 2 T_a T_b -
/// T_|a-b|.
pub fn factors(degree: usize) -> [usize; 2] {
    [degree.div_ceil(2), degree / 2]
}

/// A sum, split recursively. The terms from a power of two on are removed as a multiple of the
/// polynomial of that degree, its *giant*. The multiple is a sum of its own, one level above. The
/// rest consists of numbers times polynomials of small degrees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The removed parts, in this order: the degree of the giant, and its multiplier.
    pub multiples: Vec<(usize, Self)>,
    /// The degree of the rest.
    pub rest: usize,
}

impl Split {
    /// Splits a sum up to this degree.
    pub fn of(degree: usize) -> Self {
        let depth = depth(degree);
        // This bound makes the number of small polynomials and of multiples about equal.
        let rest_max = (1 << (depth / 2)).max(2) - 1;
        Self::within(degree, depth, rest_max)
    }

    /// Splits a sum that has `depth` levels, with a rest of degree up to `rest_max`.
    fn within(degree: usize, depth: usize, rest_max: usize) -> Self {
        let (mut multiples, mut rest) = (Vec::new(), degree);
        while rest > rest_max || levels_of(rest) >= depth {
            let giant = 1 << rest.ilog2();
            multiples.push((giant, Self::within(rest - giant, depth - 1, rest_max)));
            rest = giant - 1;
        }
        Self { multiples, rest }
    }
}

/// Levels that the polynomial of this degree consumes by itself.
fn levels_of(degree: usize) -> usize {
    degree.max(1).next_power_of_two().ilog2() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The highest degree of the recombined sum. Checks that every polynomial in a product has a
    /// level left for that product.
    fn put_together(Split { multiples, rest }: &Split, levels: usize) -> usize {
        assert!(levels_of(*rest) < levels, "the rest is multiplied by numbers, a level above the sum");
        let degrees = multiples.iter().map(|(giant, multiple)| {
            assert!(levels_of(*giant) < levels);
            giant + put_together(multiple, levels - 1)
        });
        degrees.max().unwrap_or(0).max(*rest)
    }

    #[test]
    fn a_split_has_its_degree_and_stays_within_its_levels() {
        for degree in 0..=511 {
            let split = Split::of(degree);
            assert_eq!(put_together(&split, depth(degree)), degree);
            assert_eq!(split.multiples.is_empty(), degree < 2, "{degree}");
        }
    }

    #[test]
    fn factors_add_up_and_are_equal_or_neighbours() {
        for degree in 2..=511 {
            let [upper, lower] = factors(degree);
            assert!(upper + lower == degree && upper - lower <= 1 && upper < degree, "{degree}");
            assert_eq!(levels_of(upper) + 1, levels_of(degree));
        }
    }
}
