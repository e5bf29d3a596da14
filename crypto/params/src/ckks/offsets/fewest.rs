//! Search for the cut of offsets with the fewest giant steps.
//!
//! A giant step needs a division by the special primes and a decomposition into digits of its own.
//! A baby step needs only a multiplication by its key. One giant step less is therefore worth
//! several more baby steps.

/// A cut of places into blocks. A giant step is a multiple of `inner`, and its block begins `first`
/// places from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Places in a block.
    pub(super) inner: usize,
    /// The first baby step: the distance from a giant step to the first place of its block, zero or
    /// negative (to the right).
    pub(super) first: i64,
}

/// Finds the cut with the fewest giant steps among the cuts with at most `keys_most` keys. Ties go
/// to the fewest keys, then the smallest blocks, then the fewest places to the right. Returns
/// `None` if every cut takes more keys.
///
/// `places` are sorted and distinct, and all less than `around` from zero. For each length of
/// blocks, each place is visited only a few times, and unsuitable lengths are skipped. The search
/// thus takes a few steps for each entry of the matrix. Clients cannot cause more work than that,
/// because they send these entries or have them made for a bootstrap.
pub(super) fn fewest_giants(places: &[i64], around: usize, keys_most: usize) -> Option<Cut> {
    let (least, last) = (*places.first()?, *places.last()?);
    let (count, span) = (places.len(), (last - least + 1) as usize);
    // Blocks longer than the span of all places and zero are no better than blocks of that span.
    let longest = around.min((last.max(0) - least.min(0) + 1) as usize);
    let mut seen = vec![0; longest];
    let mut best: Option<([usize; 2], Cut)> = None;
    for inner in (1..=longest).rev() {
        // A block has at most `inner` places, one for each baby step. One baby step and one giant
        // step are zero and need no key.
        let giants_least = count.div_ceil(inner) - 1;
        if best.is_some_and(|([giants, _], _)| giants_least > giants) {
            break;
        }
        let babies_least = count.div_ceil(span.div_ceil(inner)) - 1;
        if babies_least + giants_least > keys_most {
            continue;
        }
        let Some(babies) = count_babies(places, inner, keys_most - giants_least, &mut seen) else { continue };
        let (giants, first) = count_giants(places, inner);
        let rank = [giants, babies + giants];
        // Blocks get smaller, so the last of equally good cuts has the smallest blocks.
        if rank[1] <= keys_most && best.is_none_or(|(best, _)| rank <= best) {
            best = Some((rank, Cut { inner, first }));
        }
    }
    best.map(|(_, cut)| cut)
}

/// Counts the baby steps other than zero, which do not depend on the start of blocks. Returns
/// `None` if there are more than `most`.
fn count_babies(places: &[i64], inner: usize, most: usize, seen: &mut [usize]) -> Option<usize> {
    let mut babies = 0;
    for place in places {
        let baby = place.rem_euclid(inner as i64) as usize;
        // Each length of blocks leaves its own mark, so `seen` needs no reset.
        if std::mem::replace(&mut seen[baby], inner) != inner && baby != 0 {
            babies += 1;
            if babies > most {
                return None;
            }
        }
    }
    Some(babies)
}

/// The fewest giant steps other than zero, and the first place of the block that achieves them.
fn count_giants(places: &[i64], inner: usize) -> (usize, i64) {
    let inner = inner as i64;
    // Neighbours in a group are less than a block apart, so none of a group's blocks is empty. No
    // block has places of two groups. There are no more groups than blocks on the circle.
    let groups: Vec<[i64; 2]> =
        places.chunk_by(|place, next| next - place < inner).map(|group| [group[0], group[group.len() - 1]]).collect();
    let giants_from = |first: i64| {
        let block = |place: i64| (place - first).div_euclid(inner);
        let blocks: i64 = groups.iter().map(|[least, last]| block(*last) - block(*least) + 1).sum();
        let in_block_of_nothing = places.get(places.partition_point(|place| *place < first));
        blocks as usize - usize::from(in_block_of_nothing.is_some_and(|place| *place < first + inner))
    };
    // All blocks can start later, until a block starts with a group, or until the block of zero
    // would exclude zero. Only these starts need a check.
    let firsts = groups.iter().map(|[least, _]| -(-least).rem_euclid(inner));
    let best = firsts.chain([0]).map(|first| (giants_from(first), -first)).min();
    best.map_or((0, 0), |(giants, right)| (giants, -right))
}
