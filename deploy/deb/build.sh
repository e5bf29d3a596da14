#!/usr/bin/env bash
# Builds the Debian package cloakwork_VERSION-1_ARCHITECTURE.deb into a directory from built
# programs. Equal programs, versions and dates give equal bytes.
#
# usage: deploy/deb/build.sh BIN_DIR OUT_DIR
#
# BIN_DIR has cloakwork-server, cloakwork-worker and cloakwork, as deploy/dist.sh builds them. A
# file third-party-licenses.txt beside them goes into the package. In the environment:
#   VERSION            version of the package; by default that of the workspace
#   SOURCE_DATE_EPOCH  time of all files and of the changelog; by default that of the last commit
#   MAINTAINER         name and address of the builder
# Needs dpkg-deb and readelf (the packages dpkg and binutils).
set -euo pipefail
binaries=$(cd "${1:?usage: build.sh BIN_DIR OUT_DIR}" && pwd)
mkdir -p "${2:?usage: build.sh BIN_DIR OUT_DIR}"
out=$(cd "$2" && pwd)
cd "$(dirname "$0")"
top=../..
export LC_ALL=C TZ=UTC
umask 022

version=${VERSION:-$(sed -n '/^\[workspace.package\]/,/^\[/ s/^version = "\(.*\)"$/\1/p' $top/Cargo.toml)}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C $top log -1 --format=%ct)}
maintainer=${MAINTAINER:-Cloakwork maintainers <maintainers@cloakwork.example>}
architecture=$(dpkg --print-architecture)
debian_version="$version-1"
programs="cloakwork-server cloakwork-worker cloakwork"

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
doc="$root/usr/share/doc/cloakwork"

put() { install -D -m "$1" "$2" "$root/$3"; }

for program in $programs; do
    put 755 "$binaries/$program" "usr/bin/$program"
done
for unit in $top/deploy/systemd/*.service; do
    put 644 "$unit" "usr/lib/systemd/system/$(basename "$unit")"
done
put 644 $top/deploy/systemd/cloakwork.sysusers usr/lib/sysusers.d/cloakwork.conf
put 644 cloakwork.toml etc/cloakwork/cloakwork.toml
install -d -m 700 "$root/etc/cloakwork/credentials"

completions() {
    mkdir -p "$(dirname "$root/$2")"
    "$binaries/cloakwork" completions "$1" >"$root/$2"
}
completions bash usr/share/bash-completion/completions/cloakwork
completions zsh usr/share/zsh/vendor-completions/_cloakwork
completions fish usr/share/fish/vendor_completions.d/cloakwork.fish

put 644 copyright usr/share/doc/cloakwork/copyright
put 644 $top/NOTICE.md usr/share/doc/cloakwork/NOTICE.md
put 644 $top/deploy/systemd/worker.env usr/share/doc/cloakwork/examples/worker.env
put 644 $top/deploy/systemd/cloakwork-worker-gpu.conf usr/share/doc/cloakwork/examples/cloakwork-worker-gpu.conf
for page in $top/docs/*.md $top/docs/errors/*.md $top/docs/runbooks/*.md; do
    if [ -f "$page" ]; then
        put 644 "$page" "usr/share/doc/cloakwork/${page#"$top"/docs/}"
    fi
done
if [ -f "$binaries/third-party-licenses.txt" ]; then
    gzip -9n <"$binaries/third-party-licenses.txt" >"$doc/third-party-licenses.txt.gz"
fi
gzip -9n <$top/CHANGELOG.md >"$doc/changelog.gz"
printf 'cloakwork (%s) stable; urgency=medium\n\n  * Version %s. changelog.gz lists the changes.\n\n -- %s  %s\n' \
    "$debian_version" "$version" "$maintainer" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" |
    gzip -9n >"$doc/changelog.Debian.gz"

# The newest version of each library's symbols that the programs use names the oldest package that
# will do. Another library than these two needs a line here.
declare -A packages=([libc.so.6]=libc6 [libm.so.6]=libc6 [libdl.so.2]=libc6 [libpthread.so.0]=libc6
    [ld-linux-x86-64.so.2]=libc6 [ld-linux-aarch64.so.1]=libc6 [libgcc_s.so.1]=libgcc-s1)
elf=$(for program in $programs; do readelf --dynamic --version-info --wide "$binaries/$program"; done)
for library in $(sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p' <<<"$elf" | sort -u); do
    if [ -z "${packages[$library]:-}" ]; then
        echo "the programs need $library, and build.sh does not know its package" >&2
        exit 1
    fi
done
newest() { grep -oE "Name: $1_[0-9.]+" <<<"$elf" | sed "s/.*_//" | sort -uV | tail -1; }
libraries="libc6 (>= $(newest GLIBC))"
if grep -q 'NEEDED.*libgcc_s' <<<"$elf"; then
    libraries="$libraries, libgcc-s1 (>= $(newest GCC))"
fi

size=$(find "$root" -mindepth 1 -printf '%y %s\n' |
    awk '{ sum += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print sum }')
mkdir "$root/DEBIAN"
sed -e "s/@VERSION@/$debian_version/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@MAINTAINER@/$maintainer/" \
    -e "s/@SIZE@/$size/" -e "s/@LIBRARIES@/$libraries/" control.in >"$root/DEBIAN/control"
echo /etc/cloakwork/cloakwork.toml >"$root/DEBIAN/conffiles"
install -m 755 postinst prerm postrm "$root/DEBIAN"
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

# One thread: with more, xz divides its input, and other machines give other bytes.
dpkg-deb --root-owner-group -Zxz -z6 --threads-max=1 --build "$root" \
    "$out/cloakwork_${debian_version}_$architecture.deb"
