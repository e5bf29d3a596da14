//! `cloakwork top`.

mod view;

use std::{
    collections::BTreeMap,
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use cloakwork_client::{Client, proto::Pool};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use serde_json::{Value, json};

use crate::{
    context::Context,
    failure::Failure,
    metrics::{self, Page, Reading},
    output::show,
};

/// Watch pools, queues and rates
///
/// Pools come from the server itself, and everything else from the metrics of its admin port.
/// Gauges show their current value, counters their rate per second, and histograms their mean since
/// the last update. The key q quits. Without a terminal, the command prints one table and ends.
///
/// Examples:
///   cloakwork top
///   cloakwork top --admin 127.0.0.1:7271 --interval 5
///   cloakwork --json top
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Address of the admin port.
    #[arg(long, env = "CLOAKWORK_ADMIN", value_name = "HOST:PORT", default_value = "127.0.0.1:7271")]
    admin: String,
    /// Seconds between two updates.
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
}

/// Data on the screen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    server: String,
    version: String,
    pools: Vec<Pool>,
    readings: BTreeMap<String, Reading>,
    /// Reason why there are no readings.
    problem: Option<String>,
}

/// Takes one snapshot after the other.
struct Observer {
    client: Client,
    server: String,
    admin: String,
    last: Option<(Instant, Page)>,
}

pub(crate) async fn run(context: &Context, args: Args) -> Result<(), Failure> {
    let client = context.connect().await?;
    let mut observer = Observer { client, server: context.global.server.clone(), admin: args.admin, last: None };
    let interval = Duration::from_secs(args.interval);
    if context.global.json || !std::io::stdout().is_terminal() {
        // Rates need two snapshots.
        observer.look().await?;
        tokio::time::sleep(interval).await;
        let snapshot = observer.look().await?;
        return show(context.global.json, || snapshot.document(), || snapshot.text());
    }
    let mut terminal = ratatui::try_init()?;
    let outcome = live(&mut terminal, &mut observer, interval).await;
    ratatui::restore();
    outcome
}

async fn live(
    terminal: &mut ratatui::DefaultTerminal,
    observer: &mut Observer,
    interval: Duration,
) -> Result<(), Failure> {
    loop {
        let snapshot = match observer.look().await {
            Ok(snapshot) => snapshot,
            // A restarted server comes back. Meanwhile, q quits.
            Err(failure) => Snapshot { problem: Some(failure.to_string()), ..Snapshot::default() },
        };
        let until = Instant::now() + interval;
        while Instant::now() < until {
            terminal.draw(|frame| view::draw(frame, &snapshot))?;
            if asked_to_leave(until)? {
                return Ok(());
            }
        }
    }
}

/// Waits for a key or for the time of the next snapshot. Returns whether the user quits.
fn asked_to_leave(until: Instant) -> Result<bool, Failure> {
    if !event::poll(until.saturating_duration_since(Instant::now()))? {
        return Ok(false);
    }
    let Event::Key(key) = event::read()? else { return Ok(false) };
    let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    let quit = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc);
    Ok(key.kind == KeyEventKind::Press && (quit || interrupt))
}

impl Observer {
    async fn look(&mut self) -> Result<Snapshot, Failure> {
        let capabilities = self.client.capabilities().await?;
        let (readings, problem) = match metrics::fetch(&self.admin).await {
            Ok(page) => (self.readings(page), None),
            Err(error) => (BTreeMap::new(), Some(format!("no metrics from {}: {error}", self.admin))),
        };
        Ok(Snapshot {
            server: self.server.clone(),
            version: capabilities.server_version,
            pools: capabilities.pools,
            readings,
            problem,
        })
    }

    fn readings(&mut self, page: Page) -> BTreeMap<String, Reading> {
        let now = Instant::now();
        let readings = match &self.last {
            Some((then, before)) => page.since(before, now - *then),
            None => BTreeMap::new(),
        };
        self.last = Some((now, page));
        readings
    }
}

impl Snapshot {
    fn text(&self) -> String {
        let mut text = format!("{} (version {})\n\n{}", self.server, self.version, view::pools(&self.pools).render());
        match &self.problem {
            Some(problem) => text += &format!("\n{problem}\n"),
            None => text += &format!("\n{}", view::readings(&self.readings).render()),
        }
        text
    }

    fn document(&self) -> Value {
        let pool = |pool: &Pool| {
            json!({
                "kind": pool.kind,
                "workers": pool.workers,
                "verify_percent": pool.verify_percent,
                "verifiable": pool.verifiable,
            })
        };
        let reading = |(series, reading): (&String, &Reading)| {
            let (kind, value) = match reading {
                Reading::Value(value) => ("value", value),
                Reading::Rate(value) => ("per_second", value),
                Reading::Mean(value) => ("mean", value),
            };
            json!({ "series": series, "kind": kind, "value": value })
        };
        json!({
            "server": self.server,
            "version": self.version,
            "pools": self.pools.iter().map(pool).collect::<Vec<_>>(),
            "readings": self.readings.iter().map(reading).collect::<Vec<_>>(),
            "problem": self.problem,
        })
    }
}
