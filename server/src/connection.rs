//! Connections: their number, their memory before authentication, their timeouts, and TLS.

mod backlog;
mod frames;
mod slots;
mod turn;

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
    address::{Act, AddressBlock, Addresses, TrustedProxies},
    auth::Peer,
};
use frames::{FrameMeter, PREFACE_BYTES};
use slots::Slots;
use turn::Turn;

/// The pause after an error of `accept` that does not concern a single connection, such as too many
/// open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Number of control frames, such as PING and SETTINGS, that count as one unauthenticated call. A
/// client sends a few of them for each connection.
const CONTROL_FRAMES_OF_A_CALL: u64 = 16;

/// Maximum bytes that an unauthenticated connection reads before other tasks run. HPACK inflates
/// headers up to 100 times, so the bytes decoded in one step must be few. This is also all that a
/// connection reads between two pauses while its address is in debt.
const UNAUTHENTICATED_READ_BYTES: usize = 1 << 10;

/// Maximum bytes that a trusted proxy's connection reads before other tasks run. The connection
/// carries whole uploads and never becomes the connection of one tenant, so the value is larger.
const PROXY_READ_BYTES: usize = 8 << 10;

/// Limits on the connections of a port.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Maximum number of concurrent connections.
    pub connections: usize,
    /// Number of connections that each tenant keeps when all slots are taken.
    pub tenant_connections: usize,
    /// Maximum number of connections from one address.
    pub address_connections: usize,
    /// Maximum memory of all unauthenticated connections together, in bytes.
    pub unauthenticated_bytes: u64,
    /// Maximum duration of the TLS handshake, and then maximum time until the preface of HTTP/2.
    pub header_timeout: Duration,
    /// Maximum time without a byte in either direction.
    pub idle_timeout: Duration,
}

/// The callers that connect to a port.
#[derive(Clone, Debug, Default)]
pub struct Callers {
    /// Proxies that connect on behalf of other callers.
    pub proxies: Arc<TrustedProxies>,
    /// The budgets of addresses before authentication, or `None` if addresses have no budget.
    pub addresses: Option<Arc<Addresses>>,
}

/// Accepts connections and passes each to `handle`, until `stop` is cancelled. Then waits until all
/// connections have ended. To end the wait early, drop the future, which drops the connections.
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
    // An accepted connection that has no slot yet. Meanwhile, further connections wait in the
    // kernel's backlog.
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
                    let addresses = callers.addresses.clone();
                    running.spawn(receive(stream, address, slot, addresses, tls.clone(), limits, handle.clone()));
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
    /// Takes a slot for a connection, and pauses the connection if its address is in debt.
    fn slot(&self, slots: &Arc<Slots>, permit: OwnedSemaphorePermit, address: IpAddr) -> Option<Slot> {
        if self.proxies.contains(address) {
            return Some(slots.take_for_proxy(permit));
        }
        let slot = slots.take(permit, address.into())?;
        if let Some(addresses) = &self.addresses {
            let address = address.into();
            // Otherwise a new connection would be a way around the pause of the previous
            // connection.
            slot.pause(addresses.charge(address, Act::Call).max(addresses.debt(address, Act::Failure)));
        }
        Some(slot)
    }
}

async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                // Without this option, TCP would delay small messages to merge them with later
                // messages.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "TCP_NODELAY could not be set");
                }
                return (stream, address);
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Runs a connection from the TLS handshake to its end.
async fn receive<H, F>(
    stream: TcpStream,
    address: SocketAddr,
    slot: Slot,
    addresses: Option<Arc<Addresses>>,
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
        // The pause comes before the handshake, which costs more than any other act of an
        // unauthenticated caller.
        while let Some(end) = own.pause_end() {
            sleep_until(end.into()).await;
        }
        match timeout(limits.header_timeout, handshake(stream, tls)).await {
            Ok(Ok((stream, certified))) => {
                let peer = Peer::Network { address: address.ip(), certified, direct: true };
                let budget = addresses.map(|addresses| (addresses, address.ip().into()));
                let turn = Turn::default();
                let connection = Connection::new(stream, limits, own, budget, turn.clone());
                turn.run(handle(connection, peer)).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, peer = %address, "a TLS handshake failed"),
            Err(_) => tracing::debug!(peer = %address, "a TLS handshake took too long"),
        }
    };
    tokio::select! {
        () = whole => {}
        () = slot.closing() => tracing::debug!(peer = %address, "an unauthenticated connection was evicted"),
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
        tracing::error!(%error, "the task of a connection panicked");
    }
}

/// An open connection. Reading fails once the connection has been idle for too long.
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
    /// The budgets of addresses, and the address of the peer.
    budget: Option<(Arc<Addresses>, AddressBlock)>,
    /// Number of control frames that the address was charged for.
    charged_frames: u64,
    /// Other tasks run between two reads.
    turn: Turn,
    /// Runs while the connection is paused.
    pause: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection {
    /// The connection's slot among the connections of the port.
    pub fn slot(&self) -> Arc<Slot> {
        self.slot.clone()
    }

    /// The calls that were read from the connection and do not run yet.
    pub fn backlog(&self) -> Arc<Backlog> {
        self.backlog.clone()
    }

    fn new(
        stream: Stream,
        limits: ConnectionLimits,
        slot: Arc<Slot>,
        budget: Option<(Arc<Addresses>, AddressBlock)>,
        turn: Turn,
    ) -> Self {
        Self {
            stream,
            received_bytes: 0,
            limits,
            last_byte: Instant::now(),
            timer: Box::pin(sleep(limits.header_timeout)),
            slot,
            backlog: Arc::default(),
            frames: FrameMeter::default(),
            budget,
            charged_frames: 0,
            turn,
            pause: None,
        }
    }

    fn poll_stream(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }

    /// Reads a small piece, and lets other tasks run before the next piece. Reads nothing during a
    /// pause.
    fn poll_unauthenticated(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while let Some(end) = self.slot.pause_end() {
            let pause = self.pause.get_or_insert_with(|| Box::pin(sleep_until(end.into())));
            std::task::ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        if self.turn.has_read() {
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
        if read.is_ready() {
            self.turn.note_read();
        }
        read
    }

    /// Charges the peer's address for control frames, and pauses the connection while the address
    /// is in debt. Answering these frames takes time from the tenants.
    fn charge_control_frames(&mut self) {
        let Some((addresses, address)) = &self.budget else { return };
        while self.frames.control_frames() - self.charged_frames >= CONTROL_FRAMES_OF_A_CALL {
            self.charged_frames += CONTROL_FRAMES_OF_A_CALL;
            self.slot.pause(addresses.charge(*address, Act::Call));
        }
    }

    /// Whether the peer has been idle for too long. Otherwise registers the task to be woken at the
    /// timeout.
    fn expired(&mut self, cx: &mut Context<'_>) -> bool {
        loop {
            if self.timer.as_mut().poll(cx).is_pending() {
                return false;
            }
            // The timer is reset once a period instead of at each byte.
            let due = self.last_byte + self.limits.idle_timeout;
            if self.received_bytes < PREFACE_BYTES || due <= Instant::now() {
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
            if self.slot.is_authenticated() || self.slot.is_proxy() {
                // A connection that loses its owner is not charged for frames of that owner.
                self.charged_frames = self.frames.control_frames();
            } else {
                self.charge_control_frames();
            }
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

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, net::Ipv4Addr};

    use tokio::{io::AsyncWriteExt, sync::mpsc};

    use super::*;

    #[tokio::test]
    async fn a_connection_reads_once_each_time_that_its_task_runs() {
        const SENT_BYTES: usize = 8 * UNAUTHENTICATED_READ_BYTES;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        peer.write_all(&[0; SENT_BYTES]).await.unwrap();
        let limits = ConnectionLimits {
            connections: 1,
            tenant_connections: 1,
            address_connections: 1,
            unauthenticated_bytes: 1 << 20,
            header_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(30),
        };
        let (sender, mut turns) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let read = move |mut connection: Connection, _| {
            let sender = sender.clone();
            async move {
                let mut read_bytes = 0;
                poll_fn(|cx| {
                    let mut lengths = Vec::new();
                    // The HTTP library reads again after a read without bytes.
                    for _ in 0..4 {
                        let mut bytes = [0; SENT_BYTES];
                        let mut buffer = ReadBuf::new(&mut bytes);
                        if Pin::new(&mut connection).poll_read(cx, &mut buffer).is_ready() {
                            lengths.push(buffer.filled().len());
                        }
                    }
                    read_bytes += lengths.iter().sum::<usize>();
                    sender.send(lengths).unwrap();
                    if read_bytes == SENT_BYTES { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
            }
        };
        let serving = tokio::spawn(serve(listener, None, limits, Callers::default(), stop.clone(), read));
        let mut read_bytes = 0;
        while read_bytes < SENT_BYTES {
            let lengths = turns.recv().await.unwrap();
            assert!(lengths.len() <= 1, "{lengths:?}");
            assert!(lengths.iter().all(|bytes| (1..=UNAUTHENTICATED_READ_BYTES).contains(bytes)), "{lengths:?}");
            read_bytes += lengths.iter().sum::<usize>();
        }
        stop.cancel();
        serving.await.unwrap();
    }
}
