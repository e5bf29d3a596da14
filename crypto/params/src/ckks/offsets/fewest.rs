//! Which cut of offsets takes the fewest giant steps.
//!
//! A giant step has to be brought down from the special primes and cut into digits of its own, where a baby step is only
//! multiplied by its key, so one giant step less is worth several baby steps more.

/// A cut of places into blocks: a giant step is a multiple of `inner`, and its block begins `first` places from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Places of a block.
    pub(super) inner: usize,
    /// From a giant step to the first place of its block, none or some to the right: the first baby step.
    pub(super) first: i64,
}

/// Of all cuts that take no more keys than that, the one with the fewest giant steps; then with the fewest keys, the smallest
/// blocks, and the fewest places to the right. There is none where all take more.
///
/// Places are in order, each once, all less than `around` from nothing. For each length of blocks each place is looked at a
/// few times at most, and lengths that could not do are passed over, so that this takes a few steps for each entry of the
/// matrix: whoever asks for a product with it has sent those, or has them made for a bootstrap.
pub(super) fn fewest_giants(places: &[i64], around: usize, keys_most: usize) -> Option<Cut> {
    let (least, last) = (*places.first()?, *places.last()?);
    let (count, span) = (places.len(), (last - least + 1) as usize);
    // Longer blocks than from the first place to the last, and to nothing, are as good as one of those.
    let longest = around.min((last.max(0) - least.min(0) + 1) as usize);
    let mut seen = vec![0; longest];
    let mut best: Option<([usize; 2], Cut)> = None;
    for inner in (1..=longest).rev() {
        // A block has as many places as baby steps at most, one of which is by nothing; and so has one of the blocks.
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
        // Blocks get smaller: of cuts that are as good, the last one stays.
        if rank[1] <= keys_most && best.is_none_or(|(best, _)| rank <= best) {
            best = Some((rank, Cut { inner, first }));
        }
    }
    best.map(|(_, cut)| cut)
}

/// Baby steps but the one by nothing, wherever blocks begin, if there are no more than that.
fn count_babies(places: &[i64], inner: usize, most: usize, seen: &mut [usize]) -> Option<usize> {
    let mut babies = 0;
    for place in places {
        let baby = place.rem_euclid(inner as i64) as usize;
        // Each length of blocks leaves its own mark.
        if std::mem::replace(&mut seen[baby], inner) != inner && baby != 0 {
            babies += 1;
            if babies > most {
                return None;
            }
        }
    }
    Some(babies)
}

/// The fewest giant steps but the one by nothing, and the first place of its block.
fn count_giants(places: &[i64], inner: usize) -> (usize, i64) {
    let inner = inner as i64;
    // Within a group no place is a block away from the next one, so that none of its blocks is empty, and no block has places
    // of two groups. There are no more groups than blocks in all that is around.
    let groups: Vec<[i64; 2]> =
        places.chunk_by(|place, next| next - place < inner).map(|group| [group[0], group[group.len() - 1]]).collect();
    let giants_from = |first: i64| {
        let block = |place: i64| (place - first).div_euclid(inner);
        let blocks: i64 = groups.iter().map(|[least, last]| block(*last) - block(*least) + 1).sum();
        let in_block_of_nothing = places.get(places.partition_point(|place| *place < first));
        blocks as usize - usize::from(in_block_of_nothing.is_some_and(|place| *place < first + inner))
    };
    // All blocks may begin later until one begins where a group does, or until the block of nothing would leave it out.
    let firsts = groups.iter().map(|[least, _]| -(-least).rem_euclid(inner));
    let best = firsts.chain([0]).map(|first| (giants_from(first), -first)).min();
    best.map_or((0, 0), |(giants, right)| (giants, -right))
}
