#!/usr/bin/env python3
"""Checks when NOTES.txt warns that servers cannot reach the issuer of logins.

`helm template` does not render NOTES.txt, and `helm install` needs a cluster. So a copy of the
chart has the text in a ConfigMap.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CHART = Path(__file__).resolve().parents[1] / "cloakwork"
CONFIGMAP = """apiVersion: v1
kind: ConfigMap
metadata: {name: notes}
data:
  notes: |
    {{- tpl (.Files.Get "files/NOTES.txt") . | nindent 4 }}
"""
WARNING = "NOTE: auth.oidc_issuer is set"
ISSUER = "server.settings.auth.oidc_issuer=https://login.example"
# Values of the chart, and whether NOTES.txt warns.
CASES = [
    ([], False),
    ([ISSUER], True),
    (["server.env.CLOAKWORK_AUTH__OIDC_ISSUER=https://login.example"], True),
    ([ISSUER, "networkPolicy.enabled=false"], False),
    ([ISSUER, "networkPolicy.server.extraEgress[0].ports[0].port=443"], False),
    ([ISSUER, "s3.bucket=cloakwork"], False),
    ([ISSUER, "s3.bucket=cloakwork", "networkPolicy.s3.to[0].ipBlock.cidr=10.0.0.0/8"], True),
]


def notes(chart, values):
    sets = [word for value in values for word in ("--set", value)]
    command = ["helm", "template", "trial", chart, "--kube-version", "1.33", "--show-only", "templates/notes.yaml"]
    return subprocess.run([*command, *sets], check=True, capture_output=True, text=True).stdout


def main():
    with tempfile.TemporaryDirectory() as directory:
        chart = Path(directory) / "cloakwork"
        shutil.copytree(CHART, chart)
        shutil.move(chart / "templates/NOTES.txt", chart / "files/NOTES.txt")
        (chart / "templates/notes.yaml").write_text(CONFIGMAP)
        wrong = [values for values, is_warned in CASES if (WARNING in notes(chart, values)) != is_warned]
    for values in wrong:
        print(f"NOTES.txt is wrong about the issuer with the values {values}", file=sys.stderr)
    if wrong:
        sys.exit(1)
    print(f"NOTES.txt is right about the issuer in {len(CASES)} cases")


if __name__ == "__main__":
    main()
