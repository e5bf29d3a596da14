#!/usr/bin/env python3
"""Tests a fixed random sample of mutants and records the outcome of each mutant.

    tests/mutants/mutants.py SAMPLE [--draw | --all] [--jobs N]

SAMPLE is a name of SAMPLES in sample.py. The outcomes are in tests/mutants/SAMPLE.tsv. A run tests
the mutants that were neither caught nor unviable, and keeps the explanations of survivors. `--all`
tests every mutant of the sample again. `--draw` prints the sample and tests nothing. `--jobs` is
the number of mutants that are tested at the same time. All changes go into a copy of the tree.
"""

import argparse
import collections
import resource
import sys

# The tests' folder stays as it is in the repository.
sys.dont_write_bytecode = True

import outcomes
import sample

# A mutant may allocate without end. Its process then fails before the machine runs out of memory.
PROCESS_BYTES_MAX = 12 << 30


def main():
    options = arguments()
    found = sample.identities(options.sample)
    drawn = sample.drawn(found)
    if options.draw:
        print(*drawn, sep="\n")
        return
    resource.setrlimit(resource.RLIMIT_DATA, (PROCESS_BYTES_MAX, PROCESS_BYTES_MAX))
    rows = sample.read(options.sample)
    done = () if options.all else ("caught", "unviable")
    left = {identity: found[identity] for identity in drawn if rows.get(identity, ("", ""))[0] not in done}
    # The table is written after each mutant, so that an interrupted run loses little.
    for identity, outcome in outcomes.of(options.sample, sample.SAMPLES[options.sample], left, options.jobs):
        rows[identity] = (outcome, rows.get(identity, ("", ""))[1])
        sample.write(options.sample, drawn, rows)
        print(outcome, identity, sep="\t", flush=True)
    print(dict(collections.Counter(rows[identity][0] for identity in drawn)))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sample", choices=sample.SAMPLES)
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    return parser.parse_args()


main()
