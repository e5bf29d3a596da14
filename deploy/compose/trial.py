#!/usr/bin/env python3
"""Runs both Compose projects without Docker, and uses them as an operator and a client would.

usage: trial.py DIRECTORY IMAGE PARSER MINIO

DIRECTORY has a copy of deploy/compose and its neighbours, with secrets. IMAGE is the file system of
the image, PARSER the parser of Compose files, and MINIO the program of the store of blobs. Needs
root, because it makes namespaces.
"""

import glob
import json
import pathlib
import re
import subprocess
import sys
import urllib.parse

from without_docker import MISSING, Project, run, wait

top, image, parser, minio = map(pathlib.Path, sys.argv[1:])
here = top / "compose"
postgres = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
PATH = f"{postgres}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def say(text):
    print(text, flush=True)


def project(file, directory):
    model = json.loads(run(parser, "-format", "json", here / file, capture_output=True, cwd=here).stdout)
    missing = [n for n, s in model["services"].items() if s["image"].rpartition(":")[0] in MISSING]
    say(f"{file}: not run, because this machine has no programs for them: {', '.join(missing)}")
    return Project(model, top / directory, image, {"minio": str(minio)}, PATH, here)


def succeeded(done):
    check(done.returncode == 0, f"{' '.join(map(str, done.args))}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def start(trial):
    """Starts a project, and waits until its servers answer probes."""
    trial.up()
    for container in trial.containers.values():
        if "serve" in container.command():
            wait(lambda: fetch(container, "http://127.0.0.1:7271/readyz"), f"{container.name} is ready")
    again = {name: container.restarts for name, container in trial.containers.items() if container.restarts}
    if again:
        say(f"  ended and were started again: {again}")


def fetch(at, url):
    """The answer of a port of containers, as the container `at` sees it."""
    curl = ["curl", "--silent", "--fail", "--max-time", "5", url]
    return run("ip", "netns", "exec", at.namespace, *curl, capture_output=True).stdout


def asked(prometheus, query):
    """The values of a query, by instance."""
    answer = json.loads(fetch(prometheus, f"http://127.0.0.1:9090/api/v1/query?query={urllib.parse.quote(query)}"))
    return {r["metric"].get("instance", ""): float(r["value"][1]) for r in answer["data"]["result"]}


def token(server, tenant):
    """A new tenant's token, made by the commands of the documentation."""
    settings = ["--config", "/etc/cloakwork/cloakwork.toml"]
    succeeded(server.execute("/usr/bin/cloakwork-server", "tenant", "create", tenant, *settings))
    return succeeded(server.execute("/usr/bin/cloakwork-server", "token", "create", "--tenant", tenant, *settings))


class Client:
    """The command line of a client, in a network namespace, with a directory of its own."""

    def __init__(self, namespace, name, environment):
        self.namespace, self.environment = namespace, environment
        self.directory = top / f"client-{name}"
        self.directory.mkdir()

    def run(self, *command):
        program = image / "usr/bin/cloakwork"
        environment = {"PATH": PATH, "HOME": str(self.directory), **self.environment}
        return subprocess.run(["ip", "netns", "exec", self.namespace, program, *command], cwd=self.directory,
                              env=environment, text=True, capture_output=True, timeout=180)

    def squares(self):
        """Squares of 1, 2 and 3, under encryption."""
        out = succeeded(self.run("pbs", "--fn", "square", "--values", "1,2,3", "--json"))
        check(re.search(r"\[\s*1,\s*4,\s*9", out), f"wrong squares: {out}")


def watched(containers, servers, workers):
    """Prometheus has all targets, the rules and its Alertmanager."""
    prometheus = containers["prometheus"]
    expected = {"cloakwork-server": servers, "cloakwork-worker": workers}

    def all_up():
        return all(sum(asked(prometheus, f'up{{job="{job}"}}').values()) == count for job, count in expected.items())

    wait(all_up, f"Prometheus reaches {expected}", 90)

    def data(path):
        return json.loads(fetch(prometheus, f"http://127.0.0.1:9090/api/v1/{path}"))["data"]

    def rules():
        return [rule for group in data("rules")["groups"] for rule in group["rules"]]

    alerts = [rule for rule in rules() if rule["type"] == "alerting"]
    check(len(alerts) >= 16, f"{len(alerts)} alerts")
    wait(lambda: all(rule["health"] == "ok" for rule in rules()), "all rules are evaluated", 60)
    wait(lambda: data("alertmanagers")["activeAlertmanagers"], "Prometheus finds its Alertmanager", 60)
    fetch(containers["alertmanager"], "http://127.0.0.1:9093/-/ready")
    say(f"  Prometheus: {servers} servers, {workers} workers, {len(alerts)} alerts")


def one_box():
    trial = project("one-box.yaml", "one-box")
    try:
        start(trial)
        server = trial.containers["server"]
        client = Client(server.namespace, "one-box", {"CLOAKWORK_TOKEN": token(server, "acme")})
        stranger = Client(server.namespace, "stranger", {}).run("jobs", "ls")
        check(stranger.returncode == 4, f"a caller without a token is served: {stranger}")
        succeeded(client.run("keygen"))
        succeeded(client.run("keys", "push"))
        client.squares()
        say("  a job, on the worker in the server")
        watched(trial.containers, servers=1, workers=0)
        submitted = sum(asked(trial.containers["prometheus"], "cloakwork_jobs_submitted_total").values())
        check(submitted == 1, f"Prometheus counts {submitted} jobs")
        killed = trial.down()
        check(not killed, f"killed after their time to stop: {killed}")
        start(trial)
        client.squares()
        say("  stopped within its time, and started again with its data")
        wrote = [line for line in server.log.read_text().splitlines() if not line.startswith("{")]
        check(not wrote, f"the log is not JSON: {wrote[:3]}")
    finally:
        trial.remove()


def scaled():
    trial = project("scaled.yaml", "scaled")
    try:
        start(trial)
        servers = {name: trial.containers[f"server-{name}"] for name in "abc"}

        def owns(server):
            metrics = fetch(server, "http://127.0.0.1:7271/metrics") if server.process.poll() is None else ""
            return re.search(r"^cloakwork_owner(\{.*\})? 1$", metrics, flags=re.M)

        def owner():
            found = [name for name, server in servers.items() if owns(server)]
            return found[0] if len(found) == 1 else None

        first = wait(owner, "one server owns the database")
        say(f"  server {first} owns the database; its bucket, and a synchronous standby, are there")
        query = "SELECT application_name, sync_state FROM pg_stat_replication"
        asking = ["psql", "--username=postgres", "--no-align", "--tuples-only", f"--command={query}"]
        database = trial.containers["postgres"]
        wait(lambda: succeeded(database.execute(*asking)) == "standby|sync", "a synchronous standby")
        other = next(name for name in servers if name != first)
        client = Client(trial.visitor(), "scaled", {
            "CLOAKWORK_TOKEN": token(servers["a"], "acme"),
            "CLOAKWORK_SERVER": f"https://server-{other}:7270",
            "CLOAKWORK_CA": str(here / "secrets/certs/ca.pem"),
        })
        anchor = ["/usr/bin/cloakwork-server", "anchor", "--config", "/etc/cloakwork/cloakwork.toml"]
        anchors = {succeeded(server.execute(*anchor)) for server in servers.values()}
        check(len(anchors) == 1, f"the servers have the keys of several installations: {anchors}")
        succeeded(client.run("anchor", "pin", *anchors))
        succeeded(client.run("keygen"))
        succeeded(client.run("keys", "push"))
        client.squares()
        say(f"  a job through server {other}, on a worker with a certificate")
        watched(trial.containers, servers=3, workers=2)
        servers[first].kill()
        client.squares()
        second = wait(owner, "another server owns the database")
        check(second != first, "the killed server owns the database")
        say(f"  server {first} was killed, and server {second} took over under a job")
        servers[first].start()
        wait(lambda: fetch(servers[first], "http://127.0.0.1:7271/readyz"), "the server is back")
        killed = trial.down()
        check(not killed, f"killed after their time to stop: {killed}")
        installation = trial.volume("server-b-data", "/var/lib/cloakwork", servers["b"]) / "data/installation"
        (installation / "next").write_text("a key that server a has forgotten\n")
        start(trial)
        check(not (installation / "next").exists(), "server b keeps a key that server a has not")
        client.squares()
        say("  stopped within its time, and started again with its data")
    finally:
        trial.remove()


if __name__ == "__main__":
    one_box()
    scaled()
    say("both Compose projects ran")
