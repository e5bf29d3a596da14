//! How a sum of Chebyshev polynomials is split: what follows from its degree alone. Whoever computes one, or says what that
//! takes, finds levels and products here, and nowhere else.

/// Levels that a sum up to a degree takes.
pub fn depth(degree: usize) -> usize {
    degree.max(1).ilog2() as usize + 1
}

/// The degrees of the two polynomials whose product one of degree 2 and more is made of: T_(a+b) = 2 T_a T_b - T_|a-b|.
pub fn factors(degree: usize) -> [usize; 2] {
    [degree.div_ceil(2), degree / 2]
}

/// A sum, taken apart. What is above a power of two is taken off as a multiple of the polynomial of that degree, its *giant*;
/// the multiple is a sum of its own, a level above. What is left in the end is numbers times polynomials of small degrees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// What is taken off, in this order: the giant's degree, and what it is multiplied by.
    pub multiples: Vec<(usize, Self)>,
    /// The degree of what is left.
    pub rest: usize,
}

impl Split {
    /// Of a sum up to a degree.
    pub fn of(degree: usize) -> Self {
        let depth = depth(degree);
        // So that there are about as many small polynomials as multiples.
        let rest_max = (1 << (depth / 2)).max(2) - 1;
        Self::within(degree, depth, rest_max)
    }

    /// Of one that has so many levels, and leaves a rest of no higher degree than that.
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

/// Levels that the polynomial of a degree takes by itself.
fn levels_of(degree: usize) -> usize {
    degree.max(1).next_power_of_two().ilog2() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The highest degree that comes of a split, where every polynomial that a sum multiplies by has a level for the product.
    fn put_together(Split { multiples, rest }: &Split, levels: usize) -> usize {
        assert!(levels_of(*rest) < levels, "the rest is multiplied by numbers, a level above the sum");
        let degrees = multiples.iter().map(|(giant, multiple)| {
            assert!(levels_of(*giant) < levels);
            giant + put_together(multiple, levels - 1)
        });
        degrees.max().unwrap_or(0).max(*rest)
    }

    #[test]
    fn a_split_is_of_its_degree_and_keeps_to_its_levels() {
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
