//! HTTP/2 frames (RFC 9113) and a connection that sends arbitrary frames.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use rustls::{ClientConfig, RootCertStore, pki_types::pem::PemObject as _};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use tokio_rustls::TlsConnector;

use crate::HeaderBlock;

/// The connection preface, which a client sends first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const FRAME_HEADER_BYTES: usize = 9;

/// Kinds of frames that attacks use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Bytes of a body.
    Data = 0,
    /// A header block, or its first part.
    Headers = 1,
    /// RST_STREAM: ends a stream early.
    ResetStream = 3,
    /// Parameters of the connection.
    Settings = 4,
    /// A ping, which the peer must acknowledge.
    Ping = 6,
    /// GOAWAY: announces the end of the connection.
    GoAway = 7,
    /// Flow-control credit for the peer's data.
    WindowUpdate = 8,
    /// The next part of a header block.
    Continuation = 9,
}

/// Flags of frames.
pub mod flags {
    /// The sender ends its side of the stream.
    pub const END_STREAM: u8 = 0x1;
    /// The frame ends the header block.
    pub const END_HEADERS: u8 = 0x4;
    /// The frame acknowledges a SETTINGS or PING frame.
    pub const ACK: u8 = 0x1;
}

/// A frame that was received.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Kind of the frame, as a number: a server may send kinds that [`FrameKind`] lacks.
    pub kind: u8,
    /// Flags of the frame.
    pub flags: u8,
    /// Stream of the frame. Zero is the connection.
    pub stream: u32,
    /// Payload of the frame.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Whether the frame is of this kind.
    #[must_use]
    pub fn is(&self, kind: FrameKind) -> bool {
        self.kind == kind as u8
    }
}

/// The byte stream below a connection: TCP or TLS.
trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// The client's side of an HTTP/2 connection.
pub struct Connection {
    stream: Box<dyn Transport>,
    next_stream: u32,
    bytes_sent: u64,
}

impl Connection {
    /// Connects from a given source address without TLS, and sends the preface and empty SETTINGS.
    pub async fn open(from: IpAddr, server: SocketAddr) -> io::Result<Self> {
        let stream = connect(from, server).await?;
        Self::over(Box::new(stream)).await
    }

    /// Connects like [`Self::open`], but over TLS, to a server named `localhost` and with this
    /// authority as the only root.
    pub async fn open_tls(from: IpAddr, server: SocketAddr, authority_pem: &[u8]) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        let authority = rustls::pki_types::CertificateDer::from_pem_slice(authority_pem).map_err(io::Error::other)?;
        roots.add(authority).map_err(io::Error::other)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = "localhost".try_into().map_err(io::Error::other)?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, connect(from, server).await?).await?;
        Self::over(Box::new(stream)).await
    }

    async fn over(stream: Box<dyn Transport>) -> io::Result<Self> {
        let mut connection = Self { stream, next_stream: 1, bytes_sent: 0 };
        connection.write(PREFACE).await?;
        connection.send(FrameKind::Settings, 0, 0, &[]).await?;
        Ok(connection)
    }

    /// Number of bytes sent on the connection.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        self.bytes_sent
    }

    /// Returns the number of an unused stream.
    pub fn new_stream(&mut self) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        stream
    }

    /// Opens a stream with a complete header block. Without `END_STREAM` among the flags, the
    /// stream stays half-open.
    pub async fn open_stream(&mut self, flags: u8, headers: HeaderBlock) -> io::Result<u32> {
        let stream = self.new_stream();
        self.send(FrameKind::Headers, flags | flags::END_HEADERS, stream, &headers.into_bytes()).await?;
        Ok(stream)
    }

    /// Sends a frame.
    pub async fn send(&mut self, kind: FrameKind, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        let mut frame = Self::frame_header(kind, flags, stream, payload.len());
        frame.extend_from_slice(payload);
        self.write(&frame).await
    }

    /// Encodes the nine bytes before a frame's payload.
    #[must_use]
    pub fn frame_header(kind: FrameKind, flags: u8, stream: u32, payload_bytes: usize) -> Vec<u8> {
        let mut header = Vec::with_capacity(FRAME_HEADER_BYTES + payload_bytes);
        header.extend_from_slice(&(payload_bytes as u32).to_be_bytes()[1..]);
        header.extend_from_slice(&[kind as u8, flags]);
        header.extend_from_slice(&stream.to_be_bytes());
        header
    }

    /// Sends bytes unchanged. Fails if the peer reads nothing for five seconds.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        const WRITE_LIMIT: Duration = Duration::from_secs(5);
        let write = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        timeout(WRITE_LIMIT, write).await??;
        self.bytes_sent += bytes.len() as u64;
        Ok(())
    }

    /// Receives the next frame. Returns `None` once the server has closed the connection.
    pub async fn receive(&mut self) -> io::Result<Option<Frame>> {
        let mut header = [0; FRAME_HEADER_BYTES];
        match self.stream.read_exact(&mut header).await {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let [a, b, c, kind, flags, stream @ ..] = header;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.stream.read_exact(&mut payload).await?;
        Ok(Some(Frame { kind, flags, stream: u32::from_be_bytes(stream), payload }))
    }

    /// Receives frames until `fits` accepts a frame, and returns it. Returns `None` if no frame
    /// fits within `limit`.
    pub async fn receive_until(&mut self, limit: Duration, fits: impl Fn(&Frame) -> bool) -> Option<Frame> {
        let search = async {
            loop {
                match self.receive().await {
                    Ok(Some(frame)) if fits(&frame) => return Some(frame),
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => return None,
                }
            }
        };
        timeout(limit, search).await.ok().flatten()
    }

    /// Whether the server closes the connection within `limit`.
    pub async fn is_closed_within(&mut self, limit: Duration) -> bool {
        let closed = async { while let Ok(Some(_)) = self.receive().await {} };
        timeout(limit, closed).await.is_ok()
    }
}

async fn connect(from: IpAddr, server: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    // Floods open thousands of connections from one address. Without this option, ports of closing
    // connections run out.
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::new(from, 0))?;
    socket.connect(server).await
}
