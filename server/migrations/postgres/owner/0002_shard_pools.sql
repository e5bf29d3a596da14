-- The load of each shard that has an owner, by pool of workers. The owner replaces its rows all the
-- time. Rows that are old are those of an owner that is gone.
CREATE TABLE shard_pools (
    shard          INTEGER NOT NULL,
    pool           TEXT COLLATE "C" NOT NULL,
    workers        INTEGER NOT NULL,
    -- Time that one worker would take for the work that is left.
    backlog_millis BIGINT NOT NULL,
    -- How long the shard has had workers; without workers, how long it has had work.
    term_millis    BIGINT NOT NULL,
    written_micros BIGINT NOT NULL,
    PRIMARY KEY (shard, pool)
);
