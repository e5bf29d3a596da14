-- All tables of the server. PostgreSQL came with version 9 of the schema, so there are no earlier
-- steps. Columns mean what migrations/sqlite says. Text sorts by bytes, as in SQLite.

CREATE TABLE tenants (
    name           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_micros BIGINT NOT NULL,
    revoked_micros BIGINT
);

CREATE TABLE tokens (
    id               TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    tenant           TEXT COLLATE "C" NOT NULL REFERENCES tenants (name),
    hash             BYTEA NOT NULL,
    scopes           TEXT COLLATE "C" NOT NULL,
    note             TEXT COLLATE "C" NOT NULL,
    created_micros   BIGINT NOT NULL,
    expires_micros   BIGINT,
    revoked_micros   BIGINT,
    last_used_micros BIGINT
);
CREATE INDEX tokens_by_tenant ON tokens (tenant);

CREATE TABLE programs (
    tenant         TEXT COLLATE "C" NOT NULL,
    digest         BYTEA NOT NULL,
    bytes          BYTEA NOT NULL,
    registered     INTEGER NOT NULL,
    created_micros BIGINT NOT NULL,
    PRIMARY KEY (tenant, digest)
);
CREATE INDEX programs_carried ON programs (tenant, digest) WHERE registered = 0;

CREATE TABLE jobs (
    id                    BYTEA NOT NULL PRIMARY KEY,
    tenant                TEXT COLLATE "C" NOT NULL,
    request_id            BYTEA NOT NULL,
    request_digest        BYTEA NOT NULL,
    state                 INTEGER NOT NULL,
    program               BYTEA NOT NULL,
    key_id                BYTEA NOT NULL,
    parameter_set         INTEGER NOT NULL,
    row_count             BIGINT NOT NULL,
    pbs_count             BIGINT NOT NULL,
    priority              INTEGER NOT NULL,
    inline_outputs        INTEGER NOT NULL,
    keep_outputs_micros   BIGINT NOT NULL,
    created_micros        BIGINT NOT NULL,
    deadline_micros       BIGINT NOT NULL,
    promised              INTEGER NOT NULL DEFAULT 1,
    ended_micros          BIGINT,
    outputs_expire_micros BIGINT,
    attempts              INTEGER NOT NULL DEFAULT 0,
    epoch                 BIGINT NOT NULL DEFAULT 0,
    worker                BYTEA,
    suspect               BIGINT,
    solo_crashes          INTEGER NOT NULL DEFAULT 0,
    reason                TEXT COLLATE "C",
    message               TEXT COLLATE "C",
    latency               BYTEA,
    cost                  BIGINT,
    key_parts             BYTEA,
    has_outputs           INTEGER NOT NULL DEFAULT 0,
    attestation           BYTEA
);
CREATE UNIQUE INDEX jobs_by_request ON jobs (tenant, request_id);
CREATE INDEX jobs_by_tenant ON jobs (tenant, id);
CREATE INDEX jobs_by_program ON jobs (tenant, program);
CREATE INDEX jobs_by_state ON jobs (tenant, state, id);
CREATE INDEX jobs_live ON jobs (tenant, key_id) WHERE ended_micros IS NULL;
CREATE INDEX jobs_by_expiry ON jobs (outputs_expire_micros) WHERE has_outputs = 1;
CREATE INDEX jobs_by_end ON jobs (ended_micros) WHERE ended_micros IS NOT NULL AND has_outputs = 0;
CREATE INDEX jobs_spent ON jobs (tenant, id) WHERE ended_micros IS NOT NULL AND has_outputs = 0;

CREATE TABLE job_inputs (
    job        BYTEA NOT NULL,
    place      INTEGER NOT NULL,
    digest     BYTEA NOT NULL,
    size_bytes BIGINT NOT NULL,
    bytes      BYTEA,
    PRIMARY KEY (job, place)
);

CREATE TABLE job_outputs (
    job        BYTEA NOT NULL,
    place      INTEGER NOT NULL,
    digest     BYTEA NOT NULL,
    size_bytes BIGINT NOT NULL,
    bytes      BYTEA,
    done       INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (job, place)
);

CREATE TABLE embedded_workers (
    id BYTEA NOT NULL PRIMARY KEY
);

-- Sums of each tenant. The triggers below run once for each statement, however many rows it
-- changes: a trigger for each row would change the same row of tenant_usage again and again, and
-- PostgreSQL keeps every version of it until the transaction ends.
CREATE TABLE tenant_usage (
    tenant       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    inline_bytes BIGINT NOT NULL,
    ended_jobs   BIGINT NOT NULL
) WITH (fillfactor = 50);

CREATE FUNCTION usage_programs_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tenant_usage (tenant, inline_bytes, ended_jobs)
    SELECT tenant, SUM(octet_length(bytes)), 0 FROM new_rows GROUP BY tenant
    ON CONFLICT (tenant) DO UPDATE SET inline_bytes = tenant_usage.inline_bytes + excluded.inline_bytes;
    RETURN NULL;
END $$;
CREATE TRIGGER usage_programs_added AFTER INSERT ON programs
REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION usage_programs_added();

CREATE FUNCTION usage_programs_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tenant_usage SET inline_bytes = inline_bytes - sums.bytes
    FROM (SELECT tenant, SUM(octet_length(bytes)) AS bytes FROM old_rows GROUP BY tenant) AS sums
    WHERE tenant_usage.tenant = sums.tenant;
    RETURN NULL;
END $$;
CREATE TRIGGER usage_programs_gone AFTER DELETE ON programs
REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION usage_programs_gone();

-- A job's program is stored before it, so that its tenant has a row.
CREATE FUNCTION usage_contents_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tenant_usage SET inline_bytes = inline_bytes + sums.bytes
    FROM (SELECT jobs.tenant, SUM(octet_length(new_rows.bytes)) AS bytes
        FROM new_rows JOIN jobs ON jobs.id = new_rows.job WHERE new_rows.bytes IS NOT NULL GROUP BY jobs.tenant) AS sums
    WHERE tenant_usage.tenant = sums.tenant;
    RETURN NULL;
END $$;
CREATE TRIGGER usage_inputs_added AFTER INSERT ON job_inputs
REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION usage_contents_added();
CREATE TRIGGER usage_outputs_added AFTER INSERT ON job_outputs
REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION usage_contents_added();

CREATE FUNCTION usage_contents_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tenant_usage SET inline_bytes = inline_bytes - sums.bytes
    FROM (SELECT jobs.tenant, SUM(octet_length(old_rows.bytes)) AS bytes
        FROM old_rows JOIN jobs ON jobs.id = old_rows.job WHERE old_rows.bytes IS NOT NULL GROUP BY jobs.tenant) AS sums
    WHERE tenant_usage.tenant = sums.tenant;
    RETURN NULL;
END $$;
CREATE TRIGGER usage_inputs_gone AFTER DELETE ON job_inputs
REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION usage_contents_gone();
CREATE TRIGGER usage_outputs_gone AFTER DELETE ON job_outputs
REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION usage_contents_gone();

CREATE FUNCTION usage_jobs_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tenant_usage SET ended_jobs = ended_jobs + sums.jobs
    FROM (SELECT tenant, COUNT(*) AS jobs FROM new_rows WHERE ended_micros IS NOT NULL GROUP BY tenant) AS sums
    WHERE tenant_usage.tenant = sums.tenant;
    RETURN NULL;
END $$;
CREATE TRIGGER usage_jobs_added AFTER INSERT ON jobs
REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION usage_jobs_added();

CREATE FUNCTION usage_jobs_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tenant_usage SET ended_jobs = ended_jobs + sums.jobs
    FROM (SELECT new_rows.tenant, COUNT(*) AS jobs FROM new_rows JOIN old_rows ON old_rows.id = new_rows.id
        WHERE old_rows.ended_micros IS NULL AND new_rows.ended_micros IS NOT NULL GROUP BY new_rows.tenant) AS sums
    WHERE tenant_usage.tenant = sums.tenant;
    RETURN NULL;
END $$;
CREATE TRIGGER usage_jobs_ended AFTER UPDATE ON jobs
REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION usage_jobs_ended();

CREATE FUNCTION usage_jobs_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tenant_usage SET ended_jobs = ended_jobs - sums.jobs
    FROM (SELECT tenant, COUNT(*) AS jobs FROM old_rows WHERE ended_micros IS NOT NULL GROUP BY tenant) AS sums
    WHERE tenant_usage.tenant = sums.tenant;
    RETURN NULL;
END $$;
CREATE TRIGGER usage_jobs_gone AFTER DELETE ON jobs
REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION usage_jobs_gone();
