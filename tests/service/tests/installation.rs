//! Results are of the installation and of the job that the client asked: on real servers, through
//! changes of the installation's key, and with a changed database.

use std::{path::Path, process::Command};

use cloakwork_client::{
    Anchor, Client, ConnectOptions, Digest, Input, JobRequest, Keys, Part, Progress, Source, Trust, params::KeyId,
    set_by_name,
};
use cloakwork_proto::v1::{
    JobInput, JobSpec, RunJobRequest, job_input, job_service_client::JobServiceClient, job_spec::Program,
};
use cloakwork_tests_service::{Server, Setup, Shell, TOY, Tenant, binary};

use crate::refusals::channel;

/// Runs `cloakwork-server anchor` beside a server, and returns the printed anchor.
fn anchor(server: &Server, arguments: &[&str]) -> Anchor {
    let output = server.command().arg("anchor").args(arguments).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text").parse().expect("an anchor")
}

/// A client of the tenant's key that takes the results of an installation.
async fn client(server: &Server, tenant: &Tenant, anchor: &Anchor) -> Client {
    let client = Client::connect(&ConnectOptions::new(server.url()).anchor(anchor.clone())).await.expect("it answers");
    client.use_key(&tenant.keys).await.expect("the digests of the key");
    client
}

/// The reason why a client does not take the result of a new job; `None` if it does.
async fn refusal(client: &Client, tenant: &Tenant) -> Option<String> {
    let error = client.run(&tenant.squares(&[1, 2, 3])).await.err()?;
    Some(error.reason().expect("a stable code").to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_take_the_results_of_their_installation_through_a_rotation_of_its_key() {
    let mut server = Server::start(Setup::default()).await;
    let tenant = Tenant::new(server.client().await).await;
    let old_job = tenant.check_squares(&[4, 5]).await.job.name;
    let first = anchor(&server, &[]);
    assert_eq!(tenant.client.anchor().await.expect("named by the server"), Some(&first));
    let [first_key] = first.keys() else { panic!("{first}") };
    // The next key is announced, and the present one signs on.
    let both = anchor(&server, &["--prepare"]);
    assert_eq!((both.keys().len(), both.keys()[0]), (2, *first_key));
    server.stop();
    server.restart().await;
    assert_eq!(refusal(&client(&server, &tenant, &first).await, &tenant).await, None);
    // The next key signs. Clients of both anchors take old and new results.
    let rotated = anchor(&server, &["--rotate"]);
    assert_eq!(rotated.keys(), [both.keys()[1], *first_key]);
    server.stop();
    server.restart().await;
    let (old, all) = (client(&server, &tenant, &first).await, client(&server, &tenant, &both).await);
    assert_eq!(refusal(&old, &tenant).await.as_deref(), Some("ATTESTATION_OTHER_INSTALLATION"));
    assert_eq!(refusal(&all, &tenant).await, None);
    let stored = all.job(&old_job).await.expect("it is remembered");
    all.verify(&stored, None).await.expect("its worker was certified under the retired key");
    // The retired key was stolen: nobody takes its results any more.
    let forgotten = anchor(&server, &["--forget", &first_key.to_string()]);
    assert_eq!(forgotten.keys(), [both.keys()[1]]);
    let new = client(&server, &tenant, &forgotten).await;
    assert_eq!(refusal(&new, &tenant).await, None);
    let error = new.verify(&stored, None).await.expect_err("a retired key");
    assert_eq!(error.reason(), Some("ATTESTATION_OTHER_INSTALLATION"));
}

#[test]
fn the_anchor_of_a_directory_without_a_key_comes_with_a_notice() {
    let home = tempfile::tempdir().expect("a directory");
    let run = || {
        let mut command = Command::new(binary("tested-server"));
        let output = command.args(["anchor", "--data"]).arg(home.path().join("data")).output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        (output.stdout, String::from_utf8(output.stderr).expect("text"))
    };
    let (first, notice) = run();
    assert!(notice.contains("A new installation"), "{notice}");
    assert_eq!(run(), (first, String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_set_up_anew_is_another_installation() {
    let [one, other] = [Server::start(Setup::default()).await, Server::start(Setup::default()).await];
    let ours = Tenant::new(one.client().await).await;
    let trusting_other = client(&one, &ours, &anchor(&other, &[])).await;
    assert_eq!(refusal(&trusting_other, &ours).await.as_deref(), Some("ATTESTATION_OTHER_INSTALLATION"));
    let careless = ConnectOptions { trust: Trust::Unverified, ..ConnectOptions::new(one.url()) };
    let careless = Client::connect(&careless).await.expect("it answers");
    assert_eq!(refusal(&careless, &ours).await, None);
}

/// Whether a program that a test needs is here. Where CI is set, it must be.
fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    assert!(found || std::env::var_os("CI").is_none(), "where CI is set, {program} must be there");
    if !found {
        eprintln!("SKIPPED: {program} is missing");
    }
    found
}

/// Changes the database of a server between two of its lives, and connects the tenant again.
async fn change_database(server: &mut Server, tenant: &Tenant, statements: &str) -> Client {
    server.stop();
    let path = server.directory().join("data/server.db");
    let script = "import sqlite3, sys\nwith sqlite3.connect(sys.argv[1]) as db: db.executescript(sys.argv[2])";
    let output = Command::new("python3").args(["-c", script]).arg(path).arg(statements).output().expect("python3 runs");
    assert!(output.status.success(), "{output:?}");
    server.restart().await;
    let client = server.client().await;
    client.use_key(&tenant.keys).await.expect("the digests of the key");
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn results_that_were_exchanged_in_the_database_are_refused() {
    if !has("python3") {
        return;
    }
    let mut server = Server::start(Setup::default()).await;
    let tenant = Tenant::new(server.client().await).await;
    let mut names = Vec::new();
    for value in [2, 3] {
        let job = tenant.client.submit(&tenant.squares(&[value])).await.expect("accepted");
        tenant.client.wait(&job.name).await.expect("it ends");
        names.push(job.name);
    }
    let client = change_database(
        &mut server,
        &tenant,
        "CREATE TEMP TABLE swapped AS SELECT * FROM job_outputs;
         UPDATE job_outputs SET (digest, size_bytes, bytes) =
             (SELECT digest, size_bytes, bytes FROM swapped WHERE swapped.job <> job_outputs.job);",
    )
    .await;
    for name in &names {
        let job = client.job(name).await.expect("the server does not notice");
        let error = client.verify(&job, None).await.expect_err("the output of another job");
        assert!(error.to_string().contains("it differs in outputs"), "{error}");
        // As an input of another job, the output is refused as well.
        let request = tenant.squares(&[1]).input(Input::Name(format!("{name}/outputs/0")));
        let error = client.asked(&request).await.expect_err("an input of another job");
        assert_eq!(error.reason(), Some("ATTESTATION_MISMATCH"), "{error}");
    }
    // With the attestations exchanged too, the statement is about the other job.
    let client = change_database(
        &mut server,
        &tenant,
        "CREATE TEMP TABLE swapped AS SELECT * FROM jobs;
         UPDATE jobs SET attestation = (SELECT attestation FROM swapped WHERE swapped.id <> jobs.id);",
    )
    .await;
    for name in &names {
        let job = client.job(name).await.expect("the server does not notice");
        let error = client.verify(&job, None).await.expect_err("the statement of another job");
        assert!(error.to_string().contains("it differs in job"), "{error}");
    }
}

/// A part of a key, with the public id of another key.
fn renamed(part: &Part, key_id: KeyId) -> Part {
    let mut bytes = match &part.source {
        Source::Bytes(bytes) => bytes.to_vec(),
        Source::File(path) => std::fs::read(path).expect("a part"),
    };
    let end = bytes.len() - 32;
    bytes[16..32].copy_from_slice(&key_id.0);
    let digest = Digest::of(&bytes[..end]).blake3;
    bytes[end..].copy_from_slice(&digest);
    Part { source: Source::Bytes(bytes.into()), ..part.clone() }
}

/// A tenant that sees another tenant's request, perhaps on a proxy between the two, has the same
/// job computed under a key of its own with the same public id. Everything in the worker's
/// statement then fits the victim's request, except the parts of the evaluation key.
#[tokio::test(flavor = "multi_thread")]
async fn the_result_of_the_same_job_under_the_key_of_another_tenant_is_refused() {
    let server = Server::start(Setup::default()).await;
    let victim = Tenant::new(server.client().await).await;
    let thief = server.client_with(&server.token("thief", "jobs,keys,read")).await;
    let keys = Keys::generate(set_by_name(TOY).expect("a set"), Progress::none()).await.expect("keys");
    let parts: Vec<Part> = keys.parts().iter().map(|part| renamed(part, victim.keys.key_id())).collect();
    let key = thief.push_parts(&parts, &Progress::none()).await.expect("a key under any id is taken");
    assert_eq!(key.key_id, victim.keys.key_id().0.as_slice());
    let list = victim.keys.encrypt(&[3], 15).expect("a value");
    let program = victim.lookup(|x| x * x % 16);
    let request = JobRequest::new(program.clone(), &victim.key).encrypted(list.clone());
    let spec = JobSpec {
        program: Some(Program::ProgramInline(program.bytes().clone())),
        key: key.name,
        inputs: vec![JobInput { source: Some(job_input::Source::Inline(list.envelope)) }],
        ..Default::default()
    };
    let mut call = tonic::Request::new(RunJobRequest { request_id: request.request_id().to_owned(), spec: Some(spec) });
    let token = format!("Bearer {}", server.token("thief", "jobs"));
    call.metadata_mut().insert("authorization", token.parse().expect("a header"));
    let stolen = JobServiceClient::new(channel(&server).await).run_job(call).await.expect("it succeeds").into_inner();
    let asked = victim.client.asked(&request).await.expect("known inputs");
    let error = victim.client.verify(&stolen.job.expect("a job"), Some(&asked)).await.expect_err("a foreign key");
    assert!(error.to_string().contains("it differs in evaluation key"), "{error}");
    // The victim's own job of this request is good.
    victim.client.run(&request).await.expect("the result");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_pins_the_anchor_of_a_server_on_this_machine() {
    let server = Server::start(Setup::default()).await;
    let home = tempfile::tempdir().expect("a directory");
    let shell = Shell::new(&server, home.path());
    shell.text(&["keygen", "--set", TOY, "--out", "numbers"]);
    shell.text(&["keys", "push"]);
    let pins = || std::fs::read_to_string(home.path().join("numbers/anchors")).ok();
    assert_eq!(pins(), None, "no result was used yet");
    let square = ["pbs", "--fn", "square", "--values", "3"];
    shell.text(&square);
    let own = anchor(&server, &[]).to_string();
    assert_eq!(pins().as_deref(), Some(&*format!("{} {own}\n", server.url())));
    assert!(shell.text(&["anchor", "ls"]).contains(&own));
    // Another anchor refuses the result, with a reason and advice.
    let other = format!("ed25519:{}", "0d".repeat(32));
    shell.text(&["anchor", "pin", &other]);
    let (code, said) = shell.refusal(&square);
    assert!(
        code == Some(7) && said.contains("ATTESTATION_OTHER_INSTALLATION") && said.contains("anchor pin"),
        "{said}"
    );
    let (_, said) = shell.refusal(&[&["--json"], &square[..]].concat());
    assert!(said.contains(r#""reason":"ATTESTATION_OTHER_INSTALLATION""#), "{said}");
    shell.text(&[&["--anchor", &own], &square[..]].concat());
    shell.text(&[&["--unverified"], &square[..]].concat());
    shell.text(&["anchor", "unpin"]);
    shell.text(&square);
    assert_eq!(pins().as_deref(), Some(&*format!("{} {own}\n", server.url())));
    let (code, said) = shell.refusal(&["anchor", "pin", "ed25519:00"]);
    assert!(code == Some(2) && said.contains("64 hexadecimal digits"), "{said}");
}

/// A program of the operator that signs with openssl, as docs/operations.md shows it.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_the_operator_signs_certificates() {
    if !has("openssl") {
        return;
    }
    let home = tempfile::tempdir().expect("a directory");
    let run = |script: &str| {
        let output = Command::new("sh").current_dir(home.path()).args(["-c", script]).output().expect("sh runs");
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    run("openssl genpkey -algorithm ed25519 -out sign.pem");
    let digits = run(r"openssl pkey -in sign.pem -pubout -outform DER | tail -c 32 | od -An -tx1 -v | tr -d ' \n'");
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md"));
    let page = page.expect("the page");
    let (_, rest) = page.split_once("#!/bin/sh\n").expect("the program");
    let (program, _) = rest.split_once("```").expect("its end");
    let program = format!("#!/bin/sh\n{}", program.replace("/etc/cloakwork", &home.path().display().to_string()));
    std::fs::write(home.path().join("sign"), program).expect("a file");
    // `config check` covers the program that the file names.
    let file = format!(
        "[attestation]\nsign_command = \"{}\"\nanchor = \"ed25519:{digits}\"\n",
        home.path().join("sign").display()
    );
    std::fs::write(home.path().join("server.toml"), file).expect("a file");
    let check = || {
        let mut command = Command::new(binary("tested-server"));
        command.current_dir(home.path()).args(["config", "check", "server.toml"]).output().expect("it runs")
    };
    let refused = check();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("not an executable file"), "{refused:?}");
    run("chmod 700 sign");
    assert!(check().status.success());
    let setup = Setup::default()
        .with("attestation.sign_command", home.path().join("sign").display())
        .with("attestation.anchor", format!("ed25519:{digits}"));
    let server = Server::start(setup).await;
    let tenant = Tenant::new(server.client().await).await;
    tenant.check_squares(&[1, 2, 3]).await;
    assert_eq!(anchor(&server, &[]).to_string(), format!("ed25519:{digits}"));
    assert!(!server.directory().join("data/installation/key").exists(), "the server makes no key of its own");
    let output = server.command().args(["anchor", "--rotate"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let issued = server.metric("cloakwork_worker_certificates_total").await;
    assert!(issued >= 1.0, "{issued}");
}
