"""Reads rendered charts."""

import re
import tomllib
from pathlib import Path

import yaml

WORKLOADS = {"StatefulSet", "Deployment", "Job", "Pod"}


def load(path):
    """The objects of a rendered chart."""
    return [document for document in yaml.safe_load_all(Path(path).read_text()) if document]


def of_kind(objects, *kinds):
    return [it for it in objects if it["kind"] in kinds]


def name(it):
    return f"{it['kind']} {it['metadata']['name']}"


def pod_of(workload):
    """Labels and specification of the pods of a workload."""
    template = workload if workload["kind"] == "Pod" else workload["spec"]["template"]
    return template["metadata"].get("labels", {}), template["spec"]


def containers(spec):
    """Init containers first, in the order in which they run."""
    return spec.get("initContainers", []) + spec["containers"]


def component(labels):
    return labels.get("app.kubernetes.io/component", "")


def matches(selector, labels):
    """Whether a selector selects labels. An empty selector selects everything."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for rule in selector.get("matchExpressions") or []:
        value, operator = labels.get(rule["key"]), rule["operator"]
        found = {
            "In": value in rule.get("values", []),
            "NotIn": value not in rule.get("values", []),
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not found[operator]:
            return False
    return True


def mebibytes(quantity):
    number, unit = re.fullmatch(r"(\d+)(Mi|Gi)", quantity).groups()
    return int(number) * {"Mi": 1, "Gi": 1024}[unit]


def settings(configmap):
    """The server's settings in a ConfigMap."""
    return tomllib.loads(configmap["data"]["cloakwork.toml"])


def configs(objects):
    return [it for it in of_kind(objects, "ConfigMap") if "cloakwork.toml" in it.get("data", {})]


def server_settings(objects):
    return settings(next(it for it in configs(objects) if it["metadata"]["name"].endswith("-server")))


def options(container):
    """Options of the form --name=value."""
    pairs = [argument.split("=", 1) for argument in container.get("args", []) if argument.startswith("--")]
    return {pair[0]: pair[1] if len(pair) == 2 else "" for pair in pairs}
