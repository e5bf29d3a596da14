"""The programs of Cloakwork, as a trial starts them: servers, workers and the command line."""

import json
import os
import pathlib
import random
import re
import signal
import subprocess

from processes import Process, fetch, run, wait_for

FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
BINARIES = pathlib.Path(os.environ.get("BIN_DIR", "."))


def changed_clock(offset):
    """The environment of a process whose time of day differs, by the library of faketime."""
    return {"LD_PRELOAD": FAKETIME, "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


class Server:
    """A `cloakwork-server`."""

    def __init__(self, name, place, api, admin, settings):
        self.name, self.place, self.api, self.admin = name, place, api, admin
        self.settings = {"storage.directory": str(place / f"data-{name}"), "listen.address": f"127.0.0.1:{api}",
                         "listen.admin_address": f"127.0.0.1:{admin}"} | settings
        self.environment, self.process = {}, None

    def words(self):
        return [word for key, value in self.settings.items() for word in ("--set", f"{key}={value}")]

    def start(self, ready=True):
        command = [BINARIES / "cloakwork-server", "serve", *self.words()]
        self.process = Process(f"server-{self.name}", command, self.place / f"server-{self.name}.log", cwd=self.place,
                               environment=self.environment | {"CLOAKWORK_CONFIG": str(self.place / "cluster.toml")})
        self.process.start()
        if ready:
            wait_for(f"the server {self.name} is ready: {self.process.log}", self.is_ready)
        return self

    def is_ready(self):
        if not self.process.runs():
            raise RuntimeError(f"the server {self.name} has ended: {self.process.last_lines()}")
        return fetch(f"http://127.0.0.1:{self.admin}/readyz") is not None

    def metric(self, name):
        """The sum of the series of a metric, or nothing if the server does not answer."""
        page = fetch(f"http://127.0.0.1:{self.admin}/metrics", timeout=2)
        if page is None:
            return None
        values = re.findall(rf"(?m)^{name}(?:\{{[^}}]*\}})? ([0-9.e+-]+)$", page)
        return sum(map(float, values))

    def owns(self):
        return self.metric("cloakwork_owner") == 1

    def command(self, *words):
        """Runs a command of the program on the database of this server."""
        environment = os.environ | {"CLOAKWORK_CONFIG": str(self.place / "cluster.toml")}
        for key in ("storage.directory", "database.url"):
            if key in self.settings:
                environment["CLOAKWORK_" + key.replace(".", "__").upper()] = self.settings[key]
        return run(BINARIES / "cloakwork-server", *words, cwd=self.place, env=environment)

    def token(self, tenant, scopes):
        """A token of a tenant, which exists afterwards."""
        try:
            self.command("tenant", "create", tenant)
        except RuntimeError as error:
            if "exists" not in str(error):
                raise
        return self.command("token", "create", "--tenant", tenant, "--scopes", scopes).splitlines()[-1]


class Worker:
    """A `cloakwork-worker`."""

    def __init__(self, name, place, servers, metrics, options=()):
        self.name, self.place, self.metrics = name, place, metrics
        self.servers, self.options, self.environment, self.process = servers, list(options), {}, None
        self.log = place / f"{name}.log"

    def start(self):
        command = [BINARIES / "cloakwork-worker", "--server", self.servers, "--token-file", self.place / "worker.token",
                   "--name", self.name, "--threads", "1", "--devices", "cpu", "--vector-memory", "0",
                   "--metrics", f"127.0.0.1:{self.metrics}", *self.options]
        self.process = Process(self.name, command, self.log, cwd=self.place, environment=self.environment)
        self.process.start()
        return self

    def jobs(self):
        """The number of jobs that the worker holds."""
        page = fetch(f"http://127.0.0.1:{self.metrics}/metrics", timeout=2) or ""
        return sum(map(float, re.findall(r"(?m)^cloakwork_worker_jobs\{[^}]*\} (\S+)$", page)))

    def kill(self):
        self.process.kill()

    def send(self, number):
        self.process.send(number)

    def end(self):
        self.process.end(signal.SIGTERM)


class Tenant:
    """A tenant with keys, as its own computer has them. It decrypts, and knows the right answers."""

    def __init__(self, name, place, url, token, authority=None):
        self.name, self.place = name, place
        self.environment = {"CLOAKWORK_SERVER": url, "CLOAKWORK_TOKEN": token, "HOME": str(place),
                            "CLOAKWORK_KEYS": str(place / f"keys-{name}")}
        if authority:
            self.environment["CLOAKWORK_CA"] = str(authority)
        self.random = random.Random(name)

    def call(self, *words, patience=120, check=True):
        """Runs the command line. Returns the finished process."""
        done = subprocess.run([BINARIES / "cloakwork", *words], text=True, capture_output=True, cwd=self.place,
                              env=os.environ | self.environment, timeout=patience, stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            raise RuntimeError(f"{self.name}: {' '.join(words)}: {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def background(self, *words, log=None):
        """Starts the command line as a load."""
        path = self.place / (log or f"load-{self.name}.log")
        command = [BINARIES / "cloakwork", *words]
        return Process(f"load-{self.name}", command, path, cwd=self.place, environment=self.environment).start()

    def make_keys(self, parameters=None):
        self.call("keygen", *(["--set", parameters] if parameters else []))
        return self

    def push_keys(self):
        self.call("keys", "push", patience=300)
        return self

    def jobs(self, *states, limit=100000):
        """The names of the tenant's jobs in these states."""
        words = [word for state in states for word in ("--state", state)]
        listing = json.loads(self.call("--json", "jobs", "ls", *words, "--limit", str(limit)).stdout)
        return [job["name"] if "name" in job else job["job"] for job in listing["jobs"]]
