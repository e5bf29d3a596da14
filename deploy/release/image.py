#!/usr/bin/env python3
"""Writes a file system as a container image that `docker load`, `podman load` and `skopeo` read.

The archive is an OCI image layout of one layer, with the manifest.json of Docker beside it. The
configuration is that of the last stage of a Dockerfile: labels, user, volume, ports, entry point.
The same file system, Dockerfile, version and date give the same bytes.

usage: image.py ROOT DOCKERFILE VERSION REVISION EPOCH ARCHITECTURE TAG OUT.tar

Needs Python 3.11 or later, and nothing else.
"""

import hashlib
import io
import json
import pathlib
import re
import shlex
import sys
import tarfile
import datetime

# The user whose directory is its data. All other files belong to root.
USER = 65532
DATA = "var/lib/cloakwork"


def layer(root, epoch):
    """The file system as a tar archive, in the order of its names."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            name = str(path.relative_to(root))
            entry = archive.gettarinfo(path, arcname=name)
            entry.mtime, entry.uname, entry.gname = epoch, "", ""
            entry.uid = entry.gid = USER if name == DATA else 0
            # Files with the same inode are written as files, so that links of the builder's disk do
            # not decide on the bytes.
            if entry.islnk():
                entry.type, entry.linkname = tarfile.REGTYPE, ""
            if entry.isreg():
                entry.size = path.stat().st_size
                with path.open("rb") as file:
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)
    return out.getvalue()


def settings(dockerfile, arguments):
    """The `config` object of an image, from the last stage of a Dockerfile."""
    text = dockerfile.read_text().replace("\\\n", " ")
    stage = re.split(r"^FROM .*$", text, flags=re.M)[-1]
    config, known = {"Env": ["PATH=/usr/bin"]}, {"FROM", "ARG", "COPY", "HEALTHCHECK"}

    def filled(value):
        return re.sub(r"\$\{(\w+)\}", lambda match: arguments[match[1]], value)

    for line in stage.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        word, rest = line.split(None, 1)
        match word:
            case "LABEL":
                config["Labels"] = dict(filled(pair).split("=", 1) for pair in shlex.split(rest))
            case "ENV":
                config["Env"] += shlex.split(rest)
            case "WORKDIR":
                config["WorkingDir"] = rest.strip()
            case "VOLUME":
                config["Volumes"] = {path: {} for path in json.loads(rest)}
            case "USER":
                config["User"] = rest.strip()
            case "EXPOSE":
                config["ExposedPorts"] = {f"{port}/tcp": {} for port in rest.split()}
            case "STOPSIGNAL":
                config["StopSignal"] = rest.strip()
            case "ENTRYPOINT":
                config["Entrypoint"] = json.loads(rest)
            case "CMD":
                config["Cmd"] = json.loads(rest)
            case _ if word not in known:
                sys.exit(f"image.py: {dockerfile}: {word} is not known here")
    return config


def main():
    root, dockerfile, version, revision, epoch, architecture, tag, out = sys.argv[1:]
    root, dockerfile, epoch = pathlib.Path(root), pathlib.Path(dockerfile), int(epoch)
    time = datetime.datetime.fromtimestamp(epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    blobs = {}

    def blob(data):
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return digest

    def descriptor(kind, data, **more):
        media, digest = f"application/vnd.oci.image.{kind}", f"sha256:{blob(data)}"
        return {"mediaType": media, "digest": digest, "size": len(data), **more}

    def document(value):
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    content = layer(root, epoch)
    digest = hashlib.sha256(content).hexdigest()
    config = document({
        "created": time,
        "architecture": architecture,
        "os": "linux",
        "config": settings(dockerfile, {"VERSION": version, "REVISION": revision}),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created": time, "created_by": "deploy/docker/rootfs.sh"}],
    })
    manifest = document({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("config.v1+json", config),
        "layers": [descriptor("layer.v1.tar", content)],
    })
    index = document({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [descriptor("manifest.v1+json", manifest, annotations={"org.opencontainers.image.ref.name": tag})],
    })
    files = {
        "oci-layout": document({"imageLayoutVersion": "1.0.0"}),
        "index.json": index,
        "manifest.json": document([{
            "Config": f"blobs/sha256/{hashlib.sha256(config).hexdigest()}",
            "RepoTags": [tag],
            "Layers": [f"blobs/sha256/{digest}"],
        }]),
        **blobs,
    }
    with tarfile.open(out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(data), epoch, 0o644
            archive.addfile(entry, io.BytesIO(data))


if __name__ == "__main__":
    main()
