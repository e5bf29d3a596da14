#!/usr/bin/env bash
# Builds the programs of a release into target/dist, with deploy/dist.sh. No path of this machine
# gets into them, neither in messages of panics nor in symbols, so that each machine builds the same
# bytes. Needs what deploy/dist.sh needs.
set -euo pipefail
cd "$(dirname "$0")/../.."
top=$PWD
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$top/target/release-build}
cargo_home=${CARGO_HOME:-$HOME/.cargo}
export RUSTFLAGS="--remap-path-prefix=$top=/cloakwork --remap-path-prefix=$CARGO_TARGET_DIR=/target \
--remap-path-prefix=$cargo_home=/cargo"
# For the C sources of dependencies.
export CFLAGS="-ffile-prefix-map=$CARGO_TARGET_DIR=/target -ffile-prefix-map=$cargo_home=/cargo"
export CXXFLAGS=$CFLAGS
deploy/dist.sh
