#!/usr/bin/env bash
# Prints the path of the parser of Compose files, the one that Docker Compose has, as a program of
# its own. The parser is built once, into a cache outside the clone. Fails if Go is missing or too
# old, or if the source cannot be fetched. Needs Go 1.23 or later.
set -euo pipefail

version=v2.4.9
cache="${CLOAKWORK_CACHE:-$HOME/.cache/cloakwork}/compose"
program="$cache/compose-$version"
if [ ! -x "$program" ]; then
    mkdir -p "$cache"
    built=$(mktemp -d "$cache/built.XXXXXX")
    trap 'rm -rf "$built"' EXIT
    GOBIN="$built" go install "github.com/compose-spec/compose-go/v2/cmd@$version" >&2
    # A rename is atomic: a parallel call never finds half of the file.
    mv "$built/cmd" "$program"
fi
echo "$program"
