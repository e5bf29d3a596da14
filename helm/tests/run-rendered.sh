#!/usr/bin/env bash
# Runs the rendered chart with the real programs on loopback: the servers in both modes, the
# migration, workers, `helm test`, and the query that scales a pool from zero. Only paths of mounts,
# ports and names of hosts are replaced. No cluster is needed.
#
# Needs what helm/check.sh needs, PostgreSQL, and Prometheus. The mock of S3 comes from Python, into
# a cache outside the clone. If one of them is missing, the script fails where `CI` is `true`, and
# prints a loud message elsewhere. CLOAKWORK_BINS names a directory with the three programs; without
# it, they are built.
set -euo pipefail
cd "$(dirname "$0")/../.."

moto_version=5.2.5
moto="${CLOAKWORK_CACHE:-$HOME/.cache/cloakwork}/helm/moto-$moto_version"

give_up() {
    if [ "${CI:-}" = true ]; then
        echo "$1: the rendered chart cannot be run" >&2
        exit 1
    fi
    echo "*** SKIPPED: $1: the rendered chart was not run ***" >&2
    exit 0
}

paths=$(helm/check.sh --tools)
[ -n "$paths" ] || give_up "a tool of helm/check.sh is missing"
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || give_up "PostgreSQL is missing"
command -v prometheus >/dev/null || give_up "Prometheus is missing"
if ! [ -e "$moto/whole" ]; then
    mkdir -p "$(dirname "$moto")"
    python3 -m venv --clear "$moto"
    "$moto/bin/pip" install --quiet --disable-pip-version-check "moto[s3,server]==$moto_version" ||
        give_up "moto $moto_version cannot be installed"
    touch "$moto/whole"
fi
bins=${CLOAKWORK_BINS:-}
if [ -z "$bins" ]; then
    cargo build --release -p cloakwork-server -p cloakwork-worker -p cloakwork
    bins=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release
fi
# Variables of this shell for other servers must not reach this one.
for name in ${!CLOAKWORK_@}; do
    unset "$name"
done
export PATH="$paths:$moto/bin:$PATH" PYTHONDONTWRITEBYTECODE=1
if [ "$#" = 0 ]; then
    set -- embedded scaled autoscaled
fi
python3 helm/tests/run_rendered.py "$bins" "$@"
