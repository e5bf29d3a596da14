-- What a client has done with an output: 0 nothing, 1 read it to its end, 2 deleted it. When it has done with all of a
-- job's, the room is given back; rows stay until then, because an output's place is its name.
ALTER TABLE job_outputs ADD COLUMN done INTEGER NOT NULL DEFAULT 0;
