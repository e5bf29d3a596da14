-- See migrations/sqlite.
CREATE TABLE received_days (
    tenant TEXT COLLATE "C" NOT NULL,
    day    BIGINT NOT NULL,
    bytes  BIGINT NOT NULL,
    PRIMARY KEY (tenant, day)
);
CREATE INDEX received_by_day ON received_days (day);
