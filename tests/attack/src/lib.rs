//! Foreign clients: HTTP/2 spoken frame by frame, so that a test can send what no client library would send. And the
//! proxies that servers are run behind.

#![forbid(unsafe_code)]

mod hpack;
mod http2;
mod proxy;

pub use hpack::HeaderBlock;
pub use http2::{Connection, Frame, FrameKind, flags};
pub use proxy::{Proxy, ProxyKind};
