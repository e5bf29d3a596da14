//! The exact stages apart from the key switch: the results equal those of the core bit for bit.

use std::sync::Arc;

use bytemuck::Pod;
use cloakwork_cuda::gpu::{Buffer, DriverError, Lists, Places, RotationShape, Table, View, Work};
use cloakwork_device::{LutSlot, NO_TABLE, Term, Wave};
use cloakwork_math::Torus;
use cloakwork_params::{Decomposition, ModulusSwitch, ParameterSet, table};
use cloakwork_tests_cuda::{
    emulator,
    gpu::{Gpu, read, words},
};
use cloakwork_tfhe::{modulus_switch::modulus_switch, sample_extract::sample_extract};

const LANES: usize = 3;

fn modulus_switch_agrees<T: Torus + Pod>() {
    let gpu = Gpu::default();
    for (dimension, log2) in [(5, 10), (300, 12), (128, 11)] {
        let mut ciphertexts = words::<T>(LANES * (dimension + 1), 5);
        // Words that round up to zero, and a word halfway between two values.
        ciphertexts[0] = T::from_u64(u64::MAX);
        ciphertexts[1] = T::from_u64(1 << (T::BITS - log2 - 1));
        for rule in [ModulusSwitch::Plain, ModulusSwitch::CenteredMean] {
            let mut expected = vec![0; ciphertexts.len()];
            for (input, output) in ciphertexts.chunks(dimension + 1).zip(expected.chunks_mut(dimension + 1)) {
                modulus_switch(rule, log2, input, output);
            }
            let (from, got) = (gpu.buffer(&ciphertexts), gpu.buffer(&vec![u32::MAX; expected.len()]));
            let centred = matches!(rule, ModulusSwitch::CenteredMean);
            let (from, to): (View<'_, T>, _) = (from.all().expect("words"), got.all().expect("room"));
            gpu.launcher().modulus_switch(from, dimension, log2, centred, to).expect("a launch");
            assert!(read::<u32>(&got) == expected, "{dimension} words to {log2} bits, {rule:?}");
        }
    }
}

#[test]
fn modulus_switches_agree_with_the_core() {
    modulus_switch_agrees::<u32>();
    modulus_switch_agrees::<u64>();
}

fn upload<'b>(room: &'b Buffer, wave: &Wave, tables: &[Arc<Table>]) -> Lists<'b> {
    let lanes: Vec<u32> = (0..wave.lanes().len() as u32).collect();
    let work = Work::of(wave, &lanes, tables);
    let mut put = |bytes: &[u8]| emulator::upload(room.view(0, bytes.len())?, bytes);
    work.upload(0, tables, &mut put).expect("room")
}

fn sample_extraction_agrees<T: Torus + Pod>(set: &'static ParameterSet) {
    let (gpu, k, n) = (Gpu::default(), 2, 64);
    let shape = RotationShape {
        steps: 1,
        grouping: 1,
        glwe_dimension: k,
        polynomial_size: n,
        gadget: Decomposition { base_log: 4, levels: 1 },
    };
    let glwes = words::<T>(LANES * (k + 1) * n, 6);
    let (coefficients, slots): ([&[usize]; 3], [&[u32]; 3]) =
        ([&[0], &[63, 17, 32], &[1, 62]], [&[4], &[0, 3, 1], &[6, 5]]);
    let mut wave = Wave::default();
    let mut tables = Vec::new();
    for (lane, (coefficients, slots)) in coefficients.iter().zip(slots).enumerate() {
        let table = wave.table(LutSlot(lane as u64));
        tables.push(Arc::new(Table {
            set,
            words: vec![gpu.buffer(&words::<T>(n, 9))],
            outputs: coefficients.to_vec(),
        }));
        wave.push([], 0, table, slots);
    }
    let mut expected = words::<T>(7 * (k * n + 1), 7);
    let arena = gpu.buffer(&expected);
    let mut rows = Vec::new();
    for (lane, glwe) in glwes.chunks_exact((k + 1) * n).enumerate() {
        for (coefficient, slot) in coefficients[lane].iter().zip(slots[lane]) {
            let output = expected.chunks_exact_mut(k * n + 1).nth(*slot as usize).expect("a slot");
            sample_extract(glwe.chunks_exact(n), n, *coefficient, output);
            rows.extend_from_slice(output);
        }
    }
    let (room, glwes, in_order) =
        (gpu.buffer(&[0u64; 1 << 10]), gpu.buffer(&glwes), gpu.buffer(&words::<T>(rows.len(), 8)));
    let lists = upload(&room, &wave, &tables);
    let from: View<'_, T> = glwes.all().expect("ciphertexts");
    let slots = Places::Slots(arena.all().expect("an arena"));
    gpu.launcher().sample_extract(from, &lists, shape, slots).expect("a launch");
    assert!(read::<T>(&arena) == expected, "slot 2 stays as it was, the others hold samples");
    gpu.launcher().sample_extract(from, &lists, shape, Places::Rows(in_order.all().expect("rows"))).expect("a launch");
    assert!(read::<T>(&in_order) == rows, "the same one after the other");
    // The rows then go to their slots.
    let arena = gpu.buffer(&words::<T>(7 * (k * n + 1), 7));
    let (rows, to): (View<'_, T>, _) = (in_order.all().expect("rows"), arena.all().expect("an arena"));
    gpu.launcher().store_rows(rows, &lists, k * n + 1, to).expect("a launch");
    assert!(read::<T>(&arena) == expected);
}

#[test]
fn sample_extractions_agree_with_the_core() {
    sample_extraction_agrees::<u32>(table::by_name("TOY_BOOLEAN").expect("a set"));
    sample_extraction_agrees::<u64>(table::by_name("TOY_MESSAGE_2_CARRY_2").expect("a set"));
}

fn sums_agree<T: Torus + Pod>() {
    let (gpu, dimension) = (Gpu::default(), 200);
    let arena = words::<T>(4 * (dimension + 1), 8);
    let constants = [1 << 61, u64::MAX << 32, 0];
    let mut wave = Wave::default();
    let terms = [Term { slot: 3, factor: 4 }, Term { slot: 0, factor: -1 }];
    wave.push(terms, constants[0], NO_TABLE, &[2]);
    wave.push([], constants[1], NO_TABLE, &[2]);
    wave.push([Term { slot: 1, factor: -7 }], constants[2], NO_TABLE, &[2]);
    let (room, slots) = (gpu.buffer(&[0u64; 1 << 10]), gpu.buffer(&arena));
    let sums = gpu.buffer(&words::<T>(LANES * (dimension + 1), 9));
    let lists = upload(&room, &wave, &[]);
    let (from, to): (View<'_, T>, _) = (slots.all().expect("an arena"), sums.all().expect("room"));
    gpu.launcher().linear_combination(from, &lists, to, dimension).expect("a launch");
    let slot = |slot: usize, word: usize| arena[slot * (dimension + 1) + word];
    for (lane, sum) in read::<T>(&sums).chunks_exact(dimension + 1).enumerate() {
        for (word, sum) in sum.iter().enumerate() {
            let constant = if word == dimension { constants[lane] >> (64 - T::BITS) } else { 0 };
            let terms = match lane {
                0 => slot(3, word).wrapping_mul(T::from_i64(4)).wrapping_sub(slot(0, word)),
                1 => T::default(),
                _ => slot(1, word).wrapping_mul(T::from_i64(-7)),
            };
            assert!(*sum == terms.wrapping_add(T::from_u64(constant)), "lane {lane}, word {word}");
        }
    }
    let few: View<'_, T> = slots.view(0, 3 * (dimension + 1)).expect("three slots");
    let refused = gpu.launcher().linear_combination(few, &lists, to, dimension);
    assert_eq!(refused, Err(DriverError::Misfit("slots of the arena")), "slot 3 is none of them");
}

#[test]
fn sums_of_slots_equal_their_definition() {
    sums_agree::<u32>();
    sums_agree::<u64>();
}
