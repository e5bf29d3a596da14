#!/usr/bin/env python3
"""Writes the objects that a cluster has before the chart is installed, for cluster.sh."""

import json
from pathlib import Path

SCHEMAS = Path(__file__).resolve().parent / "schemas"
PLURALS = {
    "ScaledObject": "scaledobjects",
    "ServiceMonitor": "servicemonitors",
    "PodMonitor": "podmonitors",
    "PrometheusRule": "prometheusrules",
}


def node(name, labels, resources, taints=()):
    amount = {"cpu": "256", "memory": "1Ti", "pods": "110", "ephemeral-storage": "4Ti", **resources}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-of-{name}", **labels},
        },
        "spec": {"taints": list(taints)},
        "status": {"allocatable": amount, "capacity": amount},
    }


def kind_of_operator(path):
    """A kind whose fields the API server takes as they are: validate.py checks them."""
    kind = path.stem
    group, version = json.loads(path.read_text())["properties"]["apiVersion"]["const"].split("/")
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURALS[kind]}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": PLURALS[kind], "singular": kind.lower()},
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


def main():
    profile = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    gpus = {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "7"}
    objects = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fhe", "labels": profile}},
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "nvidia"},
            "handler": "nvidia",
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": "kwok-volume",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "kwok.x-k8s.io/volume",
        },
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "important"},
            "value": 1000,
        },
        # The account that the values of open.yaml name.
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "signer", "namespace": "fhe"}},
        *(node(f"cpu-{number}", {}, {}) for number in range(3)),
        node(
            "gpu",
            {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
            gpus,
            [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
        ),
        *(kind_of_operator(path) for path in sorted(SCHEMAS.glob("*.json"))),
    ]
    print("\n---\n".join(json.dumps(it) for it in objects))


if __name__ == "__main__":
    main()
