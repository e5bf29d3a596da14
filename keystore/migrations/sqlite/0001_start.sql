-- Times are milliseconds since 1970. Digests, key ids and holders are raw bytes.

-- What each tenant has. `damaged` blobs are as good as missing until they are uploaded again.
CREATE TABLE blobs (
    tenant          TEXT    NOT NULL,
    digest          BLOB    NOT NULL,
    size_bytes      BIGINT  NOT NULL,
    kind            INTEGER NOT NULL,
    set_id          INTEGER NOT NULL,
    key_id          BLOB    NOT NULL,
    count           BIGINT  NOT NULL,
    degree_max      BIGINT  NOT NULL,
    noise_level_max BIGINT  NOT NULL,
    is_key          INTEGER NOT NULL,
    damaged         INTEGER NOT NULL,
    created_ms      BIGINT  NOT NULL,
    touched_ms      BIGINT  NOT NULL,
    keep_until_ms   BIGINT  NOT NULL,
    PRIMARY KEY (tenant, digest)
);
CREATE INDEX blobs_by_age ON blobs (is_key, touched_ms);

-- One upload for each blob of a tenant. The committed offset is the length of the staged file, not a column.
CREATE TABLE uploads (
    id         TEXT    NOT NULL PRIMARY KEY,
    tenant     TEXT    NOT NULL,
    digest     BLOB    NOT NULL,
    size_bytes BIGINT  NOT NULL,
    complete   INTEGER NOT NULL,
    expires_ms BIGINT  NOT NULL
);
CREATE INDEX uploads_by_tenant ON uploads (tenant, complete);

-- What each request id was used for.
CREATE TABLE requests (
    tenant     TEXT   NOT NULL,
    request_id BLOB   NOT NULL,
    content    BLOB   NOT NULL,
    created_ms BIGINT NOT NULL,
    PRIMARY KEY (tenant, request_id)
);

-- Who needs a blob, and until when; without an end where `until_ms` is null.
CREATE TABLE pins (
    tenant   TEXT   NOT NULL,
    digest   BLOB   NOT NULL,
    holder   BLOB   NOT NULL,
    until_ms BIGINT,
    PRIMARY KEY (tenant, digest, holder)
);
CREATE INDEX pins_by_holder ON pins (holder);

CREATE TABLE keys (
    tenant     TEXT    NOT NULL,
    key_id     BLOB    NOT NULL,
    deleting   INTEGER NOT NULL,
    created_ms BIGINT  NOT NULL,
    PRIMARY KEY (tenant, key_id)
);

CREATE TABLE key_parts (
    tenant TEXT NOT NULL,
    key_id BLOB NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (tenant, digest)
);
CREATE INDEX key_parts_by_key ON key_parts (tenant, key_id);

-- Sums over `blobs`, kept in the same transactions so that nothing has to scan: the tenant's bytes of all kinds,
-- and of those the ones that may be evicted.
CREATE TABLE usage (
    tenant           TEXT   NOT NULL PRIMARY KEY,
    blob_bytes       BIGINT NOT NULL,
    ciphertext_bytes BIGINT NOT NULL
);
