//! Connections: how many there may be, how long each may take to say something, and TLS.

mod places;

use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Instant, Sleep, sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

pub use places::Place;

use crate::auth::Peer;
use places::Places;

/// After an error of `accept` that is not one connection's own, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Fewer bytes than this are not yet a request.
const REQUEST_BYTES_LEAST: usize = 16;

/// How a port treats its connections.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Most connections at once.
    pub connections: usize,
    /// How many of them one tenant keeps when there are not enough for everybody.
    pub tenant_connections: usize,
    /// From accepting to the first request.
    pub header: Duration,
    /// Without a byte in either direction.
    pub idle: Duration,
}

/// Accepts connections and hands each to `handle`, until `stop`. Then waits until all have ended; whoever calls drops
/// the future when that takes too long, and the connections with it.
pub async fn serve<H, F>(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    patience: Patience,
    stop: CancellationToken,
    handle: H,
) where
    H: Fn(Connection, Peer) -> F + Clone + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let places = Places::new(patience.connections, patience.tenant_connections);
    let tls = tls.map(TlsAcceptor::from);
    let mut running = JoinSet::new();
    // Accepted, and without a place. Further ones wait in the kernel meanwhile.
    let mut waiting = None;
    loop {
        tokio::select! {
            accepted = accept(&listener), if waiting.is_none() => {
                places.make_room();
                waiting = Some(accepted);
            }
            place = places.take(), if waiting.is_some() => {
                if let Some((stream, address)) = waiting.take() {
                    running.spawn(receive(stream, address, place, tls.clone(), patience, handle.clone()));
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
    place: Place,
    tls: Option<TlsAcceptor>,
    patience: Patience,
    handle: H,
) where
    H: Fn(Connection, Peer) -> F,
    F: Future<Output = ()>,
{
    let place = Arc::new(place);
    let held = place.clone();
    let whole = async move {
        match timeout(patience.header, handshake(stream, tls)).await {
            Ok(Ok((stream, certified))) => {
                let peer = Peer::Network { address: address.ip(), certified };
                handle(Connection::new(stream, patience, held), peer).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, peer = %address, "a TLS handshake failed"),
            Err(_) => tracing::debug!(peer = %address, "a TLS handshake took too long"),
        }
    };
    tokio::select! {
        () = whole => {}
        () = place.asked_to_leave() => tracing::debug!(peer = %address, "a stranger made room"),
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

/// An open connection. Reading fails once it has been silent for too long.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    received: usize,
    patience: Patience,
    last_byte: Instant,
    timer: Pin<Box<Sleep>>,
    place: Arc<Place>,
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection {
    /// Its place among the connections of the port.
    pub fn place(&self) -> Arc<Place> {
        self.place.clone()
    }

    fn new(stream: Stream, patience: Patience, place: Arc<Place>) -> Self {
        let timer = Box::pin(sleep(patience.header));
        Self { stream, received: 0, patience, last_byte: Instant::now(), timer, place }
    }

    /// Has the peer been silent for too long? Otherwise wakes the task when it will have been.
    fn expired(&mut self, cx: &mut Context<'_>) -> bool {
        loop {
            if self.timer.as_mut().poll(cx).is_pending() {
                return false;
            }
            // Set once a period instead of at each byte.
            let due = self.last_byte + self.patience.idle;
            if self.received < REQUEST_BYTES_LEAST || due <= Instant::now() {
                return true;
            }
            self.timer.as_mut().reset(due);
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        };
        if read.is_ready() {
            self.received = self.received.saturating_add(buffer.filled().len() - before);
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
