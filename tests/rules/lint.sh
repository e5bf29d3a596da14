#!/usr/bin/env bash
# Checks lock files, format and lints. If the toolchain lacks a tool, the script fails where `CI` is
# `true`, and prints a loud message elsewhere.
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

# Checks that the lock file of each workspace matches its manifests. A stale lock file breaks every
# build with --locked, such as the benchmarks against other libraries, but only in a fresh clone.
# The check needs the registry's index and downloads no crates.
cd "$(dirname "$0")/../.."
find . -name target -prune -o -name Cargo.toml -exec grep -lx '\[workspace\]' {} + | while read -r manifest; do
    if ! cargo update --workspace --locked --quiet --manifest-path "$manifest"; then
        echo "$manifest does not resolve with --locked: its lock file is stale, or the registry is out of reach." >&2
        echo "cargo update --workspace --manifest-path $manifest updates a stale lock file." >&2
        exit 1
    fi
done

run fmt --all --check
run clippy --workspace --all-targets -- -D warnings
