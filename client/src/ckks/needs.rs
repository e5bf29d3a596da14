//! Requirements of a program on vectors: the keys, and a worker's memory.

use std::collections::BTreeSet;

use cloakwork_circuit::ckks::{Action, BootstrapShape, KeyNeed, KeyUse};
use cloakwork_params::ckks::layout::KeyShape;

use super::{CkksBootstrap, CkksWish, VectorProgram};

impl VectorProgram {
    /// The smallest key that runs this program.
    pub fn wish(&self) -> CkksWish {
        let shapes = self.shapes();
        // Keys of bootstraps also serve other operations, up to their levels.
        let of_bootstraps: Vec<KeyShape> = shapes.iter().flat_map(|shape| self.keys_of(*shape)).collect();
        let further = self.checked.keys().iter().filter(|need| !self.is_met(need, &of_bootstraps));
        let mut wish = CkksWish { level: Some(0), ..CkksWish::default() };
        for KeyNeed { purpose, level, .. } in further {
            wish.level = wish.level.max(Some(*level));
            match *purpose {
                KeyUse::Rotation { steps, slots_log2 } => wish.rotations.push(shorter_way(steps, slots_log2)),
                KeyUse::Conjugation => wish.conjugation = true,
                // Every key has products, up to the level. The other keys belong to bootstraps.
                KeyUse::Multiplication | KeyUse::ToSparse | KeyUse::ToDense => {}
            }
        }
        let bootstrap = |shape: BootstrapShape| {
            let slots = shape.slots();
            CkksBootstrap { slots, stages: shape.stages, size: shape.size, kind: shape.kind }
        };
        CkksWish { bootstraps: shapes.into_iter().map(bootstrap).collect(), ..wish }
    }

    /// Bytes of the program's keys in a worker's memory, including masks, if no key goes to a
    /// higher level than necessary.
    pub fn key_bytes(&self) -> u64 {
        let set = self.set();
        let bytes = |need: &KeyNeed| {
            let shape = KeyShape { purpose: need.purpose.purposes(set)[0], level: need.level };
            let rows = shape.bodies(set) * (shape.level + 1 + shape.special(set));
            (2 * rows * set.size() * size_of::<u64>()) as u64
        };
        self.checked.keys().iter().map(bytes).sum()
    }

    /// Bytes of the matrices of the program's bootstraps in a worker's memory.
    pub fn matrix_bytes(&self) -> u64 {
        self.shapes().into_iter().map(|shape| shape.matrix_bytes(self.set())).sum()
    }

    /// Kinds of bootstraps of the program, each once.
    fn shapes(&self) -> BTreeSet<BootstrapShape> {
        let shape = |action: &Action| match action {
            Action::Bootstrap(_, shape) => Some(*shape),
            _ => None,
        };
        self.checked.steps().iter().filter_map(|step| shape(&step.action)).collect()
    }

    /// Keys that are made for a bootstrap.
    fn keys_of(&self, shape: BootstrapShape) -> Vec<KeyShape> {
        let keys = shape.keys(self.set()).into_iter();
        let purposes = |(key, level): (KeyUse, usize)| {
            key.purposes(self.set()).into_iter().map(move |purpose| KeyShape { purpose, level })
        };
        keys.flat_map(purposes).collect()
    }

    fn is_met(&self, need: &KeyNeed, keys: &[KeyShape]) -> bool {
        let purposes = need.purpose.purposes(self.set());
        keys.iter().any(|key| key.level >= need.level && purposes.contains(&key.purpose))
    }
}

/// Rotates to the right if that takes fewer steps.
fn shorter_way(steps: usize, slots_log2: u32) -> i64 {
    let (steps, slots) = (steps as i64, 1_i64 << slots_log2);
    if steps > slots / 2 { steps - slots } else { steps }
}

#[cfg(test)]
mod tests {
    use cloakwork_circuit::ckks::Outline;
    use cloakwork_secret::ckks::{BootstrapKind, KeyPlan, KeySize, Ring};

    use super::*;
    use crate::{VectorProgramBuilder, VectorValue, ckks::generate::plan, ckks_set_by_name};

    const SET: &str = "TOY_CKKS_45_60_50";

    /// Builds a program on a vector of 16 numbers at level 9, and returns the key that it requires.
    fn wish(make: impl FnOnce(&mut VectorProgramBuilder, VectorValue) -> VectorValue) -> CkksWish {
        let mut program = VectorProgramBuilder::new(ckks_set_by_name(SET).expect("a set"));
        let x = program.input("x", 4, 9);
        let y = make(&mut program, x);
        program.output(y);
        let program = program.build().expect("a program");
        let wish = program.wish();
        let keys: KeyPlan = plan(&Ring::new(program.set()), &wish).expect("a plan of the set");
        let outline: &Outline = program.checked.outline();
        outline.choose_keys(&keys.shapes().collect::<Vec<_>>()).expect("the planned keys are enough");
        assert_eq!(program.matrix_bytes() > 0, !wish.bootstraps.is_empty());
        assert!(program.key_bytes() > 0 || wish == CkksWish { level: Some(0), ..CkksWish::default() });
        wish
    }

    #[test]
    fn a_key_made_to_the_requirements_of_a_program_suffices() {
        let bootstrap = |slots, kind| CkksBootstrap { slots, stages: 2, size: KeySize::Medium, kind };
        let (none, regular) = (CkksWish::default(), bootstrap(16, BootstrapKind::Regular));
        assert_eq!(wish(|program, x| program.negate(x)), CkksWish { level: Some(0), ..none.clone() });
        assert_eq!(wish(|program, x| program.multiply(x, x)), CkksWish { level: Some(9), ..none.clone() });
        let turned = wish(|program, x| {
            let [left, right] = [program.rotate(x, 3), program.rotate(x, -1)];
            let low = program.level_down(left, 4);
            let conjugate = program.conjugate(low);
            program.add(right, conjugate)
        });
        let rotations = turned.rotations.iter().copied().collect::<BTreeSet<_>>();
        assert_eq!(rotations, [-1, 3].into());
        assert!(turned.conjugation && turned.bootstraps.is_empty() && turned.level == Some(9), "{turned:?}");
        // The bootstrap's keys reach higher levels than the product afterwards.
        let fresh = wish(|program, x| {
            let fresh = program.bootstrap(x, 2, KeySize::Medium, BootstrapKind::Regular);
            program.multiply(fresh, fresh)
        });
        assert_eq!(fresh, CkksWish { bootstraps: vec![regular], level: Some(0), ..none });
        let [first, second] = [BootstrapKind::Regular, BootstrapKind::Lossy];
        let both = wish(|program, x| {
            let [a, b] = program.bootstrap_both([x, x], 2, KeySize::Medium, first);
            let sum = program.add(a, b);
            let total = program.total(sum);
            program.bootstrap(total, 2, KeySize::Medium, second)
        });
        assert_eq!(both.bootstraps, [bootstrap(16, first), bootstrap(16, second)]);
        assert!(both.rotations.len() <= 4, "{both:?}");
    }
}
