-- From this version on, the database also holds the catalogue of blobs and keys. The catalogue has
-- migrations of its own. This version number keeps earlier programs, which expect the catalogue in
-- another file, from opening the database.

-- A job may be stored and end in one transaction, which inserts the row with its end.
CREATE TRIGGER usage_ended_job_added AFTER INSERT ON jobs WHEN NEW.ended_micros IS NOT NULL BEGIN
    UPDATE tenant_usage SET ended_jobs = ended_jobs + 1 WHERE tenant = NEW.tenant;
END;
