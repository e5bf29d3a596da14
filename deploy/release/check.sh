#!/usr/bin/env bash
# Makes a release twice, from two places, and compares the bytes. Then verifies the signature under
# a key that is made for the test, and checks that changed files are noticed. With BIN_DIR and
# METADATA (see release.sh), the release has real programs. Without them, stand-ins take their
# places, which takes seconds. Needs what release.sh needs. Without it, the script fails where `CI`
# is `true`, and prints a loud message elsewhere.
set -euo pipefail
cd "$(dirname "$0")"

give_up() {
    if [ "${CI:-}" = true ]; then
        echo "$1 is missing: releases cannot be checked" >&2
        exit 1
    fi
    echo "*** SKIPPED: $1 is missing: releases were not checked ***" >&2
    exit 0
}
for tool in dpkg-deb readelf xz ssh-keygen; do
    command -v "$tool" >/dev/null || give_up "$tool"
done
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || give_up "Python 3.11"

fail() {
    echo "$1" >&2
    exit 1
}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

if [ -z "${BIN_DIR:-}" ]; then
    export BIN_DIR="$root/bin" METADATA="$root/metadata.json"
    mkdir "$BIN_DIR"
    for program in cloakwork-server cloakwork-worker cloakwork; do
        cp /bin/echo "$BIN_DIR/$program"
        echo symbols >"$BIN_DIR/$program.debug"
    done
    python3 planted.py "$root/crates" >"$METADATA"
fi
ssh-keygen -q -t ed25519 -N '' -C '' -f "$root/key"
ssh-keygen -q -t ed25519 -N '' -C '' -f "$root/other"
export SIGN_KEY="$root/key"

(umask 077 && ./release.sh "$root/one")
mkdir "$root/elsewhere"
cp -r --no-preserve=timestamps "$BIN_DIR" "$root/elsewhere/bin"
(cd / && umask 002 && BIN_DIR="$root/elsewhere/bin" TMPDIR="$root/elsewhere" TZ=Asia/Tokyo \
    "$OLDPWD/release.sh" "$root/two" >/dev/null)
diff -r "$root/one" "$root/two" || fail "two releases of one commit differ"

./verify.sh "$root/one" "$root/key.pub"
if ./verify.sh "$root/one" "$root/other.pub" 2>/dev/null; then fail "another key's signature passes"; fi
echo >>"$root/two/SHA256SUMS"
if ./verify.sh "$root/two" "$root/key.pub" 2>/dev/null; then fail "changed sums pass"; fi
cp "$root/one/SHA256SUMS" "$root/two/SHA256SUMS"
cp /bin/echo "$root/two/extra"
if ./verify.sh "$root/two" "$root/key.pub" 2>/dev/null; then fail "a file without a sum passes"; fi
rm "$root/two/extra"
printf x >>"$(ls "$root"/two/*.deb)"
if ./verify.sh "$root/two" "$root/key.pub" 2>/dev/null; then fail "a changed package passes"; fi

# No path of the builder is in a file of the release.
mkdir "$root/open"
for archive in "$root"/one/*.tar.gz; do
    tar --extract --gzip --file="$archive" --directory="$root/open"
done
if paths=$(grep -rlaF "$root" "$root/open"); then fail "a path of the builder is in $paths"; fi

python3 check_release.py "$root/one" "$METADATA"
