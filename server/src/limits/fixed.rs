//! Limits that are not configurable. The limits are constants in the code; a test compares this
//! table with the constants.

/// A constant that limits a resource.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    /// Name of the constant.
    pub name: &'static str,
    /// File that declares the constant.
    pub file: &'static str,
    /// Value of the constant, as written in the file.
    pub value: &'static str,
    /// Description of the limited quantity.
    pub meaning: &'static str,
}

/// Every constant whose name ends in `_MAX`, and others that bound memory or time.
pub const FIXED: &[Fixed] = &[
    row(
        "COMMANDS_MAX",
        "server/src/dispatch.rs",
        "4096",
        "Commands that wait for the dispatcher; whoever sends the next one waits",
    ),
    row("BATCH", "server/src/dispatch/actor.rs", "256", "Commands that are decided together, in one transaction"),
    row(
        "WORK_BYTES_MAX",
        "server/src/dispatch/actor.rs",
        "256 << 20",
        "Bytes of waiting jobs' programs and inputs that are kept in memory; the database has the others",
    ),
    row("LEASES_MAX", "server/src/services/worker.rs", "8192", "Leases in one report of a worker"),
    row("RESIDENT_MAX", "server/src/services/worker.rs", "256", "Resident keys in one report"),
    row("WAVES_MAX", "server/src/services/worker.rs", "1024", "Points of a worker's time curve"),
    row("NAME_MAX", "server/src/services/worker.rs", "64", "Characters of a worker's name"),
    row("MESSAGE_MAX", "server/src/services/worker.rs", "1024", "Bytes of a worker's message about a failure"),
    row(
        "RECORDED_WAVES_MAX",
        "server/src/services/worker.rs",
        "64",
        "Waves that a latency record lists; the rest are summed up",
    ),
    row(
        "CONTENT_BYTES",
        "server/src/services/worker.rs",
        "1 << 20",
        "Bytes of jobs in one message to a worker, before its last job",
    ),
    row(
        "REMEMBERED_MAX",
        "server/src/programs/known.rs",
        "4096",
        "Programs that are remembered compiled, and others that are remembered as invalid",
    ),
    row("REMEMBERED_BYTES", "server/src/programs/known.rs", "32 << 20", "Bytes of these programs"),
    row(
        "SLOTS_MAX",
        "server/src/programs/compiler.rs",
        "8",
        "Programs that are compiled at a time: one fewer than there are processors, and two at least, so that on two processors compiling can take both",
    ),
    row(
        "CHEAP_BOOTSTRAPS",
        "server/src/programs/queue.rs",
        "2048",
        "Cost of a program that is compiled in the slot which more expensive ones leave free: an upper bound of its bootstraps, and its bytes / 32. Programs on vectors count 64 for each kind of bootstrap; programs of more than 8 KiB do not get this slot",
    ),
    row(
        "IDLE_TENANTS_MAX",
        "server/src/programs/queue.rs",
        "1024",
        "Tenants that are remembered as having compiled programs",
    ),
    row(
        "UNITS_MAX",
        "server/src/dispatch.rs",
        "4096",
        "Rows, and pieces of 16 KiB, that wait to be written with jobs and their ends",
    ),
    row("TENANT_UNITS_MAX", "server/src/dispatch.rs", "1024", "Those of one tenant"),
    row("ROWS_MAX", "server/src/store/write.rs", "64", "Inputs or outputs that one statement stores"),
    row("FRAME_BYTES", "server/src/edge.rs", "1 << 20", "One HTTP/2 frame"),
    row("MESSAGE_BYTES_MAX", "server/src/error.rs", "1024", "Bytes of an error's message"),
    row("VALUE_BYTES_MAX", "server/src/error.rs", "256", "Bytes of a value in an error's details"),
    row("FIELDS_MAX", "server/src/error.rs", "8", "Wrong fields that an error lists"),
    row("POSITION_BYTES_MAX", "server/src/page.rs", "128", "Bytes of the position in a page token"),
    row("CHARS_MAX", "server/src/error.rs", "120", "Characters of a malformed name that an error repeats"),
    row(
        "NAME_CHARS_MAX",
        "server/src/config/source.rs",
        "80",
        "Characters of an unknown setting that an error repeats",
    ),
    row(
        "INTERVAL",
        "server/src/sweep.rs",
        "Duration::from_secs(10)",
        "Between two rounds of the sweep that removes what has expired",
    ),
    row("ROWS", "server/src/sweep.rs", "256", "Rows that one statement of the sweep removes"),
    row("LONG_MAX", "server/scheduler/src/worker.rs", "8", "Tenants whose long jobs a worker holds at a time"),
    row("COST_MAX", "server/scheduler/src/config.rs", "1 << 40", "A job's cost, as the scheduler counts it"),
    row(
        "REQUEST_BITS",
        "server/src/store/requests.rs",
        "1 << 27",
        "Bits that tell new requests from those that may have made a job; 16 MiB",
    ),
    row(
        "CONNECTION_BYTES",
        "server/src/connection/slots.rs",
        "128 << 10",
        "What an idle unauthenticated connection counts",
    ),
    row("CALL_BYTES", "server/src/connection/slots.rs", "16 << 10", "What an unauthenticated call counts beside it"),
    row(
        "UNAUTHENTICATED_READ_BYTES",
        "server/src/connection.rs",
        "1 << 10",
        "Bytes that an unauthenticated connection reads at a time",
    ),
    row(
        "PROXY_READ_BYTES",
        "server/src/connection.rs",
        "8 << 10",
        "Bytes that a connection of a trusted proxy reads at a time",
    ),
    row(
        "PAUSE_MAX",
        "server/src/connection/slots.rs",
        "Duration::from_secs(2)",
        "How long the server reads nothing of a connection whose address is in debt",
    ),
    row(
        "PROXY_RESET_STREAMS_MAX",
        "server/src/edge.rs",
        "4096",
        "Streams of a trusted proxy's connection that are reset before the server has looked at them",
    ),
    row("ADDRESSES_MAX", "server/src/address.rs", "16_384", "Addresses whose budgets are remembered"),
    row("KEPT_HEADER_BYTES_MAX", "server/src/edge/arrival.rs", "1 << 10", "Bytes of a header that the server reads"),
    row("KEPT_VALUES_MAX", "server/src/edge/arrival.rs", "2", "Values of such a header that are kept"),
    row("PIECES_MAX", "server/src/edge/probe.rs", "16", "Unread pieces of a request that needs no token"),
    row("PIECE_BYTES_MAX", "server/src/edge/probe.rs", "2 << 10", "Bytes of such a piece"),
    row("BODY_BYTES_MAX", "server/src/edge/probe.rs", "64 << 10", "Bytes of such a request"),
    row("PROBE_MESSAGE_BYTES_MAX", "server/src/run.rs", "1 << 10", "One message of such a request"),
    row("KNOWN_MAX", "server/src/store/programs.rs", "4096", "Programs that are remembered to be in the store"),
    row("QUOTA_TENANTS_MAX", "server/src/quota.rs", "4096", "Tenants whose bytes in the store are remembered"),
    row("KNOWN_KEYS_MAX", "keystore/src/known_keys.rs", "1024", "Keys that are remembered as they were looked up"),
    row("SCRIPT_MAX", "keystore/src/database/batch.rs", "64", "Statements that go to the database as one script"),
    row("PREPARED_MAX", "keystore/src/database/batch.rs", "8", "Statements of a batch that is kept prepared"),
    row(
        "SILENT",
        "keystore/src/upload/place.rs",
        "Duration::from_secs(600)",
        "How long an upload is safe although its place is wanted",
    ),
    row("ROWS", "keystore/src/sweep.rs", "256", "Rows that one transaction of the key store's sweep removes"),
    row("DELETING_MAX", "keystore/src/lookup.rs", "256", "Deleted keys that one round of the sweep looks at"),
    row("PIECES", "keystore/src/upload/writer.rs", "64", "Pieces of one upload that wait for the disk, however small"),
    row("PARTS_IN_FLIGHT", "keystore/src/store/remote.rs", "4", "Parts of one blob on their way to a bucket"),
    row("PART_BYTES", "keystore/src/store/remote.rs", "8 << 20", "Bytes of such a part"),
    row(
        "CLEARING",
        "keystore/src/upload/abort.rs",
        "8",
        "Aborted uploads that are cleared away from a bucket at the same time; each may hold a part",
    ),
    row("PATIENCE", "keystore/src/upload/abort.rs", "Duration::from_secs(1)", "How long an abort waits for the bucket"),
    row("BYTES_MAX", "crypto/circuit/src/program.rs", "1 << 20", "Bytes of a program, whatever the server allows"),
    row("INPUTS_MAX", "crypto/circuit/src/program.rs", "1024", "Inputs of a program"),
    row("OPERATIONS_MAX", "crypto/circuit/src/program.rs", "1 << 14", "Operations of a program"),
    row("OUTPUTS_MAX", "crypto/circuit/src/program.rs", "1024", "Outputs of a program"),
    row("BLOCKS_MAX", "crypto/circuit/src/program.rs", "1 << 14", "Blocks of a program's inputs and outputs"),
    row(
        "BOOTSTRAPS_MAX",
        "crypto/circuit/src/program.rs",
        "1 << 17",
        "Bootstraps for a row: an upper bound that follows from a program's types",
    ),
    row(
        "BYTES_MAX",
        "crypto/circuit/src/ckks.rs",
        "1 << 20",
        "Bytes of a program on vectors, whatever the server allows",
    ),
    row("INPUTS_MAX", "crypto/circuit/src/ckks.rs", "256", "Inputs of a program on vectors"),
    row("OPERATIONS_MAX", "crypto/circuit/src/ckks.rs", "1 << 12", "Operations of a program on vectors"),
    row("ARGUMENTS_MAX", "crypto/circuit/src/ckks.rs", "1 << 14", "Arguments of all its operations together"),
    row("OUTPUTS_MAX", "crypto/circuit/src/ckks.rs", "256", "Outputs of a program on vectors"),
    row("DEGREE_MAX", "crypto/circuit/src/ckks.rs", "511", "Degree of a polynomial of numbers"),
    row("MATRIX_BYTES_MAX", "crypto/circuit/src/ckks.rs", "6 << 30", "Bytes of the matrices of one kind of bootstrap"),
    row(
        "MEMORY_BYTES_MAX",
        "crypto/circuit/src/ckks.rs",
        "8 << 30",
        "Bytes of the vectors that a program has at a time",
    ),
    row(
        "COST_MAX",
        "crypto/circuit/src/ckks.rs",
        "1 << 21",
        "Work of a program on vectors, in millions of multiplications: a medium bootstrap of 32768 numbers is some 30,000",
    ),
    row(
        "WORDS_MAX",
        "crypto/ckks/src/pool.rs",
        "(1 << 30) / size_of::<u64>()",
        "Words of the buffers that stay for the next job on vectors, for each set",
    ),
    row("ENDED_MAX", "worker/src/agent.rs", "4096", "Leases that a worker remembers to have ended"),
    row("MESSAGE_BYTES_MAX", "worker/src/connection.rs", "64 << 20", "One message from the server to a worker"),
    row("THREADS_MAX", "worker/src/cpu.rs", "4096", "Compute threads of a CPU device"),
    row("SLOTS_MAX", "worker/src/cpu/arena.rs", "1 << 18", "Ciphertexts in one arena of the CPU device"),
    row(
        "OUTPUTS_MAX",
        "worker/src/cpu/key.rs",
        "PART_MAX",
        "Results of bootstraps on their way to their slots, for each thread, unless one has more",
    ),
    row("MESSAGE_MAX", "worker/src/agent/job.rs", "1024", "Bytes of a worker's message about a failure"),
    row("REMEMBERED_MAX", "worker/src/programs.rs", "1024", "Programs that a worker remembers lowered"),
    row("REMEMBERED_BYTES", "worker/src/programs.rs", "64 << 20", "Bytes of these programs"),
    row("LOADS_AT_ONCE", "worker/src/key_cache.rs", "2", "Keys that a worker loads at a time"),
    row("DEPTH_MAX", "worker/src/agent/report.rs", "8.0", "How much more work a worker holds because it is deep"),
    row("WAVES_MAX", "worker/src/latency.rs", "64", "Waves that a worker lists for a job"),
    row(
        "FOREIGN_WARNINGS_MAX",
        "worker/src/logging/repeats.rs",
        "10",
        "Warnings and errors of one kind that libraries log in a minute; the rest are counted",
    ),
    row(
        "LINES_MAX",
        "worker/src/logging/repeats.rs",
        "250",
        "Warnings and notices of one kind that we log in a minute; debug lines have no limit",
    ),
    row(
        "ERRORS_MAX",
        "worker/src/logging/repeats.rs",
        "1000",
        "Errors of one kind that we log in a minute; the rest are counted",
    ),
    row("KINDS_MAX", "worker/src/logging/repeats.rs", "256", "Kinds of log lines that are told apart in a minute"),
    row("PIECES", "worker/src/blob.rs", "8", "Pieces of a blob that a worker has received and not yet read"),
];

const fn row(name: &'static str, file: &'static str, value: &'static str, meaning: &'static str) -> Fixed {
    Fixed { name, file, value, meaning }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        path::{Path, PathBuf},
    };

    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    /// Name and value of the constant that a line declares.
    fn constant(line: &str) -> Option<(&str, &str)> {
        let (before, rest) = line.split_once("const ")?;
        let declares = before.trim().is_empty() || before.trim_start().starts_with("pub");
        let (name, rest) = rest.split_once(':')?;
        let value = rest.split_once('=')?.1.trim().trim_end_matches(';');
        declares.then_some((name, value))
    }

    fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }

    #[test]
    fn each_row_matches_the_constant_in_the_code() {
        for Fixed { name, file, value, .. } in FIXED {
            let text = std::fs::read_to_string(root().join(file)).unwrap();
            let found = text.lines().filter_map(constant).find(|(found, _)| found == name);
            assert_eq!(found, Some((*name, *value)), "{file}");
        }
    }

    #[test]
    fn every_constant_with_the_suffix_max_has_a_row() {
        let listed: BTreeSet<(PathBuf, &str)> =
            FIXED.iter().map(|row| (root().join(row.file).canonicalize().unwrap(), row.name)).collect();
        assert_eq!(listed.len(), FIXED.len(), "a constant has two rows");
        let mut files = Vec::new();
        for directory in ["server/src", "server/scheduler/src", "keystore/src", "worker/src"] {
            sources(&root().join(directory), &mut files);
        }
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            for (name, _) in text.lines().filter_map(constant).filter(|(name, _)| name.ends_with("_MAX")) {
                let listed = listed.contains(&(file.canonicalize().unwrap(), name));
                assert!(listed, "{} of {} has no row in server/src/limits/fixed.rs", name, file.display());
            }
        }
    }
}
