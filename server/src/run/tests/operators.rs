//! The operator port of a running server.

use cloakwork_proto::v1::{self, admin_service_client::AdminServiceClient};
use tonic::{Request, metadata::MetadataValue};

use super::*;
use crate::{
    auth::{Scope, Scopes, TokenStore},
    database::SCHEMAS,
    tenant::Tenant,
};

/// A running server with an operator port, and calls with a token.
struct Operated {
    server: Running,
    client: AdminServiceClient<Channel>,
    tokens: [String; 2],
}

async fn token(tokens: &TokenStore, scopes: Scopes) -> String {
    let tenant = Tenant::new("ops").unwrap();
    let _ = tokens.create_tenant(&tenant, 0).await;
    tokens.create_token(&tenant, scopes, "", None).await.unwrap().reveal().to_owned()
}

impl Operated {
    async fn start() -> Self {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = Running::start(|config, _| config.listen.operator_address = Some(any)).await;
        let port = server.operator_address.unwrap();
        let file = server.directory.path().join("data").join(crate::database::FILE);
        let database = cloakwork_storage::Database::open(&file, &SCHEMAS, 1).await.unwrap();
        let tokens = TokenStore::new(database, Clock::system());
        let admin = token(&tokens, [Scope::Admin].into_iter().collect()).await;
        let rest = token(&tokens, Scopes::ALL.without(Scope::Admin)).await;
        tokens.close().await;
        let channel = Endpoint::from_shared(format!("http://{port}")).unwrap().connect().await.unwrap();
        Self { server, client: AdminServiceClient::new(channel), tokens: [admin, rest] }
    }

    fn request<T>(&self, message: T) -> Request<T> {
        with_token(message, &self.tokens[0])
    }
}

fn with_token<T>(message: T, token: &str) -> Request<T> {
    let mut request = Request::new(message);
    let value: MetadataValue<_> = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", value);
    request
}

#[tokio::test]
async fn only_the_scope_admin_opens_the_operator_port_and_only_that_port_has_the_service() {
    let mut operated = Operated::start().await;
    let pools = operated.request(v1::ListPoolsRequest {});
    operated.client.list_pools(pools).await.unwrap();
    let [admin, rest] = operated.tokens.clone();
    let refused = operated.client.list_pools(with_token(v1::ListPoolsRequest {}, &rest)).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    let refused = operated.client.list_pools(v1::ListPoolsRequest {}).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "without a token: {refused}");
    // The other port does not have the service, also for operators.
    let mut other = AdminServiceClient::new(operated.server.plain().await);
    let refused = other.list_pools(with_token(v1::ListPoolsRequest {}, &admin)).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented, "{refused}");
    // And the operator port has no other service.
    let port = operated.server.operator_address.unwrap();
    let channel = Endpoint::from_shared(format!("http://{port}")).unwrap().connect().await.unwrap();
    let get = with_token(GetCapabilitiesRequest {}, &rest);
    let refused = CapabilityServiceClient::new(channel).get_capabilities(get).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented, "{refused}");
    operated.server.end().await;
}

#[tokio::test]
async fn operators_manage_tenants_tokens_and_limits() {
    let mut operated = Operated::start().await;
    let create = operated.request(v1::CreateTenantRequest { tenant: "acme".to_owned(), shard: None });
    operated.client.create_tenant(create).await.unwrap();
    let again = operated.request(v1::CreateTenantRequest { tenant: "acme".to_owned(), shard: None });
    assert_eq!(operated.client.create_tenant(again).await.unwrap_err().code(), Code::InvalidArgument);
    let limits = vec![v1::TenantLimit { name: "tenant_keys".to_owned(), value: 7 }];
    let of_acme = |limits, removed_limits: &[&str]| v1::SetTenantLimitsRequest {
        name: "tenants/acme".to_owned(),
        limits,
        removed_limits: removed_limits.iter().map(|name| (*name).to_owned()).collect(),
    };
    let set = operated.request(of_acme(limits.clone(), &["tenant_bytes"]));
    assert_eq!(operated.client.set_tenant_limits(set).await.unwrap().into_inner().limits, limits);
    for (limits, removed) in [(limits.clone(), "tenant_keys"), (Vec::new(), "tenant_uploads")] {
        let wrong = operated.request(of_acme(limits, &[removed]));
        assert_eq!(operated.client.set_tenant_limits(wrong).await.unwrap_err().code(), Code::InvalidArgument);
    }
    for wrong in [("tenant_uploads", 1), ("tenant_keys", 0)] {
        let limits = vec![v1::TenantLimit { name: wrong.0.to_owned(), value: wrong.1 }];
        let set = operated.request(of_acme(limits, &[]));
        let refused = operated.client.set_tenant_limits(set).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{wrong:?}");
    }
    let create = v1::CreateTokenRequest {
        parent: "tenants/acme".to_owned(),
        scopes: vec!["jobs".to_owned(), "read".to_owned()],
        days: 1,
        note: "a note".to_owned(),
    };
    let made = operated.client.create_token(operated.request(create)).await.unwrap().into_inner();
    let token = made.token.unwrap();
    assert_eq!((token.tenant.as_str(), token.note.as_str()), ("acme", "a note"));
    // The token works at the API port.
    let mut capabilities = CapabilityServiceClient::new(operated.server.plain().await);
    let get = with_token(GetCapabilitiesRequest {}, &made.secret);
    assert_eq!(capabilities.get_capabilities(get).await.unwrap().into_inner().tenant, "acme");
    // Pages of one row.
    let (mut names, mut page_token) = (Vec::new(), String::new());
    loop {
        let list = operated.request(v1::ListTenantsRequest { page_size: 1, page_token });
        let page = operated.client.list_tenants(list).await.unwrap().into_inner();
        names.extend(page.tenants.iter().map(|tenant| (tenant.name.clone(), tenant.limits.clone())));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(names, [("tenants/acme".to_owned(), limits), ("tenants/ops".to_owned(), Vec::new())]);
    let revoke = operated.request(v1::RevokeTokenRequest { name: token.name.clone() });
    operated.client.revoke_token(revoke).await.unwrap();
    let list = v1::ListTokensRequest { parent: "tenants/acme".to_owned(), ..Default::default() };
    let tokens = operated.client.list_tokens(operated.request(list)).await.unwrap().into_inner().tokens;
    assert!(tokens.len() == 1 && tokens[0].revoke_time.is_some());
    let usage = operated.request(v1::GetUsageRequest::default());
    assert_eq!(operated.client.get_usage(usage).await.unwrap().into_inner().days, []);
    let audit = operated.request(v1::ListAuditEntriesRequest::default());
    let entries = operated.client.list_audit_entries(audit).await.unwrap().into_inner().entries;
    let acts: Vec<&str> = entries.iter().map(|entry| entry.act.as_str()).take(4).collect();
    assert_eq!(acts, ["revoke token", "create token", "set limits", "create tenant"]);
    assert!(entries[0].actor.starts_with("ops (token "), "{:?}", entries[0]);
    assert!(!format!("{entries:?}").contains(&made.secret[20..40]));
    operated.server.end().await;
}

#[tokio::test]
async fn a_drained_worker_gets_no_job_until_it_is_resumed() {
    let mut operated = Operated::start().await;
    let worker = loop {
        let list = operated.request(v1::ListWorkersRequest {});
        let workers = operated.client.list_workers(list).await.unwrap().into_inner().workers;
        if let Some(worker) = workers.into_iter().next() {
            break worker;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!((worker.display_name.as_str(), worker.state()), ("embedded", v1::WorkerState::Ready));
    let drain = operated.request(v1::DrainWorkerRequest { name: worker.name.clone() });
    operated.client.drain_worker(drain).await.unwrap();
    let state = async |operated: &mut Operated| {
        let list = operated.request(v1::ListWorkersRequest {});
        operated.client.list_workers(list).await.unwrap().into_inner().workers[0].state()
    };
    assert_eq!(state(&mut operated).await, v1::WorkerState::Draining);
    let pools = operated.request(v1::ListPoolsRequest {});
    let pools = operated.client.list_pools(pools).await.unwrap().into_inner().pools;
    assert_eq!((pools[0].workers, pools[0].draining), (1, 1));
    let resume = operated.request(v1::ResumeWorkerRequest { name: worker.name.clone() });
    operated.client.resume_worker(resume).await.unwrap();
    assert_eq!(state(&mut operated).await, v1::WorkerState::Ready);
    for unknown in ["workers/00000000-0000-0000-0000-000000000001", "workers/x", ""] {
        let drain = operated.request(v1::DrainWorkerRequest { name: unknown.to_owned() });
        assert!(operated.client.drain_worker(drain).await.is_err(), "{unknown}");
    }
    operated.server.end().await;
}
