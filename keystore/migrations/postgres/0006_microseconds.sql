-- All tables of the catalogue. PostgreSQL came with version 6 of the schema, so there are no earlier
-- steps. Columns mean what migrations/sqlite says. Text sorts by bytes, as in SQLite.

CREATE TABLE blobs (
    tenant            TEXT COLLATE "C" NOT NULL,
    digest            BYTEA NOT NULL,
    size_bytes        BIGINT NOT NULL,
    kind              INTEGER NOT NULL,
    set_id            INTEGER NOT NULL,
    key_id            BYTEA NOT NULL,
    count             BIGINT NOT NULL,
    degree_max        BIGINT NOT NULL,
    noise_level_max   BIGINT NOT NULL,
    is_key            INTEGER NOT NULL,
    damaged           INTEGER NOT NULL,
    created_micros    BIGINT NOT NULL,
    touched_micros    BIGINT NOT NULL,
    keep_until_micros BIGINT NOT NULL,
    dimensions        BYTEA,
    PRIMARY KEY (tenant, digest)
);
CREATE INDEX blobs_by_age ON blobs (tenant, is_key, touched_micros);

CREATE TABLE uploads (
    id             TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    tenant         TEXT COLLATE "C" NOT NULL,
    digest         BYTEA NOT NULL,
    size_bytes     BIGINT NOT NULL,
    complete       INTEGER NOT NULL,
    expires_micros BIGINT NOT NULL,
    result         INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX uploads_by_end ON uploads (expires_micros);
CREATE INDEX uploads_open ON uploads (tenant, expires_micros) WHERE complete = 0;

CREATE TABLE requests (
    tenant         TEXT COLLATE "C" NOT NULL,
    request_id     BYTEA NOT NULL,
    content        BYTEA NOT NULL,
    created_micros BIGINT NOT NULL,
    PRIMARY KEY (tenant, request_id)
);
CREATE INDEX requests_by_age ON requests (created_micros);
CREATE INDEX requests_of_tenant_by_age ON requests (tenant, created_micros);

CREATE TABLE pins (
    tenant       TEXT COLLATE "C" NOT NULL,
    digest       BYTEA NOT NULL,
    holder       BYTEA NOT NULL,
    until_micros BIGINT,
    PRIMARY KEY (tenant, digest, holder)
);
CREATE INDEX pins_by_holder ON pins (holder);
CREATE INDEX pins_by_end ON pins (until_micros) WHERE until_micros IS NOT NULL;

CREATE TABLE keys (
    tenant         TEXT COLLATE "C" NOT NULL,
    key_id         BYTEA NOT NULL,
    deleting       INTEGER NOT NULL,
    created_micros BIGINT NOT NULL,
    PRIMARY KEY (tenant, key_id)
);

CREATE TABLE key_parts (
    tenant TEXT COLLATE "C" NOT NULL,
    key_id BYTEA NOT NULL,
    digest BYTEA NOT NULL,
    PRIMARY KEY (tenant, digest)
);
CREATE INDEX key_parts_by_key ON key_parts (tenant, key_id);

CREATE TABLE usage (
    tenant           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    blob_bytes       BIGINT NOT NULL,
    ciphertext_bytes BIGINT NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE request_counts (
    tenant   TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    requests BIGINT NOT NULL
) WITH (fillfactor = 50);

CREATE FUNCTION requests_come() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO request_counts (tenant, requests) SELECT tenant, COUNT(*) FROM new_rows GROUP BY tenant
    ON CONFLICT (tenant) DO UPDATE SET requests = request_counts.requests + excluded.requests;
    RETURN NULL;
END $$;
CREATE TRIGGER requests_come AFTER INSERT ON requests
REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION requests_come();

CREATE FUNCTION requests_go() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE request_counts SET requests = request_counts.requests - sums.requests
    FROM (SELECT tenant, COUNT(*) AS requests FROM old_rows GROUP BY tenant) AS sums
    WHERE request_counts.tenant = sums.tenant;
    RETURN NULL;
END $$;
CREATE TRIGGER requests_go AFTER DELETE ON requests
REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION requests_go();
