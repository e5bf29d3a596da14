#!/usr/bin/env bash
# Checks the drill without any server: the divided rules, the runbooks, and the table of faults in
# README.md, which has each alert of deploy/prometheus once. Takes two seconds. Needs Python 3.11
# and promtool.
#
# If Python or promtool is missing, the script fails where `CI` is `true`, and prints a loud message
# elsewhere.
set -euo pipefail
cd "$(dirname "$0")"
export PYTHONDONTWRITEBYTECODE=1

give_up() {
    if [ "${CI:-}" = true ]; then
        echo "$1: the drill cannot be checked" >&2
        exit 1
    fi
    echo "*** SKIPPED: $1: the drill was not checked ***" >&2
    exit 0
}

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || give_up "Python 3.11 is missing"
command -v promtool >/dev/null || give_up "promtool is missing"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m unittest --quiet 2>"$scratch/output" || { cat "$scratch/output" >&2; exit 1; }
for factor in 10 60; do
    python3 - "$factor" "$scratch" <<'END'
import pathlib, sys
import rules
from watch import PROMETHEUS
factor, scratch = float(sys.argv[1]), pathlib.Path(sys.argv[2])
(scratch / "recording.yaml").write_text(rules.shortened((PROMETHEUS / "recording.yaml").read_text(), factor))
(scratch / "alerts.yaml").write_text(rules.shortened_alerts((PROMETHEUS / "alerts.yaml").read_text(), factor))
END
    promtool check rules "$scratch/recording.yaml" "$scratch/alerts.yaml" >"$scratch/output" 2>&1 ||
        { cat "$scratch/output" >&2; exit 1; }
done
echo "the drill's rules, runbooks and table of faults checked"
