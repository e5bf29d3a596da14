#!/usr/bin/env bash
# The gate for the kernels of GPUs, which needs no GPU: compiles them, and holds registers, spills, shared memory and instructions of
# each to resources.txt. What has passed is not compiled again before it changes.
#
# The compiler comes from Python packages, into a cache outside the clone. Without Python, or when they cannot be had, this is an
# error where CI says so, and said loudly elsewhere.
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
# One at a time: they share the compiler.
exec 9>"$cache/lock"
flock 9
state=$(cat build-kernels.sh resources.txt kernels/* | sha256sum)
if [ "$(cat "$passed" 2>/dev/null)" = "$state" ]; then
    exit 0
fi
python3 -c 'import ensurepip, venv' 2>/dev/null || give_up "Python 3 with venv is missing"
./build-kernels.sh --compiler "$cache" || give_up "the compiler cannot be installed"
./build-kernels.sh "$cache"
# What was changed meanwhile has not passed.
if [ "$(cat build-kernels.sh resources.txt kernels/* | sha256sum)" = "$state" ]; then
    echo "$state" >"$passed"
fi
