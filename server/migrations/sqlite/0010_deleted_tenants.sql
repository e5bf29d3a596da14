-- When the operator asked for the deletion of a tenant with everything that it has. The row goes
-- last.
ALTER TABLE tenants ADD COLUMN deleting_micros INTEGER;
