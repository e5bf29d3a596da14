#!/usr/bin/env bash
# Format and lints. A toolchain without them is an error where CI says so, and said loudly elsewhere.
set -euo pipefail

run() {
    if cargo "$1" --version >/dev/null 2>&1; then
        cargo "$@"
    elif [ "${CI:-}" = true ]; then
        echo "cargo $1 is missing from this toolchain: rustup component add ${1/fmt/rustfmt}" >&2
        exit 1
    else
        echo "*** SKIPPED: cargo $1 is missing from this toolchain (rustup component add ${1/fmt/rustfmt}) ***" >&2
    fi
}

run fmt --all --check
run clippy --workspace --all-targets -- -D warnings
