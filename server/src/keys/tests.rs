use std::path::Path;

use cloakwork_clock::Clock;
use cloakwork_keystore::{Digest, KeyState, Options, StoreOptions};
use cloakwork_storage::{Database, Survival};

use super::*;
use crate::{
    backend,
    database::SCHEMAS,
    limits::Limits,
    store::{Write, tests::new_job},
    test_objects::{KEY, key_part},
};

/// An empty key store below `root`.
pub(crate) async fn keystore(root: &Path, clock: Clock, database: &Database) -> Keystore {
    let options = Options {
        staging: root.join("staging"),
        store: StoreOptions::Local(root.join("blobs")),
        allow_weak_sets: true,
        limits: backend::keystore_limits(&Limits::default()),
        clock,
        own_limits: None,
        watch: None,
    };
    Keystore::open(options, database).await.unwrap()
}

struct Fixture {
    store: Store,
    keystore: Keystore,
    uses: KeyUses,
    tenant: TenantId,
    _directory: tempfile::TempDir,
}

impl Fixture {
    /// A fixture with a registered key.
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let database = cloakwork_tests_database::open(&root.join("server.db"), &SCHEMAS, 1).await;
        let keystore = keystore(root, Clock::system(), &database).await;
        let store = Store::new(database);
        let tenant = TenantId::new("a").unwrap();
        let bytes = key_part();
        keystore.put(&tenant, bytes.clone(), None).await.unwrap();
        keystore.register_key(&tenant, &[1; 16], &[Digest::of(&bytes)]).await.unwrap();
        Self { store, keystore, uses: KeyUses::default(), tenant, _directory: directory }
    }

    async fn purge(&self) -> bool {
        self.uses.purge(&self.store, &self.keystore, &self.tenant, KEY).await.unwrap();
        match self.keystore.key(&self.tenant, KEY).await {
            Ok(_) => false,
            Err(Error::KeyNotFound { .. }) => true,
            Err(error) => panic!("{error}"),
        }
    }

    fn job(&self) -> Write {
        let job = new_job(self.tenant.as_str(), 1);
        assert_eq!(job.meta.key_id, KEY);
        Write::Submitted(job)
    }
}

#[tokio::test]
async fn a_key_is_not_purged_while_a_job_that_needs_it_is_on_its_way() {
    let fixture = Fixture::new().await;
    assert!(!fixture.purge().await, "the key is not deleted");
    // The job is admitted while the key is active, and not yet in the store when the key is
    // deleted.
    let key_use = fixture.uses.begin(&fixture.tenant, KEY);
    let deleted = fixture.keystore.delete_key(&fixture.tenant, KEY).await.unwrap();
    assert_eq!(deleted.state, KeyState::Deleting);
    assert!(!fixture.purge().await, "a job that is being submitted uses the key");
    fixture.store.apply(Survival::Crash, &[fixture.job()]).await.unwrap();
    drop(key_use);
    assert!(fixture.uses.0.lock().unwrap().is_empty(), "uses of stored jobs are removed");
    assert!(!fixture.purge().await, "a stored job uses the key");
}

#[tokio::test]
async fn an_unused_deleted_key_is_purged_at_once() {
    let fixture = Fixture::new().await;
    let other = TenantId::new("b").unwrap();
    let _same_name_elsewhere = fixture.uses.begin(&other, KEY);
    let refused = fixture.uses.begin(&fixture.tenant, KEY);
    fixture.keystore.delete_key(&fixture.tenant, KEY).await.unwrap();
    assert!(!fixture.purge().await);
    drop(refused);
    assert!(fixture.purge().await);
    // A repeated purge is no error.
    assert!(fixture.purge().await);
}
