#!/usr/bin/env bash
# Runs the server in the file system of the image, as a container runtime would: user 65532 without
# capabilities, a read-only root, a volume, a network namespace with loopback alone, and the image's
# entry point. A part of `make test-all`.
#
# BIN_DIR names built programs; without it, deploy/dist.sh builds them. Needs root, Linux, ip, curl,
# and setpriv.
set -euo pipefail
cd "$(dirname "$0")"

give_up() {
    if [ "${CI:-}" = true ]; then
        echo "$1: the image cannot be tried" >&2
        exit 1
    fi
    echo "*** SKIPPED: $1: the image was not tried ***" >&2
    exit 0
}
fail() {
    echo "FAILED: $1" >&2
    exit 1
}
[ "$(id -u)" = 0 ] || give_up "only root can change the root directory"
for tool in ip curl unshare nsenter setpriv; do
    command -v "$tool" >/dev/null || give_up "$tool is missing"
done
if [ -z "${BIN_DIR:-}" ]; then
    ../dist.sh
    BIN_DIR=../../target/dist
fi

root=$(mktemp -d)
chmod 755 "$root"
outer=
finish() {
    status=$?
    if [ $status != 0 ]; then tail -n 20 "$root"/*.log >&2 || true; fi
    if [ -n "$outer" ]; then
        kill -KILL "$outer" 2>/dev/null || true
        wait || true
    fi
    rm -rf --one-file-system "$root"
    exit $status
}
trap finish EXIT

./rootfs.sh "$BIN_DIR" "$root/image"
# A new volume has the owner and mode of the directory in the image.
cp -a "$root/image/var/lib/cloakwork" "$root/volume"
mkdir "$root/mount"
cat >"$root/start.sh" <<'START'
set -eu
root=$1
ip link set lo up
mount --make-rprivate /
mount --bind "$root/image" "$root/mount"
mount --bind "$root/volume" "$root/mount/var/lib/cloakwork"
mount -t tmpfs -o mode=1777 tmpfs "$root/mount/tmp"
mount -o remount,bind,ro "$root/mount"
shift
# chroot is the last call that needs a capability. setpriv comes before it, and keeps that one
# alone.
exec setpriv --no-new-privs --bounding-set=-all,+sys_chroot,+setuid,+setgid --inh-caps=-all \
    chroot --userspec=65532:65532 --groups= "$root/mount" "$@"
START
unshare --mount --net --pid --ipc --fork --kill-child=KILL bash "$root/start.sh" "$root" \
    /usr/bin/cloakwork-server serve --data /var/lib/cloakwork/cloakwork-data >"$root/server.log" 2>&1 </dev/null &
outer=$!
for _ in $(seq 50); do
    init=$(tr -d ' ' <"/proc/$outer/task/$outer/children" 2>/dev/null || true)
    [ -z "$init" ] || break
    sleep 0.1
done
[ -n "$init" ] || fail "the server does not start"

inside() { nsenter --target "$init" --net "$@"; }
for attempt in $(seq 300); do
    if inside curl --silent --fail --max-time 2 http://127.0.0.1:7271/readyz >/dev/null; then break; fi
    [ "$attempt" -lt 300 ] || fail "the server is not ready"
    sleep 0.2
done
status=$(cat "/proc/$init/status")
grep -qE '^Uid:	65532	65532	65532' <<<"$status" || fail "the server runs as another user"
grep -qF 'NoNewPrivs:	1' <<<"$status" && grep -qF 'CapEff:	0000000000000000' <<<"$status" ||
    fail "the server has privileges"
if nsenter --target "$init" --mount touch "$root/mount/usr/bin/planted" 2>/dev/null; then
    fail "the file system of the image is writable"
fi
[ "$(stat -c '%u %a' "$root/volume/cloakwork-data")" = "65532 700" ] || fail "the data are not the server's alone"

# The command line runs from the image too.
mkdir "$root/keys"
chown 65532:65532 "$root/keys"
client() {
    inside unshare --mount sh -c '
        set -eu
        root=$1
        shift
        mount --make-rprivate /
        mount --bind "$root/image" "$root/mount"
        mount --bind "$root/keys" "$root/mount/var/lib/cloakwork"
        mount -o remount,bind,ro "$root/mount"
        exec env HOME=/var/lib/cloakwork chroot --userspec=65532:65532 --groups= "$root/mount" \
            /usr/bin/cloakwork --keys /var/lib/cloakwork/keys "$@"' client "$root" "$@"
}
client keygen --out /var/lib/cloakwork/keys >/dev/null
client keys push >/dev/null
client pbs --fn square --values 1,2,3 --json | tr -d ' \n' | grep -q '\[1,4,9' || fail "the squares are wrong"

kill -TERM "$init"
wait "$outer" || fail "the server does not stop at SIGTERM"
outer=
echo "the image runs a server and a job: $(du -sm "$root/image" | cut -f1) MiB"
