#!/usr/bin/env python3
"""Lists the server's settings in the chart's schema, so that a misspelt setting is refused before an
installation, and a new setting can be used.

Settings come from server/src/config/settings.rs, their types from server/src/config.rs, and limits
from docs/limits.md. Without arguments, the script compares them with `$defs.settings` of
values.schema.json. With --update it writes them there.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "helm/cloakwork/values.schema.json"

# Sections that the chart writes from values of its own.
WRITTEN_BY_THE_CHART = {"listen", "storage", "database", "replica", "worker"}

# Single settings that the chart writes, in sections that are open otherwise. The chart mounts no
# file for `auth.oidc_ca_file`.
SETTINGS_OF_THE_CHART = {
    ("telemetry", name) for name in ("otlp_endpoint", "otlp_protocol", "otlp_ca_file", "otlp_headers_file")
} | {("auth", name) for name in ("anonymous", "worker_mtls", "oidc_ca_file")}

TYPES = {"bool": {"type": "boolean"}, "u64": {"type": "integer", "minimum": 0}}
TEXT = {"type": "string"}


def settings():
    """Full names of all settings, as pairs of a section and a name. The top level is the section ''."""
    text = (ROOT / "server/src/config/settings.rs").read_text()
    table = text[text.rindex("\nsections! {") :]
    found = re.findall(r'^        (?:([a-z0-9_]+)\.)?([a-z0-9_]+)(?: = ".*")?:$', table, re.MULTILINE)
    if len(found) < 20:
        sys.exit("settings.py: server/src/config/settings.rs is not understood any more")
    return found


def types():
    """Rust types of the fields of the configuration, by structure and field."""
    text = (ROOT / "server/src/config.rs").read_text()
    structures = re.findall(r"^pub struct (\w+) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    return {name.lower(): dict(re.findall(r"^    pub (\w+): (.+),$", body, re.MULTILINE)) for name, body in structures}


def limits():
    """Limits with their least and greatest values."""
    text = (ROOT / "docs/limits.md").read_text()
    table = text.split("## Configurable limits", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `(\w+)` \| \d+ \| (\d+) to (\d+) \|", table, re.MULTILINE)
    if len(rows) < 20:
        sys.exit("settings.py: docs/limits.md is not understood any more")
    return {name: {"type": "integer", "minimum": int(least), "maximum": int(most)} for name, least, most in rows}


def section(properties):
    return {"type": "object", "additionalProperties": False, "properties": properties}


def schema():
    """The schema of `server.settings`."""
    fields = types()
    properties = {}
    for name_of_section, name in settings():
        if name_of_section in WRITTEN_BY_THE_CHART or (name_of_section, name) in SETTINGS_OF_THE_CHART:
            continue
        rust = fields[name_of_section or "config"][name]
        kind = TYPES.get(rust, TEXT)
        if name_of_section:
            properties.setdefault(name_of_section, section({}))["properties"][name] = kind
        else:
            properties[name] = kind
    properties["limits"] = section(limits())
    return section(properties)


def main():
    document = json.loads(SCHEMA.read_text())
    expected = schema()
    if "--update" in sys.argv[1:]:
        document["$defs"]["settings"] = expected
        SCHEMA.write_text(json.dumps(document, indent=2) + "\n")
    elif document["$defs"]["settings"] != expected:
        sys.exit("values.schema.json does not have the settings of the server: run UPDATE=1 helm/check.sh")


if __name__ == "__main__":
    main()
