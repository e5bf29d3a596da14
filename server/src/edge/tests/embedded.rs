//! Calls of the worker inside the server process.

use super::*;

/// Makes a call as the worker inside this process does.
async fn embedded(fixture: &Fixture, door: &Door) -> Result<Response<Body>, Status> {
    let request = Request::post(GET).body(Body::empty()).unwrap();
    let call = fixture.edge.clone().handle_embedded(door.clone(), request);
    tokio::time::timeout(Duration::from_secs(60), call).await.unwrap()
}

/// A body that panics when it is read.
struct Panics;

impl http_body::Body for Panics {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        panic!("on purpose");
    }
}

/// Returns the first frame of a response, or the error of its body.
async fn first_frame(response: Response<Body>) -> Option<Result<(), Status>> {
    let mut body = response.into_body();
    let frame = std::future::poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx));
    let frame = tokio::time::timeout(Duration::from_secs(60), frame).await.unwrap();
    frame.map(|frame| frame.map(drop))
}

#[tokio::test]
async fn a_panic_in_an_embedded_call_becomes_an_error() {
    let handler = Router::new().route(GET, post(async || -> &'static str { panic!("on purpose") }));
    let fixture = Fixture::new(handler, Limits::default()).await;
    assert_eq!(embedded(&fixture, &Door::default()).await.unwrap_err().code(), Code::Internal);
    let body = Router::new().route(GET, post(async || axum::body::Body::new(Panics)));
    let fixture = Fixture::new(body, Limits::default()).await;
    let answer = embedded(&fixture, &Door::default()).await.unwrap();
    assert_eq!(first_frame(answer).await.unwrap().unwrap_err().code(), Code::Internal);
}

#[tokio::test]
async fn closing_the_door_ends_embedded_calls_and_drops_their_resources() {
    let entered = Arc::new(Notify::new());
    let (sender, mut dropped) = mpsc::channel::<()>(1);
    let router = {
        let entered = entered.clone();
        Router::new().route(
            GET,
            post(async move || -> &'static str {
                let _running = sender;
                entered.notify_one();
                std::future::pending().await
            }),
        )
    };
    let (fixture, door) = (Arc::new(Fixture::new(router, Limits::default()).await), Door::default());
    let call = tokio::spawn({
        let (fixture, door) = (fixture.clone(), door.clone());
        async move { embedded(&fixture, &door).await.map(drop) }
    });
    entered.notified().await;
    tokio::time::timeout(Duration::from_secs(60), door.close()).await.unwrap();
    assert_eq!(call.await.unwrap().unwrap_err().code(), Code::Unavailable);
    assert_eq!(
        embedded(&fixture, &door).await.unwrap_err().code(),
        Code::Unavailable,
        "a closed door admits no further calls"
    );
    drop(fixture);
    assert_eq!(tokio::time::timeout(Duration::from_secs(60), dropped.recv()).await.unwrap(), None);
}

#[tokio::test]
async fn closing_the_door_ends_a_response_body_that_is_being_read() {
    let router = Router::new().route(GET, post(async || axum::body::Body::new(Endless { _drop: None })));
    let (fixture, door) = (Fixture::new(router, Limits::default()).await, Door::default());
    let reading = tokio::spawn(first_frame(embedded(&fixture, &door).await.unwrap()));
    tokio::time::timeout(Duration::from_secs(60), door.close()).await.unwrap();
    assert_eq!(reading.await.unwrap().unwrap().unwrap_err().code(), Code::Unavailable);
}
