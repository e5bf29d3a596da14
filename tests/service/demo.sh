#!/usr/bin/env bash
# The whole service once: builds server and command line, starts a server as it is without any configuration, but in a
# directory and on ports of its own, and runs `cloakwork demo` against it. Arguments go to that command. Whatever
# happens, nothing is left behind.
#
# With DEMO_SERVER and DEMO_CLIENT it takes these programs and builds none.
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ -z "${DEMO_SERVER:-}" ] || [ -z "${DEMO_CLIENT:-}" ]; then
    cargo build --release -p cloakwork-server -p cloakwork
    target=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
    DEMO_SERVER=$target/release/cloakwork-server
    DEMO_CLIENT=$target/release/cloakwork
fi

directory=$(mktemp -d)
server=
cleanup() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null && wait "$server" || true
    fi
    rm -rf "$directory"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# What this shell has set for other servers is not for this one.
for name in ${!CLOAKWORK_@}; do
    unset "$name"
done
log=$directory/server.log
"$DEMO_SERVER" serve --data "$directory/data" --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 \
    2>"$log" &
server=$!

# The server's own word that it is ready names the port that it got.
address=
for _ in $(seq 600); do
    address=$(sed -n 's/.*the server is ready address=\([^ ]*\) .*/\1/p' "$log")
    [ -z "$address" ] || break
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
done
if [ -z "$address" ]; then
    echo "the server did not become ready:" >&2
    cat "$log" >&2
    exit 1
fi

# In the background, so that a signal to this script is heard at once.
"$DEMO_CLIENT" demo --server "http://$address" "$@" &
client=$!
trap 'kill "$client" 2>/dev/null; exit 130' INT
trap 'kill "$client" 2>/dev/null; exit 143' TERM
if ! wait "$client"; then
    echo "the server's log ends:" >&2
    tail -n 20 "$log" >&2
    exit 1
fi
