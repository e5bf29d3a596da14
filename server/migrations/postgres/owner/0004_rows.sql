-- How PostgreSQL keeps rows of jobs. A file has no such settings.

-- Ciphertexts do not compress, and an attempt takes longer than all else. Contents of up to 8 KB stay
-- in their rows.
ALTER TABLE job_inputs ALTER COLUMN bytes SET STORAGE EXTERNAL;
ALTER TABLE job_outputs ALTER COLUMN bytes SET STORAGE EXTERNAL;
ALTER TABLE job_inputs SET (toast_tuple_target = 8160);
ALTER TABLE job_outputs SET (toast_tuple_target = 8160);

-- The last change of a job needs no change of an index if its page has room for the new row.
ALTER TABLE jobs SET (fillfactor = 60);
