//! An HTTP/2 client that writes frame by frame, so that a test can send frames that no client
//! library sends. Also the proxies that tests put before servers.

#![forbid(unsafe_code)]

mod hpack;
mod http2;
mod proxy;

pub use hpack::HeaderBlock;
pub use http2::{Connection, Frame, FrameKind, flags};
pub use proxy::{Proxy, ProxyKind};
