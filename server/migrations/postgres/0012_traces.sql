-- See migrations/sqlite.
ALTER TABLE jobs ADD COLUMN operation TEXT;
ALTER TABLE jobs ADD COLUMN trace BYTEA;
