//! Connections within the process, each of which breaks after a stated number of bytes.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use cloakwork_client::{Client, RetryPolicy, Trust, sized};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex},
    sync::mpsc,
};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Endpoint, server::Router};

/// A client of `router`. Connection number i breaks when the client has written `budgets[i]` bytes.
/// The connections after the last budget do not break.
pub fn client(router: Router, budgets: impl Into<VecDeque<usize>>, policy: RetryPolicy) -> Client {
    trusting(router, budgets, policy, Trust::Unverified)
}

/// A client as [`client`] makes it, which takes the results of a certain origin.
pub fn trusting(router: Router, budgets: impl Into<VecDeque<usize>>, policy: RetryPolicy, trust: Trust) -> Client {
    let (accept, incoming) = mpsc::unbounded_channel::<io::Result<DuplexStream>>();
    tokio::spawn(router.serve_with_incoming(UnboundedReceiverStream::new(incoming)));
    let budgets = Arc::new(Mutex::new(budgets.into()));
    let connect = tower::service_fn(move |_| {
        let (near, far) = duplex(1 << 16);
        let budget = budgets.lock().unwrap().pop_front();
        let sent = accept.send(Ok(far)).map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused));
        async move { sent.map(|()| TokioIo::new(Fragile { pipe: near, budget })) }
    });
    let endpoint = sized(Endpoint::from_static("http://fake.invalid"));
    Client::from_channel(endpoint.connect_with_connector_lazy(connect), None, policy, trust)
}

struct Fragile {
    pipe: DuplexStream,
    budget: Option<usize>,
}

impl AsyncWrite for Fragile {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Some(budget) = self.budget else { return Pin::new(&mut self.pipe).poll_write(context, bytes) };
        if budget == 0 {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let written = Pin::new(&mut self.pipe).poll_write(context, &bytes[..bytes.len().min(budget)]);
        if let Poll::Ready(Ok(written)) = written {
            self.budget = Some(budget - written);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(context)
    }
}

impl AsyncRead for Fragile {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.budget {
            Some(0) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            _ => Pin::new(&mut self.pipe).poll_read(context, buffer),
        }
    }
}
