//! The levels and the scale before and after a bootstrap.

use cloakwork_ckks::{Bootstrap, BootstrapKind, BootstrapShape, KeySize};
use cloakwork_params::ckks;

use crate::client::{Client, numbers, ring};

/// Levels after a regular bootstrap and after a lossy one, by the number of stages, from 1 on. Each
/// entry is for the sets of a chain. The last one is the toy set.
const LEVELS: [([&str; 3], [usize; 5], [usize; 5]); 2] = [
    (["CKKS_45_60_50_H4096", "CKKS_45_60_50", "TOY_CKKS_45_60_50"], [13, 12, 11, 10, 9], [14, 14, 14, 14, 14]),
    (["CKKS_54_60_H4096", "CKKS_54_60", "TOY_CKKS_54_60"], [16, 14, 12, 10, 8], [17, 16, 15, 14, 13]),
];

const SIZES: [KeySize; 3] = [KeySize::Small, KeySize::Medium, KeySize::Large];

/// The levels depend neither on the size of the keys nor on the number of slots.
#[test]
fn levels_depend_only_on_the_kind_and_the_stages() {
    let mut shapes = 0;
    for (names, regular, lossy) in LEVELS {
        for name in names {
            let set = ckks::by_name(name).expect("a set");
            for (slots_log2, stages, size) in all(set.size_log2) {
                let of = |kind| BootstrapShape { slots_log2, stages, size, kind };
                for (shape, levels) in [
                    (of(BootstrapKind::Regular), (0, regular[stages - 1])),
                    (of(BootstrapKind::Lossy), (stages, lossy[stages - 1])),
                ] {
                    assert_eq!(shape.check(set), Ok(()));
                    assert_eq!((shape.level_in(), shape.level_out(set)), levels, "{name}, {shape:?}");
                    shapes += 1;
                }
            }
        }
    }
    // There are 1 to 15 or 1 to 9 FFT steps, in up to five stages.
    assert_eq!(shapes, 2 * 2 * 3 * (2 * (1 + 2 + 3 + 4 + 5 * 11) + (1 + 2 + 3 + 4 + 5 * 5)));
}

fn all(size_log2: u32) -> impl Iterator<Item = (u32, usize, KeySize)> {
    let stages = |slots_log2: u32| 1..=slots_log2.min(5) as usize;
    let shapes = (1..size_log2).flat_map(move |slots_log2| stages(slots_log2).map(move |stages| (slots_log2, stages)));
    shapes.flat_map(|(slots_log2, stages)| SIZES.map(|size| (slots_log2, stages, size)))
}

/// The numbers of stages are those that keep the matrices thin.
#[test]
fn results_have_the_promised_levels_and_scale() {
    for ([.., toy], regular, lossy) in LEVELS {
        let ring = ring(toy);
        for (slots_log2, stages) in [(9, 3), (9, 4), (9, 5), (8, 2), (5, 1), (5, 3), (5, 5), (1, 1)] {
            for size in SIZES {
                let kinds = [
                    (Bootstrap::new(&ring, slots_log2, stages, size), 0, regular[stages - 1]),
                    (Bootstrap::lossy(&ring, slots_log2, stages, size), stages, lossy[stages - 1]),
                ];
                for (bootstrap, level_in, level_out) in kinds {
                    let mut client = Client::with(bootstrap.expect("a bootstrap"));
                    // A scale as computations leave it, which differs a little from the set's own.
                    let mut x = client.encrypt(&numbers(1 << slots_log2, 3), level_in + 1);
                    x.scale *= 1.000_3;
                    let result = client.bootstrap(&x, 2);
                    let case = format!("{toy}, 2^{slots_log2} slots, {stages} stages, {size:?}, from {level_in}");
                    assert_eq!((result.level(), result.slots()), (level_out, 1 << slots_log2), "{case}");
                    let ratio = result.scale / x.scale;
                    assert!((ratio - 1.0).abs() < 1e-9, "{case}: the scale is {ratio} times what it was");
                }
            }
        }
    }
}
