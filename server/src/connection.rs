//! Connections: their number, their memory before authentication, their time limits, and TLS.

mod backlog;
mod frames;
mod slots;

use std::{
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::OwnedSemaphorePermit,
    task::JoinSet,
    time::{Instant, Sleep, sleep, sleep_until, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

pub use backlog::Backlog;
pub use slots::{OpenCall, Slot, UnreadBody};

use crate::{
    address::{Act, Addresses, TrustedProxies},
    auth::Peer,
};
use frames::FrameMeter;
use slots::Slots;

/// After an error of `accept` that is not one connection's own, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Fewer bytes than this are not yet a request.
const REQUEST_BYTES_MIN: usize = 16;

/// Bytes that an unauthenticated connection reads before other tasks get their turn. HPACK inflates headers up to a
/// hundredfold, so that what is decoded at once must be little. These bytes are also all that a connection of an address
/// in debt brings between two pauses.
const UNAUTHENTICATED_READ_BYTES: usize = 1 << 10;

/// The same for a trusted proxy's connection, which carries whole uploads and never becomes one tenant's.
const PROXY_READ_BYTES: usize = 8 << 10;

/// Limits of a port's connections.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Most connections at once.
    pub connections: usize,
    /// Connections that one tenant keeps when all are taken.
    pub tenant_connections: usize,
    /// Connections from one address.
    pub address_connections: usize,
    /// Bytes that all unauthenticated connections may take together.
    pub unauthenticated_bytes: u64,
    /// From accepting a connection to its first request.
    pub header_timeout: Duration,
    /// Without a byte in either direction.
    pub idle_timeout: Duration,
}

/// Who connects to a port.
#[derive(Clone, Debug, Default)]
pub struct Callers {
    /// Proxies that connect for others.
    pub proxies: Arc<TrustedProxies>,
    /// What each address may do before it authenticates; nothing where addresses have no budget.
    pub addresses: Option<Arc<Addresses>>,
}

/// Accepts connections and hands each to `handle`, until `stop`. Then waits until all have ended. A caller for whom that
/// takes too long drops the future, which drops the connections.
pub async fn serve<H, F>(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    limits: ConnectionLimits,
    callers: Callers,
    stop: CancellationToken,
    handle: H,
) where
    H: Fn(Connection, Peer) -> F + Clone + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let slots = Slots::new(&limits);
    let tls = tls.map(TlsAcceptor::from);
    let mut running = JoinSet::new();
    // Accepted, and without a slot. Further connections wait in the kernel meanwhile.
    let mut waiting = None;
    loop {
        tokio::select! {
            accepted = accept(&listener), if waiting.is_none() => {
                slots.make_room();
                waiting = Some(accepted);
            }
            permit = slots.free(), if waiting.is_some() => {
                if let Some((stream, address)) = waiting.take()
                    && let Some(slot) = callers.slot(&slots, permit, address.ip())
                {
                    running.spawn(receive(stream, address, slot, tls.clone(), limits, handle.clone()));
                }
            }
            Some(ended) = running.join_next() => log_panic(ended),
            () = stop.cancelled() => break,
        }
    }
    drop((listener, waiting));
    while let Some(ended) = running.join_next().await {
        log_panic(ended);
    }
}

impl Callers {
    /// Takes a slot for a connection, and lets one wait whose address is in debt.
    fn slot(&self, slots: &Arc<Slots>, permit: OwnedSemaphorePermit, address: IpAddr) -> Option<Slot> {
        if self.proxies.contains(address) {
            return Some(slots.take_for_proxy(permit));
        }
        let slot = slots.take(permit, address.into())?;
        if let Some(addresses) = &self.addresses {
            let address = address.into();
            // Otherwise a new connection would be a way around the pause of the last one.
            slot.pause(addresses.charge(address, Act::Call).max(addresses.debt(address, Act::Failure)));
        }
        Some(slot)
    }
}

async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                // Small messages must not wait for more of them.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "no TCP_NODELAY");
                }
                return (stream, address);
            }
            Err(error) => {
                tracing::warn!(%error, "no connection could be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// From the handshake to the end of a connection.
async fn receive<H, F>(
    stream: TcpStream,
    address: SocketAddr,
    slot: Slot,
    tls: Option<TlsAcceptor>,
    limits: ConnectionLimits,
    handle: H,
) where
    H: Fn(Connection, Peer) -> F,
    F: Future<Output = ()>,
{
    let slot = Arc::new(slot);
    let own = slot.clone();
    let whole = async move {
        // A handshake costs more than anything else that an unauthenticated caller can ask for.
        if let Some(end) = own.pause_end() {
            sleep_until(end.into()).await;
        }
        match timeout(limits.header_timeout, handshake(stream, tls)).await {
            Ok(Ok((stream, certified))) => {
                let peer = Peer::Network { address: address.ip(), certified, direct: true };
                handle(Connection::new(stream, limits, own), peer).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, peer = %address, "a TLS handshake failed"),
            Err(_) => tracing::debug!(peer = %address, "a TLS handshake took too long"),
        }
    };
    tokio::select! {
        () = whole => {}
        () = slot.closing() => tracing::debug!(peer = %address, "an unauthenticated connection made room"),
    }
}

async fn handshake(stream: TcpStream, tls: Option<TlsAcceptor>) -> io::Result<(Stream, bool)> {
    let Some(tls) = tls else {
        return Ok((Stream::Plain(stream), false));
    };
    let stream = tls.accept(stream).await?;
    let certified = stream.get_ref().1.peer_certificates().is_some();
    Ok((Stream::Tls(Box::new(stream)), certified))
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "the task of a connection failed");
    }
}

/// An open connection. Reading fails once the connection has been silent for too long.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    received_bytes: usize,
    limits: ConnectionLimits,
    last_byte: Instant,
    timer: Pin<Box<Sleep>>,
    slot: Arc<Slot>,
    backlog: Arc<Backlog>,
    frames: FrameMeter,
    /// The connection has just read, and other tasks get their turn before it reads again.
    yields: bool,
    /// Runs while nothing may be read.
    pause: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection {
    /// Its slot among the connections of the port.
    pub fn slot(&self) -> Arc<Slot> {
        self.slot.clone()
    }

    /// The calls that were read from it and do not run yet.
    pub fn backlog(&self) -> Arc<Backlog> {
        self.backlog.clone()
    }

    fn new(stream: Stream, limits: ConnectionLimits, slot: Arc<Slot>) -> Self {
        Self {
            stream,
            received_bytes: 0,
            limits,
            last_byte: Instant::now(),
            timer: Box::pin(sleep(limits.header_timeout)),
            slot,
            backlog: Arc::default(),
            frames: FrameMeter::default(),
            yields: false,
            pause: None,
        }
    }

    fn poll_stream(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }

    /// Reads a small piece, and lets other tasks have their turn before the next one. Reads nothing during a pause.
    fn poll_unauthenticated(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while let Some(end) = self.slot.pause_end() {
            let pause = self.pause.get_or_insert_with(|| Box::pin(sleep_until(end.into())));
            std::task::ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        if std::mem::take(&mut self.yields) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.backlog.holds_reader(cx) {
            return Poll::Pending;
        }
        let piece_bytes_max = if self.slot.is_proxy() { PROXY_READ_BYTES } else { UNAUTHENTICATED_READ_BYTES };
        let piece_bytes = buffer.remaining().min(piece_bytes_max);
        let mut piece = ReadBuf::new(buffer.initialize_unfilled_to(piece_bytes));
        let read = self.poll_stream(cx, &mut piece);
        let read_bytes = piece.filled().len();
        buffer.advance(read_bytes);
        self.yields = read.is_ready();
        read
    }

    /// Whether the peer has been silent for too long. Otherwise wakes the task when that will be so.
    fn expired(&mut self, cx: &mut Context<'_>) -> bool {
        loop {
            if self.timer.as_mut().poll(cx).is_pending() {
                return false;
            }
            // Set once a period instead of at each byte.
            let due = self.last_byte + self.limits.idle_timeout;
            if self.received_bytes < REQUEST_BYTES_MIN || due <= Instant::now() {
                return true;
            }
            self.timer.as_mut().reset(due);
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before_bytes = buffer.filled().len();
        let read = if self.slot.is_authenticated() {
            self.poll_stream(cx, buffer)
        } else {
            self.poll_unauthenticated(cx, buffer)
        };
        if read.is_ready() {
            let received = &buffer.filled()[before_bytes..];
            self.received_bytes = self.received_bytes.saturating_add(received.len());
            self.frames.pass(received);
            self.slot.receive(received.len(), self.frames.unfinished_bytes());
            self.last_byte = Instant::now();
            return read;
        }
        if self.expired(cx) { Poll::Ready(Err(io::ErrorKind::TimedOut.into())) } else { Poll::Pending }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        };
        if written.is_ready() {
            self.last_byte = Instant::now();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        };
        if written.is_ready() {
            self.last_byte = Instant::now();
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
