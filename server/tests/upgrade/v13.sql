-- Version 13: usage by day, limits of single tenants, drained workers and the audit log.
INSERT INTO usage_days (tenant, day, jobs, unsuccessful_jobs, bootstraps, device_nanos, quota_bootstraps, stored_kib_seconds, key_seconds)
VALUES ('acme', 20600, 2, 1, 8, 9000, 8, 70, 60);
INSERT INTO tenant_limits (tenant, name, value) VALUES ('acme', 'tenant_keys', 7);
INSERT INTO drained_workers (id, drained_micros) VALUES (X'01890000000070008000000000000001', 1780000000000000);
INSERT INTO audit_entries (id, at_micros, actor, act, subject, detail, refusals)
VALUES (X'01890000000070008000000000000002', 1780000000000000, 'command line', 'create tenant', 'tenants/acme', 'shard 0', 0);
