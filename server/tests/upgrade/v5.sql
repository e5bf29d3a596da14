-- Version 5: what a job on vectors needs, which earlier rows leave empty.
UPDATE jobs SET cost = 12 WHERE id = X'01890000000070008000000000000002';
