#!/usr/bin/env python3
"""Checks that the chart refuses each file in refused/ with the message in its first line.

A file whose second line is `# skip-schema` is rendered without the schema, to reach the check of a
template that the schema precedes.
"""

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent


def main():
    failed, files = False, sorted(TESTS.glob("refused/*.yaml"))
    for path in files:
        first, second, *_ = path.read_text().splitlines()
        expected = first.removeprefix("# expects: ")
        command = ["helm", "template", "trial", TESTS.parent / "cloakwork", "--kube-version", "1.33", "--values", path]
        if second == "# skip-schema":
            command.append("--skip-schema-validation")
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            print(f"{path.name}: the values are accepted", file=sys.stderr)
            failed = True
        elif expected not in done.stderr:
            print(f"{path.name}: expected '{expected}', and the message is {done.stderr}", file=sys.stderr)
            failed = True
    if failed:
        sys.exit(1)
    print(f"{len(files)} wrong values are refused")


if __name__ == "__main__":
    main()
