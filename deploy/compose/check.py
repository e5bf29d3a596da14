#!/usr/bin/env python3
"""Checks a Compose file that the Compose parser has resolved, and the files that it mounts.

usage: check.py PROJECT.json

Paths in the project must be those of this directory. Prints what is wrong, and then exits with 1.
Needs Python 3.11 or later, and nothing else.
"""

import json
import pathlib
import re
import subprocess
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent


def settings():
    """The full names of all settings of the server, from its sources."""
    source = (TOP / "server/src/config/settings.rs").read_text()
    body = source[source.index("sections! {\n    \"\""):]
    names = set(re.findall(r"^        ([a-z0-9_]+(?:\.[a-z0-9_]+)?)(?: = \"(?:[^\"\\]|\\.)*\")?:$", body, flags=re.M))
    limits = set(re.findall(r"^\| `([a-z_0-9]+)` \|", (TOP / "docs/limits.md").read_text(), flags=re.M))
    return names | {f"limits.{limit}" for limit in limits}


def flat(table, prefix=""):
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def seconds(duration):
    """The seconds of a duration such as `1m0s`."""
    units = {"h": 3600, "m": 60, "s": 1}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([hms])", duration))


class Check:
    def __init__(self, project):
        self.project = project
        self.services = project["services"]
        self.faults = []

    def expect(self, condition, fault):
        if not condition:
            self.faults.append(fault)

    def run(self):
        for name, service in self.services.items():
            self.image(name, service)
            self.protection(name, service)
            self.mounts(name, service)
        self.ports()
        self.secrets()
        self.server_settings()
        self.prometheus()
        self.addresses()
        return self.faults

    def image(self, name, service):
        image, _, tag = service["image"].rpartition(":")
        has_version = image and re.search(r"\d", tag) and tag != "latest"
        self.expect(has_version, f"{name}: image {service['image']} has no version")

    def is_ours(self, service):
        return service["image"].startswith("cloakwork:")

    def protection(self, name, service):
        self.expect("no-new-privileges:true" in service.get("security_opt", []), f"{name}: may gain privileges")
        self.expect(not service.get("privileged"), f"{name}: is privileged")
        if not self.is_ours(service):
            return
        self.expect(service.get("read_only") is True, f"{name}: the file system is not read-only")
        self.expect(service.get("cap_drop") == ["ALL"] and not service.get("cap_add"), f"{name}: keeps capabilities")
        command = service.get("command") or []
        if "anchor" not in command:
            limits = (TOP / "docs/limits.md").read_text()
            drain = int(re.search(r"^\| `drain_ms` \| (\d+)", limits, flags=re.M)[1]) // 1000
            grace = seconds(service.get("stop_grace_period", "0s"))
            self.expect(grace > drain, f"{name}: is killed after {grace} s, and drains for {drain} s")

    def mounts(self, name, service):
        for mount in service.get("volumes", []):
            source, target = mount["source"], mount["target"]
            if mount["type"] == "volume":
                self.expect(source in self.project.get("volumes", {}), f"{name}: volume {source} is not declared")
                continue
            path = pathlib.Path(source)
            self.expect(path.exists(), f"{name}: {source} does not exist")
            self.expect(mount.get("read_only") is True or "installation" in name or "bucket" in name,
                        f"{name}: {source} is writable")
            if path.suffix == ".sh" and path.exists():
                shell = "bash" if "bash" in path.read_text().splitlines()[0] else "sh"
                syntax = subprocess.run([shell, "-n", path], capture_output=True, text=True)
                self.expect(syntax.returncode == 0, f"{name}: {source}: {syntax.stderr}")
            self.expect(target.startswith("/"), f"{name}: {target} is no path")

    def ports(self):
        published = {}
        for name, service in self.services.items():
            for port in service.get("ports", []):
                is_local = port.get("host_ip") == "127.0.0.1"
                self.expect(is_local, f"{name}: port {port['published']} is open to other machines")
                other = published.setdefault(port["published"], name)
                self.expect(other == name, f"{name} and {other} publish port {port['published']}")
        for volume in self.project.get("volumes", {}):
            users = [n for n, s in self.services.items() if any(m["source"] == volume for m in s.get("volumes", []))]
            self.expect(users, f"volume {volume} is of no use")

    def secrets(self):
        declared, used = set(self.project.get("secrets", {})), set()
        for name, service in self.services.items():
            own = {secret["source"] for secret in service.get("secrets", [])}
            used |= own
            texts = [*(service.get("command") or []), *(service.get("healthcheck") or {}).get("test", [])]
            texts += (service.get("environment") or {}).values()
            for mount in service.get("volumes", []):
                path = pathlib.Path(mount["source"])
                if mount["type"] == "bind" and path.is_file() and path.suffix == ".toml":
                    texts.append(path.read_text())
            named = set(re.findall(r"/run/secrets/([a-z0-9.-]+)", "\n".join(str(text) for text in texts)))
            self.expect(named <= own, f"{name}: reads {sorted(named - own)}, and does not have these secrets")
            for variable, value in (service.get("environment") or {}).items():
                hidden = re.search(r"PASSWORD|SECRET|TOKEN|KEY", variable) and not variable.endswith("FILE")
                self.expect(not hidden, f"{name}: {variable} holds a secret")
        self.expect(used == declared, f"secrets {sorted(declared ^ used)} are used or declared, and not both")

    def mounted(self, service, target):
        """The file that a service has at a path."""
        return pathlib.Path(next(mount["source"] for mount in service["volumes"] if mount["target"] == target))

    def tables(self):
        """The settings of each server: those of its file, and those of its environment."""
        for name, service in self.services.items():
            command = service.get("command") or []
            if not (self.is_ours(service) and "serve" in command):
                continue
            file = self.mounted(service, command[command.index("--config") + 1])
            table = dict(flat(tomllib.loads(file.read_text())))
            for variable, value in (service.get("environment") or {}).items():
                if variable.startswith("CLOAKWORK_") and "__" in variable:
                    table[variable.removeprefix("CLOAKWORK_").lower().replace("__", ".")] = value
            yield name, service, file, table

    def server_settings(self):
        known, found = settings(), 0
        for name, _, file, table in self.tables():
            found += 1
            for setting in table:
                self.expect(setting in known, f"{name}: {file.name}: no setting is called {setting}")
            self.expect(table.get("auth.anonymous") is False, f"{name}: takes calls without a token")
            url = table.get("replica.url")
            self.expect(not url or url == f"https://{name}:7270", f"{name}: replica.url is {url}")
        self.expect(found > 0, "no service is a server")

    def prometheus(self):
        """Each target is a service that listens there, and each job has the name that the rules use."""
        service = self.services["prometheus"]
        file = self.mounted(service, "/etc/prometheus/prometheus.yml")
        text = file.read_text()
        admin = {f"{name}:{table['listen.admin_address'].rsplit(':', 1)[1]}" for name, _, _, table in self.tables()}
        workers = {n for n, s in self.services.items() if "/usr/bin/cloakwork-worker" in (s.get("entrypoint") or [])}
        targets = set(re.findall(r'"([a-z-]+:\d+)"', text))
        self.expect(targets == admin | {"alertmanager:9093"}, f"{file.name}: targets {sorted(targets)}")
        names = set(re.findall(r"names: \[([a-z-]+)\]", text))
        self.expect(names == workers, f"{file.name}: workers {sorted(names)}, and the project has {sorted(workers)}")
        jobs = set(re.findall(r"job_name: (\S+)", text))
        expected = {"cloakwork-server"} | ({"cloakwork-worker"} if workers else set())
        self.expect(jobs == expected, f"{file.name}: jobs {sorted(jobs)}")
        mounted = {m["target"] for m in service["volumes"]}
        for rules in re.search(r"rule_files: \[(.*)\]", text)[1].split(", "):
            self.expect(f"/etc/prometheus/{rules}" in mounted, f"{file.name}: {rules} is not mounted")

    def addresses(self):
        """The addresses that servers trust are those of the servers."""
        servers = {name: service for name, service, _, _ in self.tables()}
        for name, _, file, table in self.tables():
            if "replica.url" in table:
                fixed = {s["networks"]["front"]["ipv4_address"] for s in servers.values()}
                trusted = set(table["listen.trusted_proxies"].split(", "))
                self.expect(trusted == fixed, f"{name}: trusts {sorted(trusted)}, and the servers are {sorted(fixed)}")


def main():
    faults = Check(json.loads(pathlib.Path(sys.argv[1]).read_text())).run()
    print("\n".join(faults), file=sys.stderr)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
