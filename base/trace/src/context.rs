//! The context of a trace: which trace and which span a call or a job belongs to.

use std::fmt;

/// The identifier of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(pub [u8; 16]);

/// The identifier of a span within a trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(pub [u8; 8]);

/// The context of a span, as services hand it on in the header `traceparent` (W3C Trace Context).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: TraceId,
    /// The span that is the parent of the next one.
    pub span: SpanId,
    /// Whether spans of the trace are recorded.
    pub is_sampled: bool,
}

/// Name of the header that holds a context.
pub const TRACEPARENT: &str = "traceparent";

/// Length of the header's value in version 0.
const TRACEPARENT_BYTES: usize = 55;

impl TraceContext {
    /// Reads the value of the header. Returns none if the value has no valid form. A later version
    /// of the header may have further fields, which are ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let (known, rest) = (text.get(..TRACEPARENT_BYTES)?, text.get(TRACEPARENT_BYTES..)?);
        let mut fields = known.split('-');
        let [version] = hex(fields.next()?)?;
        let (trace, span) = (TraceId(hex(fields.next()?)?), SpanId(hex(fields.next()?)?));
        let [flags] = hex(fields.next()?)?;
        let is_complete = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest.starts_with('-'),
        };
        let is_valid = is_complete && fields.next().is_none() && trace.0 != [0; 16] && span.0 != [0; 8];
        is_valid.then_some(Self { trace, span, is_sampled: flags & SAMPLED != 0 })
    }

    /// The context as bytes. Whether the trace is sampled is not among them: only contexts of
    /// sampled traces are stored or handed on in this form.
    pub fn to_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&self.trace.0);
        bytes[16..].copy_from_slice(&self.span.0);
        bytes
    }

    /// A context of a sampled trace, from its bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; 24] = bytes.try_into().ok()?;
        let (mut trace, mut span) = ([0; 16], [0; 8]);
        trace.copy_from_slice(&bytes[..16]);
        span.copy_from_slice(&bytes[16..]);
        let is_valid = trace != [0; 16] && span != [0; 8];
        is_valid.then_some(Self { trace: TraceId(trace), span: SpanId(span), is_sampled: true })
    }
}

const SAMPLED: u8 = 1;

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, u8::from(self.is_sampled))
    }
}

macro_rules! hexadecimal {
    ($($id:ident),*) => {$(
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }
    )*};
}

hexadecimal!(TraceId, SpanId);

/// Reads lower-case hexadecimal digits, two for each byte.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_hex = text.len() == 2 * N && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let mut bytes = [0; N];
    for (index, byte) in bytes.iter_mut().enumerate().filter(|_| is_hex) {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    is_hex.then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_context_is_read_and_written() {
        let context = TraceContext::parse(VALUE).expect("a valid value");
        assert_eq!((context.trace.0[0], context.span.0[7], context.is_sampled), (0x4b, 0xb7, true));
        assert_eq!(context.to_string(), VALUE);
        assert_eq!(TraceContext::from_bytes(&context.to_bytes()), Some(context));
        let unsampled = VALUE.replace("-01", "-00");
        assert_eq!(TraceContext::parse(&unsampled).map(|context| context.is_sampled), Some(false));
    }

    #[test]
    fn only_valid_values_are_read() {
        let later = format!("{VALUE}-further").replacen("00-", "01-", 1);
        assert!(TraceContext::parse(&later).is_some());
        for value in [
            String::new(),
            VALUE[1..].to_owned(),
            VALUE.to_uppercase(),
            format!("{VALUE}-further"),
            format!("{VALUE}0"),
            VALUE.replacen("00-", "ff-", 1),
            VALUE.replace('-', "_"),
            VALUE.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            VALUE.replace("00f067aa0ba902b7", &"0".repeat(16)),
            VALUE.replace("4736", "47\u{e9}"),
            "\u{e9}".repeat(40),
        ] {
            assert_eq!(TraceContext::parse(&value), None, "{value}");
        }
        assert_eq!(TraceContext::from_bytes(&[0; 24]), None);
        assert_eq!(TraceContext::from_bytes(&[1; 23]), None);
    }
}
