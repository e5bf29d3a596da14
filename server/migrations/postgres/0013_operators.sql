-- See migrations/sqlite.
ALTER TABLE jobs ADD COLUMN done_bootstraps BIGINT;
ALTER TABLE jobs ADD COLUMN device_nanos BIGINT;

CREATE TABLE usage_days (
    tenant             TEXT COLLATE "C" NOT NULL,
    day                BIGINT NOT NULL,
    jobs               BIGINT NOT NULL DEFAULT 0,
    unsuccessful_jobs  BIGINT NOT NULL DEFAULT 0,
    bootstraps         BIGINT NOT NULL DEFAULT 0,
    device_nanos       BIGINT NOT NULL DEFAULT 0,
    quota_bootstraps   BIGINT NOT NULL DEFAULT 0,
    stored_kib_seconds BIGINT NOT NULL DEFAULT 0,
    key_seconds        BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, day)
) WITH (fillfactor = 50);
CREATE INDEX usage_by_day ON usage_days (day);

CREATE OR REPLACE FUNCTION usage_jobs_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH ended AS (SELECT * FROM new_rows WHERE ended_micros IS NOT NULL),
    counted AS (
        UPDATE tenant_usage SET ended_jobs = ended_jobs + sums.jobs
        FROM (SELECT tenant, COUNT(*) AS jobs FROM ended GROUP BY tenant) AS sums
        WHERE tenant_usage.tenant = sums.tenant)
    INSERT INTO usage_days (tenant, day, jobs, unsuccessful_jobs, bootstraps, device_nanos, quota_bootstraps)
    SELECT tenant, ended_micros / 86400000000, COUNT(*), COUNT(*) FILTER (WHERE state <> 3),
        LEAST(SUM(COALESCE(done_bootstraps, 0)), 4000000000000000000),
        LEAST(SUM(COALESCE(device_nanos, 0)), 4000000000000000000),
        LEAST(SUM(CASE WHEN state = 3 OR epoch > 0 THEN pbs_count ELSE 0 END), 4000000000000000000)
    FROM ended GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (tenant, day) DO UPDATE SET jobs = usage_days.jobs + excluded.jobs,
        unsuccessful_jobs = usage_days.unsuccessful_jobs + excluded.unsuccessful_jobs,
        bootstraps = LEAST(usage_days.bootstraps, 4000000000000000000) + excluded.bootstraps,
        device_nanos = LEAST(usage_days.device_nanos, 4000000000000000000) + excluded.device_nanos,
        quota_bootstraps = LEAST(usage_days.quota_bootstraps, 4000000000000000000) + excluded.quota_bootstraps;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION usage_jobs_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH ended AS (SELECT new_rows.* FROM new_rows JOIN old_rows ON old_rows.id = new_rows.id
        WHERE old_rows.ended_micros IS NULL AND new_rows.ended_micros IS NOT NULL),
    counted AS (
        UPDATE tenant_usage SET ended_jobs = ended_jobs + sums.jobs
        FROM (SELECT tenant, COUNT(*) AS jobs FROM ended GROUP BY tenant) AS sums
        WHERE tenant_usage.tenant = sums.tenant)
    INSERT INTO usage_days (tenant, day, jobs, unsuccessful_jobs, bootstraps, device_nanos, quota_bootstraps)
    SELECT tenant, ended_micros / 86400000000, COUNT(*), COUNT(*) FILTER (WHERE state <> 3),
        LEAST(SUM(COALESCE(done_bootstraps, 0)), 4000000000000000000),
        LEAST(SUM(COALESCE(device_nanos, 0)), 4000000000000000000),
        LEAST(SUM(CASE WHEN state = 3 OR epoch > 0 THEN pbs_count ELSE 0 END), 4000000000000000000)
    FROM ended GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (tenant, day) DO UPDATE SET jobs = usage_days.jobs + excluded.jobs,
        unsuccessful_jobs = usage_days.unsuccessful_jobs + excluded.unsuccessful_jobs,
        bootstraps = LEAST(usage_days.bootstraps, 4000000000000000000) + excluded.bootstraps,
        device_nanos = LEAST(usage_days.device_nanos, 4000000000000000000) + excluded.device_nanos,
        quota_bootstraps = LEAST(usage_days.quota_bootstraps, 4000000000000000000) + excluded.quota_bootstraps;
    RETURN NULL;
END $$;

CREATE TABLE tenant_limits (
    tenant TEXT COLLATE "C" NOT NULL,
    name   TEXT COLLATE "C" NOT NULL,
    value  BIGINT NOT NULL,
    PRIMARY KEY (tenant, name)
);

CREATE TABLE drained_workers (
    id             BYTEA NOT NULL PRIMARY KEY,
    drained_micros BIGINT NOT NULL
);

CREATE TABLE audit_entries (
    id        BYTEA NOT NULL PRIMARY KEY,
    at_micros BIGINT NOT NULL,
    actor     TEXT COLLATE "C" NOT NULL,
    act       TEXT COLLATE "C" NOT NULL,
    subject   TEXT COLLATE "C" NOT NULL,
    detail    TEXT COLLATE "C" NOT NULL,
    refusals  BIGINT NOT NULL
);
CREATE INDEX audit_by_time ON audit_entries (at_micros);
