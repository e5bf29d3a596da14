#!/usr/bin/env python3
"""Writes the table of all values in helm/README.md from values.yaml and its comments.

Without arguments, the script compares the table with the one in README.md. With --update it writes
the table there. Both fail if a value has no description, or if values.yaml and values.schema.json
have different values.
"""

import json
import sys
from pathlib import Path

import yaml

HELM = Path(__file__).resolve().parents[1]
VALUES = HELM / "cloakwork/values.yaml"
README = HELM / "README.md"
BEGIN = "<!-- written by helm/tests/table.py -->\n"
END = "<!-- end -->\n"

# Names that say all by themselves.
PLAIN = {
    "certificateKey": "Key in the Secret",
    "privateKeyKey": "Key in the Secret",
    "passwordKey": "Key in the Secret",
    "credentialsKey": "Key in the Secret",
    "key": "Key in the Secret",
    "tag": "Tag of the image",
    "repository": "Name of the image",
    "digest": "Digest of the image",
    "pullPolicy": "When the kubelet pulls the image",
    "nodeSelector": "Labels that the node must have",
    "tolerations": "Taints that the pods tolerate",
    "priorityClassName": "PriorityClass of the pods",
    "podAnnotations": "Annotations of the pods",
    "annotations": "Annotations of the object",
    "labels": "Labels of the object",
    "interval": "Time between two scrapes",
    "accessModes": "Access modes of the volume",
    "region": "Region of the bucket",
    "port": "Port of the Service",
    "ports": "Ports of that rule",
    "minReplicas": "Least number of workers",
    "maxReplicas": "Greatest number of workers",
    "pollingSeconds": "Time between two looks at the backlog",
    "maxUnavailable": "See `minAvailable`",
}


def comment_above(lines, line):
    """The comment directly above a line, as one text."""
    found = []
    while line > 0 and lines[line - 1].lstrip().startswith("#"):
        line -= 1
        found.insert(0, lines[line].lstrip()[1:].strip())
    return " ".join(found)


def rows(node, lines, path=()):
    """Path, default and description of each value. A map whose keys are values of the chart gives a
    row for each of these. A map that is free has a row of its own."""
    for key, value in node.value:
        here = (*path, key.value)
        described = comment_above(lines, key.start_mark.line)
        is_group = isinstance(value, yaml.MappingNode) and value.value and not is_free(here)
        if described or not is_group:
            default = "" if is_group else yaml.safe_load(yaml.serialize(value))
            yield here, is_group, default, described or PLAIN.get(key.value, "")
        if is_group:
            yield from rows(value, lines, here)


def is_free(path):
    """Whether the schema leaves the keys of a map to the user."""
    return "properties" not in schema_of(path) or path[-1] == "settings"


def resolved(schema, root):
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def schema_of(path):
    root = json.loads((HELM / "cloakwork/values.schema.json").read_text())
    schema = root
    for name in path:
        schema = resolved(schema["properties"][name], root)
    return schema


def check_names(values, path=()):
    """Refuses a value without a schema, and a schema without a value."""
    known = set(schema_of(path).get("properties", {}))
    if not path:
        known.discard("global")
    if known != set(values):
        sys.exit(f"values.yaml and values.schema.json differ at {'.'.join(path) or 'the top'}: {known ^ set(values)}")
    for name, value in values.items():
        if isinstance(value, dict) and value and not is_free((*path, name)):
            check_names(value, (*path, name))


def table():
    text = VALUES.read_text()
    check_names(yaml.safe_load(text))
    lines = text.splitlines()
    out = ["| value | default | meaning |\n", "|---|---|---|\n"]
    for path, is_group, default, described in rows(yaml.compose(text), lines):
        name = ".".join(path)
        if not described:
            sys.exit(f"values.yaml: {name} has no description")
        shown = "" if is_group else f"`{json.dumps(default)}`"
        out.append(f"| `{name}` | {shown} | {described.rstrip('.')} |\n")
    return "".join(out)


def main():
    text = README.read_text()
    before, rest = text.split(BEGIN, 1)
    written, after = rest.split(END, 1)
    expected = table()
    if "--update" in sys.argv[1:]:
        README.write_text(before + BEGIN + expected + END + after)
    elif written != expected:
        sys.exit("helm/README.md does not have the values of values.yaml: run UPDATE=1 helm/check.sh")


if __name__ == "__main__":
    main()
