-- Times are microseconds since 1970, as everywhere in the database. The bound is the largest number of milliseconds that is
-- in range as microseconds: a larger product would become a number with a fraction.

ALTER TABLE blobs RENAME COLUMN created_ms TO created_micros;
ALTER TABLE blobs RENAME COLUMN touched_ms TO touched_micros;
ALTER TABLE blobs RENAME COLUMN keep_until_ms TO keep_until_micros;
UPDATE blobs SET created_micros = MIN(created_micros, 9223372036854775) * 1000,
    touched_micros = MIN(touched_micros, 9223372036854775) * 1000,
    keep_until_micros = MIN(keep_until_micros, 9223372036854775) * 1000;

ALTER TABLE uploads RENAME COLUMN expires_ms TO expires_micros;
UPDATE uploads SET expires_micros = MIN(expires_micros, 9223372036854775) * 1000;

ALTER TABLE requests RENAME COLUMN created_ms TO created_micros;
UPDATE requests SET created_micros = MIN(created_micros, 9223372036854775) * 1000;

ALTER TABLE pins RENAME COLUMN until_ms TO until_micros;
UPDATE pins SET until_micros = MIN(until_micros, 9223372036854775) * 1000;

ALTER TABLE keys RENAME COLUMN created_ms TO created_micros;
UPDATE keys SET created_micros = MIN(created_micros, 9223372036854775) * 1000;
