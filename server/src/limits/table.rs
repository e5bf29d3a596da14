//! The table of configurable limits.

use super::Limit;

macro_rules! limits {
    ($($name:ident = $default:expr, $unit:ident $least:expr => $most:expr, $meaning:literal, $why:literal;)*) => {
        /// The limits of a server. Units are in the names.
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
        "Maximum number of open connections to the API port. Beyond it, the oldest unauthenticated connection closes. New connections wait if tenants own all connections",
        "Each connection may fill its window: 512 of 16 MiB are 8 GiB in the worst case";
    tenant_connections = 128, count 1 => 65_536,
        "Number of connections that each tenant keeps when all `connections` are taken. Further connections of the tenant count as unauthenticated",
        "A quarter of `connections`. Set a larger value if more workers than this share one tenant's token, or use certificates, which count as one tenant";
    unauthenticated_bytes = 128 * MIB, bytes 32 * MIB => 1024 * GIB,
        "Maximum memory of all unauthenticated connections and their calls together. Beyond it, the oldest of these connections closes, and the others wait until its memory is free",
        "Twice the memory of `connections` idle connections, and a small part of any server's memory";
    connection_streams = 256, count 1 => 65_536,
        "Maximum number of concurrent calls (HTTP/2 streams) on one connection",
        "More than a client needs that sends single bootstraps from 64 threads";
    stream_window_bytes = 16 * MIB, bytes 64 * KIB => 512 * MIB,
        "HTTP/2 flow-control window of one call: the maximum number of bytes that a peer may send before the server reads them. This is the memory that one upload takes",
        "With the usual 64 KiB, an upload over a link with high latency runs at an eighth of the speed";
    connection_window_bytes = 16 * MIB, bytes 64 * KIB => 512 * MIB,
        "HTTP/2 flow-control window of one connection, shared by all its calls",
        "Allows one upload at full speed on each connection";
    header_list_bytes = 16 * KIB, bytes KIB => MIB,
        "Maximum size of all headers of one call together",
        "The same limit as in clients. Calls of the Cloakwork client use less than 1 KiB";
    header_fields = 64, count 8 => 1024,
        "Maximum number of header fields of one call, after decompression",
        "Calls of the Cloakwork client have fewer than ten fields. Proxies and tracing add some";
    header_timeout_ms = 10_000, ms 10 => 600_000,
        "Maximum duration of the TLS handshake, and then maximum time until the first bytes of the protocol arrive",
        "A handshake over a bad link takes seconds. A caller that wants to occupy a connection would take for ever";
    idle_timeout_ms = 120_000, ms 100 => 86_400_000,
        "Maximum time without a byte in either direction on a connection",
        "Pings are sent every 20 seconds, so only a dead peer is silent for this long";
    ping_ms = 20_000, ms 100 => 3_600_000,
        "Interval of HTTP/2 pings to a silent peer. A peer that does not answer a ping within the same time is disconnected",
        "Shorter than the connection timeout of home routers";
    admin_connections = 64, count 1 => 4096,
        "Maximum number of open connections to the admin port. Beyond it, the oldest connection closes",
        "Enough for a scraper, a probe and an operator";
    requests = 4096, count 1 => 1_000_000,
        "Maximum number of concurrent calls, without calls that wait for a job",
        "Each call takes some KiB, beside its messages";
    tenant_requests = 1024, count 1 => 1_000_000,
        "Maximum number of concurrent calls of one tenant",
        "A quarter of `requests`, so that one tenant cannot block the others";
    watchers = 4096, count 1 => 1_000_000,
        "Maximum number of concurrent calls of all tenants that wait for a job (WatchJob, RunJob)",
        "Each call takes some KiB";
    tenant_watchers = 1024, count 1 => 1_000_000,
        "Maximum number of concurrent calls of one tenant that wait for a job",
        "A quarter of `watchers`";
    probes = 64, count 1 => 65_536,
        "Maximum number of concurrent calls that need no token. Health checks have this limit, and streams of health and reflection have another of the same size. Beyond it, the oldest call ends",
        "Enough for a few load balancers and operators";
    probe_idle_ms = 30_000, ms 10 => 3_600_000,
        "Maximum time between two pieces of a request that needs no token, the first piece and the end included",
        "These requests are a few bytes long";
    message_bytes = 8 * MIB, bytes 64 * KIB => 256 * MIB,
        "Maximum size of one message",
        "Large enough for a chunk or inline inputs. Larger data is sent as blobs";
    held_bytes = GIB, bytes MIB => 1024 * GIB,
        "Maximum memory of unfinished requests and unread answers of all calls together. The inputs of all jobs that are being submitted may take as much again, and so may unread answers to workers",
        "128 of the largest messages, or 100,000 of the usual ones";
    tenant_held_bytes = 256 * MIB, bytes MIB => 1024 * GIB,
        "Maximum memory of unfinished requests and unread answers of one tenant. The inputs of its jobs that are being submitted may take as much again",
        "A quarter of `held_bytes`, so that one tenant cannot block the others";
    request_idle_ms = 60_000, ms 10 => 3_600_000,
        "Maximum time between two pieces of a request, the first piece included. For a worker's reports, the time is at least `lease_ms`",
        "A slow link sends 1 MiB in less time. A stalled client loses its place";
    inline_bytes = 4 * MIB, bytes 0 => 256 * MIB,
        "Maximum size of inline inputs in one SubmitJob, and of inline outputs in one Job",
        "About 250 blocks of 16 KiB";
    chunk_bytes = MIB, bytes 4 * KIB => 64 * MIB,
        "Size of the data in each message of an upload or download, as the server sends and recommends it",
        "Chunks of more than 1 MiB are not faster";
    find_missing = 1000, count 1 => 100_000,
        "Maximum number of digests in one FindMissing",
        "Sixteen short queries of the database";
    page_size = 100, count 1 => 10_000,
        "Maximum number of entries on a page of a listing. Requests for larger pages are reduced to this",
        "A page of keys with all their parts stays below 4 MiB, which clients accept. Other pages stay below 1 MiB";
    blob_bytes = 16 * GIB, bytes MIB => 1024 * GIB,
        "Maximum size of one blob",
        "The largest key of any parameter set";
    uploads = 256, count 1 => 65_536,
        "Maximum number of open uploads of all tenants' clients. Results that workers upload do not count",
        "Each upload has a staging file";
    tenant_uploads = 32, count 1 => 65_536,
        "Maximum number of open uploads of one tenant's clients. Results that workers upload do not count",
        "A client uploads a few blobs at a time";
    receiving = 128, count 1 => 65_536,
        "Maximum number of uploads of all tenants' clients that receive data at the same time. Results that workers upload have limits of their own (`RESULTS_MAX`)",
        "Each of them takes one or two threads, and its flow-control window";
    tenant_receiving = 32, count 1 => 65_536,
        "Maximum number of uploads of one tenant that receive data at the same time",
        "A quarter of `receiving`, so that one tenant cannot block the others";
    upload_buffer_bytes = 8 * MIB, bytes 64 * KIB => 1024 * MIB,
        "Maximum number of received bytes of one upload that are not yet hashed and written. All bytes of a message count, also those that are no data",
        "Enough to keep the disk busy. With `receiving`, 1 GiB in the worst case";
    upload_expiry_seconds = DAY, seconds 1 => 365 * DAY,
        "Time without progress after which an unfinished upload is removed",
        "A laptop that is closed for a night should not lose the upload of a key";
    staged_bytes = 1024 * GIB, bytes MIB => 1024 * 1024 * GIB,
        "Maximum number of bytes that unfinished uploads may occupy in this server's directory, all tenants together. An upload that receives data counts with its whole size. Beyond the limit, uploads are refused with `STORAGE_FULL`",
        "No limit in practice. Set it below the size of a volume that must not fill up";
    tenant_bytes = 64 * GIB, bytes MIB => 1024 * 1024 * GIB,
        "Maximum size of all blobs of one tenant together: keys, ciphertexts and outputs",
        "100 keys of ordinary size";
    unpinned_bytes = 32 * GIB, bytes MIB => 1024 * 1024 * GIB,
        "Maximum size of all tenants' ciphertexts that no job has pinned. Beyond it, the tenant with the most bytes loses its least recently used ciphertexts. A tenant within an even share loses nothing and is not refused",
        "Half of the limit of one tenant, because ciphertexts are temporary and keys stay";
    blob_keep_seconds = 3600, seconds 0 => 365 * DAY,
        "Time for which a ciphertext is safe from eviction after its upload, or after FindMissing reported it as present. Ciphertexts of a tenant with more than an even share are not protected",
        "Time to submit the job that reads the ciphertext";
    request_memory_seconds = DAY, seconds 60 => 365 * DAY,
        "Time for which request ids of BeginUpload, RegisterKey and AddPart are remembered",
        "Clients do not repeat a call after a day";
    tenant_request_ids = 100_000, count 1 => 100_000_000,
        "Maximum number of request ids of one tenant that are remembered. Beyond it, the oldest are forgotten early",
        "One id a second for a day, at some hundred bytes each";
    orphan_seconds = DAY, seconds 3600 => 365 * DAY,
        "Minimum age of an object in the bucket that no row names before a server removes the object. Servers look for such objects when they take a shard over, and once a day",
        "Another server may still be writing the object. In a local directory, unknown objects are removed at once";
    tenant_keys = 100, count 1 => 1_000_000,
        "Maximum number of evaluation keys of one tenant",
        "A tenant usually has a few keys";
    key_parts = 128, count 1 => 4096,
        "Maximum number of parts of one key",
        "A TFHE key has two parts for each parameter set. A CKKS key has one part for each rotation, up to 60 for a bootstrap, and the default is about twice that";
    program_bytes = MIB, bytes KIB => 64 * MIB,
        "Maximum size of one encoded program",
        "The largest program that the format allows; see `OPERATIONS_MAX`";
    tenant_compile_bootstraps = 1 << 20, count 1 => 1 << 40,
        "Maximum size of one tenant's programs that compile or wait for it, as an upper bound of their bootstraps for a row. 32 bytes of a program count as one bootstrap, and a kind of bootstrap of a program on vectors counts as 64. See [below](#compilation-of-programs)",
        "Eight of the largest programs, which take some ten seconds of one processor";
    tenant_programs = 10_000, count 1 => 10_000_000,
        "Maximum number of registered programs of one tenant",
        "Usually some MiB. Their bytes count against `tenant_inline_bytes`";
    tenant_inline_bytes = 4 * GIB, bytes MIB => 1024 * GIB,
        "Maximum size of one tenant's data in the server's own database: programs, inline inputs of jobs that have not ended, and inline outputs until they expire. Beyond it, jobs are refused and outputs become blobs",
        "About 1000 jobs with the maximum of inline data";
    queued_jobs = 100_000, count 1 => 10_000_000,
        "Maximum number of unfinished jobs of all tenants (waiting or running)",
        "The number with which the scheduler is measured";
    tenant_queued_jobs = 10_000, count 1 => 10_000_000,
        "Maximum number of unfinished jobs of one tenant (waiting or running)",
        "A tenth of `queued_jobs`";
    job_rows = 65_536, count 1 => 16_777_216,
        "Maximum number of input rows of one job",
        "More rows are better sent as several jobs";
    job_bytes = 750 * MIB, bytes MIB => 1024 * GIB,
        "Maximum size of the ciphertexts of all inputs and outputs of one job, in a worker's memory",
        "A worker briefly holds the ciphertexts in two forms. Twice this limit is the memory of the embedded worker for a large job";
    job_bootstraps = 10_000_000, count 1 => 1_000_000_000_000,
        "Maximum number of bootstraps of one job, over all its rows",
        "Some hours of one CPU worker";
    job_seconds = 3600, seconds 1 => 30 * DAY,
        "Maximum time from acceptance to the end of a job, if the job sets no limit of its own",
        "Long enough for a busy evening, and short enough to detect a job that hangs";
    job_seconds_max = DAY, seconds 1 => 30 * DAY,
        "The longest time limit that a job may set",
        "A key that is being deleted waits for at most this long";
    job_attempts = 5, count 1 => 100,
        "Number of failed or lost attempts after which a job fails. Crashes of workers are counted separately",
        "Workers are lost more often than jobs are at fault, but five losses are no accident";
    job_record_seconds = 7 * DAY, seconds 60 => 365 * DAY,
        "Time for which an ended job and its latency record are kept",
        "Allows questions about the jobs of a week";
    tenant_ended_jobs = 100_000, count 1 => 100_000_000,
        "Maximum number of ended jobs of one tenant that are kept. Beyond it, the oldest are removed early, except jobs whose outputs are still kept",
        "Some KiB for each job. Ten times `tenant_queued_jobs`";
    tenant_day_bootstraps = 1 << 50, count 0 => 1 << 50,
        "Maximum number of bootstraps of one tenant in a day (UTC): those of its jobs that ended in the day, if a worker had them, and of its unfinished jobs. Beyond it, new jobs are refused until the next day",
        "No limit in practice. Set it to bound what a tenant can spend";
    usage_seconds = 400 * DAY, seconds DAY => 3650 * DAY,
        "Time for which the usage of each tenant and day is kept",
        "A year, and some weeks to settle the accounts. A row of some hundred bytes for each tenant and day";
    audit_seconds = 400 * DAY, seconds DAY => 3650 * DAY,
        "Time for which entries of the audit log are kept. Of entries about refused calls, at most `AUDIT_REFUSALS_MAX` are kept",
        "A year, and some weeks to look at it";
    output_keep_seconds = DAY, seconds 1 => 365 * DAY,
        "Time for which outputs are kept until they are fetched, if the job sets no time of its own",
        "The client may be a batch that runs once a day";
    output_keep_seconds_max = 7 * DAY, seconds 1 => 365 * DAY,
        "The longest time for which a job may ask to keep its outputs",
        "Outputs count against the tenant's bytes for this time";
    workers = 256, count 1 => 65_536,
        "Maximum number of attached workers. Twice as many streams of workers may be open",
        "More workers than one server can keep busy";
    report_ms = 1000, ms 10 => 60_000,
        "Interval between two reports of a worker",
        "Several reports may be lost before a lease expires";
    lease_ms = 10_000, ms 50 => 3_600_000,
        "Time without a report after which a worker loses its jobs. The first report on a worker's stream must arrive within this time",
        "Ten reports. A shorter lease would take jobs from workers that are only slow because they swap";
    progress_ms = 120_000, ms 100 => 86_400_000,
        "Time without progress after which a job is taken from its worker",
        "Reading and expanding the largest key takes most of a minute on a slow disk";
    address_connections = 256, count 1 => 65_536,
        "Maximum number of connections from one address or IPv6 /64 network. Beyond it, the address's oldest unauthenticated connection closes. New connections are refused if tenants own all its connections",
        "Half of `connections`. Set a larger value if many workers or clients share an address";
    address_calls_per_second = 200, count 1 => 1_000_000,
        "Maximum number of connections and unauthenticated calls from one address in a second. Beyond it, the server reads the address's unauthenticated connections more slowly",
        "Load balancers send a few health checks a second";
    address_failures_per_minute = 60, count 1 => 1_000_000,
        "Maximum number of calls with wrong tokens from one address in a minute. Beyond it, unknown tokens from the address are refused without a lookup",
        "A client with an expired token tries less often, and guessing a token needs far more tries";
    token_lookups = 2, count 1 => 64,
        "Maximum number of concurrent lookups of unknown tokens in the database",
        "Lookups use connections of the server itself, so guesses take none from the tenants";
    token_lookups_waiting = 64, count 0 => 65_536,
        "Maximum number of calls with unknown tokens that wait for a lookup",
        "A short queue. Calls beyond it are refused with a retry delay";
    token_cache = 4096, count 1 => 1_000_000,
        "Maximum number of valid tokens in the cache",
        "Some hundred bytes each";
    token_cache_ms = 2000, ms 0 => 5_000,
        "Time for which a valid token is cached. A revocation takes effect after at most this time",
        "One query every two seconds for each token in use costs little";
    database_readers = 4, count 1 => 64,
        "Number of connections that read the database for tenants, beside the connections that write: one for a file, and six for PostgreSQL. The calls of one tenant use at most all but one of the readers",
        "Readers do not wait for writers, and four concurrent readers are sufficient";
    metric_tenants = 100, count 0 => 10_000,
        "Number of tenants whose names are labels of metrics. All further tenants share the label `_other`",
        "Each tenant makes some thirty time series. With 0, metrics name no tenant";
    drain_ms = 30_000, ms 0 => 3_600_000,
        "Grace period of a graceful shutdown, from the stop signal to the end of the process. Jobs that have not ended continue in the next process",
        "The default grace period of Kubernetes";
}
