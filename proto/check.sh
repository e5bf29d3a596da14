#!/usr/bin/env bash
# Lints the protocol and compares it with the last release. `proto/check.sh release` makes the
# current state the baseline of the comparison. Run it when a version is tagged, and never to
# silence the comparison.
#
# buf comes from npm, into a cache outside the clone. If npm is missing or the package cannot be
# installed, the script fails in CI, and prints a prominent notice elsewhere.
set -euo pipefail
cd "$(dirname "$0")"

version=1.75.0
cache="${CLOAKWORK_CACHE:-$HOME/.cache/cloakwork}/buf"
buf="$cache/$version/node_modules/.bin/buf"
export BUF_CACHE_DIR="$cache/cache"

give_up() {
    if [ "${CI:-}" = true ]; then
        echo "$1: the protocol cannot be checked" >&2
        exit 1
    fi
    echo "*** SKIPPED: $1: the protocol was not checked ***" >&2
    exit 0
}

install() {
    command -v npm >/dev/null || give_up "npm is missing"
    mkdir -p "$cache"
    # Install next to the target and rename, so that no other process finds a partial installation.
    fresh=$(mktemp -d "$cache/fresh.XXXXXX")
    trap 'rm -rf "$fresh"' EXIT
    npm install --silent --no-audit --no-fund --prefix "$fresh" "@bufbuild/buf@$version" ||
        give_up "@bufbuild/buf $version cannot be installed"
    # Another process may have installed it first; its copy is equivalent.
    mv -T "$fresh" "$cache/$version" 2>/dev/null || [ -x "$buf" ]
}

[ -x "$buf" ] || install
if [ "${1:-}" = release ]; then
    exec "$buf" build --exclude-source-info --output released.binpb
fi
"$buf" lint
"$buf" breaking --against released.binpb
