-- See migrations/sqlite.
CREATE TABLE tenant_shards (
    tenant       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    shard        INTEGER NOT NULL,
    wanted       INTEGER,
    moved_micros BIGINT NOT NULL
);
