//! The common calls of all users, against a server with its embedded worker.

use cloakwork_client::{
    ClientError, Gate, Input, JobRequest, ProgramBuilder, Progress, proto::JobState, set_by_name, stage_nanos,
};
use cloakwork_tests_service::{Server, Setup, Tenant, VALUES, eventually};
use futures_util::StreamExt as _;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_returns_its_result_and_a_latency_record_that_adds_up() {
    let server = Server::start(Setup::default()).await;
    let tenant = Tenant::new(server.client().await).await;
    let values: Vec<u64> = (0..40).map(|index| index % VALUES).collect();
    let finished = tenant.check_squares(&values).await;

    let job = &finished.job;
    assert_eq!((job.rows, job.pbs_count, job.rows_done), (40, 40, 40));
    let record = job.latency.as_ref().expect("a job that has ended has a record");
    assert_eq!((record.pbs_count, record.attempts), (40, 1));
    assert!(record.blind_rotate_nanos > 0 && record.key_switch_nanos > 0 && record.key_load_nanos > 0, "{record:?}");
    assert!(record.wave_count >= 1 && !record.waves.is_empty());
    let stages: u64 = stage_nanos(record).iter().sum();
    assert_eq!(stages, record.wall_nanos + record.transit_nanos, "the stages are a partition: {record:?}");
    assert!(finished.wall.as_nanos() as u64 >= record.wall_nanos, "the server's time lies within the client's");

    // The second job finds the key loaded by the first. The stored record adds up as well.
    let second = tenant.check_squares(&values).await;
    assert_eq!(second.job.latency.as_ref().expect("a record").key_load_nanos, 0);
    let stored = tenant.client.job(&job.name).await.expect("the job is remembered");
    assert_eq!(stored.state(), JobState::Succeeded);
    let stored = stored.latency.expect("a record");
    assert_eq!(stage_nanos(&stored).iter().sum::<u64>(), stored.wall_nanos);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_with_bivariate_and_many_function_tables_and_chained_jobs_succeed() {
    let server = Server::start(Setup::default()).await;
    let tenant = Tenant::new(server.client().await).await;
    let (left, right): (Vec<u64>, Vec<u64>) = (0..16).map(|index| (index / 4, index % 4)).unzip();

    let mut program = ProgramBuilder::new(tenant.keys.set());
    let (x, y) = (program.input("x"), program.input("y"));
    let product = program.bivariate(x, y, |x, y| x * y % 4);
    let both = program.many(product, &[&|x| x, &|x| 3 - x.min(3)]);
    both.into_iter().for_each(|value| program.output(value));
    let program = program.build().expect("a program");
    let report = tenant.client.register_program(&program).await.expect("the program is taken");
    assert_eq!((report.pbs_count, report.depth), (2, 2));

    let encrypt = |values: &[u64]| tenant.keys.encrypt(values, 3).expect("messages");
    let job =
        JobRequest::named(&report.name, &program, &tenant.key).encrypted(encrypt(&left)).encrypted(encrypt(&right));
    let finished = tenant.client.run(&job).await.expect("the job succeeds");
    let mut outputs = Vec::new();
    for index in 0..2 {
        let envelope = tenant.client.output(&finished.output(index).expect("two outputs")).await.expect("an output");
        outputs.push(tenant.keys.decrypt(&envelope).expect("our key").to_vec());
    }
    let products: Vec<u64> = left.iter().zip(&right).map(|(x, y)| x * y % 4).collect();
    assert_eq!(outputs, [products.clone(), products.iter().map(|x| 3 - x).collect()]);

    // An output becomes the input of the next job without passing through the client.
    let next = JobRequest::new(tenant.lookup(|x| (x + 1) % VALUES), &tenant.key)
        .input(Input::Name(finished.output(0).expect("an output").message.name));
    let finished = tenant.client.run(&next).await.expect("the job succeeds");
    assert_eq!(tenant.values(&finished).await.expect("an output"), products.iter().map(|x| x + 1).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn boolean_gates_compute_their_truth_tables() {
    let server = Server::start(Setup::default()).await;
    let set = "DEFAULT_PARAMETERS_KS_PBS";
    let tenant = Tenant::of_set(server.client().await, set).await;
    let mut program = ProgramBuilder::new(tenant.keys.set());
    let (x, y) = (program.input("x"), program.input("y"));
    let nand = program.gate(Gate::Nand, x, y);
    let not = program.not(x);
    let chosen = program.mux(x, nand, y);
    [nand, not, chosen].into_iter().for_each(|value| program.output(value));
    let program = program.build().expect("a program");
    let encrypt = |bits: &[u64]| tenant.keys.encrypt(bits, 1).expect("bits");
    let job = JobRequest::new(program, &tenant.key).encrypted(encrypt(&[0, 0, 1, 1])).encrypted(encrypt(&[0, 1, 0, 1]));
    let finished = tenant.client.run(&job).await.expect("the job succeeds");
    for (index, expected) in [[1, 1, 1, 0], [1, 1, 0, 0], [0, 1, 1, 0]].iter().enumerate() {
        let envelope = tenant.client.output(&finished.output(index).expect("an output")).await.expect("bytes");
        assert_eq!(*tenant.keys.decrypt(&envelope).expect("our key"), expected);
    }
}

/// A job that reads a small output many times can exceed the size of one message to a worker,
/// although the database stores the output once.
#[tokio::test(flavor = "multi_thread")]
async fn one_output_may_be_many_inputs() {
    let server = Server::start(Setup::default()).await;
    let tenant = Tenant::new(server.client().await).await;
    let values: Vec<u64> = (0..500).map(|index| index % 4).collect();
    let finished = tenant.check_squares(&values).await;
    let output = finished.output(0).expect("an output").message;
    let times = (10 << 20) / output.inline.len();
    assert!((2..60).contains(&times), "{times} times {} bytes", output.inline.len());
    let mut program = ProgramBuilder::new(tenant.keys.set());
    let inputs: Vec<_> = (0..times).map(|index| program.input_up_to(&format!("x{index}"), 15)).collect();
    let results: Vec<_> = inputs.into_iter().map(|input| program.lookup(input, |x| 15 - x)).collect();
    [results[0], results[times - 1]].into_iter().for_each(|result| program.output(result));
    let mut job = JobRequest::new(program.build().expect("a program"), &tenant.key);
    for _ in 0..times {
        job = job.input(Input::Name(output.name.clone()));
    }
    let finished = tenant.client.run(&job).await.expect("the job succeeds");
    let expected: Vec<u64> = values.iter().map(|x| 15 - x * x % VALUES).collect();
    assert_eq!(tenant.values(&finished).await.expect("an output"), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_program_runs_and_may_be_repeated() {
    let server = Server::start(Setup::default()).await;
    let tenant = Tenant::new(server.client().await).await;
    let mut program = ProgramBuilder::new(tenant.keys.set());
    let mut x = program.input("x");
    for step in 0..400 {
        x = program.lookup(x, move |x| (x + 1 + step % 2) % 4);
    }
    program.output(x);
    let program = program.build().expect("a program");
    assert!(program.bytes().len() > 8 << 10, "{} bytes are not long", program.bytes().len());
    let reports = [(); 8].map(|()| tenant.client.register_program(&program));
    for report in futures_util::future::join_all(reports).await {
        assert_eq!(report.expect("the program is taken").depth, 400);
    }
    let list = tenant.keys.encrypt(&[0, 3], 3).expect("messages");
    let job = JobRequest::new(program, &tenant.key).encrypted(list);
    let finished = tenant.client.run(&job).await.expect("the job succeeds");
    // 400 times one, and 200 times one more, is 600, which is 0 modulo 4.
    assert_eq!(tenant.values(&finished).await.expect("messages"), [0, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_inputs_and_outputs_travel_as_blobs() {
    let server = Server::start(Setup::default().with("limits.inline_bytes", 65_536)).await;
    let tenant = Tenant::new(server.client().await).await;
    let values: Vec<u64> = (0..2000).map(|index| index * 7 % VALUES).collect();
    let list = tenant.keys.encrypt(&values, VALUES as u32 - 1).expect("values of a block");
    let stored = tenant.client.store(&list).await.expect("the list is stored");
    let described = tenant.client.describe(&stored).await.expect("the list is there");
    assert_eq!((described.count, described.degree_max, described.noise_level_max), (2000, 15, 1));
    let job = JobRequest::new(tenant.lookup(|x| 15 - x), &tenant.key).input(Input::Name(stored.clone()));
    let finished = tenant.client.run(&job).await.expect("the job succeeds");
    assert!(finished.output(0).expect("an output").message.inline.is_empty(), "too large to come inside the job");
    assert_eq!(tenant.values(&finished).await.expect("an output"), values.iter().map(|x| 15 - x).collect::<Vec<_>>());
    tenant.client.delete(&stored).await.expect("nobody reads it any more");
    assert!(
        matches!(tenant.client.describe(&stored).await, Err(ClientError::Refused(refusal)) if refusal.reason == "CIPHERTEXT_NOT_FOUND")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_returns_the_same_job_and_lists_are_paged() {
    let server = Server::start(Setup::default().with("limits.page_size", 3)).await;
    let tenant = Tenant::new(server.client().await).await;
    let request = tenant.squares(&[1, 2, 3]);
    let first = tenant.client.submit(&request).await.expect("accepted");
    let again = tenant.client.submit(&request).await.expect("accepted");
    assert_eq!(first.name, again.name);
    let ended = tenant.client.run(&request).await.expect("the job succeeds");
    assert_eq!(ended.job.name, first.name);
    let mut names = vec![first.name];
    for _ in 0..7 {
        names.push(tenant.client.run(&tenant.squares(&[5])).await.expect("the job succeeds").job.name);
    }
    let listed: Vec<String> = tenant.client.jobs(&[]).map(|job| job.expect("a page").name).collect::<Vec<_>>().await;
    names.reverse();
    assert_eq!(listed, names, "newest first, over several pages");
}

/// The caller of `RunJob` has the result before the database does.
#[tokio::test(flavor = "multi_thread")]
async fn a_delivered_result_is_visible_to_all_calls_at_once() {
    let server = Server::start(Setup::default()).await;
    let tenant = Tenant::new(server.client().await).await;
    for _ in 0..100 {
        let finished = tenant.check_squares(&[3]).await;
        let mut listed = tenant.client.jobs(&[JobState::Succeeded]);
        let latest = listed.next().await.expect("a job").expect("a page");
        assert_eq!((&latest.name, latest.state()), (&finished.job.name, JobState::Succeeded));
        let output = Input::Name(finished.output(0).expect("an output").message.name);
        let next = JobRequest::new(tenant.lookup(|x| (x + 1) % VALUES), &tenant.key).input(output);
        tenant.client.run(&next).await.expect("the output can be read");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_can_be_watched_and_cancelled_and_fails_after_its_deadline() {
    let server = Server::start(Setup::default().without_worker()).await;
    let tenant = Tenant::new(server.client().await).await;
    let job = tenant.client.submit(&tenant.squares(&[1])).await.expect("accepted");
    let mut watched = tenant.client.watch(&job.name);
    let seen = watched.next().await.expect("the job as it is").expect("a job");
    assert_eq!(seen.state(), JobState::Queued);
    let cancelled = tenant.client.cancel(&job.name).await.expect("cancelled");
    assert_eq!(cancelled.state(), JobState::Cancelled);
    let seen = watched.next().await.expect("the end").expect("a job");
    assert_eq!(seen.error.expect("an error").reason, "JOB_CANCELLED");
    assert!(watched.next().await.is_none(), "nothing follows the end");
    let again = tenant.client.cancel(&job.name).await.expect("cancelling twice is no error");
    assert_eq!(again.state(), JobState::Cancelled);

    let late = tenant.squares(&[1]).time_limit(std::time::Duration::from_millis(300));
    let late = tenant.client.submit(&late).await.expect("accepted");
    eventually("the job is late", || async {
        let job = tenant.client.job(&late.name).await.expect("a job");
        job.error.is_some_and(|error| error.reason == "DEADLINE_EXCEEDED")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_set_joins_a_key_and_jobs_run_under_both() {
    let server = Server::start(Setup::default()).await;
    let first = Tenant::new(server.client().await).await;
    let set = set_by_name("TOY_MESSAGE_2_CARRY_2_KS32").expect("a set of the same family");
    let name = first.key.clone();
    let keys = first.keys.add(set, Progress::none()).await.expect("the sets share a client key");
    let added: Vec<_> = keys.parts().iter().filter(|part| part.set.id() == set.id).cloned().collect();
    let sets = [cloakwork_tests_service::TOY, set.name];
    let key = first.client.add_parts(&name, &added, &Progress::none()).await.expect("the parts are taken");
    assert_eq!((key.name.as_str(), key.parts.len()), (name.as_str(), 4));
    assert_eq!(key.parameter_sets, sets);
    // A push of all parts has nothing left to do, and makes no second key.
    let key = first.client.push_key(&keys, &Progress::none()).await.expect("the key is there");
    assert_eq!((key.name.as_str(), &key.parameter_sets[..]), (name.as_str(), &sets.map(str::to_owned)[..]));
    assert_eq!(first.client.key(&name).await.expect("a key").parameter_sets, sets);
    let listed: Vec<_> = first.client.keys().map(|key| key.expect("a key")).collect().await;
    assert_eq!(listed.len(), 1);

    let tenant = Tenant { client: first.client, keys, key: name.clone() };
    tenant.check_squares(&[1, 2, 3]).await;
    let Tenant { client, keys, .. } = tenant;
    let tenant = Tenant { client, keys: keys.using(set).expect("one of its sets"), key: name };
    tenant.check_squares(&[4, 5, 6]).await;
    tenant.client.delete_key(&tenant.key).await.expect("deleted");
    let error = tenant.client.add_parts(&tenant.key, &added, &Progress::none()).await.expect_err("the key is gone");
    assert!(matches!(&error, ClientError::Refused(refusal) if refusal.reason == "KEY_NOT_FOUND"), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_listed_and_deleted_keys_refuse_jobs() {
    let server = Server::start(Setup::default()).await;
    let tenant = Tenant::new(server.client().await).await;
    tenant.check_squares(&[3]).await;
    let keys: Vec<_> = tenant.client.keys().map(|key| key.expect("a key")).collect().await;
    assert_eq!(keys.len(), 1);
    assert_eq!(keys[0].name, tenant.key);
    assert_eq!(keys[0].parameter_sets, [cloakwork_tests_service::TOY]);
    tenant.client.delete_key(&tenant.key).await.expect("deleted");
    let error = tenant.client.run(&tenant.squares(&[3])).await.expect_err("the key is gone");
    assert!(matches!(error, ClientError::Refused(refusal) if refusal.reason == "KEY_NOT_FOUND"));
}
