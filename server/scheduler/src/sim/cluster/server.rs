//! A server's process: it waits for the database, takes it over, beats, and may be suspended.

use super::bug::Bug;
use super::database::Found;
use super::owner::Owner;
use super::visit::{Purpose, Reply, Visit};
use super::world::{Call, Cluster, Happening, Timer};
use crate::sim::plan::TENTH;
use crate::sim::random::Random;
use crate::types::Time;

/// Time between two looks at the owner.
const LOOK_INTERVAL: Time = 5 * TENTH / 2;
/// Time for which a waiting server leaves the database to its owner after the database was away.
const AWAY_PAUSE: Time = 10 * TENTH;
/// Time between two beats.
const BEAT_INTERVAL: Time = 10 * TENTH;
/// Pause after a beat that did not reach the database.
const BEAT_PAUSE: Time = 5 * TENTH / 2;
/// How long after a beat the owner can be certain that it still is the owner.
const CERTAIN: Time = 30 * TENTH;

#[derive(Debug)]
pub(super) struct Server {
    /// Number of the process, or 0 while none runs.
    pub(super) process: u64,
    /// Thousandths of a second that the server's clock counts in a second.
    rate: u64,
    suspended: bool,
    /// Events that wait for the end of the suspension.
    held: Vec<Happening>,
    cut: Cut,
    cut_until: Time,
    /// When the last transaction arrives at the database.
    pub(super) last_commit: Time,
    /// The process that the last look found to be the owner.
    knows: Option<u64>,
    /// From when on the server may take over.
    may_depose_at: Time,
    beat_failed: bool,
    pub(super) owner: Option<Box<Owner>>,
}

/// The part of the way to the database that is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Cut {
    #[default]
    None,
    Answers,
    Both,
}

impl Server {
    pub(super) fn new(random: &mut Random) -> Self {
        Self {
            process: 0,
            rate: random.range(995, 1005),
            suspended: false,
            held: Vec::new(),
            cut: Cut::None,
            cut_until: 0,
            last_commit: 0,
            knows: None,
            may_depose_at: 0,
            beat_failed: false,
            owner: None,
        }
    }

    /// The server's own clock, which counts on during a suspension.
    pub(super) fn clock(&self, now: Time) -> Time {
        now * self.rate / 1000
    }

    pub(super) fn cut(&mut self, until: Time, random: &mut Random) {
        self.cut = random.pick(&[Cut::Answers, Cut::Both, Cut::Both]).unwrap_or_default();
        self.cut_until = until;
    }

    pub(super) fn cut_at(&self, now: Time) -> Cut {
        if now < self.cut_until { self.cut } else { Cut::None }
    }

    pub(super) fn is_up(&self) -> bool {
        self.process != 0
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.suspended
    }
}

impl Cluster {
    /// The server of a process that still runs.
    pub(super) fn index_of(&self, process: u64) -> Option<usize> {
        self.servers.iter().position(|server| server.process == process)
    }

    pub(super) fn server_starts(&mut self, server: usize) {
        self.processes += 1;
        self.servers[server].process = self.processes;
        self.say(|| format!("server {server} starts as process {}", self.processes));
        self.visit(server, Visit::Look);
    }

    pub(super) fn server_dies(&mut self, server: usize) {
        if !self.servers[server].is_up() || self.servers[server].suspended {
            return;
        }
        self.say(|| format!("server {server} dies"));
        self.summary.server_deaths += 1;
        let of = &mut self.servers[server];
        (of.process, of.owner, of.knows) = (0, None, None);
        let delay = self.random.range(2, 20) * TENTH;
        self.later(delay, Happening::Starts { server });
    }

    pub(super) fn server_pauses(&mut self, server: usize, pause: Time) {
        let of = &mut self.servers[server];
        if of.suspended || !of.is_up() {
            return;
        }
        of.suspended = true;
        self.summary.pauses += 1;
        self.say(|| format!("server {server} is suspended for {pause}"));
        let until = (self.now + pause).min(self.plan.quiet_at).max(self.now);
        self.later(until - self.now, Happening::Resumes { server });
    }

    /// Keeps an event for a suspended server, and returns any other event.
    pub(super) fn unless_suspended(&mut self, what: Happening) -> Option<Happening> {
        let (Happening::ToServer { server, .. }
        | Happening::FromDatabase { server, .. }
        | Happening::Timer { server, .. }) = what
        else {
            return Some(what);
        };
        let of = &mut self.servers[server];
        if !of.suspended {
            return Some(what);
        }
        of.held.push(what);
        None
    }

    /// Handles everything that arrived meanwhile, and only then the timers.
    pub(super) fn server_resumes(&mut self, server: usize) {
        let of = &mut self.servers[server];
        of.suspended = false;
        let mut held = std::mem::take(&mut of.held);
        held.sort_by_key(|what| matches!(what, Happening::Timer { .. }));
        self.say(|| format!("server {server} continues with {} events", held.len()));
        held.into_iter().for_each(|what| self.happen(what));
        // The first beat after a suspension matters most.
        if !self.plan.gentle && self.fails(20) {
            let delay = self.random.range(1, 8 * TENTH);
            self.later(delay, Happening::FailOver);
        }
    }

    pub(super) fn server_wakes(&mut self, server: usize, process: u64, timer: Timer) {
        if self.servers[server].process != process {
            return;
        }
        match timer {
            Timer::Look => self.visit(server, Visit::Look),
            Timer::Beat => self.visit(server, Visit::Beat),
            Timer::Wake => self.owner_wakes(server),
        }
    }

    pub(super) fn set_timer(&mut self, server: usize, delay: Time, timer: Timer) {
        let process = self.servers[server].process;
        self.later(delay, Happening::Timer { server, process, timer });
    }

    pub(super) fn database_replies(&mut self, server: usize, process: u64, sent: Time, reply: Reply) {
        if self.servers[server].process != process {
            return;
        }
        match reply {
            Reply::Looked { found, epoch } => self.looked(server, sent, found, epoch),
            Reply::Deposed { epoch: Some(epoch) } => self.taken(server, epoch, sent + CERTAIN),
            Reply::Deposed { epoch: None } => self.set_timer(server, LOOK_INTERVAL, Timer::Look),
            Reply::Failed(Purpose::Look) => {
                self.servers[server].may_depose_at = self.now + AWAY_PAUSE;
                self.set_timer(server, LOOK_INTERVAL, Timer::Look);
            }
            Reply::Beaten { seq } => self.beaten(server, sent, seq),
            Reply::Failed(Purpose::Beat) => {
                // The first failure may be that of an old connection.
                let pause = if self.servers[server].beat_failed { BEAT_PAUSE } else { 0 };
                self.servers[server].beat_failed = true;
                self.set_timer(server, pause, Timer::Beat);
            }
            Reply::Fenced(Purpose::Commit) => self.committed(server, Err(true)),
            Reply::Failed(Purpose::Commit) => self.committed(server, Err(false)),
            Reply::Committed => self.committed(server, Ok(())),
            Reply::Failed(Purpose::Read) => self.not_loaded(server),
            Reply::Read(loaded) => self.loaded(server, *loaded),
            // Another server has taken over. The process ends, and starts again.
            Reply::Fenced(_) => {
                self.summary.superseded += 1;
                self.server_dies(server);
            }
        }
    }

    fn looked(&mut self, server: usize, sent: Time, found: Found, epoch: u64) {
        match found {
            // The answer to the takeover was lost. Only the next beat makes the server certain: the
            // beat of the takeover may be old.
            Found::Mine if self.has_bug(Bug::CertainFromLook) => self.taken(server, epoch, sent + CERTAIN),
            Found::Mine => self.taken(server, epoch, 0),
            Found::Silent if self.now >= self.servers[server].may_depose_at => self.visit(server, Visit::Depose),
            Found::Silent => self.set_timer(server, LOOK_INTERVAL, Timer::Look),
            Found::Alive(process) => {
                self.servers[server].knows = Some(process);
                self.set_timer(server, LOOK_INTERVAL, Timer::Look);
            }
        }
    }

    fn taken(&mut self, server: usize, epoch: u64, certain_until: Time) {
        let process = self.servers[server].process;
        self.say(|| format!("server {server} owns the database in epoch {epoch}, as process {process}"));
        let owner = Owner::new(&self.plan, process, epoch, certain_until);
        self.servers[server].owner = Some(Box::new(owner));
        self.servers[server].beat_failed = false;
        self.set_timer(server, BEAT_INTERVAL, Timer::Beat);
        self.visit(server, Visit::Read { epoch });
    }

    fn beaten(&mut self, server: usize, sent: Time, seq: u64) {
        let clock = self.servers[server].clock(self.now);
        let from = if self.has_bug(Bug::CertainFromAnswer) { clock } else { sent };
        let ignores_seq = self.has_bug(Bug::BeatIgnoresSeq);
        let of = &mut self.servers[server];
        of.beat_failed = false;
        if let Some(owner) = &mut of.owner {
            owner.certain_until = owner.certain_until.max(from + CERTAIN);
            let has_lost = seq < owner.seq_before_beat && !ignores_seq;
            if has_lost && owner.stall.is_none() && owner.commit.is_none() {
                self.batches_lost(server);
            }
        }
        self.check_certain();
        let pause = (sent + BEAT_INTERVAL).saturating_sub(clock);
        self.set_timer(server, pause, Timer::Beat);
        self.settle(server);
    }

    /// Whether no other server can have taken over.
    pub(super) fn is_certain(&self, server: usize) -> bool {
        let of = &self.servers[server];
        let is_always = self.has_bug(Bug::AlwaysCertain);
        of.owner.as_ref().is_some_and(|owner| of.clock(self.now) < owner.certain_until || is_always)
    }

    /// Checks that no server is certain and wrong.
    pub(super) fn check_certain(&self) {
        for server in (0..self.servers.len()).filter(|server| self.is_certain(*server)) {
            self.check_owner(server, "certainty");
        }
    }

    /// Checks that no other server has taken over, before a server publishes without a commit.
    pub(super) fn check_owner(&self, server: usize, what: &str) {
        let of = &self.servers[server];
        let is_owner = self.database.state.owner == Some(of.process);
        assert!(is_owner || self.database.is_doubtful, "{what} of server {server}, which is not the owner");
    }

    /// Sends a call to a server. Calls may be late.
    pub(super) fn call(&mut self, server: usize, call: Call, is_passed_on: bool) {
        let is_late = self.fails(self.plan.slow_calls);
        let longest = if self.plan.gentle { 5 * TENTH } else { 80 * TENTH };
        let delay = if is_late { self.random.range(TENTH, longest) } else { self.random.range(500, TENTH / 5) };
        self.later(delay, Happening::ToServer { server, call, is_passed_on });
    }

    pub(super) fn server_hears(&mut self, server: usize, call: Call, is_passed_on: bool) {
        let of = &self.servers[server];
        if !of.is_up() {
            return;
        }
        if of.owner.is_some() {
            return self.owner_hears(server, call);
        }
        let knows = of.knows.and_then(|process| self.index_of(process));
        match call {
            Call::Attach { worker, stream, .. } => self.refuse_worker(worker, stream),
            Call::Report { .. } | Call::Broken { .. } => {}
            call => {
                if let Some(owner) = knows.filter(|_| !is_passed_on) {
                    self.call(owner, call, true);
                }
            }
        }
    }
}
