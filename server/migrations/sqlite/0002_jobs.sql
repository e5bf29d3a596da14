-- Programs that jobs name. The bytes are as received.
CREATE TABLE programs (
    tenant TEXT NOT NULL,
    digest BLOB NOT NULL,
    bytes BLOB NOT NULL,
    -- 1 where the tenant registered it; others go with the last job that carried them.
    registered INTEGER NOT NULL,
    created_micros BIGINT NOT NULL,
    PRIMARY KEY (tenant, digest)
) WITHOUT ROWID;

-- Times are microseconds of Unix time; states are those of the protocol.
CREATE TABLE jobs (
    id BLOB NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    request_id BLOB NOT NULL,
    request_digest BLOB NOT NULL,
    state INTEGER NOT NULL,
    program BLOB NOT NULL,
    key_id BLOB NOT NULL,
    parameter_set INTEGER NOT NULL,
    row_count BIGINT NOT NULL,
    pbs_count BIGINT NOT NULL,
    priority INTEGER NOT NULL,
    inline_outputs INTEGER NOT NULL,
    keep_outputs_micros BIGINT NOT NULL,
    created_micros BIGINT NOT NULL,
    deadline_micros BIGINT NOT NULL,
    -- 0 while only the call that made it knows of it, and waits for its result.
    promised INTEGER NOT NULL DEFAULT 1,
    ended_micros BIGINT,
    outputs_expire_micros BIGINT,
    -- The scheduler's memory of the job, so that a restart forgets nothing.
    attempts INTEGER NOT NULL DEFAULT 0,
    epoch BIGINT NOT NULL DEFAULT 0,
    worker BLOB,
    suspect BIGINT,
    solo_crashes INTEGER NOT NULL DEFAULT 0,
    -- How it ended.
    reason TEXT,
    message TEXT,
    latency BLOB
) WITHOUT ROWID;

CREATE UNIQUE INDEX jobs_by_request ON jobs (tenant, request_id);
CREATE INDEX jobs_by_tenant ON jobs (tenant, id);
CREATE INDEX jobs_by_program ON jobs (tenant, program);
-- Partial, so that a change of a live job's state touches no index.
CREATE INDEX jobs_live ON jobs (tenant, key_id) WHERE ended_micros IS NULL;
CREATE INDEX jobs_by_end ON jobs (ended_micros) WHERE ended_micros IS NOT NULL;

-- Lists of ciphertexts: either the bytes themselves, or a blob in the key store.
CREATE TABLE job_inputs (
    job BLOB NOT NULL,
    place INTEGER NOT NULL,
    digest BLOB NOT NULL,
    size_bytes BIGINT NOT NULL,
    bytes BLOB,
    PRIMARY KEY (job, place)
) WITHOUT ROWID;

CREATE TABLE job_outputs (
    job BLOB NOT NULL,
    place INTEGER NOT NULL,
    digest BLOB NOT NULL,
    size_bytes BIGINT NOT NULL,
    bytes BLOB,
    PRIMARY KEY (job, place)
) WITHOUT ROWID;

-- Workers that ran inside a server process. When a process starts, those before it are dead for certain.
CREATE TABLE embedded_workers (
    id BLOB PRIMARY KEY
);
