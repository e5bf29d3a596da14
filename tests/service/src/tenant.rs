//! A tenant with keys that checks its results.

use cloakwork_client::{
    Client, Finished, JobRequest, Keys, Program, ProgramBuilder, Progress, Result, params::table::companion_of,
    set_by_name,
};

use crate::TOY;

/// A client with a registered key.
pub struct Tenant {
    /// Client that is connected to the server.
    pub client: Client,
    /// Keys of the tenant.
    pub keys: Keys,
    /// Resource name of the registered key.
    pub key: String,
}

/// Number of values of a block of the toy set.
pub const VALUES: u64 = 16;

impl Tenant {
    /// Makes keys of the toy set and registers them.
    pub async fn new(client: Client) -> Self {
        Self::of_set(client, TOY).await
    }

    /// Makes keys of a set and registers them.
    pub async fn of_set(client: Client, set: &str) -> Self {
        let keys = Keys::generate(set_by_name(set).expect("a set"), Progress::none()).await.expect("keys");
        let key = client.push_key(&keys, &Progress::none()).await.expect("the key is taken");
        Self { client, keys, key: key.name }
    }

    /// Makes keys of a set and of its companion, and registers both in one upload.
    pub async fn with_companion(client: Client, set: &str) -> Self {
        let set = set_by_name(set).expect("a set");
        let companion = companion_of(set).expect("a companion").set;
        let keys = Keys::generate(set, Progress::none()).await.expect("keys");
        let keys = keys.add(companion, Progress::none()).await.expect("the companion's");
        let key = client.push_key(&keys, &Progress::none()).await.expect("the key is taken");
        assert_eq!(key.parameter_sets, [set.name, companion.name]);
        Self { client, keys, key: key.name }
    }

    /// Gives a client of this tenant the key under which it accepts results. The server has the
    /// key already.
    pub async fn share_key(&self, client: Client) -> Client {
        client.use_key(&self.keys).await.expect("the digests of the key");
        client
    }

    /// Continues with another client, whose server has the key.
    pub async fn continue_with(&mut self, client: Client) {
        self.client = self.share_key(client).await;
    }

    /// Builds a program that looks `x` up in the table of a function.
    pub fn lookup(&self, function: impl Fn(u64) -> u64) -> Program {
        let mut program = ProgramBuilder::new(self.keys.set());
        let x = program.input_up_to("x", VALUES as u32 - 1);
        let result = program.lookup(x, function);
        program.output(result);
        program.build().expect("a program")
    }

    /// Builds a job that squares each value modulo 16.
    pub fn squares(&self, values: &[u64]) -> JobRequest {
        let list = self.keys.encrypt(values, VALUES as u32 - 1).expect("values of a block");
        JobRequest::new(self.lookup(|x| x * x % VALUES), &self.key).encrypted(list)
    }

    /// Decrypts the values of a finished job's first output.
    pub async fn values(&self, finished: &Finished) -> Result<Vec<u64>> {
        let list = self.client.output(&finished.output(0)?).await?;
        Ok(self.keys.decrypt(&list)?.to_vec())
    }

    /// Runs a job and checks its result.
    pub async fn check_squares(&self, values: &[u64]) -> Finished {
        let finished = self.client.run(&self.squares(values)).await.expect("the job succeeds");
        let expected: Vec<u64> = values.iter().map(|x| x * x % VALUES).collect();
        assert_eq!(self.values(&finished).await.expect("a readable output"), expected);
        finished
    }
}
