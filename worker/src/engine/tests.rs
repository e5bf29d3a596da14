//! Assignment of jobs to waves, on a device whose waves end when the test says so.

use std::{collections::BTreeMap, pin::pin};

use bytes::Bytes;
use cloakwork_circuit::{Graph, Node, Output, Table, Term};
use cloakwork_device::CurvePoint;
use cloakwork_params::{
    KeyId, ParameterSet,
    table::{by_name, companion_of},
};
use cloakwork_proto::v1::{self, LeaseStage};
use tokio::sync::oneshot;
use tonic::transport::Endpoint;

use super::{job::Finished, *};
use crate::{
    blob::BlobReader,
    connection::{Uplink, client},
    inputs::Rows,
    key_cache::{KeyCache, KeyRequest},
    latency::{Stage, Stopwatch},
    test_device::{TestDevice, WAVE_WIDTH},
};

/// An idle time that no test reaches: the tests wait for a minute at most.
const LONG_IDLE_TIME: Duration = Duration::from_secs(3600);

struct TestBed {
    device: Arc<TestDevice>,
    engine: Engine,
    keys: Arc<KeyCache>,
}

/// A submitted job.
struct SubmittedJob {
    id: u64,
    status: Arc<JobStatus>,
    done: oneshot::Receiver<Result<Finished, JobFailure>>,
}

/// Parameters of a job to submit. Its lanes carry its number as their constant.
struct JobSpec {
    number: u64,
    key: u8,
    /// Entries of the lookup table.
    table: i64,
    rows: usize,
    chain: usize,
    /// Whether the row's values are needed to the end.
    holds: bool,
    priority: i32,
    /// Whether the key of the set's companion is resident too.
    has_companion: bool,
    /// Whether the results may be noisier.
    may_be_noisier: bool,
}

impl JobSpec {
    fn new(number: u64, rows: usize) -> Self {
        let (has_companion, may_be_noisier) = (false, true);
        Self { number, key: 1, table: 0, rows, chain: 1, holds: true, priority: 0, has_companion, may_be_noisier }
    }
}

/// Inputs whose words do not matter.
struct NoRows;

impl Rows for NoRows {
    fn write(
        &self,
        _: std::ops::Range<usize>,
        device: &dyn Device,
        arena: cloakwork_device::Arena,
        slots: &[u32],
    ) -> Result<(), cloakwork_device::DeviceError> {
        device.write(arena, slots, cloakwork_device::Words::U64(&[]))
    }
}

fn set() -> &'static ParameterSet {
    by_name("TOY_MESSAGE_2_CARRY_2").expect("a set")
}

/// A set that has a companion.
fn set_with_companion() -> &'static ParameterSet {
    by_name("TOY_MESSAGE_2_CARRY_2_N2048").expect("a set")
}

/// A chain of lookups. With `holds`, the last lookup needs all values before it, so that no slot is
/// free before the end.
fn graph(set: &'static ParameterSet, spec: &JobSpec) -> Graph {
    let JobSpec { number, chain: length, may_be_noisier, .. } = *spec;
    let first = |index: usize| if spec.holds && index + 1 == length { 0 } else { index };
    let node = |index: usize| Node {
        terms: (first(index)..=index).map(|value| Term { value, factor: 1 }).collect(),
        constant: number,
        table: Some(0),
        first_value: index + 1,
        may_be_noisier,
    };
    Graph {
        set,
        inputs: vec![1],
        tables: vec![Table::Functions(vec![vec![spec.table; 16]])],
        nodes: (0..length).map(node).collect(),
        outputs: vec![vec![Output { value: length, degree: 15, noise_level: 1 }]],
    }
}

impl TestBed {
    fn new(slots: u32) -> Self {
        Self::on(TestDevice::new(slots))
    }

    fn on(device: TestDevice) -> Self {
        Self::with_keys(device, 1 << 20)
    }

    /// A test bed with `key_bytes` bytes for keys. Its last group stays.
    fn with_keys(device: TestDevice, key_bytes: u64) -> Self {
        Self::of(device, key_bytes, 1 << 20, LONG_IDLE_TIME)
    }

    /// A test bed with arenas of `arena_bytes`. Its last group stays for `idle_group_time` without
    /// jobs.
    fn of(device: TestDevice, key_bytes: u64, arena_bytes: u64, idle_group_time: Duration) -> Self {
        let device = Arc::new(device);
        let engine = Engine::start_with_idle_time(device.clone(), arena_bytes, idle_group_time, Observer::default())
            .expect("a thread");
        let keys = Arc::new(KeyCache::new(device.clone(), key_bytes, Arc::default(), None));
        Self { device, engine, keys }
    }

    async fn submit(&self, spec: JobSpec) -> SubmittedJob {
        let channel = Endpoint::from_static("http://127.0.0.1:1").connect_lazy();
        let set = if spec.has_companion { set_with_companion() } else { set() };
        let blobs = BlobReader {
            client: client(Uplink::new(channel), None).expect("a client"),
            worker_id: Bytes::new(),
            lease: v1::Lease::default(),
            store: None,
            trace: None,
        };
        let request = |set: &'static ParameterSet| {
            let group = GroupId { group: Bytes::new(), key_id: KeyId([spec.key; 16]), set: set.id, parts: [0; 32] };
            KeyRequest { group, set, parts: Vec::new(), blobs: blobs.clone() }
        };
        let (key, _) = self.keys.get(&request(set), |_| ()).await.expect("a key");
        let companion = match companion_of(set) {
            Some(companion) => self.keys.companion(&request(companion.set), |_| ()).await.expect("no failure"),
            None => None,
        };
        let (sender, done) = oneshot::channel();
        let (id, status) = (self.engine.job_id(), Arc::<JobStatus>::default());
        self.engine.submit(EngineJob {
            id,
            group: request(set).group,
            key,
            companion: companion.map(|(companion, _)| companion),
            plan: Arc::new(Plan::new(graph(set, &spec))),
            inputs: vec![Box::new(NoRows)],
            rows: spec.rows,
            priority: spec.priority,
            deadline: None,
            status: status.clone(),
            stopwatch: Stopwatch::start(std::time::Instant::now()),
            trace: None,
            waves: Vec::new(),
            done: Some(sender),
        });
        SubmittedJob { id, status, done }
    }

    /// Runs a job of one bootstrap to its end.
    async fn run_single(&self, spec: JobSpec) {
        let single = self.submit(spec).await;
        self.device.next_wave();
        self.device.end_oldest();
        single.done.await.expect("an end").expect("a result");
    }

    /// Ends the oldest wave and waits for its successor. Returns the number of lanes by the number
    /// of their job.
    fn next(&self) -> BTreeMap<u64, usize> {
        self.device.end_oldest();
        self.device.next_wave()
    }
}

fn stage(submitted: &SubmittedJob) -> LeaseStage {
    LeaseStage::try_from(submitted.status.read().0).expect("a stage")
}

#[tokio::test]
async fn an_arena_stays_for_the_next_job_of_its_group_and_goes_when_another_group_begins() {
    let bed = TestBed::new(100);
    bed.run_single(JobSpec::new(1, 1)).await;
    let first = bed.device.arenas();
    assert_eq!(first.len(), 1);
    bed.run_single(JobSpec::new(2, 1)).await;
    assert_eq!(bed.device.arenas(), first);
    bed.run_single(JobSpec { key: 2, ..JobSpec::new(3, 1) }).await;
    let second = bed.device.arenas();
    assert_eq!((second.len(), second.is_disjoint(&first)), (1, true));
    assert_eq!(bed.device.arenas_most(), 1, "the first one goes before the second is made");
    let device = bed.device.clone();
    drop(bed);
    assert!(device.arenas().is_empty(), "an engine that ends leaves no arena of ended jobs");
}

#[tokio::test]
async fn a_large_arena_does_not_stay() {
    // A job of one bootstrap takes a slot for its input and one for its result.
    for (slot_bytes, stays) in [(core::IDLE_ARENA_BYTES_MAX / 8, true), (core::IDLE_ARENA_BYTES_MAX, false)] {
        let bed = TestBed::of(TestDevice::new(100), 1 << 20, 100 * slot_bytes, LONG_IDLE_TIME);
        bed.run_single(JobSpec::new(1, 1)).await;
        if stays {
            let first = bed.device.arenas();
            bed.run_single(JobSpec::new(2, 1)).await;
            assert_eq!(bed.device.arenas(), first);
        } else {
            bed.device.no_arenas();
        }
    }
}

#[tokio::test]
async fn tables_of_an_ended_job_stay_only_if_no_other_job_is_left() {
    let bed = TestBed::new(10_000);
    bed.run_single(JobSpec::new(1, 1)).await;
    let kept = bed.device.tables();
    assert_eq!(kept.len(), 1);
    bed.run_single(JobSpec::new(2, 1)).await;
    assert_eq!(bed.device.tables(), kept, "its successor uses them");
    bed.run_single(JobSpec { table: 1, ..JobSpec::new(3, 1) }).await;
    assert!(bed.device.tables().is_disjoint(&kept), "they go when the next job uses others");
    let long = bed.submit(JobSpec::new(4, 2 * WAVE_WIDTH)).await;
    bed.device.next_wave();
    bed.device.next_wave();
    let short = bed.submit(JobSpec { table: 1, ..JobSpec::new(5, 1) }).await;
    bed.device.end_oldest();
    assert_eq!(bed.next(), BTreeMap::from([(5, 1)]));
    long.done.await.expect("an end").expect("a result");
    assert_eq!(bed.device.tables().len(), 1, "those of the ended job go while the other one runs");
    bed.device.end_oldest();
    short.done.await.expect("an end").expect("a result");
}

#[tokio::test]
async fn an_engine_that_polls_takes_jobs_and_ends() {
    let mut device = TestDevice::new(10_000);
    device.leaves_host_free = true;
    let bed = TestBed::on(device);
    let long = bed.submit(JobSpec { chain: 3, ..JobSpec::new(1, 1) }).await;
    bed.device.next_wave();
    // A job that comes while the engine polls, and one after it has fallen asleep.
    let second = bed.submit(JobSpec::new(2, 1)).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    let third = bed.submit(JobSpec::new(3, 1)).await;
    let mut lanes = 0;
    while lanes < 4 {
        lanes += bed.next().values().sum::<usize>();
    }
    bed.device.end_oldest();
    for job in [long, second, third] {
        job.done.await.expect("an end").expect("a result");
    }
}

#[tokio::test]
async fn an_arena_without_jobs_is_dropped_after_a_while() {
    let bed = TestBed::of(TestDevice::new(100), 1 << 20, 1 << 20, Duration::from_millis(20));
    bed.run_single(JobSpec::new(1, 1)).await;
    bed.device.no_arenas();
    // The engine still takes jobs.
    bed.run_single(JobSpec::new(2, 1)).await;
}

const GIANT_ROWS: usize = 1_000_000;

#[tokio::test]
async fn a_single_bootstrap_joins_the_next_wave_of_a_giant_job() {
    let bed = TestBed::new(10_000);
    let _giant = bed.submit(JobSpec::new(1, GIANT_ROWS)).await;
    for _ in 0..2 {
        assert_eq!(bed.device.next_wave(), BTreeMap::from([(1, WAVE_WIDTH)]));
    }
    let single = bed.submit(JobSpec::new(2, 1)).await;
    assert_eq!(bed.next(), BTreeMap::from([(1, WAVE_WIDTH - 1), (2, 1)]));
    bed.next();
    bed.next();
    assert_eq!(single.done.await.expect("an end").expect("a result").outputs.len(), 1);
}

#[tokio::test]
async fn a_single_bootstrap_under_another_key_does_not_wait_for_the_end_of_a_giant_job() {
    let bed = TestBed::new(10_000);
    let _giant = bed.submit(JobSpec::new(1, GIANT_ROWS)).await;
    bed.device.next_wave();
    bed.device.next_wave();
    for number in 2..10 {
        let single = bed.submit(JobSpec { key: 2, ..JobSpec::new(number, 1) }).await;
        // When the job came, two waves were on the device, and the giant's turn may come before its
        // own.
        let waves = [bed.next(), bed.next(), bed.next(), bed.next()];
        assert!(waves.contains(&BTreeMap::from([(number, 1)])), "{waves:?}");
        assert!(waves.contains(&BTreeMap::from([(1, WAVE_WIDTH)])), "the giant goes on: {waves:?}");
        bed.next();
        bed.next();
        assert!(single.done.await.expect("an end").is_ok());
    }
}

#[tokio::test]
async fn jobs_of_equal_priority_share_the_waves() {
    const GIANTS: u64 = 8;
    let bed = TestBed::new(100_000);
    let mut submitted = Vec::new();
    for number in 0..GIANTS {
        submitted.push(bed.submit(JobSpec::new(number, GIANT_ROWS)).await);
    }
    bed.device.next_wave();
    bed.device.next_wave();
    (0..GIANTS).for_each(|_| drop(bed.next()));
    for round in 0..5 {
        let number = 100 + round;
        let single = bed.submit(JobSpec::new(number, 1)).await;
        // Two jobs share a wave.
        let waves: Vec<_> = (0..=GIANTS / 2 + 1).map(|_| bed.next()).collect();
        for number in (0..GIANTS).chain([number]) {
            assert!(waves.iter().any(|wave| wave.contains_key(&number)), "{number} waits: {waves:?}");
        }
        bed.next();
        bed.next();
        assert!(single.done.await.expect("an end").is_ok());
    }
}

#[tokio::test]
async fn many_single_bootstraps_do_not_starve_a_giant_job() {
    let bed = TestBed::new(100_000);
    let _giant = bed.submit(JobSpec::new(1, GIANT_ROWS)).await;
    bed.device.next_wave();
    bed.device.next_wave();
    let (mut number, mut submitted) = (1, Vec::new());
    let mut last = 0;
    for wave in 1..=20 {
        // More jobs than a wave has lanes.
        for _ in 0..WAVE_WIDTH * 2 {
            number += 1;
            submitted.push(bed.submit(JobSpec::new(number, 1)).await);
        }
        if bed.next().contains_key(&1) {
            last = wave;
        }
        // The giant waits for the singles that came before its last turn, and their number grows
        // with each turn.
        assert!(wave <= 2 * last + 2, "the giant waits for longer than the singles that came before it take");
    }
}

#[tokio::test]
async fn a_job_of_few_slots_begins_though_long_rows_hold_most_of_them() {
    let bed = TestBed::new(64);
    // A row takes 21 slots, so that three rows would take 63 of 64.
    let _giant = bed.submit(JobSpec { chain: 20, ..JobSpec::new(1, GIANT_ROWS) }).await;
    assert_eq!(bed.device.next_wave(), BTreeMap::from([(1, 2)]));
    let _single = bed.submit(JobSpec::new(2, 1)).await;
    assert_eq!(bed.next(), BTreeMap::from([(1, 2), (2, 1)]));
}

#[tokio::test]
async fn rows_under_several_keys_together_take_no_more_memory_than_there_is() {
    let bed = TestBed::new(640);
    let mut first = bed.submit(JobSpec { chain: 400, ..JobSpec::new(1, 1) }).await;
    assert_eq!(bed.device.next_wave(), BTreeMap::from([(1, 1)]));
    // The second row is as large as the first, so one waits for the other. The third row is small.
    let _second = bed.submit(JobSpec { key: 2, chain: 400, ..JobSpec::new(2, 1) }).await;
    let _third = bed.submit(JobSpec { key: 3, ..JobSpec::new(3, 1) }).await;
    let before: Vec<_> = std::iter::from_fn(|| Some(bed.next()).filter(|wave| !wave.contains_key(&2))).collect();
    assert!(first.done.try_recv().is_ok_and(|end| end.is_ok()), "the second did not wait for the first");
    assert_eq!(before.iter().position(|wave| wave.contains_key(&3)).map(|place| place < 3), Some(true), "{before:?}");
}

#[tokio::test]
async fn a_row_with_more_values_than_slots_uses_a_narrow_window() {
    let bed = TestBed::new(64);
    let mut long = bed.submit(JobSpec { chain: 400, holds: false, ..JobSpec::new(1, 2) }).await;
    assert_eq!(bed.device.next_wave(), BTreeMap::from([(1, 1)]), "there is no room for both rows");
    let mut waves = 1;
    while long.done.try_recv().is_err() {
        bed.device.end_oldest();
        waves += usize::from(bed.device.wave_within(Duration::from_millis(100)).is_some());
    }
    assert_eq!(waves, 800);
    let held = bed.submit(JobSpec { chain: 400, ..JobSpec::new(2, 1) }).await;
    let failure = held.done.await.expect("an end").map(drop).expect_err("the row has no room");
    assert_eq!((failure.reason, failure.retryable), ("PROGRAM_TOO_LARGE", false));
}

#[tokio::test]
async fn a_wave_that_finds_no_memory_is_split() {
    let bed = TestBed::new(10_000);
    let mut submitted = bed.submit(JobSpec { chain: 2, ..JobSpec::new(1, WAVE_WIDTH) }).await;
    assert_eq!(bed.device.next_wave(), BTreeMap::from([(1, WAVE_WIDTH)]));
    bed.device.refuse_oldest();
    let mut lanes = 0;
    while submitted.done.try_recv().is_err() {
        if let Some(wave) = bed.device.wave_within(Duration::from_millis(100)) {
            assert!(wave[&1] <= WAVE_WIDTH / 2, "{wave:?}");
            lanes += wave[&1];
            bed.device.end_oldest();
        }
    }
    assert_eq!(lanes, 2 * WAVE_WIDTH);
}

#[tokio::test]
async fn a_wave_that_finds_no_memory_is_retried_with_its_first_slots() {
    for results in [1, 4, 5] {
        let bed = TestBed::new(10_000);
        // Memory for the inputs of a wave, and for some of its results.
        bed.device.leave((WAVE_WIDTH + results) as u32);
        let mut submitted = bed.submit(JobSpec::new(1, WAVE_WIDTH)).await;
        let mut lanes = 0;
        let end = loop {
            if let Ok(end) = submitted.done.try_recv() {
                break end;
            }
            if let Some(wave) = bed.device.wave_within(Duration::from_millis(100)) {
                assert!(wave[&1] <= results, "{wave:?}");
                lanes += wave[&1];
                bed.device.end_oldest();
            }
        };
        assert!(end.is_ok(), "{:?}", end.err());
        assert_eq!(lanes, WAVE_WIDTH);
    }
}

#[tokio::test]
async fn a_row_without_memory_waits_for_other_rows_or_fails_if_there_are_none() {
    for key in [1, 2] {
        let bed = TestBed::new(10_000);
        let first = bed.submit(JobSpec::new(1, 2)).await;
        assert_eq!(bed.device.next_wave(), BTreeMap::from([(1, 2)]));
        // Two inputs and two results occupy all memory.
        bed.device.leave(if key == 1 { 4 } else { 0 });
        let mut second = bed.submit(JobSpec { key, ..JobSpec::new(2, 1) }).await;
        assert_eq!(bed.device.wave_within(Duration::from_millis(50)), None);
        assert!(second.done.try_recv().is_err(), "the second job has not ended");
        if key == 2 {
            // Each group has an arena of its own, so in this case the memory comes from elsewhere.
            bed.device.leave(2);
        }
        bed.device.end_oldest();
        assert!(first.done.await.expect("an end").is_ok());
        assert_eq!(bed.device.next_wave(), BTreeMap::from([(2, 1)]));
        bed.device.end_oldest();
        assert!(second.done.await.expect("an end").is_ok());
        // No other job has memory to give.
        bed.device.leave(0);
        let third = bed.submit(JobSpec { key: 3, ..JobSpec::new(3, 1) }).await;
        let failure = third.done.await.expect("an end").err().expect("no memory");
        assert!(failure.reason == "WORKER_OUT_OF_MEMORY" && failure.retryable, "{failure:?}");
    }
}

#[tokio::test]
async fn the_wait_for_memory_of_other_groups_is_bounded() {
    let bed = TestBed::new(10_000);
    let _giant = bed.submit(JobSpec::new(1, GIANT_ROWS)).await;
    bed.device.next_wave();
    bed.device.next_wave();
    bed.device.leave_none_to_later_arenas();
    let began = std::time::Instant::now();
    let mut other = bed.submit(JobSpec { key: 2, ..JobSpec::new(2, 1) }).await;
    let failure = loop {
        if let Ok(end) = other.done.try_recv() {
            break end.err().expect("no memory");
        }
        // Without the pause, the giant job would end too soon.
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(bed.next(), BTreeMap::from([(1, WAVE_WIDTH)]));
    };
    assert!(failure.reason == "WORKER_OUT_OF_MEMORY" && failure.retryable, "{failure:?}");
    assert!(began.elapsed() >= group::OTHER_GROUPS_MEMORY_TIMEOUT);
}

#[tokio::test]
async fn rows_begin_in_smaller_batches_if_memory_is_short() {
    let bed = TestBed::new(10_000);
    bed.device.leave(6);
    let mut submitted = bed.submit(JobSpec::new(1, 16)).await;
    let mut lanes = 0;
    let end = loop {
        if let Ok(end) = submitted.done.try_recv() {
            break end;
        }
        if let Some(wave) = bed.device.wave_within(Duration::from_millis(100)) {
            lanes += wave[&1];
            bed.device.end_oldest();
        }
    };
    assert!(end.is_ok(), "{:?}", end.err());
    assert_eq!(lanes, 16);
}

#[tokio::test]
async fn slots_of_a_cancelled_job_are_free_for_others() {
    let bed = TestBed::new(64);
    for number in 0..10 {
        // One row runs alone, because the arena has no room for two.
        let submitted = bed.submit(JobSpec { chain: 40, ..JobSpec::new(number, 2) }).await;
        assert_eq!(bed.device.next_wave(), BTreeMap::from([(number, 1)]));
        bed.next();
        bed.engine.cancel(submitted.id);
        bed.device.end_oldest();
        assert!(submitted.done.await.is_err(), "a cancelled job has no outcome");
    }
}

#[tokio::test]
async fn a_job_that_gets_no_lanes_is_reported_as_waiting() {
    let bed = TestBed::new(10_000);
    let low = bed.submit(JobSpec { priority: -1, ..JobSpec::new(1, GIANT_ROWS) }).await;
    bed.device.next_wave();
    bed.device.next_wave();
    assert_eq!(stage(&low), LeaseStage::Computing);
    let _high = bed.submit(JobSpec::new(2, GIANT_ROWS)).await;
    for _ in 0..2 {
        assert_eq!(bed.next(), BTreeMap::from([(2, WAVE_WIDTH)]));
    }
    assert_eq!(stage(&low), LeaseStage::Waiting, "the job's lanes have ended, and it gets no others");
    let before = low.status.read();
    (0..5).for_each(|_| drop(bed.next()));
    assert_eq!(low.status.read(), before, "a job that waits reports no progress");
}

#[tokio::test]
async fn a_job_that_hangs_on_the_device_stays_in_computing_without_progress() {
    let bed = TestBed::new(10_000);
    assert_eq!(bed.engine.silent_for(), Duration::ZERO);
    let hung = bed.submit(JobSpec::new(1, 1)).await;
    bed.device.next_wave();
    let before = hung.status.read();
    assert_eq!(before.0, LeaseStage::Computing as i32);
    let waiting = bed.submit(JobSpec { key: 2, ..JobSpec::new(2, 1) }).await;
    while bed.engine.silent_for() < Duration::from_millis(20) {
        std::thread::yield_now();
    }
    assert_eq!(hung.status.read(), before);
    bed.engine.cancel(hung.id);
    bed.next();
    bed.device.end_oldest();
    assert!(waiting.done.await.expect("an end").is_ok(), "the device works again");
    while bed.engine.silent_for() > Duration::ZERO {
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn waves_use_the_key_that_is_faster_at_their_width() {
    let set = set_with_companion();
    let companion = companion_of(set).expect("a companion").set;
    let point = |set, width, micros| CurvePoint { set, width, time: Duration::from_micros(micros) };
    let took = [(set, 1, 900), (companion, 1, 300), (set, WAVE_WIDTH, 1000), (companion, WAVE_WIDTH, 4000)];
    let curve = took.map(|(set, width, micros)| point(set, width, micros)).to_vec();
    let bed = TestBed::on(TestDevice::with_curve(1000, curve));
    let mut companion_waves = Vec::new();
    // A job whose results must not be noisier takes the set's own key.
    for (rows, may_be_noisier) in [(1, true), (WAVE_WIDTH, true), (1, false)] {
        let spec = JobSpec { has_companion: true, may_be_noisier, ..JobSpec::new(1, rows) };
        let submitted = bed.submit(spec).await;
        bed.device.next_wave();
        bed.device.end_oldest();
        let finished = submitted.done.await.expect("an end").expect("a result");
        let record = finished.stopwatch.finish(Stage::Store, std::time::Instant::now());
        companion_waves.push((record.wave_count, record.companion_waves));
    }
    assert_eq!(companion_waves, [(1, 1), (1, 0), (1, 0)]);
    let keys = bed.device.keys();
    assert!(keys[0] != keys[1] && keys[1] == keys[2], "{keys:?}");
}

#[tokio::test]
async fn a_companion_is_evicted_if_a_key_that_jobs_need_has_no_room() {
    let set = set_with_companion();
    let companion = companion_of(set).expect("a companion").set;
    let point = |set, micros| CurvePoint { set, width: WAVE_WIDTH, time: Duration::from_micros(micros) };
    let device = TestDevice::with_curve(10_000, vec![point(set, 1000), point(companion, 300)]);
    // The test device reports that a key takes one byte.
    let bed = TestBed::with_keys(device, 2);
    let _giant = bed.submit(JobSpec { has_companion: true, ..JobSpec::new(1, GIANT_ROWS) }).await;
    bed.device.next_wave();
    bed.device.next_wave();
    let mut other = pin!(bed.submit(JobSpec { key: 2, ..JobSpec::new(2, 1) }));
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut other).await.is_err(), "there is no room yet");
    bed.next();
    bed.next();
    tokio::time::timeout(Duration::from_secs(60), other).await.expect("room, though the other job goes on");
    let keys = bed.device.keys();
    assert!(keys[0] == keys[1] && keys[2] == keys[3] && keys[0] != keys[2], "{keys:?}");
}
