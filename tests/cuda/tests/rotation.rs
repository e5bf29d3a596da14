//! Blind rotation, step by step. On numbers of few bits, transforms are exact, so a step equals its
//! defining sum of products.

use std::sync::Arc;

use bytemuck::Pod;
use cloakwork_cuda::{
    gpu::{
        BootstrapKeyViews, Buffer, Driver, Launcher, Lists, RotationShape, RotationViews, Stream, Table, View, Work,
    },
    roots,
};
use cloakwork_device::{LutSlot, Wave};
use cloakwork_math::{
    Torus, decomposition,
    random::{MaskSeed, MaskStream},
};
use cloakwork_params::{Decomposition, table};
use cloakwork_tests_cuda::emulator::{self, Emulated};
use cloakwork_tfhe::modulus_switch::{switch_subset, switch_word};

/// Number of distinct ciphertexts.
const LANES: usize = 2;

fn words<T: Torus>(count: usize, number: u128) -> Vec<T> {
    let mut words = vec![T::default(); count];
    MaskStream::new(&MaskSeed { key: number, block: 0, byte: 0 }).fill(T::BITS, &mut words);
    words
}

/// Signed words of a few bits.
fn small_words<T: Torus>(count: usize, bits: u32, number: u128) -> Vec<T> {
    words::<u64>(count, number).into_iter().map(|word| T::from_i64(word as i64 >> (64 - bits))).collect()
}

/// X^exponent times a polynomial.
fn rotated<T: Torus>(polynomial: &[T], exponent: usize) -> Vec<T> {
    let size = polynomial.len();
    let at = |j: usize| {
        let from = (j + 2 * size - exponent % (2 * size)) % (2 * size);
        if from < size { polynomial[from] } else { T::default().wrapping_sub(polynomial[from - size]) }
    };
    (0..size).map(at).collect()
}

/// `into += digits * key`, modulo X^N + 1.
fn add_product<T: Torus>(into: &mut [T], digits: &[i64], key: &[T]) {
    for (i, digit) in digits.iter().enumerate() {
        for (j, word) in rotated(key, i).into_iter().enumerate() {
            into[j] = into[j].wrapping_add(word.wrapping_mul(T::from_i64(*digit)));
        }
    }
}

/// The digits of each word, level by level, the smallest level first.
fn digits<T: Torus>(gadget: Decomposition, polynomial: &[T]) -> Vec<Vec<i64>> {
    let mut states: Vec<i64> = polynomial.iter().map(|word| decomposition::round(gadget, *word)).collect();
    let level = |states: &mut Vec<i64>| {
        states.iter_mut().map(|state| decomposition::next_digit(gadget, state)).collect::<Vec<_>>()
    };
    (0..gadget.levels).map(|_| level(&mut states)).collect()
}

/// The external product of a GGSW ciphertext, ordered by level, row and column, and a GLWE
/// ciphertext.
fn external_product<T: Torus>(shape: RotationShape, ggsw: &[T], glwe: &[T]) -> Vec<T> {
    let (size, columns) = (shape.polynomial_size, shape.glwe_dimension + 1);
    let mut sums = vec![T::default(); columns * size];
    for (row, polynomial) in glwe.chunks_exact(size).enumerate() {
        for (level, digits) in digits(shape.gadget, polynomial).iter().enumerate() {
            for column in 0..columns {
                let key = &ggsw[((level * columns + row) * columns + column) * size..][..size];
                add_product(&mut sums[column * size..][..size], digits, key);
            }
        }
    }
    sums
}

fn start<T: Torus>(shape: RotationShape, table: &[T], exponent: u32) -> Vec<T> {
    let mut glwe = vec![T::default(); shape.glwe_dimension * shape.polynomial_size];
    glwe.extend(rotated(table, 2 * shape.polynomial_size - exponent as usize));
    glwe
}

struct Bench<T> {
    driver: Arc<dyn Driver>,
    shape: RotationShape,
    lanes: usize,
    unit_log2: u32,
    key_words: Vec<T>,
    table_words: Vec<T>,
    key: Buffer,
    roots: Buffer,
    tables: Vec<Arc<Table>>,
    room: Buffer,
    glwes: Buffer,
    scratch: Buffer,
}

impl<T: Torus + Pod> Bench<T> {
    /// A key of numbers of a few bits, so that products stay within the precision of a double. All
    /// numbers, including a table's, are multiples of 2^`unit_log2`, so that digits are not all
    /// zero once words are products.
    fn new(shape: RotationShape, lanes: usize, unit_log2: u32) -> Self {
        let driver: Arc<dyn Driver> = Arc::new(Emulated::new(1 << 30));
        let (size, count) = (shape.polynomial_size, shape.key_polynomials());
        let scaled = |words: Vec<T>| -> Vec<T> {
            words.into_iter().map(|word| T::from_u64(word.to_u64() >> unit_log2 << unit_log2)).collect()
        };
        let small: Vec<T> = small_words(count * size, 6, 1);
        let key_words: Vec<T> = small.into_iter().map(|word| T::from_u64(word.to_u64() << unit_log2)).collect();
        let table_words = scaled(words(size, 2));
        let buffer = |bytes| Buffer::new(&driver, bytes).expect("memory");
        let (key, polynomials) = (buffer(count * size * 8), Buffer::of(&driver, &key_words).expect("memory"));
        let roots = Buffer::of(&driver, &roots(size)).expect("memory");
        let launcher = Launcher { driver: driver.as_ref(), stream: Stream::Keys };
        let (from, with): (View<'_, T>, _) = (polynomials.all().expect("words"), roots.all().expect("roots"));
        launcher.transform_key(from, with, shape, key.all().expect("room")).expect("a launch");
        let set = table::by_name("TOY_MESSAGE_2_CARRY_2").expect("a set");
        let words = Buffer::of(&driver, &table_words).expect("memory");
        let tables = vec![Arc::new(Table { set, words: vec![words], outputs: vec![0] })];
        let (room, glwes) = (buffer(4096), buffer(lanes * shape.glwe_words() * size_of::<T>()));
        let scratch = buffer(lanes * shape.scratch_len() * 16);
        Self { shape, lanes, unit_log2, key_words, table_words, key, roots, tables, room, glwes, scratch, driver }
    }

    fn lists(&self) -> Lists<'_> {
        let mut wave = Wave::default();
        let table = wave.table(LutSlot(0));
        let lanes: Vec<u32> = (0..self.lanes as u32).collect();
        lanes.iter().for_each(|lane| wave.push([], 0, table, &[*lane]));
        let work = Work::of(&wave, &lanes, &self.tables);
        let mut put = |bytes: &[u8]| emulator::upload(self.room.view(0, bytes.len())?, bytes);
        work.upload(0, &self.tables, &mut put).expect("room")
    }

    fn views(&self) -> (BootstrapKeyViews<'_>, RotationViews<'_, T>) {
        let key =
            BootstrapKeyViews { spectra: self.key.all().expect("a key"), roots: self.roots.all().expect("roots") };
        (key, RotationViews { glwes: self.glwes.all().expect("room"), scratch: self.scratch.all().expect("room") })
    }

    fn launcher(&self) -> Launcher<'_> {
        Launcher { driver: self.driver.as_ref(), stream: Stream::Waves }
    }

    /// Checks that the lanes repeat the expected ciphertexts in turn, rounded to the nearest unit.
    fn check(&self, expected: &[Vec<T>], what: &str) {
        let mut got = vec![T::default(); self.lanes * self.shape.glwe_words()];
        emulator::download(self.glwes.all().expect("a view"), &mut got);
        let half = T::from_u64((1 << self.unit_log2) >> 1);
        let to_unit = |word: &mut T| {
            *word = T::from_u64(word.wrapping_add(half).to_u64() >> self.unit_log2 << self.unit_log2);
        };
        got.iter_mut().for_each(to_unit);
        for (lane, got) in got.chunks_exact(self.shape.glwe_words()).enumerate() {
            assert!(got == expected[lane % expected.len()], "{what}, lane {lane}, {:?}", self.shape);
        }
    }

    fn ggsw(&self, index: usize) -> &[T] {
        let selectors = if self.shape.grouping == 1 { 1 } else { 1 << self.shape.grouping };
        let words = self.key_words.len() / (self.shape.steps * selectors);
        &self.key_words[index * words..][..words]
    }
}

fn shapes() -> impl Iterator<Item = RotationShape> {
    // Sizes, masks and digits: the minimum of each, and more.
    [(256, 1, 7, 1), (512, 1, 4, 2), (256, 3, 3, 3)].into_iter().map(move |(polynomial_size, k, base_log, levels)| {
        let gadget = Decomposition { base_log, levels };
        RotationShape { steps: 3, grouping: 1, glwe_dimension: k, polynomial_size, gadget }
    })
}

fn classical_steps_are_exact<T: Torus + Pod>(
    shapes: impl Iterator<Item = RotationShape>,
    lanes: usize,
    unit_log2: u32,
) {
    for shape in shapes {
        let bench = Bench::<T>::new(shape, lanes, unit_log2);
        let twice = 2 * shape.polynomial_size as u32;
        // No rotation, the smallest, half a turn, and the largest.
        let exponents = [[0, 1, twice / 2, 5], [twice - 1, 77, 0, twice - 3]];
        let of_lanes: Vec<u32> = (0..lanes).flat_map(|lane| exponents[lane % LANES]).collect();
        let list = Buffer::of(&bench.driver, &of_lanes).expect("memory");
        let (key, outputs) = bench.views();
        bench
            .launcher()
            .blind_rotate(list.all().expect("words"), &bench.lists(), key, shape, outputs)
            .expect("a launch");
        let expected = exponents.map(|exponents| {
            let mut glwe = start(shape, &bench.table_words, exponents[3]);
            for (step, exponent) in exponents[..3].iter().enumerate() {
                let turned = glwe
                    .chunks_exact(shape.polynomial_size)
                    .flat_map(|polynomial| rotated(polynomial, *exponent as usize));
                let difference: Vec<T> = turned.zip(&glwe).map(|(turned, word)| turned.wrapping_sub(*word)).collect();
                let product = external_product(shape, bench.ggsw(step), &difference);
                glwe.iter_mut().zip(product).for_each(|(word, product)| *word = word.wrapping_add(product));
            }
            glwe
        });
        bench.check(&expected, "classical");
    }
}

#[test]
fn classical_steps_are_sums_of_products() {
    classical_steps_are_exact::<u32>(shapes(), LANES, 0);
    classical_steps_are_exact::<u64>(shapes(), LANES, 0);
}

/// Shape of kernels whose accumulator keeps the upper half of each word.
fn short(polynomial_size: usize, glwe_dimension: usize, base_log: u32) -> RotationShape {
    let gadget = Decomposition { base_log, levels: 1 };
    let shape = RotationShape { steps: 3, grouping: 1, glwe_dimension, polynomial_size, gadget };
    assert_eq!((shape.is_short(64), shape.is_short(32)), (base_log < 24, false));
    shape
}

/// One kernel of this size rotates few lanes, another many.
#[test]
fn steps_of_the_fast_kernel_are_sums_of_products() {
    assert!(short(2048, 1, 23).is_fast(64) && !short(2048, 1, 24).is_fast(64));
    classical_steps_are_exact::<u64>([23, 15].map(|base_log| short(2048, 1, base_log)).into_iter(), LANES, 32);
    classical_steps_are_exact::<u64>([short(2048, 1, 23)].into_iter(), 9, 32);
}

/// The last block has a single ciphertext.
#[test]
fn steps_of_the_boolean_kernel_are_sums_of_products() {
    assert!(!short(512, 4, 23).is_fast(64) && !short(512, 4, 24).is_short(64));
    classical_steps_are_exact::<u64>([23, 15].map(|base_log| short(512, 4, base_log)).into_iter(), 4, 32);
}

/// The unit is that of the lowest digit, so that the decomposition rounds nothing.
fn group_steps_are_exact<T: Torus + Pod, S: Torus + Pod>(shapes: impl Iterator<Item = RotationShape>) {
    for shape in shapes {
        let (grouping, gadget) = (shape.grouping, shape.gadget);
        let bench = Bench::<T>::new(shape, LANES, T::BITS - gadget.base_log * gadget.levels as u32);
        let log2 = shape.polynomial_size.ilog2() + 1;
        let inputs: Vec<S> = words(LANES * shape.input_words(), 3);
        let list = Buffer::of(&bench.driver, &inputs).expect("memory");
        let (key, outputs) = bench.views();
        let from: View<'_, S> = list.all().expect("words");
        bench.launcher().blind_rotate_groups(from, &bench.lists(), key, shape, outputs).expect("a launch");
        let expected = inputs.chunks_exact(shape.input_words()).map(|input| {
            let (body, mask) = input.split_last().expect("a body");
            let mut glwe = start(shape, &bench.table_words, switch_word(*body, log2));
            for (step, group) in mask.chunks_exact(grouping).enumerate() {
                let mut sum = vec![T::default(); bench.ggsw(0).len()];
                for subset in 0..1 << grouping {
                    let exponent = switch_subset(group, subset, log2) as usize;
                    let ggsw = bench.ggsw((step << grouping) + subset);
                    let turned =
                        ggsw.chunks_exact(shape.polynomial_size).flat_map(|polynomial| rotated(polynomial, exponent));
                    sum.iter_mut().zip(turned).for_each(|(sum, word)| *sum = sum.wrapping_add(word));
                }
                glwe = external_product(shape, &sum, &glwe);
            }
            assert!(glwe.iter().filter(|word| **word != T::default()).count() > glwe.len() / 2, "something to compare");
            glwe
        });
        bench.check(&expected.collect::<Vec<_>>(), "groups");
    }
}

#[test]
fn group_steps_are_sums_of_products() {
    let shapes = || {
        // Enough bits that hardly any word is half a turn, for which two decompositions exist.
        let sizes = [(2, 256, 1, 20, 1), (3, 512, 1, 10, 2), (4, 256, 3, 7, 3)];
        sizes.into_iter().map(|(grouping, polynomial_size, glwe_dimension, base_log, levels)| {
            let gadget = Decomposition { base_log, levels };
            RotationShape { steps: 2, grouping, glwe_dimension, polynomial_size, gadget }
        })
    };
    group_steps_are_exact::<u32, u32>(shapes());
    group_steps_are_exact::<u64, u32>(shapes());
    group_steps_are_exact::<u64, u64>(shapes());
}

#[test]
fn group_steps_of_the_cluster_kernel_are_sums_of_products() {
    let gadget = Decomposition { base_log: 22, levels: 1 };
    // The first steps and the last ones copy less of the key than the steps between.
    let shapes = [2, 3, 4].into_iter().flat_map(|grouping| {
        [1, 2, 5].map(|steps| RotationShape { steps, grouping, glwe_dimension: 1, polynomial_size: 2048, gadget })
    });
    group_steps_are_exact::<u64, u64>(shapes);
}
