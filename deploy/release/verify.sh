#!/usr/bin/env bash
# Verifies a release: the signature of SHA256SUMS, and then each file.
#
# usage: verify.sh DIRECTORY PUBLIC_KEY
#
# PUBLIC_KEY is the file of the public key that signs releases, in the form of OpenSSH
# (ssh-ed25519 ...). Get it from the project by another way than the release itself. Needs
# ssh-keygen and sha256sum.
set -euo pipefail
directory=${1:?usage: verify.sh DIRECTORY PUBLIC_KEY}
public=${2:?usage: verify.sh DIRECTORY PUBLIC_KEY}
signers=$(mktemp)
trap 'rm -f "$signers"' EXIT
awk '$1 ~ /^(ssh|sk-ssh|ecdsa)-/ { print "release namespaces=\"cloakwork-release\"", $1, $2 }' "$public" >"$signers"
ssh-keygen -Y verify -f "$signers" -I release -n cloakwork-release -s "$directory/SHA256SUMS.sig" \
    <"$directory/SHA256SUMS"
cd "$directory"
sha256sum --strict --quiet --check SHA256SUMS
# A file that the sums do not name was not verified.
for file in *; do
    case "$file" in
        SHA256SUMS | SHA256SUMS.sig) ;;
        *)
            if ! grep -qxE "[0-9a-f]{64}  ${file//./\\.}" SHA256SUMS; then
                echo "$file is not in SHA256SUMS" >&2
                exit 1
            fi
            ;;
    esac
done
