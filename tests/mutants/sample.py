"""Samples of mutants, and the tables of their outcomes."""

import collections
import csv
import hashlib
import json
import re
import subprocess
import typing

import tree


class Sample(typing.NamedTuple):
    package: str
    folder: str
    files: list[str]
    excluded: list[str] = []


SAMPLES = {
    # The simulator and the checks are part of the tests.
    "scheduler": Sample(
        "cloakwork-scheduler",
        "server/scheduler",
        ["server/scheduler/src/**"],
        ["server/scheduler/src/sim/**", "server/scheduler/src/sim.rs", "server/scheduler/src/scheduler/check.rs"],
    ),
    "keystore": Sample("cloakwork-keystore", "keystore", ["keystore/src/**"]),
    # Admission of jobs, their dispatch and their store.
    "jobs": Sample(
        "cloakwork-server",
        "server",
        [f"server/src/{room}{files}" for room in ("admit", "dispatch", "jobs", "store") for files in (".rs", "/**")],
    ),
    "noise": Sample(
        "cloakwork-params", "crypto/params", ["crypto/params/src/noise.rs", "crypto/params/src/noise/**"]
    ),
}
SEED = "cloakwork-mutants-1"
COUNT = 200
NOT_RUN = "not run"


def identities(name):
    """Maps each mutant's identity to the mutant as cargo-mutants describes it.

    The identity has no line number, so that a change elsewhere in a file does not draw another
    sample. Mutants of a function that read alike are counted in their order.
    """
    counts = collections.Counter()
    found = {}
    for mutant in listed(SAMPLES[name]):
        bare = re.sub(r":\d+:\d+: ", ": ", mutant["name"])
        counts[bare] += 1
        found[f"{bare} #{counts[bare]}"] = mutant
    return found


def listed(sample):
    command = ["cargo", "mutants", "--list", "--json", "--package", sample.package]
    for file in sample.files:
        command += ["--file", file]
    for file in sample.excluded:
        command += ["--exclude", file]
    # Consistency checks run only in tests.
    command += ["--exclude-re", r"\b[A-Z]\w+::check\b"]
    return json.loads(subprocess.run(command, cwd=tree.ROOT, stdout=subprocess.PIPE, check=True).stdout)


def drawn(found):
    """The first COUNT identities in the order of their seeded digests."""
    by_digest = sorted(found, key=lambda identity: hashlib.sha256(f"{SEED} {identity}".encode()).digest())
    return sorted(by_digest[:COUNT])


def table(name):
    return tree.ROOT / f"tests/mutants/{name}.tsv"


def read(name):
    """Outcome and explanation of each identity in a table."""
    if not table(name).exists():
        return {}
    with table(name).open() as lines:
        return {row["mutant"]: (row["outcome"], row["explanation"]) for row in csv.DictReader(lines, delimiter="\t")}


def write(name, sample, rows):
    lines = [("outcome", "mutant", "explanation")]
    for identity in sample:
        outcome, explanation = rows.get(identity, (NOT_RUN, ""))
        lines.append((outcome, identity, explanation if outcome == "survived" else ""))
    table(name).write_text("".join("\t".join(line) + "\n" for line in lines))
