//! CKKS from the command line: making keys, uploading them part by part, and encrypting and
//! decrypting numbers.

use cloakwork_client::{CLIENT_KEY_FILE, ClientError, Digest, Encrypted, Progress, Source, VectorHeader};
use cloakwork_tests_service::{Server, Setup, Shell};

const SET: &str = "TOY_CKKS_45_60_50";

#[tokio::test(flavor = "multi_thread")]
async fn keys_reach_the_server_part_by_part() {
    let server = Server::start(Setup::default()).await;
    let home = tempfile::tempdir().expect("a directory");
    let shell = Shell::new(&server, home.path());
    let keygen = [
        "ckks",
        "keygen",
        "--set",
        SET,
        "--bootstrap",
        "16:2:medium",
        "--rotate",
        "1,-1",
        "--conjugate",
        "--level",
        "3",
    ];
    let made = shell.document(&keygen);
    let (parts, size) = (made["parts"].as_u64().expect("a count"), &made["evaluation_key_bytes"]);
    assert!(parts > 6, "{made}");
    let (code, message) = shell.refusal(&keygen);
    assert!(code == Some(8) && message.contains("never overwritten"), "{message}");

    let pushed = shell.document(&["keys", "push"]);
    let kinds = &pushed["key"]["kinds"];
    let expected = serde_json::json!([
        { "kind": "seeded CKKS switch key", "parameter_set": SET, "parts": parts, "size_bytes": size }
    ]);
    assert_eq!(*kinds, expected);
    let of_key = pushed["key"]["parts"].as_array().expect("parts");
    let with = |purpose: &str| of_key.iter().filter(|part| part["ckks"]["purpose"] == purpose).collect::<Vec<_>>();
    assert_eq!((with("relinearization").len(), with("to_sparse").len(), with("to_dense").len()), (1, 1, 1));
    assert!(with("to_sparse")[0]["ckks"]["level"] == 0, "the sparse secret is weak where the modulus is large");
    assert!(with("move").iter().any(|part| part["ckks"]["power"] == 5), "a rotation by one");
    assert!(with("move").iter().any(|part| part["ckks"]["power"] == 2047), "conjugates");
    // A second push sends nothing, and the key stays the same.
    assert_eq!(shell.document(&["keys", "push"])["key"]["parts"], pushed["key"]["parts"]);
    let listed = shell.text(&["keys", "ls"]);
    let line = listed.lines().nth(1).expect("a key");
    assert!(line.contains("seeded CKKS switch key") && line.contains(&format!(" {parts} ")), "{listed}");
    let shown = shell.text(&["keys", "show"]);
    assert!(shown.contains("X to X^5 up to level") && shown.contains("into a bootstrap"), "{shown}");
    // The program decides whether the key of a CKKS set is complete, so the command does not print
    // it.
    assert!(shown.contains(&format!("active, {parts} parts\n")) && !shown.contains("complete"), "{shown}");

    // The server refuses the client key, even if a client tries to upload it.
    let secret = std::fs::read(home.path().join("numbers").join(CLIENT_KEY_FILE)).expect("a client key");
    let (source, digest) = (Source::Bytes(secret.clone().into()), Digest::of(&secret));
    let refused = server.client().await.upload("key", &source, digest, &Progress::none()).await;
    let reason = refused.as_ref().err().and_then(ClientError::refusal).map(|refusal| refusal.reason.as_str());
    assert_eq!(reason, Some("SECRET_KEY_REJECTED"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_come_back_and_the_server_knows_their_level_slots_and_scale() {
    let server = Server::start(Setup::default()).await;
    let home = tempfile::tempdir().expect("a directory");
    let shell = Shell::new(&server, home.path());
    shell.text(&["ckks", "keygen", "--set", SET, "--level", "2"]);
    shell.text(&["ckks", "encrypt", "0.5", "-1.25", "0.5+0.25i", "--level", "2", "--out", "x"]);
    let printed = shell.run(&["ckks", "decrypt", "x", "--digits", "4", "--real"]);
    assert_eq!(String::from_utf8_lossy(&printed.stdout), "0.5000\n-1.2500\n0.5000\n0.0000\n");
    assert!(printed.stderr.is_empty(), "rounded numbers need no warning");
    let printed = shell.run(&["ckks", "decrypt", "x", "--digits", "5"]);
    assert!(String::from_utf8_lossy(&printed.stderr).contains("depend on the secret key"), "{printed:?}");

    std::fs::write(home.path().join("column.json"), "[1, [0.5, -2], 3]").expect("a file");
    shell.text(&["ckks", "encrypt", "--from", "column.json", "--slots", "8", "--level", "1", "--out", "y"]);
    let numbers = shell.document(&["ckks", "decrypt", "y", "--digits", "3", "--real"]);
    let numbers: Vec<f64> = serde_json::from_value(numbers["numbers"].clone()).expect("numbers");
    assert_eq!(numbers, [1.0, 0.5, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0]);

    // The public key suffices to encrypt, without the client key.
    shell.text(&["ckks", "public-key", "--out", "numbers.public"]);
    let with = |key| ["ckks", "encrypt", "--public-key", key, "0.25", "-3", "--level", "1", "--out", "z"];
    let (code, message) = shell.refusal(&with("x"));
    assert!(code == Some(4) && message.contains("x: ") && message.contains("public key"), "{code:?} {message}");
    let rename =
        |from: &str, to: &str| std::fs::rename(home.path().join(from), home.path().join(to)).expect("a directory");
    rename("numbers", "elsewhere");
    shell.text(&with("numbers.public"));
    rename("elsewhere", "numbers");
    assert_eq!(shell.text(&["ckks", "decrypt", "z", "--digits", "3", "--real"]), "0.250\n-3.000\n");

    let client = server.client().await;
    let envelope = std::fs::read(home.path().join("y")).expect("a ciphertext");
    let name = client.store(&of_file(envelope)).await.expect("a ciphertext");
    let described = client.describe(&name).await.expect("it is there");
    let numbers = described.ckks.expect("a ciphertext of CKKS");
    assert_eq!((described.kind.as_str(), described.count), ("seeded CKKS ciphertext", 1));
    assert_eq!((numbers.level, numbers.slots, numbers.scale), (1, 8, 2_f64.powi(45)));

    std::fs::write(home.path().join("prices.csv"), "\u{feff}price;count\n1;2\n").expect("a file");
    let encrypt = |args: &[&str]| shell.refusal(&[&["ckks", "encrypt", "--out", "z"], args].concat());
    for (args, expected) in [
        (&["1", "--level", "15"][..], "goes up to level 14"),
        (&["1", "--slots", "3"], "a power of two"),
        (&["1", "--slots", "1024"], "up to 512"),
        (&["NaN"], "is not finite"),
        (&["1e30"], "too large"),
        (&["--from", "nowhere"], "nowhere"),
        (&["--from", "prices.csv"], "prices.csv: line 1: expected a number"),
        (&[], "there are no numbers"),
    ] {
        let (code, message) = encrypt(args);
        assert!(code == Some(2) && message.contains(expected), "{args:?}: {code:?} {message}");
    }
}

/// Every command reports an unusable file with the same code and with its name.
#[tokio::test(flavor = "multi_thread")]
async fn files_that_cannot_be_used_are_named_before_anything_is_sent() {
    let server = Server::start(Setup::default()).await;
    let homes = [0; 3].map(|_| tempfile::tempdir().expect("a directory"));
    let [shell, other, foreign] = homes.each_ref().map(|home| Shell::new(&server, home.path()));
    let sets = [SET, SET, "TOY_CKKS_54_60"];
    let mut ids = Vec::new();
    for (shell, set) in [&shell, &other, &foreign].into_iter().zip(sets) {
        let made = shell.document(&["ckks", "keygen", "--set", set, "--level", "1"]);
        shell.text(&["ckks", "encrypt", "0.5", "0.25", "--level", "1", "--out", "x"]);
        ids.push(made["key_id"].as_str().expect("an id").to_owned());
    }
    let file = |home: usize, name: &str| homes[home].path().join(name);
    for (home, name) in [(1, "other"), (2, "foreign")] {
        std::fs::copy(file(home, "x"), file(0, name)).expect("a copy");
    }
    std::fs::write(file(0, "numbers.csv"), "0.5, 0.25").expect("a file");
    let whole = std::fs::read(file(0, "x")).expect("a ciphertext");
    std::fs::write(file(0, "short"), &whole[..100]).expect("a file");
    // Nothing but the server describes this ciphertext.
    let envelope = std::fs::read(file(1, "x")).expect("a ciphertext");
    let stored = server.client().await.store(&of_file(envelope)).await.expect("a name");
    let (keys, sets) = ([&ids[0][..], &ids[1]], [sets[0], sets[2]]);
    for (file, expected, words) in [
        ("other", 8, &keys[..]),
        ("foreign", 8, &sets[..]),
        (&stored[..], 2, &["no record of this result"]),
        ("numbers.csv", 4, &["not a Cloakwork file"][..]),
        ("short", 4, &["truncated"][..]),
        ("nowhere", 2, &[][..]),
    ] {
        let named = format!("y={file}");
        let run = ["ckks", "run", "x + y", "x=x", &named];
        let plan = ["ckks", "run", "--plan", "x + y", "x=x", &named];
        let bootstrap = ["ckks", "bootstrap", file];
        let decrypt = ["ckks", "decrypt", file];
        for command in [&run[..], &plan, &bootstrap, &decrypt] {
            let (code, message) = shell.refusal(command);
            assert_eq!(code, Some(expected), "{command:?}: {message}");
            let is_named = message.contains(&format!("{file}: ")) && words.iter().all(|word| message.contains(*word));
            assert!(is_named, "{command:?}: {message}");
        }
    }
    assert_eq!(shell.document(&["jobs", "ls"])["jobs"], serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_results_are_reported_as_damaged_or_wrong() {
    let server = Server::start(Setup::default()).await;
    let home = tempfile::tempdir().expect("a directory");
    let shell = Shell::new(&server, home.path());
    shell.text(&["ckks", "keygen", "--set", SET, "--level", "3"]);
    shell.text(&["keys", "push"]);
    shell.text(&["ckks", "encrypt", "1e9", "--level", "3", "--out", "x"]);
    let mut damaged = std::fs::read(home.path().join("x")).expect("a ciphertext");
    *damaged.last_mut().expect("bytes") ^= 1;
    std::fs::write(home.path().join("damaged"), damaged).expect("a file");
    let (code, message) = shell.refusal(&["ckks", "decrypt", "damaged"]);
    assert!(code == Some(4) && message.contains("damaged: "), "{code:?} {message}");
    // The square is 2^59.8, but decryption reads numbers below 2^52.
    shell.text(&["ckks", "run", "x * x", "x=x", "--out", "square"]);
    let (code, message) = shell.refusal(&["ckks", "decrypt", "square"]);
    assert!(code == Some(7) && message.contains("square: the numbers are too large"), "{code:?} {message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_part_is_named() {
    let server = Server::start(Setup::default()).await;
    let home = tempfile::tempdir().expect("a directory");
    let shell = Shell::new(&server, home.path());
    shell.text(&["ckks", "keygen", "--set", SET, "--level", "1"]);
    let part = home.path().join("numbers").join(format!("{SET}.products"));
    let whole = std::fs::read(&part).expect("a part");
    let named = format!("{SET}.products: ");
    // The server detects damage at the end of the part, and the client at its beginning.
    for (place, expected) in [(whole.len() - 1, 4), (0, 8)] {
        let mut damaged = whole.clone();
        damaged[place] ^= 1;
        std::fs::write(&part, damaged).expect("a file");
        let (code, message) = shell.refusal(&["keys", "push"]);
        assert!(code == Some(expected) && message.contains(&named), "{place}: {code:?} {message}");
    }
}

/// Every command reports an impossible bootstrap with the same code, and creates no job.
#[tokio::test(flavor = "multi_thread")]
async fn impossible_computations_are_reported_as_wrong_arguments() {
    let server = Server::start(Setup::default()).await;
    let home = tempfile::tempdir().expect("a directory");
    let shell = Shell::new(&server, home.path());
    shell.text(&["ckks", "keygen", "--set", SET, "--level", "1"]);
    shell.text(&["ckks", "encrypt", "0.5", "0.25", "0", "1", "--level", "0", "--out", "x"]);
    for (command, expected) in [
        (&["run", "x * x", "x=x"][..], "level"),
        (&["run", "bootstrap(x, 5)", "x=x"], "--slots"),
        (&["bootstrap", "x", "--stages", "5"], "--slots"),
        (&["run", "bootstrap(x, 6)", "x=x"], "6 stages"),
        (&["run", "bootstrap(x, 2, small, lossy)", "x=x"], "level"),
        (&["bootstrap", "x", "--stages", "2", "--lossy"], "level"),
    ] {
        let (code, message) = shell.refusal(&[&["ckks"], command].concat());
        assert!(code == Some(2) && message.contains(expected), "{command:?}: {code:?} {message}");
    }
    assert_eq!(shell.document(&["jobs", "ls"])["jobs"], serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_default_settings_refuses_toy_sets() {
    let server = Server::start(Setup::as_shipped()).await;
    let home = tempfile::tempdir().expect("a directory");
    let shell = Shell::new(&server, home.path());
    shell.text(&["ckks", "keygen", "--set", SET, "--level", "0"]);
    let (code, message) = shell.refusal(&["keys", "push"]);
    assert!(code == Some(4) && message.contains("WEAK_SET_REFUSED"), "{code:?} {message}");
    assert!(message.contains("allow_weak_sets") && message.contains("`cloakwork sets`"), "{message}");
}

/// The set has a real ring: toys are never retired.
#[tokio::test(flavor = "multi_thread")]
async fn stored_keys_of_retired_sets_compute_and_new_ones_are_refused() {
    const RETIRED: &str = "CKKS_45_60_50";
    let mut server = Server::start(Setup::default()).await;
    let home = tempfile::tempdir().expect("a directory");
    let shell = Shell::new(&server, home.path());
    let warned = |output: std::process::Output| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.contains(&format!("{RETIRED} is weak: ")), "{said}");
        assert!(said.contains("the best known attack costs 2^125.6"), "{said}");
    };
    warned(shell.run(&["ckks", "keygen", "--set", RETIRED, "--level", "1"]));
    warned(shell.run(&["keys", "push"]));

    server.stop();
    server.set("allow_weak_sets", false);
    server.restart().await;
    let listed = shell.text(&["keys", "ls"]);
    assert!(listed.contains(&format!("{RETIRED}  WEAK: the best known attack costs 2^125.6")), "{listed}");
    shell.text(&["ckks", "encrypt", "0.5", "0.125", "--slots", "2", "--level", "1", "--out", "x.ckks"]);
    shell.text(&["ckks", "run", "x * x", "x=x.ckks", "--out", "y.ckks"]);
    assert_eq!(shell.text(&["ckks", "decrypt", "y.ckks", "--real"]), "0.2500\n0.0156\n");

    let other = tempfile::tempdir().expect("a directory");
    let shell = Shell::new(&server, other.path());
    warned(shell.run(&["ckks", "keygen", "--set", RETIRED, "--level", "0"]));
    let (code, message) = shell.refusal(&["keys", "push"]);
    assert!(code == Some(4) && message.contains("WEAK_SET_REFUSED") && message.contains("2^125.6"), "{message}");
}

/// A ciphertext of a file that the test has written.
fn of_file(envelope: Vec<u8>) -> Encrypted {
    let shape = VectorHeader::of(&envelope).expect("a vector").shape();
    Encrypted { envelope: envelope.into(), shape }
}
