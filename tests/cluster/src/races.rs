//! Callers of several servers that store, use and delete the same lists and keys.

use std::{sync::Arc, time::Duration};

use cloakwork_client::{Client, ClientError, Encrypted, Input, JobRequest, Keys, Progress, set_by_name};
use cloakwork_tests_service::{TOY, Tenant, VALUES};
use tokio::{task::JoinSet, time::timeout};

use crate::{Cluster, storm::Random};

/// Number of rounds of all callers together. A caller does one thing to one list or key in a round.
const ROUNDS: u64 = 2000;

/// Number of callers of each server.
const CALLERS: u64 = 4;

/// Number of lists, which all callers share.
const LISTS: u64 = 4;

/// Longest time of a round.
const ROUND_TIME_MAX: Duration = Duration::from_secs(30);

/// Refusals that another caller can cause.
const ALLOWED: [&str; 8] = [
    "BLOB_NOT_FOUND",
    "CIPHERTEXT_IN_USE",
    "CIPHERTEXT_NOT_FOUND",
    "EVALUATION_KEY_UNKNOWN",
    "KEY_DELETING",
    "KEY_INCOMPLETE",
    "KEY_NOT_FOUND",
    "UPLOAD_NOT_FOUND",
];

/// The lists and keys of all callers.
struct Shared {
    tenant: Arc<Tenant>,
    /// A key that callers delete and register again.
    key: Keys,
    key_name: String,
    lists: Vec<Encrypted>,
}

/// Runs the callers. Returns the number of jobs that were accepted.
///
/// # Panics
///
/// At an error that no other caller can cause, and at a job whose result is wrong or missing.
pub(crate) async fn run(cluster: &Cluster, tenant: &Arc<Tenant>) -> u64 {
    let key = Keys::generate(set_by_name(TOY).expect("a set"), Progress::none()).await.expect("keys");
    let key_name = tenant.client.push_key(&key, &Progress::none()).await.expect("the key is taken").name;
    let lists = (0..LISTS).map(|value| tenant.keys.encrypt(&[value], VALUES as u32 - 1).expect("a list"));
    let shared = Arc::new(Shared { tenant: tenant.clone(), key, key_name, lists: lists.collect() });
    let mut callers = JoinSet::new();
    let rounds = ROUNDS / (cluster.members.len() as u64 * CALLERS);
    for member in 0..cluster.members.len() {
        for number in 0..CALLERS {
            let client = shared.tenant.share_key(cluster.client_at(member).await).await;
            client.use_key(&shared.key).await.expect("the digests of the key");
            let (shared, seed) = (shared.clone(), member as u64 * CALLERS + number);
            callers.spawn(async move { shared.call(client, seed, rounds).await });
        }
    }
    let accepted = callers.join_all().await.into_iter().sum();
    assert!(accepted > ROUNDS / 20, "only {accepted} jobs found their list or their key");
    accepted
}

impl Shared {
    async fn call(&self, client: Client, seed: u64, rounds: u64) -> u64 {
        let (mut random, mut accepted) = (Random(seed), 0);
        for _ in 0..rounds {
            let (deed, value) = (random.below(7), random.below(LISTS));
            let done = timeout(ROUND_TIME_MAX, self.round(&client, deed, value)).await;
            match done.unwrap_or_else(|_| panic!("deed {deed} takes too long")) {
                Ok(jobs) => accepted += jobs,
                Err(error) => {
                    let reason = error.reason().unwrap_or_default();
                    assert!(ALLOWED.contains(&reason), "deed {deed}: {error:?}");
                }
            }
        }
        accepted
    }

    /// Does one thing to the list of a value, or to the key. Returns the number of jobs that were
    /// accepted.
    async fn round(&self, client: &Client, deed: u64, value: u64) -> Result<u64, ClientError> {
        let list = &self.lists[value as usize];
        let name = format!("tenants/acme/ciphertexts/{}", list.digest());
        match deed {
            0 | 1 => client.store(list).await.map(|stored| {
                assert_eq!(stored, name);
                0
            }),
            2 => client.delete(&name).await.map(|()| 0),
            3 => client.delete_key(&self.key_name).await.map(|_| 0),
            4 => client.push_key(&self.key, &Progress::none()).await.map(|_| 0),
            5 => {
                let input = Input::Known { name, digest: list.digest() };
                self.square(client, &self.tenant.keys, &self.tenant.key, input, value).await
            }
            _ => {
                let input = self.key.encrypt(&[value], VALUES as u32 - 1).expect("a list");
                self.square(client, &self.key, &self.key_name, Input::Encrypted(input), value).await
            }
        }
    }

    /// Runs a job, which ends well if it is accepted.
    async fn square(
        &self,
        client: &Client,
        keys: &Keys,
        key: &str,
        input: Input,
        value: u64,
    ) -> Result<u64, ClientError> {
        let program = self.tenant.lookup(|x| x * x % VALUES);
        let request = JobRequest::new(program, key).input(input).rows(1);
        let job = client.submit(&request).await?;
        let ended = client.wait(&job.name).await.expect("an accepted job ends");
        let finished = client.finish(ended, Duration::ZERO, &request).await.expect("its input and its key stay");
        let output = client.output(&finished.output(0).expect("an output")).await.expect("the output is kept");
        let values = keys.decrypt(&output).expect("the key of the job");
        assert_eq!(values.as_slice(), [value * value % VALUES], "the result of a job");
        Ok(1)
    }
}
