# Every target does its own set-up. The requirements are a C++ compiler and Rust: rustup, which
# takes the toolchain that rust-toolchain.toml names, or Rust 1.95 or later (with rustfmt and
# clippy, for lint). Parts of the tests also need: npm, to check the protocol and the boards; Python
# 3 with venv, for the GPU kernels, for Envoy and for the Helm chart; nginx; PostgreSQL 15 or later;
# Prometheus and Alertmanager, for the alerts and the boards; valgrind, for the speed gate; OpenSSL
# 3, for the signing program of the docs; Go 1.24 or later, for the comparison with Lattigo, the
# parser of Compose files and the Helm chart; systemd 252, dpkg-deb, readelf and ssh-keygen, for the
# units and packages. `test-all` also needs root, debootstrap, lintian, etcd
# and faketime.

# The directory of the benchmarks' reports. Reports of short forms have a directory of their
# own, so that they do not replace full ones.
REPORTS = target/bench$(if $(filter --quick,$(ARGS)),/quick)

.PHONY: alerts alerts-trial bench bench-circuits bench-ckks bench-ckks-peer bench-gpu bench-peers bench-quick bench-service boards boards-pictures boards-render boards-trial chaos chaos-storm chaos-table console console-trial demo demo-core dist drill helm kernels lint packages packages-trial proxies release reproduce speed test test-all

# Runs the whole service once: a server, keys, an upload, a job, its result and a table of its
# time.
demo:
	tests/service/demo.sh

# Runs the core alone: keys, encrypted lookups and a table of their cost, in one process.
demo-core:
	cargo run --release -p cloakwork-tests-demo

# Builds the programs that ship into target/dist: stripped, with their debug symbols in files
# beside them.
dist:
	deploy/dist.sh

# Runs the tests that CI runs.
test: lint kernels proxies alerts boards console packages helm
	cargo test --workspace
	cargo doc --workspace --no-deps

# Runs `test` and more: the parameter sets whose keys take gigabytes, which need 16 GiB of
# memory; the workspaces outside the main one; the queries of the boards and the pages of the
# console, under a load; each alert, by a fault; and every benchmark in its short form. Needs Go, and
# the network the first time: both for the comparisons with other libraries.
test-all: lint kernels proxies alerts boards console packages helm boards-trial console-trial alerts-trial
	CLOAKWORK_TEST_ALL=1 cargo test --workspace
	cargo test -p cloakwork-math --config profile.dev.package.cloakwork-math.debug-assertions=true
	cargo check --locked --manifest-path tests/peers/Cargo.toml --workspace --all-targets --target-dir target/peers-check
	cargo check --locked --manifest-path tests/fuzz/Cargo.toml --all-targets --target-dir target/fuzz-check
	$(MAKE) packages-trial
	helm/tests/run-rendered.sh
	helm/tests/cluster.sh
	$(MAKE) bench-quick

# Runs every benchmark in its short form. The figures mean little, but the run detects a
# benchmark that no longer works. GPUs are emulated. Reports go to target/bench/quick.
bench-quick:
	$(MAKE) bench ARGS=--quick
	$(MAKE) bench-peers ARGS=--quick
	$(MAKE) bench-circuits ARGS=--quick
	$(MAKE) bench-ckks ARGS=--quick
	$(MAKE) bench-ckks-peer ARGS=--quick
	$(MAKE) bench-service ARGS=--quick
	$(MAKE) bench-gpu ARGS="--quick --emulated"

lint:
	tests/rules/lint.sh
	tests/rules/deny.sh
	proto/check.sh

# Compares registers, spills and instructions of the GPU kernels with the stored ones. Needs a
# compiler, but no GPU.
kernels:
	worker/cuda/check-kernels.sh

# Installs Envoy for the tests behind proxies, outside the clone.
proxies:
	tests/attack/proxies.sh

# Checks the alerts for Prometheus and runs their tests. Also checks the drill, without a server.
alerts:
	deploy/prometheus/check.sh
	deploy/drill/check.sh

# Injects six faults into a running stack, one after the other, and shows the alert, the runbook and
# the recovery of each, with times (docs/drill.md). Fails if an alert does not come, if another one
# comes, or if a job is lost. Takes 11 minutes. Needs root, PostgreSQL, Prometheus, Alertmanager and
# faketime. ARGS="--faults 2,4" selects faults. BIN_DIR names a directory with the programs.
drill:
	deploy/drill/run.sh drill $(ARGS)

# Makes each alert fire by a fault, against a real Prometheus and Alertmanager. Takes about 20
# minutes, and needs the same as drill. ARGS="--groups disk" selects groups of
# deploy/drill/README.md.
alerts-trial:
	deploy/drill/run.sh alerts $(ARGS)

# Compares the boards for Grafana with their source, and checks them.
boards:
	deploy/grafana/check.sh

# Builds the pages of the console, which servers built afterwards contain, and tests them in
# Chromium.
console:
	server/console/check.sh

# Opens the console of a real server in Chromium while jobs run.
console-trial:
	server/console/run.sh build server/console/dist
	cargo build --release -p cloakwork-server -p cloakwork
	CLOAKWORK_SERVER_PROGRAM=$(CURDIR)/target/release/cloakwork-server \
		CLOAKWORK_PROGRAM=$(CURDIR)/target/release/cloakwork server/console/run.sh real 20

# Writes the boards for Grafana from their source.
boards-render:
	deploy/grafana/run.sh render deploy/grafana/dashboards

# Asks a real Prometheus every query of the boards, while servers and workers are under a load for a
# minute. Needs PostgreSQL and Prometheus.
boards-trial:
	deploy/grafana/trial.sh

# Draws docs/boards from a load of a quarter of an hour. Also needs Chromium.
boards-pictures:
	deploy/grafana/trial.sh --seconds 900 --pictures docs/boards
# Checks the units of systemd, the Debian package, the images, the Compose files and the release,
# without the programs. Takes seconds. Downloads hadolint and the parser of Compose files once.
packages:
	deploy/systemd/check.sh
	deploy/deb/check.sh
	deploy/docker/check.sh
	deploy/compose/check.sh
	deploy/release/check.sh

# Installs and runs the real programs: the Debian package under a systemd of its own, the file
# system of the image, and both Compose projects without Docker. Then makes a release twice. Needs
# root.
packages-trial: dist
	mkdir -p target/release-trial
	cargo metadata --locked --format-version 1 --filter-platform $(shell uname -m)-unknown-linux-gnu \
		>target/release-trial/metadata.json
	BIN_DIR=$(CURDIR)/target/dist deploy/deb/trial.sh
	BIN_DIR=$(CURDIR)/target/dist deploy/docker/trial.sh
	BIN_DIR=$(CURDIR)/target/dist deploy/compose/trial.sh
	BIN_DIR=$(CURDIR)/target/dist METADATA=$(CURDIR)/target/release-trial/metadata.json deploy/release/check.sh

# Makes a release of the commit in OUT: programs, packages, image, chart, bill of materials and
# sums. SIGN_KEY=FILE names a private key of OpenSSH, which signs the sums (docs/install.md).
OUT ?= target/releases/$(shell git rev-parse --short=12 HEAD)
release:
	mkdir -p $(dir $(OUT))
	deploy/release/release.sh $(OUT)

# Builds the programs of a release twice, in different places, and compares the bytes.
reproduce:
	deploy/release/reproduce.sh
# Checks the Helm chart, without a cluster. UPDATE=1 writes what the checks compare.
helm:
	helm/check.sh

# Compares instruction counts with the stored ones, as a part of `test`.
# CLOAKWORK_UPDATE_SPEED=1 stores new ones.
speed:
	cargo test -p cloakwork-tests-speed

# Measures the core: external products by shape and instruction set, then bootstraps by
# parameter set. ARGS=KS32 selects the sets with KS32 in their names, ARGS=--quick measures
# everything once.
bench:
	cargo run --release -p cloakwork-tests-core --bin bench -- $(ARGS)

# Compares bootstraps with tfhe-rs, in alternation in one process, and writes
# target/bench/peers.json. ARGS=--huge runs everything: also 4_4, which takes 16 GiB of memory.
bench-peers:
	tests/peers/run.sh --json $(REPORTS)/peers.json $(ARGS)

# Compares computations on integers, as jobs of the service, with tfhe-rs, in alternation, and
# writes target/bench/circuits.json. ARGS="--document docs/operations.md" also renews the table
# there.
bench-circuits:
	tests/peers/circuits/run.sh --json $(REPORTS)/circuits.json $(ARGS)

# Measures CKKS and writes target/bench/ckks.json: transforms beside those of tfhe-ntt, keys,
# bootstraps, and the precision of bootstraps over ten secrets. The target fails where the
# precision is too low. 16 GiB of memory are enough for the rows in docs/ckks.md. ARGS=--quick
# measures toy sets, ARGS="--case 'CKKS_45_60_50_H4096 regular 32768 medium 5'" one row,
# ARGS="--only exactness" one part.
bench-ckks:
	cargo run --release -p cloakwork-tests-ckks -- --out $(REPORTS)/ckks.json $(ARGS)

# Compares the CKKS bootstrap with Lattigo's, in turn, on one thread each, and writes
# target/bench/ckks-peer.json. Takes Go, 16 GiB of memory and minutes for each round, mostly for
# making keys. ARGS=--quick compares toy sets, ARGS="--case H192 --rounds 5" one of Lattigo's
# sets.
bench-ckks-peer:
	tests/peers/lattigo/run.sh --out $(REPORTS)/ckks-peer.json $(ARGS)

# Tests the GPUs of this machine for correctness, error rate and speed, and writes
# target/bench/gpu.json. KERNELS=DIRECTORY is the output directory of
# worker/cuda/build-kernels.sh. ARGS="--quick --emulated" uses toy sets, no GPU and no KERNELS,
# ARGS="--help" shows the rest.
bench-gpu:
	mkdir -p $(REPORTS)
	$(if $(KERNELS),CLOAKWORK_CUDA_KERNELS=$(abspath $(KERNELS))) cargo run --release -p cloakwork-tests-gpu -- --json $(REPORTS)/gpu.json $(ARGS)

# Compares a server process under load with the core, in alternation, and writes
# target/bench/service.json. Takes a quarter of an hour; ARGS=--quick takes one minute.
bench-service:
	cargo build --release -p cloakwork-tests-service --bins
	cargo run --release -p cloakwork-tests-load -- $(if $(filter --out%,$(ARGS)),,--out $(REPORTS)/service.json) $(ARGS)

# Runs TRIALS trials (default 1) of the fault FAULT, or of all faults, on three servers with one
# database, and appends them to tests/cluster/ledger.jsonl. 50 trials of one fault take up to half an
# hour. Fault 15 needs the package faketime, and fault 16 the path of an earlier tested-server in
# CLOAKWORK_EARLIER. chaos-table writes the table of docs/reliability.md.
TRIALS ?= 1
chaos:
	cargo build --release -p cloakwork-tests-service -p cloakwork-tests-cluster --bins
	target/release/chaos $(if $(FAULT),--fault $(FAULT)) $(if $(LIVE_JOBS),--live-jobs $(LIVE_JOBS)) --trials $(TRIALS)

# Does random harm to servers and workers of two shards for ten minutes, and appends the outcome to
# tests/cluster/storms.jsonl.
SEED ?= 1
MINUTES ?= 10
chaos-storm:
	cargo build --release -p cloakwork-tests-service -p cloakwork-tests-cluster --bins
	target/release/chaos --storm $(MINUTES) --seed $(SEED)

chaos-table:
	CLOAKWORK_UPDATE_DOCS=1 cargo test -p cloakwork-tests-cluster the_table_of_the_docs
