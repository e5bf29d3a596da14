#!/usr/bin/env bash
# Runs a synchronous standby of the database `postgres`. The first start copies the data. Needs the
# programs of PostgreSQL, and runs as the user postgres. To begin anew, remove the standby's volume.
set -euo pipefail
umask 077

secrets=${SECRETS:-/run/secrets}
primary=${PRIMARY:-postgres}
# A file, because other users can read arguments.
export PGPASSFILE=/tmp/replication.pgpass
printf '*:*:*:replicator:%s\n' "$(cat "$secrets/replication-password")" >"$PGPASSFILE"
if [ ! -e "$PGDATA/standby.signal" ]; then
    # The copy of an interrupted start is incomplete.
    find "$PGDATA" -mindepth 1 -delete
    chmod 700 "$PGDATA"
    pg_basebackup --host="$primary" --username=replicator --no-password --pgdata="$PGDATA" \
        --wal-method=stream --checkpoint=fast
    touch "$PGDATA/standby.signal"
fi
# Without this interval, a standby that was restarted takes five seconds to connect, and commits
# wait.
exec postgres -c wal_retrieve_retry_interval=500ms -c primary_slot_name=standby \
    -c "primary_conninfo=host=$primary user=replicator application_name=standby passfile=$PGPASSFILE"
