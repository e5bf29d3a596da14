#!/usr/bin/env bash
# Runs the whole service once. Builds server and command line, and starts a server with the default
# configuration, except for a directory and ports of its own. Then runs `cloakwork demo` against the
# server, with the arguments of this script. Leaves nothing behind, whatever happens.
#
# With DEMO_SERVER and DEMO_CLIENT, uses these programs and builds none.
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ -z "${DEMO_SERVER:-}" ] || [ -z "${DEMO_CLIENT:-}" ]; then
    cargo build --release -p cloakwork-server -p cloakwork
    target=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
    DEMO_SERVER=$target/release/cloakwork-server
    DEMO_CLIENT=$target/release/cloakwork
fi

directory=
server=
cleanup() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null && wait "$server" || true
    fi
    if [ -n "$directory" ]; then
        rm -rf "$directory"
    fi
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# A signal that comes before the traps would leave the directory behind.
directory=$(mktemp -d)

# Variables that this shell has set for other servers must not reach this server.
for name in ${!CLOAKWORK_@}; do
    unset "$name"
done
log=$directory/server.log
# The loop below may read the file before the server's shell has made it.
: >"$log"
"$DEMO_SERVER" serve --data "$directory/data" --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 \
    2>"$log" &
server=$!

# The server's log line that reports readiness contains its port.
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

# The client runs in the background, so that the script handles a signal at once.
"$DEMO_CLIENT" demo --server "http://$address" "$@" &
client=$!
trap 'kill "$client" 2>/dev/null; exit 130' INT
trap 'kill "$client" 2>/dev/null; exit 143' TERM
if ! wait "$client"; then
    echo "the server's log ends:" >&2
    tail -n 20 "$log" >&2
    exit 1
fi
