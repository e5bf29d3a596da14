//! The worker inside this process. It speaks the same protocol as any other, over memory instead of a socket.

use cloakwork_proto::v1::worker_service_server::WorkerServiceServer;
use hyper_util::rt::TokioIo;
use tokio::{io::DuplexStream, sync::mpsc};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::transport::{Channel, Endpoint, Server, Uri};

use crate::services::Workers;

/// Bytes on their way in each direction.
const BUFFER: usize = 1 << 20;

/// Serves the worker protocol to this process alone, and returns the way there. Serving ends when `stopped` does.
pub fn channel(
    workers: Workers,
    message_bytes: usize,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> Result<Channel, tonic::transport::Error> {
    let (connections, accepted) = mpsc::channel::<DuplexStream>(4);
    let service = WorkerServiceServer::new(workers)
        .max_decoding_message_size(message_bytes)
        .max_encoding_message_size(message_bytes);
    let incoming = ReceiverStream::new(accepted).map(Ok::<_, std::io::Error>);
    tokio::spawn(async move {
        let served = Server::builder()
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .add_service(service)
            .serve_with_incoming_shutdown(incoming, stopped)
            .await;
        if let Err(error) = served {
            tracing::error!(%error, "the embedded worker's service stopped");
        }
    });
    let connect = tower::service_fn(move |_: Uri| {
        let connections = connections.clone();
        async move {
            let (ours, theirs) = tokio::io::duplex(BUFFER);
            match connections.send(theirs).await {
                Ok(()) => Ok(TokioIo::new(ours)),
                Err(_) => Err(std::io::Error::from(std::io::ErrorKind::NotConnected)),
            }
        }
    });
    let endpoint = Endpoint::from_static("http://embedded.invalid")
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW);
    Ok(endpoint.connect_with_connector_lazy(connect))
}

/// HTTP/2 windows: nothing is gained by stopping a key half-way through memory.
const WINDOW: u32 = 16 << 20;
