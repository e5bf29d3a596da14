#!/usr/bin/env python3
"""Tests a fixed random sample of mutants and records the outcome of each mutant.

    tests/mutants/mutants.py SAMPLE [--draw | --all]

SAMPLE is a name of SAMPLES. The outcomes are in tests/mutants/SAMPLE.tsv. A run tests the mutants
that were neither caught nor unviable, and keeps the explanations of survivors. `--all` tests every
mutant of the sample again. `--draw` prints the sample and tests nothing. cargo-mutants changes a
copy of the tree, never the tree itself.
"""

import collections
import csv
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

SAMPLES = {
    # The simulator and the checks are part of the tests.
    "scheduler": (
        "cloakwork-scheduler",
        ["server/scheduler/src/**"],
        ["server/scheduler/src/sim/**", "server/scheduler/src/sim.rs", "server/scheduler/src/scheduler/check.rs"],
    ),
    "keystore": ("cloakwork-keystore", ["keystore/src/**"], []),
    # Admission of jobs, their dispatch and their store.
    "jobs": (
        "cloakwork-server",
        [f"server/src/{room}{files}" for room in ("admit", "dispatch", "jobs", "store") for files in (".rs", "/**")],
        [],
    ),
    "noise": ("cloakwork-params", ["crypto/params/src/noise.rs", "crypto/params/src/noise/**"], []),
}
SEED = "cloakwork-mutants-1"
COUNT = 200
TIMEOUT_SECONDS = 60
# Outcomes are written after each part, so that an interrupted run loses little.
PART = 20
ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests/mutants"
WORK = ROOT / "target/mutants"
OUTCOMES = {
    "CaughtMutant": "caught",
    "MissedMutant": "survived",
    "Timeout": "timeout",
    "Unviable": "unviable",
}
NOT_RUN = "not run"
# Success, survivors and timeouts. Others are errors of the run.
RETURN_CODES = (0, 2, 3)


def cargo_mutants(name, *options, **keywords):
    package, files, excluded = SAMPLES[name]
    command = ["cargo", "mutants", "--package", package]
    for file in files:
        command += ["--file", file]
    for file in excluded:
        command += ["--exclude", file]
    # Consistency checks run only in tests.
    command += ["--exclude-re", r"\b[A-Z]\w+::check\b"]
    return subprocess.run([*command, *options], cwd=ROOT, text=True, **keywords)


def identities(name):
    """Maps each mutant's identity to its name in cargo-mutants.

    The identity has no line number, so that a change elsewhere in a file does not draw another
    sample. Mutants of a function that read alike are counted in their order.
    """
    listed = cargo_mutants(name, "--list", "--json", stdout=subprocess.PIPE, check=True)
    counts = collections.Counter()
    found = {}
    for mutant in json.loads(listed.stdout):
        bare = re.sub(r":\d+:\d+: ", ": ", mutant["name"])
        counts[bare] += 1
        found[f"{bare} #{counts[bare]}"] = mutant["name"]
    return found


def drawn(found):
    """The first COUNT identities in the order of their seeded digests."""
    by_digest = sorted(found, key=lambda identity: hashlib.sha256(f"{SEED} {identity}".encode()).digest())
    return sorted(by_digest[:COUNT])


def test(name, mutants, baseline):
    """The outcomes of some mutants, by their names in cargo-mutants."""
    # Built fast and optimized a little, because each mutant needs a build and a test run.
    environment = os.environ | {
        "CARGO_TARGET_DIR": str(WORK / f"build-{name}"),
        "CARGO_INCREMENTAL": "1",
        "CARGO_PROFILE_DEV_DEBUG": "false",
        "CARGO_PROFILE_DEV_OPT_LEVEL": "1",
    }
    out = WORK / name
    out.mkdir(parents=True, exist_ok=True)
    # cargo-mutants applies no filter to mutants that delete a field. `--iterate` skips the mutants
    # that an earlier part has caught.
    options = ["--jobs", "1", "--timeout", str(TIMEOUT_SECONDS), "--baseline", baseline]
    options += ["--iterate", "--output", str(out)]
    for mutant in mutants:
        options += ["--re", f"^{re.escape(mutant)}$"]
    run = cargo_mutants(name, *options, env=environment)
    if run.returncode not in RETURN_CODES:
        sys.exit(run.returncode)
    outcomes = json.loads((out / "mutants.out/outcomes.json").read_text())["outcomes"]
    tested = [outcome for outcome in outcomes if outcome["scenario"] != "Baseline"]
    return {outcome["scenario"]["Mutant"]["name"]: OUTCOMES[outcome["summary"]] for outcome in tested}


def read(table):
    """Outcome and explanation of each identity in a table."""
    if not table.exists():
        return {}
    with table.open() as lines:
        return {row["mutant"]: (row["outcome"], row["explanation"]) for row in csv.DictReader(lines, delimiter="\t")}


def write(table, sample, rows):
    lines = [("outcome", "mutant", "explanation")]
    for identity in sample:
        outcome, explanation = rows.get(identity, (NOT_RUN, ""))
        lines.append((outcome, identity, explanation if outcome == "survived" else ""))
    table.write_text("".join("\t".join(line) + "\n" for line in lines))


def main():
    name, options = sys.argv[1] if len(sys.argv) > 1 else "", sys.argv[2:]
    if name not in SAMPLES or options not in ([], ["--draw"], ["--all"]):
        sys.exit(__doc__)
    found = identities(name)
    sample = drawn(found)
    if options == ["--draw"]:
        print(*sample, sep="\n")
        return
    table = HERE / f"{name}.tsv"
    rows = read(table)
    done = ("caught", "unviable") if not options else ()
    left = [identity for identity in sample if rows.get(identity, (NOT_RUN, ""))[0] not in done]
    shutil.rmtree(WORK / name, ignore_errors=True)
    for start in range(0, len(left), PART):
        part = left[start : start + PART]
        outcomes = test(name, [found[identity] for identity in part], "skip" if start else "run")
        for identity in sample:
            if found[identity] in outcomes:
                rows[identity] = (outcomes[found[identity]], rows.get(identity, ("", ""))[1])
        write(table, sample, rows)
    print(dict(collections.Counter(rows[identity][0] for identity in sample)))


main()
