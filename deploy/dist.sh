#!/usr/bin/env bash
# Builds the programs that ship, stripped, with their debug symbols in files beside them:
# target/dist/NAME and target/dist/NAME.debug.
#
# A program records the name of its symbol file. Debuggers and the backtraces of Rust find the
# symbols if both files lie in one directory. Without the symbol file, backtraces show addresses.
set -euo pipefail
cd "$(dirname "$0")/.."

programs="cloakwork-server cloakwork-worker cloakwork"
# The server contains the pages of the console, which may have been built elsewhere.
[ -n "${CLOAKWORK_CONSOLE_DIST:-}" ] || server/console/build.sh
cargo build --release --locked -p cloakwork-server -p cloakwork-worker -p cloakwork
target=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
mkdir -p target/dist
cd target/dist
for program in $programs; do
    objcopy --only-keep-debug "$target/release/$program" "$program.debug"
    objcopy --strip-all --add-gnu-debuglink="$program.debug" "$target/release/$program" "$program"
done
ls -l --block-size=K $programs $(printf '%s.debug ' $programs) | awk '{ print $5, $9 }'
