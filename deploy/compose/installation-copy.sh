#!/bin/sh
# Copies the installation's key from the data of server a to that of the other servers, which
# otherwise refuse to share its database. Runs at each start, so that a rotated key gets to all
# servers. Needs root, who gives the copies to the servers' user.
set -eu

for server in b c; do
    data=/servers/$server/data
    mkdir -p "$data/installation"
    for key in /servers/a/data/installation/*; do
        cp "$key" "$data/installation/"
        chmod 600 "$data/installation/${key##*/}"
        chown 65532:65532 "$data/installation/${key##*/}"
    done
    for name in "/servers/$server" "$data" "$data/installation"; do
        chmod 700 "$name"
        chown 65532:65532 "$name"
    done
done
