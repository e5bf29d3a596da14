#!/usr/bin/env python3
"""Runs kube-score on rendered charts, and compares its findings with those that are ignored.

usage: score.py RENDERED...

A finding that is not listed fails, and so does a listed one that kube-score does not have any more.
"""

import json
import subprocess
import sys
from pathlib import Path

ALL = {"embedded", "embedded-pools", "scaled", "gpu", "open", "files", "shipped"}

# Findings that stay, by check: the charts that have them, and the reason.
IGNORED = {
    "container-image-pull-policy": (ALL, "an image has the tag of a version, or a digest, and does not change"),
    "deployment-has-host-podantiaffinity": (
        {"embedded-pools", "gpu", "scaled", "files", "shipped"},
        "workers have no state, and several of them may share a node",
    ),
    "deployment-has-poddisruptionbudget": (
        {"embedded-pools", "gpu"},
        "jobs of a worker that is evicted go to others. A pool may have a budget",
    ),
    "statefulset-has-host-podantiaffinity": (
        {"scaled", "files", "shipped", "open"},
        "servers have topologySpreadConstraints instead",
    ),
    "statefulset-has-poddisruptionbudget": ({"open"}, "the values of this chart turn the budget off"),
    "pod-networkpolicy": ({"open"}, "the values of this chart turn the policies off"),
}


def main():
    found, places = {}, {}
    for path in sys.argv[1:]:
        chart = Path(path).stem
        done = subprocess.run(["kube-score", "score", "--output-format", "json", path], capture_output=True, text=True)
        for scored in json.loads(done.stdout):
            for check in scored["checks"]:
                if not check["skipped"] and check["grade"] < 10:
                    key = check["check"]["id"]
                    found.setdefault(key, set()).add(chart)
                    comments = "; ".join(comment["summary"] for comment in check["comments"] or [])
                    places.setdefault((key, chart), f"{scored['object_name']}: {comments}")
    failed = False
    for key in sorted(set(found) | set(IGNORED)):
        here, ignored = found.get(key, set()), IGNORED.get(key, (set(), ""))[0]
        for chart in sorted(here - ignored):
            print(f"kube-score: {chart}: {key}: {places[key, chart]}", file=sys.stderr)
        for chart in sorted(ignored - here):
            print(f"kube-score: {chart} has no finding {key} any more: remove it from the list", file=sys.stderr)
        failed = failed or here != ignored
    if failed:
        sys.exit(1)
    print(f"kube-score: {len(IGNORED)} kinds of findings are ignored, each with a reason")


if __name__ == "__main__":
    main()
