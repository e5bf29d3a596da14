-- What the scheduler counts a job by. Where it is absent, the job is from before it was stored, and it follows from the rest.
ALTER TABLE jobs ADD COLUMN cost BIGINT;
-- Digests and sizes of the parts of the key that a job on vectors reads: which they are, its program says.
ALTER TABLE jobs ADD COLUMN key_parts BLOB;
