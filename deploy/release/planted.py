#!/usr/bin/env python3
"""Prints a small answer of `cargo metadata`, for the check of releases without cargo.

usage: planted.py DIRECTORY

The programs need crate `a`, which needs `b`. `macro` makes code at build time, with the help of
`quoting`. `builder` is of a build script, and only tests need `tester`. DIRECTORY gets the folders
of the crates, with their licence texts.
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(sys.argv[1])
KINDS = {"macro": ["proc-macro"]}
NEEDS = {
    "cloakwork-server": [("a", None), ("macro", None), ("builder", "build"), ("tester", "dev")],
    "cloakwork-worker": [("b", None)],
    "cloakwork": [("a", None)],
    "a": [("b", None)],
    "b": [],
    "macro": [("quoting", None)],
    "quoting": [],
    "builder": [],
    "tester": [],
}


def identity(name):
    return f"registry+planted#{name}@1.0.0"


packages, nodes = [], []
for name, needs in NEEDS.items():
    ours = name.startswith("cloakwork")
    directory = ROOT / name
    directory.mkdir(parents=True)
    if not ours and name != "b":
        (directory / "LICENSE-MIT").write_text(f"the licence of {name}\n" if name == "a" else "a licence\n")
    packages.append({
        "id": identity(name),
        "name": name,
        "version": "1.0.0",
        "license": "MIT/Apache-2.0",
        "source": None if ours else "registry",
        "manifest_path": str(directory / "Cargo.toml"),
        "targets": [{"kind": KINDS.get(name, ["lib"])}],
    })
    deps = [{"pkg": identity(other), "dep_kinds": [{"kind": kind}]} for other, kind in needs]
    nodes.append({"id": identity(name), "deps": deps})
members = [identity(name) for name in NEEDS if name.startswith("cloakwork")]
print(json.dumps({"packages": packages, "workspace_members": members, "resolve": {"nodes": nodes}}))
