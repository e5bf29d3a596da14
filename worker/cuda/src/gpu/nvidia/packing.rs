//! Distribution of copies over buffers of equal size.

use std::ops::Range;

/// A part of a copy, and its place in a buffer.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Index of the copy.
    pub(super) copy: usize,
    /// The part's bytes among those of the copy.
    pub(super) bytes: Range<usize>,
    /// Place of the first byte in the buffer.
    pub(super) at: usize,
}

/// Cuts copies of these lengths into chunks, and fills buffers of `buffer_bytes` bytes with them,
/// back to back and in order. Returns the chunks of each buffer. Every buffer but the last is full,
/// so that many short copies need few buffers.
pub(super) fn pack(lengths: impl IntoIterator<Item = usize>, buffer_bytes: usize) -> Vec<Vec<Chunk>> {
    let mut buffers: Vec<Vec<Chunk>> = Vec::new();
    let mut at = 0;
    for (copy, length) in lengths.into_iter().enumerate() {
        let mut done = 0;
        while done < length {
            at %= buffer_bytes;
            let end = length.min(done + buffer_bytes - at);
            let chunk = Chunk { copy, bytes: done..end, at };
            match buffers.last_mut() {
                Some(buffer) if at > 0 => buffer.push(chunk),
                _ => buffers.push(vec![chunk]),
            }
            at += end - done;
            done = end;
        }
    }
    buffers
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn chunks_cover_every_byte_once_and_fill_the_buffers(
            lengths in prop::collection::vec(0usize..100, 0..20),
            buffer_bytes in 1usize..60,
        ) {
            let buffers = pack(lengths.iter().copied(), buffer_bytes);
            let total: usize = lengths.iter().sum();
            prop_assert_eq!(buffers.len(), total.div_ceil(buffer_bytes));
            for (number, buffer) in buffers.iter().enumerate() {
                let mut at = 0;
                for chunk in buffer {
                    prop_assert_eq!(chunk.at, at);
                    prop_assert!(!chunk.bytes.is_empty());
                    at += chunk.bytes.len();
                }
                prop_assert_eq!(at, buffer_bytes.min(total - number * buffer_bytes));
            }
            // In order, the chunks of a copy are the whole copy.
            let mut ends = vec![0; lengths.len()];
            for chunk in buffers.iter().flatten() {
                prop_assert_eq!(chunk.bytes.start, ends[chunk.copy]);
                ends[chunk.copy] = chunk.bytes.end;
            }
            prop_assert_eq!(ends, lengths);
        }
    }
}
