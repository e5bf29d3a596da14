//! The table of configurable limits.

use super::Limit;

macro_rules! limits {
    ($($name:ident = $default:expr, $unit:ident $least:expr => $most:expr, $meaning:literal, $why:literal;)*) => {
        /// The limits that a server keeps to. Units are in the names.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Limits {
            $(#[doc = $meaning] pub $name: u64,)*
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        /// Every limit, in the order of the documentation.
        pub const LIMITS: &[Limit] = &[$(
            Limit {
                name: stringify!($name),
                default: $default,
                least: $least,
                most: $most,
                unit: stringify!($unit),
                meaning: $meaning,
                why: $why,
                field: |limits| &mut limits.$name,
            },
        )*];
    };
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const DAY: u64 = 24 * 3600;

limits! {
    connections = 512, count 1 => 65_536,
        "Open connections to the API port; beyond it, the oldest unauthenticated connection closes. New connections wait if all connections are tenants'",
        "Each may fill its window: 512 of 16 MiB are 8 GiB at the very worst";
    tenant_connections = 128, count 1 => 65_536,
        "Connections that one tenant keeps when `connections` are taken; further connections of the tenant count as unauthenticated",
        "A quarter of all; more where more workers than that show one tenant's token, or certificates, which count as one tenant";
    unauthenticated_bytes = 128 * MIB, bytes 32 * MIB => 1024 * GIB,
        "Memory of all unauthenticated connections and their calls together; beyond it, the oldest of these connections closes",
        "Twice what as many idle ones as `connections` take, and a small part of any server's memory";
    connection_streams = 256, count 1 => 65_536,
        "Calls at once on one connection",
        "More than a client needs that sends one bootstrap at a time from 64 threads";
    stream_window_bytes = 16 * MIB, bytes 64 * KIB => 512 * MIB,
        "Bytes of one call that may be on their way unread (HTTP/2 window); the memory that one upload takes",
        "With the usual 64 KiB, an upload over a long line runs at an eighth of the speed";
    connection_window_bytes = 16 * MIB, bytes 64 * KIB => 512 * MIB,
        "Bytes of all calls of one connection that may be on their way unread",
        "One upload at full speed on each connection";
    header_list_bytes = 16 * KIB, bytes KIB => MIB,
        "All headers of one call together",
        "What clients take as well; our own calls use less than 1 KiB";
    header_fields = 64, count 8 => 1024,
        "Header fields of one call, after decompression",
        "Our own calls have less than ten; proxies and traces add some";
    header_timeout_ms = 10_000, ms 10 => 600_000,
        "From accepting a connection to the first bytes of its protocol, TLS included",
        "A handshake over a bad line takes seconds; somebody who wants to hold a connection takes for ever";
    idle_timeout_ms = 120_000, ms 100 => 86_400_000,
        "Connection without a byte in either direction",
        "Pings go every 20 seconds, so that only a dead peer is silent for so long";
    ping_ms = 20_000, ms 100 => 3_600_000,
        "Between HTTP/2 pings to a silent peer; one that does not answer for as long is dropped",
        "Shorter than what home routers remember";
    admin_connections = 64, count 1 => 4096,
        "Open connections to the admin port; beyond it the longest there goes",
        "A scraper, a probe and somebody who looks";
    requests = 4096, count 1 => 1_000_000,
        "Calls being handled at once, those that only wait for a job left out",
        "Some KiB each, beside their messages";
    tenant_requests = 1024, count 1 => 1_000_000,
        "Calls of one tenant being handled at once",
        "A quarter of all, so that no tenant shuts the others out";
    watchers = 4096, count 1 => 1_000_000,
        "Calls that wait for a job (WatchJob, RunJob) at once, from all tenants",
        "Some KiB each";
    tenant_watchers = 1024, count 1 => 1_000_000,
        "Calls of one tenant that wait for a job at once",
        "A quarter of all";
    probes = 64, count 1 => 65_536,
        "Calls at once that need no token: health checks, and as many streams of health and reflection; beyond it, the oldest of them ends",
        "A few load balancers and people who look";
    probe_idle_ms = 30_000, ms 10 => 3_600_000,
        "Between two pieces of a request that needs no token, the first piece and the end included",
        "These requests are a few bytes long";
    message_bytes = 8 * MIB, bytes 64 * KIB => 256 * MIB,
        "One message",
        "Holds a chunk or inline inputs with room to spare; larger things are blobs";
    held_bytes = GIB, bytes MIB => 1024 * GIB,
        "Requests that are not yet dealt with, and pieces of answers that are not yet read, of all calls together",
        "A hundred of the largest messages, a hundred thousand of the usual ones";
    tenant_held_bytes = 256 * MIB, bytes MIB => 1024 * GIB,
        "The same of one tenant",
        "A quarter of all, so that no tenant shuts the others out";
    request_idle_ms = 60_000, ms 10 => 3_600_000,
        "Between two pieces of a request, the first of them included",
        "A slow line sends 1 MiB in less; a stalled client gives its place away";
    inline_bytes = 4 * MIB, bytes 0 => 256 * MIB,
        "Inputs that ride inside one SubmitJob, and outputs inside one Job",
        "About 250 blocks of 16 KiB";
    chunk_bytes = MIB, bytes 4 * KIB => 64 * MIB,
        "Data in each message of an upload or download, as the server sends and suggests it",
        "Beyond 1 MiB nothing gets faster";
    find_missing = 1000, count 1 => 100_000,
        "Digests in one FindMissing",
        "One query of the database";
    page_size = 100, count 1 => 10_000,
        "Entries on a page of a listing; larger wishes are cut down to this",
        "A page of keys with all their parts stays below 4 MiB, which is what clients take; others below 1 MiB";
    blob_bytes = 16 * GIB, bytes MIB => 1024 * GIB,
        "One blob",
        "The largest key of any parameter set";
    uploads = 256, count 1 => 65_536,
        "Uploads of clients that are open at once, from all tenants; results that workers hand in do not count",
        "Each holds a staging file";
    tenant_uploads = 32, count 1 => 65_536,
        "Uploads of one tenant's clients that are open at once; results that workers hand in do not count",
        "A client sends a few at a time";
    receiving = 128, count 1 => 65_536,
        "Uploads that are receiving at the same moment, from all tenants and workers",
        "Each takes a thread and its window";
    tenant_receiving = 32, count 1 => 65_536,
        "Uploads of one tenant that are receiving at the same moment",
        "A quarter of all, so that no tenant shuts the others out";
    upload_buffer_bytes = 8 * MIB, bytes 64 * KIB => 1024 * MIB,
        "Bytes of one upload that have been received and are not yet hashed and written",
        "Enough to keep the disk busy; with `receiving`, 1 GiB at the very worst";
    upload_expiry_seconds = DAY, seconds 1 => 365 * DAY,
        "Upload that nobody goes on with",
        "A night with the lid closed should not cost a key's upload";
    tenant_bytes = 64 * GIB, bytes MIB => 1024 * 1024 * GIB,
        "Blobs of one tenant together: keys, ciphertexts and outputs",
        "A hundred keys of ordinary size";
    unpinned_bytes = 32 * GIB, bytes MIB => 1024 * 1024 * GIB,
        "Ciphertexts of all tenants that no job has pinned. Beyond it the tenant with most of them gives its least recently used ones: whoever keeps to an even share loses nothing and is not refused",
        "Half of what one tenant may have: ciphertexts come and go, keys stay";
    blob_keep_seconds = 3600, seconds 0 => 365 * DAY,
        "Ciphertext that was just uploaded, or reported by FindMissing to be there, is safe from eviction for this long, unless its tenant has more than an even share",
        "Time to submit the job that reads it";
    request_memory_seconds = DAY, seconds 60 => 365 * DAY,
        "A request id of BeginUpload, RegisterKey and AddPart is remembered for this long",
        "Nobody repeats a call a day later";
    tenant_request_ids = 100_000, count 1 => 100_000_000,
        "Such ids of one tenant that are remembered; beyond it the oldest are forgotten early",
        "One a second for a day, and some hundred bytes each";
    orphan_seconds = DAY, seconds 0 => 365 * DAY,
        "Objects in a bucket that the catalogue does not know are removed at the start from this age on",
        "Another server may be writing them; in a directory of our own they go at once";
    tenant_keys = 100, count 1 => 1_000_000,
        "Evaluation keys of one tenant",
        "A tenant has a few";
    key_parts = 128, count 1 => 4096,
        "Parts of one key",
        "Two for each parameter set of TFHE; a CKKS key has one for each rotation, up to 60 for a bootstrap, and this is two of them";
    program_bytes = MIB, bytes KIB => 64 * MIB,
        "One encoded program",
        "All that a program may have: see `OPERATIONS_MAX`";
    tenant_compile_bootstraps = 1 << 20, count 1 => 1 << 40,
        "Programs of one tenant that are compiled or wait for it, by an upper bound of their bootstraps for a row; 32 bytes of a program count as one, and a kind of bootstrap of a program on vectors as 64. A tenant's only program is always let in. Of one tenant, one expensive and one cheap program (see `CHEAP_BOOTSTRAPS`) are compiled at a time at most, and while its expensive one is, cheap ones of all other tenants go first: a tenant alone can take two processors, and one while others wait",
        "Eight of the largest programs, some ten seconds of one processor";
    tenant_programs = 10_000, count 1 => 10_000_000,
        "Programs that one tenant has registered",
        "Some MiB as a rule; their bytes count as `tenant_inline_bytes`";
    tenant_inline_bytes = 4 * GIB, bytes MIB => 1024 * GIB,
        "What one tenant keeps in the server's own database: programs, inputs inside jobs that have not ended, outputs inside jobs until they expire; beyond it, jobs are refused, and outputs become blobs",
        "A thousand jobs with as much inside as may be";
    queued_jobs = 100_000, count 1 => 10_000_000,
        "Jobs that wait, from all tenants",
        "What the scheduler is measured with";
    tenant_queued_jobs = 10_000, count 1 => 10_000_000,
        "Jobs of one tenant that wait",
        "A tenth of all";
    job_rows = 65_536, count 1 => 16_777_216,
        "Rows of inputs of one job",
        "More is better sent as several jobs";
    job_bytes = 750 * MIB, bytes MIB => 1024 * GIB,
        "Ciphertexts of all inputs and outputs of one job, as they lie in a worker's memory",
        "Twice that, as a worker holds them in two forms for a moment, is what the embedded one has for a large job";
    job_bootstraps = 10_000_000, count 1 => 1_000_000_000_000,
        "Bootstraps of one job, over all its rows",
        "Some hours of one CPU worker";
    job_seconds = 3600, seconds 1 => 30 * DAY,
        "From acceptance to the end of a job, where the job sets no limit of its own",
        "Long enough for a busy evening, short enough to notice a job that hangs";
    job_seconds_max = DAY, seconds 1 => 30 * DAY,
        "The longest limit that a job may set",
        "A key that is being deleted waits for at most this long";
    job_attempts = 5, count 1 => 100,
        "Times that a job is handed to a worker because the last one was lost",
        "Workers die more often than jobs are at fault, and five deaths are no accident";
    job_record_seconds = 7 * DAY, seconds 60 => 365 * DAY,
        "An ended job and its latency record are kept for this long",
        "A week's worth of questions";
    tenant_ended_jobs = 100_000, count 1 => 100_000_000,
        "Ended jobs of one tenant that are remembered; beyond it the oldest are forgotten early, save those whose outputs are still kept",
        "Some KiB each; ten times what may wait";
    output_keep_seconds = DAY, seconds 1 => 365 * DAY,
        "Outputs that nobody has fetched, where the job says nothing else",
        "The client may be a batch that runs once a day";
    output_keep_seconds_max = 7 * DAY, seconds 1 => 365 * DAY,
        "The longest time that a job may ask for its outputs to be kept",
        "They count against the tenant's bytes meanwhile";
    workers = 256, count 1 => 65_536,
        "Workers that are attached at once",
        "More than one server feeds";
    report_ms = 1000, ms 10 => 60_000,
        "Between two reports of a worker",
        "Several reports may be lost before a lease is";
    lease_ms = 10_000, ms 50 => 3_600_000,
        "A worker that has not reported for this long loses its jobs",
        "Ten reports; a shorter one takes jobs from workers that only swap";
    progress_ms = 120_000, ms 100 => 86_400_000,
        "A job whose progress stands still for this long is taken from its worker",
        "Reading and expanding the largest key takes most of a minute on a slow disk";
    address_connections = 256, count 1 => 65_536,
        "Connections from one address or IPv6 /64 network; beyond it, the address's oldest unauthenticated connection closes. New connections are refused if all its connections are tenants'",
        "Half of all; raise it where many workers or clients share an address";
    address_calls_per_second = 200, count 1 => 1_000_000,
        "Connections, and calls that are not authenticated, from one address in a second; beyond it, the server reads its unauthenticated connections more slowly",
        "Load balancers ask a few times a second";
    address_failures_per_minute = 60, count 1 => 1_000_000,
        "Calls with wrong tokens from one address in a minute; beyond it, unknown tokens from there are refused without a lookup",
        "A client with an expired token tries less often, and a guess needs far more tries";
    token_lookups = 2, count 1 => 64,
        "Lookups of unknown tokens in the database at once",
        "Fewer than `database_readers`, so that guesses leave the database to the tenants";
    token_lookups_waiting = 64, count 0 => 65_536,
        "Calls with unknown tokens that wait for such a lookup",
        "A short line: callers beyond it are told to try again";
    token_cache = 4096, count 1 => 1_000_000,
        "Tokens that are known to be good without asking the database",
        "Some hundred bytes each";
    token_cache_ms = 2000, ms 0 => 60_000,
        "For how long they are; a revocation counts at the latest after this",
        "A query every two seconds for each token in use is nothing";
    database_readers = 4, count 1 => 64,
        "Connections that read the database, beside the one that writes",
        "Readers do not wait for the writer, and four cores' worth of them is plenty";
    drain_ms = 30_000, ms 0 => 3_600_000,
        "From the signal to stop to the end of the process; what runs then is handed to the next one",
        "What Kubernetes grants";
}
