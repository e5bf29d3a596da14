#!/usr/bin/env bash
# Builds the programs twice, from two clones in different directories that share the downloaded
# sources alone, and compares the bytes. Takes two whole builds. Needs what deploy/dist.sh needs.
set -euo pipefail
cd "$(dirname "$0")/../.."

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
one="$root/one" other="$root/another/place"
for place in "$one" "$other"; do
    git clone --quiet . "$place/clone"
    CARGO_TARGET_DIR="$place/build" "$place/clone/deploy/release/programs.sh" >/dev/null
done
diff -r "$one/clone/target/dist" "$other/clone/target/dist"
if paths=$(grep -laF "$root" "$one"/clone/target/dist/*); then
    echo "a path of the builder is in $paths" >&2
    exit 1
fi
sha256sum "$one"/clone/target/dist/*
