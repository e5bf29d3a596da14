-- Version 11: workers inside servers name the shard whose jobs they computed.
UPDATE embedded_workers SET shard = 0;
