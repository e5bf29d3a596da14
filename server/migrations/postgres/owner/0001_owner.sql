-- Which server owns the database. Only PostgreSQL has these tables: a file has one server, which
-- locks its directory. All times are times of this database's clock, so the clocks of servers may
-- differ.

-- Servers that own a part of the database.
CREATE TABLE replicas (
    -- A number of one process, drawn at its start.
    id          BYTEA NOT NULL PRIMARY KEY,
    -- URL at which other servers reach this one.
    url         TEXT COLLATE "C" NOT NULL,
    beat_micros BIGINT NOT NULL
);

-- Parts of the database with an owner each. There is one part so far.
CREATE TABLE shards (
    shard INTEGER NOT NULL PRIMARY KEY,
    -- Number of owners so far.
    epoch BIGINT NOT NULL,
    -- Number of batches of all owners. An owner that knows of more batches than the database has
    -- notices that the database lost some.
    seq   BIGINT NOT NULL,
    -- The owner, or null after it has stopped.
    owner BYTEA
);
INSERT INTO shards (shard, epoch, seq, owner) VALUES (0, 0, 0, NULL);

-- The installation of the servers, after the first of them has started.
CREATE TABLE installation (
    -- Always 1: there is one installation.
    one    INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    -- Its public keys, as clients pin them.
    anchor TEXT COLLATE "C" NOT NULL
);

-- The code CW001 tells a server that another one took its place.

CREATE FUNCTION cloakwork_now_micros() RETURNS BIGINT LANGUAGE sql VOLATILE AS
    'SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)';

-- Reports that a server is alive.
CREATE FUNCTION cloakwork_beat(replica BYTEA) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    UPDATE replicas SET beat_micros = cloakwork_now_micros() WHERE id = replica;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another server took over' USING ERRCODE = 'CW001';
    END IF;
END $$;

-- Fails unless the owner of this epoch still owns the shard.
CREATE FUNCTION cloakwork_check(of_shard INTEGER, of_epoch BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM shards WHERE shard = of_shard AND epoch = of_epoch;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another server took over' USING ERRCODE = 'CW001';
    END IF;
END $$;

-- Counts a batch of the owner of this epoch. Fails if the shard has another owner, or another
-- number of batches than the owner knows.
CREATE FUNCTION cloakwork_advance(of_shard INTEGER, of_epoch BIGINT, known BIGINT) RETURNS VOID
    LANGUAGE plpgsql AS $$
BEGIN
    UPDATE shards SET seq = seq + 1 WHERE shard = of_shard AND epoch = of_epoch AND seq = known;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another server took over, or batches were lost' USING ERRCODE = 'CW001';
    END IF;
END $$;
