//! Processes of this machine, and the time that they have spent on its cores.

use std::{collections::HashMap, fs, process, time::Duration};

/// A process that is running.
#[derive(Clone, Copy)]
pub(crate) struct Process {
    pub(crate) parent: u32,
    /// Time that the process itself has spent on a core.
    pub(crate) time: Duration,
    /// The time of children that have ended.
    pub(crate) ended_time: Duration,
}

/// All processes by their ids.
pub(crate) fn processes() -> HashMap<u32, Process> {
    /// The kernel's unit of these times.
    const TICK: Duration = Duration::from_millis(10);
    let mut found = HashMap::new();
    for entry in fs::read_dir("/proc").expect("Linux").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name of the program may have spaces, and ends with the last bracket.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let field = |index: usize| fields.get(index).and_then(|field| field.parse::<u32>().ok()).unwrap_or(0);
        let time = |fields: std::ops::Range<usize>| TICK * fields.map(field).sum::<u32>();
        found.insert(pid, Process { parent: field(1), time: time(11..13), ended_time: time(13..15) });
    }
    found
}

/// Time of this process, and time of its children that are running.
pub(crate) fn own_and_children() -> (Duration, Duration) {
    let (own, processes) = (process::id(), processes());
    let children = processes.values().filter(|process| process.parent == own);
    (processes.get(&own).map_or(Duration::ZERO, |process| process.time), children.map(|child| child.time).sum())
}
