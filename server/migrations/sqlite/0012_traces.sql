-- The kind of the program's operations, for metrics. Null in jobs of earlier servers.
ALTER TABLE jobs ADD COLUMN operation TEXT;
-- The identifiers of the job's trace and of its span, if the trace is sampled.
ALTER TABLE jobs ADD COLUMN trace BLOB;
