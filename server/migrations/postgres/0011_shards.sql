-- See migrations/sqlite.
ALTER TABLE embedded_workers ADD COLUMN shard INTEGER NOT NULL DEFAULT 0;
