#!/usr/bin/env python3
"""Writes the software bill of materials of the shipped programs as CycloneDX JSON.

The input is what `cargo metadata` prints, and Cargo.lock. A component is each crate that one of the
programs needs. Crates that only the build needs have the scope `excluded`. Features are those of
the whole workspace, so that an optional crate may be listed that no program contains. With --system,
the packages of a directory like /var/lib/dpkg/status.d are components too. With --licenses, the
licence texts of all required crates go into a file. The same input gives the same bytes.

Needs Python 3.11 or later, and nothing else.
"""

import argparse
import datetime
import hashlib
import json
import pathlib
import sys
import tomllib
import uuid

PROGRAMS = ("cloakwork-server", "cloakwork-worker", "cloakwork")
LICENCE_FILES = ("license", "licence", "copying", "notice", "unlicense", "copyright")


def crates_of(metadata):
    """Returns the packages by id, and the ids that programs and that only the build needs."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    members = set(metadata["workspace_members"])
    roots = {packages[i]["name"]: i for i in members if packages[i]["name"] in PROGRAMS}
    missing = [name for name in PROGRAMS if name not in roots]
    if missing:
        sys.exit(f"sbom.py: the workspace has no package {', '.join(missing)}")

    def is_macro(i):
        return any("proc-macro" in target["kind"] for target in packages[i]["targets"])

    def edges(i):
        for dependency in nodes[i]["deps"]:
            kinds = {kind["kind"] for kind in dependency["dep_kinds"]}
            yield dependency["pkg"], None in kinds, "build" in kinds

    def reach(starts, follow):
        seen, waiting = set(), list(starts)
        while waiting:
            i = waiting.pop()
            if i not in seen:
                seen.add(i)
                waiting.extend(j for j, normal, build in edges(i) if follow(j, normal, build))
        return seen

    required = reach(roots.values(), lambda j, normal, build: normal and not is_macro(j))
    everything = reach(roots.values(), lambda j, normal, build: normal or build)
    return packages, nodes, roots, required, everything


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, required, checksums):
    made = {
        "type": "library",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "scope": "required" if required else "excluded",
        "purl": reference(package),
    }
    if package.get("license"):
        # The slash is an old way to write OR.
        made["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        made["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return made


def debian_component(status):
    fields = dict(line.split(": ", 1) for line in status.splitlines() if ": " in line and line[0] != " ")
    name, version = fields["Package"], fields["Version"]
    purl = f"pkg:deb/debian/{name}@{version}?arch={fields['Architecture']}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "scope": "required", "purl": purl}


def bill(metadata, lock, version, epoch, system):
    packages, nodes, roots, required, everything = crates_of(metadata)
    checksums = {(p["name"], p["version"]): p["checksum"] for p in lock["package"] if "checksum" in p}
    listed = sorted(everything, key=lambda i: (packages[i]["name"], packages[i]["version"]))
    components = [component(packages[i], i in required, checksums) for i in listed]
    for made in components:
        if made["name"] in PROGRAMS:
            made["type"] = "application"
    components += [debian_component(path.read_text()) for path in sorted(system.iterdir())] if system else []
    dependencies = [
        {
            "ref": reference(packages[i]),
            "dependsOn": sorted({reference(packages[d["pkg"]]) for d in nodes[i]["deps"] if d["pkg"] in everything}),
        }
        for i in listed
    ]
    whole = f"pkg:generic/cloakwork@{version}"
    dependencies.insert(0, {"ref": whole, "dependsOn": sorted(reference(packages[i]) for i in roots.values())})
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": whole,
                "name": "cloakwork",
                "version": version,
                "purl": whole,
            },
        },
        "components": components,
        "dependencies": dependencies,
    }
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).digest()
    document["serialNumber"] = f"urn:uuid:{uuid.UUID(bytes=digest[:16], version=4)}"
    return document


def is_licence(name):
    return name.lower().startswith(LICENCE_FILES) and not name.endswith(".rs")


def licences(metadata):
    """The licence texts of all required crates, each text once."""
    packages, _, _, required, _ = crates_of(metadata)
    users, texts, bare = {}, {}, []
    for package in sorted((packages[i] for i in required), key=lambda p: (p["name"], p["version"])):
        if package["source"] is None:
            continue
        label = f"{package['name']} {package['version']} ({package.get('license') or 'no expression'})"
        directory = pathlib.Path(package["manifest_path"]).parent
        files = [file for file in sorted(directory.iterdir()) if file.is_file() and is_licence(file.name)]
        if not files:
            bare.append(label)
        for file in files:
            text = file.read_text(errors="replace").strip()
            key = hashlib.sha256(text.encode()).hexdigest()
            texts.setdefault(key, text)
            users.setdefault(key, []).append(label)
    out = ["Licences of the libraries in Cloakwork's programs.\n"]
    if bare:
        out.append("Crates whose archives have no licence text:\n\n" + "\n".join(f"  {label}" for label in bare) + "\n")
    for key in sorted(texts, key=lambda key: users[key]):
        names = "\n".join(f"  {label}" for label in dict.fromkeys(users[key]))
        out.append(f"{'=' * 78}\n{names}\n{'-' * 78}\n{texts[key]}\n")
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description="Writes a CycloneDX bill of materials.")
    parser.add_argument("--metadata", required=True, type=pathlib.Path, help="output of cargo metadata")
    parser.add_argument("--lock", required=True, type=pathlib.Path, help="Cargo.lock")
    parser.add_argument("--version", required=True)
    parser.add_argument("--epoch", required=True, type=int, help="time of the document, in seconds of Unix time")
    parser.add_argument("--system", type=pathlib.Path, help="directory with the status of Debian packages")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--licenses", type=pathlib.Path, help="file for the licence texts")
    arguments = parser.parse_args()
    metadata = json.loads(arguments.metadata.read_text())
    lock = tomllib.loads(arguments.lock.read_text())
    document = bill(metadata, lock, arguments.version, arguments.epoch, arguments.system)
    arguments.out.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    if arguments.licenses:
        arguments.licenses.write_text(licences(metadata))


if __name__ == "__main__":
    main()
