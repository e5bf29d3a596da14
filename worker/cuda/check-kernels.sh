#!/usr/bin/env bash
# Gate for the GPU kernels, which needs no GPU. Compiles the kernels and compares registers, spills,
# shared memory and instructions of each with resources.txt. Sources that passed are not compiled
# again until they change.
#
# The compiler comes from Python packages, into a cache outside the clone. When Python or the
# packages are unavailable, the gate fails under CI, and elsewhere prints a conspicuous notice.
set -euo pipefail
cd "$(dirname "$0")"

cache="${CLOAKWORK_CACHE:-$HOME/.cache/cloakwork}/cuda"
passed="$cache/passed"

give_up() {
    if [ "${CI:-}" = true ]; then
        echo "$1: the kernels of GPUs cannot be checked" >&2
        exit 1
    fi
    echo "*** SKIPPED: $1: the kernels of GPUs were not checked ***" >&2
    exit 0
}

for tool in flock sha256sum; do
    command -v "$tool" >/dev/null || give_up "$tool is missing"
done
mkdir -p "$cache"
# Calls share the compiler, so one call runs at a time.
exec 9>"$cache/lock"
flock 9
state=$(cat build-kernels.sh resources.txt kernels/* | sha256sum)
if [ "$(cat "$passed" 2>/dev/null)" = "$state" ]; then
    exit 0
fi
python3 -c 'import ensurepip, venv' 2>/dev/null || give_up "Python 3 with venv is missing"
./build-kernels.sh --compiler "$cache" || give_up "the compiler cannot be installed"
./build-kernels.sh "$cache"
# Sources that changed during the check have not passed.
if [ "$(cat build-kernels.sh resources.txt kernels/* | sha256sum)" = "$state" ]; then
    echo "$state" >"$passed"
fi
