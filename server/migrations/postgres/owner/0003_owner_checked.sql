-- The functions of the first version compare the epoch alone. A standby that takes over may lack a
-- takeover, and the next server then repeats its epoch. Servers of earlier versions still call those.

-- Fails unless this owner of this epoch still owns the shard.
CREATE FUNCTION cloakwork_check(of_shard INTEGER, of_epoch BIGINT, of_owner BYTEA) RETURNS VOID
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM shards WHERE shard = of_shard AND epoch = of_epoch AND owner = of_owner;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another server took over' USING ERRCODE = 'CW001';
    END IF;
END $$;

-- Counts a batch of this owner of this epoch. Fails if the shard has another owner, or another number
-- of batches than the owner knows.
CREATE FUNCTION cloakwork_advance(of_shard INTEGER, of_epoch BIGINT, of_owner BYTEA, known BIGINT) RETURNS VOID
    LANGUAGE plpgsql AS $$
BEGIN
    UPDATE shards SET seq = seq + 1
    WHERE shard = of_shard AND epoch = of_epoch AND owner = of_owner AND seq = known;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another server took over, or batches were lost' USING ERRCODE = 'CW001';
    END IF;
END $$;
