#!/bin/sh
# Compares computations by our service with tfhe-rs. Passes its options on: see ../README.md.
set -eu
cd "$(dirname "$0")/../../.."
cargo build --release --locked -p cloakwork-tests-service --bins --target-dir target
RUSTC_WRAPPER="$PWD/tests/peers/native-peer.sh" cargo build --release --locked \
    --manifest-path tests/peers/Cargo.toml -p cloakwork-peers-circuits --target-dir target/peers
# A test looks for the programs that it starts in its own directory.
ln -sf "$PWD/target/release/tested-server" target/peers/release/tested-server
exec target/peers/release/cloakwork-peers-circuits "$@"
