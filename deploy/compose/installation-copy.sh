#!/bin/sh
# Makes installation/ of the other servers a copy of that of server a: servers with different keys
# refuse to share a database. Runs at each start, so that a rotated key gets to all servers. A file
# that server a has no longer, such as a forgotten key, is removed from them. Without any file at
# server a, nothing is removed. Needs root, who gives the copies to the servers' user.
set -eu

source=/servers/a/data/installation
for key in "$source"/*; do
    [ -f "$key" ] || { echo "$source has no key" >&2; exit 1; }
done
for server in b c; do
    data=/servers/$server/data
    mkdir -p "$data/installation"
    for key in "$source"/*; do
        cp "$key" "$data/installation/"
        chmod 600 "$data/installation/${key##*/}"
        chown 65532:65532 "$data/installation/${key##*/}"
    done
    for copy in "$data/installation"/*; do
        [ -f "$source/${copy##*/}" ] || rm -f "$copy"
    done
    for name in "/servers/$server" "$data" "$data/installation"; do
        chmod 700 "$name"
        chown 65532:65532 "$name"
    done
done
