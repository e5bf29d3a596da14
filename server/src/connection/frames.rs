//! Tracks HTTP/2 frame boundaries in the bytes that a connection receives.

/// Length of a frame's header (RFC 9113, section 4.1).
const HEADER_BYTES: usize = 9;

/// Length of the preface that a client sends before its first frame (RFC 9113, section 3.4).
pub(super) const PREFACE_BYTES: usize = 24;

/// The frame type of a body.
const DATA: u8 = 0x0;

/// Frame types whose payload is a header block or a part of a header block.
const HEADERS: u8 = 0x1;
const CONTINUATION: u8 = 0x9;

/// The flag of the frame that ends a header block.
const END_HEADERS: u8 = 0x4;

/// Counts the received bytes of an unfinished frame or header block, and the control frames.
///
/// The HTTP/2 library keeps an unfinished frame or header block in memory until its last byte
/// arrives, and a frame may be 1 MiB long. The library answers some frames, such as PING, at once.
/// The library reports neither, so this meter counts them.
#[derive(Debug)]
pub(super) struct FrameMeter {
    header: [u8; HEADER_BYTES],
    /// Received bytes of the current frame's header.
    header_bytes: usize,
    /// Received bytes of the current frame or header block, headers of frames included.
    received_bytes: usize,
    /// Bytes of the preface or of the current frame's payload that are still missing.
    missing_bytes: usize,
    /// Number of received frames other than DATA, HEADERS and CONTINUATION.
    control_frames: u64,
}

impl Default for FrameMeter {
    fn default() -> Self {
        Self {
            header: [0; HEADER_BYTES],
            header_bytes: 0,
            received_bytes: 0,
            missing_bytes: PREFACE_BYTES,
            control_frames: 0,
        }
    }
}

impl FrameMeter {
    /// Processes the next received bytes.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let wanted_bytes =
                if self.missing_bytes > 0 { self.missing_bytes } else { HEADER_BYTES - self.header_bytes };
            let (some, rest) = bytes.split_at(wanted_bytes.min(bytes.len()));
            bytes = rest;
            self.received_bytes += some.len();
            if self.missing_bytes > 0 {
                self.missing_bytes -= some.len();
            } else {
                self.header[self.header_bytes..][..some.len()].copy_from_slice(some);
                self.header_bytes += some.len();
                if self.header_bytes < HEADER_BYTES {
                    return;
                }
                let [high, middle, low, kind, ..] = self.header;
                self.control_frames += u64::from(!matches!(kind, DATA | HEADERS | CONTINUATION));
                (self.missing_bytes, self.header_bytes) = (u32::from_be_bytes([0, high, middle, low]) as usize, 0);
            }
            if self.missing_bytes == 0 && !self.is_inside_header_block() {
                self.received_bytes = 0;
            }
        }
    }

    /// Whether the header block continues after the frame that has just ended.
    fn is_inside_header_block(&self) -> bool {
        let [_, _, _, kind, flags, ..] = self.header;
        matches!(kind, HEADERS | CONTINUATION) && flags & END_HEADERS == 0
    }

    /// Number of received frames other than DATA, HEADERS and CONTINUATION.
    pub(super) fn control_frames(&self) -> u64 {
        self.control_frames
    }

    /// Number of received bytes that belong to an unfinished frame or header block.
    pub(super) fn unfinished_bytes(&self) -> usize {
        self.received_bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u8, flags: u8, payload_bytes: usize) -> Vec<u8> {
        let mut frame = (payload_bytes as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.resize(HEADER_BYTES + payload_bytes, 0);
        frame
    }

    proptest! {
        #[test]
        fn unfinished_bytes_are_those_after_the_last_whole_frame(
            payloads in prop::collection::vec(0_usize..50, 1..8),
            pieces in prop::collection::vec(1_usize..40, 1..40),
        ) {
            let mut bytes = vec![0; PREFACE_BYTES];
            let mut ends = vec![0, PREFACE_BYTES];
            for payload_bytes in payloads {
                bytes.extend(frame(0, 0, payload_bytes));
                ends.push(bytes.len());
            }
            let (mut meter, mut at) = (FrameMeter::default(), 0);
            for piece in pieces {
                let next = bytes.len().min(at + piece);
                meter.pass(&bytes[at..next]);
                at = next;
                let last_end = ends.iter().rev().find(|end| **end <= at).unwrap();
                prop_assert_eq!(meter.unfinished_bytes(), at - last_end);
            }
        }
    }

    #[test]
    fn frames_of_calls_are_no_control_frames() {
        let mut meter = FrameMeter::default();
        meter.pass(&[0; PREFACE_BYTES]);
        for (kind, control_frames) in [(4, 1), (DATA, 1), (6, 2), (HEADERS, 2), (8, 3), (CONTINUATION, 3), (99, 4)] {
            meter.pass(&frame(kind, 0, 8));
            assert_eq!(meter.control_frames(), control_frames, "{kind}");
        }
    }

    #[test]
    fn a_header_block_is_unfinished_until_its_last_frame() {
        let mut meter = FrameMeter::default();
        meter.pass(&[0; PREFACE_BYTES]);
        meter.pass(&frame(HEADERS, 0x1, 10));
        assert_eq!(meter.unfinished_bytes(), 19);
        meter.pass(&frame(CONTINUATION, 0, 0));
        assert_eq!(meter.unfinished_bytes(), 28);
        meter.pass(&frame(CONTINUATION, END_HEADERS, 1));
        assert_eq!(meter.unfinished_bytes(), 0);
        meter.pass(&frame(HEADERS, END_HEADERS, 5));
        assert_eq!(meter.unfinished_bytes(), 0);
    }
}
