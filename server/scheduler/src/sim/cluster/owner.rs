//! The owner decides: it handles calls and reports, and feeds the scheduler, as the dispatcher of
//! the server does.

use std::collections::{BTreeMap, BTreeSet};

use super::bug::Bug;
use super::client::Answer;
use super::database::Write;
use super::plan::Plan;
use super::world::{Call, Cluster, Timer, ToWorker};
use crate::event::{Effect, End, Event, Outcome};
use crate::scheduler::Scheduler;
use crate::sim::store::Change;
use crate::types::{JobId, NewJob, Report, Time, WorkerId};

/// The state of a server that owns the database.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) process: u64,
    pub(super) epoch: u64,
    /// Number of batches that the database had after the last commit of this server.
    pub(super) seq: u64,
    /// This number when the last beat was sent.
    pub(super) seq_before_beat: u64,
    /// Until when the last beat makes it certain that this server is the owner, by its clock.
    pub(super) certain_until: Time,
    pub(super) core: Scheduler,
    pub(super) jobs: BTreeMap<JobId, Live>,
    pub(super) requests: BTreeMap<usize, JobId>,
    pub(super) links: BTreeMap<WorkerId, Link>,
    pub(super) decided: Decided,
    pub(super) commit: Option<Commit>,
    pub(super) assignments: BTreeMap<WorkerId, Vec<(JobId, u64)>>,
    /// Workers that keep leases until the next commit.
    pub(super) withheld: BTreeSet<WorkerId>,
    /// Since when ended jobs wait for their last write.
    pub(super) late_since: Option<Time>,
    pub(super) stall: Option<Stall>,
    pub(super) wake_at: Option<Time>,
    verdict: bool,
}

/// An unfinished job in the owner's memory.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) request: usize,
    pub(super) promised: bool,
    /// Whether a caller waits for the job's end.
    pub(super) is_watched: bool,
}

/// A worker's connection to the owner.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) stream: u64,
    pub(super) latest: Report,
    pub(super) lost_at: Option<Time>,
    /// The leases that the worker is to hold, once an assignment was made.
    pub(super) wish: Option<BTreeSet<(JobId, u64)>>,
}

/// Decisions that go to the database as one transaction.
#[derive(Clone, Debug, Default)]
pub(super) struct Decided {
    pub(super) writes: Vec<Write>,
    /// Jobs that the writes insert.
    pub(super) fresh: Vec<JobId>,
    pub(super) answers: Vec<Reply>,
    pub(super) recorded: Vec<(JobId, u64)>,
    /// First attempts that workers may begin before the commit.
    pub(super) early: Vec<(WorkerId, JobId, u64)>,
    pub(super) requeued: Vec<JobId>,
    pub(super) endings: Vec<Ending>,
    /// Ends that were published before the commit, with the changes that they still need.
    pub(super) handed_over: Vec<(JobId, Vec<Write>)>,
}

/// An answer that waits for the commit.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    Accepted(usize, JobId),
    /// The caller relies on the state of its job.
    Found,
    Ended(usize, End),
    Verdict {
        worker: WorkerId,
        stream: u64,
        job: JobId,
        epoch: u64,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) job: JobId,
    pub(super) request: usize,
    pub(super) end: End,
    /// Whether the waiting caller gets the whole result.
    pub(super) handed_over: bool,
}

/// A transaction on its way to the database.
#[derive(Clone, Debug)]
pub(super) struct Commit {
    pub(super) decided: Decided,
    pub(super) with_late: bool,
    pub(super) survives: bool,
}

/// State after a failure of the database.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stall {
    pub(super) until: Time,
    /// Whether memory holds void decisions.
    pub(super) void: bool,
    /// Whether the jobs are being read.
    pub(super) is_reading: bool,
}

impl Owner {
    /// An owner that is about to load the jobs.
    pub(super) fn new(plan: &Plan, process: u64, epoch: u64, certain_until: Time) -> Self {
        Self {
            process,
            epoch,
            seq: 0,
            seq_before_beat: 0,
            certain_until,
            core: Scheduler::new(plan.config),
            jobs: BTreeMap::new(),
            requests: BTreeMap::new(),
            links: BTreeMap::new(),
            decided: Decided::default(),
            commit: None,
            assignments: BTreeMap::new(),
            withheld: BTreeSet::new(),
            late_since: None,
            stall: Some(Stall { until: 0, void: true, is_reading: true }),
            wake_at: None,
            verdict: false,
        }
    }

    pub(super) fn is_void(&self) -> bool {
        self.stall.is_some_and(|stall| stall.void)
    }

    pub(super) fn promise(&mut self, job: JobId) {
        if let Some(live) = self.jobs.get_mut(&job) {
            (live.promised, live.is_watched) = (true, true);
        }
    }

    /// Translates an effect into changes of the database and messages to workers.
    pub(super) fn effect(&mut self, effect: Effect, from: Option<WorkerId>) {
        let decided = &mut self.decided;
        match &effect {
            Effect::Record(attempt) => {
                decided.recorded.push((attempt.job, attempt.epoch));
                let last = decided.writes.last();
                if matches!(last, Some(Write::Insert { id, promised: false, .. }) if *id == attempt.job) {
                    decided.early.push((attempt.worker, attempt.job, attempt.epoch));
                }
            }
            Effect::Assign { worker, leases } => {
                self.assignments.insert(*worker, leases.clone());
                return;
            }
            Effect::Requeued { job, .. } => decided.requeued.push(*job),
            Effect::Accept { .. } => self.verdict = true,
            Effect::Refuse { .. } => return self.verdict = false,
            Effect::CheckEnded { .. } => panic!("no check was submitted"),
            Effect::Finished { job, end } => {
                let Some(live) = self.jobs.get(job) else { panic!("{job:?} ends, and is not in memory") };
                let handed_over = *end == End::Succeeded && !live.promised;
                decided.endings.push(Ending { job: *job, request: live.request, end: end.clone(), handed_over });
            }
        }
        decided.writes.push(Write::Change(Change { effect, from }));
    }
}

impl Cluster {
    /// Feeds the scheduler, and checks it. Assignments follow later.
    pub(super) fn feed(&mut self, server: usize, event: Event, from: Option<WorkerId>) {
        self.summary.steps += 1;
        assert!(self.summary.steps < 50_000, "I7: the scheduler keeps its server busy without an end");
        self.say(|| format!("server {server}: {event:?}"));
        let Some(owner) = self.servers[server].owner.as_mut().filter(|owner| !owner.is_void()) else { return };
        let mut effects = Vec::new();
        owner.core.feed(self.now, event, &mut effects);
        owner.core.check();
        for effect in effects {
            if self.trace {
                eprintln!("{:>10}     {effect:?}", "");
            }
            owner.effect(effect, from);
        }
    }

    /// The job of a request in the scheduler's terms.
    pub(super) fn scheduled(&self, id: JobId, request: usize) -> NewJob {
        let wish = self.plan.wishes[request];
        let (cost, rows, bytes, priority) = (wish.cost, wish.rows(), wish.bytes, wish.priority);
        NewJob { id, group: wish.group, cost, rows, bytes, priority, deadline: wish.deadline }
    }

    pub(super) fn owner_hears(&mut self, server: usize, call: Call) {
        let stalls = self.servers[server].owner.as_ref().is_none_or(|owner| owner.stall.is_some());
        match call {
            // While the database fails, the owner refuses what needs a write.
            Call::Submit { .. } | Call::Watch { .. } | Call::Cancel { .. } | Call::Commit { .. } if stalls => return,
            Call::Submit { request } => self.submit(server, request),
            Call::Watch { request } => self.watch(server, request),
            Call::Cancel { request } => {
                let Some(owner) = &mut self.servers[server].owner else { return };
                let Some(job) = owner.requests.get(&request).copied() else { return };
                if let Some(live) = owner.jobs.get_mut(&job) {
                    live.promised = true;
                }
                self.feed(server, Event::CancelRequested { job }, None);
                self.reply(server, Reply::Found);
            }
            Call::Commit { worker, stream, job, epoch } => {
                let event = Event::Committed { worker, job, epoch, outcome: Outcome::Succeeded };
                self.feed(server, event, Some(worker));
                let verdict = self.servers[server].owner.as_ref().is_some_and(|owner| owner.verdict);
                self.summary.refused += u64::from(!verdict);
                self.reply(server, Reply::Verdict { worker, stream, job, epoch });
            }
            Call::Attach { worker, stream, report } => {
                let Some(owner) = &mut self.servers[server].owner else { return };
                // Streams of one worker have growing numbers, so a late attachment is known.
                if owner.links.get(&worker).is_some_and(|link| link.stream >= stream) {
                    return;
                }
                let wish = owner.links.remove(&worker).and_then(|link| link.wish);
                owner.links.insert(worker, Link { stream, latest: report.clone(), lost_at: None, wish });
                self.feed(server, Event::Reported { worker, report }, None);
                self.tell_worker(worker, stream, ToWorker::Attached);
                if let Some(owner) = self.servers[server].owner.as_mut().filter(|owner| !owner.is_void()) {
                    let complete = owner.core.assignment(worker);
                    owner.assignments.insert(worker, complete);
                }
            }
            Call::Report { worker, stream, report } => {
                let Some(owner) = &mut self.servers[server].owner else { return };
                let Some(link) = owner.links.get_mut(&worker).filter(|link| link.stream == stream) else { return };
                link.latest = report.clone();
                self.feed(server, Event::Reported { worker, report }, None);
            }
            Call::Broken { worker, stream } => {
                let Some(owner) = &mut self.servers[server].owner else { return };
                if let Some(link) = owner.links.get_mut(&worker).filter(|link| link.stream == stream) {
                    link.lost_at = Some(self.now);
                }
            }
        }
        self.settle(server);
    }

    fn submit(&mut self, server: usize, request: usize) {
        let promised = !self.plan.runs[request];
        let Some(stored) = self.stored(server, request) else { return };
        let Some(owner) = &mut self.servers[server].owner else { return };
        if let Some(job) = owner.requests.get(&request).copied() {
            if let Some(live) = owner.jobs.get_mut(&job) {
                live.is_watched = true;
            }
            if promised {
                owner.promise(job);
                owner.decided.writes.push(Write::Promise(job));
                self.reply(server, Reply::Accepted(request, job));
            }
            return;
        }
        match stored {
            Some((job, end)) if promised => {
                owner.decided.writes.push(Write::Promise(job));
                self.reply(server, Reply::Accepted(request, job));
                end.into_iter().for_each(|end| self.reply(server, Reply::Ended(request, end)));
            }
            Some((_, end)) => end.into_iter().for_each(|end| self.answer(request, Answer::Ended(end))),
            None => self.accept(server, request, promised),
        }
    }

    /// The stored job of a request, and its end. None if the database cannot be read.
    fn stored(&self, server: usize, request: usize) -> Option<Option<(JobId, Option<End>)>> {
        let is_cut = self.servers[server].cut_at(self.now) != super::server::Cut::None;
        if is_cut || self.now < self.database.away_until {
            return None;
        }
        if self.has_bug(Bug::RequestsForgotten) {
            return Some(None);
        }
        let jobs = &self.database.state.jobs;
        Some(jobs.requests.get(&request).map(|job| (*job, jobs.rows[job].end.clone())))
    }

    fn accept(&mut self, server: usize, request: usize, promised: bool) {
        let wish = self.plan.wishes[request];
        let id = JobId(u128::from(self.random.next()));
        let Some(owner) = &mut self.servers[server].owner else { return };
        if owner.core.admit(wish.group.tenant, None).is_err() {
            return;
        }
        owner.requests.insert(request, id);
        owner.jobs.insert(id, Live { request, promised, is_watched: true });
        owner.decided.writes.push(Write::Insert { id, request, wish, promised });
        owner.decided.fresh.push(id);
        let job = self.scheduled(id, request);
        self.feed(server, Event::Submitted(job), None);
        match promised {
            true if self.has_bug(Bug::EarlyAnswer) => self.acknowledge(request, id),
            true => self.reply(server, Reply::Accepted(request, id)),
            false => {}
        }
    }

    /// Promises the end of a job to a caller that waits for it.
    fn watch(&mut self, server: usize, request: usize) {
        let Some(owner) = &mut self.servers[server].owner else { return };
        if let Some(job) = owner.requests.get(&request).copied() {
            return owner.promise(job);
        }
        let Some(Some((_, Some(end)))) = self.stored(server, request) else { return };
        // The end may not be on the disk of the database yet, so the next commit is due at once.
        if let Some(Owner { late_since: Some(since), .. }) = self.servers[server].owner.as_deref_mut() {
            *since = since.saturating_sub(super::commit::LATE_DELAY);
        }
        self.reply(server, Reply::Ended(request, end));
    }

    fn reply(&mut self, server: usize, reply: Reply) {
        if let Some(owner) = &mut self.servers[server].owner {
            owner.decided.answers.push(reply);
        }
    }

    /// Looks at the timers: workers that are lost, leases, and late writes.
    pub(super) fn owner_wakes(&mut self, server: usize) {
        let now = self.now;
        let reconnect_micros = self.plan.reconnect_micros;
        let Some(owner) = &mut self.servers[server].owner else { return };
        owner.wake_at = None;
        if owner.is_void() {
            return self.settle(server);
        }
        let is_lost = |link: &Link| link.lost_at.is_some_and(|lost| lost + reconnect_micros <= now);
        let lost: Vec<WorkerId> = owner.links.iter().filter(|(_, link)| is_lost(link)).map(|(id, _)| *id).collect();
        for worker in lost {
            if let Some(owner) = &mut self.servers[server].owner {
                owner.links.remove(&worker);
            }
            self.feed(server, Event::WorkerGone { worker, crashed: true }, None);
        }
        let due = |owner: &Owner| owner.core.next_timer().is_some_and(|due| due <= now);
        if self.servers[server].owner.as_deref().is_some_and(due) {
            self.feed(server, Event::Tick, None);
        }
        self.settle(server);
    }

    /// Sets the timer of the owner.
    pub(super) fn schedule_wake(&mut self, server: usize) {
        let now = self.now;
        let reconnect_micros = self.plan.reconnect_micros;
        let Some(owner) = &mut self.servers[server].owner else { return };
        let is_committing = owner.commit.is_some();
        let timer = owner.core.next_timer().filter(|_| !owner.is_void());
        let lost = owner.links.values().filter_map(|link| link.lost_at).min().map(|lost| lost + reconnect_micros);
        let late = owner.late_since.map(|since| since + super::commit::LATE_DELAY);
        let times = match owner.stall {
            Some(Stall { is_reading: true, .. }) => return,
            Some(stall) if !is_committing => [Some(stall.until), None, None],
            _ => [timer, lost, late.filter(|_| !is_committing)],
        };
        let Some(at) = times.into_iter().flatten().min() else { return };
        let at = at.max(now + 1);
        if at < Time::MAX / 4 && owner.wake_at.is_none_or(|wake| at < wake) {
            owner.wake_at = Some(at);
            self.set_timer(server, at - now, Timer::Wake);
        }
    }
}
