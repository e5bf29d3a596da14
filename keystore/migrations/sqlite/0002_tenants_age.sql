-- Eviction asks for the oldest blobs of one tenant.
DROP INDEX blobs_by_age;
CREATE INDEX blobs_by_age ON blobs (tenant, is_key, touched_ms);
