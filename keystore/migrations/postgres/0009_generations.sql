-- See migrations/sqlite.
ALTER TABLE blobs ADD COLUMN generation BIGINT NOT NULL DEFAULT 0;
