#!/usr/bin/env python3
"""Checks the bills of materials and the image of a release, for check.sh.

usage: check_release.py RELEASE METADATA
"""

import gzip
import hashlib
import io
import json
import pathlib
import sys
import tarfile

release, metadata = pathlib.Path(sys.argv[1]), json.loads(pathlib.Path(sys.argv[2]).read_text())


def check(condition, message):
    if not condition:
        sys.exit(f"check_release.py: {message}")


def one(pattern):
    found = list(release.glob(pattern))
    check(len(found) == 1, f"{len(found)} files are {pattern}")
    return found[0]


names = {package["name"] for package in metadata["packages"]}
bills = sorted(release.glob("*-sbom.cdx.json"))
check(len(bills) == 2, f"bills of materials: {bills}")
for path in bills:
    bill = json.loads(path.read_text())
    check((bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5"), f"{path}: format")
    references = [component["bom-ref"] for component in bill["components"]]
    check(len(references) == len(set(references)), f"{path}: a component is listed twice")
    known = {*references, bill["metadata"]["component"]["bom-ref"]}
    for dependency in bill["dependencies"]:
        check({dependency["ref"], *dependency["dependsOn"]} <= known, f"{path}: {dependency} names no component")
    for component in bill["components"]:
        crate = component["purl"].startswith("pkg:cargo/")
        check(not crate or component.get("licenses") or component["name"] not in names, f"{path}: {component}")
    scopes = {component["name"]: component["scope"] for component in bill["components"]}
    for program in ("cloakwork-server", "cloakwork-worker", "cloakwork"):
        check(scopes.get(program) == "required", f"{path}: {program} is missing")
    check(("libc6" in scopes) == ("image" in path.name), f"{path}: packages of the system")
    if "tester" in names:
        expected = {"a": "required", "b": "required", "macro": "excluded", "quoting": "excluded", "builder": "excluded"}
        check({name: scopes[name] for name in expected} == expected, f"{path}: scopes {scopes}")
        check("tester" not in scopes, f"{path}: a crate of tests is listed")
    else:
        # Crates of tests alone, and a crate that the command line needs.
        check("tokio" in scopes and "proptest" not in scopes and "tfhe" not in scopes, f"{path}: the wrong crates")
        hashed = sum("hashes" in component for component in bill["components"])
        check(hashed > 100, f"{path}: {hashed} crates with a hash")

programs = one("*-linux-*[!s].tar.gz")
with tarfile.open(programs) as archive:
    folder = programs.name.split("-linux-")[0]
    members = {member.name: member for member in archive.getmembers()}
    for program in ("cloakwork-server", "cloakwork-worker", "cloakwork"):
        check(members[f"{folder}/{program}"].mode == 0o755, f"the mode of {program}")
    licences = archive.extractfile(f"{folder}/third-party-licenses.txt").read().decode()
    if "tester" in names:
        check("the licence of a" in licences and "b 1.0.0" in licences, "licences")
        check("quoting" not in licences and "cloakwork" not in licences, "licences of crates that are not shipped")

with tarfile.open(fileobj=io.BytesIO(gzip.decompress(one("*-image-*.tar.gz").read_bytes()))) as archive:
    blobs = {member.name: archive.extractfile(member).read() for member in archive.getmembers()}
for name, data in blobs.items():
    if name.startswith("blobs/"):
        check(name == f"blobs/sha256/{hashlib.sha256(data).hexdigest()}", f"{name} has another digest")
read = lambda descriptor: blobs["blobs/sha256/" + descriptor["digest"].split(":")[1]]
manifest = json.loads(read(json.loads(blobs["index.json"])["manifests"][0]))
config = json.loads(read(manifest["config"]))
check(config["config"]["User"] == "65532:65532", "the user of the image")
check(config["config"]["Entrypoint"] == ["/usr/bin/cloakwork-server"], "the entry point of the image")
check(config["config"]["Labels"]["org.opencontainers.image.version"] in programs.name, "the version of the image")
check(config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]], "the layer of the image")
with tarfile.open(fileobj=io.BytesIO(read(manifest["layers"][0]))) as layer:
    data = layer.getmember("var/lib/cloakwork")
    check((data.uid, data.gid, data.mode) == (65532, 65532, 0o700), "the data directory of the image")
    check(layer.getmember("usr/bin/cloakwork-server").mode == 0o755, "the server of the image")
