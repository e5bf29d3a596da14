//! The HTTP port for scrapes by Prometheus. The port serves one caller after the other, each with a
//! limit on time and bytes, so that no caller can occupy more.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use cloakwork_device::panic_message;

/// Maximum number of bytes of a request, which has no body.
const REQUEST_BYTES: usize = 8 << 10;
/// Longest time for a caller to send a request, and to receive an answer.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before the next accept if the system had no resources for a connection.
const ACCEPT_ERROR_PAUSE: Duration = Duration::from_millis(200);

/// Answers requests for /metrics with `page`, on a thread that ends with the process.
pub(super) fn serve(address: SocketAddr, page: impl Fn() -> String + Send + 'static) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let bound = listener.local_addr()?;
    std::thread::Builder::new().name("metrics".to_owned()).spawn(move || {
        for caller in listener.incoming() {
            match caller {
                // A panic ends one scrape, and the port answers the next.
                Ok(caller) => match catch_unwind(AssertUnwindSafe(|| answer(caller, &page))) {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::debug!(%error, "a scrape was aborted"),
                    Err(panic) => tracing::error!(cause = panic_message(&*panic), "a scrape panicked"),
                },
                Err(error) => {
                    tracing::warn!(%error, "a connection for a scrape could not be accepted");
                    std::thread::sleep(ACCEPT_ERROR_PAUSE);
                }
            }
        }
    })?;
    Ok(bound)
}

fn answer(mut caller: TcpStream, page: &impl Fn() -> String) -> io::Result<()> {
    let (status, body) = match wants_metrics(&mut caller)? {
        true => ("200 OK", page()),
        false => ("404 Not Found", "only /metrics is here\n".to_owned()),
    };
    let length = body.len();
    let head = "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\nConnection: close\r\n";
    let answer = format!("HTTP/1.1 {status}\r\n{head}Content-Length: {length}\r\n\r\n{body}");
    let (until, mut rest) = (Instant::now() + EXCHANGE_TIMEOUT, answer.as_bytes());
    while !rest.is_empty() {
        caller.set_write_timeout(Some(time_left(until)?))?;
        match caller.write(rest)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => rest = &rest[written..],
        }
    }
    Ok(())
}

/// Time that is left for a whole request or answer, regardless of the size of single reads and
/// writes.
fn time_left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Reads a whole request. Returns whether it asks for /metrics.
fn wants_metrics(caller: &mut TcpStream) -> io::Result<bool> {
    let (until, mut request, mut length) = (Instant::now() + EXCHANGE_TIMEOUT, [0; REQUEST_BYTES], 0);
    while !request[..length].windows(4).any(|end| end == b"\r\n\r\n") {
        caller.set_read_timeout(Some(time_left(until)?))?;
        match caller.read(&mut request[length..])? {
            // The caller has closed the connection, or the request is larger than the buffer.
            0 => return Err(io::ErrorKind::InvalidData.into()),
            read => length += read,
        }
    }
    Ok(request.starts_with(b"GET /metrics "))
}
