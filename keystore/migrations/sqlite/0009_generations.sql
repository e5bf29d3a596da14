-- The object of a blob. Each commit of a blob writes an object of its own, so a removal that reaches
-- the store late removes no bytes that were committed since. Objects of earlier versions have 0.
ALTER TABLE blobs ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
