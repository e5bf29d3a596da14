//! The faults: what is done to a cluster, and the time that counts.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use cloakwork_tests_service::Signal;
use tokio::time::sleep;

use crate::{Cluster, Course, Member, trial::Caller};

/// A harm that is done to a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// Number in the table of docs/reliability.md.
    pub number: u8,
    /// Name of the fault.
    pub name: &'static str,
    /// The time that counts.
    pub counts: &'static str,
    /// Maximum of that time in seconds.
    pub seconds_max: f64,
    /// Whether callers may see errors, because no server can answer them meanwhile.
    pub may_fail_calls: bool,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    KillOwner,
    RollingRestart,
    SuspendOwner,
    CutOwnerFromDatabase,
    CutOwnerFromServers,
    DatabaseAway,
    DatabaseFailover,
    DatabaseFailoverWithLoss,
    CutCommits,
    SlowDatabase,
    KillOwnerDuringUpload,
    Races,
    WorkersOnlyAtFormerOwner,
    WrongClocks,
    EarlierVersion,
    KillAll,
    KillOwnerWithoutBucket,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 17] = [
        Self {
            number: 1,
            name: "the owner is killed",
            counts: "until the next owner",
            seconds_max: 6.5,
            may_fail_calls: false,
            kind: Kind::KillOwner,
        },
        Self {
            number: 2,
            name: "all servers are restarted in turn",
            counts: "longest time without an owner",
            seconds_max: 0.5,
            may_fail_calls: false,
            kind: Kind::RollingRestart,
        },
        Self {
            number: 3,
            name: "the owner is suspended, and continues",
            counts: "until it has ended after it continued",
            seconds_max: 0.1,
            may_fail_calls: false,
            kind: Kind::SuspendOwner,
        },
        Self {
            number: 4,
            name: "the owner is cut off from the database",
            counts: "until the next owner",
            seconds_max: 6.5,
            may_fail_calls: false,
            kind: Kind::CutOwnerFromDatabase,
        },
        Self {
            number: 5,
            name: "the owner is cut off from the other servers for 5 s",
            counts: "until all calls go on after the cut",
            seconds_max: 5.0,
            may_fail_calls: false,
            kind: Kind::CutOwnerFromServers,
        },
        Self {
            number: 6,
            name: "the database crashes, and is away for 30 s",
            counts: "until a job is accepted after its return",
            seconds_max: 5.0,
            may_fail_calls: true,
            kind: Kind::DatabaseAway,
        },
        Self {
            number: 7,
            name: "the database is lost, and its standby takes over",
            counts: "until a job is accepted after the promotion",
            seconds_max: 5.0,
            may_fail_calls: false,
            kind: Kind::DatabaseFailover,
        },
        Self {
            number: 8,
            name: "the database is lost, and a standby without the commits of the last second takes over",
            counts: "until a job is accepted after the promotion",
            seconds_max: 5.0,
            may_fail_calls: true,
            kind: Kind::DatabaseFailoverWithLoss,
        },
        Self {
            number: 9,
            name: "connections break between commits and their answers",
            counts: "until ten commits were cut",
            seconds_max: 30.0,
            may_fail_calls: false,
            kind: Kind::CutCommits,
        },
        Self {
            number: 10,
            name: "the database answers 5 ms later for 5 s",
            counts: "until a job is accepted afterwards",
            seconds_max: 1.0,
            may_fail_calls: false,
            kind: Kind::SlowDatabase,
        },
        Self {
            number: 12,
            name: "the owner is killed during an upload",
            counts: "until the upload is complete and its job has ended",
            seconds_max: 10.0,
            may_fail_calls: false,
            kind: Kind::KillOwnerDuringUpload,
        },
        Self {
            number: 13,
            name: "callers of three servers store, use and delete the same lists and keys",
            counts: "until 2,000 such deeds are done",
            seconds_max: 60.0,
            may_fail_calls: false,
            kind: Kind::Races,
        },
        Self {
            number: 14,
            name: "for 6 s, workers reach only an owner that is cut off from the database",
            counts: "until all calls go on after the cut",
            seconds_max: 5.0,
            may_fail_calls: false,
            kind: Kind::WorkersOnlyAtFormerOwner,
        },
        Self {
            number: 15,
            name: "servers whose clocks are an hour ahead and behind take over in turn",
            counts: "longest time until the next owner",
            seconds_max: 6.5,
            may_fail_calls: false,
            kind: Kind::WrongClocks,
        },
        Self {
            number: 16,
            name: "servers of an earlier version replace those of this version in turn, and back again",
            counts: "longest time without an owner",
            seconds_max: 0.5,
            may_fail_calls: false,
            kind: Kind::EarlierVersion,
        },
        Self {
            number: 17,
            name: "all servers are killed at once, and started again",
            counts: "from their start until a job is accepted",
            seconds_max: 8.0,
            may_fail_calls: false,
            kind: Kind::KillAll,
        },
        Self {
            number: 18,
            name: "the owner is killed while the store of blobs is away",
            counts: "until a job is accepted",
            seconds_max: 8.0,
            may_fail_calls: false,
            kind: Kind::KillOwnerWithoutBucket,
        },
    ];

    /// The fault of this number.
    pub fn numbered(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.number == number)
    }

    /// Whether this machine has what the fault needs.
    pub fn is_possible(&self) -> bool {
        match self.kind {
            Kind::WrongClocks => Path::new(FAKETIME).exists(),
            Kind::EarlierVersion => std::env::var_os(EARLIER).is_some(),
            _ => true,
        }
    }

    /// Does the harm and repairs what an operator or a supervisor would repair. Returns the seconds
    /// that count.
    pub(crate) async fn strike(self, cluster: &mut Cluster, caller: &Caller) -> f64 {
        let accepts = || caller.has_a_job_accepted();
        match self.kind {
            Kind::KillOwner => kill_owner(cluster).await,
            Kind::RollingRestart => rolling_restart(cluster, None).await,
            Kind::SuspendOwner => suspend_owner(cluster).await,
            Kind::CutOwnerFromDatabase => cut_owner_from_database(cluster).await,
            Kind::CutOwnerFromServers => {
                let owner = cluster.owner().await;
                cluster.members[owner].inward.set(Course::Stalls);
                sleep(Duration::from_secs(5)).await;
                cluster.members[owner].inward.set(passes());
                let seconds = seconds_of(accepts()).await;
                assert_eq!(cluster.owner().await, owner, "it can still reach the database");
                seconds
            }
            Kind::DatabaseAway => {
                cluster.postgres.stop();
                sleep(Duration::from_secs(30)).await;
                cluster.postgres.start_again();
                seconds_of(accepts()).await
            }
            Kind::DatabaseFailover => {
                fail_over(cluster);
                seconds_of(accepts()).await
            }
            Kind::DatabaseFailoverWithLoss => {
                cluster.postgres.wait_for_standby(false);
                cluster.standby.follow_no_more();
                sleep(Duration::from_secs(1)).await;
                fail_over(cluster);
                let seconds = seconds_of(accepts()).await;
                let notice = "the database lost changes that it had committed";
                let noticed = cluster.members.iter().any(|member| member.server.log().contains(notice));
                assert!(noticed, "no server has noticed the loss");
                seconds
            }
            Kind::CutCommits => {
                let owner = cluster.owner().await;
                let wire = &cluster.members[owner].to_database;
                seconds_of(async {
                    // One at a time: a server has several connections.
                    for _ in 0..10 {
                        wire.cut_commit().await;
                        accepts().await;
                    }
                })
                .await
            }
            Kind::SlowDatabase => {
                let set = |course| cluster.members.iter().for_each(|member| member.to_database.set(course));
                set(Course::Passes(Duration::from_millis(5)));
                sleep(Duration::from_secs(5)).await;
                set(passes());
                seconds_of(accepts()).await
            }
            Kind::KillOwnerDuringUpload => kill_owner_during_upload(cluster, caller).await,
            Kind::Races => seconds_of(caller.race(cluster)).await,
            Kind::WorkersOnlyAtFormerOwner => workers_only_at_former_owner(cluster, caller).await,
            Kind::WrongClocks => wrong_clocks(cluster).await,
            Kind::EarlierVersion => {
                let earlier = std::env::var_os(EARLIER).unwrap_or_else(|| panic!("{EARLIER} names no program"));
                let there = rolling_restart(cluster, Some(Path::new(&earlier))).await;
                there.max(rolling_restart(cluster, None).await)
            }
            Kind::KillAll => {
                cluster.members.iter_mut().for_each(|member| member.server.kill());
                cluster.members.iter_mut().for_each(|member| member.server.launch());
                seconds_of(accepts()).await
            }
            Kind::KillOwnerWithoutBucket => {
                cluster.to_bucket.set(Course::Stalls);
                let owner = cluster.owner().await;
                cluster.members[owner].server.kill();
                let seconds = seconds_of(accepts()).await;
                let next = cluster.owner_among(&cluster.others(owner)).await;
                let Member { server, .. } = &cluster.members[next];
                let notice = "calls that need the store of blobs fail until it answers";
                assert!(server.log().contains(notice), "the store was there: {}", server.log());
                cluster.start_again(owner).await;
                cluster.to_bucket.set(passes());
                seconds
            }
        }
    }
}

fn passes() -> Course {
    Course::Passes(Duration::ZERO)
}

async fn seconds_of(work: impl Future<Output = ()>) -> f64 {
    let begun = Instant::now();
    work.await;
    begun.elapsed().as_secs_f64()
}

/// Ends the database server, and has its standby take over.
fn fail_over(cluster: &mut Cluster) {
    cluster.postgres.stop();
    cluster.standby.promote();
    let port = cluster.standby.port();
    cluster.members.iter().for_each(|member| member.to_database.lead_to(&[port]));
    std::mem::swap(&mut cluster.postgres, &mut cluster.standby);
}

async fn kill_owner(cluster: &mut Cluster) -> f64 {
    let owner = cluster.owner().await;
    cluster.members[owner].server.kill();
    let begun = Instant::now();
    cluster.owner_among(&cluster.others(owner)).await;
    let seconds = begun.elapsed().as_secs_f64();
    cluster.start_again(owner).await;
    seconds
}

/// Restarts each server once, as a rolling update does, with a program of another version if there
/// is one. The balancer leaves a server out before it stops.
async fn rolling_restart(cluster: &mut Cluster, program: Option<&Path>) -> f64 {
    let mut longest: f64 = 0.0;
    for member in 0..cluster.members.len() {
        let was_owner = cluster.owner().await == member;
        let others = cluster.others(member);
        cluster.members[member].server.process().signal(Signal::Terminate);
        let mut last_seen = Instant::now();
        while cluster.members[member].server.probe("/livez").await.is_some() {
            last_seen = Instant::now();
            sleep(Duration::from_millis(2)).await;
        }
        if was_owner {
            cluster.owner_among(&others).await;
            longest = longest.max(last_seen.elapsed().as_secs_f64());
        }
        let ended_well = cluster.members[member].server.process().ends_well(Duration::from_secs(60));
        assert!(ended_well, "{}", cluster.members[member].server.log());
        cluster.members[member].server.set_program(program);
        cluster.start_again(member).await;
    }
    longest
}

async fn suspend_owner(cluster: &mut Cluster) -> f64 {
    let owner = cluster.owner().await;
    cluster.members[owner].server.process().signal(Signal::Stop);
    let others = cluster.others(owner);
    // As the probes of a balancer would do.
    sleep(Duration::from_secs(1)).await;
    cluster.balance_over(&others);
    cluster.owner_among(&others).await;
    let epoch = || cluster.sql("SELECT epoch, encode(owner, 'hex') FROM shards");
    let before = epoch();
    sleep(Duration::from_secs(5)).await;
    let Member { server, .. } = &mut cluster.members[owner];
    server.process().signal(Signal::Continue);
    let seconds = seconds_of(ended(server)).await;
    assert_eq!(cluster.sql("SELECT epoch, encode(owner, 'hex') FROM shards"), before);
    cluster.start_again(owner).await;
    cluster.balance_over(&cluster.others(usize::MAX));
    seconds
}

async fn cut_owner_from_database(cluster: &mut Cluster) -> f64 {
    let owner = cluster.owner().await;
    cluster.members[owner].to_database.set(Course::Stalls);
    let begun = Instant::now();
    let others = cluster.others(owner);
    cluster.balance_over(&others);
    cluster.owner_among(&others).await;
    let seconds = begun.elapsed().as_secs_f64();
    cluster.members[owner].to_database.set(passes());
    ended(&mut cluster.members[owner].server).await;
    cluster.start_again(owner).await;
    cluster.balance_over(&cluster.others(usize::MAX));
    seconds
}

/// Kills the owner once it has the first megabytes of a key.
async fn kill_owner_during_upload(cluster: &mut Cluster, caller: &Caller) -> f64 {
    let owner = cluster.owner().await;
    cluster.balancer.set(Course::Passes(Duration::from_millis(10)));
    let uploaded = caller.begin_upload();
    let server = &cluster.members[owner].server;
    while server.metric("cloakwork_upload_bytes_total").await < 4e6 {
        assert!(!uploaded.is_finished(), "the upload was too fast");
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(server.metric("cloakwork_uploads_active").await, 1.0, "the upload has not ended");
    cluster.members[owner].server.kill();
    cluster.balancer.set(passes());
    let seconds = seconds_of(async { uploaded.await.expect("no panic") }).await;
    cluster.start_again(owner).await;
    seconds
}

/// The other servers are cut off from workers and from each other, and take calls.
async fn workers_only_at_former_owner(cluster: &mut Cluster, caller: &Caller) -> f64 {
    let owner = cluster.owner().await;
    let others = cluster.others(owner);
    let set = |course| others.iter().for_each(|member| cluster.members[*member].inward.set(course));
    set(Course::Stalls);
    cluster.members[owner].to_database.set(Course::Stalls);
    cluster.balance_over(&others);
    sleep(Duration::from_secs(6)).await;
    set(passes());
    cluster.members[owner].to_database.set(passes());
    let seconds = seconds_of(caller.has_a_job_accepted()).await;
    ended(&mut cluster.members[owner].server).await;
    cluster.start_again(owner).await;
    cluster.balance_over(&cluster.others(usize::MAX));
    seconds
}

/// Names the program of a server of an earlier version, for fault 16.
const EARLIER: &str = "CLOAKWORK_EARLIER";

/// The library of the package `faketime`, which changes the time of day of a process.
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

async fn wrong_clocks(cluster: &mut Cluster) -> f64 {
    let mut owner = cluster.owner().await;
    let others = cluster.others(owner);
    for (&member, time) in others.iter().zip(["+1h", "-1h"]) {
        let Member { server, .. } = &mut cluster.members[member];
        server.stop();
        let variables = [("LD_PRELOAD", FAKETIME), ("FAKETIME", time), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")];
        variables.iter().for_each(|(name, value)| server.set_variable(name, value));
        cluster.start_again(member).await;
    }
    let mut alive = others;
    let mut longest: f64 = 0.0;
    while !alive.is_empty() {
        cluster.members[owner].server.kill();
        let begun = Instant::now();
        owner = cluster.owner_among(&alive).await;
        longest = longest.max(begun.elapsed().as_secs_f64());
        alive.retain(|member| *member != owner);
        // Jobs are accepted, and those of the earlier owner go on.
        sleep(Duration::from_secs(2)).await;
        let difference = cluster.members[owner].server.metric("cloakwork_clock_difference_seconds").await;
        assert!((3590.0..3610.0).contains(&difference), "the clock of the owner is not wrong: {difference}");
    }
    for member in cluster.others(owner) {
        cluster.start_again(member).await;
    }
    longest
}

/// Waits until a server has ended because another one owns its database.
async fn ended(server: &mut cloakwork_tests_service::Server) {
    let begun = Instant::now();
    while server.process().is_running() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it goes on:\n{}", server.log());
        sleep(Duration::from_millis(1)).await;
    }
    assert!(server.log().contains("another server has taken over the shard"), "{}", server.log());
}
