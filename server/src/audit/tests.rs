use std::net::IpAddr;

use cloakwork_clock::ManualClock;

use super::*;
use crate::{
    auth::{Scope, TokenStore},
    database::SCHEMAS,
    error::{INVALID_ARGUMENT, UNAUTHENTICATED},
    tenant::Tenant,
};

async fn open(directory: &tempfile::TempDir) -> Database {
    cloakwork_tests_database::open(&directory.path().join("server.db"), &SCHEMAS, 1).await
}

fn address(last: u8) -> Option<AddressBlock> {
    Some(IpAddr::from([10, 0, 0, last]).into())
}

#[tokio::test]
async fn acts_on_tenants_and_tokens_are_recorded_with_their_actor_and_without_secrets() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(&directory).await;
    let time = ManualClock::at(1_700_000_000_000_000);
    let tokens = TokenStore::new(database.clone(), time.clock()).by("ops");
    let audit = Audit::new(database, time.clock(), &Limits::default());
    let tenant = Tenant::new("acme").unwrap();
    tokens.create_tenant(&tenant, 0).await.unwrap();
    let secret = tokens.create_token(&tenant, [Scope::Jobs].into_iter().collect(), "note", None).await.unwrap();
    tokens.revoke_token(&secret.id()).await.unwrap();
    assert!(tokens.create_tenant(&tenant, 0).await.is_err(), "an act that fails is not recorded");
    tokens.revoke_tenant(&tenant).await.unwrap();
    tokens.delete_tenant(&tenant).await.unwrap();
    let entries = audit.page(None, 10).await.unwrap();
    let acts: Vec<(&str, &str)> = entries.iter().map(|entry| (&*entry.act, &*entry.subject)).collect();
    let token = format!("tokens/{}", secret.id());
    let expected = [
        ("delete tenant", "tenants/acme"),
        ("revoke tenant", "tenants/acme"),
        ("revoke token", &token),
        ("create token", &token),
        ("create tenant", "tenants/acme"),
    ];
    assert_eq!(acts, expected);
    assert!(entries.iter().all(|entry| entry.actor == "ops" && entry.refusals == 0));
    assert!(!format!("{entries:?}").contains(&secret.reveal()[20..30]));
    assert_eq!(audit.page(Some(entries[2].id), 10).await.unwrap(), entries[3..]);
    assert_eq!(audit.page(None, 2).await.unwrap(), entries[..2]);
}

#[tokio::test]
async fn refused_calls_are_counted_in_few_entries() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(&directory).await;
    let time = ManualClock::at(1_700_000_000_000_000);
    let audit = Audit::new(database, time.clock(), &Limits::default());
    let refused = UNAUTHENTICATED.error("the secret text of an attacker");
    for _ in 0..1000 {
        audit.refused(address(1), "/method", &refused);
    }
    audit.refused(address(1), "/method", &INVALID_ARGUMENT.error("no refusal of rights"));
    audit.record().await.unwrap();
    let [entry] = &audit.page(None, 10).await.unwrap()[..] else { panic!("one entry") };
    let parts = (&*entry.actor, &*entry.act, &*entry.subject, &*entry.detail, entry.refusals);
    assert_eq!(parts, ("10.0.0.1", "refused call", "/method", "UNAUTHENTICATED", 1000));
    // One address hides no other.
    for method in ["a", "b", "c", "d", "e", "f"] {
        audit.refused(address(1), method, &refused);
    }
    audit.refused(address(2), "a", &refused);
    audit.record().await.unwrap();
    let entries = audit.page(None, 100).await.unwrap();
    let others = entries.iter().filter(|entry| entry.actor == "10.0.0.1" && entry.subject == OTHER);
    assert_eq!(others.map(|entry| entry.refusals).collect::<Vec<_>>(), [2]);
    assert!(entries.iter().any(|entry| entry.actor == "10.0.0.2" && entry.subject == "a"));
    let before = entries.len();
    // An attacker with many addresses fills one more entry.
    for last in 0..=255 {
        audit.refused(address(last), "/method", &refused);
    }
    audit.record().await.unwrap();
    let entries = audit.page(None, 100).await.unwrap();
    assert_eq!(entries.len(), before + AUDIT_REFUSAL_KINDS_MAX + 1);
    assert_eq!(entries.iter().map(|entry| entry.refusals).sum::<u64>(), 1000 + 7 + 256);
    audit.record().await.unwrap();
    assert_eq!(audit.page(None, 100).await.unwrap().len(), entries.len(), "nothing new");
}

#[tokio::test]
async fn old_entries_are_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(&directory).await;
    let time = ManualClock::at(1_700_000_000_000_000);
    let limits = Limits { audit_seconds: 86_400, ..Limits::default() };
    let audit = Audit::new(database.clone(), time.clock(), &limits);
    TokenStore::new(database, time.clock()).create_tenant(&Tenant::new("acme").unwrap(), 0).await.unwrap();
    audit.record().await.unwrap();
    assert_eq!(audit.page(None, 10).await.unwrap().len(), 1);
    time.advance(Duration::from_secs(86_401));
    audit.record().await.unwrap();
    assert_eq!(audit.page(None, 10).await.unwrap().len(), 0);
}
