#!/usr/bin/env bash
# Compiles the tools below src/ and runs one of them: `run.sh TOOL ARGUMENT...`. The tools are:
# - `render` writes the boards as JSON.
# - `checks/main` checks the boards without a server.
# - `queries/main` asks a Prometheus every query of every panel.
# - `pictures/main` draws each board from the answers of a Prometheus.
# - `format` formats the source with prettier, and `format --check` checks the format.
#
# The head of each tool's source names its arguments.
#
# Needs Node.js 18 or later, and npm. The packages of package-lock.json go into a cache outside the
# clone. If a program or a package is missing, the script fails where `CI` is `true`, and prints a
# loud message and exits with 9 elsewhere.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

give_up() {
    if [ "${CI:-}" = true ]; then
        echo "$1: the boards cannot be checked" >&2
        exit 1
    fi
    echo "*** SKIPPED: $1: the boards were not checked ***" >&2
    exit 9
}

command -v node >/dev/null || give_up "Node.js is missing"
command -v npm >/dev/null || give_up "npm is missing"
node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' || give_up "Node.js 18 or later is missing"

lock=$(cat "$here/package.json" "$here/package-lock.json" | sha256sum | cut -c 1-16)
cache="${CLOAKWORK_CACHE:-$HOME/.cache/cloakwork}/grafana"
home="$cache/$lock"
work=
fresh=
trap 'rm -rf "$work" "$fresh"' EXIT

if [ ! -d "$home/node_modules" ]; then
    mkdir -p "$cache"
    # Install next to the target and rename, so that no other process finds a partial installation.
    fresh=$(mktemp -d "$cache/fresh.XXXXXX")
    cp "$here/package.json" "$here/package-lock.json" "$fresh/"
    npm ci --silent --no-audit --no-fund --ignore-scripts --prefix "$fresh" ||
        give_up "the packages of package-lock.json cannot be installed"
    # Another process may have installed them first; its copy is equivalent.
    mv -T "$fresh" "$home" 2>/dev/null || [ -d "$home/node_modules" ]
fi

tool=$1
shift
if [ "$tool" = format ]; then
    "$home/node_modules/.bin/prettier" --log-level warn "${1:---write}" "$here/src"
    exit
fi

# Compiled files lie beside the packages, where Node.js finds these.
work=$(mktemp -d "$home/run.XXXXXX")
cp -r "$here/src" "$here/tsconfig.json" "$here/package.json" "$work/"
"$home/node_modules/.bin/tsc" --project "$work" --outDir "$work/out"
node "$work/out/$tool.js" "$@"
