#!/usr/bin/env python3
"""Compares two versions of this project by a benchmark, in alternation.

    tests/compare/compare.py OTHER BENCHMARK [--rounds 7] [-- OPTIONS]

OTHER is a clone or worktree of the other version. BENCHMARK is `service`, `peers` or `ckks`. Both
versions must be built: the targets of the Makefile that run the benchmarks build them. OPTIONS go
to the benchmark, for example --quick.

Each round runs both versions, in an order that changes from round to round. The table has the
median over all rounds of this version's figure over the other's, with the least and the greatest.
Rows are matched by their position in the reports, so both versions must measure the same rows.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

# For each benchmark: its program, the option that names its report, and the figures to compare.
BENCHMARKS = {
    "service": ("target/release/bench-service", "--out", ("median",)),
    "peers": ("target/peers/release/cloakwork-peers", "--json", ("ratio", "over_key")),
    "ckks": (
        "target/release/bench-ckks",
        "--out",
        (
            "forward_us",
            "inverse_us",
            "make_seconds_per_gb",
            "write_seconds_per_gb",
            "read_seconds_per_gb",
            "masks_seconds_per_gb",
            "seconds",
            "seconds_on_all_cores",
        ),
    ),
}
# Texts of a row that tell it from the others.
NAMES = ("name", "set", "kind", "stages", "slots", "size", "prime", "arithmetic", "unit")
HERE = pathlib.Path(__file__).resolve().parents[2]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("other", type=pathlib.Path)
    arguments.add_argument("benchmark", choices=BENCHMARKS)
    arguments.add_argument("--rounds", type=int, default=7)
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    given, options = arguments.parse_args(sys.argv[1:split]), sys.argv[split + 1 :]
    trees = {"this": HERE, "other": given.other.resolve()}
    ratios = {}
    for number in range(given.rounds):
        order = sorted(trees, reverse=number % 2 == 0)
        figures = {side: run(trees[side], given.benchmark, options) for side in order}
        if len(figures["this"]) != len(figures["other"]):
            raise SystemExit("the two versions measure different rows")
        for at, (name, this) in enumerate(figures["this"]):
            ratios.setdefault((at, name), []).append(ratio(this, figures["other"][at][1]))
        print(f"round {number + 1} of {given.rounds}", flush=True)
        show(ratios)


def ratio(this, other):
    """One figure over another. A stage may take no measurable time, so that its figure is zero."""
    if this == other:
        return 1.0
    return this / other if other else math.inf


def run(tree, benchmark, options):
    """The named figures of one run, in the order of its report."""
    program, out, figures = BENCHMARKS[benchmark]
    with tempfile.TemporaryDirectory() as directory:
        report = pathlib.Path(directory) / "report.json"
        command = [str(tree / program), out, str(report), *options]
        subprocess.run(command, cwd=tree, check=True, stdout=subprocess.DEVNULL)
        return list(found(json.loads(report.read_text()), figures))


def found(value, figures):
    """The figures in a report, each with the name of its row."""
    if isinstance(value, list):
        for element in value:
            yield from found(element, figures)
    elif isinstance(value, dict):
        row = " ".join(str(value[name]) for name in NAMES if isinstance(value.get(name), (str, int)))
        for key, element in value.items():
            if key in figures and isinstance(element, (int, float)):
                yield f"{row}, {key}", float(element)
            elif key in figures and isinstance(element, dict) and "median" in element:
                yield f"{row}, {key}", float(element["median"])
            else:
                yield from found(element, figures)


def show(ratios):
    print(f"{'this over other':<100} {'median':>7} {'least':>7} {'most':>7}")
    for (_, name), values in ratios.items():
        print(f"{name:<100} {statistics.median(values):>7.3f} {min(values):>7.3f} {max(values):>7.3f}", flush=True)


main()
