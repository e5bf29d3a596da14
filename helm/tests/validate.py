#!/usr/bin/env python3
"""Validates rendered charts: objects of Kubernetes strictly against the schemas of several versions,
and objects of KEDA and of the Prometheus operator against the reduced schemas beside this script.

usage: validate.py VERSION[,VERSION...] RENDERED...

At the end, misspelt fields are planted and must be found.
"""

import copy
import json
import sys
from pathlib import Path

import jsonschema
import kubernetes_validate

import chart

OURS = {
    path.stem: jsonschema.Draft7Validator(json.loads(path.read_text()))
    for path in Path(__file__).resolve().parent.glob("schemas/*.json")
}


def findings(it, versions):
    if it["kind"] in OURS:
        for error in OURS[it["kind"]].iter_errors(it):
            yield f"{'.'.join(map(str, error.absolute_path))}: {error.message}"
        return
    for version in versions:
        try:
            kubernetes_validate.validate(it, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"Kubernetes {version}: {'.'.join(map(str, error.path))}: {error.message}"


# A wrong field, by the kind of the object.
PLANTED = {
    "StatefulSet": lambda it: it["spec"]["template"]["spec"]["containers"][0].update(livenesProbe={}),
    "Deployment": lambda it: it["spec"].update(replicas="2"),
    "NetworkPolicy": lambda it: it["spec"].update(policyTypes="Egress"),
    "PodDisruptionBudget": lambda it: it["spec"].update(maxUnavailible=1),
    "ScaledObject": lambda it: it["spec"].update(minReplicas=0),
    "ServiceMonitor": lambda it: it["spec"]["endpoints"][0].update(intervall="1s"),
    "PodMonitor": lambda it: it["spec"].update(endpoints=[]),
    "PrometheusRule": lambda it: it["spec"]["groups"][0]["rules"][0].update(labels={"severity": 1}),
}


def main():
    versions, paths = sys.argv[1].split(","), sys.argv[2:]
    failed, checked, by_kind = False, 0, {}
    for path in paths:
        for it in chart.load(path):
            checked += 1
            by_kind.setdefault(it["kind"], it)
            for finding in findings(it, versions):
                print(f"{path}: {chart.name(it)}: {finding}", file=sys.stderr)
                failed = True
    for kind, plant in PLANTED.items():
        it = copy.deepcopy(by_kind[kind])
        plant(it)
        if not list(findings(it, versions)):
            print(f"a planted fault in a {kind} is not found", file=sys.stderr)
            failed = True
    if failed:
        sys.exit(1)
    print(
        f"{checked} objects are valid for Kubernetes {', '.join(versions)}, and {len(PLANTED)} planted faults are found"
    )


if __name__ == "__main__":
    main()
