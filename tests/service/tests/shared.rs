//! A database and a bucket for several servers, and checks of the jobs that they handle.

use std::{ops::Range, time::Duration};

use bytes::Bytes;
use cloakwork_client::{JobRequest, proto::JobState};
use cloakwork_proto::v1::{BeginUploadRequest, Digest, blob_service_client::BlobServiceClient};
use cloakwork_tests_bucket::Bucket;
use cloakwork_tests_postgres::Postgres;
use cloakwork_tests_service::{Server, Setup, Tenant, VALUES, eventually};
use futures_util::StreamExt as _;
use tonic::{service::interceptor::InterceptedService, transport::Channel};

use crate::{liar::Authorize, refusals::channel};

/// A database and a bucket that servers share.
pub(crate) struct Shared {
    pub(crate) postgres: Postgres,
    pub(crate) url: String,
    pub(crate) bucket: Bucket,
    _directory: tempfile::TempDir,
}

impl Shared {
    /// Returns `None` if PostgreSQL is not installed.
    pub(crate) async fn new() -> Option<Self> {
        let postgres = Postgres::start(&[])?;
        let directory = tempfile::tempdir().expect("a directory");
        let (url, bucket) = (postgres.database(), Bucket::start(directory.path()).await);
        let shared = Self { postgres, url, bucket, _directory: directory };
        Some(shared.with_a_role_that_changes_no_tables())
    }

    /// Makes the tables, and gives the servers a role that may only change rows.
    fn with_a_role_that_changes_no_tables(self) -> Self {
        let output = Server::prepare(self.setup()).command().arg("migrate").output().expect("the command runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("owner     version "), "{output:?}");
        self.postgres.sql(
            name_of(&self.url),
            "CREATE ROLE service LOGIN; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO service",
        );
        Self { url: self.url.replace("postgres@", "service@"), ..self }
    }

    /// Starts a server of the same installation, which waits for the end of the first one.
    pub(crate) async fn beside(&self, first: &Server) -> Server {
        self.beside_with(first, self.setup()).await
    }

    /// Like [`Self::beside`], with other settings.
    pub(crate) async fn beside_with(&self, first: &Server, setup: Setup) -> Server {
        let mut second = Server::prepare(setup);
        second.join_installation(first);
        second.launch();
        eventually("the second server runs", || async { second.probe("/readyz").await == Some(200) }).await;
        second
    }

    pub(crate) fn setup(&self) -> Setup {
        Setup::default().with("database.url", &self.url).with_bucket(&self.bucket)
    }
}

/// Calls of the service of blobs with a token.
pub(crate) type Blobs = BlobServiceClient<InterceptedService<Channel, Authorize>>;

/// Begins an upload of these bytes. Returns the name of the upload, and where to send the bytes.
pub(crate) async fn begin_upload(server: &Server, token: String, bytes: &Bytes) -> (Blobs, String) {
    let mut blobs = BlobServiceClient::with_interceptor(channel(server).await, Authorize(token));
    let digest = cloakwork_client::Digest::of(bytes);
    let digest = Some(Digest { blake3: Bytes::copy_from_slice(&digest.blake3), size_bytes: digest.size_bytes });
    let request_id = "7b0c9a52-0a4f-4e3b-9f5e-3a8d5b1c2d4e".to_owned();
    let begun = blobs.begin_upload(BeginUploadRequest { request_id, digest }).await.expect("begun").into_inner();
    (blobs, begun.upload.expect("an upload").name)
}

/// Submits a job for each number. Returns the names and the requests of the jobs.
pub(crate) async fn submit(tenant: &Tenant, numbers: Range<u64>) -> Vec<(String, JobRequest)> {
    let mut jobs = Vec::new();
    for number in numbers {
        let request = tenant.squares(&[number % VALUES]);
        let job = tenant.client.submit(&request).await.expect("accepted");
        jobs.push((job.name, request));
    }
    jobs
}

/// Checks that the server has exactly these jobs, that each succeeds, and that its result is right.
pub(crate) async fn all_right(tenant: &Tenant, jobs: &[(String, JobRequest)]) {
    all_decrypt(tenant, jobs).await;
    let listed: Vec<String> = tenant.client.jobs(&[]).map(|job| job.expect("a job").name).collect().await;
    assert!(listed.iter().rev().eq(jobs.iter().map(|(name, _)| name)), "{listed:?}");
}

/// Checks that each job succeeds, and that its result is right.
pub(crate) async fn all_decrypt(tenant: &Tenant, jobs: &[(String, JobRequest)]) {
    for ((name, request), number) in jobs.iter().zip(0..) {
        let ended = tenant.client.wait(name).await.expect("the job ends");
        assert_eq!(ended.state(), JobState::Succeeded, "{ended:?}");
        let finished = tenant.client.finish(ended, Duration::ZERO, request).await.expect("a signed result");
        assert_eq!(tenant.values(&finished).await.expect("an output"), [number * number % VALUES], "{name}");
    }
}

/// The name of a database in its URL.
pub(crate) fn name_of(url: &str) -> &str {
    url.rsplit('/').next().expect("a name")
}
