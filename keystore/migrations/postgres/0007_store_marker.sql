-- See migrations/sqlite.
CREATE TABLE store_marker (
    number    BYTEA NOT NULL PRIMARY KEY,
    is_placed INTEGER NOT NULL
);
