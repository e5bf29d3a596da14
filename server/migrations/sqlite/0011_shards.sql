-- The shard whose jobs the worker computed.
ALTER TABLE embedded_workers ADD COLUMN shard INTEGER NOT NULL DEFAULT 0;
