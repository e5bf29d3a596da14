//! The gRPC client of the worker, and the classification of its errors as transient or permanent.

use cloakwork_proto::v1::worker_service_client::WorkerServiceClient;
use tonic::{
    Code, Request, Status,
    body::Body,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
};
use tonic_types::StatusExt as _;
use tower::{BoxError, Service, ServiceExt as _, util::BoxCloneSyncService};

use crate::WorkerError;

/// The way to the server: a connection, or the server itself if it runs in the same process.
#[derive(Clone, Debug)]
pub struct Uplink(Calls);

type Calls = BoxCloneSyncService<http::Request<Body>, http::Response<Body>, Status>;

impl Uplink {
    /// Wraps a service that answers gRPC calls, for example a [`tonic::transport::Channel`].
    pub fn new<S>(service: S) -> Self
    where
        S: Service<http::Request<Body>, Response = http::Response<Body>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
    {
        Self(BoxCloneSyncService::new(service.map_err(|error| Status::from_error(error.into()))))
    }
}

/// A client that sends the worker's token.
pub(crate) type Client = WorkerServiceClient<InterceptedService<Calls, Bearer>>;

/// Adds the token to each call, if the worker has a token.
#[derive(Clone)]
pub(crate) struct Bearer(Option<MetadataValue<Ascii>>);

/// Largest message that the client accepts. An assignment may carry the small inputs of many jobs.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// A client on `uplink`.
pub(crate) fn client(Uplink(service): Uplink, token: Option<&str>) -> Result<Client, WorkerError> {
    let header = |token: &str| {
        let mut value: MetadataValue<Ascii> = format!("Bearer {token}").parse().map_err(|_| WorkerError::Option {
            option: "token",
            problem: "it must be one line of printable ASCII".to_owned(),
        })?;
        value.set_sensitive(true);
        Ok::<_, WorkerError>(value)
    };
    let token = token.map(header).transpose()?;
    let client = WorkerServiceClient::with_interceptor(service, Bearer(token));
    Ok(client.max_decoding_message_size(MESSAGE_BYTES_MAX))
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

/// The server's stable code of a refusal.
pub(crate) fn reason(refusal: &Status) -> String {
    refusal.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

/// Whether another server owns the shard of this worker. The next connection goes to that server.
pub(crate) fn is_elsewhere(refusal: &Status) -> bool {
    reason(refusal) == "NOT_OWNER"
}

/// Whether the error is transient, so that a retry of the call may succeed.
pub(crate) fn passes(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted => true,
        Code::Unknown | Code::Internal | Code::Cancelled | Code::Aborted => true,
        Code::Ok => true,
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::DataLoss
        | Code::Unauthenticated => false,
    }
}
