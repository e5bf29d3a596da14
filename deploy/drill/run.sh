#!/usr/bin/env bash
# Runs a trial of the operator's side: `drill` has the six faults of docs/drill.md, and `alerts` has
# every alert of deploy/prometheus. README.md explains both. Further arguments go to the trial.
#
#   run.sh drill|alerts [ARGUMENTS]
#
# Needs root, because the data directories get file systems of their own. Needs Python 3.11,
# openssl, faketime, and the programs of the packages prometheus, prometheus-alertmanager and
# postgresql (version 15 or later). If one is missing, the script fails where `CI` is `true`, and
# prints a loud message elsewhere. BIN_DIR names a directory with cloakwork-server, cloakwork-worker
# and cloakwork; without it, cargo builds them. Leaves nothing behind.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

give_up() {
    if [ "${CI:-}" = true ]; then
        echo "$1: the alerts cannot be tried" >&2
        exit 1
    fi
    echo "*** SKIPPED: $1: the alerts were not tried ***" >&2
    exit 0
}

case ${1:-} in
    drill) program=drill.py ;;
    alerts) program=trial.py ;;
    *)
        echo "usage: run.sh drill|alerts [ARGUMENTS]" >&2
        exit 2
        ;;
esac
shift

[ "$(id -u)" = 0 ] || give_up "root is needed for file systems"
ls -d /usr/lib/postgresql/*/bin >/dev/null 2>&1 || give_up "PostgreSQL is missing"
ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 || give_up "faketime is missing"
command -v prometheus-alertmanager >/dev/null || command -v alertmanager >/dev/null || give_up "Alertmanager is missing"
for name in python3 openssl prometheus unshare; do
    command -v "$name" >/dev/null || give_up "$name is missing"
done
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || give_up "Python 3.11 is missing"

if [ -z "${BIN_DIR:-}" ]; then
    cargo build --release -p cloakwork-server -p cloakwork-worker -p cloakwork
    BIN_DIR=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release
fi
export BIN_DIR PYTHONDONTWRITEBYTECODE=1

# Variables for other servers must not reach these.
for name in ${!CLOAKWORK_@}; do
    unset "$name"
done

# In a mount namespace of its own, the file systems of the trial end with it.
exec unshare --mount --propagation private python3 "$here/$program" "$@"
