-- Version 6: a job that was stored together with its end. A trigger counts it.
INSERT INTO programs (tenant, digest, bytes, registered, created_micros) VALUES
    ('gone', X'3333333333333333333333333333333333333333333333333333333333333333', X'0E', 0, 1700000015000000);

INSERT INTO jobs (id, tenant, request_id, request_digest, state, program, key_id, parameter_set, row_count, pbs_count,
    priority, inline_outputs, keep_outputs_micros, created_micros, deadline_micros, ended_micros,
    outputs_expire_micros, attempts, epoch, worker, suspect, solo_crashes, reason, message, latency) VALUES
    (X'01890000000070008000000000000005', 'gone', X'A0000000000000000000000000000005',
     X'5555555555555555555555555555555555555555555555555555555555555559', 5,
     X'3333333333333333333333333333333333333333333333333333333333333333', X'66666666666666666666666666666666', 2,
     1, 1, 0, 1, 86400000000, 1700000016000000, 1900000000000000, 1700000017000000, NULL, 1, 1,
     NULL, NULL, 0, 'JOB_CANCELLED', 'the job was cancelled', NULL);
