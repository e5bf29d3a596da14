-- How many request ids each tenant has, kept by triggers so that nothing has to count.
CREATE TABLE request_counts (
    tenant   TEXT   NOT NULL PRIMARY KEY,
    requests BIGINT NOT NULL
);
INSERT INTO request_counts (tenant, requests) SELECT tenant, COUNT(*) FROM requests GROUP BY tenant;

CREATE TRIGGER requests_come AFTER INSERT ON requests BEGIN
    INSERT INTO request_counts (tenant, requests) VALUES (new.tenant, 1)
    ON CONFLICT (tenant) DO UPDATE SET requests = requests + 1;
END;

CREATE TRIGGER requests_go AFTER DELETE ON requests BEGIN
    UPDATE request_counts SET requests = requests - 1 WHERE tenant = old.tenant;
END;

-- What is removed by its age is found by it.
CREATE INDEX requests_by_age ON requests (created_ms);
CREATE INDEX requests_of_tenant_by_age ON requests (tenant, created_ms);
CREATE INDEX uploads_by_end ON uploads (expires_ms);
DROP INDEX uploads_by_tenant;
CREATE INDEX uploads_open ON uploads (tenant, expires_ms) WHERE complete = 0;
CREATE INDEX pins_by_end ON pins (until_ms) WHERE until_ms IS NOT NULL;
