//! Calls of operators, on a port of their own.

use cloakwork_proto::v1::{
    AuditEntry, CreateTenantRequest, CreateTokenRequest, CreateTokenResponse, DayUsage, DeleteTenantRequest,
    DrainWorkerRequest, GetUsageRequest, Job, JobState, ListAllJobsRequest, ListAuditEntriesRequest, ListPoolsRequest,
    ListTenantsRequest, ListTokensRequest, ListWorkersRequest, PoolStatus, ResumeWorkerRequest, RevokeTenantRequest,
    RevokeTokenRequest, SetTenantLimitsRequest, Tenant, TenantLimit, Token, WorkerStatus,
    admin_service_client::AdminServiceClient,
};
use cloakwork_trace::TraceContext;
use futures_util::Stream;
use tonic::{Request, Response, Status};

use crate::{Client, ClientError, ConnectOptions, Result, RetryPolicy, client::Service, pages};

/// An operator of a server. Every call needs a token with the scope `admin`. Cloning is cheap.
///
/// Calls that read are retried by the policy. Calls that change something are made once: they carry
/// no request id, so a second call could have a second effect. Names and texts in answers are as
/// the server sent them: escape them ([`crate::printable`]) before people see them.
#[derive(Clone, Debug)]
pub struct Operator(Client);

impl Operator {
    /// Prepares a connection to the port of operators, without any call yet.
    pub fn lazy(options: &ConnectOptions) -> Result<Self> {
        Client::lazy(options).map(Self)
    }

    /// Sets the retry policy of calls that read.
    pub fn retry_policy(self, policy: RetryPolicy) -> Self {
        Self(self.0.retry_policy(policy))
    }

    /// An operator whose calls belong to a span of the application's.
    pub fn in_trace(&self, context: TraceContext) -> Self {
        Self(self.0.in_trace(context))
    }

    /// The pools of the server that answers.
    pub async fn pools(&self) -> Result<Vec<PoolStatus>> {
        let send = |mut stub: Stub, request| async move { stub.list_pools(request).await };
        Ok(self.read(ListPoolsRequest {}, send).await?.pools)
    }

    /// The workers that are attached to the server that answers.
    pub async fn workers(&self) -> Result<Vec<WorkerStatus>> {
        let send = |mut stub: Stub, request| async move { stub.list_workers(request).await };
        Ok(self.read(ListWorkersRequest {}, send).await?.workers)
    }

    /// Gives a worker no further jobs, by its resource name.
    pub async fn drain_worker(&self, name: &str) -> Result<()> {
        let send = |mut stub: Stub, request| async move { stub.drain_worker(request).await };
        self.change(DrainWorkerRequest { name: name.into() }, send).await.map(drop)
    }

    /// Gives a drained worker jobs again, by its resource name.
    pub async fn resume_worker(&self, name: &str) -> Result<()> {
        let send = |mut stub: Stub, request| async move { stub.resume_worker(request).await };
        self.change(ResumeWorkerRequest { name: name.into() }, send).await.map(drop)
    }

    /// All tenants. Further pages are fetched as the stream is read.
    pub fn tenants(&self) -> impl Stream<Item = Result<Tenant>> + Send + Unpin {
        let operator = self.clone();
        pages::stream(move |page_token| {
            let operator = operator.clone();
            async move {
                let request = ListTenantsRequest { page_size: 0, page_token };
                let send = |mut stub: Stub, request| async move { stub.list_tenants(request).await };
                let page = operator.read(request, send).await?;
                Ok((page.tenants, page.next_page_token))
            }
        })
    }

    /// Creates a tenant, in this shard or in the one with the fewest tenants.
    pub async fn create_tenant(&self, tenant: &str, shard: Option<i32>) -> Result<()> {
        let send = |mut stub: Stub, request| async move { stub.create_tenant(request).await };
        self.change(CreateTenantRequest { tenant: tenant.into(), shard }, send).await.map(drop)
    }

    /// Revokes all tokens of a tenant, by its resource name, and refuses new ones.
    pub async fn revoke_tenant(&self, name: &str) -> Result<()> {
        let send = |mut stub: Stub, request| async move { stub.revoke_tenant(request).await };
        self.change(RevokeTenantRequest { name: name.into() }, send).await.map(drop)
    }

    /// Begins to delete a tenant with everything that it has, by its resource name. The tenant is
    /// listed until the deletion ends.
    pub async fn delete_tenant(&self, name: &str) -> Result<()> {
        let send = |mut stub: Stub, request| async move { stub.delete_tenant(request).await };
        self.change(DeleteTenantRequest { name: name.into() }, send).await.map(drop)
    }

    /// Sets and removes limits that a tenant has of its own, and returns all that it has then.
    /// Other limits stay.
    pub async fn set_tenant_limits(
        &self,
        name: &str,
        limits: Vec<TenantLimit>,
        removed_limits: Vec<String>,
    ) -> Result<Vec<TenantLimit>> {
        let send = |mut stub: Stub, request| async move { stub.set_tenant_limits(request).await };
        let request = SetTenantLimitsRequest { name: name.into(), limits, removed_limits };
        self.change(request, send).await.map(|changed| changed.limits)
    }

    /// The tokens of a tenant, by its resource name, or of all tenants if the name is empty.
    /// Further pages are fetched as the stream is read.
    pub fn tokens(&self, tenant: &str) -> impl Stream<Item = Result<Token>> + Send + Unpin {
        let (operator, parent) = (self.clone(), tenant.to_owned());
        pages::stream(move |page_token| {
            let (operator, parent) = (operator.clone(), parent.clone());
            async move {
                let request = ListTokensRequest { parent, page_size: 0, page_token };
                let send = |mut stub: Stub, request| async move { stub.list_tokens(request).await };
                let page = operator.read(request, send).await?;
                Ok((page.tokens, page.next_page_token))
            }
        })
    }

    /// Creates a token. The answer is the only one that has the secret.
    pub async fn create_token(&self, request: CreateTokenRequest) -> Result<CreateTokenResponse> {
        let send = |mut stub: Stub, request| async move { stub.create_token(request).await };
        self.change(request, send).await
    }

    /// Revokes a token, by its resource name.
    pub async fn revoke_token(&self, name: &str) -> Result<()> {
        let send = |mut stub: Stub, request| async move { stub.revoke_token(request).await };
        self.change(RevokeTokenRequest { name: name.into() }, send).await.map(drop)
    }

    /// The jobs of a tenant, by its resource name, or of all tenants if the name is empty, newest
    /// first. `states` restricts the jobs of one tenant, unless it is empty. Pages have at most
    /// `page_size` jobs, or as many as the server allows if it is 0.
    pub fn jobs(
        &self,
        tenant: &str,
        states: &[JobState],
        page_size: i32,
    ) -> impl Stream<Item = Result<Job>> + Send + Unpin + use<> {
        let operator = self.clone();
        let parent = tenant.to_owned();
        let states: Vec<i32> = states.iter().map(|state| (*state).into()).collect();
        pages::stream(move |page_token| {
            let operator = operator.clone();
            let request = ListAllJobsRequest { page_size, page_token, parent: parent.clone(), states: states.clone() };
            async move {
                let send = |mut stub: Stub, request| async move { stub.list_all_jobs(request).await };
                let page = operator.read(request, send).await?;
                Ok((page.jobs, page.next_page_token))
            }
        })
    }

    /// The usage of a tenant, by its resource name, or of all tenants if the name is empty. Days
    /// are texts such as `2026-01-31`. If both are empty, the answer covers the last thirty days.
    pub async fn usage(&self, tenant: &str, first_day: &str, last_day: &str) -> Result<Vec<DayUsage>> {
        let request = GetUsageRequest { parent: tenant.into(), first_day: first_day.into(), last_day: last_day.into() };
        let send = |mut stub: Stub, request| async move { stub.get_usage(request).await };
        let days = self.read(request, send).await?.days;
        // No sum of such numbers would mean anything.
        let is_amount = |amount: f64| amount.is_finite() && amount >= 0.0;
        match days.iter().all(|day| is_amount(day.stored_byte_seconds) && is_amount(day.key_seconds)) {
            true => Ok(days),
            false => Err(ClientError::malformed("usage that is no amount")),
        }
    }

    /// Acts of operators, and refused calls, newest first. Pages have at most `page_size` entries,
    /// or as many as the server allows if it is 0.
    pub fn audit(&self, page_size: i32) -> impl Stream<Item = Result<AuditEntry>> + Send + Unpin {
        let operator = self.clone();
        pages::stream(move |page_token| {
            let operator = operator.clone();
            async move {
                let request = ListAuditEntriesRequest { page_size, page_token };
                let send = |mut stub: Stub, request| async move { stub.list_audit_entries(request).await };
                let page = operator.read(request, send).await?;
                Ok((page.entries, page.next_page_token))
            }
        })
    }

    /// Makes a call that changes nothing, with retries.
    async fn read<M, A, F>(&self, message: M, send: impl Fn(Stub, Request<M>) -> F) -> Result<A>
    where
        M: Clone,
        F: Future<Output = std::result::Result<Response<A>, Status>>,
    {
        self.0.call(message, |client, request| send(client.admin(), request)).await
    }

    /// Makes a call once.
    async fn change<M, A, F>(&self, message: M, send: impl Fn(Stub, Request<M>) -> F) -> Result<A>
    where
        M: Clone,
        F: Future<Output = std::result::Result<Response<A>, Status>>,
    {
        Self(self.0.clone().retry_policy(RetryPolicy::NEVER)).read(message, send).await
    }
}

type Stub = AdminServiceClient<Service>;
