//! Actions that do not wait for the store, tested against a real store that is blocked or fails.

use super::*;
use crate::{error::TENANT_QUEUE_FULL, store::Write, tenant_limits::OwnLimit};

const ENDS: &str = "UPDATE ON jobs WHEN NEW.ended_micros IS NOT NULL";
const NEW_JOBS: &str = "INSERT ON jobs";

#[tokio::test]
async fn an_unpromised_job_begins_and_ends_while_the_store_is_busy() {
    let mut fixture = Fixture::new().await;
    let busy = fixture.database.write(Asker::Upkeep, Rows::All).await.unwrap();
    let mut first = fixture.submit(1, false).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    fixture.waits_for_store().await;
    // The store does not know the job yet, so the result waits.
    let committed = fixture.commit(1);
    fixture.settles().await;
    assert!(first.borrow().end.is_none() && !committed.is_finished());
    busy.commit().await.unwrap();
    succeeded(&mut first).await;
    assert!(committed.await.unwrap().unwrap());

    let mut second = fixture.submit(2, false).await.unwrap().unwrap();
    fixture.wished(&[2]).await;
    fixture.dispatcher.settled().await.unwrap();
    let busy = fixture.database.write(Asker::Upkeep, Rows::All).await.unwrap();
    let committed = fixture.commit(2);
    succeeded(&mut second).await;
    let dispatcher = fixture.dispatcher.clone();
    let settled = tokio::spawn(async move { dispatcher.settled().await });
    fixture.waits_for_store().await;
    // A third call is decided meanwhile, and begins.
    let _third = fixture.submit(3, false).await.unwrap().unwrap();
    fixture.wished(&[2, 3]).await;
    assert!(!committed.is_finished() && !settled.is_finished());
    busy.commit().await.unwrap();
    settled.await.unwrap().unwrap();
    let stored = fixture.store.job(TENANT, JobId(2), true).await.unwrap().expect("the job");
    assert_eq!(stored.state, JobState::Succeeded, "the store has the end before the answer");
    assert!(committed.await.unwrap().unwrap());
    fixture.wished(&[3]).await;
}

#[tokio::test]
async fn a_promised_job_waits_for_the_store() {
    let mut fixture = Fixture::new().await;
    let busy = fixture.database.write(Asker::Upkeep, Rows::All).await.unwrap();
    let submitted = fixture.submit(1, true);
    fixture.waits_for_store().await;
    assert!(fixture.wishes.borrow().as_ref().is_none_or(|leases| leases.is_empty()) && !submitted.is_finished());
    busy.commit().await.unwrap();
    let watched = submitted.await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    fixture.ends_after_the_commit(watched).await;
}

#[tokio::test]
async fn a_handed_over_end_survives_a_failing_store() {
    let mut fixture = Fixture::new().await;
    let mut watched = fixture.submit(1, false).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    fixture.dispatcher.settled().await.unwrap();
    fixture.break_store(ENDS).await;
    assert!(fixture.commit(1).await.unwrap().is_err());
    succeeded(&mut watched).await;
    // A caller that asks during the failure learns of the end, too.
    let job = JobId(1);
    let found = fixture.dispatcher.find(TENANT, job).await.unwrap().expect("the job");
    assert_eq!(found.borrow().state, JobState::Succeeded);
    assert_eq!(fixture.store.job(TENANT, job, true).await.unwrap().expect("the job").state, JobState::Running);
    fixture.heal_store().await;
    fixture.stored(1).await;
    fixture.wished(&[]).await;
    fixture.dispatcher.settled().await.unwrap();
    assert!(fixture.dispatcher.watch(TENANT, job).await.unwrap().is_none(), "only the store knows the job");
    assert_eq!(fixture.commit(1).await.unwrap().ok(), Some(false), "handed in twice");
}

/// The end of job 1 is decided and not committed. A worker that hears of a refusal now would
/// discard its result, which may be needed again.
#[tokio::test]
async fn a_refused_result_waits_for_the_decision_behind_the_refusal() {
    let mut fixture = Fixture::new().await;
    let _watched = fixture.submit(1, true).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    let busy = fixture.database.write(Asker::Upkeep, Rows::All).await.unwrap();
    let first = fixture.commit(1);
    fixture.waits_for_store().await;
    let second = fixture.commit(1);
    fixture.settles().await;
    assert!(!first.is_finished() && !second.is_finished());
    busy.commit().await.unwrap();
    assert!(first.await.unwrap().unwrap());
    assert_eq!(second.await.unwrap().ok(), Some(false), "handed in twice");
}

#[tokio::test]
async fn a_job_that_cannot_be_stored_is_taken_back_from_its_worker() {
    let mut fixture = Fixture::new().await;
    fixture.break_store(NEW_JOBS).await;
    let watched = fixture.submit(1, false).await.unwrap().unwrap();
    lost(watched).await;
    let promised = fixture.submit(2, true).await.unwrap();
    let refused = promised.expect_err("refused");
    assert_eq!(refused.reason().grpc, tonic::Code::Unavailable, "{refused}");
    fixture.wished(&[]).await;
    fixture.heal_store().await;
    let again = loop {
        // Right after the failure, the dispatcher still refuses new jobs.
        match fixture.submit(1, false).await.unwrap() {
            Ok(watched) => break watched,
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    };
    assert!(again.borrow().end.is_none());
    fixture.wished(&[1]).await;
    assert!(fixture.commit(1).await.unwrap().unwrap());
    fixture.stored(1).await;
}

#[tokio::test]
async fn an_early_attempt_withdraws_no_job_from_its_worker() {
    let mut fixture = Fixture::new().await;
    fixture.submit(1, false).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    fixture.dispatcher.settled().await.unwrap();
    let mut busy = fixture.database.write(Asker::Upkeep, Rows::All).await.unwrap();
    let _second = fixture.submit(2, false).await.unwrap().unwrap();
    fixture.wished(&[1, 2]).await;
    fixture.waits_for_store().await;
    // Both commands form one transaction behind the blocked one. Job 1 ends only with their commit,
    // which fails.
    let (committed, third) = (fixture.commit(1), fixture.submit(3, false).await.unwrap().unwrap());
    fixture.wished(&[1, 2, 3]).await;
    busy.script(broken(ENDS)).await.unwrap();
    busy.commit().await.unwrap();
    lost(third).await;
    assert!(committed.await.unwrap().is_err());
    fixture.heal_store().await;
    fixture.stored(1).await;
    fixture.wished(&[2]).await;
}

/// The second transaction ends job 1 while the first is on its way. The worker keeps the lease
/// until the second commit, so that it can hand the result in again.
#[tokio::test]
async fn no_lease_is_withdrawn_before_the_commit_of_the_end() {
    let mut fixture = Fixture::new().await;
    let mut first = fixture.submit(1, true).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    let mut busy = fixture.database.write(Asker::Upkeep, Rows::All).await.unwrap();
    let second = fixture.submit(2, true);
    fixture.waits_for_store().await;
    let held = fixture.always_wished(1);
    let committed = fixture.commit(1);
    fixture.settles().await;
    busy.script(broken(ENDS)).await.unwrap();
    busy.commit().await.unwrap();
    second.await.unwrap().unwrap();
    fixture.wished(&[1, 2]).await;
    assert!(committed.await.unwrap().is_err(), "the end is not stored");
    assert!(first.borrow_and_update().end.is_none());
    assert!(!held.is_finished(), "the lease was withdrawn");
    held.abort();
    fixture.heal_store().await;
    loop {
        // Right after the failure, the dispatcher still refuses results.
        match fixture.commit(1).await.unwrap() {
            Ok(taken) => break assert!(taken, "the worker still holds the lease"),
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
    succeeded(&mut first).await;
    fixture.wished(&[2]).await;
}

/// Answers wait for the store. Without their limit, commands would fill the memory while the store
/// stands still.
#[tokio::test]
async fn no_command_is_taken_while_too_many_answers_wait_for_the_store() {
    let fixture = Fixture::new().await;
    let busy = fixture.database.write(Asker::Upkeep, Rows::All).await.unwrap();
    let submitted = fixture.submit(1, true);
    fixture.waits_for_store().await;
    // The transaction on its way has the first answer. These answers wait for the next one.
    let commands = &fixture.dispatcher.commands;
    let settled = || {
        let (reply, answer) = oneshot::channel();
        commands.try_send(Command::Settled { reply }).map(|()| answer).expect("a place in the queue")
    };
    let taken = async || {
        while commands.capacity() < commands.max_capacity() {
            tokio::task::yield_now().await;
        }
    };
    let mut waiting: Vec<_> = (1..actor::ANSWERS_MAX).map(|_| settled()).collect();
    timeout(STEP_TIMEOUT, taken()).await.expect("the dispatcher takes commands");
    waiting.push(settled());
    timeout(STEP_TIMEOUT, taken()).await.expect("there is room for one more answer");
    waiting.push(settled());
    yield_often().await;
    assert_eq!(commands.max_capacity() - commands.capacity(), 1, "one command waits");
    assert!(!submitted.is_finished());
    busy.commit().await.unwrap();
    submitted.await.unwrap().unwrap();
    for answer in waiting {
        timeout(STEP_TIMEOUT, answer).await.expect("the dispatcher goes on").unwrap();
    }
}

/// Answers wait for the transaction on its way, commands wait for room among the answers, and
/// timers wait for commands. A timer that still woke the dispatcher would occupy a core until the
/// store answers.
#[tokio::test]
async fn no_timer_wakes_the_dispatcher_while_commands_wait_for_the_store() {
    let mut fixture = Fixture::new().await;
    let (commands, mut actor, _) = fixture.actor_with_worker().await;
    commands.try_send(Command::Settled { reply: oneshot::channel().0 }).expect("room for a command");
    fixture.time.advance(Duration::from_millis(Limits::default().lease_ms));
    actor.decided.writes.push(Write::Confirmed(JobId(1)));
    actor.settle().await;
    assert!(actor.commit.is_some() && actor.next_wake() <= std::time::Instant::now(), "a timer is due");
    actor.decided.answers.extend((0..actor::ANSWERS_MAX).map(|_| decided::Answer::Settled(oneshot::channel().0)));
    assert!(actor.next_wake() > std::time::Instant::now() + STEP_TIMEOUT);
}

/// The age of the oldest job is a gauge, and grows while nothing happens.
#[tokio::test]
async fn gauges_are_renewed_while_a_job_waits() {
    let mut fixture = Fixture::new().await;
    let (commands, mut actor) = fixture.restored().await;
    let time = fixture.time.clone();
    let gauges_due_micros = async |actor: &mut actor::Actor| {
        time.advance(Duration::from_secs(1));
        commands.try_send(Command::Settled { reply: oneshot::channel().0 }).expect("room for a command");
        actor.round(&mut Vec::new()).await;
        actor.gauges_due_micros()
    };
    assert_eq!(gauges_due_micros(&mut actor).await, None);
    let share = FairShare::new(10, 10).take(&Arc::from(TENANT), 1).await;
    actor.submit(fixture.job(1), true, share, oneshot::channel().0).await;
    let due_micros = gauges_due_micros(&mut actor).await.expect("a job waits");
    time.advance(Duration::from_secs(6));
    assert!(due_micros <= actor.uptime.micros());
}

#[tokio::test]
async fn a_tenant_may_have_a_limit_of_jobs_of_its_own() {
    let mut fixture = Fixture::new().await;
    fixture.stop().await;
    let tenant_limits = TenantLimits::of_one(TENANT, OwnLimit::QueuedJobs, 1);
    (fixture.dispatcher, fixture.running) = start(Parts { tenant_limits, ..fixture.parts() }).await;
    let _first = fixture.submit(1, true).await.unwrap().unwrap();
    let refused = fixture.submit(2, true).await.unwrap().unwrap_err();
    assert_eq!((refused.reason(), refused.message()), (TENANT_QUEUE_FULL, "1 jobs have not ended: that is the limit"));
}

/// The bytes of a result stay until its commit, although the call that handed it in has ended. A
/// worker that breaks its connection again and again would otherwise fill the memory.
#[tokio::test]
async fn a_result_counts_until_its_commit_although_its_call_has_ended() {
    for promised in [true, false] {
        let mut fixture = Fixture::new().await;
        let _watched = fixture.submit(1, promised).await.unwrap().unwrap();
        fixture.wished(&[1]).await;
        fixture.dispatcher.settled().await.unwrap();
        let memory = FairShare::new(10, 10);
        let busy = fixture.database.write(Asker::Upkeep, Rows::All).await.unwrap();
        let call = fixture.commit_counted(1, Some(memory.take(&WORKER, 6).await));
        fixture.waits_for_store().await;
        call.abort();
        assert!(call.await.is_err_and(|ended| ended.is_cancelled()));
        fixture.settles().await;
        assert!(memory.held() == 6 && fixture.dispatcher.writes.held() > 0);
        busy.commit().await.unwrap();
        fixture.stored(1).await;
        fixture.dispatcher.settled().await.unwrap();
        assert_eq!((memory.held(), fixture.dispatcher.writes.held()), (0, 0));
    }
}

/// A job that waits when the store fails is as old afterwards as before.
#[tokio::test]
async fn a_failure_of_the_store_makes_no_job_older() {
    let mut fixture = Fixture::new().await;
    fixture.time.advance(Duration::from_secs(3600));
    let mut actor = fixture.actor().await;
    fixture.time.advance(Duration::from_secs(60));
    let share = FairShare::new(1, 1).share(&TENANT.into());
    actor.submit(fixture.job(1), true, share, oneshot::channel().0).await;
    actor.finish().await;
    let before = actor.scheduler.stats().oldest_queued;
    assert!(before.is_some_and(|micros| micros > 0));
    actor.reload(false).await.unwrap();
    assert_eq!(actor.scheduler.stats().oldest_queued, before);
}

/// A database that lost commits may have lost programs with them, which jobs after the reload bring
/// again.
#[tokio::test]
async fn jobs_after_a_reload_bring_their_programs_again() {
    let mut fixture = Fixture::new().await;
    let mut actor = fixture.actor().await;
    let shares = FairShare::new(2, 2);
    actor.submit(fixture.job(1), true, shares.share(&TENANT.into()), oneshot::channel().0).await;
    actor.finish().await;
    fixture.alter("DELETE FROM jobs; DELETE FROM programs".to_owned()).await;
    actor.reload(false).await.unwrap();
    let second = fixture.job(2);
    let program = second.meta.program;
    actor.submit(second, true, shares.share(&TENANT.into()), oneshot::channel().0).await;
    actor.finish().await;
    assert!(fixture.store.program(TENANT, program).await.unwrap().is_some());
}

/// Neither reads nor writes work. Callers are refused at once, and the dispatcher goes on when the
/// store is back.
#[tokio::test]
async fn calls_are_refused_while_the_store_is_away() {
    let mut fixture = Fixture::new().await;
    let mut held = fixture.submit(1, true).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    fixture.alter("ALTER TABLE jobs RENAME TO away".to_owned()).await;
    let waiting = fixture.submit(2, false).await.unwrap().unwrap();
    lost(waiting).await;
    for promised in [true, false] {
        let refused = timeout(STEP_TIMEOUT, fixture.submit(3, promised)).await.expect("an answer").unwrap();
        assert_eq!(refused.expect_err("refused").reason().grpc, tonic::Code::Unavailable);
    }
    let refused = timeout(STEP_TIMEOUT, fixture.commit(1)).await.expect("an answer").unwrap();
    assert_eq!(refused.expect_err("refused").reason().grpc, tonic::Code::Unavailable);
    fixture.dispatcher.settled().await.unwrap();
    assert!(held.borrow_and_update().end.is_none());
    fixture.alter("ALTER TABLE away RENAME TO jobs".to_owned()).await;
    fixture.wished(&[1]).await;
    loop {
        match fixture.commit(1).await.unwrap() {
            Ok(taken) => break assert!(taken, "the worker still holds the lease"),
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
    succeeded(&mut held).await;
}

/// Reads and writes both fail, so memory still holds void decisions. Without the pause, the
/// dispatcher would ask the store again and again.
#[tokio::test]
async fn a_dispatcher_without_its_store_waits_before_it_asks_again_and_takes_no_events() {
    let mut fixture = Fixture::new().await;
    let (_commands, mut actor, _) = fixture.actor_with_worker().await;
    fixture.alter("ALTER TABLE jobs RENAME TO away".to_owned()).await;
    let before = std::time::Instant::now();
    actor.decided.writes.push(Write::Confirmed(JobId(1)));
    actor.finish().await;
    let pause_end = actor.stall.as_ref().expect("the store is away").until;
    assert!(actor.is_void() && pause_end >= before + recover::STORE_RETRY_PAUSE);
    let other = WorkerId(2);
    actor.step(Event::Reported { worker: other, report: report(other).report.clone() });
    assert_eq!(actor.scheduler.stats().pools["cpu"].workers, 1, "the scheduler takes no events");
    fixture.alter("ALTER TABLE away RENAME TO jobs".to_owned()).await;
    actor.stall.as_mut().unwrap().until = before + TIME_LIMIT;
    assert!(!actor.resume().await && actor.is_void(), "the pause is not over");
    actor.stall.as_mut().unwrap().until = before;
    actor.resume().await;
    assert!(!actor.is_void(), "memory is as the store");
}

/// The dispatcher reads the work of jobs as the server. In the tenants' line, these reads would
/// wait behind a tenant's queries and hold up the workers.
#[tokio::test]
async fn the_dispatcher_does_not_wait_behind_the_queries_of_tenants() {
    let mut fixture = Fixture::new().await;
    let _watched = fixture.submit(1, true).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    fixture.restart().await;
    // The line of the tenants has a single place.
    let _query = fixture.database.read(Asker::Tenant(TENANT)).await.unwrap();
    let mut watched = fixture.dispatcher.watch(TENANT, JobId(1)).await.unwrap().expect("the job");
    // The work is no longer in memory. A read of the work fails, because there is no such key.
    let _worker = fixture.dispatcher.attach(report_of(WORKER, &[1]), Seat::Here).await.unwrap();
    let ended = timeout(STEP_TIMEOUT / 2, watched.wait_for(|view| view.end.is_some())).await;
    let error = ended.expect("an end in time").unwrap().end.clone().and_then(|end| end.error.clone());
    assert_eq!(error.expect("a failure").reason, "KEY_NOT_FOUND");
}

/// Late records share a transaction, which waits until the records are due or the server stops.
#[tokio::test]
async fn late_records_are_written_once_they_are_due() {
    let mut fixture = Fixture::new().await;
    let mut actor = fixture.actor().await;
    let now = std::time::Instant::now();
    let (past, future) = (now.checked_sub(Duration::from_secs(1)).unwrap(), now + TIME_LIMIT);
    for (since, stopped, due) in [(future, false, false), (future, true, true), (past, false, true)] {
        actor.late = vec![Write::Closed(JobId(1), LatencyRecord::default())];
        (actor.late_since, actor.stopped) = (Some(since), stopped);
        actor.settle().await;
        assert_eq!((actor.commit.is_some(), actor.late.is_empty()), (due, due));
        actor.finish().await;
    }
}

/// The job ended after its second request had looked for it in the store, and the dispatcher has
/// forgotten the job.
#[tokio::test]
async fn a_repeated_request_gets_the_result_of_a_job_that_has_just_ended() {
    let mut fixture = Fixture::new().await;
    let again = [true, false].map(|promised| (promised, fixture.job(1)));
    let mut first = fixture.submit(1, true).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    assert!(fixture.commit(1).await.unwrap().unwrap());
    succeeded(&mut first).await;
    fixture.dispatcher.settled().await.unwrap();
    assert!(fixture.dispatcher.watch(TENANT, JobId(1)).await.unwrap().is_none(), "only the store knows the job");
    for (promised, job) in again {
        let answer = timeout(STEP_TIMEOUT, fixture.send(job, promised)).await.expect("in time").unwrap();
        let found = answer.unwrap();
        let view = found.borrow();
        assert_eq!((view.meta.id, view.end.as_ref().expect("an end").outputs.len()), (JobId(1), 1));
    }
}

/// Waits until the watch of a job that could not be stored has ended.
async fn lost(mut watched: Watched) {
    let ended = timeout(STEP_TIMEOUT, watched.wait_for(|view| view.end.is_some())).await.expect("in time");
    assert!(ended.is_err(), "a job that is not stored has no end");
}

/// Another server may own the database by now, and may never learn of this job.
#[tokio::test]
async fn a_server_that_may_not_be_the_owner_publishes_nothing_before_its_commit() {
    let Some((mut fixture, ownership)) = Fixture::owned().await else { return };
    ownership.expire();
    let busy = fixture.database.write(Asker::Upkeep, Rows::All).await.unwrap();
    let watched = fixture.submit(1, false).await.unwrap().unwrap();
    fixture.waits_for_store().await;
    fixture.settles().await;
    fixture.wished(&[]).await;
    busy.commit().await.unwrap();
    fixture.wished(&[1]).await;
    fixture.ends_after_the_commit(watched).await;
}

/// A server that was suspended would tell a worker to drop the jobs that the worker computes for
/// the next owner.
#[tokio::test]
async fn a_server_that_may_not_be_the_owner_gives_a_worker_no_orders() {
    let Some((fixture, ownership)) = Fixture::owned().await else { return };
    let before = fixture.dispatcher.attach(report(WorkerId(2)), Seat::Here).await.unwrap().0;
    timeout(STEP_TIMEOUT, before.clone().wait_for(Option::is_some)).await.expect("orders of the owner").unwrap();
    ownership.expire();
    fixture.alter("UPDATE shards SET epoch = epoch + 1".to_owned()).await;
    let (after, _) = fixture.dispatcher.attach(report_of(WorkerId(3), &[1]), Seat::Here).await.unwrap();
    timeout(STEP_TIMEOUT, ownership.lost()).await.expect("it asks the database");
    assert!(after.borrow().is_none());
}
