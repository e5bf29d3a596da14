#!/bin/sh
# Compares ours with tfhe-rs. Passes its options on: see README.md.
set -eu
cd "$(dirname "$0")/../.."
export RUSTC_WRAPPER="$PWD/tests/peers/native-peer.sh"
build() {
    folder=$1
    shift
    cargo build --release --locked --manifest-path tests/peers/Cargo.toml --target-dir "target/$folder" "$@"
}
build peers
if [ "$(uname -m)" = x86_64 ]; then
    # This second build of the program has a peer without AVX-512, for the comparison on AVX2.
    PEER_CPU=x86-64-v3 build peers-avx2 --no-default-features
    set -- --narrow target/peers-avx2/release/cloakwork-peers "$@"
fi
exec target/peers/release/cloakwork-peers "$@"
