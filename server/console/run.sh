#!/usr/bin/env bash
# Runs one step for the console, in a copy of its sources beside the packages: `run.sh STEP`. The
# steps are:
# - `build DIRECTORY` builds the console into a directory.
# - `check` checks the format and the types, and runs the unit tests.
# - `browse DIRECTORY [NAME...]` runs the tests in Chromium, on a console that was built into a
#   directory: all of them, or the files with these names, such as `session`.
# - `mock DIRECTORY [PORT] [DATA]` serves such a console with made-up data, to look at it.
# - `real [SECONDS [DIRECTORY]]` opens the console of a real server while jobs run, and draws the
#   pages into a directory. CLOAKWORK_SERVER_PROGRAM and CLOAKWORK_PROGRAM name the programs.
# - `format` formats the sources.
#
# Needs Node.js 20.19 or later, and npm. The packages of package-lock.json go into a cache outside
# the clone. If a program or a package is missing, the script fails where `CI` is `true`, and prints
# a loud message and exits with 9 elsewhere.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

give_up() {
    if [ "${CI:-}" = true ]; then
        echo "$1: the console cannot be built or checked" >&2
        exit 1
    fi
    echo "*** SKIPPED: $1: the console was not built or checked ***" >&2
    exit 9
}

command -v node >/dev/null || give_up "Node.js is missing"
command -v npm >/dev/null || give_up "npm is missing"
node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)' ||
    give_up "Node.js 20.19 or later is missing"

lock=$(cat "$here/package.json" "$here/package-lock.json" | sha256sum | cut -c 1-16)
cache="${CLOAKWORK_CACHE:-$HOME/.cache/cloakwork}/console"
home="$cache/$lock"
work=
fresh=
trap 'rm -rf "$work" "$fresh"' EXIT

if [ ! -d "$home/node_modules" ]; then
    mkdir -p "$cache"
    # Install next to the target and rename, so that no other process finds a partial installation.
    fresh=$(mktemp -d "$cache/fresh.XXXXXX")
    cp "$here/package.json" "$here/package-lock.json" "$here/.npmrc" "$fresh/"
    npm ci --silent --no-audit --no-fund --ignore-scripts --prefix "$fresh" ||
        give_up "the packages of package-lock.json cannot be installed"
    # Another process may have installed them first; its copy is equivalent.
    mv -T "$fresh" "$home" 2>/dev/null || [ -d "$home/node_modules" ]
fi
tools="$home/node_modules/.bin"

# The copy has the places of the clone, because the build also reads docs/errors.
copy_sources() {
    work=$(mktemp -d "$home/run.XXXXXX")
    mkdir -p "$work/server/console" "$work/docs"
    (cd "$here" && cp -r src tests index.html package.json tsconfig.json vite.config.js .prettierrc.json \
        "$work/server/console/")
    cp -r "$here/../../docs/errors" "$work/docs/"
    cd "$work/server/console"
}

compile() {
    copy_sources
    "$tools/tsc" --outDir out
}

step=${1:-}
[ $# -gt 0 ] && shift
case "$step" in
build)
    out=$(realpath -m "$1")
    copy_sources
    "$tools/vite" build --logLevel warn --outDir "$out" --emptyOutDir
    ;;
check)
    "$tools/prettier" --log-level warn --check "$here/src" "$here/tests" "$here/vite.config.js" "$here/index.html"
    compile
    node --test --test-reporter=spec out/tests/unit/
    ;;
browse)
    dist=$(realpath "$1")
    shift
    compile
    files=(out/tests/browser/)
    if [ $# -gt 0 ]; then
        files=("${@/#/out/tests/browser/}")
        files=("${files[@]/%/.test.js}")
    fi
    # Two files at a time: each starts a browser.
    CONSOLE_DIST="$dist" node --test --test-reporter=spec --test-concurrency=2 "${files[@]}"
    ;;
mock)
    dist=$(realpath "$1")
    shift
    compile
    node out/tests/mock/main.js "$dist" "$@"
    ;;
real)
    pictures=${2:+$(realpath -m "$2")}
    compile
    node out/tests/real/trial.js "${1:-20}" ${pictures:+"$pictures"}
    ;;
format)
    "$tools/prettier" --log-level warn --write "$here/src" "$here/tests" "$here/vite.config.js" "$here/index.html"
    ;;
*)
    echo "usage: run.sh build|check|browse|mock|real|format" >&2
    exit 2
    ;;
esac
