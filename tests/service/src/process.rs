//! A child process and what can be done to it.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// A process that does not outlive its test.
pub struct Process {
    child: Child,
    log: PathBuf,
}

/// What a process can be sent.
#[derive(Clone, Copy, Debug)]
pub enum Signal {
    /// The end, without a word.
    Kill,
    /// Please end.
    Terminate,
    /// Stand still.
    Stop,
    /// Go on.
    Continue,
    /// Look at the certificates again.
    Hangup,
}

impl Process {
    /// Starts a program whose output goes to a file.
    pub fn start(mut command: Command, log: &Path) -> Self {
        let file = File::options().create(true).append(true).open(log).expect("a log file");
        command.stdin(Stdio::null()).stdout(file.try_clone().expect("a second handle")).stderr(file);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
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

    /// Kills it and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to end and waits for that; true if it ended well.
    pub fn terminate(&mut self, within: Duration) -> bool {
        self.signal(Signal::Terminate);
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return status.success();
            }
            assert!(begun.elapsed() < within, "still running after {within:?}:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Is it running?
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

    /// What it has printed.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
