use super::*;

fn problems(text: &str) -> Vec<String> {
    Config::parse("f.toml", text)
        .err()
        .map(|error| error.to_string().lines().map(str::to_owned).collect())
        .unwrap_or_default()
}

fn environment(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn an_empty_file_is_the_default() {
    assert_eq!(Config::parse("f.toml", "").unwrap(), Config::default());
}

#[test]
fn a_printed_configuration_parses_to_the_original() {
    assert_eq!(Config::parse("f.toml", &print(&Config::default())).unwrap(), Config::default());
    let mut other = Config { allow_weak_sets: true, ..Config::default() };
    other.listen.tls_certificate = Some("a \"quoted\" path".into());
    other.listen.tls_key = Some("k".into());
    other.listen.client_ca = Some("c".into());
    other.storage.blobs = BlobStore::S3;
    other.storage.s3_bucket = "b".into();
    other.log.format = LogFormat::Json;
    other.limits.lease_ms = 77_777;
    let sets = Sets(vec![REFERENCE_SET]);
    other.pools.insert("gpu".to_owned(), Pool { bootstraps_per_second: 9000, sets });
    other.pools.insert("cpu-2".to_owned(), Pool { bootstraps_per_second: 300, sets: Sets::default() });
    assert_eq!(Config::parse("f.toml", &print(&other)).unwrap(), other);
}

#[test]
fn every_setting_is_printed_and_has_an_example_or_a_default() {
    let text = print(&Config::default());
    for section in settings::SECTIONS {
        for setting in section.settings {
            assert!(text.contains(&format!("{} = ", setting.name)), "{}", setting.name);
            assert!((setting.show)(&Config::default()).is_some() || !setting.example.is_empty(), "{}", setting.name);
        }
    }
    assert!(text.lines().all(|line| line.chars().count() <= 120));
}

#[test]
fn unknown_names_are_refused_with_line_and_nearest_name() {
    let found = problems(
        "\n[listen]\nadress = \"127.0.0.1:1\"\n\n[limits]\nqueued_job = 5\nwibble = 3\n[strage]\ndirectory = \"x\"\n",
    );
    assert_eq!(
        found,
        [
            "f.toml:3: unknown setting 'listen.adress'; did you mean 'listen.address'?",
            "f.toml:6: unknown setting 'limits.queued_job'; did you mean 'limits.queued_jobs'?",
            "f.toml:7: unknown setting 'limits.wibble'",
            "f.toml:8: unknown section 'strage'; did you mean 'storage'?",
        ]
    );
    assert_eq!(
        problems("allow_weak_set = true"),
        ["f.toml:1: unknown setting 'allow_weak_set'; did you mean 'allow_weak_sets'?"]
    );
}

#[test]
fn values_of_the_wrong_type_or_range_are_refused() {
    let cases = [
        ("allow_weak_sets = 1", "allow_weak_sets must be true or false, not the number 1"),
        (
            "[listen]\naddress = \"localhost\"",
            "listen.address must be an IP address and a port, such as 127.0.0.1:7270, not 'localhost'",
        ),
        ("[listen]\naddress = 7270", "listen.address must be a string, not the number 7270"),
        ("[storage]\ndirectory = \"\"", "storage.directory must be a path, and is empty"),
        ("[storage]\nblobs = \"gcs\"", "storage.blobs must be local or s3, not 'gcs'"),
        ("[worker]\nthreads = -1", "worker.threads must be a whole number, 0 or more, not the number -1"),
        ("[worker]\nthreads = 1.5", "worker.threads must be a whole number, 0 or more, not of type float"),
        (
            "[worker]\nthreads = 0xfffffffffffffffff",
            "worker.threads must be a whole number, 0 or more, not of type integer beyond 64 bits",
        ),
        ("[log]\nformat = \"xml\"", "log.format must be text or json, not 'xml'"),
        ("[limits]\nlease_ms = \"10 s\"", "limits.lease_ms must be a whole number, 0 or more, not '10 s'"),
        ("[limits]\nlease_ms = 1", "limits.lease_ms must be between 50 and 3600000, not 1"),
    ];
    for (text, expected) in cases {
        let line = text.matches('\n').count() + 1;
        assert_eq!(problems(text), [format!("f.toml:{line}: {expected}")], "{text}");
    }
}

#[test]
fn every_setting_refuses_an_array() {
    for key in settings::keys() {
        let (section, name) =
            key.rsplit_once('.').map_or((String::new(), key.as_str()), |(s, n)| (format!("[{s}]\n"), n));
        let found = problems(&format!("{section}{name} = []"));
        assert_eq!(found.len(), 1, "{key}");
        assert!(found[0].contains(&key) && found[0].contains("of type array"), "{found:?}");
    }
}

#[test]
fn contradicting_settings_are_refused() {
    let cases = [
        ("[listen]\naddress = \"0.0.0.0:7270\"", "auth.anonymous admits every caller"),
        ("[listen]\naddress = \"127.0.0.1:7271\"", "are the same"),
        ("[listen]\ntls_key = \"k\"", "go together"),
        ("[listen]\nclient_ca = \"c\"", "listen.client_ca needs TLS"),
        ("[listen]\nadmin_tls = true", "listen.admin_tls needs"),
        ("[auth]\nworker_mtls = true", "auth.worker_mtls needs listen.client_ca"),
        ("[storage]\nblobs = \"s3\"", "needs storage.s3_bucket"),
        ("[storage]\ns3_endpoint = \"store:9000\"", "must begin with http:// or https://"),
        ("[storage]\ns3_endpoint = \"http://user:hunter2@store\"", "must not hold credentials"),
        ("[storage]\ns3_credentials_file = \"c\"", "storage.s3_credentials_file needs storage.blobs"),
        ("[database]\nurl = \"mysql://db/name\"", "database.url cannot be used: it is not a URL such as postgres://"),
        ("[database]\nurl = \"postgres://user:hunter2@db/name\"", "database.url must not hold a password"),
        ("[database]\nrequire_sync_standby = true", "need database.url"),
        ("[database]\npassword_file = \"p\"", "need database.url"),
        ("[log]\nlevel = \"loud\"", "log.level must be"),
        ("[limits]\nreport_ms = 9000", "limits.report_ms"),
    ];
    for (text, expected) in cases {
        let found = problems(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].contains(expected), "{text}: {found:?}");
        assert!(!found[0].contains("hunter2"), "{found:?}");
    }
    assert_eq!(problems("[auth]\nanonymous = false\n[listen]\naddress = \"0.0.0.0:7270\""), [""; 0]);
    assert_eq!(problems("[listen]\naddress = \"[::1]:7270\""), [""; 0]);
}

#[test]
fn syntax_errors_name_the_line_and_do_not_quote_it() {
    let found = problems("[listen]\naddress = \"127.0.0.1:1\"\npassword = hunter2\n");
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("f.toml:3: ") && !found[0].contains("hunter2"), "{found:?}");
}

#[test]
fn unknown_secrets_are_not_repeated() {
    let found = problems("[storage]\nsecret_access_key = \"hunter2\"").join("\n");
    assert!(found.contains("unknown setting") && !found.contains("hunter2"), "{found}");
}

#[test]
fn the_environment_overrides_the_file_and_flags_override_both() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.toml");
    std::fs::write(&path, "[log]\nlevel = \"warn\"\n[worker]\nthreads = 1\n[limits]\nlease_ms = 5000\n").unwrap();
    let variables = environment(&[
        ("CLOAKWORK_WORKER__THREADS", "2"),
        ("CLOAKWORK_LIMITS__LEASE_MS", "6_000"),
        ("CLOAKWORK_ALLOW_WEAK_SETS", "true"),
        ("CLOAKWORK_TOKEN", "another program's"),
        ("PATH", "/bin"),
    ]);
    let flags = environment(&[("limits.lease_ms", "7000")]);
    let config = Config::load(Some(&path), variables, &flags).unwrap();
    assert_eq!((config.log.level.as_str(), config.worker.threads, config.limits.lease_ms), ("warn", 2, 7000));
    assert!(config.allow_weak_sets);
}

#[test]
fn variables_and_flags_are_checked_as_well() {
    let variables = environment(&[("CLOAKWORK_LISTEN__ADRESS", "x"), ("CLOAKWORK_AUTH__ANONYMOUS", "yes")]);
    let flags = environment(&[("log.levl", "info")]);
    let error = Config::load(None, variables, &flags).unwrap_err().to_string();
    assert_eq!(
        error.lines().collect::<Vec<_>>(),
        [
            "CLOAKWORK_AUTH__ANONYMOUS: auth.anonymous must be true or false, not 'yes'",
            "CLOAKWORK_LISTEN__ADRESS: unknown setting 'listen.adress'; did you mean 'listen.address'?",
            "command line: unknown setting 'log.levl'; did you mean 'log.level'?",
        ]
    );
}

#[test]
fn a_missing_file_is_named() {
    let error = Config::load(Some(Path::new("/nowhere/c.toml")), [], &[]).unwrap_err().to_string();
    assert!(error.starts_with("/nowhere/c.toml: cannot be read"), "{error}");
}

proptest::proptest! {
    #[test]
    fn the_parser_never_panics(text in "\\PC{0,200}") {
        let _ = Config::parse("f.toml", &text);
    }
}

#[test]
fn an_address_beyond_loopback_without_tls_is_open() {
    let is_open = |text: &str| Config::parse("f.toml", text).expect(text).is_open_in_the_clear();
    let beyond = "[auth]\nanonymous = false\n[listen]\naddress = \"0.0.0.0:7270\"\n";
    assert!(is_open(beyond));
    assert!(!is_open(&format!("{beyond}tls_certificate = \"c\"\ntls_key = \"k\"\n")));
    assert!(!is_open("[auth]\nanonymous = false\n") && !is_open(""));
}

#[test]
fn pools_are_declared_in_a_file_or_the_environment() {
    let file = "[pools.gpu]\nbootstraps_per_second = 9000\nsets = \"TOY_MESSAGE_2_CARRY_2, CKKS_54_60_H4096\"\n";
    let config = Config::parse("f.toml", file).unwrap();
    let sets = Sets(vec!["TOY_MESSAGE_2_CARRY_2", "CKKS_54_60_H4096"]);
    assert_eq!(config.pools["gpu"], Pool { bootstraps_per_second: 9000, sets });
    let variables =
        environment(&[("CLOAKWORK_POOLS__CPU__BOOTSTRAPS_PER_SECOND", "300"), ("CLOAKWORK_POOLS__CPU__SETS", "")]);
    let config = Config::load(None, variables, &[]).unwrap();
    assert_eq!(config.pools["cpu"], Pool { bootstraps_per_second: 300, sets: Sets::default() });
    let cases = [
        ("[pools]\ngpu = 3", "f.toml:2: pools.gpu must be a section, such as [pools.gpu]"),
        ("[pools.gpu]\nrate = 3", "f.toml:2: unknown setting 'pools.gpu.rate'"),
        ("[pools.gpu]\nsets = \"NONE\"", "f.toml:2: pools.gpu.sets has no parameter set 'NONE'"),
        (
            "[pools.GPU]\nsets = \"\"",
            "f.toml:2: pools.GPU.sets is no setting: the name of a pool has 1 to 63 characters of a-z, 0-9 and '-'",
        ),
        ("[pools.gpu]\nsets = \"\"", "configuration: pools.gpu.bootstraps_per_second is missing: it must be 1 or more"),
    ];
    for (text, expected) in cases {
        assert_eq!(problems(text), [expected]);
    }
    let many: String = (0..65).map(|pool| format!("[pools.p{pool}]\nbootstraps_per_second = 1\n")).collect();
    assert_eq!(problems(&many), ["configuration: at most 64 pools can be declared, not 65"]);
}
