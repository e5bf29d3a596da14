-- Who may call. Times are milliseconds since 1970.
CREATE TABLE tenants (
    name TEXT NOT NULL PRIMARY KEY,
    created_ms INTEGER NOT NULL,
    revoked_ms INTEGER
);

CREATE TABLE tokens (
    -- The public part of the token, in hexadecimal.
    id TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL REFERENCES tenants (name),
    -- BLAKE3 of the whole token. The token itself is nowhere.
    hash BLOB NOT NULL,
    -- Names of scopes with commas between them.
    scopes TEXT NOT NULL,
    note TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    revoked_ms INTEGER,
    -- To within a few minutes: a hint for people who tidy up.
    last_used_ms INTEGER
);

CREATE INDEX tokens_by_tenant ON tokens (tenant);
