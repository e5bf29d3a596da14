#!/usr/bin/env python3
"""Compares rules and dashboards in a rendered chart with the files that the chart had.

usage: files.py RENDERED
"""

import json
import re
import sys
from pathlib import Path

import yaml

import chart

FILES = Path(__file__).resolve().parent / "files"
SHIPPED = Path(__file__).resolve().parents[1] / "cloakwork/files"
RUNBOOKS = "https://git.example/main"


def expected_groups():
    """The groups of the rules, with the address of the runbooks in front of their paths."""
    groups = [
        group for path in sorted(FILES.glob("rules/*.yaml")) for group in yaml.safe_load(path.read_text())["groups"]
    ]
    for rule in (rule for group in groups for rule in group["rules"] if "annotations" in rule):
        rule["annotations"]["runbook_url"] = f"{RUNBOOKS}/{rule['annotations'].pop('runbook')}"
    return groups


def jobs_of_monitors(objects):
    """The names under which the monitors scrape."""
    endpoints = [
        endpoint
        for it in chart.of_kind(objects, "ServiceMonitor", "PodMonitor")
        for endpoint in it["spec"].get("endpoints", []) + it["spec"].get("podMetricsEndpoints", [])
    ]
    return {
        rule["replacement"]
        for endpoint in endpoints
        for rule in endpoint["relabelings"]
        if rule["targetLabel"] == "job"
    }


def main():
    objects = chart.load(sys.argv[1])
    if chart.of_kind(objects, "PrometheusRule")[0]["spec"]["groups"] != expected_groups():
        sys.exit("PrometheusRule does not have the groups of files/rules")
    for path in FILES.glob("dashboards/*.json"):
        found = [it for it in chart.of_kind(objects, "ConfigMap") if path.name in it["data"]]
        if len(found) != 1 or json.loads(found[0]["data"][path.name]) != json.loads(path.read_text()):
            sys.exit(f"no ConfigMap has the dashboard {path.name}")
        if found[0]["metadata"]["labels"].get("grafana_dashboard") != "1":
            sys.exit(f"the sidecar does not find the dashboard {path.name}")
    # The rules select targets by the names of the jobs.
    for path in [*FILES.glob("rules/*.yaml"), *SHIPPED.glob("rules/*.yaml")]:
        unknown = set(re.findall(r'job="([^"]*)"', path.read_text())) - jobs_of_monitors(objects)
        if unknown:
            sys.exit(f"{path.name}: no monitor scrapes under the name {unknown}")


if __name__ == "__main__":
    main()
