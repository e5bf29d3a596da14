# Every target does its own set-up: rustup, which takes the toolchain that rust-toolchain.toml names, or Rust 1.95 or later
# (with rustfmt and clippy, for lint), and a C++ compiler are all it takes; npm as well, for the check of the protocol, Python 3 with
# venv, for the kernels of GPUs and for Envoy, nginx, valgrind, for the gate for speed, and Go 1.24 or later, for what is compared with Lattigo.

# Where benchmarks write their reports. Those of short forms do not take the place of full ones.
REPORTS = target/bench$(if $(filter --quick,$(ARGS)),/quick)

.PHONY: demo demo-core dist test test-all lint kernels proxies speed bench bench-circuits bench-ckks bench-ckks-peer bench-gpu bench-peers bench-quick bench-service

# The whole service once: a server, keys, an upload, a job, its result and where its time went.
demo:
	tests/service/demo.sh

# The core alone: keys, encrypted lookups and a table of what they cost, in one process.
demo-core:
	cargo run --release -p cloakwork-tests-demo

# The programs that ship, stripped, with their debug symbols in files beside them: target/dist.
dist:
	deploy/dist.sh

# What CI runs.
test: lint kernels proxies
	cargo test --workspace
	cargo doc --workspace --no-deps

# Also the sets whose keys take gigabytes, which needs 16 GiB of memory; the workspaces that are not part of the main one; and
# every benchmark in its short form. Needs Go, and the network the first time: both for what is compared with others.
test-all: lint kernels proxies
	CLOAKWORK_TEST_ALL=1 cargo test --workspace
	cargo check --locked --manifest-path tests/peers/Cargo.toml --workspace --all-targets --target-dir target/peers-check
	cargo check --locked --manifest-path tests/fuzz/Cargo.toml --all-targets --target-dir target/fuzz-check
	$(MAKE) bench-quick

# Every benchmark in its short form: the figures mean little, and whatever no longer runs is found. GPUs are emulated.
# Reports go to target/bench/quick.
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
	proto/check.sh

# Registers, spills and instructions of the kernels of GPUs against those stored: a compiler, but no GPU.
kernels:
	worker/cuda/check-kernels.sh

# Installs Envoy for the tests behind proxies, outside the clone.
proxies:
	tests/attack/proxies.sh

# Counted instructions against those stored, a part of `test`; CLOAKWORK_UPDATE_SPEED=1 stores them anew.
speed:
	cargo test -p cloakwork-tests-speed

# Our own time: external products by shape and instruction set, then bootstraps by set. ARGS=KS32 narrows it to the sets
# with that in their names, ARGS=--quick measures everything once.
bench:
	cargo run --release -p cloakwork-tests-core --bin bench -- $(ARGS)

# Ours against tfhe-rs, alternating in one process; writes target/bench/peers.json. ARGS=--huge runs everything:
# also 4_4, which takes 16 GiB of memory.
bench-peers:
	tests/peers/run.sh --json $(REPORTS)/peers.json $(ARGS)

# Computations on integers, jobs of the service against tfhe-rs, alternating; writes target/bench/circuits.json. ARGS="--document
# docs/operations.md" renews the table there as well.
bench-circuits:
	tests/peers/circuits/run.sh --json $(REPORTS)/circuits.json $(ARGS)

# Transforms of CKKS beside those of tfhe-ntt, keys, bootstraps, and how exact these are over ten secrets, which fails where they are not exact
# enough; writes target/bench/ckks.json. Sixteen GiB of memory are enough for the rows in docs/ckks.md;
# ARGS=--quick measures toys, ARGS="--case 'CKKS_45_60_50 regular 32768 medium 5'" one row, ARGS="--only exactness" one part.
bench-ckks:
	cargo run --release -p cloakwork-tests-ckks -- --out $(REPORTS)/ckks.json $(ARGS)

# Our bootstrap of CKKS and Lattigo's in turn, on one thread each; writes target/bench/ckks-peer.json. Takes Go, 16 GiB of memory and
# minutes for each round, most of them to make keys; ARGS=--quick compares toys, ARGS="--case H192 --rounds 5" one of Lattigo's sets.
bench-ckks-peer:
	tests/peers/lattigo/run.sh --out $(REPORTS)/ckks-peer.json $(ARGS)

# The GPUs of this machine: whether they compute what they should, how often they are wrong, how fast they are; writes
# target/bench/gpu.json. KERNELS=DIRECTORY is where worker/cuda/build-kernels.sh has put its work. ARGS="--quick --emulated" takes
# toys and no GPU, ARGS="--help" shows the rest.
bench-gpu:
	mkdir -p $(REPORTS)
	CLOAKWORK_CUDA_KERNELS=$(abspath $(KERNELS)) cargo run --release -p cloakwork-tests-gpu -- --json $(REPORTS)/gpu.json $(ARGS)

# A server process under load against the core, alternating; writes target/bench/service.json. Takes a quarter of an
# hour; ARGS=--quick takes one minute.
bench-service:
	cargo build --release -p cloakwork-tests-service --bins
	cargo run --release -p cloakwork-tests-load -- $(if $(filter --out%,$(ARGS)),,--out $(REPORTS)/service.json) $(ARGS)
