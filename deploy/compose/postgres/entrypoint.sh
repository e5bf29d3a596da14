#!/usr/bin/env bash
# Stands for the entry point of PostgreSQL's image where the trial runs without Docker. Makes a new
# database, and runs the scripts in /docker-entrypoint-initdb.d on a server that nobody reaches.
# Then starts the server. Compose files do not use this script.
set -euo pipefail

if [ ! -s "$PGDATA/PG_VERSION" ]; then
    chmod 700 "$PGDATA"
    read -ra options <<<"${POSTGRES_INITDB_ARGS:-}"
    initdb --username=postgres --pwfile="$POSTGRES_PASSWORD_FILE" --auth-local=trust --no-sync \
        "${options[@]}" "$PGDATA" >/dev/null
    pg_ctl --pgdata="$PGDATA" --options="-c listen_addresses=" --wait --silent start
    for script in /docker-entrypoint-initdb.d/*.sh; do
        bash "$script"
    done
    pg_ctl --pgdata="$PGDATA" --mode=fast --wait --silent stop
    echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
fi
exec "$@" -c listen_addresses='*'
