//! Uploads over connections that break at any byte.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod common;

use std::sync::{Arc, Mutex};

use cloakwork_client::{
    Client, ClientError, Code, Digest, Progress, Source,
    proto::{
        self,
        blob_service_server::{BlobService as _, BlobServiceServer},
    },
};
use common::{POLICY, blobs::Blobs, pipe};
use futures_util::TryStreamExt as _;
use proptest::{prelude::*, test_runner::TestRunner};
use tonic::transport::Server;

fn connect(blobs: &Blobs, budgets: Vec<usize>) -> Client {
    pipe::client(Server::builder().add_service(BlobServiceServer::new(blobs.clone())), budgets, POLICY)
}

fn blob(len: usize) -> (Source, Digest, Vec<u8>) {
    let bytes: Vec<u8> = (0..len).map(|index| ((index * index) >> 3) as u8).collect();
    (Source::Bytes(bytes.clone().into()), Digest::of(&bytes), bytes)
}

#[test]
fn an_upload_completes_wherever_it_breaks() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let cases = (0_usize..200_000, prop::collection::vec(1_usize..60_000, 0..4), 1_usize..20_000);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(40));
    runner
        .run(&cases, |(len, budgets, granule)| {
            let (source, digest, bytes) = blob(len);
            let blobs = Blobs::with_granule(granule);
            runtime.block_on(async {
                let client = connect(&blobs, budgets.clone());
                client.upload("blob", &source, digest, &Progress::none()).await.expect("an upload")
            });
            prop_assert_eq!(blobs.bytes(digest).expect("it is there"), bytes);
            // A broken connection costs the bytes in flight that were not committed: pipe, window
            // and granule, and never the whole blob.
            let lost = budgets.len() as u64 * (granule as u64 + 160_000);
            prop_assert!(blobs.store().received <= len as u64 + lost, "{}", blobs.store().received);
            Ok(())
        })
        .unwrap();
}

#[tokio::test]
async fn another_process_goes_on_where_the_first_one_died() {
    let (source, digest, bytes) = blob(300_000);
    let blobs = Blobs::with_granule(1);
    let first = connect(&blobs, vec![150_000; 100]);
    let upload = tokio::spawn({
        let source = source.clone();
        async move { first.upload("blob", &source, digest, &Progress::none()).await }
    });
    // Stops in the middle, like a killed process.
    while blobs.store().received < 50_000 {
        tokio::task::yield_now().await;
    }
    upload.abort();
    let _ = upload.await;
    let before = blobs.store().received;
    connect(&blobs, vec![]).upload("blob", &source, digest, &Progress::none()).await.expect("an upload");
    assert_eq!(blobs.bytes(digest).expect("it is there"), bytes);
    let again = blobs.store().received - before;
    assert!(before >= 50_000 && again < 300_000, "{before} bytes, then {again}");
}

#[tokio::test]
async fn an_upload_that_the_server_forgot_begins_anew() {
    let (source, digest, bytes) = blob(100_000);
    let blobs = Blobs::with_granule(1);
    blobs.store().forget = 1;
    connect(&blobs, vec![60_000]).upload("blob", &source, digest, &Progress::none()).await.expect("an upload");
    assert_eq!(blobs.bytes(digest).expect("it is there"), bytes);
    let store = blobs.store();
    assert_eq!((store.begins, store.forget), (2, 0));
}

#[tokio::test]
async fn stored_blobs_are_not_sent_again() {
    let (source, digest, _) = blob(50_000);
    let blobs = Blobs::default();
    let client = connect(&blobs, vec![]);
    client.upload("blob", &source, digest, &Progress::none()).await.expect("an upload");
    let received = blobs.store().received;
    client.upload("blob", &source, digest, &Progress::none()).await.expect("nothing to do");
    let received_now = blobs.store().received;
    let writes = blobs.store().writes;
    assert_eq!((received_now, writes), (received, 1));
    assert_eq!(client.find_missing(&[digest, Digest::of(b"other")]).await.expect("one"), [Digest::of(b"other")]);
}

#[tokio::test]
async fn progress_reaches_the_end_and_files_are_read_in_pieces() {
    let (_, digest, bytes) = blob(70_000);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &bytes).unwrap();
    let source = Source::File(file.path().into());
    assert_eq!(source.digest().await.expect("a digest"), digest);
    let steps = Arc::new(Mutex::new(Vec::new()));
    let told = steps.clone();
    let progress = Progress::new(move |step| told.lock().unwrap().push((step.done, step.total)));
    let blobs = Blobs::default();
    connect(&blobs, vec![]).upload("blob", &source, digest, &progress).await.expect("an upload");
    let steps = steps.lock().unwrap();
    assert_eq!(steps.first(), Some(&(0, 70_000)));
    assert_eq!(steps.last(), Some(&(70_000, 70_000)));
    assert!(steps.len() > 10 && steps.is_sorted(), "{steps:?}");
}

#[tokio::test]
async fn a_truncated_file_is_reported() {
    let (_, digest, bytes) = blob(70_000);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &bytes[..60_000]).unwrap();
    let blobs = Blobs::default();
    let source = Source::File(file.path().into());
    let error = connect(&blobs, vec![]).upload("blob", &source, digest, &Progress::none()).await.unwrap_err();
    assert!(matches!(&error, ClientError::Io { path, .. } if path == &file.path().display().to_string()), "{error:?}");
    assert!(blobs.bytes(digest).is_none());
}

#[tokio::test]
async fn an_upload_without_progress_is_abandoned() {
    let (source, digest, _) = blob(100_000);
    let blobs = Blobs::with_granule(usize::MAX);
    let client = connect(&blobs, vec![5_000; 1000]);
    let error = client.upload("blob", &source, digest, &Progress::none()).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert!(!matches!(error.refusal(), Some(refusal) if refusal.code == Code::NotFound), "{error}");
}

#[tokio::test]
async fn open_uploads_are_listed_over_all_pages_and_end_with_an_abort() {
    let blobs = Blobs::with_granule(1);
    let client = connect(&blobs, Vec::new());
    let (source, stored, _) = blob(5000);
    client.upload("blob", &source, stored, &Progress::none()).await.expect("an upload");
    let mut begun = Vec::new();
    for len in [100, 200, 300] {
        let (_, digest, _) = blob(len);
        let digest = proto::Digest { blake3: digest.blake3.to_vec().into(), size_bytes: digest.size_bytes };
        let request = proto::BeginUploadRequest { request_id: String::new(), digest: Some(digest) };
        let upload = blobs.begin_upload(tonic::Request::new(request)).await.unwrap().into_inner().upload.unwrap();
        begun.push(upload.name);
    }
    begun.sort();
    let open = async || {
        let uploads: Vec<proto::Upload> = client.uploads().try_collect().await.expect("uploads");
        uploads.into_iter().map(|upload| upload.name).collect::<Vec<_>>()
    };
    assert_eq!(open().await, begun, "what is stored is not among them");
    for _ in 0..2 {
        client.abort_upload(&begun[1]).await.expect("the second time as well");
    }
    assert_eq!(open().await, [begun[0].clone(), begun[2].clone()]);
}
