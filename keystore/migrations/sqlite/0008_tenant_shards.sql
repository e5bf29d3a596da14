-- Shards of tenants. A tenant without a row is in shard 0. A file has no other shard. The table
-- exists there too, so that both databases have the same queries.
CREATE TABLE tenant_shards (
    tenant       TEXT NOT NULL PRIMARY KEY,
    shard        INTEGER NOT NULL,
    -- The shard that the tenant is to move to, once it is idle.
    wanted       INTEGER,
    -- When the tenant got its shard, by the clock of the database.
    moved_micros INTEGER NOT NULL
) WITHOUT ROWID;
