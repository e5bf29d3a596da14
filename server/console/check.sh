#!/usr/bin/env bash
# Checks the console:
# - the sources are formatted, and the compiler accepts them;
# - the unit tests pass;
# - the build has the files that the server expects, in the size that was agreed;
# - the pages work in Chromium against a server with made-up data.
#
# Needs Node.js 20.19 or later, npm, and Chromium: `CHROMIUM` names its program, and
# /usr/bin/chromium is the default. If one is missing, the script fails where `CI` is `true`, and
# prints a loud message elsewhere.
set -euo pipefail
cd "$(dirname "$0")"
export CHROMIUM=${CHROMIUM:-/usr/bin/chromium}

status=0
./run.sh check || status=$?
# run.sh has said what is missing.
[ "$status" != 9 ] || exit 0
[ "$status" = 0 ] || exit "$status"
./run.sh build dist

if ! [ -x "$CHROMIUM" ]; then
    if [ "${CI:-}" = true ]; then
        echo "Chromium is missing: the pages of the console cannot be tested" >&2
        exit 1
    fi
    echo "*** SKIPPED: Chromium is missing: the pages of the console were not tested ***" >&2
    exit 0
fi
./run.sh browse dist
