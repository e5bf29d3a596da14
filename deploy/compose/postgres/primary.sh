#!/usr/bin/env bash
# Makes the database of Cloakwork, its role, and the role of the standby. The image of PostgreSQL
# runs this script once, when its data directory is new, as the superuser POSTGRES_USER. Needs psql.
set -euo pipefail

secrets=${SECRETS:-/run/secrets}
psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --username="${POSTGRES_USER:-postgres}" --dbname=postgres \
    --set=database_password="$(cat "$secrets/database-password")" \
    --set=replication_password="$(cat "$secrets/replication-password")" <<'SQL'
CREATE ROLE cloakwork LOGIN PASSWORD :'database_password';
CREATE DATABASE cloakwork OWNER cloakwork ENCODING 'UTF8' TEMPLATE template0;
-- Lets the servers see the kind and the lag of standbys. Otherwise the alerts of both never fire.
GRANT pg_monitor TO cloakwork;
CREATE ROLE replicator LOGIN REPLICATION PASSWORD :'replication_password';
SELECT pg_create_physical_replication_slot('standby');
-- Holds from the next start on. No commit of this script waits for a standby that is not there yet.
ALTER SYSTEM SET synchronous_standby_names = 'standby';
SQL
echo 'host replication replicator all scram-sha-256' >>"$PGDATA/pg_hba.conf"
