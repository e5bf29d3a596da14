#!/usr/bin/env bash
# Builds the programs, their bill of materials and the licences of their libraries, and with these
# the file system of the image. The Dockerfiles call this script.
#
# usage: deploy/docker/build.sh VERSION ROOT
#
# Needs what deploy/dist.sh and rootfs.sh need, and Python 3.11 or later.
set -euo pipefail
version=${1:?usage: build.sh VERSION ROOT}
root=${2:?usage: build.sh VERSION ROOT}
cd "$(dirname "$0")/../.."

deploy/release/programs.sh
dist=target/dist
cargo metadata --locked --format-version 1 --filter-platform "$(uname -m)-unknown-linux-gnu" >"$dist/metadata.json"
python3 deploy/release/sbom.py --metadata "$dist/metadata.json" --lock Cargo.lock --version "$version" \
    --epoch "${SOURCE_DATE_EPOCH:-0}" --out "$dist/sbom.cdx.json" --licenses "$dist/third-party-licenses.txt"
cp NOTICE.md "$dist/"
deploy/docker/rootfs.sh "$dist" "$root"
