#!/usr/bin/env bash
# Lock files, format and lints. A toolchain without them is an error where CI says so, and said
# loudly elsewhere.
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

# Each workspace's lock file says what its manifests do. A stale one breaks all that is built with
# --locked, as the benchmarks against others are, but only in a fresh clone. This takes the
# registry's index and downloads no crates.
cd "$(dirname "$0")/../.."
find . -name target -prune -o -name Cargo.toml -exec grep -lx '\[workspace\]' {} + | while read -r manifest; do
    if ! cargo update --workspace --locked --quiet --manifest-path "$manifest"; then
        echo "$manifest does not resolve with --locked: its lock file is stale, or the registry is out of reach." >&2
        echo "cargo update --workspace --manifest-path $manifest brings a stale lock file up to date." >&2
        exit 1
    fi
done

run fmt --all --check
run clippy --workspace --all-targets -- -D warnings
