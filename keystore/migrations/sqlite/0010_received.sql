-- Bytes that each tenant's clients uploaded in each day (UTC): keys and ciphertexts.
CREATE TABLE received_days (
    tenant TEXT NOT NULL,
    -- Days since 1970.
    day    BIGINT NOT NULL,
    bytes  BIGINT NOT NULL,
    PRIMARY KEY (tenant, day)
) WITHOUT ROWID;
CREATE INDEX received_by_day ON received_days (day);
