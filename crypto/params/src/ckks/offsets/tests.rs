use super::*;

/// Pseudo-random numbers.
fn random(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as usize
}

/// Matrices of all kinds: with random, adjacent, grouped and full diagonals, and those of
/// transforms.
fn matrices() -> Vec<Offsets> {
    let mut seed = 7;
    let mut matrices = vec![Offsets::new(1, [0]), Offsets::new(2, [1]), Offsets::new(8, [])];
    for size_log2 in 1..=8 {
        let size = 1 << size_log2;
        for _ in 0..40 {
            let count = 1 + random(&mut seed) % size.min(40);
            let stride = 1 << (random(&mut seed) % size_log2);
            matrices.push(Offsets::new(size, (0..count).map(|_| random(&mut seed))));
            matrices.push(Offsets::new(size, (0..count).map(|_| random(&mut seed) * stride)));
            let from = random(&mut seed);
            matrices.push(Offsets::new(size, from..from + count));
            let (rows, columns) = (1 + random(&mut seed) % 5, 1 + random(&mut seed) % 5);
            let row = random(&mut seed) % size;
            matrices.push(Offsets::new(size, (0..rows * columns).map(|at| at / columns * row + at % columns + from)));
        }
        for first in 1..=size_log2 as u32 {
            for last in first..=size_log2 as u32 {
                let matrix = Offsets::of_transform(size_log2 as u32, [first, last]);
                matrices.extend([matrix.doubled(), matrix]);
            }
        }
    }
    matrices
}

fn numbers_of(matrix: &Offsets, steps: Steps) -> [usize; 2] {
    matrix.cut(steps).map(|steps| steps.len())
}

#[test]
fn steps_add_up_and_are_no_more_than_those_of_a_power_of_two() {
    for matrix in matrices() {
        for way in [0, 1, 2].map(|more| Way::Apart { more }) {
            let (steps, known) = (matrix.steps(way), matrix.steps_of_powers_of_two(way));
            for offset in &matrix.offsets {
                let (baby, giant) = steps.cut(*offset);
                assert_eq!((baby + giant).rem_euclid(matrix.size as i64) as usize, *offset, "{matrix:?}");
            }
            let [[babies, giants], [known_babies, known_giants]] = [steps, known].map(|it| numbers_of(&matrix, it));
            assert_eq!(matrix.turns(way), [babies, giants]);
            assert_eq!(matrix.rotations(way).len(), babies + giants, "no step is both: {matrix:?}");
            assert!(babies + giants <= known_babies + known_giants && giants <= known_giants, "{matrix:?} {way:?}");
        }
    }
}

/// Compares with an exhaustive search over all cuts.
#[test]
fn no_cut_takes_fewer_giant_steps() {
    for matrix in matrices().iter().filter(|matrix| matrix.size <= 64) {
        for way in [0, 1].map(|more| Way::Apart { more }) {
            let (steps, known) = (matrix.steps(way), matrix.steps_of_powers_of_two(way));
            let most: usize = numbers_of(matrix, known).iter().sum();
            let cuts = (1..=steps.around).flat_map(|inner| (0..inner as i64).map(move |right| (inner, right)));
            let ranks = cuts.filter_map(|(inner, right)| {
                let cut = Cut { inner, first: -right };
                let [babies, giants] = numbers_of(matrix, Steps { cut, ..steps });
                (babies + giants <= most).then_some((giants, babies + giants, inner, right))
            });
            let Some((.., inner, right)) = ranks.min() else { continue };
            assert_eq!(steps.cut, Cut { inner, first: -right }, "{matrix:?} {way:?}");
        }
    }
}

#[test]
fn diagonals_on_both_sides_take_baby_steps_to_both_sides() {
    for (reach, more, turns) in [
        (1, 0, [2, 0]),
        (3, 0, [3, 1]),
        (7, 0, [4, 2]),
        (15, 0, [7, 3]),
        (31, 0, [8, 6]),
        (63, 0, [15, 7]),
        (3, 1, [6, 0]),
        (7, 1, [7, 1]),
        (15, 1, [15, 1]),
        (31, 1, [15, 3]),
    ] {
        let matrix = Offsets::new(1 << 15, (0..=2 * reach).map(|place| 8 * ((1 << 15) + place - reach)));
        assert_eq!(matrix.turns(Way::Apart { more }), turns, "{reach} to either side");
    }
    let matrix = Offsets::new(64, [57, 58, 59, 60, 61, 62, 63, 0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(matrix.rotations(Way::Apart { more: 0 }), BTreeSet::from([-5, -2, -1, 1, 2, 5]));
}

#[test]
fn diagonals_all_around_are_split_at_zero() {
    for (around_log2, rotations) in [(3, vec![-4, 1, 2, 3]), (4, vec![-8, 1, 2, 3, 4, 5, 6, 7])] {
        let matrix = Offsets::new(8 << around_log2, (0..1 << around_log2).map(|place| 8 * place));
        assert_eq!(matrix.rotations(Way::Apart { more: 0 }), rotations.into_iter().map(|step| 8 * step).collect());
    }
}
