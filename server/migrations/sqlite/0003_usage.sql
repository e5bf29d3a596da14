-- What each tenant keeps in this database: the bytes of its programs and of the inputs and outputs that lie in rows, and
-- the number of its jobs that have ended. Triggers keep the sums in the transactions that change what is summed, so that
-- they cannot drift and nobody has to scan.
CREATE TABLE tenant_usage (
    tenant TEXT NOT NULL PRIMARY KEY,
    inline_bytes BIGINT NOT NULL,
    ended_jobs BIGINT NOT NULL
);

INSERT INTO tenant_usage (tenant, inline_bytes, ended_jobs)
SELECT tenant, SUM(bytes), SUM(ended) FROM (
    SELECT tenant, LENGTH(bytes) AS bytes, 0 AS ended FROM programs
    UNION ALL
    SELECT jobs.tenant, LENGTH(job_inputs.bytes), 0 FROM job_inputs JOIN jobs ON jobs.id = job_inputs.job
    WHERE job_inputs.bytes IS NOT NULL
    UNION ALL
    SELECT jobs.tenant, LENGTH(job_outputs.bytes), 0 FROM job_outputs JOIN jobs ON jobs.id = job_outputs.job
    WHERE job_outputs.bytes IS NOT NULL
    UNION ALL
    SELECT tenant, 0, 1 FROM jobs WHERE ended_micros IS NOT NULL
) AS parts GROUP BY tenant;

CREATE TRIGGER usage_program_added AFTER INSERT ON programs BEGIN
    INSERT INTO tenant_usage (tenant, inline_bytes, ended_jobs) VALUES (NEW.tenant, LENGTH(NEW.bytes), 0)
    ON CONFLICT (tenant) DO UPDATE SET inline_bytes = inline_bytes + LENGTH(NEW.bytes);
END;
CREATE TRIGGER usage_program_gone AFTER DELETE ON programs BEGIN
    UPDATE tenant_usage SET inline_bytes = inline_bytes - LENGTH(OLD.bytes) WHERE tenant = OLD.tenant;
END;

-- A job's program is stored before it, so that its tenant has a row.
CREATE TRIGGER usage_input_added AFTER INSERT ON job_inputs WHEN NEW.bytes IS NOT NULL BEGIN
    UPDATE tenant_usage SET inline_bytes = inline_bytes + LENGTH(NEW.bytes)
    WHERE tenant = (SELECT tenant FROM jobs WHERE id = NEW.job);
END;
CREATE TRIGGER usage_input_gone AFTER DELETE ON job_inputs WHEN OLD.bytes IS NOT NULL BEGIN
    UPDATE tenant_usage SET inline_bytes = inline_bytes - LENGTH(OLD.bytes)
    WHERE tenant = (SELECT tenant FROM jobs WHERE id = OLD.job);
END;
CREATE TRIGGER usage_output_added AFTER INSERT ON job_outputs WHEN NEW.bytes IS NOT NULL BEGIN
    UPDATE tenant_usage SET inline_bytes = inline_bytes + LENGTH(NEW.bytes)
    WHERE tenant = (SELECT tenant FROM jobs WHERE id = NEW.job);
END;
CREATE TRIGGER usage_output_gone AFTER DELETE ON job_outputs WHEN OLD.bytes IS NOT NULL BEGIN
    UPDATE tenant_usage SET inline_bytes = inline_bytes - LENGTH(OLD.bytes)
    WHERE tenant = (SELECT tenant FROM jobs WHERE id = OLD.job);
END;

CREATE TRIGGER usage_job_ended AFTER UPDATE OF ended_micros ON jobs
WHEN OLD.ended_micros IS NULL AND NEW.ended_micros IS NOT NULL BEGIN
    UPDATE tenant_usage SET ended_jobs = ended_jobs + 1 WHERE tenant = NEW.tenant;
END;
CREATE TRIGGER usage_job_gone AFTER DELETE ON jobs WHEN OLD.ended_micros IS NOT NULL BEGIN
    UPDATE tenant_usage SET ended_jobs = ended_jobs - 1 WHERE tenant = OLD.tenant;
END;
