-- Version 8: the server marks a job that has outputs, when the job ends.
UPDATE jobs SET has_outputs = 1 WHERE id IN (SELECT job FROM job_outputs);
