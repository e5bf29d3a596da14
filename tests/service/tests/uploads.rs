//! Uploads of keys in chunks, resumed after the server is killed, and limits on uploads.

use std::time::Duration;

use bytes::Bytes;
use cloakwork_client::{Digest, Keys, Progress, Source, set_by_name};
use cloakwork_proto::v1::{
    self, AbortUploadRequest, BeginUploadRequest, GetUploadRequest, ListUploadsRequest, WriteRequest,
    blob_service_client::BlobServiceClient,
};
use cloakwork_tests_service::{Server, Setup, Shell, eventually};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, transport::Channel};
use tonic_types::StatusExt as _;

const CHUNK_BYTES: usize = 1 << 20;

/// The larger part of a production key: 30 MB.
async fn part() -> Bytes {
    let set = set_by_name("V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128").expect("a set");
    let keys = Keys::generate(set, Progress::none()).await.expect("keys");
    let parts = keys.parts().iter().map(|part| match &part.source {
        Source::Bytes(bytes) => bytes.clone(),
        Source::File(path) => panic!("{} is not in memory", path.display()),
    });
    parts.max_by_key(Bytes::len).expect("two parts")
}

async fn blobs(server: &Server) -> BlobServiceClient<Channel> {
    let channel = Channel::from_shared(server.url()).expect("a URL").connect().await.expect("the server answers");
    BlobServiceClient::new(channel)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_resumes_after_the_server_is_killed() {
    let mut server = Server::start(Setup::default().without_worker()).await;
    let part = part().await;
    let digest = Digest::of(&part);
    let digest = v1::Digest { blake3: Bytes::copy_from_slice(&digest.blake3), size_bytes: digest.size_bytes };
    let begin = |id: &str| BeginUploadRequest { request_id: id.into(), digest: Some(digest.clone()) };
    let mut client = blobs(&server).await;
    let upload = client
        .begin_upload(begin("0d6f2a6e-51f1-4b52-8d93-6f3e8a4d7c10"))
        .await
        .expect("an upload")
        .into_inner()
        .upload
        .expect("an upload");

    // The client sends two thirds of the bytes, and then the server is killed.
    let (messages, stream) = mpsc::channel(4);
    let name = upload.name.clone();
    let sent = part.len() * 2 / 3 / CHUNK_BYTES * CHUNK_BYTES;
    let writing = tokio::spawn(async move { client.write(ReceiverStream::new(stream)).await.map(drop) });
    for offset in (0..sent).step_by(CHUNK_BYTES) {
        let data = part.slice(offset..offset + CHUNK_BYTES);
        let message = WriteRequest { upload: name.clone(), offset_bytes: offset as u64, data, finish: false };
        messages.send(message).await.expect("the stream is open");
    }
    let mut client = blobs(&server).await;
    // At most a chunk and a window must be sent again.
    let behind = CHUNK_BYTES + (8 << 20);
    eventually("the sent bytes have arrived", || {
        let mut client = client.clone();
        let name = name.clone();
        async move { committed(&mut client, &name).await + behind as u64 >= sent as u64 }
    })
    .await;
    server.kill();
    assert!(writing.await.expect("the task ends").is_err(), "the connection broke");
    drop(messages);
    server.restart().await;

    client = blobs(&server).await;
    let upload = client
        .begin_upload(begin("0d6f2a6e-51f1-4b52-8d93-6f3e8a4d7c11"))
        .await
        .expect("the same upload")
        .into_inner()
        .upload
        .expect("an upload");
    let committed = upload.committed_bytes as usize;
    assert!(sent - committed <= behind, "at most a chunk and a window are sent again: {committed} of {sent}");
    assert!(committed > 0);
    let mut rest = Vec::new();
    for offset in (committed..part.len()).step_by(CHUNK_BYTES) {
        let end = part.len().min(offset + CHUNK_BYTES);
        let data = part.slice(offset..end);
        let finish = end == part.len();
        rest.push(WriteRequest { upload: upload.name.clone(), offset_bytes: offset as u64, data, finish });
    }
    let written = client.write(tokio_stream::iter(rest)).await.expect("the rest is taken").into_inner();
    assert!(written.upload.expect("an upload").complete);
    let again =
        client.begin_upload(begin("0d6f2a6e-51f1-4b52-8d93-6f3e8a4d7c12")).await.expect("an answer").into_inner();
    assert!(again.upload.expect("an upload").complete, "nothing is sent twice");
}

async fn committed(client: &mut BlobServiceClient<Channel>, name: &str) -> u64 {
    let answer = client.get_upload(GetUploadRequest { name: name.into() }).await;
    answer.ok().and_then(|answer| answer.into_inner().upload).map_or(0, |upload| upload.committed_bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_upload_survives_a_broken_connection() {
    let mut server = Server::start(Setup::default().without_worker()).await;
    let set = set_by_name("V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128").expect("a set");
    let keys = Keys::generate(set, Progress::none()).await.expect("keys");
    let client = server.client().await;
    let pushing = tokio::spawn(async move { client.push_key(&keys, &Progress::none()).await });
    eventually("the first bytes are there", || async { server.metric("cloakwork_upload_bytes_total").await > 0.0 })
        .await;
    server.kill();
    assert!(!pushing.is_finished(), "the key was there before the server was killed");
    server.restart().await;
    let key = pushing.await.expect("the task ends").expect("the client goes on by itself");
    assert_eq!(key.parameter_sets, [set.name]);
    assert!(server.metric("cloakwork_upload_bytes_total").await > 0.0, "the rest came after the kill");
}

/// Begins an upload and sends its first bytes. The stream stays open.
async fn hold(client: &mut BlobServiceClient<Channel>, part: &Bytes, id: u32) -> (String, mpsc::Sender<WriteRequest>) {
    let digest = Digest::of(part);
    let digest = v1::Digest { blake3: Bytes::copy_from_slice(&digest.blake3), size_bytes: digest.size_bytes };
    let begin = BeginUploadRequest { request_id: format!("0d6f2a6e-51f1-4b52-8d93-{id:012x}"), digest: Some(digest) };
    let upload = client.begin_upload(begin).await.expect("an upload").into_inner().upload.expect("an upload");
    let (messages, stream) = mpsc::channel(4);
    let data = part.slice(..200);
    let first = WriteRequest { upload: upload.name.clone(), offset_bytes: 0, data, finish: false };
    messages.send(first).await.expect("the stream is open");
    let mut writer = client.clone();
    tokio::spawn(async move { writer.write(ReceiverStream::new(stream)).await.map(drop) });
    (upload.name, messages)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_at_its_limit_of_concurrent_writes_gets_a_retry_delay() {
    let setup = Setup::default().without_worker();
    let server = Server::start(setup.with("limits.tenant_receiving", 1)).await;
    let mut client = blobs(&server).await;
    let keys = Keys::generate(set_by_name(cloakwork_tests_service::TOY).expect("a set"), Progress::none()).await;
    let keys = keys.expect("keys");
    let lists = [1, 2].map(|value| keys.encrypt(&[value; 20], 15).expect("values").envelope);
    let (_, held) = hold(&mut client, &lists[0], 1).await;
    eventually("the first one receives", || async { server.metric("cloakwork_uploads_active").await == 1.0 }).await;
    let digest = Digest::of(&lists[1]);
    let digest = v1::Digest { blake3: Bytes::copy_from_slice(&digest.blake3), size_bytes: digest.size_bytes };
    let request_id = "0d6f2a6e-51f1-4b52-8d93-000000000002".to_owned();
    let begin = BeginUploadRequest { request_id, digest: Some(digest) };
    let upload = client.begin_upload(begin).await.expect("an upload").into_inner().upload.expect("an upload");
    let whole = || WriteRequest { upload: upload.name.clone(), offset_bytes: 0, data: lists[1].clone(), finish: true };
    eventually("the seat is taken", || async {
        match client.clone().write(tokio_stream::iter([whole()])).await {
            Err(refused) if refused.code() == tonic::Code::ResourceExhausted => {
                let wait = tonic_types::StatusExt::get_details_retry_info(&refused);
                assert!(wait.is_some_and(|wait| wait.retry_delay.is_some()), "{refused:?}");
                true
            }
            other => panic!("there is one seat, and it is taken: {other:?}"),
        }
    })
    .await;
    drop(held);
    eventually("the seat is free", || async { client.clone().write(tokio_stream::iter([whole()])).await.is_ok() })
        .await;
}

/// The default of `tenant_uploads`.
const TENANT_UPLOADS_MAX: u32 = 32;

fn reason(status: &Status) -> (Code, String) {
    (status.code(), status.get_details_error_info().map(|info| info.reason).unwrap_or_default())
}

fn begin(number: u32) -> BeginUploadRequest {
    let digest = v1::Digest { blake3: vec![number as u8; 32].into(), size_bytes: 1000 };
    BeginUploadRequest { request_id: format!("0d6f2a6e-51f1-4b52-8d94-{number:012x}"), digest: Some(digest) }
}

/// Names of all open uploads, read in pages of ten.
async fn listed(client: &mut BlobServiceClient<Channel>) -> Vec<String> {
    let (mut names, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = ListUploadsRequest { page_size: 10, page_token };
        let page = client.list_uploads(request).await.expect("a page").into_inner();
        assert!(page.uploads.len() <= 10);
        names.extend(page.uploads.into_iter().map(|upload| upload.name));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return names;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_at_its_upload_limit_can_list_and_abort_uploads_and_begin_new_ones() {
    let mut server = Server::start(Setup::default().without_worker()).await;
    let mut client = blobs(&server).await;
    let mut begun = Vec::new();
    for number in 0..TENANT_UPLOADS_MAX {
        let answer = client.begin_upload(begin(number)).await.expect("a place").into_inner();
        begun.push(answer.upload.expect("an upload").name);
    }
    begun.sort();
    let refused = client.begin_upload(begin(TENANT_UPLOADS_MAX)).await.expect_err("no place is left");
    assert_eq!(reason(&refused), (Code::ResourceExhausted, "QUOTA_EXCEEDED".into()));
    for call in ["ListUploads", "AbortUpload"] {
        assert!(refused.message().contains(call), "{}", refused.message());
    }
    assert_eq!(listed(&mut client).await, begun);

    // The uploads survive a kill of the server.
    server.kill();
    server.restart().await;
    client = blobs(&server).await;
    assert_eq!(listed(&mut client).await, begun);
    for _ in 0..2 {
        client.abort_upload(AbortUploadRequest { name: begun[0].clone() }).await.expect("the second time as well");
    }
    let gone = client.get_upload(GetUploadRequest { name: begun[0].clone() }).await.expect_err("it is gone");
    assert_eq!(reason(&gone), (Code::NotFound, "UPLOAD_NOT_FOUND".into()));
    client.begin_upload(begin(TENANT_UPLOADS_MAX)).await.expect("a place at once");
    client.begin_upload(begin(TENANT_UPLOADS_MAX + 1)).await.expect_err("one abort frees one place");

    // Another tenant cannot abort the uploads, neither by their names nor by its own names with
    // their identifiers.
    let token = server.token("other", "jobs,keys");
    for (name, expected) in [
        (begun[1].clone(), Err((Code::NotFound, "WRONG_TENANT".to_owned()))),
        (begun[1].replace("tenants/local/", "tenants/other/"), Ok(())),
    ] {
        let mut request = tonic::Request::new(AbortUploadRequest { name });
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().expect("a header"));
        assert_eq!(client.abort_upload(request).await.map(drop).map_err(|status| reason(&status)), expected);
    }
    assert!(listed(&mut client).await.contains(&begun[1]));

    // The command line lists and aborts uploads as well.
    let home = tempfile::tempdir().expect("a directory");
    let shell = Shell::new(&server, home.path());
    let document = shell.document(&["uploads", "ls"]);
    assert_eq!(document["uploads"].as_array().expect("a list").len(), TENANT_UPLOADS_MAX as usize);
    let id = begun[1].rsplit('/').next().expect("a name");
    let table = shell.text(&["uploads", "ls"]);
    assert!(table.contains(id) && table.contains("expires") && table.contains("in 2"), "{table}");
    assert_eq!(shell.document(&["uploads", "abort", id])["aborted"][0], begun[1]);
    assert_eq!(listed(&mut client).await.len(), TENANT_UPLOADS_MAX as usize - 1);
    let aborted = shell.document(&["uploads", "abort", "--all"]);
    assert_eq!(aborted["aborted"].as_array().expect("a list").len(), TENANT_UPLOADS_MAX as usize - 1);
    assert_eq!(listed(&mut client).await, [] as [String; 0]);
    for number in 0..TENANT_UPLOADS_MAX {
        client.begin_upload(begin(number)).await.expect("all places are free");
    }
}

/// The writer's client has sent all bytes that it has so far. The write ends although the client
/// sends no more.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_ends_when_its_upload_is_aborted() {
    let server = Server::start(Setup::default().without_worker()).await;
    let mut client = blobs(&server).await;
    let keys = Keys::generate(set_by_name(cloakwork_tests_service::TOY).expect("a set"), Progress::none()).await;
    let list = keys.expect("keys").encrypt(&[1; 20], 15).expect("values").envelope;
    let digest = Digest::of(&list);
    let digest = v1::Digest { blake3: Bytes::copy_from_slice(&digest.blake3), size_bytes: digest.size_bytes };
    let request_id = "0d6f2a6e-51f1-4b52-8d95-000000000001".to_owned();
    let begin = BeginUploadRequest { request_id, digest: Some(digest) };
    let upload = client.begin_upload(begin.clone()).await.expect("an upload").into_inner().upload.expect("an upload");
    let (messages, stream) = mpsc::channel(4);
    let data = list.slice(..200);
    let first = WriteRequest { upload: upload.name.clone(), offset_bytes: 0, data, finish: false };
    messages.send(first).await.expect("the stream is open");
    let mut writer = client.clone();
    let writing = tokio::spawn(async move { writer.write(ReceiverStream::new(stream)).await.map(drop) });
    eventually("the bytes have come", || {
        let (mut client, name) = (client.clone(), upload.name.clone());
        async move { committed(&mut client, &name).await == 200 }
    })
    .await;
    client.abort_upload(AbortUploadRequest { name: upload.name.clone() }).await.expect("aborted");
    let ended = tokio::time::timeout(Duration::from_secs(60), writing).await.expect("it ends").expect("no panic");
    assert_eq!(reason(&ended.expect_err("it was aborted")), (Code::NotFound, "UPLOAD_NOT_FOUND".into()));
    drop(messages);
    let staged = std::fs::read_dir(server.directory().join("data/staging/local")).expect("a directory");
    assert_eq!(staged.count(), 0, "nothing is left");
    // The upload can begin again, even with the old request id, and the blob is then stored.
    let again = client.begin_upload(begin).await.expect("an upload").into_inner().upload.expect("an upload");
    assert_eq!((&again.name, again.committed_bytes), (&upload.name, 0));
    let whole = WriteRequest { upload: again.name, offset_bytes: 0, data: list, finish: true };
    let written = client.write(tokio_stream::iter([whole])).await.expect("taken").into_inner();
    assert!(written.upload.expect("an upload").complete);
}
