//! State that commands share: the server, the keys, and messages to the user.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use cloakwork_client::{
    AnyKeys, CLIENT_KEY_FILE, CkksKeys, Client, ClientError, ConnectOptions, Encrypted, Finished, Identity, JobRequest,
    KeyFileError, Keys, Operator, Program, RetryPolicy, Token, TraceContext, Trust, has_ended, params::ObjectKind,
    proto::Job,
};
use serde_json::json;
use zeroize::Zeroizing;

use crate::{
    anchors::Anchors, failure::Failure, global::Global, interrupts::Interrupts, latency, output::show, results,
};

/// The global arguments, with access to the server and the keys that they name.
pub(crate) struct Context {
    pub(crate) global: Global,
    interrupts: Interrupts,
}

impl Context {
    pub(crate) fn new(global: Global) -> Self {
        Self { global, interrupts: Interrupts::default() }
    }

    /// Connects to the server, and asks for the identity that the server gives the caller.
    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        self.connect_with(RetryPolicy::default()).await
    }

    /// Like [`Self::connect`], with another retry policy for later calls.
    pub(crate) async fn connect_with(&self, retry: RetryPolicy) -> Result<Client, Failure> {
        let mut options = self.options()?;
        options.trust = self.trust()?;
        let client = Client::connect(&options).await.map_err(|error| self.unreachable(error))?;
        let client = client.retry_policy(retry);
        Ok(match self.trace() {
            Some(trace) => client.in_trace(trace),
            None => client,
        })
    }

    /// Prepares calls of an operator. Whether the server can be reached, the first call finds out.
    pub(crate) fn operator(&self) -> Result<Operator, Failure> {
        let operator = Operator::lazy(&self.options()?)?;
        Ok(match self.trace() {
            Some(trace) => operator.in_trace(trace),
            None => operator,
        })
    }

    /// The server, the token and the certificates that the options name.
    fn options(&self) -> Result<ConnectOptions, Failure> {
        let mut options = ConnectOptions { retry: FIRST_CALL, ..ConnectOptions::new(&self.global.server) };
        if let Some(token) = self.global.token.as_deref() {
            if token.is_empty() {
                // Without a token, the command would be anonymous, and perhaps act for another
                // tenant.
                return Err(Failure::Usage(
                    "the token is empty: leave out --token, and unset CLOAKWORK_TOKEN, to send none".into(),
                ));
            }
            options = options.token(Token::new(token)?);
        }
        options.ca_pem = self.global.ca.as_deref().map(|ca| read(ca, CERTIFICATE)).transpose()?.map(|pem| pem.to_vec());
        if let (Some(certificate), Some(key)) = (&self.global.cert, &self.global.cert_key) {
            options.identity = Some(Identity::from_pem(read(certificate, CERTIFICATE)?, read(key, PRIVATE_KEY)?));
        }
        Ok(options)
    }

    /// The trace that the calls belong to. Programs that run commands set the context of their own
    /// trace, in whichever form it has.
    fn trace(&self) -> Option<TraceContext> {
        self.global.traceparent.as_deref().and_then(TraceContext::parse)
    }

    /// Does the work to its end or until Ctrl-C, after which `left` describes what remains.
    pub(crate) async fn until_interrupt<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
        left: String,
    ) -> Result<T, Failure> {
        self.interrupts.until(work, async || Failure::Interrupted(left)).await
    }

    /// Whose results the command takes.
    fn trust(&self) -> Result<Trust, Failure> {
        let Global { server, anchor, unverified, keys, .. } = &self.global;
        if *unverified {
            return Ok(Trust::Unverified);
        }
        let pinned = match anchor {
            Some(anchor) => Some(anchor.clone()),
            None => Anchors::read(keys)?.of(server).cloned(),
        };
        Ok(pinned.map_or(Trust::FirstUse, Trust::Anchor))
    }

    /// Pins the anchor that the client has, unless one is pinned. Without an anchor from the user,
    /// it is the one that a server on this machine named on its first use.
    async fn pin(&self, client: &Client) -> Result<(), Failure> {
        let Global { server, anchor, keys, .. } = &self.global;
        if anchor.is_some() || !keys.is_dir() {
            return Ok(());
        }
        let Some(named) = client.anchor().await? else { return Ok(()) };
        if Anchors::read(keys)?.of(server).is_some() {
            return Ok(());
        }
        match Anchors::pin_first(keys, server, named.clone()) {
            // The result of this command is verified anyway.
            Err(Failure::Io(error)) => {
                eprintln!("cloakwork: warning: the anchor of {server} is not pinned: {error}");
                Ok(())
            }
            pinned => pinned,
        }
    }

    /// Loads the keys of the directory, of either scheme.
    pub(crate) async fn any_keys(&self) -> Result<AnyKeys, Failure> {
        self.load(self.global.keys.clone(), AnyKeys::load, &[KEYGEN, CKKS_KEYGEN]).await
    }

    /// Loads the keys of the directory, which must be of CKKS.
    pub(crate) async fn ckks_keys(&self) -> Result<CkksKeys, Failure> {
        self.load(self.global.keys.clone(), CkksKeys::load, &[CKKS_KEYGEN]).await
    }

    /// Loads the keys of the directory, which must be of TFHE.
    pub(crate) async fn keys(&self) -> Result<Keys, Failure> {
        self.keys_in(self.global.keys.clone()).await
    }

    /// Loads the TFHE keys of another directory.
    pub(crate) async fn keys_in(&self, directory: PathBuf) -> Result<Keys, Failure> {
        self.load(directory, Keys::load, &[KEYGEN]).await
    }

    async fn load<K: Send + 'static>(
        &self,
        directory: PathBuf,
        load: fn(&Path, Option<&str>) -> cloakwork_client::Result<K>,
        keygens: &[&str],
    ) -> Result<K, Failure> {
        let file = directory.join(CLIENT_KEY_FILE);
        if !file.exists() {
            let directory = directory.display();
            let keygens: Vec<String> = keygens.iter().map(|keygen| format!("`{keygen} --out {directory}`")).collect();
            return Err(Failure::Keys(format!(
                "there is no client key in {directory}: {} makes one",
                keygens.join(", or of CKKS ")
            )));
        }
        let passphrase = self.passphrase()?;
        let load = move || load(&directory, passphrase.as_ref().map(|passphrase| passphrase.as_str()));
        // Opening a sealed key takes a second of computation.
        let loaded = tokio::task::spawn_blocking(load).await.map_err(std::io::Error::other)?;
        loaded.map_err(|error| unusable(&file, error))
    }

    /// The first line of the passphrase file.
    pub(crate) fn passphrase(&self) -> Result<Option<Zeroizing<String>>, Failure> {
        self.global.passphrase_file.as_deref().map(read_passphrase).transpose()
    }

    /// Runs a program on rows under the keys' evaluation key, and decrypts its first output.
    pub(crate) async fn run(
        &self,
        client: &Client,
        keys: &Keys,
        program: Program,
        inputs: Vec<Encrypted>,
    ) -> Result<(Finished, Zeroizing<Vec<u64>>), Failure> {
        let finished = self.run_job(client, keys, program, inputs).await?;
        let output = finished.output(0)?;
        let list = self.fetch(&finished, async { Ok(client.output(&output).await?) }).await?;
        Ok((finished, keys.decrypt(&list)?))
    }

    /// Runs a program on rows under the keys' evaluation key.
    pub(crate) async fn run_job(
        &self,
        client: &Client,
        keys: &Keys,
        program: Program,
        inputs: Vec<Encrypted>,
    ) -> Result<Finished, Failure> {
        let key = client.use_key(keys).await?;
        let request = inputs.into_iter().fold(JobRequest::new(program, &key), JobRequest::encrypted);
        self.run_request(client, &request).await
    }

    /// Runs a job to its end. Ctrl-C ends the wait, not the job.
    pub(crate) async fn run_request(&self, client: &Client, request: &JobRequest) -> Result<Finished, Failure> {
        let running = async {
            self.pin(client).await?;
            let done = self.remarking(client, client.run(request)).await;
            done.map_err(|error| self.explain(error))
        };
        self.interrupts.until(running, async || self.interrupted(client, request).await).await
    }

    /// Fetches the results of a job. Ctrl-C ends the fetch.
    pub(crate) async fn fetch<T>(
        &self,
        finished: &Finished,
        fetching: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let name = &finished.job.name;
        let said = format!("interrupted; cloakwork jobs show {name} names the results");
        self.interrupts.until(fetching, async || Failure::Interrupted(said)).await
    }

    /// Runs a program like [`Self::run`], and prints the results, the job's name and its latency
    /// record.
    pub(crate) async fn run_and_show(
        &self,
        client: &Client,
        keys: &Keys,
        program: Program,
        inputs: Vec<Encrypted>,
    ) -> Result<(), Failure> {
        let (finished, results) = self.run(client, keys, program, inputs).await?;
        let record = finished.job.latency.unwrap_or_default();
        show(
            self.global.json,
            || json!({ "job": finished.job.name, "results": *results, "latency": latency::document(&record) }),
            || {
                let words: Vec<String> = results.iter().map(u64::to_string).collect();
                format!("{}\n\n{}\n{}", words.join(","), finished.job.name, latency::table(&record))
            },
        )
    }

    /// Does the work. If it takes long and no worker takes jobs, prints that reason.
    async fn remarking<T>(&self, client: &Client, work: impl Future<Output = T>) -> T {
        let remark = async {
            tokio::time::sleep(NO_WORKER_REMARK_DELAY).await;
            if client.capabilities().await.is_ok_and(|capabilities| capabilities.pools.is_empty()) {
                let server = &self.global.server;
                eprintln!(
                    "cloakwork: the job waits, because no worker takes jobs at the moment: none is attached, or \
                     all are quarantined. After a change of the owner, workers return within seconds. This command \
                     starts one: cloakwork-worker --server {server} --token-file FILE"
                );
            }
            std::future::pending().await
        };
        tokio::select! {
            biased;
            done = work => done,
            never = remark => never,
        }
    }

    /// Records the results of a job, so that later commands can decrypt them. A directory that
    /// cannot be written to is a warning: the results of this command are good without a record.
    pub(crate) async fn record(&self, client: &Client, job: &Job, request: &JobRequest) -> Result<(), Failure> {
        let asked = client.asked(request).await?;
        match results::record(&self.global.keys, &job.name, &asked, &request.output_shapes()) {
            Err(Failure::Io(error)) => {
                eprintln!("cloakwork: warning: no later command can use the results of {}: {error}", job.name);
                Ok(())
            }
            recorded => recorded,
        }
    }

    /// Describes the state of a job whose wait was interrupted.
    async fn interrupted(&self, client: &Client, request: &JobRequest) -> Failure {
        if !request.is_handed_in() {
            return Failure::Interrupted("interrupted before the job was submitted: nothing runs".into());
        }
        // A repeated request stands for the same job, so a second submission returns the job's
        // name.
        let asked = tokio::select! {
            answer = tokio::time::timeout(JOB_NAME_TIMEOUT, client.submit(request)) => answer.ok(),
            Ok(()) = tokio::signal::ctrl_c() => None,
        };
        if let Some(Ok(job)) = &asked
            && let Err(failure) = self.record(client, job, request).await
        {
            return failure;
        }
        Failure::Interrupted(match asked {
            Some(Ok(job)) if has_ended(&job) => {
                format!("interrupted; {0} has ended: cloakwork jobs show {0}", job.name)
            }
            Some(Ok(job)) => format!(
                "interrupted; {0} goes on\nThis cancels it: cloakwork jobs cancel {0}\nThis follows it: cloakwork jobs watch {0}",
                job.name
            ),
            Some(Err(error)) => format!("interrupted; the server did not confirm the job: {error}"),
            None => "interrupted; the server may have the job: `cloakwork jobs ls` lists the server's jobs".into(),
        })
    }

    /// Adds advice to the error of a server that cannot be reached.
    fn unreachable(&self, error: ClientError) -> Failure {
        let ClientError::Transport { problem } = error else { return error.into() };
        let server = &self.global.server;
        let transport = match server.starts_with("https:") {
            true => "--ca names the authority of its certificate if that authority is not public",
            false => "the address of a server with TLS begins with https://",
        };
        Failure::Unreachable(format!(
            "cannot reach {server}: {problem}\nIs a server running there? `cloakwork-server serve` starts one; --server, or \
             CLOAKWORK_SERVER, names another; {transport}"
        ))
    }

    /// Adds advice to the error of a job.
    fn explain(&self, error: ClientError) -> Failure {
        let (keys, server) = (self.global.keys.display(), &self.global.server);
        let advice = match error.reason() {
            Some("KEY_NOT_FOUND") => format!("Has the key been pushed? cloakwork --keys {keys} keys push"),
            Some("ATTESTATION_OTHER_INSTALLATION") => format!(
                "Was this server set up anew, or its key changed? Ask its operator for the anchor, and pin it: cloakwork \
                 --keys {keys} --server {server} anchor pin ANCHOR"
            ),
            _ => return error.into(),
        };
        Failure::from(error).advised(advice)
    }
}

/// The failure of an unusable client key, with its file and advice.
fn unusable(file: &Path, error: ClientError) -> Failure {
    let ClientError::KeyFile(error) = error else { return error.into() };
    let named = match &error {
        KeyFileError::Io { .. } | KeyFileError::OpenToOthers { .. } => error.to_string(),
        _ => format!("{}: {error}", file.display()),
    };
    let other = "--keys, or CLOAKWORK_KEYS, names another directory";
    let advice = match &error {
        KeyFileError::NotAKey { got: ObjectKind::CkksClientKey, .. } => {
            format!("These are keys of CKKS, for `cloakwork ckks`; {other}, with keys of `{KEYGEN}`")
        }
        KeyFileError::NotAKey { got: ObjectKind::ClientKey, .. } => {
            format!("These are keys of TFHE, for `eval`, `pbs` and `gate`; {other}, with keys of `{CKKS_KEYGEN}`")
        }
        KeyFileError::PassphraseNeeded => "--passphrase-file names the file with the passphrase".into(),
        KeyFileError::NotSealed => "Leave out --passphrase-file".into(),
        _ => return Failure::Keys(named),
    };
    Failure::Keys(format!("{named}\n{advice}"))
}

/// Commands that make keys, of TFHE and of CKKS.
const KEYGEN: &str = "cloakwork keygen";
const CKKS_KEYGEN: &str = "cloakwork ckks keygen";

/// Maximum wait for a job's name after Ctrl-C, because the user wants to leave.
const JOB_NAME_TIMEOUT: Duration = Duration::from_secs(5);

/// Retries of the first call, which reports an absent server soon. Later calls wait for a server
/// that goes away.
const FIRST_CALL: RetryPolicy = RetryPolicy {
    attempts_max: 3,
    first_pause: Duration::from_millis(100),
    pause_max: Duration::from_millis(200),
    total_max: Duration::from_secs(10),
};

/// Time after which the user learns that no worker takes jobs.
const NO_WORKER_REMARK_DELAY: Duration = Duration::from_secs(3);

/// Ends of the first lines of certificates and private keys in PEM.
const CERTIFICATE: &str = "CERTIFICATE-----";
const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// Reads a PEM file that an option names. Errors name the file.
fn read(path: &Path, what: &str) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let wrong = |problem: String| Failure::Usage(format!("{}: {problem}", path.display()));
    let bytes = std::fs::read(path).map(Zeroizing::new).map_err(|error| wrong(error.to_string()))?;
    match bytes.windows(what.len()).any(|some| some == what.as_bytes()) {
        true => Ok(bytes),
        false => Err(wrong(format!("expected PEM, with a line that ends with '{what}'"))),
    }
}

fn read_passphrase(path: &Path) -> Result<Zeroizing<String>, Failure> {
    let failed = |problem: String| Failure::Passphrase { path: path.display().to_string(), problem };
    let content = std::fs::read_to_string(path).map(Zeroizing::new).map_err(|error| failed(error.to_string()))?;
    match content.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(Zeroizing::new(line.to_owned())),
        None => Err(failed("its first line is empty: expected a passphrase".into())),
    }
}
