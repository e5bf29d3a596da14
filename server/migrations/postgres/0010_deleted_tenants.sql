-- See migrations/sqlite.
ALTER TABLE tenants ADD COLUMN deleting_micros BIGINT;
