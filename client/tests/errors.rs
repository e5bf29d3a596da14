//! Errors of the server and of the connection, as the client reports them.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::time::Duration;

use cloakwork_client::{Client, ClientError, Code, ConnectOptions, Identity, RetryPolicy, Token};
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt as _};

#[test]
fn error_details_are_decoded() {
    let mut details = ErrorDetails::new();
    details
        .set_error_info("QUOTA_EXCEEDED", "cloakwork", [("limit".to_owned(), "100".to_owned())])
        .set_retry_info(Some(Duration::from_millis(1500)))
        .add_bad_request_violation("spec.inputs", "has 3, expected 2");
    let status = Status::with_error_details(Code::ResourceExhausted, "too many jobs", details);
    let error = ClientError::from(status);
    let refusal = error.refusal().expect("a refusal");
    assert_eq!((refusal.code, refusal.reason.as_str()), (Code::ResourceExhausted, "QUOTA_EXCEEDED"));
    assert_eq!(refusal.retry_after, Some(Duration::from_millis(1500)));
    assert_eq!(refusal.metadata["limit"], "100");
    let text = "QUOTA_EXCEEDED: too many jobs; spec.inputs: has 3, expected 2 (try again in 1.5 s)";
    assert_eq!(error.to_string(), text);
    assert!(error.is_retryable());
}

#[test]
fn missing_or_damaged_details_leave_code_and_message() {
    let error = ClientError::from(Status::not_found("no such key"));
    assert_eq!(error.to_string(), "NotFound: no such key");
    let damaged = Status::with_details(Code::Internal, "oops", vec![0xff; 40].into());
    let error = ClientError::from(damaged);
    assert_eq!(error.refusal().map(|refusal| refusal.code), Some(Code::Internal));
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn a_refused_connection_is_a_transport_error() {
    // A port that was free a moment ago, so no process listens on it.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let options =
        ConnectOptions { retry: RetryPolicy::NEVER, ..ConnectOptions::new(format!("http://127.0.0.1:{port}")) };
    let error = Client::connect(&options).await.unwrap_err();
    assert!(matches!(&error, ClientError::Transport { problem } if problem.contains("refused")), "{error:?}");
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_a_timeout() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let options = ConnectOptions {
        retry: RetryPolicy::NEVER,
        call_timeout: Duration::from_millis(50),
        ..ConnectOptions::new(format!("http://{}", silent.local_addr().unwrap()))
    };
    assert_eq!(Client::connect(&options).await.unwrap_err(), ClientError::Timeout);
}

#[tokio::test]
async fn addresses_are_checked_before_they_are_used() {
    let refused = |options: &ConnectOptions| match Client::lazy(options).unwrap_err() {
        ClientError::Endpoint { problem, .. } => problem,
        other => panic!("{other:?}"),
    };
    assert!(refused(&ConnectOptions::new("127.0.0.1:7270")).contains("expected http://"));
    assert!(refused(&ConnectOptions::new("ftp://host")).contains("expected http://"));
    let with_ca = ConnectOptions { ca_pem: Some(b"x".to_vec()), ..ConnectOptions::new("http://host:1") };
    assert!(refused(&with_ca).contains("https"));
    let identity = Some(Identity::from_pem("x", "y"));
    let with_identity = ConnectOptions { identity: identity.clone(), ..ConnectOptions::new("http://127.0.0.1:1") };
    assert!(refused(&with_identity).contains("https"));
    let not_pem = ConnectOptions { identity, ..ConnectOptions::new("https://127.0.0.1:1") };
    assert!(Client::lazy(&not_pem).is_err());
    assert_eq!(format!("{:?}", Identity::from_pem("x", "y")), "Identity(..)");
    assert!(Token::new("line\nbreak").is_err());
    assert_eq!(format!("{:?}", Token::new("secret").expect("a token")), "Token(..)");
}

#[tokio::test]
async fn a_token_does_not_leave_the_machine_in_the_clear() {
    let with_token = |url: &str| ConnectOptions::new(url).token(Token::new("cw_secret").unwrap());
    for beyond in ["http://example.org:7270", "http://192.0.2.1:7270", "http://[2001:db8::1]:7270", "http://0.0.0.0:1"]
    {
        let error = Client::connect(&with_token(beyond)).await.unwrap_err();
        assert!(matches!(error, ClientError::Endpoint { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("use https://") && text.contains(beyond) && !text.contains("secret"), "{text}");
        assert!(Client::lazy(&ConnectOptions::new(beyond)).is_ok(), "without a token nothing can be stolen");
    }
    // A host name that only starts like a loopback name is on another machine.
    for beyond in ["http://127.0.0.1.example.org:1", "http://localhost.example.org:1", "http://me@example.org:1"] {
        assert!(Client::lazy(&with_token(beyond)).is_err(), "{beyond}");
    }
    for within in
        ["http://127.0.0.1:1", "http://127.8.9.1:1", "http://LocalHost:1", "http://[::1]:1", "https://example.org"]
    {
        assert!(Client::lazy(&with_token(within)).is_ok(), "{within}");
    }
}

#[test]
fn a_set_of_the_other_scheme_has_its_own_error() {
    let [tfhe, ckks] = ["TOY_MESSAGE_2_CARRY_2", "CKKS_45_60_50_H4096"];
    let text = |error: Option<ClientError>| error.expect("a refusal").to_string();
    assert!(text(cloakwork_client::set_by_name(ckks).err()).contains("`cloakwork ckks keygen`"));
    assert!(text(cloakwork_client::ckks_set_by_name(tfhe).err()).contains("`cloakwork keygen`"));
    for refused in [cloakwork_client::set_by_name("X").err(), cloakwork_client::ckks_set_by_name("X").err()] {
        assert!(matches!(refused, Some(ClientError::UnknownSet { .. })), "{refused:?}");
    }
}
