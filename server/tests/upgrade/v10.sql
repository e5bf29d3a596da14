-- Version 10: tenants whose deletion was asked for. None of these is one of them.
UPDATE tenants SET deleting_micros = NULL;
