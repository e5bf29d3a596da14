use cloakwork_clock::Clock;

use super::*;
use crate::database::SCHEMAS;

#[test]
fn every_own_limit_is_a_limit_of_the_server() {
    for name in OWN_LIMITS {
        let row = Limit::named(name).unwrap();
        assert_eq!(check(name, row.default).unwrap(), name);
        assert!(check(name, row.most + 1).is_err(), "{name}");
    }
    assert!(check("tenant_uploads", 1).is_err() && check("", 1).is_err() && check_name("tenant_uploads").is_err());
    let places =
        [OwnLimit::Bytes, OwnLimit::DayBootstraps, OwnLimit::InlineBytes, OwnLimit::Keys, OwnLimit::QueuedJobs];
    assert_eq!(places.map(|limit| limit as usize), [0, 1, 2, 3, 4]);
    assert!(OWN_LIMITS.is_sorted());
}

#[tokio::test]
async fn a_tenant_has_its_own_limits_until_they_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    let database = cloakwork_tests_database::open(&directory.path().join("server.db"), &SCHEMAS, 1).await;
    let tokens = TokenStore::new(database.clone(), Clock::system());
    let (tenant, limits) = (Tenant::new("acme").unwrap(), TenantLimits::default());
    let change = async |changes: &[(&'static str, Option<u64>)]| {
        change(&tokens, &tenant, &changes.iter().copied().collect()).await
    };
    let unknown = change(&[("tenant_keys", Some(7))]).await.unwrap_err();
    assert!(matches!(unknown, StoreError::TenantUnknown(_)), "{unknown}");
    tokens.create_tenant(&tenant, 0).await.unwrap();
    let now = change(&[("tenant_keys", Some(7)), ("tenant_inline_bytes", None)]).await.unwrap();
    assert_eq!(now, [("tenant_keys".to_owned(), 7)].into());
    assert_eq!(limits.of("acme", OwnLimit::Keys, 3), 3, "not read yet");
    limits.read(&database).await.unwrap();
    assert_eq!((limits.of("acme", OwnLimit::Keys, 3), limits.of("other", OwnLimit::Keys, 3)), (7, 3));
    assert_eq!(limits.of("acme", OwnLimit::QueuedJobs, 3), 3);
    // A limit that is not named stays.
    let now = change(&[("tenant_bytes", Some(1 << 40))]).await.unwrap();
    assert_eq!(now, [("tenant_bytes".to_owned(), 1 << 40), ("tenant_keys".to_owned(), 7)].into());
    assert_eq!(all(&database).await.unwrap()["acme"], now);
    let now = change(&[("tenant_keys", Some(8)), ("tenant_bytes", None)]).await.unwrap();
    assert_eq!(now, [("tenant_keys".to_owned(), 8)].into());
    assert_eq!(change(&[("tenant_keys", None)]).await.unwrap(), BTreeMap::new());
    limits.read(&database).await.unwrap();
    assert_eq!(limits.of("acme", OwnLimit::Keys, 3), 3);
    tokens.delete_tenant(&tenant).await.unwrap();
    assert!(change(&[]).await.is_err(), "the tenant is being deleted");
}
