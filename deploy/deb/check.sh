#!/usr/bin/env bash
# Builds the Debian package from stand-in programs, twice and in different places, and checks its
# bytes, files, modes and scripts. Needs dpkg-deb, readelf and xz. Without them, the script fails
# where `CI` is `true`, and prints a loud message elsewhere.
set -euo pipefail
cd "$(dirname "$0")"

for tool in dpkg-deb readelf xz; do
    if ! command -v "$tool" >/dev/null; then
        if [ "${CI:-}" = true ]; then
            echo "$tool is missing: the Debian package cannot be checked" >&2
            exit 1
        fi
        echo "*** SKIPPED: $tool is missing: the Debian package was not checked ***" >&2
        exit 0
    fi
done

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
fail() {
    echo "$1" >&2
    exit 1
}

# A program that prints its arguments stands for each of ours.
mkdir "$root/bin"
for program in cloakwork-server cloakwork-worker cloakwork; do
    cp /bin/echo "$root/bin/$program"
done
echo "a licence" >"$root/bin/third-party-licenses.txt"
export SOURCE_DATE_EPOCH=1700000000 VERSION=1.2.3
(umask 077 && ./build.sh "$root/bin" "$root/one" >/dev/null)
(umask 002 && TMPDIR=$root TZ=Asia/Tokyo ./build.sh "$root/bin" "$root/two" >/dev/null)
package=$(ls "$root/one")
cmp "$root/one/$package" "$root/two/$package" || fail "two builds of $package differ"
SOURCE_DATE_EPOCH=1700000001 ./build.sh "$root/bin" "$root/two" >/dev/null
if cmp -s "$root/one/$package" "$root/two/$package"; then
    fail "the comparison does not see another date"
fi
package="$root/one/$package"

field() { dpkg-deb --field "$package" "$1"; }
[ "$(field Version)" = 1.2.3-1 ] || fail "version $(field Version)"
grep -qE '^libc6 \(>= 2\.[0-9]+\)' <<<"$(field Depends)" || fail "depends: $(field Depends)"

listing=$(dpkg-deb --contents "$package" | awk '{ print $1, $2, $6 }')
while read -r mode path; do
    grep -qxF -- "$mode root/root ./$path" <<<"$listing" || fail "not in the package: $mode $path"
done <<'FILES'
-rwxr-xr-x usr/bin/cloakwork
-rwxr-xr-x usr/bin/cloakwork-server
-rwxr-xr-x usr/bin/cloakwork-worker
-rw-r--r-- usr/lib/systemd/system/cloakwork-server.service
-rw-r--r-- usr/lib/systemd/system/cloakwork-worker@.service
-rw-r--r-- usr/lib/sysusers.d/cloakwork.conf
-rw-r--r-- etc/cloakwork/cloakwork.toml
drwx------ etc/cloakwork/credentials/
-rw-r--r-- usr/share/bash-completion/completions/cloakwork
-rw-r--r-- usr/share/doc/cloakwork/copyright
-rw-r--r-- usr/share/doc/cloakwork/NOTICE.md
-rw-r--r-- usr/share/doc/cloakwork/operations.md
-rw-r--r-- usr/share/doc/cloakwork/errors/STORAGE_FULL.md
-rw-r--r-- usr/share/doc/cloakwork/examples/worker.env
-rw-r--r-- usr/share/doc/cloakwork/third-party-licenses.txt.gz
-rw-r--r-- usr/share/doc/cloakwork/changelog.Debian.gz
FILES
if odd=$(grep -vE '^(drwxr-xr-x|-rwxr-xr-x|-rw-r--r--|drwx------) root/root ' <<<"$listing"); then
    fail "owner or mode: $odd"
fi
if beyond=$(grep -vE ' \./((etc|usr)/.*)?$' <<<"$listing"); then
    fail "outside /etc and /usr: $beyond"
fi

dpkg-deb --control "$package" "$root/control"
dpkg-deb --extract "$package" "$root/files"
[ "$(cat "$root/control/conffiles")" = /etc/cloakwork/cloakwork.toml ] || fail "conffiles"
(cd "$root/files" && md5sum --quiet --check "$root/control/md5sums") || fail "md5sums"
[ "$(wc -l <"$root/control/md5sums")" = "$(find "$root/files/usr" -type f | wc -l)" ] || fail "md5sums is incomplete"
for script in postinst prerm postrm; do
    [ -x "$root/control/$script" ] && sh -n "$root/control/$script" || fail "$script is no script"
    grep -q '^set -e$' "$root/control/$script" || fail "$script goes on after an error"
done

# The package's configuration reaches nobody but this machine, and asks for a token.
settings="$root/files/etc/cloakwork/cloakwork.toml"
grep -qx 'anonymous = false' "$settings" || fail "the package's server takes calls without a token"
if grep -q '^ *\(address\|admin_address\) *=' "$settings"; then
    fail "the package's configuration sets an address"
fi
# The unit starts what the package has, with the directory that the unit may write to.
grep -qx 'ExecStart=/usr/bin/cloakwork-server serve --config /etc/cloakwork/cloakwork.toml' \
    "$root/files/usr/lib/systemd/system/cloakwork-server.service" || fail "the unit starts something else"
grep -qx 'directory = "/var/lib/cloakwork"' "$settings" || fail "the data lie outside the unit's directory"
# Programs that need an unknown library are refused.
cp "$(command -v xz)" "$root/bin/cloakwork-worker"
if readelf -d "$root/bin/cloakwork-worker" | grep -q liblzma && ./build.sh "$root/bin" "$root/two" >/dev/null 2>&1; then
    fail "a program with an unknown library is packaged"
fi
