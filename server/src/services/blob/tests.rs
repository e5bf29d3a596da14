use std::{
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

use bytes::Bytes;
use cloakwork_clock::Clock;
use cloakwork_keystore::{Digest, TenantId};
use cloakwork_proto::v1::blob_service_server::BlobServiceServer;
use futures_util::stream;
use prost::Message;
use tokio::{
    task::{spawn_blocking, yield_now},
    time::timeout,
};
use tonic::body::Body;
use tower::Service as _;

use super::*;
use crate::{
    auth::{Principal, Scopes},
    database::SCHEMAS,
    keys,
    metrics::Telemetry,
    services::Intake,
    tenant::Tenant,
};

const PADDING_BYTES: usize = 1 << 20;

/// A message of an upload, with a field that the server does not know.
#[derive(Clone, PartialEq, Message)]
struct Padded {
    #[prost(string, tag = "1")]
    upload: String,
    #[prost(uint64, tag = "2")]
    offset_bytes: u64,
    #[prost(bytes = "bytes", tag = "3")]
    data: Bytes,
    #[prost(bytes = "bytes", tag = "15")]
    padding: Bytes,
}

/// A message with one byte of data, behind its prefix.
fn padded(upload: &str, offset_bytes: u64) -> Vec<u8> {
    let padding = Bytes::from(vec![0; PADDING_BYTES]);
    let message = Padded { upload: upload.to_owned(), offset_bytes, data: Bytes::from_static(b"x"), padding };
    let bytes = message.encode_to_vec();
    let length = u32::try_from(bytes.len()).expect("a short message");
    [&[0][..], &length.to_be_bytes(), &bytes].concat()
}

/// Each byte of data keeps a mebibyte in memory, so the window of 8 MiB has room for eight bytes.
#[test]
fn messages_count_in_the_window_with_all_their_bytes() {
    const FEW_MESSAGES: usize = 10;
    let directory = tempfile::tempdir().expect("a directory");
    // The runtime's only blocking thread is busy. The thread of the upload therefore does not
    // begin, and all pieces stay in the window.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.expect("a runtime").block_on(async {
        let database = cloakwork_tests_database::open(&directory.path().join("server.db"), &SCHEMAS, 1).await;
        let keystore = keys::tests::keystore(directory.path(), Clock::system(), &database).await;
        let (tenant, digest) = (TenantId::new("acme").expect("a name"), Digest { blake3: [7; 32], size_bytes: 1000 });
        let upload = keystore.begin_upload(&tenant, &[1; 16], &digest).await.expect("opened");
        let (go_on, busy) = std::sync::mpsc::channel::<()>();
        spawn_blocking(move || busy.recv());

        let read = Arc::new(AtomicUsize::new(0));
        let (name, counted) = (format!("tenants/{tenant}/uploads/{}", upload.id), read.clone());
        let messages = (0..100).map(move |offset_bytes| {
            counted.fetch_add(1, SeqCst);
            Ok::<_, Infallible>(padded(&name, offset_bytes))
        });
        let body = Body::new(axum::body::Body::from_stream(stream::iter(messages)));
        let mut request = http::Request::post("/cloakwork.v1.BlobService/Write").body(body).expect("a request");
        let principal = Principal::without_token(Tenant::new("acme").expect("a name"), Scopes::ALL);
        request.extensions_mut().insert(principal);
        let telemetry = Arc::new(Telemetry::new(10).expect("metrics"));
        let blobs = Blobs { keystore, limits: Arc::default(), transfers: Transfers::new(telemetry) };
        let call = tokio::spawn(Intake::new(BlobServiceServer::new(blobs), Arc::default()).call(request));

        let begun = async {
            while read.load(SeqCst) < 2 {
                yield_now().await;
            }
        };
        timeout(Duration::from_secs(60), begun).await.expect("the first message is handed on");
        // From here on, only a full window stops the call. Each turn of this thread lets the call
        // go on.
        for _ in 0..1000 {
            yield_now().await;
        }
        let read = read.load(SeqCst);
        assert!(read <= FEW_MESSAGES, "{read} messages of {PADDING_BYTES} bytes are in memory");
        assert!(!call.is_finished());
        call.abort();
        drop(go_on);
    });
}
