//! Reads of large blobs from the store itself, past the server.

use std::time::Duration;

use bytes::Bytes;
use cloakwork_proto::is_loopback;
use reqwest::{StatusCode, Url, redirect};
use tokio::sync::mpsc;
use tonic::Status;

use crate::WorkerError;

/// A store of blobs that the worker reads from. The server names the blobs by URLs.
#[derive(Debug)]
pub(crate) struct Direct {
    store: Url,
    http: reqwest::Client,
}

/// Longest time to open a connection to the store. The server sends the bytes otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait for the next bytes.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

impl Direct {
    /// Reads from the store at this URL only. Otherwise a server could have the worker call any
    /// machine that the worker can reach.
    pub(crate) fn new(store: &str) -> Result<Self, WorkerError> {
        let refused = |problem: String| WorkerError::Option { option: "blob_store", problem };
        let store = Url::parse(store).map_err(|error| refused(format!("{store} is no URL: {error}")))?;
        match store.scheme() {
            "https" => {}
            // Anyone on the path could read the URLs, and the blobs with them.
            "http" if is_loopback(store.host_str().unwrap_or_default()) => {}
            _ => return Err(refused(format!("{store}: expected https://HOST:PORT, or http to this machine"))),
        }
        // An error means only that the process already has a provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .redirect(redirect::Policy::none())
            .build();
        let http = http.map_err(|error| refused(format!("no client for {store}: {error}")))?;
        Ok(Self { store, http })
    }

    /// Sends the bytes of a blob, and counts them in `offset`. Returns an error without the URL,
    /// which gives access to the blob.
    pub(crate) async fn fetch(
        &self,
        url: &str,
        size_bytes: u64,
        offset: &mut u64,
        sender: &mpsc::Sender<Result<Bytes, Status>>,
    ) -> Result<(), String> {
        let url = Url::parse(url).map_err(|error| format!("no URL: {error}"))?;
        if url.origin() != self.store.origin() {
            let host = url.host_str().unwrap_or_default();
            return Err(format!("the server names {host}, and --blob-store is {}", self.store));
        }
        let mut answer = self.http.get(url).send().await.map_err(without_url)?;
        if answer.status() != StatusCode::OK {
            return Err(format!("it answers {}", answer.status()));
        }
        while *offset < size_bytes {
            let piece = answer.chunk().await.map_err(without_url)?;
            let piece = piece.ok_or_else(|| format!("it has {offset} bytes of {size_bytes}"))?;
            *offset += piece.len() as u64;
            if sender.send(Ok(piece)).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn without_url(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        time::timeout,
    };

    use super::*;

    /// A store that gives one answer, and ends the connection.
    async fn store(answer: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.expect("a connection");
            let mut request = [0; 4096];
            let read = socket.read(&mut request).await.expect("a request");
            assert!(request[..read].starts_with(b"GET /blob?secret "));
            socket.write_all(answer.as_bytes()).await.expect("sent");
        });
        format!("http://{address}")
    }

    /// Reads a blob of three bytes, and returns the bytes that came and the outcome.
    async fn read(store: &str, url: &str) -> (Vec<u8>, Result<(), String>) {
        let (sender, mut pieces) = mpsc::channel(8);
        let direct = Direct::new(store).expect("a client");
        let mut offset = 0;
        let fetched = timeout(Duration::from_secs(20), direct.fetch(url, 3, &mut offset, &sender)).await;
        drop(sender);
        let mut bytes = Vec::new();
        while let Some(piece) = pieces.recv().await {
            bytes.extend_from_slice(&piece.expect("bytes"));
        }
        (bytes, fetched.expect("in time"))
    }

    #[tokio::test]
    async fn the_bytes_come_from_the_store() {
        let store = store("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc").await;
        assert_eq!(read(&store, &format!("{store}/blob?secret")).await, (b"abc".to_vec(), Ok(())));
    }

    #[tokio::test]
    async fn a_store_that_does_not_answer_well_is_an_error_without_the_url() {
        for (answer, problem) in [
            ("HTTP/1.1 403 Forbidden\r\ncontent-length: 3\r\n\r\nabc", "403"),
            ("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n", "302"),
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab", "2 bytes of 3"),
            ("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab", "body"),
            ("", "request"),
        ] {
            let store = store(answer).await;
            let error = read(&store, &format!("{store}/blob?secret")).await.1.expect_err(answer);
            assert!(error.contains(problem) && !error.contains("secret"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_url_of_another_machine_is_refused_without_a_call() {
        let store = "http://127.0.0.1:1";
        for url in ["http://127.0.0.1:2/blob?secret", "https://127.0.0.1:1/blob?secret", "http://metadata/", "blob", ""]
        {
            let error = read(store, url).await.1.expect_err(url);
            assert!(error.contains("names") || error.contains("no URL"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_store_that_is_no_url_is_refused() {
        for store in ["", "minio", "ftp://minio", "file:///tmp", "http://minio:9000"] {
            let error = Direct::new(store).expect_err(store).to_string();
            assert!(error.contains("blob_store"), "{error}");
        }
    }
}
