//! PostgreSQL servers for tests, started from the programs of this machine.
//!
//! A server listens on loopback and has its data in a directory of its own. The server and the
//! directory end with the process that started the server, however that process ends.

#![forbid(unsafe_code)]

use std::{
    fs,
    io::Write as _,
    net::TcpListener,
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Output, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread::sleep,
    time::{Duration, Instant},
};

/// A running server. The superuser is `postgres`, without a password.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    port: u16,
    settings: Vec<String>,
    running: Option<Running>,
    databases: AtomicU32,
    directory: tempfile::TempDir,
}

/// The processes of a server, which end when this value is dropped, without a checkpoint.
#[derive(Debug)]
struct Running {
    /// The shell that runs the server. The shell ends the server once the standard input of the
    /// shell is closed.
    shell: Child,
    /// Open for as long as the server runs.
    stay: Option<ChildStdin>,
}

/// A server that all tests of a process share, or `None` if PostgreSQL is not installed. In CI, its
/// absence is a failure.
pub fn shared() -> Option<&'static Postgres> {
    static SHARED: OnceLock<Option<Postgres>> = OnceLock::new();
    SHARED.get_or_init(|| Postgres::start(&[])).as_ref()
}

/// Gives a file to the user that the servers run as, so that they can read it.
pub fn give_to_servers(file: &Path) {
    if let Some(user) = other_user() {
        chown(file, Some(user), Some(user)).expect("a file of another user");
    }
}

impl Postgres {
    /// Starts a server with these settings, beside those that make it fast. Returns `None` if
    /// PostgreSQL is not installed. In CI, its absence is a failure.
    pub fn start(settings: &[&str]) -> Option<Self> {
        let Some(programs) = programs() else {
            let problem = "PostgreSQL is not installed: apt-get install postgresql";
            assert!(std::env::var_os("CI").is_none(), "{problem}");
            eprintln!("skipped: {problem}");
            return None;
        };
        let mut initdb = as_server_user(&programs.join("initdb"));
        initdb.args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync"]);
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        Some(Self::make(programs, initdb, settings))
    }

    /// Starts a standby of this server, which has every change of it before its commit is reported.
    pub fn standby(&self) -> Self {
        let mut backup = as_server_user(&self.programs.join("pg_basebackup"));
        backup.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &self.port.to_string()]);
        backup.args(["--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf", "--no-sync"]);
        let mut settings = self.settings.clone();
        // By default, a standby that has lost the server tries again after 5 s.
        settings.push("wal_retrieve_retry_interval=500ms".to_owned());
        let standby = Self::make(self.programs.clone(), backup, settings);
        self.wait_for_standby(true);
        standby
    }

    /// Makes commits wait for a standby, or not any more.
    pub fn wait_for_standby(&self, wait: bool) {
        self.sql(
            "postgres",
            &format!("ALTER SYSTEM SET synchronous_standby_names = '{}'", if wait { "*" } else { "" }),
        );
        self.sql("postgres", "SELECT pg_reload_conf()");
        let begun = Instant::now();
        let synchronous = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        while wait && self.sql("postgres", synchronous) != "1" {
            assert!(begun.elapsed() < START_TIMEOUT, "no standby follows");
            sleep(Duration::from_millis(50));
        }
    }

    /// Lets a standby fall behind: from now on it gets no more changes.
    pub fn follow_no_more(&self) {
        self.sql("postgres", "ALTER SYSTEM SET primary_conninfo = ''");
        self.sql("postgres", "SELECT pg_reload_conf()");
        let begun = Instant::now();
        while self.sql("postgres", "SELECT count(*) FROM pg_stat_wal_receiver") != "0" {
            assert!(begun.elapsed() < START_TIMEOUT, "the standby still follows");
            sleep(Duration::from_millis(50));
        }
    }

    /// Makes a standby the server that takes changes.
    pub fn promote(&self) {
        // The standby has copied this setting, and has no standby itself.
        self.sql("postgres", "SELECT pg_promote()");
        self.wait_for_standby(false);
    }

    /// Makes the directory of the data by `make`, and starts a server on it.
    fn make(programs: PathBuf, mut make: Command, settings: Vec<String>) -> Self {
        let directory = tempfile::Builder::new().prefix("postgres-").tempdir().expect("a directory");
        give_to_servers(directory.path());
        let made = make.arg("-D").arg(directory.path().join(DATA)).output().expect("the program runs");
        assert!(made.status.success(), "{make:?}: {}", text(&made));
        let databases = AtomicU32::new(0);
        let mut server = Self { programs, port: 0, settings, running: None, databases, directory };
        // Another process may take the port before the server does.
        for _ in 0..5 {
            let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
            server.port = free.expect("a free port").port();
            server.running = server.run();
            if server.running.is_some() {
                return server;
            }
        }
        panic!("PostgreSQL does not start");
    }

    /// Ends the server at once, as a crash would. Its data stays.
    pub fn stop(&mut self) {
        self.running = None;
    }

    /// Starts a server again that was stopped, on the same port.
    pub fn start_again(&mut self) {
        self.running = self.run();
        assert!(self.running.is_some(), "the server starts again");
    }

    fn run(&self) -> Option<Running> {
        let Self { programs, port, settings, directory, .. } = self;
        let (data, log) = (directory.path().join(DATA), directory.path().join("log"));
        let mut shell = as_server_user(Path::new("sh"))
            .args(["-c", RUN, "sh"])
            .arg(programs.join("postgres"))
            .args([directory.path(), &log])
            .args(["-D".as_ref(), data.as_os_str()])
            .args(["-h", "127.0.0.1", "-k", "", "-p", &port.to_string()])
            .args(DEFAULTS.iter().flat_map(|setting| ["-c", setting]))
            .args(settings.iter().flat_map(|setting| ["-c", setting]))
            .stdin(Stdio::piped())
            // A signal to all processes of a test must leave the shell, which cleans up.
            .process_group(0)
            .spawn()
            .expect("a shell");
        let stay = shell.stdin.take();
        let mut running = Running { shell, stay };
        let begun = Instant::now();
        while begun.elapsed() < START_TIMEOUT && running.shell.try_wait().expect("a child").is_none() {
            let mut ready = Command::new(programs.join("pg_isready"));
            ready.args(["-q", "-h", "127.0.0.1", "-p", &port.to_string()]);
            if ready.status().expect("pg_isready runs").success() {
                return Some(running);
            }
            sleep(Duration::from_millis(50));
        }
        eprintln!("PostgreSQL did not start: {}", fs::read_to_string(log).unwrap_or_default());
        None
    }

    /// The URL of a new, empty database.
    pub fn database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        format!("postgres://postgres@127.0.0.1:{}/{name}", self.port)
    }

    /// Runs SQL as the superuser, and returns what it prints.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let output = Command::new(self.programs.join("psql"))
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "postgres"])
            .args(["-p", &self.port.to_string(), "-d", database, "-c", sql])
            .output()
            .expect("psql runs");
        assert!(output.status.success(), "psql: {}", text(&output));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut stay) = self.stay.take() {
            // The shell may have ended already.
            let _ = stay.write_all(KEEP);
        }
        let _ = self.shell.wait();
    }
}

/// Directory of the data.
const DATA: &str = "data";

/// Settings that tests may override. Writes reach the operating system, and so survive a kill of
/// the server. Waits for the disk would only slow the tests down, beyond the time limits of the
/// calls on a machine whose disk is busy. The log of changes would grow to 1 GB by default.
const DEFAULTS: [&str; 4] = ["max_connections=200", "fsync=off", "full_page_writes=off", "max_wal_size=128MB"];

/// Runs a server until standard input is closed, which happens at the latest when the process ends
/// that has the other end. Removes the directory of the server then, unless [`KEEP`] was read. A
/// process that ends without dropping its servers could not remove them: the tests of this
/// repository would fill the disk with gigabytes in each run.
const RUN: &str = r#"program=$1; directory=$2; log=$3; shift 3
exec 3<&0
"$program" "$@" >"$log" 2>&1 </dev/null 3<&- & server=$!
(
    keep=false
    while read -r line; do keep=true; done
    kill -QUIT $server 2>/dev/null
    $keep && exit
    while kill -0 $server 2>/dev/null; do sleep 0.05; done
    rm -rf "$directory"
) <&3 &
wait $server"#;

/// Line that tells [`RUN`] to leave the directory, because the process that writes the line uses
/// the directory again or removes it.
const KEEP: &[u8] = b"keep\n";

/// Longest wait for a server. A busy machine takes seconds.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The directory of PostgreSQL's programs: that of the newest version, if there are several.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    found.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = found.into_iter().rev().chain(std::env::split_paths(&path));
    found.into_iter().find(|directory| directory.join("initdb").exists() && directory.join("postgres").exists())
}

/// PostgreSQL refuses to run as root, so root runs it as the user that its package made. Returns
/// the number of that user.
fn other_user() -> Option<u32> {
    let id = |arguments: &[&str]| {
        let output = Command::new("id").args(arguments).output().expect("id runs");
        String::from_utf8_lossy(&output.stdout).trim().parse::<u32>().ok()
    };
    if id(&["-u"]) == Some(0) { Some(id(&["-u", "postgres"]).expect("a user named postgres")) } else { None }
}

fn as_server_user(program: &Path) -> Command {
    let Some(user) = other_user() else { return Command::new(program) };
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups"]).arg(program);
    // The user may not be able to enter the current directory.
    command.current_dir("/");
    command
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    /// Makes the test of the same name the process that starts a server.
    const CHILD: &str = "CLOAKWORK_TEST_POSTGRES_CHILD";

    #[test]
    fn the_directory_of_a_server_goes_with_a_process_that_does_not_drop_it() {
        if env::var_os(CHILD).is_some() {
            let server = shared().expect("PostgreSQL is installed");
            println!("directory: {}", server.directory.path().display());
            return;
        }
        if programs().is_none() {
            return;
        }
        let mut child = Command::new(env::current_exe().expect("the path of this program"));
        child.args(["--nocapture", "the_directory_of_a_server_goes"]).env(CHILD, "1");
        let output = child.output().expect("this program runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let directory = text.lines().find_map(|line| line.split_once("directory: ")).expect("a directory").1;
        let begun = Instant::now();
        while Path::new(directory).exists() {
            assert!(begun.elapsed() < START_TIMEOUT, "{directory} is still there");
            sleep(Duration::from_millis(50));
        }
    }

    #[test]
    fn a_stopped_server_keeps_its_data_until_it_is_dropped() {
        let Some(mut server) = Postgres::start(&[]) else { return };
        let url = server.database();
        let name = url.rsplit_once('/').expect("a URL with a name").1;
        server.sql(name, "CREATE TABLE kept (number int); INSERT INTO kept VALUES (7)");
        server.stop();
        server.start_again();
        assert_eq!(server.sql(name, "SELECT number FROM kept"), "7");
        let directory = server.directory.path().to_owned();
        drop(server);
        assert!(!directory.exists());
    }
}
