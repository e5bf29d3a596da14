-- The worker's attestation of a job's outputs. Jobs of earlier versions have none.
ALTER TABLE jobs ADD COLUMN attestation BLOB;
