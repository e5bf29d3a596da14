-- See migrations/sqlite.
CREATE INDEX job_outputs_stored ON job_outputs (job) WHERE bytes IS NULL;
