#!/usr/bin/env python3
"""Runs rendered charts with the real programs on loopback: commands, arguments, variables, files and
probes of the servers, the migration, the workers and `helm test`.

usage: run_rendered.py BINS SCENARIO...

BINS is a directory with cloakwork-server, cloakwork-worker and cloakwork. A scenario is `embedded`,
`scaled`, which needs PostgreSQL and moto, or `autoscaled`, which needs Prometheus.
"""

import glob
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

import chart
from pods import IS_ROOT, Cluster, Failed, free_port, remove, wait, wanted_replicas

TESTS = Path(__file__).resolve().parent


def say(text):
    print(text, flush=True)


class Trial:
    """A chart in a directory of its own."""

    cluster = None

    def __init__(self, bins):
        self.directory = tempfile.mkdtemp(prefix="rendered-")
        os.chmod(self.directory, 0o755)
        self.bins = f"{self.directory}/bin"
        os.mkdir(self.bins)
        for program in ("cloakwork-server", "cloakwork-worker", "cloakwork"):
            shutil.copy(f"{bins}/{program}", self.bins)
            os.chmod(f"{self.bins}/{program}", 0o755)
        self.others = []

    def install(self, scenario, *extra):
        """Renders the chart, and makes the Secrets that the values name."""
        out = f"{self.directory}/rendered.yaml"
        command = [
            "helm",
            "template",
            "trial",
            TESTS.parent / "cloakwork",
            "--namespace",
            "fhe",
            "--kube-version",
            "1.33",
        ]
        command += ["--values", TESTS / f"run/{scenario}.yaml", *extra]
        with open(out, "w") as file:
            subprocess.run(command, check=True, stdout=file)
        self.cluster = Cluster(self.directory, self.bins, chart.load(out), self.secrets())

    def program(self, *words):
        """Runs a program before there are pods, as an operator does."""
        done = subprocess.run(
            [f"{self.bins}/{words[0]}", *words[1:]],
            cwd=self.directory,
            env={},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def read(self, path):
        return Path(self.directory, path).read_text()

    def secrets(self):
        """The Secrets that an operator makes, with the commands of docs/kubernetes.md."""
        self.program("cloakwork-server", "dev-certs", "--out", "certs")
        self.anchor = self.program("cloakwork-server", "anchor", "--data", "seed").strip()
        return {
            "tls": {
                "tls.crt": self.read("certs/server.pem"),
                "tls.key": self.read("certs/server.key"),
                "ca.crt": self.read("certs/ca.pem"),
            },
            "worker-tls": {"tls.crt": self.read("certs/worker.pem"), "tls.key": self.read("certs/worker.key")},
            "collector": {"ca.crt": self.read("certs/ca.pem"), "headers": "authorization: Bearer trial\n"},
            "installation": {"key": self.read("seed/installation/key")},
            "database": {"password": "trial"},
            "s3": {"credentials": "[default]\naws_access_key_id = trial\naws_secret_access_key = trial-secret\n"},
        }

    def start(self, *words, **more):
        """Starts a program that is no pod."""
        log = open(f"{self.directory}/{os.path.basename(words[0])}.log", "w")
        process = subprocess.Popen(words, stdout=log, stderr=log, **more)
        self.others.append(process)
        return process

    def exec(self, pod, *arguments):
        """`kubectl exec` of the server's program."""
        return pod.run(pod.spec["containers"][0], list(arguments))

    def make_tokens(self, server):
        for secret, tenant, scopes in (("worker", "workers", "worker"), ("test", "helm-test", "jobs,keys,read")):
            self.exec(server, "tenant", "create", tenant)
            token = self.exec(server, "token", "create", "--tenant", tenant, "--scopes", scopes)
            self.cluster.secrets[secret] = {"token": token}

    def helm_test(self):
        """The containers of the pod of `helm test`, one after the other."""
        pod = self.cluster.pod(self.cluster.workload("Pod"))
        begun = time.monotonic()
        printed = {container["name"]: pod.run(container) for container in chart.containers(pod.spec)}
        if printed["add"].split()[0] != "168":
            raise Failed(f"123 + 45 is {printed['add']}")
        say(f"  helm test: 123 + 45 = 168, and all products are right, in {time.monotonic() - begun:.1f} s")
        remove(pod.root)

    def end(self):
        if self.cluster:
            self.cluster.stop()
        for process in reversed(self.others):
            process.kill()
            process.wait()
        remove(self.directory)


def workers_of(text):
    """Ready workers in the metrics of a server."""
    return sum(
        float(value)
        for value in re.findall(r'^cloakwork_workers\{[^}]*state="ready"[^}]*\} (\S+)$', text, re.MULTILINE)
    )


def embedded(trial):
    server = trial.cluster.pod(trial.cluster.workload("StatefulSet"))
    server.run(server.spec["containers"][0], ["config", "check", "/etc/cloakwork/config/cloakwork.toml"])
    server.start()
    say("  the server is ready")
    if trial.exec(server, "anchor").strip() != trial.anchor:
        raise Failed("the server does not use the key of the Secret")
    trial.make_tokens(server)
    worker = trial.cluster.pod(trial.cluster.workload("Deployment"))
    worker.start()
    wait("two ready workers", lambda: workers_of(server.get("admin", "/metrics") or "") >= 2)
    say("  the worker of the pool is attached, beside the embedded one")
    trial.helm_test()
    say(f"  the worker stopped after {worker.end():.1f} s, and the server after {server.end():.1f} s")
    # The pod comes back on its volume, whose directories the first start has closed.
    server.start()
    say(f"  the server starts again on its volume, and stopped after {server.end():.1f} s")


def postgres(trial):
    """A server of PostgreSQL, as the user postgres if this is root, with the password of the Secret."""
    programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not programs:
        raise Failed("PostgreSQL is missing")
    data, port = f"{trial.directory}/postgres", free_port()
    as_user = []
    os.mkdir(data)
    if IS_ROOT:
        user = pwd.getpwnam("postgres")
        os.chown(data, user.pw_uid, user.pw_gid)
        as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    initdb = [*as_user, f"{programs[-1]}/initdb", "-D", data, "--auth-local=trust", "--auth-host=scram-sha-256"]
    subprocess.run(
        [*initdb, "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync"],
        check=True,
        capture_output=True,
        cwd="/",
    )
    trial.start(
        *as_user, f"{programs[-1]}/postgres", "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", data, "-F", cwd="/"
    )

    def sql(text):
        return subprocess.run(
            [*as_user, "psql", "-h", data, "-p", str(port), "-U", "postgres", "-c", text], capture_output=True, cwd="/"
        )

    wait("PostgreSQL", lambda: sql("SELECT 1").returncode == 0)
    for text in (
        "CREATE ROLE cloakwork LOGIN PASSWORD 'trial'",
        "CREATE DATABASE cloakwork OWNER cloakwork ENCODING 'UTF8' TEMPLATE template0",
    ):
        if sql(text).returncode != 0:
            raise Failed(text)
    return f"postgres://cloakwork@127.0.0.1:{port}/cloakwork"


def bucket(trial):
    """A mock of S3 with the bucket of the chart."""
    port = free_port()
    moto = shutil.which("moto_server")
    if not moto:
        raise Failed("moto is missing")
    trial.start(moto, "-H", "127.0.0.1", "-p", str(port))
    url = f"http://127.0.0.1:{port}"

    def made():
        try:
            request = urllib.request.Request(f"{url}/cloakwork", method="PUT")
            return urllib.request.urlopen(request, timeout=5).status == 200
        except OSError:
            return False

    wait("the mock of S3", made)
    return url


def owner(servers):
    """The server that owns the shard."""
    return next(
        (
            server
            for server in servers
            if re.search(r"^cloakwork_owner 1$", server.get("admin", "/metrics", "HTTPS") or "", re.MULTILINE)
        ),
        None,
    )


def scaled(trial):
    cluster = trial.cluster
    migration = cluster.pod(cluster.workload("Job"))
    printed = migration.run(migration.spec["containers"][0])
    say(f"  the migration: {', '.join(printed.split(chr(10))[:-1])}")
    servers = [cluster.pod(cluster.workload("StatefulSet"), number) for number in range(2)]
    for server in servers:
        # `config check` reads no variables, and replica.url is one.
        server.run(server.spec["containers"][0], ["config", "print"])
        server.start()
    say("  both servers are ready")
    trial.make_tokens(servers[0])
    first = wait("an owner", lambda: owner(servers))
    worker = cluster.pod(cluster.workload("Deployment"))
    worker.start()
    wait("a ready worker", lambda: workers_of(first.get("admin", "/metrics", "HTTPS") or "") >= 1)
    say("  a worker is attached")
    trial.helm_test()
    other = next(server for server in servers if server is not first)
    say(f"  the owner stopped after {first.end():.1f} s")
    wait("a takeover", lambda: owner([other]))
    trial.helm_test()
    say("  the other server has taken over, with the worker")
    first.start()
    say(f"  the stopped server is ready again, and waits. The worker stopped after {worker.end():.1f} s")
    say(f"  the servers stopped after {first.end():.1f} s and {other.end():.1f} s")


def autoscaled(trial):
    prometheus = shutil.which("prometheus")
    if not prometheus:
        raise Failed("Prometheus is missing")
    cluster = trial.cluster
    server = cluster.pod(cluster.workload("StatefulSet"))
    server.start()
    trial.make_tokens(server)
    scaled_object = cluster.workload("ScaledObject")
    query = scaled_object["spec"]["triggers"][0]["metadata"]["query"]
    port, home = free_port(), f"{trial.directory}/prometheus"
    os.mkdir(home)
    target = f"127.0.0.1:{cluster.port(server.name, 7271)}"
    scrape = {
        "job_name": "servers",
        "static_configs": [{"targets": [target], "labels": {"namespace": "fhe", "pod": server.name}}],
    }
    config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [scrape]}
    Path(home, "prometheus.json").write_text(json.dumps(config))
    trial.start(
        prometheus,
        f"--config.file={home}/prometheus.json",
        f"--storage.tsdb.path={home}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    )

    def value():
        address = f"http://127.0.0.1:{port}/api/v1/query?query={urllib.parse.quote(query)}"
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                found = json.load(answer)["data"]["result"]
        except OSError:
            return None
        return float(found[0]["value"][1]) if found else None

    def wants(replicas):
        def is_wanted():
            found = value()
            return found is not None and wanted_replicas(found, scaled_object) == replicas

        return is_wanted

    wait("a backlog of zero", wants(0))
    say("  no job: the query wants 0 workers")
    test = cluster.pod(cluster.workload("Pod"))
    steps = {container["name"]: container for container in chart.containers(test.spec)}
    for step in ("keygen", "push"):
        test.run(steps[step])
    words, values = test.command(steps["add"])
    job = subprocess.Popen(words, env=values, cwd=test.root, stdout=subprocess.PIPE, text=True)
    trial.others.append(job)
    wait("a backlog", wants(1))
    say(f"  a job waits: the query has {value():.3g} s, and wants 1 worker")
    worker = cluster.pod(cluster.workload("Deployment"))
    worker.start()
    printed, _ = job.communicate(timeout=120)
    if printed.split()[0] != "168":
        raise Failed(f"123 + 45 is {printed}")
    say("  the worker computes 123 + 45 = 168")
    wait("no backlog", wants(0))
    say(f"  no job: the query wants 0 workers. The worker stopped after {worker.end():.1f} s")
    # Without a server, KEDA gets no value and changes nothing. A zero would remove all workers.
    server.end()
    wait("a query without a value", lambda: value() is None)
    say("  no server: the query has no value, which KEDA takes for an error and not for zero")


def main():
    bins, scenarios = sys.argv[1], sys.argv[2:]
    for scenario in scenarios:
        say(f"{scenario}:")
        trial = None
        try:
            trial = Trial(bins)
            addresses = []
            if scenario == "scaled":
                addresses = ["--set", f"database.url={postgres(trial)}", "--set", f"s3.endpoint={bucket(trial)}"]
            trial.install(scenario, *addresses)
            {"embedded": embedded, "scaled": scaled, "autoscaled": autoscaled}[scenario](trial)
        except Failed as failure:
            sys.exit(f"{scenario}: {failure}")
        finally:
            if trial:
                trial.end()


if __name__ == "__main__":
    main()
