#!/usr/bin/env bash
# Checks the boards without a server and without a browser:
# - the source is formatted, and the compiler accepts it;
# - the JSON in dashboards/ is what the source renders;
# - titles, units, descriptions, links, places, variables, metrics and labels keep the rules of
#   src/checks/rules.ts, and faults that are planted into a board are found;
# - promtool evaluates each query on made-up series of every documented metric, and each has an
#   answer.
#
# Needs Node.js 18 or later, npm, and promtool of the package prometheus. If one is missing, the
# script fails where `CI` is `true`, and prints a loud message elsewhere.
set -euo pipefail
cd "$(dirname "$0")"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

status=0
./run.sh format --check || status=$?
[ "$status" != 9 ] || exit 0
[ "$status" = 0 ] || exit "$status"
./run.sh checks/main dashboards ../../docs "$work/tests.json" || status=$?
# run.sh has said what is missing.
[ "$status" != 9 ] || exit 0
[ "$status" = 0 ] || exit "$status"

if ! command -v promtool >/dev/null; then
    if [ "${CI:-}" = true ]; then
        echo "promtool is missing: the queries of the boards cannot be evaluated" >&2
        exit 1
    fi
    echo "*** SKIPPED: promtool is missing: the queries of the boards were not evaluated ***" >&2
    exit 0
fi
promtool test rules "$work/tests.json"
