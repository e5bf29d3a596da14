#!/usr/bin/env bash
# Asks a real Prometheus every query of every panel. The script starts, on loopback, PostgreSQL with
# a standby, two servers, two workers and Prometheus, and puts them under a load of several tenants.
# On the way, it kills a worker and the server that owns the database. Then each query must have an
# answer, and one with values unless src/queries/empty.ts gives a reason.
#
#   trial.sh [--seconds N] [--pictures DIRECTORY]
#
# --seconds is the time of the load, 60 by default. --pictures also draws each board into DIRECTORY,
# and needs Chromium.
#
# Needs Node.js, npm, curl, and the programs of the packages prometheus and postgresql (version 15
# or later). If one is missing, the script fails where `CI` is `true`, and prints a loud message
# elsewhere. BOARDS_BINARIES names a directory with cloakwork-server, cloakwork-worker and
# cloakwork; without it, cargo builds them. Leaves nothing behind, whatever happens.
set -euo pipefail
# Each background job gets a process group, by which the script ends it with its children.
set -m
here=$(cd "$(dirname "$0")" && pwd)

give_up() {
    if [ "${CI:-}" = true ]; then
        echo "$1: the queries of the boards cannot be tried" >&2
        exit 1
    fi
    echo "*** SKIPPED: $1: the queries of the boards were not tried ***" >&2
    exit 0
}

seconds=60
pictures=
while [ $# -gt 0 ]; do
    case $1 in
        --seconds) seconds=$2 ;;
        --pictures) pictures=$2 ;;
        *)
            echo "usage: trial.sh [--seconds N] [--pictures DIRECTORY]" >&2
            exit 2
            ;;
    esac
    shift 2
done

if [ -n "$pictures" ]; then
    mkdir -p "$pictures"
    pictures=$(cd "$pictures" && pwd)
fi

postgres=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -n "$postgres" ] || give_up "PostgreSQL is missing"
for program in node npm curl prometheus; do
    command -v "$program" >/dev/null || give_up "$program is missing"
done
chromium=
if [ -n "$pictures" ]; then
    chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
    [ -n "$chromium" ] || give_up "Chromium is missing"
fi

binaries=${BOARDS_BINARIES:-}
if [ -z "$binaries" ]; then
    cargo build --release -p cloakwork-server -p cloakwork-worker -p cloakwork
    binaries=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release
fi
export PATH="$binaries:$PATH"

# Variables for other servers must not reach these.
for name in ${!CLOAKWORK_@}; do
    [ "$name" = CLOAKWORK_CACHE ] || unset "$name"
done

work=$(mktemp -d)
jobs=()
cleanup() {
    set +e
    # Nothing of the installation is needed any more, so nothing has to end in order.
    for job in "${jobs[@]}"; do
        kill -KILL -- "-$job" 2>/dev/null
    done
    for job in "${jobs[@]}"; do
        wait "$job" 2>/dev/null
    done
    for place in standby primary; do
        [ ! -f "$work/$place/postmaster.pid" ] || as_postgres "$postgres/pg_ctl" -D "$work/$place" -m immediate -w stop >/dev/null
    done
    rm -rf "$work"
}
trap cleanup EXIT
trap 'tail -n 5 "$work/setup.log" >&2 2>/dev/null || true' ERR
trap 'exit 130' INT
trap 'exit 143' TERM
chmod 755 "$work"

# Starts a command in the background, with its output in a file, and keeps its process for the end.
background() {
    local log=$1
    shift
    "$@" >"$work/$log.log" 2>&1 &
    jobs+=($!)
    started=$!
}

# Sleeps, and still handles a signal at once.
rest() {
    background rest sleep "$1"
    wait "$started"
}

# Waits until a command succeeds, while the process that was started last runs, for at most a
# minute.
await() {
    local what=$1
    shift
    for _ in $(seq 300); do
        if "$@" >/dev/null 2>&1; then return; fi
        kill -0 "$started" 2>/dev/null || break
        sleep 0.2
    done
    echo "$what did not become ready" >&2
    tail -n 20 "$work"/*.log >&2
    exit 1
}

# PostgreSQL refuses to run as root.
as_postgres() {
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid postgres --regid postgres --clear-groups "$@"
    else
        "$@"
    fi
}

read -r api_a admin_a api_b admin_b worker_a worker_b metrics database standby collector < <(node -e '
const net = require("node:net");
const free = () => new Promise(done => { const server = net.createServer().listen(0, "127.0.0.1", () => done(server)); });
Promise.all(Array.from({ length: 10 }, free)).then(all => {
  console.log(all.map(server => server.address().port).join(" "));
  all.forEach(server => server.close());
});')

echo "PostgreSQL with a standby"
mkdir "$work/primary" "$work/standby" "$work/sockets"
chmod 700 "$work/primary" "$work/standby"
[ "$(id -u)" != 0 ] || chown postgres:postgres "$work/primary" "$work/standby" "$work/sockets"
options="-h 127.0.0.1 -k $work/sockets -F"
as_postgres "$postgres/initdb" -D "$work/primary" -A trust -U postgres --no-sync >/dev/null
as_postgres "$postgres/pg_ctl" -D "$work/primary" -l "$work/sockets/primary.log" -o "$options -p $database" -w start >/dev/null
sql() {
    "$postgres/psql" -h 127.0.0.1 -p "$database" -U postgres -qc "$1"
}
sql "CREATE DATABASE cloakwork ENCODING 'UTF8' TEMPLATE template0"
as_postgres "$postgres/pg_basebackup" -D "$work/standby" -R -X stream -c fast -d "host=127.0.0.1 port=$database user=postgres application_name=standby"
as_postgres "$postgres/pg_ctl" -D "$work/standby" -l "$work/sockets/standby.log" -o "$options -p $standby" -w start >/dev/null
sql "ALTER SYSTEM SET synchronous_standby_names = '*'"
sql "SELECT pg_reload_conf()" >/dev/null

echo "two servers and two workers"
cd "$work"
# A collector of traces that takes all and keeps none.
background collector node -e '
require("node:http").createServer((request, response) => {
  request.resume().on("end", () => response.writeHead(200, { "content-type": "application/x-protobuf" }).end());
}).listen(process.argv[1], "127.0.0.1");' "$collector"
cloakwork-server dev-certs --out certs >/dev/null
cat >cluster.toml <<END
verify_percent = 10
allow_weak_sets = true
[listen]
tls_certificate = "certs/server.pem"
tls_key = "certs/server.key"
client_ca = "certs/ca.pem"
trusted_proxies = "127.0.0.1"
[database]
url = "postgres://postgres@127.0.0.1:$database/cloakwork"
require_sync_standby = true
[storage]
blobs = "local"
[replica]
ca_file = "certs/ca.pem"
[auth]
anonymous = false
[worker]
embedded = false
[limits]
lease_ms = 3000
[telemetry]
otlp_endpoint = "http://127.0.0.1:$collector"
otlp_protocol = "http"
trace_percent = 2
[pools.cpu]
bootstraps_per_second = 100
sets = ""
END
export CLOAKWORK_CONFIG=cluster.toml CLOAKWORK_CA=certs/ca.pem
serve() {
    background "server-$1" cloakwork-server serve --set "storage.directory=data-$1" \
        --set "listen.address=127.0.0.1:$2" --set "listen.admin_address=127.0.0.1:$3" \
        --set "replica.url=https://localhost:$2"
    await "the server $1" curl -sf "http://127.0.0.1:$3/readyz"
}
serve a "$api_a" "$admin_a"
owner=$started
mkdir -m 700 data-b
cp -a data-a/installation data-b/
# On one machine, servers can share a directory of blobs as they would share a bucket.
ln -s "$work/data-a/blobs" data-b/blobs
serve b "$api_b" "$admin_b"

# Tokens and keys are for the owner alone, and pictures are not.
usual=$(umask)
umask 077
# The command line says on standard error that a token is printed once.
tenant() {
    cloakwork-server tenant create "$1" >/dev/null
    cloakwork-server token create --tenant "$1" --scopes "$2" 2>>setup.log | tail -n 1 >"$1.token"
}
tenant workers worker
work_for() {
    background "worker-$1" cloakwork-worker --server "https://localhost:$api_a,https://localhost:$api_b" --ca certs/ca.pem \
        --token-file workers.token --name "worker-$1" --threads 1 --devices cpu --metrics "127.0.0.1:$2"
}
work_for a "$worker_a"
work_for b "$worker_b"
killed=$started

echo "Prometheus"
# A picture has 180 values of a series, and a rate takes four scrapes.
scrape=$((seconds < 360 ? 1 : seconds / 180))
rules=$(ls "$here"/../prometheus/{recording,alerts}.yaml 2>/dev/null | sed 's/.*/"&"/' | paste -sd, || true)
cat >prometheus.yml <<END
global: {scrape_interval: ${scrape}s, evaluation_interval: 5s}
rule_files: [$rules]
scrape_configs:
  - job_name: cloakwork-server
    static_configs:
      - targets: ["127.0.0.1:$admin_a"]
        labels: {instance: server-a}
      - targets: ["127.0.0.1:$admin_b"]
        labels: {instance: server-b}
  - job_name: cloakwork-worker
    static_configs:
      - targets: ["127.0.0.1:$worker_a"]
        labels: {instance: worker-a}
      - targets: ["127.0.0.1:$worker_b"]
        labels: {instance: worker-b}
END
background prometheus prometheus --config.file=prometheus.yml --storage.tsdb.path=metrics \
    --enable-feature=exemplar-storage --web.listen-address="127.0.0.1:$metrics"
await Prometheus curl -sf "http://127.0.0.1:$metrics/-/ready"

echo "a load of $seconds seconds"
tenants="genomics payments fraud-model ad-metrics sensors models"
for name in $tenants; do
    tenant "$name" jobs,keys,read
done
# Runs the command line as a tenant, against the server that owns nothing, which passes calls on.
as() {
    local tenant=$1
    shift
    CLOAKWORK_TOKEN=$(cat "$tenant.token") CLOAKWORK_KEYS="keys-$tenant" CLOAKWORK_SERVER="https://localhost:$api_b" cloakwork "$@"
}
for name in genomics payments fraud-model ad-metrics; do
    as "$name" keygen >/dev/null
done
as sensors keygen --set PARAMETERS_ERROR_PROB_2_POW_MINUS_165_KS_PBS >/dev/null
# The set is weak, of which the command line warns. Its keys are small.
as models ckks keygen --set TOY_CKKS_45_60_50 --bootstrap 512:5:medium >/dev/null 2>>setup.log
as models ckks encrypt 0.5 -0.25 --slots 512 --level 0 --out vector.ckks >/dev/null 2>>setup.log
for name in $tenants; do
    as "$name" keys push >/dev/null 2>>setup.log
done

# Repeats a command until the end of the load. Refused and failed commands are a part of it.
repeat() {
    local pause=$1
    shift
    while true; do
        "$@" || true
        sleep "$pause"
    done
}
mistakes() {
    CLOAKWORK_TOKEN=cw_wrong CLOAKWORK_SERVER="https://localhost:$api_b" cloakwork jobs ls || true
    as payments jobs show 00000000-0000-7000-8000-000000000000 || true
    as payments keys show 00000000000000000000000000000000 || true
}
cancelled() {
    as ad-metrics eval 'x * y' x=u32:70000 y=u32:50000 &
    sleep 1
    as ad-metrics jobs ls --state queued --state running --limit 1 | awk 'NR > 1 { print $1 }' | while read -r job; do
        as ad-metrics jobs cancel "$job"
    done
    wait
}
integers() {
    as fraud-model eval 'max(x, y) + z' x=u8:7 y=u8:9 z=u8:3
    as fraud-model eval 'x * y' x=u8:7 y=u8:9
    as fraud-model eval 'x < y' x=u16:700 y=u16:900
}
vectors() {
    rm -f fresh.ckks
    as models ckks bootstrap vector.ckks --stages 5 --size medium --out fresh.ckks
}
begin=$(date +%s)
background genomics as genomics bench --clients 3 --rows 24 --duration "$seconds"
background payments as payments bench --rate 3 --rows 2 --duration "$seconds"
background fraud-model repeat 0.5 integers
background sensors repeat 1 as sensors gate NAND --left 0,0,1,1 --right 0,1,0,1
background models repeat 2 vectors
background mistakes repeat 7 mistakes
background cancelled repeat 11 cancelled
rest $((seconds * 3 / 10))
background ad-metrics as ad-metrics bench --clients 24 --rows 40 --duration $((seconds * 2 / 10))
rest $((seconds * 3 / 10))
# Ends a process as a crash would.
crash() {
    kill -KILL "$1"
    wait "$1" 2>/dev/null || true
}
# The server gives the jobs of a crashed worker to the other one.
crash "$killed"
rest $((seconds / 10))
work_for b "$worker_b"
rest $((seconds / 10))
# The other server replaces a crashed owner.
crash "$owner"
rest $((seconds / 30))
serve a "$api_a" "$admin_a"
left=$((begin + seconds - $(date +%s)))
[ "$left" -le 0 ] || rest "$left"
end=$(date +%s)

status=0
"$here/run.sh" queries/main "http://127.0.0.1:$metrics" $((begin + 5)) "$end" "$scrape" "$here/dashboards" || status=$?
umask "$usual"
if [ -n "$pictures" ]; then
    "$here/run.sh" pictures/main "http://127.0.0.1:$metrics" $((begin + 5)) "$end" "$scrape" "$here/dashboards" "$pictures" "$chromium"
fi
[ "$status" != 9 ] || status=0
exit "$status"
