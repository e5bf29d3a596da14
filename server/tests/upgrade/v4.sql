-- Version 4: an output that its client has read to the end.
UPDATE job_outputs SET done = 1 WHERE job = X'01890000000070008000000000000003' AND place = 0;
