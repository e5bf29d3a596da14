//! The client that everything speaks through, and which of its errors pass.

use cloakwork_proto::v1::worker_service_client::WorkerServiceClient;
use tonic::{
    Code, Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};

use crate::WorkerError;

/// A client that shows the worker's token.
pub(crate) type Client = WorkerServiceClient<InterceptedService<Channel, Bearer>>;

/// Adds the token, where there is one.
#[derive(Clone)]
pub(crate) struct Bearer(Option<MetadataValue<Ascii>>);

/// Longest message taken: an assignment may carry the small inputs of many jobs.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// A client on `channel`.
pub(crate) fn client(channel: Channel, token: Option<&str>) -> Result<Client, WorkerError> {
    let header = |token: &str| {
        let mut value: MetadataValue<Ascii> = format!("Bearer {token}").parse().map_err(|_| WorkerError::Option {
            option: "token",
            problem: "it must be one line of printable ASCII".to_owned(),
        })?;
        value.set_sensitive(true);
        Ok::<_, WorkerError>(value)
    };
    let token = token.map(header).transpose()?;
    let client = WorkerServiceClient::with_interceptor(channel, Bearer(token));
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

/// Might the same call succeed later?
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
