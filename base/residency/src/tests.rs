//! Compares the residents with a model: a list that does the same work in the simplest way.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert { name: u8, bytes: u64, rank: u8 },
    Lease { name: u8, rank: u8 },
    Release { lease: usize },
    Remove { name: u8 },
    MakeRoom { limit: u64, wanted: u64, rank: u8 },
    EvictOdd,
}

fn step() -> impl Strategy<Value = Step> {
    let (name, rank) = (0..8_u8, 0..3_u8);
    prop_oneof![
        3 => (name.clone(), 0..20_u64, rank.clone()).prop_map(|(name, bytes, rank)| Step::Insert { name, bytes, rank }),
        3 => (name.clone(), rank.clone()).prop_map(|(name, rank)| Step::Lease { name, rank }),
        2 => (0..16_usize).prop_map(|lease| Step::Release { lease }),
        1 => name.prop_map(|name| Step::Remove { name }),
        3 => (0..60_u64, 0..30_u64, rank).prop_map(|(limit, wanted, rank)| Step::MakeRoom { limit, wanted, rank }),
        1 => Just(Step::EvictOdd),
    ]
}

/// A value of the list. Values are ordered by their last use.
#[derive(Clone, Copy, Debug)]
struct Listed {
    name: u8,
    value: usize,
    bytes: u64,
    rank: u8,
}

#[derive(Default)]
struct Pair {
    residents: Residents<u8, usize, u8>,
    list: Vec<Listed>,
    /// Leases, each with the value that it must show.
    leases: Vec<(Lease<usize>, usize)>,
    values: usize,
}

impl Pair {
    fn is_leased(&self, listed: &Listed) -> bool {
        self.leases.iter().any(|(_, value)| *value == listed.value)
    }

    /// Names that the list evicts, or the bytes that stay.
    fn expected(&self, limit: u64, wanted: u64, rank: u8) -> Result<Vec<usize>, u64> {
        let mut staying: u64 = self.list.iter().map(|listed| listed.bytes).sum();
        let mut going = Vec::new();
        for of_rank in 0..=rank {
            for listed in self.list.iter().filter(|listed| listed.rank == of_rank && !self.is_leased(listed)) {
                if staying > limit.saturating_sub(wanted) {
                    staying -= listed.bytes;
                    going.push(listed.value);
                }
            }
        }
        if staying + wanted <= limit { Ok(going) } else { Err(staying) }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Insert { name, bytes, rank } => {
                self.values += 1;
                self.residents.insert(name, self.values, bytes, rank);
                self.list.retain(|listed| listed.name != name);
                self.list.push(Listed { name, value: self.values, bytes, rank });
            }
            Step::Lease { name, rank } => {
                let place = self.list.iter().position(|listed| listed.name == name);
                let lease = self.residents.lease(&name, rank);
                assert_eq!(lease.is_some(), place.is_some());
                if let (Some(lease), Some(place)) = (lease, place) {
                    let mut listed = self.list.remove(place);
                    listed.rank = listed.rank.max(rank);
                    self.list.push(listed);
                    self.leases.push((lease, listed.value));
                }
            }
            Step::Release { lease } if lease < self.leases.len() => drop(self.leases.remove(lease)),
            Step::Release { .. } => {}
            Step::Remove { name } => {
                let removed = self.residents.remove(&name).map(|evicted| *evicted);
                let listed = self.list.iter().find(|listed| listed.name == name).map(|listed| listed.value);
                assert_eq!(removed, listed);
                self.list.retain(|listed| listed.name != name);
            }
            Step::MakeRoom { limit, wanted, rank } => {
                let expected = self.expected(limit, wanted, rank);
                let got = self.residents.make_room(limit, wanted, rank);
                let got = got.map(|gone| gone.iter().map(|value| **value).collect::<Vec<_>>());
                assert_eq!(got.map_err(|full| full.staying_bytes), expected, "the same values, in the same order");
                if let Ok(going) = expected {
                    self.list.retain(|listed| !going.contains(&listed.value));
                }
            }
            Step::EvictOdd => {
                let mut gone: Vec<usize> =
                    self.residents.evict_if(|value| value % 2 == 1).iter().map(|value| **value).collect();
                let unwanted = |listed: &Listed| listed.value % 2 == 1 && !self.is_leased(listed);
                let mut expected: Vec<usize> =
                    self.list.iter().filter(|listed| unwanted(listed)).map(|listed| listed.value).collect();
                gone.sort_unstable();
                expected.sort_unstable();
                assert_eq!(gone, expected);
                self.list.retain(|listed| !expected.contains(&listed.value));
            }
        }
    }

    fn check(&self) {
        let mut got: Vec<_> = self
            .residents
            .iter()
            .map(|resident| (*resident.name, *resident.value, resident.bytes, resident.rank, resident.is_leased))
            .collect();
        let mut expected: Vec<_> = self
            .list
            .iter()
            .map(|listed| (listed.name, listed.value, listed.bytes, listed.rank, self.is_leased(listed)))
            .collect();
        got.sort_unstable();
        expected.sort_unstable();
        assert_eq!(got, expected);
        assert!(self.leases.iter().all(|(lease, value)| **lease == *value), "a lease keeps its value");
    }
}

proptest! {
    #[test]
    fn residents_agree_with_a_list_model(steps in prop::collection::vec(step(), 1..80)) {
        let mut pair = Pair::default();
        for step in steps {
            pair.apply(step);
            pair.check();
        }
    }
}

#[tokio::test]
async fn only_the_end_of_the_last_lease_notifies() {
    let mut residents = Residents::<u8, u8>::default();
    residents.insert(1, 1, 10, ());
    let [first, second] = [0, 1].map(|_| residents.lease(&1, ()).expect("a value"));
    let freed = residents.freed().clone();
    let mut waiting = std::pin::pin!(freed.notified());
    waiting.as_mut().enable();
    drop(first);
    let early = tokio::select! { biased; () = waiting.as_mut() => true, () = std::future::ready(()) => false };
    assert!(!early, "another lease lives");
    assert_eq!(residents.make_room(10, 1, ()).expect_err("a leased value"), Full { staying_bytes: 10 });
    drop(second);
    waiting.await;
    assert_eq!(residents.make_room(10, 1, ()).expect("room").len(), 1);
}
