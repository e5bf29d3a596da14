#!/usr/bin/env bash
# Checks the licences and the sources of all dependencies against deny.toml. cargo-deny is installed
# into a cache outside the clone, once, which takes minutes. If that is not possible, the script
# fails where `CI` is `true`, and prints a loud message elsewhere.
#
# Known vulnerabilities need a database that is on GitHub: `cargo deny check advisories`.
set -euo pipefail

version=0.20.2
root="${CLOAKWORK_CACHE:-$HOME/.cache/cloakwork}/cargo-deny-$version"
deny="$root/bin/cargo-deny"
cd "$(dirname "$0")/../.."

if ! [ -x "$deny" ] && ! cargo install --quiet --locked "cargo-deny@$version" --root "$root"; then
    if [ "${CI:-}" = true ]; then
        echo "cargo-deny $version cannot be installed" >&2
        exit 1
    fi
    echo "*** SKIPPED: cargo-deny $version cannot be installed: no check of licences ***" >&2
    exit 0
fi

check() {
    "$deny" --manifest-path "$1/Cargo.toml" --config "$PWD/deny.toml" --log-level error check licenses bans sources
}

for workspace in . tests/peers tests/fuzz; do
    check "$workspace"
done
# The planted crates have no licence. A check that accepts them would accept anything.
if check tests/rules/planted >/dev/null 2>&1; then
    echo "deny.toml accepts crates without a licence" >&2
    exit 1
fi
