-- Version 1: tenants and tokens, current, expired and revoked.
INSERT INTO tenants (name, created_ms, revoked_ms) VALUES
    ('acme', 1700000000000, NULL),
    ('gone', 1700000001000, 1700000002000);

INSERT INTO tokens (id, tenant, hash, scopes, note, created_ms, expires_ms, revoked_ms, last_used_ms) VALUES
    ('0123456789ab', 'acme', X'1111111111111111111111111111111111111111111111111111111111111111',
     'jobs,keys,read', 'nightly batch', 1700000003000, 1900000000000, NULL, 1700000004000),
    ('ba9876543210', 'gone', X'2222222222222222222222222222222222222222222222222222222222222222',
     'worker', '', 1700000005000, NULL, 1700000006000, NULL);
