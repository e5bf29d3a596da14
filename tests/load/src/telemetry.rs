//! The cost of metrics and of traces: servers that differ in nothing else take turns.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use cloakwork_client::Client;
use cloakwork_tests_service::{MUTED, Server, Setup, Tenant};
use tokio::runtime::Runtime;

use crate::{
    Effort, SET,
    load::{CLIENTS, Work, count},
    processes,
    report::{Bound, Report, Row},
};

/// Number of turns of each server in a round. The difference is small, so many short turns compare
/// the servers under the same conditions.
const TURNS: usize = 6;

/// A server, and what it did in each of its turns.
struct Side {
    _server: Server,
    clients: Vec<Client>,
    work: Arc<Work>,
    /// Bootstraps in a second.
    rates: Vec<f64>,
    /// Time on the cores for a bootstrap, in microseconds.
    costs: Vec<f64>,
}

/// Measures servers without metrics, with metrics, and with metrics and traces of one call in a
/// hundred, which a collector takes.
pub(crate) fn measure(runtime: &Runtime, effort: Effort, report: &mut Report) {
    let collector = collector();
    let traced = Setup::of_benchmark()
        .with("telemetry.otlp_endpoint", format!("http://{collector}"))
        .with("telemetry.otlp_protocol", "http")
        .with("telemetry.trace_percent", 1);
    let muted = Setup::of_benchmark().with_variable(MUTED, "1");
    let [mut muted, mut plain, mut traced] =
        [muted, Setup::of_benchmark(), traced].map(|setup| runtime.block_on(Side::start(setup)));
    let slice = effort.slice / 5;
    for turn in 0..effort.rounds * TURNS {
        let mut order = [&mut muted, &mut plain, &mut traced];
        order.rotate_left(turn % 3);
        for side in order {
            side.turn(runtime, slice);
        }
    }
    report.add(Row::of(&format!("{CLIENTS} clients, without metrics"), "PBS/s", &muted.rates));
    for (name, side, base, least) in [
        ("with metrics, over without", &plain, &muted, 0.995),
        ("with traces of 1 %, over without", &traced, &plain, 0.99),
    ] {
        let rates = ratios(&side.rates, &base.rates);
        report.add(Row::of(&format!("{CLIENTS} clients {name}"), "ratio", &rates).required(Bound::Least(least)));
        let costs = ratios(&side.costs, &base.costs);
        report
            .add(Row::of("    time on the cores for a bootstrap", "ratio", &costs).required(Bound::Most(2.0 - least)));
    }
}

fn ratios(side: &[f64], base: &[f64]) -> Vec<f64> {
    side.iter().zip(base).map(|(side, base)| side / base).collect()
}

impl Side {
    async fn start(setup: Setup) -> Self {
        let server = Server::start(setup).await;
        let tenant = Tenant::of_set(server.client().await, SET).await;
        // The first job loads the key.
        tenant.check_squares(&[1, 2, 3]).await;
        let mut clients = Vec::with_capacity(CLIENTS);
        for _ in 0..CLIENTS {
            clients.push(tenant.share_key(server.client().await).await);
        }
        Self { work: Work::new(&tenant, CLIENTS, 1), clients, _server: server, rates: Vec::new(), costs: Vec::new() }
    }

    fn turn(&mut self, runtime: &Runtime, slice: Duration) {
        let (begun, (_, before)) = (Instant::now(), processes::own_and_children());
        let shots = runtime.block_on(count(self.clients.clone(), self.work.clone(), slice)) as f64;
        let (took, (_, after)) = (begun.elapsed().as_secs_f64(), processes::own_and_children());
        self.rates.push(shots / took);
        // The other servers are idle.
        self.costs.push((after - before).as_secs_f64() * 1e6 / shots);
    }
}

/// A collector that takes whatever it gets.
fn collector() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || take(&stream));
        }
    });
    address
}

/// Answers each request of a connection.
fn take(stream: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(bytes) = line.strip_prefix("content-length:") {
                length = bytes.trim().parse().ok()?;
            }
        }
        reader.read_exact(&mut vec![0; length]).ok()?;
        (&mut &*stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()?;
    }
}
