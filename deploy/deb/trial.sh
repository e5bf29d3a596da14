#!/usr/bin/env bash
# Tries the Debian package in a root of its own, under a systemd of its own: installation, the
# units, a job, a worker, a reload, an upgrade, removal and purge. A part of `make test-all`.
#
# BIN_DIR names built programs; without it, deploy/dist.sh builds them. The root comes from
# debootstrap, once, and stays in a cache outside the clone. Needs root, Linux with overlay mounts
# and control groups, debootstrap, lintian, dpkg-deb and curl.
set -euo pipefail
cd "$(dirname "$0")"

suite=bookworm
cache="${CLOAKWORK_CACHE:-$HOME/.cache/cloakwork}/deb"
base="$cache/$suite"

give_up() {
    if [ "${CI:-}" = true ]; then
        echo "$1: the Debian package cannot be tried" >&2
        exit 1
    fi
    echo "*** SKIPPED: $1: the Debian package was not tried ***" >&2
    exit 0
}
fail() {
    echo "FAILED: $1" >&2
    exit 1
}
[ "$(id -u)" = 0 ] || give_up "only root can make a root directory"
for tool in debootstrap lintian dpkg-deb curl unshare nsenter; do
    command -v "$tool" >/dev/null || give_up "$tool is missing"
done
if [ ! -d "$base" ]; then
    mkdir -p "$cache"
    rm -rf --one-file-system "$base.new"
    debootstrap --variant=minbase --include=systemd,systemd-sysv,ca-certificates "$suite" "$base.new" \
        >"$cache/debootstrap.log" 2>&1 || give_up "debootstrap failed ($cache/debootstrap.log)"
    rm -rf "$base.new"/var/cache/apt/archives/*.deb
    mv "$base.new" "$base"
fi
if [ -z "${BIN_DIR:-}" ]; then
    ../dist.sh
    BIN_DIR=../../target/dist
fi

work=$(mktemp -d)
chmod 755 "$work"
init=
finish() {
    status=$?
    if [ $status != 0 ] && [ -n "$init" ]; then
        inside journalctl --no-pager --lines=60 >&2 || true
    fi
    if [ -n "$init" ]; then
        kill -KILL "$init" 2>/dev/null || true
        wait || true
    fi
    # Control groups that the trial's systemd left are empty now.
    find /sys/fs/cgroup -mindepth 1 -depth -type d -path "*/cloakwork-trial-$$*" -exec rmdir {} \; 2>/dev/null || true
    umount "$work/mount" 2>/dev/null || true
    rm -rf --one-file-system "$work"
    exit $status
}
trap finish EXIT

export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
VERSION=0.1.0 ./build.sh "$BIN_DIR" "$work/first"
VERSION=0.1.1 ./build.sh "$BIN_DIR" "$work/second"
lintian --fail-on error --suppress-tags bad-distribution-in-changes-file "$work"/first/*.deb

# A root whose changes lie in memory, and a systemd that is process 1 of it. The network has
# loopback alone.
mkdir -p "$work/mount"
cat >"$work/boot.sh" <<'BOOT'
set -eu
base=$1 mount=$2 packages=$3
mount --make-rprivate /
mount -t tmpfs -o size=8g tmpfs "$mount"
mkdir "$mount/upper" "$mount/work" "$mount/root"
root=$mount/root
mount -t overlay overlay -o "lowerdir=$base,upperdir=$mount/upper,workdir=$mount/work" "$root"
cp -r "$packages/first" "$packages/second" "$root/root/"
mount -t proc proc "$root/proc"
# This machine's kernel keeps its settings.
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
# No service may see these two.
touch "$root/dev/planted" "$root/root/planted"
ip link set lo up
cd "$root"
mkdir -p old
pivot_root . old
umount -l /old
rmdir /old
# As on a real machine: mounts that systemd makes for a service, such as its credentials, are seen
# here.
mount --make-rshared /
exec env -i container=trial PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=multi-user.target
BOOT
# Starts systemd in control groups of its own, in each hierarchy that this machine lets root change.
group="cloakwork-trial-$$"
start_init() {
    (
        for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*; do
            if [ -f "$hierarchy/cgroup.procs" ]; then
                { mkdir "$hierarchy/$group" && echo "$BASHPID" >"$hierarchy/$group/cgroup.procs"; } \
                    2>/dev/null || true
            fi
        done
        exec unshare --mount --pid --net --uts --ipc --cgroup --fork --kill-child=KILL \
            bash "$work/boot.sh" "$base" "$work/mount" "$work"
    ) >"$work/init.log" 2>&1 </dev/null &
    local outer=$! child
    for _ in $(seq 100); do
        # Before it becomes systemd, the child is another program.
        child=$(cat "/proc/$outer/task/$outer/children" 2>/dev/null || true)
        child=${child% }
        if [ "$(cat "/proc/${child:-none}/comm" 2>/dev/null)" = systemd ]; then
            init=$child
            return
        fi
        sleep 0.1
    done
    fail "systemd does not start: $(cat "$work/init.log")"
}
inside() {
    nsenter --target "$init" --mount --pid --net --uts --ipc --cgroup \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}
packages() { inside sh -c "dpkg $*" >"$work/install.log" 2>&1 || fail "$(cat "$work/install.log")"; }
# Waits for a command to succeed, up to 60 seconds.
await() {
    local message=$1
    shift
    for _ in $(seq 300); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.2
    done
    fail "$message"
}
get() { nsenter --target "$init" --net curl --silent --fail --max-time 5 "$@"; }
property() { inside systemctl show --property="$2" --value "$1"; }
is_ready() { get http://127.0.0.1:7271/readyz; }
server=cloakwork-server.service

start_init
await "systemd does not reach its basic target" inside systemctl is-active basic.target
echo "systemd $(inside systemctl --version | sed -n 's/^systemd \([0-9]*\).*/\1/p') is process 1 of the trial"

echo "installation"
packages --install /root/first/*.deb
await "the server is not ready after the installation" is_ready
[ "$(inside systemctl is-enabled $server)" = enabled ] || fail "the server is not enabled"
listening=$(nsenter --target "$init" --net cat /proc/net/tcp /proc/net/tcp6 | awk '$4 == "0A" { print $2 }' | sort)
# 127.0.0.1:7270 and :7271, as the kernel prints them.
[ "$listening" = "$(printf '0100007F:1C66\n0100007F:1C67')" ] || fail "the server listens on $listening"

echo "protection"
main=$(property $server MainPID)
status=$(inside cat "/proc/$main/status")
for line in 'NoNewPrivs:	1' 'Seccomp:	2' 'CapBnd:	0000000000000000' 'CapEff:	0000000000000000'; do
    grep -qF "$line" <<<"$status" || fail "the server runs without: $line"
done
user=$(inside id -u cloakwork)
grep -qE "^Uid:	$user	$user" <<<"$status" || fail "the server runs as another user"
# Root in the server's mount namespace cannot write either.
if inside nsenter --target "$main" --mount touch /usr/bin/planted 2>/dev/null; then fail "/usr is writable"; fi
inside nsenter --target "$main" --mount sh -c 'test ! -e /dev/planted && test ! -e /root/planted' ||
    fail "the server sees devices or homes"
# A machine may not let its root raise the limit.
files=$(($(ulimit -Hn) < 65536 ? $(ulimit -Hn) : 65536))
inside grep -qE "^Max open files .* $files " "/proc/$main/limits" || fail "the limit on open files"
inside systemd-analyze security --no-pager $server | tail -1

echo "a job"
manage() { inside runuser -u cloakwork -- cloakwork-server "$@" --config /etc/cloakwork/cloakwork.toml; }
manage tenant create acme >/dev/null
token=$(manage token create --tenant acme 2>/dev/null)
client() {
    inside runuser -u nobody -- env -C /tmp/client HOME=/tmp/client CLOAKWORK_TOKEN="$token" cloakwork "$@"
}
inside install -d -o nobody /tmp/client
if inside runuser -u nobody -- env -C /tmp/client HOME=/tmp/client cloakwork jobs ls >/dev/null 2>&1; then
    fail "a caller without a token is served"
fi
client keygen >/dev/null
client keys push >/dev/null
squares() { client pbs --fn square --values 1,2,3 --json | tr -d ' \n' | grep -q '\[1,4,9'; }
squares || fail "the squares are wrong"
count_jobs() { client --json jobs ls | grep -oE '"(job|name)"' | wc -l; }
jobs=$(count_jobs)
[ "$jobs" -gt 0 ] || fail "the list of jobs is empty"

echo "credentials, a reload and a worker"
inside sh -c 'umask 077; printf planted >/etc/cloakwork/credentials/database-password'
inside systemctl restart $server
await "the server is not ready with a credential" is_ready
main=$(property $server MainPID)
read_credential() { inside runuser -u "$1" -- cat /run/credentials/$server/secret_database-password; }
[ "$(read_credential cloakwork)" = planted ] || fail "the server has no credential"
if read_credential nobody >/dev/null 2>&1; then fail "another user reads the credential"; fi
inside systemctl reload $server
await "the server is not ready after a reload without a certificate" is_ready
[ "$(property $server MainPID)" = "$main" ] || fail "a reload without a certificate restarts the server"

manage tenant create workers >/dev/null
manage token create --tenant workers --scopes worker 2>/dev/null |
    inside sh -c 'umask 077; cat >/etc/cloakwork/worker-night.token'
inside cp /usr/share/doc/cloakwork/examples/worker.env /etc/cloakwork/worker-night.env
inside sh -c 'echo "OPTIONS=--pool night --threads 1 --memory 512" >>/etc/cloakwork/worker-night.env'
inside systemctl enable --now cloakwork-worker@night.service
# The embedded worker and the one of the unit.
attached() {
    get http://127.0.0.1:7271/metrics | awk '/^cloakwork_workers\{.*ready/ { sum += $2 } END { exit !(sum == 2) }'
}
await "the worker does not attach" attached
main=$(property cloakwork-worker@night.service MainPID)
status=$(inside cat "/proc/$main/status")
grep -qF 'NoNewPrivs:	1' <<<"$status" && grep -qF 'Seccomp:	2' <<<"$status" || fail "the worker is not confined"
squares || fail "the squares are wrong with a worker"

echo "a certificate"
inside sh -c 'cloakwork-server dev-certs --out /etc/cloakwork/tls >/dev/null &&
    chgrp cloakwork /etc/cloakwork/tls/server.key && chmod 640 /etc/cloakwork/tls/server.key &&
    cd /etc/cloakwork && cp cloakwork.toml plain.toml &&
    printf "\n[listen]\ntls_certificate = \"%s\"\ntls_key = \"%s\"\n" tls/server.pem tls/server.key |
    sed "s|= \"tls|= \"/etc/cloakwork/tls|" >>cloakwork.toml'
inside systemctl stop cloakwork-worker@night.service
inside systemctl restart $server
await "the server is not ready with a certificate" is_ready
main=$(property $server MainPID)
inside systemctl reload $server
client --server https://127.0.0.1:7270 --ca /etc/cloakwork/tls/ca.pem sets >/dev/null ||
    fail "the server does not answer over TLS"
[ "$(property $server MainPID)" = "$main" ] || fail "a reload with a certificate restarts the server"
inside mv /etc/cloakwork/plain.toml /etc/cloakwork/cloakwork.toml
inside systemctl restart $server
inside systemctl start cloakwork-worker@night.service
await "the worker does not attach again" attached

echo "a wrong configuration"
inside cp /etc/cloakwork/cloakwork.toml /etc/cloakwork/right.toml
inside sh -c 'echo "nonsense = 1" >>/etc/cloakwork/cloakwork.toml'
inside systemctl restart $server || true
await "a wrong configuration is tried again and again" inside systemctl is-failed $server
[ "$(property $server ExecMainStatus)" = 2 ] || fail "the status of a wrong configuration"
inside mv /etc/cloakwork/right.toml /etc/cloakwork/cloakwork.toml
inside systemctl start $server
await "the server is not ready again" is_ready

echo "an upgrade"
inside sh -c 'echo "# a change of the administrator" >>/etc/cloakwork/cloakwork.toml'
before=$(property $server MainPID)
worker_before=$(property cloakwork-worker@night.service MainPID)
packages --install /root/second/*.deb
await "the server is not ready after the upgrade" is_ready
[ "$(property $server MainPID)" != "$before" ] || fail "the upgrade does not restart the server"
[ "$(property $server Result)" = success ] || fail "the old server did not stop in time: $(property $server Result)"
inside grep -q 'a change of the administrator' /etc/cloakwork/cloakwork.toml ||
    fail "the upgrade replaces the configuration"
[ "$(inside dpkg-query --show --showformat='${Version}' cloakwork)" = 0.1.1-1 ] ||
    fail "the version after the upgrade"
await "the worker does not attach after the upgrade" attached
[ "$(property cloakwork-worker@night.service MainPID)" != "$worker_before" ] ||
    fail "the upgrade does not restart the worker"
[ "$(count_jobs)" -ge "$jobs" ] || fail "the upgrade loses jobs"
squares || fail "the squares are wrong after the upgrade"

echo "removal"
packages --remove cloakwork
if inside sh -c 'cat /proc/[0-9]*/comm' | grep -q '^cloakwork'; then fail "a program runs after the removal"; fi
inside test -e /var/lib/cloakwork/server.db || fail "the removal deletes data"
inside test -e /etc/cloakwork/cloakwork.toml || fail "the removal deletes the configuration"
packages --install /root/second/*.deb
await "the server is not ready after another installation" is_ready
squares || fail "the squares are wrong after another installation"

echo "purge"
packages --purge cloakwork
left=$(inside find / -xdev -iname '*cloakwork*' -not -path '/root/*' -not -path '/var/log/*' | sort)
[ "$left" = /etc/cloakwork ] || fail "after the purge there are: $left"
left=$(inside find /etc/cloakwork -type f -printf '%f\n' | sort | tr '\n' ' ')
own="ca.key ca.pem database-password server.key server.pem worker-night.env worker-night.token worker.key worker.pem "
[ "$left" = "$own" ] || fail "the administrator's files after the purge: $left"

echo "installation where no systemd runs"
rm -rf --one-file-system "$work/plain"
cp -a "$base" "$work/plain"
cp "$work"/first/*.deb "$work/plain/root/"
chroot "$work/plain" sh -c 'dpkg --install /root/*.deb && id cloakwork && dpkg --purge cloakwork' \
    >"$work/install.log" 2>&1 || fail "$(cat "$work/install.log")"
echo "the Debian package passes"
