#!/bin/sh
# Compares bootstraps of CKKS, ours and Lattigo's in turn. Passes its options on: see ../README.md.
set -eu
cd "$(dirname "$0")/../../.."
mkdir -p target/peers
(cd tests/peers/lattigo && go build -buildvcs=false -o ../../../target/peers/lattigo .)
exec cargo run --release --locked -p cloakwork-tests-ckks -- \
    --only peer --peer target/peers/lattigo --out target/bench/ckks-peer.json "$@"
