//! A disk that tests can fill.

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// A file system of a few megabytes, visible only to programs that start within it. The file system
/// is removed when this value is dropped.
///
/// The disk is a `tmpfs` in a mount namespace of its own. The mount needs no rights where user
/// namespaces are allowed, and root otherwise.
pub struct SmallDisk {
    holder: Child,
    enter: Vec<String>,
    directory: PathBuf,
}

impl SmallDisk {
    /// Mounts a disk over a directory. The error names the reason if this machine does not allow
    /// the mount.
    pub fn mount(directory: &Path, bytes: u64) -> Result<Self, String> {
        let mut problems = Vec::new();
        for (how, enter) in [("-Urm", &["-U", "--preserve-credentials"][..]), ("-m", &[])] {
            match Self::mount_by(how, enter, directory, bytes) {
                Ok(disk) => return Ok(disk),
                Err(problem) => problems.push(format!("unshare {how}: {problem}")),
            }
        }
        Err(problems.join("; "))
    }

    fn mount_by(how: &str, enter: &[&str], directory: &Path, bytes: u64) -> Result<Self, String> {
        // The holder creates a file on the disk to report that the disk is mounted. The holder runs
        // until its input ends.
        let script = "mount -t tmpfs -o mode=0700,size=\"$2\" cloakwork-test \"$1\" && : > \"$1/mounted\" && exec cat";
        let mut command = Command::new("unshare");
        command.args([how, "sh", "-c", script, "sh"]).arg(directory).arg(bytes.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut holder = command.spawn().map_err(|error| error.to_string())?;
        let mut prefix = vec!["nsenter".to_owned(), "-t".to_owned(), holder.id().to_string(), "-m".to_owned()];
        prefix.extend(enter.iter().map(|&option| option.to_owned()));
        prefix.push("--".to_owned());
        let begun = Instant::now();
        let seen = PathBuf::from(format!("/proc/{}/root", holder.id()));
        let mark = seen.join(directory.strip_prefix("/").unwrap_or(directory)).join("mounted");
        while !mark.exists() {
            if holder.try_wait().map_err(|error| error.to_string())?.is_some() {
                let output = holder.wait_with_output().map_err(|error| error.to_string())?;
                return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "neither mounted nor refused within a minute");
            std::thread::sleep(Duration::from_millis(5));
        }
        let disk = Self { holder, enter: prefix, directory: directory.to_owned() };
        let entered = disk.run(&["true"]);
        if entered { Ok(disk) } else { Err("the namespace cannot be entered".to_owned()) }
    }

    /// Prefix of a command line that runs within the namespace and sees the disk.
    pub fn within(&self) -> &[String] {
        &self.enter
    }

    /// Fills the disk to the last byte.
    pub fn fill(&self) {
        let mut file = File::create(self.outside("filler")).expect("one more file");
        let mut piece = vec![0; 1 << 16];
        while !piece.is_empty() {
            if file.write_all(&piece).is_err() {
                piece.truncate(piece.len() / 2);
            }
        }
    }

    /// Frees the space that [`Self::fill`] took.
    pub fn free(&self) {
        std::fs::remove_file(self.outside("filler")).expect("it was full");
    }

    /// Path of a file of the disk from outside the namespace.
    fn outside(&self, name: &str) -> PathBuf {
        let directory = self.directory.strip_prefix("/").unwrap_or(&self.directory);
        PathBuf::from(format!("/proc/{}/root", self.holder.id())).join(directory).join(name)
    }

    fn run(&self, command: &[&str]) -> bool {
        let (first, rest) = self.enter.split_first().expect("nsenter");
        Command::new(first).args(rest).args(command).status().is_ok_and(|status| status.success())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
