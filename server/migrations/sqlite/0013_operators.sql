-- Bootstraps that a job computed, and time of devices that it used, as its latency record has them.
-- Null until the job ends, and in jobs of earlier servers.
ALTER TABLE jobs ADD COLUMN done_bootstraps BIGINT;
ALTER TABLE jobs ADD COLUMN device_nanos BIGINT;

-- What each tenant used in each day (UTC). A job belongs to the day of its end. Triggers add the
-- jobs in the transactions that end them. The server adds what is stored once a minute. Sums stay
-- at a number below the largest one.
CREATE TABLE usage_days (
    tenant             TEXT NOT NULL,
    -- Days since 1970.
    day                BIGINT NOT NULL,
    jobs               BIGINT NOT NULL DEFAULT 0,
    unsuccessful_jobs  BIGINT NOT NULL DEFAULT 0,
    bootstraps         BIGINT NOT NULL DEFAULT 0,
    device_nanos       BIGINT NOT NULL DEFAULT 0,
    -- Bootstraps for the quota of the day. A job that a worker had counts in full, however it ended.
    quota_bootstraps   BIGINT NOT NULL DEFAULT 0,
    -- KiB times seconds. A sum of bytes would not fit.
    stored_kib_seconds BIGINT NOT NULL DEFAULT 0,
    key_seconds        BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, day)
) WITHOUT ROWID;
CREATE INDEX usage_by_day ON usage_days (day);

CREATE TRIGGER usage_day_of_ended_job AFTER UPDATE OF ended_micros ON jobs
WHEN OLD.ended_micros IS NULL AND NEW.ended_micros IS NOT NULL BEGIN
    INSERT INTO usage_days (tenant, day, jobs, unsuccessful_jobs, bootstraps, device_nanos, quota_bootstraps)
    VALUES (NEW.tenant, NEW.ended_micros / 86400000000, 1, NEW.state <> 3, COALESCE(NEW.done_bootstraps, 0),
        COALESCE(NEW.device_nanos, 0), CASE WHEN NEW.state = 3 OR NEW.epoch > 0 THEN NEW.pbs_count ELSE 0 END)
    ON CONFLICT (tenant, day) DO UPDATE SET jobs = jobs + 1, unsuccessful_jobs = unsuccessful_jobs + excluded.unsuccessful_jobs,
        bootstraps = MIN(bootstraps + excluded.bootstraps, 9000000000000000000),
        device_nanos = MIN(device_nanos + excluded.device_nanos, 9000000000000000000),
        quota_bootstraps = MIN(quota_bootstraps + excluded.quota_bootstraps, 9000000000000000000);
END;
-- A job may be stored and end in one transaction, which inserts the row with its end.
CREATE TRIGGER usage_day_of_added_job AFTER INSERT ON jobs WHEN NEW.ended_micros IS NOT NULL BEGIN
    INSERT INTO usage_days (tenant, day, jobs, unsuccessful_jobs, bootstraps, device_nanos, quota_bootstraps)
    VALUES (NEW.tenant, NEW.ended_micros / 86400000000, 1, NEW.state <> 3, COALESCE(NEW.done_bootstraps, 0),
        COALESCE(NEW.device_nanos, 0), CASE WHEN NEW.state = 3 OR NEW.epoch > 0 THEN NEW.pbs_count ELSE 0 END)
    ON CONFLICT (tenant, day) DO UPDATE SET jobs = jobs + 1, unsuccessful_jobs = unsuccessful_jobs + excluded.unsuccessful_jobs,
        bootstraps = MIN(bootstraps + excluded.bootstraps, 9000000000000000000),
        device_nanos = MIN(device_nanos + excluded.device_nanos, 9000000000000000000),
        quota_bootstraps = MIN(quota_bootstraps + excluded.quota_bootstraps, 9000000000000000000);
END;

-- Limits of single tenants, in place of those of the server.
CREATE TABLE tenant_limits (
    tenant TEXT NOT NULL,
    name   TEXT NOT NULL,
    value  BIGINT NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

-- Workers that the operator drained. A worker has a new identifier after each start.
CREATE TABLE drained_workers (
    id             BLOB NOT NULL PRIMARY KEY,
    drained_micros BIGINT NOT NULL
) WITHOUT ROWID;

-- Acts of operators, and refused calls.
CREATE TABLE audit_entries (
    -- Grows with the time.
    id         BLOB NOT NULL PRIMARY KEY,
    at_micros  BIGINT NOT NULL,
    actor      TEXT NOT NULL,
    act        TEXT NOT NULL,
    subject    TEXT NOT NULL,
    detail     TEXT NOT NULL,
    -- Number of equal refusals, or 0 for an act of an operator.
    refusals   BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX audit_by_time ON audit_entries (at_micros);
