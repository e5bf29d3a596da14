#!/usr/bin/env bash
# Checks the units of systemd without starting them: their syntax, the exposure that
# `systemd-analyze security` computes, and values that follow from limits of the server. Needs
# systemd 252 or later, which need not run. Without it, the script fails where `CI` is `true`, and
# prints a loud message elsewhere.
set -euo pipefail
cd "$(dirname "$0")"

# The highest exposure that passes, in tenths: 0 is best, 100 is worst. The worker may set the
# processors of its threads, which counts as one tenth.
declare -A exposure=([cloakwork-server.service]=11 [cloakwork-worker@.service]=12)

if ! systemd-analyze --version 2>/dev/null | awk '/^systemd/ { exit !($2 >= 252) }'; then
    if [ "${CI:-}" = true ]; then
        echo "systemd 252 or later is missing: its units cannot be checked" >&2
        exit 1
    fi
    echo "*** SKIPPED: systemd 252 or later is missing: its units were not checked ***" >&2
    exit 0
fi

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
units="$root/etc/systemd/system"
mkdir -p "$units" "$root/usr/bin" "$root/bin"
cp ./*.service "$units"
# The check looks for the programs that a unit starts, and does not start them.
for program in usr/bin/cloakwork-server usr/bin/cloakwork-worker bin/sh; do
    install -m 755 /dev/null "$root/$program"
done
# Targets of the system, which are not in this root.
for target in sysinit basic shutdown network-online multi-user; do
    printf '[Unit]\nDescription=%s\n' "$target" >"$units/$target.target"
done
printf '[Unit]\nDescription=slice\n[Slice]\n' | tee "$units/system.slice" >"$units/-.slice"

fail() {
    echo "$1" >&2
    exit 1
}

verify() {
    systemd-analyze verify --root="$root" --man=no --recursive-errors=no "$1" 2>&1
}

for unit in *.service; do
    said=$(verify "$unit") && [ -z "$said" ] || fail "$unit: $said"
    systemd-analyze security --offline=true --no-pager --threshold="${exposure[$unit]}" "$PWD/$unit" \
        >"$root/exposure" || fail "$unit: more exposed than ${exposure[$unit]} tenths: $(tail -1 "$root/exposure")"
    tail -1 "$root/exposure"
done

# A unit with a wrong name or with less protection must fail, or these checks find nothing.
sed 's/^NoNewPrivileges=/NoNewPrivilege=/' cloakwork-server.service >"$units/planted.service"
[ -n "$(verify planted.service)" ] || fail "an unknown setting of a unit passes the check"
sed '/^PrivateDevices=/d' cloakwork-server.service >"$root/planted.service"
if systemd-analyze security --offline=true --no-pager --threshold="${exposure[cloakwork-server.service]}" \
    "$root/planted.service" >/dev/null; then
    fail "a unit without PrivateDevices passes the check"
fi

setting() { sed -n "s/^$2=//p" "$1"; }
limit() { sed -n "s/^| \`$1\` | \([0-9]*\) .*/\1/p" ../../docs/limits.md; }

# The time to drain, the default of the limits and of the worker's option, must end before the kill.
drain=$(($(limit drain_ms) / 1000))
grace=$(sed -n 's/.*--grace \([0-9]*\) .*/\1/p' cloakwork-worker@.service)
for pair in "cloakwork-server.service $drain" "cloakwork-worker@.service $grace"; do
    read -r unit needed <<<"$pair"
    stop=$(setting "$unit" TimeoutStopSec)
    [ "$needed" -gt 0 ] && [ "$stop" -gt "$needed" ] || fail "$unit: TimeoutStopSec=$stop, and a stop takes $needed s"
done

# Open files: one for each connection and call, as server/src/open_files.rs counts them.
reads=$(sed -n 's/^pub const READS_MAX: u64 = \([0-9]*\);/\1/p' ../../server/src/services/worker/reads.rs)
files=$((128 + reads + $(limit connections) + $(limit requests) + $(limit watchers) + $(limit receiving)))
allowed=$(setting cloakwork-server.service LimitNOFILE)
[ "$allowed" -ge "$files" ] || fail "LimitNOFILE=$allowed, and the default limits need $files"
