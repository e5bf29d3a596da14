//! Header blocks in HPACK (RFC 7541), encoded field by field without Huffman codes.

/// Index of the newest entry of the dynamic table. The static table ends before this index.
const NEWEST_ENTRY: u8 = 62;

/// A header block that is being written.
#[derive(Clone, Debug, Default)]
pub struct HeaderBlock(Vec<u8>);

impl HeaderBlock {
    /// The headers with which a gRPC call begins.
    #[must_use]
    pub fn grpc_call(path: &str) -> Self {
        Self::request("POST", path, "127.0.0.1").field("content-type", "application/grpc").field("te", "trailers")
    }

    /// The pseudo-headers of a request.
    #[must_use]
    pub fn request(method: &str, path: &str, authority: &str) -> Self {
        Self::default()
            .field(":method", method)
            .field(":scheme", "http")
            .field(":path", path)
            .field(":authority", authority)
    }

    /// Appends a field that the decoder does not store.
    #[must_use]
    pub fn field(self, name: &str, value: &str) -> Self {
        self.literal(0x00, name, value)
    }

    /// Appends a field that the decoder stores as the newest entry of its dynamic table.
    #[must_use]
    pub fn stored_field(self, name: &str, value: &str) -> Self {
        self.literal(0x40, name, value)
    }

    /// Appends the newest entry of the dynamic table `count` times, at one byte each.
    #[must_use]
    pub fn repeat_newest(mut self, count: usize) -> Self {
        self.0.resize(self.0.len() + count, 0x80 | NEWEST_ENTRY);
        self
    }

    /// The encoded block.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn literal(mut self, representation: u8, name: &str, value: &str) -> Self {
        self.0.push(representation);
        self.string(name);
        self.string(value);
        self
    }

    /// Writes a string. Its length has a prefix of seven bits; the rest of a longer length follows
    /// in groups of seven bits.
    fn string(&mut self, text: &str) {
        const PREFIX_MAX: usize = 127;
        if text.len() < PREFIX_MAX {
            self.0.push(text.len() as u8);
        } else {
            self.0.push(PREFIX_MAX as u8);
            let mut rest = text.len() - PREFIX_MAX;
            while rest >= 128 {
                self.0.push((rest % 128) as u8 | 0x80);
                rest /= 128;
            }
            self.0.push(rest as u8);
        }
        self.0.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_strings_have_lengths_of_several_bytes() {
        // RFC 7541, appendix C.1.2 encodes 1337 with a prefix of five bits. With a prefix of seven
        // bits, 1337 - 127 = 1210 remain.
        let block = HeaderBlock::default().field("x", &"v".repeat(1337)).into_bytes();
        assert_eq!(block[..6], [0x00, 1, b'x', 127, 1210_u16.rem_euclid(128) as u8 | 0x80, (1210 / 128) as u8]);
        assert_eq!(block.len(), 6 + 1337);
    }

    #[test]
    fn stored_fields_are_repeated_at_one_byte_each() {
        let block = HeaderBlock::default().stored_field("a", "").repeat_newest(3).into_bytes();
        assert_eq!(block, [0x40, 1, b'a', 0, 0xbe, 0xbe, 0xbe]);
    }
}
