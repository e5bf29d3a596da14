#!/usr/bin/env bash
# Makes the secrets that the Compose files name, in deploy/compose/secrets: random passwords, and
# with --certificates those of scaled.yaml, from `cloakwork-server dev-certs`. Existing files stay.
#
# usage: deploy/compose/secrets.sh [--certificates]
#
# Users of containers differ from the user of this machine. So all users may read each file, in a
# directory that its owner alone can enter. Needs openssl, and Docker for --certificates. Without
# Docker, CLOAKWORK_SERVER_PROGRAM names a cloakwork-server of this machine.
set -euo pipefail
cd "$(dirname "$0")"
umask 077
mkdir -p secrets
chmod 700 secrets

# Writes standard input to a file, unless the file exists.
keep() {
    cat >"secrets/$1.new"
    if [ ! -e "secrets/$1" ]; then
        chmod 644 "secrets/$1.new"
        mv "secrets/$1.new" "secrets/$1"
    else
        rm "secrets/$1.new"
    fi
}

for name in grafana postgres replication database s3; do
    openssl rand -hex 24 | tr -d '\n' | keep "$name-password"
done
printf cloakwork | keep s3-user
printf '[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n' \
    "$(cat secrets/s3-user)" "$(cat secrets/s3-password)" | keep s3-credentials

if [ "${1:-}" = --certificates ] && [ ! -d secrets/certs ]; then
    rm -rf secrets/certs.new
    mkdir secrets/certs.new
    names=(--name server-a --name server-b --name server-c)
    if [ -n "${CLOAKWORK_SERVER_PROGRAM:-}" ]; then
        "$CLOAKWORK_SERVER_PROGRAM" dev-certs --out secrets/certs.new "${names[@]}" >/dev/null
    else
        docker run --rm --network none --user "$(id -u):$(id -g)" --volume "$PWD/secrets/certs.new:/certs" \
            "${CLOAKWORK_IMAGE:-cloakwork:0.1.0}" dev-certs --out /certs "${names[@]}" >/dev/null
    fi
    # No container needs the authority's key.
    chmod 644 secrets/certs.new/{ca,server,worker}.pem secrets/certs.new/{server,worker}.key
    chmod 755 secrets/certs.new
    mv secrets/certs.new secrets/certs
fi
