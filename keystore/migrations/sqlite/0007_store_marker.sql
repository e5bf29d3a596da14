-- The random number that the store of blobs holds too, in its marker. A server refuses a store with
-- another number: it would remove the blobs of another database. The table has at most one row.
CREATE TABLE store_marker (
    number    BLOB NOT NULL PRIMARY KEY,
    -- Whether the store is known to have the marker.
    is_placed INTEGER NOT NULL
) WITHOUT ROWID;
