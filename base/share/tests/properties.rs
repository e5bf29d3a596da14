//! A resource never gives out more than its limits, and each caller in line gets its turn.

use std::{collections::HashMap, pin::Pin, sync::Arc, task::Context};

use cloakwork_share::{Exceeded, FairShare, Share};
use futures_util::FutureExt as _;
use proptest::prelude::*;

const ALL: u64 = 10;
const EACH: u64 = 4;

/// A caller that waits for its share, and its tenant.
type Caller = Pin<Box<dyn Future<Output = (u8, Share<u8>)>>>;

/// A step of a random history.
#[derive(Clone, Debug)]
enum Step {
    /// A tenant takes units at once.
    Take(u8, u64),
    /// A share changes its size.
    Resize(usize, u64),
    /// A share is dropped.
    Drop(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..4u8, 0..7u64).prop_map(|(tenant, units)| Step::Take(tenant, units)),
        (any::<usize>(), 0..7u64).prop_map(|(index, units)| Step::Resize(index, units)),
        any::<usize>().prop_map(Step::Drop),
    ];
    prop::collection::vec(step, 0..100)
}

/// The limit that is exceeded where a tenant with `own` of `all` units asks for more.
fn expected(own: u64, all: u64, more: u64) -> Result<(), Exceeded> {
    if own + more > EACH {
        return Err(Exceeded::Each { limit: EACH, wanted: own + more });
    }
    if all + more > ALL {
        return Err(Exceeded::All { limit: ALL, wanted: all + more });
    }
    Ok(())
}

proptest! {
    #[test]
    fn shares_that_are_taken_at_once_agree_with_a_model(steps in steps()) {
        let resource = FairShare::new(ALL, EACH);
        let mut shares: Vec<(u8, Share<u8>)> = Vec::new();
        let own = |shares: &[(u8, Share<u8>)], tenant: u8| -> u64 {
            shares.iter().filter(|(of, _)| *of == tenant).map(|(_, share)| share.units()).sum()
        };
        let all = |shares: &[(u8, Share<u8>)]| -> u64 { shares.iter().map(|(_, share)| share.units()).sum() };
        for step in steps {
            match step {
                Step::Take(tenant, units) => {
                    let expected = expected(own(&shares, tenant), all(&shares), units);
                    let taken = resource.try_take(&tenant, units);
                    // No units need no room.
                    prop_assert_eq!(taken.as_ref().err().copied(), expected.err().filter(|_| units > 0));
                    shares.extend(taken.ok().map(|share| (tenant, share)));
                }
                Step::Resize(index, units) if !shares.is_empty() => {
                    let index = index % shares.len();
                    let (tenant, before) = (shares[index].0, shares[index].1.units());
                    let more = units.saturating_sub(before);
                    let expected = if more > 0 { expected(own(&shares, tenant), all(&shares), more) } else { Ok(()) };
                    prop_assert_eq!(shares[index].1.resize(units), expected);
                    prop_assert_eq!(shares[index].1.units(), if expected.is_ok() { units } else { before });
                }
                Step::Drop(index) if !shares.is_empty() => drop(shares.remove(index % shares.len())),
                Step::Resize(..) | Step::Drop(_) => {}
            }
            prop_assert_eq!(resource.held(), all(&shares));
            let holding = (0..4).filter(|tenant| own(&shares, *tenant) > 0).count();
            prop_assert_eq!(resource.tenants(), holding, "idle tenants are forgotten");
        }
    }

    /// Callers come, give up and leave in any order. The limits hold at each moment, and each
    /// caller that stays is served.
    #[test]
    fn callers_in_line_keep_to_the_limits_and_are_all_served(
        requests in prop::collection::vec((0..4u8, 1..7u64), 1..40),
        choices in prop::collection::vec((any::<usize>(), any::<bool>()), 0..120),
    ) {
        let resource = FairShare::new(ALL, EACH);
        let mut waker = Context::from_waker(std::task::Waker::noop());
        let mut waiting: Vec<Caller> = Vec::new();
        for (tenant, units) in requests {
            let resource = resource.clone();
            waiting.push(Box::pin(async move { (tenant, resource.take(&tenant, units).await) }));
        }
        let mut held: Vec<(u8, Share<u8>)> = Vec::new();
        let mut choices = choices.into_iter();
        loop {
            let mut index = 0;
            while index < waiting.len() {
                match waiting[index].as_mut().poll(&mut waker) {
                    std::task::Poll::Ready(share) => { held.push(share); drop(waiting.remove(index)); }
                    std::task::Poll::Pending => index += 1,
                }
            }
            let mut each: HashMap<u8, u64> = HashMap::new();
            held.iter().for_each(|(tenant, share)| *each.entry(*tenant).or_default() += share.units());
            prop_assert!(each.values().all(|units| *units <= EACH), "{:?}", each);
            prop_assert!(each.values().sum::<u64>() <= ALL);
            prop_assert_eq!(resource.held(), each.values().sum::<u64>());
            if waiting.is_empty() && held.is_empty() {
                break;
            }
            match choices.next() {
                Some((index, true)) if !waiting.is_empty() => drop(waiting.remove(index % waiting.len())),
                Some((index, _)) if !held.is_empty() => drop(held.remove(index % held.len())),
                Some(_) => {}
                None => {
                    prop_assert!(!held.is_empty(), "{} callers wait for units that are free", waiting.len());
                    held.clear();
                }
            }
        }
        prop_assert_eq!(resource.tenants(), 0);
    }
}

#[tokio::test]
async fn tenants_take_turns_however_many_callers_each_has() {
    let resource = FairShare::new(1, 1);
    let first = resource.take(&"a", 1).await;
    let mut many: Vec<_> = (0..5).map(|_| Box::pin(resource.take(&"a", 1))).collect();
    assert!(many.iter_mut().all(|caller| caller.now_or_never().is_none()));
    let mut other = Box::pin(resource.take(&"b", 1));
    assert!(other.as_mut().now_or_never().is_none());
    drop(first);
    // The line of `a` was there first, so one of its callers comes before `b`, and no more than
    // one.
    let second = many.remove(0).now_or_never().expect("the turn of a");
    assert!(other.as_mut().now_or_never().is_none());
    drop(second);
    assert!(other.now_or_never().is_some(), "the turn of b");
}

#[tokio::test]
async fn a_tenant_that_waits_for_its_own_share_delays_no_other() {
    let resource = FairShare::new(10, 4);
    let _own = resource.take(&"a", 3).await;
    let mut waiting: Vec<_> = (0..5).map(|_| Box::pin(resource.take(&"a", 100))).collect();
    assert!(waiting.iter_mut().all(|caller| caller.now_or_never().is_none()), "a has one unit left of four");
    assert!(resource.take(&"b", 4).now_or_never().is_some());
}

#[tokio::test]
async fn a_large_request_is_not_overtaken_for_ever_by_small_ones() {
    let resource: Arc<FairShare<u32>> = FairShare::new(4, 4);
    let mut small = resource.take(&0, 2).await;
    let mut large = Box::pin(resource.take(&1, 4));
    assert!(large.as_mut().now_or_never().is_none());
    let mut later = Box::pin(resource.take(&2, 1));
    assert!(later.as_mut().now_or_never().is_none(), "two units are free, and the large request was first");
    small.resize(0).expect("fewer");
    let large = large.now_or_never().expect("its turn");
    assert_eq!(large.units(), 4);
    assert!(later.as_mut().now_or_never().is_none());
    drop(large);
    assert!(later.now_or_never().is_some());
}

#[tokio::test]
async fn units_that_were_granted_to_a_caller_that_gives_up_come_back() {
    let resource = FairShare::new(1, 1);
    let first = resource.take(&"a", 1).await;
    let mut given_up = Box::pin(resource.take(&"b", 1));
    assert!(given_up.as_mut().now_or_never().is_none());
    drop(first);
    assert_eq!(resource.held(), 1, "granted, and not yet received");
    drop(given_up);
    assert_eq!((resource.held(), resource.tenants()), (0, 0));
}
