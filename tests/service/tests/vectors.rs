//! Jobs on vectors of approximate numbers: from the command line, beside other jobs, and while
//! processes are killed.

use std::{
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use cloakwork_client::{
    BootstrapKind, CkksBootstrap, CkksKeys, CkksWish, Client, ClientError, Complex, Encrypted, Finished, Input,
    JobRequest, KeySize, Progress, VectorProgram, VectorProgramBuilder, ckks_set_by_name,
    proto::{JobStage, JobState},
};
use cloakwork_tests_service::{Server, Setup, Shell, TOY, Tenant, Worker, eventually};
use tempfile::TempDir;

const SET: &str = "TOY_CKKS_45_60_50";
const SLOTS: usize = 16;

/// A tenant with keys for vectors.
struct VectorTenant {
    client: Client,
    keys: CkksKeys,
    key: String,
    _home: TempDir,
}

impl VectorTenant {
    async fn new(client: Client) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let wish = CkksWish {
            bootstraps: vec![CkksBootstrap {
                slots: SLOTS,
                stages: 2,
                size: KeySize::Medium,
                kind: BootstrapKind::Regular,
            }],
            ..CkksWish::default()
        };
        let set = ckks_set_by_name(SET).expect("a set");
        let keys = CkksKeys::generate_in(home.path().join("keys"), set, wish, None, Progress::none()).await;
        let keys = keys.expect("keys");
        let key = client.push_parts(keys.parts(), &Progress::none()).await.expect("the key is taken");
        Self { client, keys, key: key.name, _home: home }
    }

    /// Builds a program that bootstraps x * x, and squares the result `squares` - 1 times. The
    /// bootstrap must leave a level for each square.
    fn program(&self, squares: usize) -> VectorProgram {
        let mut program = VectorProgramBuilder::new(self.keys.set());
        let mut x = program.input("x", SLOTS.ilog2(), 1);
        x = program.multiply(x, x);
        x = program.bootstrap(x, 2, KeySize::Medium, BootstrapKind::Regular);
        for _ in 1..squares {
            x = program.multiply(x, x);
        }
        program.output(x);
        program.build().expect("a program")
    }

    fn encrypt(&self, number: f64) -> Encrypted {
        self.keys.encrypt(&[Complex::from(number); SLOTS], 1).expect("numbers")
    }

    fn job(&self, number: f64) -> JobRequest {
        JobRequest::new(self.program(2), &self.key).encrypted(self.encrypt(number))
    }

    async fn check(&self, number: f64, finished: &Finished) {
        let output = finished.output(0).expect("an output");
        let list = self.client.output(&output).await.expect("a readable output");
        let numbers = self.keys.decrypt(&list).expect("numbers");
        let expected = number.powi(4);
        assert!(numbers.iter().all(|got| (*got - Complex::from(expected)).magnitude() < 1e-3), "{number}: {numbers:?}");
    }

    async fn run(&self, number: f64) {
        let finished = self.client.run(&self.job(number)).await.expect("the job succeeds");
        self.check(number, &finished).await;
    }
}

/// Workers with different numbers of threads compute the same bits, bootstraps included.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_on_vectors_are_verified_between_two_workers_of_one_class() {
    let server = Server::start(Setup::default().without_worker().with("verify_percent", 100)).await;
    let token = server.token("workers", "worker");
    let tenant = VectorTenant::new(server.client().await).await;
    let _workers = [("first", "1"), ("second", "2")]
        .map(|(name, threads)| Worker::start_with(&server, name, &token, &["--threads", threads]));
    // A worker takes vectors once its self-test has passed, so the first jobs may have no second
    // worker.
    let verified = || server.metric("cloakwork_verified_rows_total");
    eventually("a vector is verified", || async {
        tenant.run(0.75).await;
        verified().await > 0.0
    })
    .await;
    let before = verified().await;
    for number in [0.5, -0.25] {
        tenant.run(number).await;
    }
    eventually("each vector is verified", || async { verified().await >= before + 2.0 }).await;
    assert_eq!(server.metric("cloakwork_verify_mismatches_total").await, 0.0);
}

/// Ctrl-C ends the wait, but not the job. The command prints the name of the job that continues.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_command_names_its_job() {
    let server = Server::start(Setup::default().without_worker()).await;
    let home = tempfile::tempdir().expect("a directory");
    let shell = Shell::new(&server, home.path());
    shell.text(&["ckks", "keygen", "--set", SET, "--level", "1"]);
    shell.text(&["keys", "push"]);
    shell.text(&["ckks", "encrypt", "0.5", "--level", "1", "--out", "x"]);
    let mut command = shell.command(&["ckks", "run", "x + 1", "x=x"]);
    let waiting = command.stderr(Stdio::piped()).spawn().expect("it runs");
    let jobs = || shell.document(&["jobs", "ls"])["jobs"].clone();
    eventually("a job", async || jobs().as_array().is_some_and(|jobs| jobs.len() == 1)).await;
    let output = interrupt(waiting);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let name = jobs()[0]["name"].as_str().expect("a name").to_owned();
    assert_eq!(output.status.code(), Some(130), "{message}");
    assert!(message.contains(&format!("cloakwork jobs cancel {name}")), "{message}");
    assert_eq!((jobs().as_array().map(Vec::len), &jobs()[0]["state"]), (Some(1), &"queued".into()));
    assert!(shell.text(&["jobs", "cancel", &name]).contains("cancelled"));
}

/// A demo generates its own client key, so its key on the server is useless after the demo.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_demo_deletes_its_key() {
    let server = Server::start(Setup::default().without_worker()).await;
    let home = tempfile::tempdir().expect("a directory");
    let shell = Shell::new(&server, home.path());
    let mut command = shell.command(&["demo", "--set", TOY, "--pairs", "2"]);
    let waiting = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let list = |of: &str| shell.document(&[of, "ls"])[of].as_array().expect("a list").clone();
    eventually("a job", async || list("jobs").len() == 1).await;
    let output = interrupt(waiting);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    // The key is deleted together with the last job that uses it.
    assert_eq!(list("keys")[0]["state"], "deleting");
    shell.text(&["jobs", "cancel", list("jobs")[0]["name"].as_str().expect("a name")]);
    eventually("no key", async || list("keys").is_empty()).await;
}

/// A result whose file cannot be written is not lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_whose_file_already_exists_stays_on_the_server() {
    let server = Server::start(Setup::default().without_worker()).await;
    let token = server.token("workers", "worker");
    let home = tempfile::tempdir().expect("a directory");
    let shell = Shell::new(&server, home.path());
    shell.text(&["ckks", "keygen", "--set", SET, "--level", "1"]);
    shell.text(&["keys", "push"]);
    shell.text(&["ckks", "encrypt", "0.5", "--level", "1", "--out", "x"]);
    let mut command = shell.command(&["ckks", "run", "x + 1; x + 2", "x=x", "--out", "y", "--out", "z"]);
    let waiting = command.stderr(Stdio::piped()).spawn().expect("it runs");
    let jobs = || shell.document(&["jobs", "ls"])["jobs"].as_array().map(Vec::len);
    eventually("a job", async || jobs() == Some(1)).await;
    std::fs::write(home.path().join("z"), "mine").expect("a file");
    let _worker = Worker::start(&server, "worker", &token);
    let output = waiting.wait_with_output().expect("it ends");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && message.contains("z: it is there already"), "{message}");
    let name = message.split_whitespace().find(|word| word.ends_with("/outputs/1")).expect("a name");
    let [y, z] = ["y", name].map(|of| shell.text(&["ckks", "decrypt", of, "--digits", "2", "--real"]));
    assert_eq!((y.as_str(), z.as_str()), ("1.50\n", "2.50\n"));
    assert_eq!(std::fs::read(home.path().join("z")).expect("a file"), b"mine");
}

/// Sends Ctrl-C to a command. Returns its output.
fn interrupt(running: Child) -> Output {
    let interrupted = Command::new("kill").args(["-INT", &running.id().to_string()]).status();
    assert!(interrupted.expect("kill runs").success());
    running.wait_with_output().expect("it ends")
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_are_computed_from_the_command_line() {
    let server = Server::start(Setup::default()).await;
    let home = tempfile::tempdir().expect("a directory");
    let shell = Shell::new(&server, home.path());
    let wish = ["--bootstrap", "4:2:medium", "--rotate", "1", "--level", "9"];
    shell.text(&[&["ckks", "keygen", "--set", SET], &wish[..]].concat());
    shell.text(&["keys", "push"]);
    shell.text(&["ckks", "encrypt", "0.5", "-0.25", "1", "0", "--level", "2", "--out", "x"]);
    shell.text(&["ckks", "encrypt", "1", "2i", "0.5", "-1", "--level", "3", "--out", "y"]);
    // Noise decides the sign of a zero.
    let numbers = |file: &str| {
        shell.text(&["ckks", "decrypt", file, "--digits", "2"]).replace("-0.00", "+0.00").replace("\n+", "\n")
    };

    // Outputs go to files, and the record contains the time of each operation.
    let done =
        shell.document(&["ckks", "run", "rotate(x * y, 1) + 0.5; x - y", "x=x", "y=y", "--out", "z", "--out", "d"]);
    assert_eq!(numbers("z"), "0.50-0.50i\n1.00+0.00i\n0.50+0.00i\n1.00+0.00i\n");
    assert_eq!(done["outputs"][0]["level"], 1);
    let operations = done["latency"]["operations"].as_object().expect("operations");
    let names: Vec<&str> = operations.keys().map(String::as_str).collect();
    assert!(names.contains(&"multiply") && names.contains(&"rotate"), "{names:?}");
    assert!(numbers("d").starts_with("-0.50+0.00i\n"), "{}", numbers("d"));

    // An output stays on the server for the next job. A bootstrap raises its level.
    let squares = shell.document(&["ckks", "run", "x * x", "x=x"]);
    let name = squares["outputs"][0]["name"].as_str().expect("a name").to_owned();
    let plan = shell.text(&["ckks", "run", "--plan", "bootstrap(x, 2) * 2", &format!("x={name}")]);
    assert!(plan.contains("bootstraps          1") && plan.contains("key                 products"), "{plan}");
    let printed = shell.text(&["ckks", "bootstrap", &name, "--stages", "2", "--out", "fresh"]);
    for stage in ["raise", "to_coefficients", "remainders", "to_values"] {
        assert!(printed.contains(&format!("bootstrap.{stage}")), "{printed}");
    }
    assert_eq!(numbers("fresh"), "0.25+0.00i\n0.06+0.00i\n1.00+0.00i\n0.00+0.00i\n");
    // A result without a file can be read by its name.
    assert_eq!(numbers(&name), numbers("fresh"));
    // The command computes nothing if an output file is invalid.
    let jobs = || shell.document(&["jobs", "ls"])["jobs"].as_array().map(Vec::len);
    assert_eq!(jobs(), Some(3));
    for out in ["nowhere/z".to_owned(), "long".repeat(100), "x/z".to_owned()] {
        let (code, message) = shell.refusal(&["ckks", "run", "x + 1", "x=x", "--out", &out]);
        assert!(code == Some(2) && message.contains(&format!("{out}: ")), "{code:?} {message}");
    }
    assert_eq!(jobs(), Some(3));
    let (code, message) = shell.refusal(&["ckks", "run", "x; x + 1", "x=x", "--out", "same", "--out", "./same"]);
    assert!(code == Some(2) && message.contains("named twice"), "{code:?} {message}");
    // A bootstrap of two real vectors returns both unchanged.
    shell.text(&["ckks", "encrypt", "-1", "0.25", "0.75", "-0.5", "--level", "1", "--out", "v"]);
    shell.text(&["ckks", "run", "bootstrap_both(x, v, 2)", "x=x", "v=v", "--out", "a", "--out", "b"]);
    assert_eq!(numbers("a"), "0.50+0.00i\n-0.25+0.00i\n1.00+0.00i\n0.00+0.00i\n");
    assert_eq!(numbers("b"), "-1.00+0.00i\n0.25+0.00i\n0.75+0.00i\n-0.50+0.00i\n");
    let listed = shell.text(&["jobs", "ls"]);
    assert_eq!(listed.matches("succeeded").count(), 4, "{listed}");
    let sets = shell.text(&["sets"]);
    assert!(sets.contains("512 numbers") && sets.contains(SET), "{sets}");

    let refused = |args: &[&str], expected: &str| {
        let (_, message) = shell.refusal(&[&["ckks"], args].concat());
        assert!(message.contains(expected), "{args:?}: {message}");
    };
    shell.text(&["ckks", "encrypt", "1", "--slots", "8", "--level", "1", "--out", "w"]);
    refused(&["run", "rotate(w, 3)", "w=w"], "KEY_INCOMPLETE");
    refused(&["run", "rotate(w, 3)", "w=w"], "turning 8 numbers by 3");
    refused(&["run", "x * x * x * x * x", "x=x"], "level");
    refused(&["run", "x +", "x=x"], "expected a number");
    refused(&["run", "x", "x=nowhere"], "nowhere");
    refused(&["run", "-x", "x=x", "--out", "z"], "not overwritten");
    refused(&["run", "-x", "x=x", "--out", "e", "--out", "f"], "2 files for 1 result");
    refused(&["bootstrap", "x", "--stages", "3"], "stages");
    refused(&["bootstrap", "x", "--stages", "1"], "KEY_INCOMPLETE");
    refused(&["bootstrap", "x", "--size", "huge"], "no size of a key");
    for stages in ["0", "6"] {
        let (code, message) = shell.refusal(&["ckks", "bootstrap", "x", "--stages", stages]);
        assert!(code == Some(2) && message.contains("--stages"), "{code:?} {message}");
        let (code, message) = shell.refusal(&["ckks", "run", &format!("bootstrap(x, {stages})"), "x=x"]);
        assert!(code == Some(2) && message.contains("1 to 2"), "{code:?} {message}");
    }
    let unknown = "x=tenants/local/jobs/00000000-0000-0000-0000-000000000000/outputs/0";
    refused(&["run", "-x", unknown], "no record of this result");
}

/// The plan of a program prints a command that makes keys. The keys suffice for the program.
#[tokio::test(flavor = "multi_thread")]
async fn keys_made_by_the_command_of_a_plan_suffice_for_its_program() {
    const PROGRAM: &str = "rotate(conjugate(x) * y, -1) - total(y); bootstrap_both(x, y, 2, small, lossy); \
                           bootstrap(poly(x, 0.25, 0, 0.5), 1, large)";
    let server = Server::start(Setup::default()).await;
    let [before, after] = [0; 2].map(|_| tempfile::tempdir().expect("a directory"));
    let (x, y) = ([0.5, -0.25, 1.0, 0.0], [0.25, -1.0, 0.0, 0.5]);
    let encrypt = |shell: &Shell<'_>| {
        for (numbers, name) in [(x, "x"), (y, "y")] {
            let numbers = numbers.map(|number| number.to_string());
            let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
            shell.text(&[&["ckks", "encrypt", "--level", "3", "--out", name], &numbers[..]].concat());
        }
    };
    let shell = Shell::new(&server, before.path());
    shell.text(&["ckks", "keygen", "--set", SET, "--level", "0"]);
    encrypt(&shell);
    let plan = ["ckks", "run", "--plan", PROGRAM, "x=x", "y=y"];
    let keygen = shell.document(&plan)["keygen"].as_str().expect("a command").to_owned();
    let printed = shell.text(&plan);
    assert!(printed.contains(&format!("made by             {keygen}\n")), "{printed}");

    let shell = Shell::new(&server, after.path());
    let options = keygen.strip_prefix("cloakwork ").expect("a command").split(' ').collect::<Vec<_>>();
    shell.text(&options);
    shell.text(&["keys", "push"]);
    encrypt(&shell);
    let outs = ["turned", "first", "second", "fresh"];
    let named = outs.iter().flat_map(|out| ["--out", out]).collect::<Vec<_>>();
    shell.text(&[&["ckks", "run", PROGRAM, "x=x", "y=y"], &named[..]].concat());
    let product = |place: usize| x[place] * y[place];
    let total: f64 = y.iter().sum();
    let turned = [3, 0, 1, 2].map(|place| product(place) - total);
    for (out, expected) in outs.into_iter().zip([turned, x, y, x.map(|x| 0.25 + 0.5 * x * x)]) {
        let numbers = shell.document(&["ckks", "decrypt", out])["numbers"].clone();
        let numbers: Vec<[f64; 2]> = serde_json::from_value(numbers).expect("numbers");
        let is_near = |([re, im], expected): (&[f64; 2], &f64)| (re - expected).hypot(*im) < 1e-3;
        assert!(
            numbers.len() == 4 && numbers.iter().zip(&expected).all(is_near),
            "{out}: {numbers:?}, not {expected:?}"
        );
    }
}

/// The test shows that a worker has given a job up by the next job that the worker completes.
#[tokio::test(flavor = "multi_thread")]
async fn workers_give_up_jobs_that_are_cancelled_or_past_their_deadline() {
    const LONG_JOB: Duration = Duration::from_secs(20);
    let server = Server::start(Setup::default().without_worker()).await;
    let token = server.token("workers", "worker");
    let _worker = Worker::start(&server, "worker", &token);
    let tenant = VectorTenant::new(server.client().await).await;
    // The first job waits for the key and for matrices. Of the later jobs the shortest counts: a
    // job that is slow by chance would make the long job below too short.
    tenant.run(0.5).await;
    let mut short = Duration::MAX;
    for _ in 0..3 {
        let finished = tenant.client.run(&tenant.job(0.5)).await.expect("the job succeeds");
        short = short.min(Duration::from_nanos(finished.job.latency.expect("a record").other_compute_nanos));
    }
    // A program has at most 4000 operations, even where an operation takes less than five
    // milliseconds.
    let bootstraps = LONG_JOB.div_duration_f64(short).ceil().min(4000.0) as usize;
    let mut program = VectorProgramBuilder::new(tenant.keys.set());
    let mut x = program.input("x", SLOTS.ilog2(), 0);
    for _ in 0..bootstraps {
        x = program.bootstrap(x, 2, KeySize::Medium, BootstrapKind::Regular);
    }
    program.output(x);
    let program = program.build().expect("a program");
    let input = tenant.keys.encrypt(&[Complex::from(0.5); SLOTS], 0).expect("numbers");
    let long = || JobRequest::new(program.clone(), &tenant.key).encrypted(input.clone());

    let job = tenant.client.submit(&long()).await.expect("accepted");
    let is_in = |name: String, stage: JobStage| {
        let client = &tenant.client;
        async move { client.job(&name).await.expect("a job").stage() == stage }
    };
    eventually("it is computed", || is_in(job.name.clone(), JobStage::Computing)).await;
    let next = tenant.client.submit(&tenant.job(0.25)).await.expect("accepted");
    eventually("the next one waits", || is_in(next.name.clone(), JobStage::Waiting)).await;
    let began = Instant::now();
    let cancelled = tenant.client.cancel(&job.name).await.expect("cancelled");
    assert_eq!(cancelled.state(), JobState::Cancelled);
    let next = tenant.client.wait(&next.name).await.expect("it ends");
    assert!(began.elapsed() < LONG_JOB / 4, "the worker went on after {:?}", began.elapsed());
    assert_eq!((next.state(), next.stage()), (JobState::Succeeded, JobStage::Unspecified));

    let began = Instant::now();
    let job = tenant.client.submit(&long().time_limit(Duration::from_secs(1))).await.expect("accepted");
    let late = tenant.client.wait(&job.name).await.expect("it ends");
    let reason = late.error.as_ref().map(|error| error.reason.as_str());
    assert_eq!((late.state(), reason), (JobState::Failed, Some("DEADLINE_EXCEEDED")));
    tenant.run(0.25).await;
    assert!(began.elapsed() < LONG_JOB / 4, "the worker went on after {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_that_do_not_match_the_program_and_the_key_are_refused() {
    let server = Server::start(Setup::default()).await;
    let (one, other) = (VectorTenant::new(server.client().await).await, VectorTenant::new(server.client().await).await);
    let refusal = |result: Result<Finished, ClientError>| match result {
        Err(ClientError::Refused(refusal)) => (refusal.reason.clone(), refusal.message.clone()),
        other => panic!("{other:?}"),
    };
    let (client, program) = (&one.client, || one.program(2));
    let run = |list: Encrypted| {
        let request = JobRequest::new(program(), &one.key).encrypted(list);
        async move { refusal(client.run(&request).await) }
    };
    let numbers = [Complex::from(0.5); SLOTS];
    let (reason, message) = run(other.encrypt(0.5)).await;
    assert!(reason == "KEY_MISMATCH", "{message}");
    for (list, expected) in [
        (one.keys.encrypt(&numbers, 2), "has level 2: expected level 1"),
        (one.keys.encrypt(&numbers[..4], 1), "has 4 numbers: expected 16"),
    ] {
        let (reason, message) = run(list.expect("numbers")).await;
        assert!(reason == "INPUT_INVALID" && message.contains(expected), "{reason}: {message}");
    }
    let blocks = Tenant::new(server.client().await).await;
    let (reason, message) = run(blocks.keys.encrypt(&[1], 3).expect("a value")).await;
    assert!(reason == "INPUT_INVALID" && message.contains("was made for"), "{reason}: {message}");
    // A program on vectors under a key for blocks, and a program on blocks under a key for vectors.
    let request = JobRequest::new(program(), &blocks.key).encrypted(one.encrypt(0.5));
    assert_eq!(refusal(one.client.run(&request).await).0, "KEY_INCOMPLETE");
    let request = JobRequest::new(blocks.lookup(|x| x), &one.key).encrypted(one.encrypt(0.5));
    assert_eq!(refusal(one.client.run(&request).await).0, "KEY_INCOMPLETE");
    // Keys and outputs of another tenant are not visible.
    let token = server.token("stranger", "jobs,keys,read");
    let stranger = server.client_with(&token).await;
    stranger.use_key(&one.keys).await.expect("the digests of the key");
    let request = JobRequest::new(program(), &one.key).encrypted(one.encrypt(0.5));
    assert!(matches!(refusal(stranger.run(&request).await).0.as_str(), "WRONG_TENANT"));
    let finished = one.client.run(&one.job(0.5)).await.expect("the job succeeds");
    let name = finished.output(0).expect("an output").message.name;
    assert!(stranger.describe(&name).await.is_err());
    let request = JobRequest::new(program(), &one.key).input(Input::Name(name));
    let (reason, message) = refusal(one.client.run(&request).await);
    assert!(reason == "INPUT_INVALID" && message.contains("level"), "the level differs: {reason}: {message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_on_vectors_and_on_blocks_succeed_while_their_workers_are_killed() {
    const JOBS: usize = 24;
    let server = Server::start(Setup::default().without_worker()).await;
    let token = server.token("workers", "worker");
    let (one, other) = (VectorTenant::new(server.client().await).await, VectorTenant::new(server.client().await).await);
    let blocks = Tenant::new(server.client().await).await;
    let done = AtomicUsize::new(0);
    let vectors = |client| {
        let done = &done;
        async move {
            let client: &VectorTenant = client;
            for number in 0..JOBS {
                client.run(number as f64 / JOBS as f64).await;
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let of_blocks = async {
        while done.load(Ordering::Relaxed) < 2 * JOBS {
            blocks.check_squares(&[1, 2, 3]).await;
        }
    };
    // The worker outlives the killer: jobs on blocks may still run when the last job on vectors is
    // done.
    let mut worker = Worker::start(&server, "first", &token);
    let killer = async {
        for round in 1..=3 {
            eventually("some jobs are done", || async { done.load(Ordering::Relaxed) >= round * JOBS / 2 }).await;
            worker.process().kill();
            worker = Worker::start(&server, "again", &token);
        }
    };
    tokio::join!(vectors(&one), vectors(&other), of_blocks, killer);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_across_a_restart_finds_its_key() {
    let mut server = Server::start(Setup::default().without_worker()).await;
    let token = server.token("workers", "worker");
    let tenant = VectorTenant::new(server.client().await).await;
    let request = tenant.job(0.75);
    let job = tenant.client.submit(&request).await.expect("accepted");
    server.kill();
    server.restart().await;
    let _worker = Worker::start(&server, "worker", &token);
    let tenant = VectorTenant { client: server.client().await, ..tenant };
    tenant.client.use_key(&tenant.keys).await.expect("the digests of the key");
    let ended = tenant.client.wait(&job.name).await.expect("it ends");
    assert_eq!(ended.state(), JobState::Succeeded, "{ended:?}");
    let output_shapes = request.output_shapes();
    tenant.check(0.75, &Finished { job: ended, wall: Duration::ZERO, output_shapes }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_fails_with_a_clear_reason_if_its_worker_lacks_memory() {
    let server = Server::start(Setup::default().without_worker()).await;
    let token = server.token("workers", "worker");
    let tenant = VectorTenant::new(server.client().await).await;
    // The matrices of the job's bootstrap take more memory than the half of a megabyte that this
    // option leaves for them.
    let mut small = Worker::start_with(&server, "small", &token, &["--vector-memory", "2"]);
    let failed = tenant.client.run(&tenant.job(0.5)).await.expect_err("no room");
    let ClientError::JobFailed { reason, message, .. } = &failed else { panic!("{failed:?}") };
    assert!(reason == "WORKER_OUT_OF_MEMORY" && message.contains("memory for vectors"), "{reason}: {message}");
    // The scheduler does not offer the job to a worker without memory for vectors.
    let _none = Worker::start_with(&server, "none", &token, &["--vector-memory", "0"]);
    eventually("both are there", || async { server.metric("cloakwork_workers").await == 2.0 }).await;
    small.process().kill();
    eventually("only the second one is left", || async { server.metric("cloakwork_workers").await == 1.0 }).await;
    let job = tenant.client.submit(&tenant.job(0.5)).await.expect("accepted");
    let blocks = Tenant::new(server.client().await).await;
    blocks.check_squares(&[1, 2, 3]).await;
    assert_eq!(tenant.client.job(&job.name).await.expect("a job").state(), JobState::Queued);
    let _large = Worker::start(&server, "large", &token);
    assert_eq!(tenant.client.wait(&job.name).await.expect("it ends").state(), JobState::Succeeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_too_large_for_a_small_worker_wait_for_a_busy_large_worker() {
    let server = Server::start(Setup::default().without_worker()).await;
    let token = server.token("workers", "worker");
    let tenant = VectorTenant::new(server.client().await).await;
    let _small = Worker::start_with(&server, "small", &token, &["--vector-memory", "2"]);
    let _large = Worker::start(&server, "large", &token);
    eventually("both are there", || async { server.metric("cloakwork_workers").await == 2.0 }).await;
    // The jobs are more than the large worker takes at a time, and none fits the small worker.
    let mut jobs = Vec::new();
    for _ in 0..12 {
        jobs.push(tenant.client.submit(&tenant.job(0.5)).await.expect("accepted"));
    }
    for job in jobs {
        let ended = tenant.client.wait(&job.name).await.expect("it ends");
        assert_eq!(ended.state(), JobState::Succeeded, "{ended:?}");
    }
}
