#!/usr/bin/env bash
# Makes a release in a new directory: programs, their symbols, the Debian package, the image, the
# files for Compose, the Helm chart if there is one, the bill of materials, and SHA256SUMS. A commit
# always gives the same bytes, with the same compiler, libraries and tools.
#
# usage: deploy/release/release.sh OUT_DIR
#
# In the environment:
#   BIN_DIR   built programs to pack; without it, programs.sh builds them here
#   METADATA  output of `cargo metadata --format-version 1`; without it, cargo is asked
#   SIGN_KEY  private key of OpenSSH (ed25519), which signs SHA256SUMS; otherwise nothing is signed
#   SOURCE_DATE_EPOCH  time of all files; by default that of the commit
# Needs Rust for a build, and dpkg-deb, readelf, Python 3.11 or later, and ssh-keygen to sign.
set -euo pipefail
out=${1:?usage: release.sh OUT_DIR}
mkdir "$out"
out=$(cd "$out" && pwd)
binaries=${BIN_DIR:+$(cd "$BIN_DIR" && pwd)}
metadata=${METADATA:+$(realpath "$METADATA")}
key=${SIGN_KEY:+$(realpath "$SIGN_KEY")}
cd "$(dirname "$0")/../.."
top=$PWD
export LC_ALL=C TZ=UTC
umask 022

version=$(sed -n '/^\[workspace.package\]/,/^\[/ s/^version = "\(.*\)"$/\1/p' Cargo.toml)
revision=$(git rev-parse HEAD)
export VERSION=$version SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
architecture=$(dpkg --print-architecture)
machine=$(uname -m)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

if [ -z "$binaries" ]; then
    if [ -n "$(git status --porcelain)" ]; then
        echo "the working tree has changes: a release is made from a commit" >&2
        exit 1
    fi
    deploy/release/programs.sh
    binaries=$top/target/dist
fi
if [ -z "$metadata" ]; then
    metadata=$stage/metadata.json
    cargo metadata --locked --format-version 1 --filter-platform "$machine-unknown-linux-gnu" >"$metadata"
fi

# A tar archive of a directory, with one order, owner, mode and time.
pack() {
    local name=$1 directory=$2
    tar --directory="$stage" --sort=name --owner=0 --group=0 --numeric-owner --mode='u+rw,go=u-w' \
        --mtime="@$SOURCE_DATE_EPOCH" --format=ustar --create "$directory" | gzip -n -6 >"$out/$name"
}

bill() {
    python3 deploy/release/sbom.py --metadata "$metadata" --lock Cargo.lock --version "$version" \
        --epoch "$SOURCE_DATE_EPOCH" "$@"
}

programs="cloakwork-server cloakwork-worker cloakwork"
name=cloakwork-$version
mkdir "$stage/bin" "$stage/$name" "$stage/$name-symbols"
for program in $programs; do
    install -m 755 "$binaries/$program" "$stage/bin/$program"
    if [ -f "$binaries/$program.debug" ]; then
        install -m 644 "$binaries/$program.debug" "$stage/$name-symbols/$program.debug"
    fi
done
cp NOTICE.md "$stage/bin/"
bill --out "$out/$name-sbom.cdx.json" --licenses "$stage/bin/third-party-licenses.txt"

cp -r "$stage/bin/." "$stage/$name/"
cp -r README.md CHANGELOG.md LICENSE docs deploy/systemd deploy/deb/cloakwork.toml "$stage/$name/"
rm -f "$stage/$name/systemd/check.sh"
pack "$name-linux-$machine.tar.gz" "$name"
if [ -n "$(ls "$stage/$name-symbols")" ]; then
    pack "$name-linux-$machine-symbols.tar.gz" "$name-symbols"
fi

deploy/deb/build.sh "$stage/bin" "$out"

deploy/docker/rootfs.sh "$stage/bin" "$stage/image"
python3 deploy/release/image.py "$stage/image" deploy/docker/Dockerfile "$version" "$revision" \
    "$SOURCE_DATE_EPOCH" "$architecture" "cloakwork:$version" "$out/$name-image-$architecture.tar"
gzip -n -6 "$out/$name-image-$architecture.tar"
bill --out "$out/$name-image-$architecture-sbom.cdx.json" --system "$stage/image/var/lib/dpkg/status.d"

# Compose reads files of its neighbours, so that the archive has the same folders.
mkdir -p "$stage/$name-compose"
for folder in compose grafana prometheus; do
    if [ -d "deploy/$folder" ]; then
        mkdir "$stage/$name-compose/$folder"
        git archive HEAD "deploy/$folder" |
            tar --extract --strip-components=2 --directory="$stage/$name-compose/$folder"
    fi
done
pack "$name-compose.tar.gz" "$name-compose"

if [ -f helm/cloakwork/Chart.yaml ]; then
    mkdir "$stage/chart"
    git archive HEAD helm/cloakwork | tar --extract --strip-components=1 --directory="$stage/chart"
    chart=$(sed -n 's/^version: *"\{0,1\}\([^" ]*\).*/\1/p' "$stage/chart/cloakwork/Chart.yaml")
    mv "$stage/chart/cloakwork" "$stage/cloakwork"
    pack "cloakwork-chart-$chart.tgz" cloakwork
fi

(cd "$out" && sha256sum -- * >"$stage/SHA256SUMS" && cp "$stage/SHA256SUMS" SHA256SUMS)
if [ -n "$key" ]; then
    ssh-keygen -q -Y sign -f "$key" -n cloakwork-release "$out/SHA256SUMS"
fi
ls -l --block-size=K "$out" | awk 'NR > 1 { print $5, $9 }'
