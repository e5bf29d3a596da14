-- Times of tenants and tokens are microseconds since 1970, as everywhere in the database. The
-- bound is the largest number of milliseconds that is in range as microseconds: a larger product
-- would become a number with a fraction.

ALTER TABLE tenants RENAME COLUMN created_ms TO created_micros;
ALTER TABLE tenants RENAME COLUMN revoked_ms TO revoked_micros;
UPDATE tenants SET created_micros = MIN(created_micros, 9223372036854775) * 1000,
    revoked_micros = MIN(revoked_micros, 9223372036854775) * 1000;

ALTER TABLE tokens RENAME COLUMN created_ms TO created_micros;
ALTER TABLE tokens RENAME COLUMN expires_ms TO expires_micros;
ALTER TABLE tokens RENAME COLUMN revoked_ms TO revoked_micros;
ALTER TABLE tokens RENAME COLUMN last_used_ms TO last_used_micros;
UPDATE tokens SET created_micros = MIN(created_micros, 9223372036854775) * 1000,
    expires_micros = MIN(expires_micros, 9223372036854775) * 1000,
    revoked_micros = MIN(revoked_micros, 9223372036854775) * 1000,
    last_used_micros = MIN(last_used_micros, 9223372036854775) * 1000;
