#!/bin/sh
# Wraps rustc for cargo. Crates other than ours are compiled for this machine, or for the processor
# that PEER_CPU names. Ours are compiled as they ship, for any machine, and choose their kernels at
# run time.
set -eu
crate= previous=
for argument in "$@"; do
    [ "$previous" != --crate-name ] || crate=$argument
    previous=$argument
done
case $crate in
cloakwork_*) exec "$@" ;;
esac
cpu=${PEER_CPU:-native}
if [ "$cpu" = x86-64-v3 ]; then
    # Removes all AVX-512 code. Cargo's features alone do not suffice: tfhe takes tfhe-fft and
    # tfhe-ntt with their default features. These include `avx512`, so those crates would still
    # choose AVX-512 at run time.
    left=$#
    while [ "$left" -gt 0 ]; do
        case "$1 ${2:-}" in
        '--cfg feature="avx512"' | '--cfg feature="x86-v4"')
            shift 2
            left=$((left - 2))
            ;;
        *)
            set -- "$@" "$1"
            shift
            left=$((left - 1))
            ;;
        esac
    done
fi
exec "$@" -C "target-cpu=$cpu"
