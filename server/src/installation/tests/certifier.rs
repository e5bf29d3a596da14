//! A program of the operator that signs.

use std::{fs, path::PathBuf};

use cloakwork_attestation::Claim;

use super::{super::certifier::*, *};

fn claim() -> Claim {
    *certificate(WorkerId(1)).claim()
}

/// Bytes of the right signature.
fn signature() -> Vec<u8> {
    certificate(WorkerId(1)).encode()[Claim::BYTES..].to_vec()
}

/// A shell script in a directory, beside a file with a signature.
fn script(directory: &Path, signature: &[u8], lines: &str) -> PathBuf {
    fs::write(directory.join("signature"), signature).unwrap();
    let path = directory.join("sign");
    let text = format!("#!/bin/sh\ncd {}\n{lines}\n", directory.display());
    // Another process writes the file. If this one did, a process that another test starts at that
    // moment would hold it open for writing, and the program could not be run.
    let write = r#"printf %s "$1" >"$0" && chmod 700 "$0""#;
    let written = std::process::Command::new("sh").args(["-c", write]).arg(&path).arg(text).status().unwrap();
    assert!(written.success());
    path
}

async fn signed(signature: &[u8], lines: &str) -> Result<Certificate, String> {
    let directory = tempfile::tempdir().unwrap();
    let program = script(directory.path(), signature, lines);
    let anchor = Anchor::new([installation_key().public()]).unwrap();
    SignCommand::new(&program, &anchor).certify(claim()).await
}

#[tokio::test]
async fn a_program_reads_the_claim_and_writes_its_signature() {
    let compare = "cat >claim; [ $(wc -c <claim) = 104 ] && cat signature";
    assert_eq!(signed(&signature(), compare).await, Ok(certificate(WorkerId(1))));
    // A program need not read what it does not need.
    assert_eq!(signed(&signature(), "cat signature").await, Ok(certificate(WorkerId(1))));
}

#[tokio::test]
async fn a_program_that_does_not_sign_is_an_error_that_says_why() {
    let long = [&signature()[..], &[0; 100_000]].concat();
    let cases: [(&[u8], &str, &str); 6] = [
        (&signature(), "echo no such key >&2; exit 3", "ended with exit status: 3: no such key"),
        (&signature()[..63], "cat signature", "wrote 63 bytes: a signature has 64"),
        (&[], "cat signature", "wrote 0 bytes"),
        (&long, "cat signature; exit 0", "more than the 64 bytes"),
        (&[0; 64], "cat signature", "under another key"),
        (&signature(), "yes x >&2; exit 1", "ended with exit status: 1: x"),
    ];
    for (bytes, lines, expected) in cases {
        let error = signed(bytes, lines).await.expect_err(lines);
        assert!(error.contains(expected), "{lines}: {error}");
        assert!(error.len() < 400, "{error}");
    }
    let anchor = Anchor::new([installation_key().public()]).unwrap();
    let missing = SignCommand::new(Path::new("/nonexistent/sign"), &anchor);
    assert!(missing.certify(claim()).await.unwrap_err().contains("/nonexistent/sign"));
}

#[tokio::test]
async fn a_program_that_hangs_is_ended() {
    let directory = tempfile::tempdir().unwrap();
    let program = script(directory.path(), &[], "echo $$ >pid; exec sleep 600");
    let anchor = Anchor::new([installation_key().public()]).unwrap();
    let error = SignCommand::new(&program, &anchor).certify(claim()).await.unwrap_err();
    assert!(error.contains("took over"), "{error}");
    let pid: u32 = fs::read_to_string(directory.path().join("pid")).unwrap().trim().parse().unwrap();
    // The kernel removes the process when the runtime has waited for it.
    let begun = std::time::Instant::now();
    while Path::new(&format!("/proc/{pid}/exe")).read_link().is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{pid} goes on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_server_whose_program_fails_gives_no_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let telemetry = Arc::new(Telemetry::new(10).unwrap());
    let mut config = Config::default();
    config.attestation.sign_command = Some(script(directory.path(), &[], "exit 1"));
    config.attestation.anchor = Some(Anchor::new([installation_key().public()]).unwrap());
    let installation = Installation::open(&config, ManualClock::at(NOW).clock(), telemetry.clone()).unwrap();
    let error = installation.certify(WorkerId(1), worker_key().public()).await.unwrap_err();
    assert_eq!(error.reason(), CERTIFICATE_UNAVAILABLE);
    assert!(!error.to_string().contains("exit status"), "the cause is for the log: {error}");
    let scraped = telemetry.scrape(cloakwork_telemetry::Format::Prometheus);
    assert!(scraped.contains("cloakwork_worker_certificates_total{result=\"failed\"} 1"), "{scraped}");
}
