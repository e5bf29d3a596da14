#!/usr/bin/env bash
# Builds the file system of the image from built programs: the programs, the shared libraries that
# they need and no others, certificate authorities, and the user 65532. The Dockerfiles call this
# script, and so does the test, which needs no Docker.
#
# usage: deploy/docker/rootfs.sh BIN_DIR ROOT
#
# ROOT must not exist. Owners of files are set where the script runs as root. Needs ldd, and the
# authorities of the package ca-certificates.
set -euo pipefail
binaries=${1:?usage: rootfs.sh BIN_DIR ROOT}
root=${2:?usage: rootfs.sh BIN_DIR ROOT}
export LC_ALL=C
umask 022
mkdir "$root"
mkdir -p "$root/etc/ssl/certs" "$root/usr/bin" "$root/usr/share/doc/cloakwork" "$root/var/lib/dpkg/status.d"

# Debian's loader looks into /lib, which is a link.
for link in lib lib64; do
    mkdir -p "$root/usr/$link"
    ln -s "usr/$link" "$root/$link"
done

programs="cloakwork-server cloakwork-worker cloakwork"
for program in $programs; do
    install -m 755 "$binaries/$program" "$root/usr/bin/$program"
done

# `ldd` prints the path of each library, and of the loader. Links are followed, because programs
# name the link.
libraries=$(for program in $programs; do ldd "$root/usr/bin/$program"; done |
    grep -oE '/[^ ]+' | grep -vE ':$' | sort -u)
for library in $libraries; do
    path=${library#/usr}
    case "$path" in
        /lib/* | /lib64/*) install -D -m 755 "$(readlink -f "$library")" "$root/usr$path" ;;
        *)
            echo "rootfs.sh: $library lies outside the directories of the system" >&2
            exit 1
            ;;
    esac
done

install -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
cat >"$root/etc/passwd" <<'FILE'
root:x:0:0:root:/nonexistent:/sbin/nologin
cloakwork:x:65532:65532:Cloakwork:/var/lib/cloakwork:/sbin/nologin
FILE
cat >"$root/etc/group" <<'FILE'
root:x:0:
cloakwork:x:65532:
FILE
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"

# The version of the system, and the packages of the libraries. Scanners for vulnerabilities read
# both. The runtime of NVIDIA looks for debian_version, to know where libraries lie.
for file in os-release debian_version; do
    install -m 644 "$(readlink -f /etc/$file)" "$root/etc/$file"
done
for library in $libraries; do
    # A library may be known under the path with or without /usr. The search fails for the other.
    dpkg-query --search "$(readlink -f "$library")" "$library" "${library#/usr}" 2>/dev/null || true
done | sed 's/[,:].*//' | sort -u >"$root/packages"
if ! grep -qx libc6 "$root/packages"; then
    echo "rootfs.sh: no package has the C library" >&2
    exit 1
fi
for package in $(cat "$root/packages") ca-certificates; do
    dpkg-query --status "$package" >"$root/var/lib/dpkg/status.d/$package"
done
rm "$root/packages"

# The data directory of the image. A volume that is new takes over its owner and mode.
install -d -m 700 "$root/var/lib/cloakwork"
install -d -m 1777 "$root/tmp"
if [ "$(id -u)" = 0 ]; then
    chown 65532:65532 "$root/var/lib/cloakwork"
fi
for file in third-party-licenses.txt sbom.cdx.json NOTICE.md; do
    if [ -f "$binaries/$file" ]; then
        install -m 644 "$binaries/$file" "$root/usr/share/doc/cloakwork/$file"
    fi
done
