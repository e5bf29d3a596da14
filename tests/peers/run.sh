#!/bin/sh
# Ours against tfhe-rs. Options go through: see README.md.
set -eu
cd "$(dirname "$0")/../.."
export RUSTC_WRAPPER="$PWD/tests/peers/native-peer.sh"
exec cargo run --release --locked --manifest-path tests/peers/Cargo.toml --target-dir target/peers -- "$@"
