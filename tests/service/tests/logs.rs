//! No peer can fill the log, and no text in the log can imitate another line.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use cloakwork_tests_service::{Server, Setup};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Duration, timeout},
};

/// Number of frames, each of which makes `h2` log a warning.
const FRAMES: usize = 10_000;

/// A PING frame of HTTP/2.
fn ping(flags: u8, payload: [u8; 8]) -> Vec<u8> {
    [&[0, 0, 8, 6, flags, 0, 0, 0, 0][..], &payload].concat()
}

/// Without a token, sends acknowledgements of pings that the server never sent, until the server
/// has read all of them.
async fn flood(address: &str) {
    const ACK: u8 = 1;
    let (lie, last) = (ping(ACK, *b"not sent"), *b"the last");
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    let mut bytes = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &settings].concat();
    bytes.extend(lie.repeat(FRAMES));
    bytes.extend(ping(0, last));
    stream.write_all(&bytes).await.expect("the server reads");
    // The server reads frames in order, so the answer to the last frame follows all others.
    let mut answer = Vec::new();
    while !answer.windows(17).any(|frame| frame == ping(ACK, last)) {
        assert_ne!(stream.read_buf(&mut answer).await.expect("no error"), 0, "the server hung up");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn warnings_caused_by_a_peer_are_limited_counted_and_summarised() {
    let mut server = Server::start(Setup::as_shipped().without_worker()).await;
    let url = server.url();
    let address = url.strip_prefix("http://").expect("no TLS");
    timeout(Duration::from_secs(60), flood(address)).await.expect("frames are read");
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains("recv PING ack that we never sent")).count();
    // The limit is per minute, and a minute may have ended during the flood.
    assert!((1..=20).contains(&lines), "{lines} lines");
    let scrape = server.metrics().await;
    let counted = format!("cloakwork_log_suppressed_total{{target=\"h2\"}} {}", FRAMES - lines);
    assert!(scrape.contains(&counted), "expected {counted} in {scrape}");
    server.stop();
    let log = server.log();
    let summary = log.lines().find(|line| line.contains("lines of one kind were left out of the log"));
    assert!(summary.is_some_and(|line| line.contains("h2::proto::ping_pong")), "{log}");
}

/// A name that ends a line, clears the screen, and reverses the text after it.
const FORGED: &str = "data\nFORGED\u{1b}[2J\u{202e}";

/// Starts a server whose data directory has this name. Also returns the directory.
async fn start_on_forged(format: &str) -> (Server, PathBuf) {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join(FORGED);
    fs::create_dir(&data).expect("a directory");
    // The server logs a line when it closes a directory that others can read.
    set_mode(&data, 0o755);
    let named = format!("CLOAKWORK_STORAGE__DIRECTORY={}", data.display());
    let setup = Setup::default().without_worker().with("log.format", format).within(&["env".to_owned(), named]);
    (Server::start_in(home, setup).await, data)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_text_is_escaped_in_the_log_of_a_server() {
    const SHOWN: [(&str, &str); 2] =
        [("text", r"data\nFORGED\u{1b}[2J\u{202e}"), ("json", r"data\nFORGED\u001b[2J\u202e")];
    for (format, shown) in SHOWN {
        let (mut server, _) = start_on_forged(format).await;
        server.stop();
        let log = server.log();
        let line = log.lines().find(|line| line.contains("closing the directory to other users"));
        assert!(line.is_some_and(|line| line.contains(shown)), "{format}: no {shown} in {log}");
        assert!(!log.contains(['\u{1b}', '\u{202e}']), "{format}: {log}");
        assert!(log.lines().all(|line| !line.starts_with("FORGED")), "{format}: {log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_text_is_escaped_in_an_error_of_the_command_line() {
    let (mut server, data) = start_on_forged("text").await;
    server.stop();
    set_mode(&data, 0o777);
    let output = server.command().args(["tenant", "list"]).output().expect("the command runs");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(said.contains(r"data\nFORGED\u{1b}[2J\u{202e} (mode 0777)"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}
