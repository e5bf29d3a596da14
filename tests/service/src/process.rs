//! A child process and operations on it.

use std::{
    collections::BTreeSet,
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};

/// Identifiers of the child processes that this process has started and that have not ended.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// A process that does not outlive its test.
pub struct Process {
    child: Child,
    log: PathBuf,
}

/// Signals for a process.
#[derive(Clone, Copy, Debug)]
pub enum Signal {
    /// SIGKILL: ends the process without warning.
    Kill,
    /// SIGTERM: asks the process to end.
    Terminate,
    /// SIGSTOP: suspends the process.
    Stop,
    /// SIGCONT: resumes the process.
    Continue,
    /// SIGHUP: the process reads its certificates again.
    Hangup,
}

impl Process {
    /// Starts a program whose output goes to a file.
    pub fn start(mut command: Command, log: &Path) -> Self {
        let file = File::options().create(true).append(true).open(log).expect("a log file");
        command.stdin(Stdio::null()).stdout(file.try_clone().expect("a second handle")).stderr(file);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        RUNNING.lock().expect("no holder panics").insert(child.id());
        Self { child, log: log.to_owned() }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let name = match signal {
            Signal::Kill => "-KILL",
            Signal::Terminate => "-TERM",
            Signal::Stop => "-STOP",
            Signal::Continue => "-CONT",
            Signal::Hangup => "-HUP",
        };
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status().expect("kill runs");
        assert!(status.success(), "kill {name} failed");
    }

    /// Kills the process and waits until it has ended.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.forget();
    }

    /// Asks the process to end and waits for its end. Returns whether the exit status is success.
    pub fn terminate(&mut self, within: Duration) -> bool {
        self.signal(Signal::Terminate);
        self.ends_well(within)
    }

    /// Waits for the end of a process that was asked to end, and returns whether it succeeded. A
    /// second signal would end the process at once, as a failure.
    pub fn ends_well(&mut self, within: Duration) -> bool {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                self.forget();
                return status.success();
            }
            assert!(begun.elapsed() < within, "still running after {within:?}:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether the process is running.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Resident memory in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")).and_then(|number| number.trim().parse().ok());
        kib.unwrap_or(0u64) * 1024
    }

    /// Output of the process so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Removes the ended process from the list, because the system may reuse its identifier.
    fn forget(&self) {
        RUNNING.lock().expect("no holder panics").remove(&self.child.id());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Kills all processes that tests of this program have started.
pub(crate) fn kill_all() {
    for process in RUNNING.lock().expect("no holder panics").iter() {
        let _ = Command::new("kill").args(["-KILL", &process.to_string()]).status();
    }
}
