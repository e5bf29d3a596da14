#!/usr/bin/env bash
# Builds the console into dist/, which the build of the server takes into the program.
#
# Needs Node.js 20.19 or later, and npm. If one is missing, the script fails where `CI` is `true`,
# and prints a loud message elsewhere.
set -euo pipefail
cd "$(dirname "$0")"

status=0
./run.sh build dist || status=$?
# run.sh has said what is missing.
[ "$status" = 9 ] || exit "$status"
