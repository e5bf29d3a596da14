-- 1 where a worker hands in a job's result, 0 where a client uploads. Clients list and abort only
-- uploads of clients, and only these count against the number that a tenant may have open. Open rows
-- of earlier versions count as uploads of clients.
ALTER TABLE uploads ADD COLUMN result INTEGER NOT NULL DEFAULT 0;
