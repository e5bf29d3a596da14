use std::{collections::BTreeSet, pin::Pin, sync::Mutex};

use cloakwork_proto::v1;
use futures_util::{FutureExt as _, stream};
use http_body::Body as _;
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Code;
use tonic_types::StatusExt as _;

use super::*;

const GET: &str = "/cloakwork.v1.JobService/GetJob";
const SUBMIT: &str = "/cloakwork.v1.JobService/SubmitJob";

/// A service that records the bodies of its requests.
#[derive(Clone, Default)]
struct Recorder {
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
    /// Whether a request came with a counter of its bytes.
    metered: Arc<Mutex<bool>>,
}

impl Service<Request<Body>> for Recorder {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let recorder = self.clone();
        *recorder.metered.lock().expect("no panic") = request.extensions().get::<Arrived>().is_some();
        Box::pin(async move {
            let (mut body, mut bytes) = (request.into_body(), Vec::new());
            while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                bytes.extend_from_slice(&frame.expect("a piece").into_data().expect("data"));
            }
            recorder.bodies.lock().expect("no panic").push(bytes);
            Ok(Status::ok("").into_http())
        })
    }
}

impl Recorder {
    fn bodies(&self) -> Vec<Vec<u8>> {
        self.bodies.lock().expect("no panic").clone()
    }

    fn call(&self, path: &str, body: Body) -> BoxFuture<'static, Result<Response<Body>, Infallible>> {
        let request = Request::post(path).body(body).expect("a request");
        Intake::new(self.clone(), Arc::default()).call(request)
    }
}

/// A body of these pieces.
fn pieces(pieces: Vec<Result<Vec<u8>, Status>>) -> Body {
    Body::new(axum::body::Body::from_stream(stream::iter(pieces)))
}

/// A message behind its prefix.
fn prefixed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("a short message");
    [&[0][..], &length.to_be_bytes(), message].concat()
}

fn status(response: &Response<Body>) -> Status {
    Status::from_header_map(response.headers()).expect("a status")
}

#[tokio::test]
async fn a_request_of_one_message_is_decoded_only_when_it_is_complete() {
    let recorder = Recorder::default();
    let (send, received) = mpsc::unbounded_channel::<Result<Vec<u8>, Status>>();
    let body = Body::new(axum::body::Body::from_stream(UnboundedReceiverStream::new(received)));
    let mut call = recorder.call(GET, body);
    send.send(Ok(prefixed(b"name"))).expect("the call reads");
    assert!((&mut call).now_or_never().is_none(), "the request may go on");
    assert!(recorder.bodies().is_empty(), "the decoder would keep a decoded message until the end");
    drop(send);
    let response = call.now_or_never().expect("the request is complete").expect("an answer");
    assert_eq!(status(&response).code(), Code::Ok);
    assert_eq!(recorder.bodies(), [prefixed(b"name")]);
}

#[tokio::test]
async fn a_message_arrives_whole_and_without_the_bytes_behind_it() {
    let bytes = prefixed(b"a message");
    let splits: [&[usize]; 4] = [&[], &[1], &[5], &[2, 3, 8]];
    for splits in splits {
        let mut rest = [&bytes[..], b"more"].concat();
        let mut parts = Vec::new();
        for split in splits {
            let later = rest.split_off(*split);
            parts.push(Ok(std::mem::replace(&mut rest, later)));
        }
        parts.push(Ok(rest));
        let recorder = Recorder::default();
        recorder.call(GET, pieces(parts)).await.expect("an answer");
        assert_eq!(recorder.bodies(), std::slice::from_ref(&bytes), "{splits:?}");
    }
    // A body that tells its end with its only piece.
    let recorder = Recorder::default();
    let body = axum::body::Body::from([&bytes[..], b"more"].concat());
    recorder.call(GET, Body::new(body)).await.expect("an answer");
    assert_eq!(recorder.bodies(), [bytes]);
}

#[tokio::test]
async fn the_decoder_gets_incomplete_and_long_messages_as_they_are() {
    let long = [&[0][..], &u32::MAX.to_be_bytes(), b"begin"].concat();
    for bytes in [Vec::new(), prefixed(b"cut")[..6].to_vec(), vec![0, 0], long.clone()] {
        let recorder = Recorder::default();
        recorder.call(SUBMIT, pieces(vec![Ok(bytes.clone())])).await.expect("an answer");
        assert_eq!(recorder.bodies(), [bytes]);
    }
    // The refusal of a long message does not wait for the message.
    let (send, received) = mpsc::unbounded_channel::<Result<Vec<u8>, Status>>();
    send.send(Ok(long)).expect("the call reads");
    let body = Body::new(axum::body::Body::from_stream(UnboundedReceiverStream::new(received)));
    Recorder::default().call(SUBMIT, body).now_or_never().expect("an answer at once").expect("an answer");
}

#[tokio::test]
async fn a_request_that_breaks_off_ends_with_its_own_error() {
    let recorder = Recorder::default();
    let broken = pieces(vec![Ok(prefixed(b"name")), Err(Status::deadline_exceeded("nothing arrived"))]);
    let response = recorder.call(GET, broken).await.expect("an answer");
    assert_eq!(status(&response).code(), Code::DeadlineExceeded);
    assert!(recorder.bodies().is_empty());
}

/// Two bytes for each input, and more than thirty in memory.
#[tokio::test]
async fn too_many_inputs_are_refused_before_they_are_decoded() {
    let recorder = Recorder::default();
    let submit = |count: usize| {
        let spec = v1::JobSpec { inputs: vec![v1::JobInput::default(); count], ..Default::default() };
        let request = v1::SubmitJobRequest { request_id: "id".to_owned(), spec: Some(spec) };
        recorder.call(SUBMIT, pieces(vec![Ok(prefixed(&request.encode_to_vec()))]))
    };
    let refused = status(&submit(1025).await.expect("an answer"));
    assert_eq!(refused.get_details_error_info().expect("a reason").reason, "REQUEST_TOO_LARGE");
    assert!(recorder.bodies().is_empty());
    assert_eq!(status(&submit(1024).await.expect("an answer")).code(), Code::Ok);
    assert_eq!(recorder.bodies().len(), 1);
}

#[tokio::test]
async fn streams_pass_piece_by_piece_and_are_counted() {
    for path in STREAMS {
        let recorder = Recorder::default();
        let (send, received) = mpsc::unbounded_channel::<Result<Vec<u8>, Status>>();
        let body = Body::new(axum::body::Body::from_stream(UnboundedReceiverStream::new(received)));
        let mut call = recorder.call(path, body);
        assert!((&mut call).now_or_never().is_none());
        assert!(*recorder.metered.lock().expect("no panic"), "{path} begins before its first message");
        drop(send);
        call.now_or_never().expect("the stream has ended").expect("an answer");
    }
    let arrived = Arrived::default();
    let mut reader = arrived.clone();
    let mut body = Metered::new(pieces([3, 5, 7].map(|bytes| Ok(vec![0; bytes])).into()), arrived);
    let mut next = async || std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await.is_some();
    assert!(next().await);
    assert_eq!((reader.since_last(), reader.since_last()), (3, 0));
    assert!(next().await && next().await);
    assert_eq!(reader.since_last(), 12);
    assert!(!next().await);
    assert_eq!(reader.since_last(), 0);
}

#[test]
fn the_list_of_streams_is_that_of_the_protocol() {
    let protocol = FileDescriptorSet::decode(cloakwork_proto::DESCRIPTORS).expect("descriptors");
    let mut expected = BTreeSet::new();
    for file in &protocol.file {
        for service in &file.service {
            for method in service.method.iter().filter(|method| method.client_streaming()) {
                expected.insert(format!("/{}.{}/{}", file.package(), service.name(), method.name()));
            }
        }
    }
    assert_eq!(STREAMS.map(str::to_owned).into_iter().collect::<BTreeSet<_>>(), expected);
}
