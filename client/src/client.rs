//! The handle on a server, and what all calls have in common.

use std::{sync::Arc, time::Duration};

use cloakwork_proto::v1::{
    GetCapabilitiesRequest, GetCapabilitiesResponse, blob_service_client::BlobServiceClient,
    capability_service_client::CapabilityServiceClient, ciphertext_service_client::CiphertextServiceClient,
    job_service_client::JobServiceClient, key_service_client::KeyServiceClient,
    program_service_client::ProgramServiceClient,
};
use tokio::sync::OnceCell;
use tonic::{Request, Response, Status, service::interceptor::InterceptedService, transport::Channel};

use crate::{
    ClientError, ConnectOptions, Result, RetryPolicy,
    connect::{Authorization, MESSAGE_BYTES_MAX, Token},
    names,
    retry::retry,
};

/// A server, as its clients see it. Cheap to clone; all clones share one connection.
#[derive(Clone, Debug)]
pub struct Client {
    service: Service,
    policy: RetryPolicy,
    call_timeout: Duration,
    /// The server names it once; resource names begin with it.
    tenant: Arc<OnceCell<String>>,
}

pub(crate) type Service = InterceptedService<Channel, Authorization>;

impl Client {
    /// Prepares a connection and asks the server who it takes the caller for, so that a wrong address, certificate or
    /// token shows here.
    pub async fn connect(options: &ConnectOptions) -> Result<Self> {
        let client = Self::lazy(options)?;
        client.tenant().await?;
        Ok(client)
    }

    /// As [`Self::connect`], with the first call yet to be made.
    pub fn lazy(options: &ConnectOptions) -> Result<Self> {
        let channel = options.channel()?;
        Ok(Self::from_channel(channel, options.token.clone(), options.retry).call_timeout(options.call_timeout))
    }

    /// Over a channel of one's own; [`crate::sized`] gives it windows that suit long keys. Whether a token may go over
    /// it is for whoever made it to know.
    pub fn from_channel(channel: Channel, token: Option<Token>, policy: RetryPolicy) -> Self {
        Self {
            service: InterceptedService::new(channel, Authorization(token)),
            policy,
            call_timeout: Duration::from_secs(30),
            tenant: Arc::default(),
        }
    }

    /// With another time for calls that only ask or tell.
    pub fn call_timeout(self, call_timeout: Duration) -> Self {
        Self { call_timeout, ..self }
    }

    /// With another rule of when to try again.
    pub fn retry_policy(self, policy: RetryPolicy) -> Self {
        Self { policy, ..self }
    }

    /// What the server can do: versions, limits, parameter sets, pools.
    pub async fn capabilities(&self) -> Result<GetCapabilitiesResponse> {
        self.call(GetCapabilitiesRequest {}, |client, request| async move {
            stub!(client, CapabilityServiceClient).get_capabilities(request).await
        })
        .await
    }

    /// The tenant that the server takes the caller for.
    pub async fn tenant(&self) -> Result<&str> {
        let ask = async || names::checked(self.capabilities().await?.tenant);
        self.tenant.get_or_try_init(ask).await.map(String::as_str)
    }

    pub(crate) fn policy(&self) -> RetryPolicy {
        self.policy
    }

    /// A call with one answer, within the time of a call, tried again as the policy says.
    pub(crate) async fn call<M, A, F>(&self, message: M, send: impl Fn(Self, Request<M>) -> F) -> Result<A>
    where
        M: Clone,
        F: Future<Output = std::result::Result<Response<A>, Status>>,
    {
        retry(self.policy, || {
            let mut request = Request::new(message.clone());
            request.set_timeout(self.call_timeout);
            let answer = send(self.clone(), request);
            async { answer.await.map(Response::into_inner).map_err(ClientError::from) }
        })
        .await
    }

    pub(crate) fn blobs(&self) -> BlobServiceClient<Service> {
        stub!(self, BlobServiceClient)
    }

    pub(crate) fn ciphertexts(&self) -> CiphertextServiceClient<Service> {
        stub!(self, CiphertextServiceClient)
    }

    pub(crate) fn jobs_stub(&self) -> JobServiceClient<Service> {
        stub!(self, JobServiceClient)
    }

    pub(crate) fn keys_stub(&self) -> KeyServiceClient<Service> {
        stub!(self, KeyServiceClient)
    }

    pub(crate) fn programs(&self) -> ProgramServiceClient<Service> {
        stub!(self, ProgramServiceClient)
    }
}

/// A service's stub with the limits that all have.
macro_rules! stub {
    ($client:expr, $stub:ident) => {
        $stub::new($client.service.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    };
}
use stub;

/// A field that an answer must have.
pub(crate) fn required<T>(field: Option<T>, what: &str) -> Result<T> {
    field.ok_or_else(|| ClientError::malformed(format!("it has no {what}")))
}

/// A fresh request id.
pub(crate) fn request_id() -> String {
    uuid::Uuid::new_v4().to_string()
}
