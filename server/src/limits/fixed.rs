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
        "Commands that wait for the dispatcher. Senders of further commands wait",
    ),
    row(
        "BATCH",
        "server/src/dispatch/actor.rs",
        "256",
        "Commands that the dispatcher decides in one transaction (group commit)",
    ),
    row(
        "ANSWERS_MAX",
        "server/src/dispatch/actor.rs",
        "4096",
        "Answers that wait for the dispatcher's next transaction before it takes no more commands",
    ),
    row(
        "WORK_BYTES_MAX",
        "server/src/dispatch/live.rs",
        "256 << 20",
        "Bytes of waiting jobs' programs and inputs that are kept in memory. The rest is read from the database",
    ),
    row(
        "REPORTS_MAX",
        "server/src/dispatch.rs",
        "16",
        "Reports of workers that wait for the dispatcher, one for each worker. Further reports wait in line, and each stream of a worker keeps only its latest",
    ),
    row(
        "PURGE_ROWS_MAX",
        "keystore/src/purge.rs",
        "256",
        "Rows of each kind of a deleted tenant that one transaction deletes",
    ),
    row(
        "PURGES_PER_ROUND_MAX",
        "server/src/sweep/tenants.rs",
        "256",
        "Such transactions of one deletion in a round of the sweep",
    ),
    row(
        "MARKER_BYTES_MAX",
        "keystore/src/store.rs",
        "1 << 10",
        "Bytes of the marker of a store of blobs that a server reads",
    ),
    row(
        "STALLED_TIME_MAX",
        "worker/src/blob.rs",
        "Duration::from_secs(60)",
        "Time without a byte after which a worker's read of a key or an input fails",
    ),
    row(
        "POOLS_MAX",
        "server/src/config/pools.rs",
        "64",
        "Pools of workers that the settings declare, each with metrics of its own",
    ),
    row("POOL_NAME_BYTES_MAX", "server/src/config/pools.rs", "63", "Bytes of the name of a declared pool"),
    row(
        "POINTS_MAX",
        "server/src/dispatch/pools.rs",
        "64",
        "Points of the time curve of one pool and set that clients see",
    ),
    row(
        "VIEW_POINTS_MAX",
        "server/src/dispatch/pools.rs",
        "4096",
        "Points of all time curves that clients see, unless two for each curve are more",
    ),
    row("HOLDERS_MAX", "server/src/dispatch/pools.rs", "64", "Workers that clients see as holders of one key"),
    row(
        "REPORT_MESSAGE_BYTES_MAX",
        "server/src/auth/policy.rs",
        "512 << 10",
        "Bytes of one report of a worker. A stream of a worker holds at most two reports and an HTTP/2 frame, and the limit `workers` bounds the streams",
    ),
    row(
        "STREAMS_PER_WORKER",
        "server/src/edge/admission.rs",
        "2",
        "Open streams of workers, for each worker of the limit `workers`. A worker may attach again before the server notices the end of its last stream",
    ),
    row(
        "TENANT_WORK_BYTES_MAX",
        "server/src/dispatch/live.rs",
        "64 << 20",
        "Bytes of one tenant's programs and inputs that are kept in memory while jobs wait",
    ),
    row(
        "LOADS_MAX",
        "server/src/dispatch/loads.rs",
        "1",
        "Jobs whose programs and inputs the dispatcher reads from the database at a time. Tenants take turns",
    ),
    row(
        "CERTIFICATE_HOURS_MAX",
        "server/src/config/check.rs",
        "8784",
        "Largest value of `attestation.certificate_hours`: a year",
    ),
    row(
        "CHECKS_MAX",
        "server/src/dispatch/checks.rs",
        "256",
        "Second computations of rows (checks) that wait or run. Rows beyond it are not verified",
    ),
    row("TENANT_CHECKS_MAX", "server/src/dispatch/checks.rs", "64", "Checks of one tenant's jobs that wait or run"),
    row(
        "CHECK_BYTES_MAX",
        "server/src/dispatch/checks.rs",
        "64 << 20",
        "Bytes of programs, inputs and lists of rows that checks keep in memory. Rows beyond it are not verified",
    ),
    row(
        "TENANT_CHECK_BYTES_MAX",
        "server/src/dispatch/checks.rs",
        "16 << 20",
        "Bytes of one tenant's programs, inputs and lists of rows that checks keep in memory",
    ),
    row(
        "CHECK_TIME",
        "server/src/dispatch/checks.rs",
        "Duration::from_secs(600)",
        "Time for a check, beside four times the time of the first computation",
    ),
    row("VAIN_MAX", "server/src/dispatch/checks.rs", "3", "Workers that are asked in vain for one check"),
    row(
        "QUARANTINED_MAX",
        "server/src/dispatch/checks.rs",
        "4096",
        "Quarantined workers that the server remembers. The oldest are forgotten first",
    ),
    row(
        "CHECK_ROWS_MAX",
        "server/src/services/worker/sample.rs",
        "1 << 17",
        "Rows of one job that are computed a second time",
    ),
    row(
        "EXPECTED_ROWS_MAX",
        "server/src/services/worker/sample.rs",
        "CHECK_ROWS_MAX - 10 * 362",
        "Rows of one job that are drawn on average. If the percentage gives more, a smaller share is drawn",
    ),
    row("LEASES_MAX", "server/src/services/worker/report.rs", "8192", "Leases in one report of a worker"),
    row("SETS_MAX", "server/src/services/worker/report.rs", "256", "Parameter sets in one report of a worker"),
    row("RESIDENT_MAX", "server/src/services/worker/report.rs", "256", "Resident keys in one report of a worker"),
    row("WAVES_MAX", "server/src/services/worker/report.rs", "1024", "Points of a worker's time curve"),
    row("NAME_MAX", "server/src/services/worker/report.rs", "64", "Characters of a worker's name"),
    row("MESSAGE_MAX", "server/src/services/worker/failures.rs", "1024", "Bytes of a worker's message about a failure"),
    row(
        "INTACT_PARTS_MAX",
        "server/src/services/worker/failures.rs",
        "1024",
        "Key parts that the server remembers as intact, so that workers cannot have it read them again and again",
    ),
    row(
        "ANNOUNCED_OUTPUTS_MAX",
        "server/src/services/worker/hand_in.rs",
        "1024",
        "Outputs that a worker announces for a job",
    ),
    row(
        "MEBIBYTE_TIME",
        "server/src/services/worker/incoming.rs",
        "Duration::from_secs(4)",
        "Time that each mebibyte of a result may take, beside `request_idle_ms`",
    ),
    row(
        "INLINE_RESULTS_MAX",
        "server/src/services/worker/outputs.rs",
        "64",
        "Results whose small outputs are in memory at the same time, each counted as its part of `inline_bytes`. The outputs of further results wait",
    ),
    row(
        "WORKER_INLINE_RESULTS_MAX",
        "server/src/services/worker/outputs.rs",
        "16",
        "Results of one worker whose small outputs are in memory at the same time, counted in the same way",
    ),
    row(
        "READS_MAX",
        "server/src/services/worker/reads.rs",
        "512",
        "Blobs that workers read at the same time. Each read takes an open file and up to 3 MiB, beside the unread answers. Further reads wait",
    ),
    row(
        "WORKER_READS_MAX",
        "server/src/services/worker/reads.rs",
        "64",
        "Blobs that one worker reads at the same time. Further reads wait",
    ),
    row(
        "READ_TIME_MAX",
        "server/src/services/worker/reads.rs",
        "Duration::from_secs(600)",
        "Duration of one read of a worker. The worker then resumes it",
    ),
    row(
        "LEASE_READS_MAX",
        "server/src/dispatch/lease_calls.rs",
        "8",
        "Blobs that a worker reads at the same time under one lease. Further reads are refused",
    ),
    row(
        "RECORDED_WAVES_MAX",
        "server/src/services/worker/report.rs",
        "64",
        "Waves that a latency record lists individually. The rest are added up",
    ),
    row(
        "CONTENT_BYTES",
        "server/src/services/worker/assignments.rs",
        "1 << 20",
        "Bytes of jobs in one message to a worker, before the last job in it",
    ),
    row(
        "REMEMBERED_MAX",
        "server/src/programs/known.rs",
        "4096",
        "Compiled programs in the cache, and separately, programs remembered as invalid",
    ),
    row("REMEMBERED_BYTES", "server/src/programs/known.rs", "32 << 20", "Bytes of the programs in the cache"),
    row(
        "SLOTS_MAX",
        "server/src/programs/compiler.rs",
        "8",
        "Programs that compile at a time. The number is one less than the number of processors, and at least two, so that compiling can take both of two processors",
    ),
    row(
        "CHEAP_BOOTSTRAPS",
        "server/src/programs/queue.rs",
        "2048",
        "Cost of a program that may use the compile slot which is reserved for cheap programs. The cost is an upper bound of the program's bootstraps, and its bytes / 32. Programs on vectors count 64 for each kind of bootstrap. Programs of more than 8 KiB never use this slot",
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
        "Units of all tenants that wait for the dispatcher to store them. A row of a job or its end is a unit, and so are 16 KiB",
    ),
    row(
        "TENANT_UNITS_MAX",
        "server/src/dispatch.rs",
        "1024",
        "Units of one tenant that wait for the dispatcher to store them",
    ),
    row("FRAME_BYTES", "server/src/edge.rs", "1 << 20", "Bytes of one HTTP/2 frame"),
    row(
        "OWNER_WAIT_MAX",
        "server/src/edge/forward.rs",
        "Duration::from_secs(10)",
        "Time for which a call waits for a server that owns the shard",
    ),
    row(
        "LINKS_MAX",
        "server/src/edge/forward/links.rs",
        "64",
        "Connections of one kind to another server: for calls that wait for a job, and for other calls",
    ),
    row("SERVERS_MAX", "server/src/edge/forward/links.rs", "64", "Other servers to which connections stay open"),
    row("SHARDS_MAX", "server/src/shards/count.rs", "64", "Shards of one database"),
    row(
        "STREAM_WINDOW_BYTES",
        "server/src/edge/forward/links.rs",
        "256 << 10",
        "Bytes of an answer of the owner that wait for a slow reader",
    ),
    row("MESSAGE_BYTES_MAX", "server/src/error.rs", "1024", "Bytes of an error's message"),
    row("VALUE_BYTES_MAX", "server/src/error.rs", "256", "Bytes of a value in an error's details"),
    row("FIELDS_MAX", "server/src/error.rs", "8", "Invalid fields that an error lists"),
    row("POSITION_BYTES_MAX", "server/src/page.rs", "128", "Bytes of the position in a page token"),
    row("CHARS_MAX", "server/src/error.rs", "120", "Characters of a malformed name that an error repeats"),
    row(
        "NAME_CHARS_MAX",
        "server/src/config/source.rs",
        "80",
        "Characters of an unknown setting that an error repeats",
    ),
    row(
        "SWEEP_INTERVAL",
        "server/src/sweep.rs",
        "Duration::from_secs(10)",
        "Time between two rounds of the sweep that removes expired data",
    ),
    row("SWEEP_ROWS_MAX", "server/src/sweep.rs", "256", "Rows that one statement of the sweep removes"),
    row("LONG_MAX", "server/scheduler/src/worker.rs", "8", "Tenants whose long jobs a worker holds at a time"),
    row("COST_MAX", "server/scheduler/src/config.rs", "1 << 40", "Cost of a job, as the scheduler counts it"),
    row(
        "REQUEST_BITS",
        "server/src/store/requests.rs",
        "1 << 27",
        "Bits of the filter that distinguishes new request ids from ids that may belong to a job; 16 MiB",
    ),
    row(
        "CONNECTION_BYTES",
        "server/src/connection/slots.rs",
        "128 << 10",
        "Bytes that an idle unauthenticated connection counts",
    ),
    row(
        "CALL_BYTES",
        "server/src/edge/arrival.rs",
        "16 << 10",
        "Bytes that an unauthenticated call counts, beside its connection",
    ),
    row(
        "STREAM_CALL_BYTES",
        "server/src/edge/arrival.rs",
        "128 << 10",
        "Bytes that an unauthenticated call with a stream of answers counts, beside its connection",
    ),
    row(
        "UNREAD_TIME_MAX",
        "server/src/edge/answers.rs",
        "Duration::from_secs(300)",
        "Time for which a caller may read nothing of an answer",
    ),
    row(
        "UNAUTHENTICATED_READ_BYTES",
        "server/src/connection.rs",
        "1 << 10",
        "Bytes that an unauthenticated connection reads at a time",
    ),
    row(
        "CONTROL_FRAMES_OF_A_CALL",
        "server/src/connection.rs",
        "16",
        "Control frames of an unauthenticated connection, such as PING, that its address is charged a call for",
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
        "Time for which the server does not read a connection whose address is in debt",
    ),
    row(
        "PROXY_RESET_STREAMS_MAX",
        "server/src/edge.rs",
        "4096",
        "Streams of a trusted proxy's connection that are reset before the server has accepted them",
    ),
    row("ADDRESSES_MAX", "server/src/address.rs", "16_384", "Addresses whose budgets are stored"),
    row("KEPT_HEADER_BYTES_MAX", "server/src/edge/arrival.rs", "1 << 10", "Bytes of a header that the server reads"),
    row("KEPT_VALUES_MAX", "server/src/edge/arrival.rs", "2", "Values that are kept of a header that the server reads"),
    row("PIECES_MAX", "server/src/edge/probe.rs", "16", "Unread pieces of a request that needs no token"),
    row("PIECE_BYTES_MAX", "server/src/edge/probe.rs", "2 << 10", "Bytes of a piece of a request that needs no token"),
    row("BODY_BYTES_MAX", "server/src/edge/probe.rs", "64 << 10", "Bytes of a request that needs no token"),
    row(
        "PROBE_MESSAGE_BYTES_MAX",
        "server/src/run/front.rs",
        "1 << 10",
        "Bytes of a message of a request that needs no token",
    ),
    row("KNOWN_MAX", "server/src/store/programs.rs", "4096", "Programs that are remembered as stored"),
    row("QUOTA_TENANTS_MAX", "server/src/quota.rs", "4096", "Tenants whose stored bytes are remembered"),
    row("KNOWN_KEYS_MAX", "keystore/src/known_keys.rs", "1024", "Keys whose lookup is cached"),
    row(
        "SCRIPT_MAX",
        "base/storage/src/sqlite/script.rs",
        "64",
        "Statements that are sent to the database as one script",
    ),
    row("ROWS_MAX", "base/storage/src/sqlite/script.rs", "64", "Rows that one statement inserts into a file"),
    row(
        "TENANT_WRITERS",
        "base/storage/src/database.rs",
        "4",
        "Connections to PostgreSQL that change rows of one tenant at a time, beside the one that changes any rows",
    ),
    row(
        "CONNECT_TIMEOUT",
        "base/storage/src/postgres/connect.rs",
        "Duration::from_secs(2)",
        "Wait for a connection to PostgreSQL",
    ),
    row(
        "ANSWER_TIMEOUT",
        "base/storage/src/asker.rs",
        "Duration::from_secs(2)",
        "Wait of a call for an answer of PostgreSQL. Each 8 MiB of values take up to a second more",
    ),
    row(
        "READER_WAIT_MAX",
        "base/storage/src/readers.rs",
        "Duration::from_secs(30)",
        "Wait for a free connection that reads the database",
    ),
    row(
        "SERVER_READERS",
        "base/storage/src/readers.rs",
        "2",
        "Connections that read the database for the server itself, beside those of tenants (`database_readers`)",
    ),
    row("PREPARED_MAX", "base/storage/src/sqlite/script.rs", "8", "Statements of a batch that is kept prepared"),
    row(
        "UPLOAD_IDLE_MIN",
        "keystore/src/upload/place.rs",
        "Duration::from_secs(600)",
        "Time without progress after which an upload may be removed to free its place for another",
    ),
    row(
        "RESULT_IDLE_MIN",
        "keystore/src/upload/place.rs",
        "Duration::from_secs(60)",
        "Time without progress after which the upload of a result may be removed to free its bytes",
    ),
    row(
        "RESULTS_MAX",
        "keystore/src/upload.rs",
        "64",
        "Results that receive data at the same time. Each takes one or two threads, and its `upload_buffer_bytes`. Further results wait",
    ),
    row(
        "WORKER_RESULTS_MAX",
        "keystore/src/upload.rs",
        "16",
        "Results of one worker that receive data at the same time. Further results wait",
    ),
    row(
        "RESULT_COMMITS_MAX",
        "keystore/src/upload.rs",
        "64",
        "Received results that are committed at the same time. In a bucket, each holds up to five parts of `PART_BYTES` in memory. Further results wait",
    ),
    row(
        "TENANT_RESULT_COMMITS_MAX",
        "keystore/src/upload.rs",
        "16",
        "Received results of one tenant that are committed at the same time. Further results wait",
    ),
    row(
        "BLOB_CHANGES_MAX",
        "keystore/src/keystore.rs",
        "64",
        "Puts and deletions of blobs at the same time, with those whose callers are gone. Further calls wait",
    ),
    row(
        "TENANT_BLOB_CHANGES_MAX",
        "keystore/src/keystore.rs",
        "16",
        "Puts and deletions of one tenant's blobs at the same time. Further calls wait",
    ),
    row("SWEEP_ROWS_MAX", "keystore/src/sweep.rs", "256", "Rows that one transaction of the key store's sweep removes"),
    row("LISTED", "keystore/src/catalogue/blobs.rs", "64", "Digests that one statement of FindMissing looks up"),
    row("KEPT_MAX", "keystore/src/upload.rs", "1024", "Blobs that one transaction of FindMissing marks as used"),
    row("DELETING_MAX", "keystore/src/lookup.rs", "256", "Deleted keys that one round of the sweep processes"),
    row(
        "PIECES",
        "keystore/src/upload/writer.rs",
        "64",
        "Pieces of one upload that wait for the disk, regardless of their size",
    ),
    row(
        "IN_BLOCKS_FROM_BYTES",
        "keystore/src/upload/writer.rs",
        "32 << 20",
        "Bytes of an upload, without those received before, from which it is written in blocks past the page cache. Twice its blocks must fit `upload_buffer_bytes`",
    ),
    row(
        "BLOCK_BYTES",
        "keystore/src/upload/blocks.rs",
        "2 << 20",
        "Bytes of a block of a large upload. The blocks count in `upload_buffer_bytes`",
    ),
    row(
        "BLOCKS",
        "keystore/src/upload/blocks.rs",
        "2",
        "Blocks of a large upload: one fills while the other is written",
    ),
    row(
        "PARTS_IN_FLIGHT",
        "keystore/src/store/remote.rs",
        "4",
        "Parts of one blob that are sent to a bucket at the same time",
    ),
    row("PART_BYTES", "keystore/src/store/remote.rs", "8 << 20", "Bytes of a part of a blob that is sent to a bucket"),
    row(
        "CLEARING",
        "keystore/src/upload/abort.rs",
        "8",
        "Aborted uploads that are removed from a bucket at the same time. Each may hold a part",
    ),
    row(
        "CLEAR_AWAY_WAIT_MAX",
        "keystore/src/upload/abort.rs",
        "Duration::from_secs(1)",
        "Time for which an abort waits for the bucket",
    ),
    row(
        "BYTES_MAX",
        "crypto/circuit/src/program.rs",
        "1 << 20",
        "Bytes of a program, regardless of the server's limit",
    ),
    row("INPUTS_MAX", "crypto/circuit/src/program.rs", "1024", "Inputs of a program, and of a request for a job"),
    row("OPERATIONS_MAX", "crypto/circuit/src/program.rs", "1 << 14", "Operations of a program"),
    row("OUTPUTS_MAX", "crypto/circuit/src/program.rs", "1024", "Outputs of a program"),
    row("BLOCKS_MAX", "crypto/circuit/src/program.rs", "1 << 14", "Blocks of a program's inputs and outputs"),
    row(
        "BOOTSTRAPS_MAX",
        "crypto/circuit/src/program.rs",
        "1 << 17",
        "Bootstraps for a row, as an upper bound that follows from a program's types",
    ),
    row(
        "BYTES_MAX",
        "crypto/circuit/src/ckks.rs",
        "1 << 20",
        "Bytes of a program on vectors, regardless of the server's limit",
    ),
    row("INPUTS_MAX", "crypto/circuit/src/ckks.rs", "256", "Inputs of a program on vectors"),
    row("OPERATIONS_MAX", "crypto/circuit/src/ckks.rs", "1 << 12", "Operations of a program on vectors"),
    row(
        "ARGUMENTS_MAX",
        "crypto/circuit/src/ckks.rs",
        "1 << 14",
        "Arguments of all operations of a program on vectors together",
    ),
    row("OUTPUTS_MAX", "crypto/circuit/src/ckks.rs", "256", "Outputs of a program on vectors"),
    row("DEGREE_MAX", "crypto/circuit/src/ckks.rs", "511", "Degree of a polynomial with numeric coefficients"),
    row("MATRIX_BYTES_MAX", "crypto/circuit/src/ckks.rs", "6 << 30", "Bytes of the matrices of one kind of bootstrap"),
    row(
        "MEMORY_BYTES_MAX",
        "crypto/circuit/src/ckks.rs",
        "8 << 30",
        "Bytes of the vectors that a program holds at a time",
    ),
    row(
        "COST_MAX",
        "crypto/circuit/src/ckks.rs",
        "1 << 21",
        "Work of a program on vectors, in millions of multiplications. A medium bootstrap of 32768 numbers is some 30,000",
    ),
    row(
        "FREE_WORDS_MAX",
        "crypto/ckks/src/pool.rs",
        "(1 << 30) / size_of::<u64>()",
        "Words of the buffers that are kept for the next job on vectors, for each parameter set",
    ),
    row("ENDED_MAX", "worker/src/agent.rs", "4096", "Ended leases that a worker remembers"),
    row(
        "MESSAGE_BYTES_MAX",
        "worker/src/connection.rs",
        "64 << 20",
        "Bytes of one message from the server to a worker",
    ),
    row("THREADS_MAX", "worker/src/cpu.rs", "4096", "Compute threads of a CPU device"),
    row("SLOTS_MAX", "worker/src/cpu/arena.rs", "1 << 18", "Ciphertexts in one arena of the CPU device"),
    row(
        "OUTPUTS_MAX",
        "worker/src/cpu/key.rs",
        "PART_MAX",
        "Results of bootstraps that wait to be copied to their slots, for each thread, unless a single lane has more",
    ),
    row("MESSAGE_MAX", "worker/src/agent/job.rs", "1024", "Bytes of a worker's message about a failure"),
    row("REMEMBERED_MAX", "worker/src/programs.rs", "1024", "Lowered programs in a worker's cache"),
    row("REMEMBERED_BYTES", "worker/src/programs.rs", "64 << 20", "Bytes of the lowered programs in a worker's cache"),
    row("LOADS_AT_ONCE", "worker/src/key_cache.rs", "2", "Keys that a worker loads at a time"),
    row(
        "DEPTH_MAX",
        "worker/src/agent/report.rs",
        "8.0",
        "Factor by which a worker requests more work if the bootstraps of its jobs depend on one another",
    ),
    row("IDLE_ARENA_BYTES_MAX", "worker/src/engine/core.rs", "64 << 20", "Bytes of an arena that stays without jobs"),
    row("WAVES_MAX", "worker/src/latency.rs", "64", "Waves that a worker lists individually for a job"),
    row(
        "FOREIGN_WARNINGS_MAX",
        "worker/src/logging/repeats.rs",
        "10",
        "Warnings and errors of one kind that libraries log in a minute. The rest are counted",
    ),
    row(
        "LINES_MAX",
        "worker/src/logging/repeats.rs",
        "250",
        "Warnings and notices of one kind that Cloakwork logs in a minute. Debug lines have no limit",
    ),
    row(
        "ERRORS_MAX",
        "worker/src/logging/repeats.rs",
        "1000",
        "Errors of one kind that Cloakwork logs in a minute. The rest are counted",
    ),
    row("KINDS_MAX", "worker/src/logging/repeats.rs", "256", "Kinds of log lines that are distinguished in a minute"),
    row("PIECES", "worker/src/blob.rs", "8", "Pieces of a blob that a worker has received and not yet read"),
    row(
        "POOL_LABELS_MAX",
        "server/src/metrics.rs",
        "64 + 16",
        "Pools of workers that metrics name. All further pools share the label `_other`",
    ),
    row(
        "QUEUE_MAX",
        "base/telemetry/src/otlp/export.rs",
        "4096",
        "Spans of traces that wait for the collector. Further spans are dropped and counted",
    ),
    row("BATCH_MAX", "base/telemetry/src/otlp/export.rs", "512", "Spans in one request to the collector"),
    row(
        "ANSWER_BYTES_MAX",
        "base/telemetry/src/otlp/http.rs",
        "1 << 20",
        "Bytes of an answer of the collector over HTTP",
    ),
    row(
        "LINKS_MAX",
        "worker/src/observer.rs",
        "64",
        "Links from the span of a wave to its jobs, and from a job to its waves",
    ),
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
        for directory in ["server/src", "server/scheduler/src", "keystore/src", "worker/src", "base/storage/src"] {
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
