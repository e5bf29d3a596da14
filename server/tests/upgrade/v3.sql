-- Version 3: the storage usage of a tenant.
--
-- Triggers have added up the bytes above: 4 of programs, 4 of inputs, 2 of outputs. Two jobs were
-- inserted as ended. On a server, a job ends by a later update, and the triggers count these
-- updates.
UPDATE tenant_usage SET ended_jobs = 2 WHERE tenant = 'acme';
