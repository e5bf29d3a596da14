//! An S3 server for tests, with one bucket. The server runs in the process of the test, on
//! loopback, and keeps the objects in a directory.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use s3s::{access::S3Access, auth::SimpleAuth, service::S3ServiceBuilder};

/// A bucket on a server of its own. The server ends with the runtime that started it.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Address of the server, as a URL.
    pub endpoint: String,
    /// Directory of the objects.
    pub directory: PathBuf,
}

impl Bucket {
    /// Name of the bucket.
    pub const NAME: &str = "bucket";

    /// Credentials that the server accepts.
    pub const ACCESS_KEY_ID: &str = "access-key";
    /// The secret of [`Self::ACCESS_KEY_ID`].
    pub const SECRET_ACCESS_KEY: &str = "secret-key";

    /// Starts a server whose buckets lie in `directory`.
    ///
    /// # Panics
    ///
    /// If the server cannot start.
    pub async fn start(directory: &Path) -> Self {
        Self::start_with(directory, |_| ()).await
    }

    /// Starts a server that asks `access` before each call.
    ///
    /// # Panics
    ///
    /// If the server cannot start.
    pub async fn start_behind(directory: &Path, access: impl S3Access) -> Self {
        Self::start_with(directory, |service| service.set_access(access)).await
    }

    async fn start_with(directory: &Path, set: impl FnOnce(&mut S3ServiceBuilder)) -> Self {
        let bucket = directory.join(Self::NAME);
        std::fs::create_dir_all(&bucket).expect("a directory");
        let mut service = S3ServiceBuilder::new(s3s_fs::FileSystem::new(directory).expect("a directory"));
        service.set_auth(SimpleAuth::from_single(Self::ACCESS_KEY_ID, Self::SECRET_ACCESS_KEY));
        set(&mut service);
        let service = service.build();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let service = service.clone();
                tokio::spawn(async move {
                    // A caller may break its connection.
                    let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        Self { endpoint, directory: bucket }
    }
}
