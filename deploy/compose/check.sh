#!/usr/bin/env bash
# Checks the Compose files without Docker: the parser of Docker Compose reads them, and check.py
# compares them with the files that they mount and with the settings of the server. Needs Go, Python
# 3.11 and openssl. Without them, the script fails where `CI` is `true`, and prints a loud message
# elsewhere.
set -euo pipefail
cd "$(dirname "$0")"

give_up() {
    if [ "${CI:-}" = true ]; then
        echo "$1: the Compose files cannot be checked" >&2
        exit 1
    fi
    echo "*** SKIPPED: $1: the Compose files were not checked ***" >&2
    exit 0
}
fail() {
    echo "$1" >&2
    exit 1
}
for tool in go openssl; do
    command -v "$tool" >/dev/null || give_up "$tool is missing"
done
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || give_up "Python 3.11 is missing"
parser=$(./parser.sh) || give_up "the parser of Compose files cannot be built"

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
resolve() { "$parser" -format json "$1"; }

for file in one-box.yaml scaled.yaml; do
    resolve "$file" >"$root/project.json" || fail "$file is no Compose file"
    python3 check.py "$root/project.json" || fail "$file: see above"
done

# Each check finds its fault. The copy with the fault lies here, where its mounts exist.
planted=$(mktemp ./planted-XXXXXX.yaml)
trap 'rm -rf "$root" "$planted"' EXIT
plant() {
    sed "$2" "$1" >"$planted"
    if cmp -s "$1" "$planted"; then fail "the fault was not planted: $2"; fi
    if resolve "$planted" >"$root/planted.json" 2>/dev/null &&
        python3 check.py "$root/planted.json" 2>/dev/null; then
        fail "$1 with this fault passes: $2"
    fi
}
plant one-box.yaml 's/^    command: \[serve/    comand: [serve/'
plant one-box.yaml 's/127.0.0.1:7270:7270/7270:7270/'
plant one-box.yaml 's/127.0.0.1:3000:3000/127.0.0.1:9090:3000/'
plant one-box.yaml 's/:v2.53.2$/:latest/'
plant one-box.yaml 's/stop_grace_period: 60s/stop_grace_period: 20s/'
plant one-box.yaml 's/recording.yaml:ro/recording.yml:ro/'
plant one-box.yaml 's/GF_SECURITY_ADMIN_PASSWORD__FILE: .*/GF_SECURITY_ADMIN_PASSWORD: admin/'
plant one-box.yaml 's/cap_drop: \[ALL\]/cap_drop: [NET_RAW]/'
plant one-box.yaml 's/^    secrets: \[grafana-password\]//'
plant scaled.yaml 's/172.30.77.13/172.30.77.14/'
plant scaled.yaml 's/URL: "https:\/\/server-c/URL: "https:\/\/server-b/'
plant scaled.yaml 's/secrets: \[ca.pem, worker.pem, worker.key\]/secrets: [ca.pem, worker.pem]/'
plant scaled.yaml 's/CLOAKWORK_REPLICA__URL/CLOAKWORK_REPLICA__ADDRESS/'

# secrets.sh makes each secret that the files name. A stand-in writes the certificates.
mkdir "$root/compose"
cp secrets.sh "$root/compose/"
cat >"$root/server" <<'STAND_IN'
#!/usr/bin/env bash
for name in ca server worker; do echo x >"$3/$name.pem"; echo x >"$3/$name.key"; done
STAND_IN
chmod +x "$root/server"
CLOAKWORK_SERVER_PROGRAM="$root/server" "$root/compose/secrets.sh" --certificates
sums() { find "$root/compose/secrets" -type f -exec sha256sum {} + | sort; }
sums >"$root/first"
CLOAKWORK_SERVER_PROGRAM="$root/server" "$root/compose/secrets.sh" --certificates
sums | cmp - "$root/first" || fail "secrets.sh replaces secrets"
for file in $(grep -ohE '\./secrets/[a-z0-9./-]+' one-box.yaml scaled.yaml | sort -u); do
    [ -s "$root/compose/$file" ] || fail "secrets.sh does not make $file"
    [ "$(stat -c %a "$root/compose/$file")" = 644 ] || fail "a container cannot read $file"
done
[ "$(stat -c %a "$root/compose/secrets")" = 700 ] || fail "other users can enter the directory of secrets"
[ "$(stat -c %a "$root/compose/secrets/certs/ca.key")" = 600 ] || fail "containers can read the authority's key"

# installation-copy.sh copies the files of server a, and removes those that server a does not have.
# A stand-in replaces chown, which needs root.
mkdir "$root/bin"
printf '#!/bin/sh\n' >"$root/bin/chown"
chmod +x "$root/bin/chown"
sed "s|/servers/|$root/servers/|g" installation-copy.sh >"$root/copy.sh"
copy() { PATH="$root/bin:$PATH" sh "$root/copy.sh" 2>/dev/null; }
held() { (cd "$root/servers/$1/data/installation" && grep -r . . | sort); }
mkdir -p "$root/servers/a/data/installation"
printf 'one\n' >"$root/servers/a/data/installation/key"
printf 'two\n' >"$root/servers/a/data/installation/next"
copy || fail "installation-copy.sh fails at the first start"
for server in b c; do
    [ "$(held $server)" = "$(held a)" ] || fail "installation-copy.sh does not copy a key to server $server"
done
rm "$root/servers/a/data/installation/next"
printf 'three\n' >"$root/servers/a/data/installation/key"
copy || fail "installation-copy.sh fails after a key was forgotten"
for server in b c; do
    [ "$(held $server)" = "$(held a)" ] || fail "installation-copy.sh leaves a forgotten key at server $server"
done
# Without the files of server a, the other servers keep their keys.
before=$(held b)
rm "$root/servers/a/data/installation/key"
if copy; then fail "installation-copy.sh takes an empty installation/ for a copy"; fi
rmdir "$root/servers/a/data/installation"
if copy; then fail "installation-copy.sh needs no server a"; fi
[ "$(held b)" = "$before" ] || fail "installation-copy.sh removes keys although server a has none"
