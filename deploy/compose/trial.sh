#!/usr/bin/env bash
# Runs the Compose projects without Docker: the programs in the file system of the image, and real
# PostgreSQL, MinIO, Prometheus and Alertmanager, each in namespaces of its own. A part of
# `make test-all`. Takes minutes, and longer the first time, when MinIO is built.
#
# BIN_DIR names built programs; without it, deploy/dist.sh builds them. Needs root, Linux with
# overlay mounts, ip, curl, Go 1.24, Python 3.11, PostgreSQL 15, Prometheus and Alertmanager.
set -euo pipefail
cd "$(dirname "$0")"

minio_version=v0.0.0-20260212201848-7aac2a2c5b7c
cache="${CLOAKWORK_CACHE:-$HOME/.cache/cloakwork}/compose"

give_up() {
    if [ "${CI:-}" = true ]; then
        echo "$1: the Compose projects cannot be tried" >&2
        exit 1
    fi
    echo "*** SKIPPED: $1: the Compose projects were not tried ***" >&2
    exit 0
}
[ "$(id -u)" = 0 ] || give_up "only root can make namespaces"
for tool in ip curl go openssl unshare nsenter prometheus prometheus-alertmanager; do
    command -v "$tool" >/dev/null || give_up "$tool is missing"
done
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || give_up "PostgreSQL is missing"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || give_up "Python 3.11 is missing"

parser=$(./parser.sh)
minio="$cache/minio-$minio_version"
if [ ! -x "$minio" ]; then
    built=$(mktemp -d "$cache/built.XXXXXX")
    GOBIN="$built" go install "github.com/minio/minio@$minio_version"
    mv "$built/minio" "$minio"
    rmdir "$built"
fi
if [ -z "${BIN_DIR:-}" ]; then
    ../dist.sh
    BIN_DIR=../../target/dist
fi

root=$(mktemp -d)
finish() {
    status=$?
    if [ $status != 0 ]; then
        tail -n 20 "$root"/*/*.log >&2 || true
    fi
    rm -rf --one-file-system "$root"
    exit $status
}
trap finish EXIT
chmod 755 "$root"
cp -r ../compose ../prometheus ../grafana "$root/"
rm -rf "$root/compose/secrets"
CLOAKWORK_SERVER_PROGRAM=$(realpath "$BIN_DIR/cloakwork-server") "$root/compose/secrets.sh" --certificates
../docker/rootfs.sh "$BIN_DIR" "$root/image"
python3 trial.py "$root" "$root/image" "$parser" "$minio"
