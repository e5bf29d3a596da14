#!/bin/sh
# Stands between cargo and rustc: every crate but our own is compiled for the machine at hand. Ours are
# compiled as they ship, for any machine, and choose their kernels at run time.
set -eu
crate= previous=
for argument in "$@"; do
    [ "$previous" != --crate-name ] || crate=$argument
    previous=$argument
done
case $crate in
cloakwork_*) exec "$@" ;;
*) exec "$@" -C target-cpu=native ;;
esac
