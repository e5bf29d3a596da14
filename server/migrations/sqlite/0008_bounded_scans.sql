-- 1 while job_outputs has rows of the job. The indexes below find what expires or is forgotten
-- without a visit to any other job.
ALTER TABLE jobs ADD COLUMN has_outputs INTEGER NOT NULL DEFAULT 0;
UPDATE jobs SET has_outputs = 1 WHERE id IN (SELECT job FROM job_outputs);

-- Lists of a tenant's jobs in some states. Each change of a job's state now changes an index too.
CREATE INDEX jobs_by_state ON jobs (tenant, state, id);

-- Jobs whose outputs may have expired.
CREATE INDEX jobs_by_expiry ON jobs (outputs_expire_micros) WHERE has_outputs = 1;

-- Jobs that may be forgotten: by their age, and by the number of their tenant's jobs. The column
-- has_outputs is constant in jobs_spent. It is listed so that SQLite prefers this index to
-- jobs_by_tenant.
DROP INDEX jobs_by_end;
CREATE INDEX jobs_by_end ON jobs (ended_micros) WHERE ended_micros IS NOT NULL AND has_outputs = 0;
CREATE INDEX jobs_spent ON jobs (tenant, has_outputs, id)
    WHERE ended_micros IS NOT NULL AND has_outputs = 0;

-- Programs that are not registered, and go with the last job that carried them.
CREATE INDEX programs_carried ON programs (tenant, digest) WHERE registered = 0;
