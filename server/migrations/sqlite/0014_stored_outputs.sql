-- Finds the outputs in the store of blobs. Without it, a takeover reads all outputs.
CREATE INDEX job_outputs_stored ON job_outputs (job) WHERE bytes IS NULL;
