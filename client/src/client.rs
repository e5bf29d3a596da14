//! The client of a server, and the parts that all calls share.

use std::{sync::Arc, time::Duration};

use cloakwork_proto::v1::{
    GetCapabilitiesRequest, GetCapabilitiesResponse, admin_service_client::AdminServiceClient,
    blob_service_client::BlobServiceClient, capability_service_client::CapabilityServiceClient,
    ciphertext_service_client::CiphertextServiceClient, job_service_client::JobServiceClient,
    key_service_client::KeyServiceClient, program_service_client::ProgramServiceClient,
};
use cloakwork_trace::TraceContext;
use tokio::sync::OnceCell;
use tonic::{Request, Response, Status, service::interceptor::InterceptedService, transport::Channel};

use crate::{
    ClientError, ConnectOptions, Result, RetryPolicy, Trust,
    connect::{Headers, MESSAGE_BYTES_MAX, Token},
    names,
    origin::Verification,
    retry::retry,
};

/// A client of a server. Cloning is cheap, and all clones share one connection.
#[derive(Clone, Debug)]
pub struct Client {
    channel: Channel,
    headers: Headers,
    policy: RetryPolicy,
    call_timeout: Duration,
    /// Tenant name from the server, with which resource names begin. Requested once.
    tenant: Arc<OnceCell<String>>,
    pub(crate) verification: Arc<Verification>,
}

pub(crate) type Service = InterceptedService<Channel, Headers>;

impl Client {
    /// Prepares a connection, and asks the server for the caller's tenant. A wrong address,
    /// certificate or token therefore fails here.
    pub async fn connect(options: &ConnectOptions) -> Result<Self> {
        let client = Self::lazy(options)?;
        client.tenant().await?;
        Ok(client)
    }

    /// Like [`Self::connect`], without any call yet.
    pub fn lazy(options: &ConnectOptions) -> Result<Self> {
        let (channel, is_loopback) = options.channel()?;
        let client = Self::from_channel(channel, options.token.clone(), options.retry, Trust::Unverified);
        let verification = Verification::new(options.trust.clone(), &options.url, is_loopback);
        Ok(Self { call_timeout: options.call_timeout, verification, ..client })
    }

    /// Uses a channel that the caller has made. [`crate::sized`] gives it windows that suit long
    /// keys. The caller decides whether a token may go over this channel. [`Trust::FirstUse`] is of
    /// no use here, because nothing tells whether the channel leads to this machine.
    pub fn from_channel(channel: Channel, token: Option<Token>, policy: RetryPolicy, trust: Trust) -> Self {
        Self {
            channel,
            headers: Headers { token, trace: None },
            policy,
            call_timeout: Duration::from_secs(30),
            tenant: Arc::default(),
            verification: Verification::new(trust, "the server", false),
        }
    }

    /// Sets the timeout of short calls, which neither transfer bulk data nor wait for a job.
    pub fn call_timeout(self, call_timeout: Duration) -> Self {
        Self { call_timeout, ..self }
    }

    /// Sets the retry policy.
    pub fn retry_policy(self, policy: RetryPolicy) -> Self {
        Self { policy, ..self }
    }

    /// A client whose calls belong to a span of the application's. The server continues the trace
    /// if it is sampled and the server traces calls.
    pub fn in_trace(&self, context: TraceContext) -> Self {
        let headers = Headers { trace: Some(context), ..self.headers.clone() };
        Self { headers, ..self.clone() }
    }

    /// The server's capabilities: versions, limits, parameter sets, pools.
    pub async fn capabilities(&self) -> Result<GetCapabilitiesResponse> {
        self.call(GetCapabilitiesRequest {}, |client, request| async move {
            stub!(client, CapabilityServiceClient).get_capabilities(request).await
        })
        .await
    }

    /// Tenant of the caller, according to the server.
    pub async fn tenant(&self) -> Result<&str> {
        let ask = async || names::checked(self.capabilities().await?.tenant);
        self.tenant.get_or_try_init(ask).await.map(String::as_str)
    }

    pub(crate) fn policy(&self) -> RetryPolicy {
        self.policy
    }

    /// Makes a short call within the call timeout, with retries according to the policy.
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

    pub(crate) fn admin(&self) -> AdminServiceClient<Service> {
        stub!(self, AdminServiceClient)
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

/// Creates the stub of a service with the size limits that all stubs share.
macro_rules! stub {
    ($client:expr, $stub:ident) => {
        $stub::with_interceptor($client.channel.clone(), $client.headers.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    };
}
use stub;

/// A fresh request id, which serves as an idempotency key.
pub(crate) fn request_id() -> String {
    uuid::Uuid::new_v4().to_string()
}
