"""The stack of a trial: PostgreSQL, servers, a bucket and workers, with wires between them."""

import atexit
import os
import pathlib
import shutil
import subprocess
import tempfile

import certificates
from bucket import Bucket
from postgres import Postgres
from processes import end_all, ports, run, wait_for
from programs import Server, Tenant, Worker
from watch import TOP, Watch
from wire import Wire

DISK_BYTES = 512 << 20


class Cluster:
    """Two servers on one database and one bucket, with TLS. `standbys` names those of PostgreSQL."""

    name = "cluster"

    def __init__(self, factor, standbys=(), settings=None):
        self.place = make_place()
        self.watch = Watch(self.place, factor)
        self.tenants, self.extra_targets = [], {}
        self.start_database(standbys)
        self.start_bucket()
        self.write_settings(settings or {})
        self.start_servers()
        self.start_workers()

    def start_database(self, standbys):
        first, *rest = ports(1 + len(standbys))
        self.postgres = Postgres("primary", self.place, first).make().start()
        self.postgres.sql("CREATE DATABASE cloakwork ENCODING 'UTF8' TEMPLATE template0", database="postgres")
        self.standbys = {}
        for name, port in zip(standbys, rest):
            self.standbys[name] = Postgres(name, self.place, port).copy(self.postgres).start()
        if standbys:
            self.postgres.wait_for_standbys(standbys[0])

    def start_bucket(self):
        (port,) = ports(1)
        self.bucket, self.bucket_port = Bucket(port), port
        self.credentials = self.place / "s3-credentials"
        with open(os.open(self.credentials, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write("[default]\naws_access_key_id = drill\naws_secret_access_key = drill\n")

    def write_settings(self, settings):
        certificates.make_authority(self.place / "certs")
        certificates.make_server(self.place / "certs", 90)
        sections = {
            "listen": {"tls_certificate": "certs/server.pem", "tls_key": "certs/server.key",
                       "client_ca": "certs/ca.pem", "trusted_proxies": "127.0.0.1"},
            "storage": {"blobs": "s3", "s3_endpoint": f"http://127.0.0.1:{self.bucket_port}", "s3_bucket": Bucket.NAME,
                        "s3_credentials_file": "s3-credentials"},
            "replica": {"ca_file": "certs/ca.pem"},
            "auth": {"anonymous": "false"}, "worker": {"embedded": "false"},
            "pools.cpu": {"bootstraps_per_second": "150", "sets": ""}}
        write_settings(self.place, sections, settings)

    def start_servers(self):
        self.servers, self.to_database, self.inward = {}, {}, {}
        for name in ("a", "b"):
            api, admin, wire, inward = ports(4)
            self.to_database[name] = Wire(wire, [self.postgres.port])
            self.inward[name] = Wire(inward, [api])
            self.servers[name] = Server(name, self.place, api, admin, {
                "database.url": f"postgres://postgres@127.0.0.1:{wire}/cloakwork",
                "replica.url": f"https://localhost:{inward}"})
            data = self.place / f"data-{name}"
            data.mkdir(0o700)
            mount_disk(data)
            if name == "b":
                shutil.copytree(self.place / "data-a/installation", data / "installation")
            self.servers[name].start()
        # What a load balancer does: a connection goes to a server that takes it.
        (front,) = ports(1)
        self.balancer = Wire(front, [self.servers["b"].api, self.servers["a"].api])
        self.url = f"https://localhost:{front}"

    def start_workers(self):
        write_secret(self.place / "worker.token", self.servers["a"].token("workers", "worker"))
        urls = ",".join(f"https://localhost:{wire.port}" for wire in self.inward.values())
        options = ["--ca", self.place / "certs/ca.pem"]
        self.workers = {name: Worker(f"worker-{name}", self.place, urls, port, options).start()
                        for name, port in zip(("a", "b"), ports(2))}
        self.wait_for_workers(2)

    def wait_for_workers(self, count):
        attached = lambda: sum(server.metric("cloakwork_workers") or 0 for server in self.servers.values()) >= count
        wait_for(f"{count} workers are attached", attached)

    def start_watch(self):
        self.watch.start({
            "cloakwork-server": {f"server-{name}": server.admin for name, server in self.servers.items()},
            "cloakwork-worker": {worker.name: worker.metrics for worker in self.workers.values()} | self.extra_targets})

    def tenant(self, name, parameters=None):
        """A tenant whose key the server has."""
        token = self.servers["a"].token(name, "jobs,keys,read")
        tenant = Tenant(name, self.place, self.url, token, self.place / "certs/ca.pem")
        self.tenants.append(tenant)
        return tenant.make_keys(parameters).push_keys()

    def owner(self, patience=30):
        """The name of the server that owns the database."""
        return wait_for("a server owns the database",
                        lambda: next((name for name, server in self.servers.items() if server.owns()), None), patience)

    def other(self, name):
        return "b" if name == "a" else "a"

    def close(self):
        close(self)


class Single:
    """One server with its database in a file and its blobs in a directory, without TLS. `settings` may
    be a function of the directory of the trial."""

    name = "single"

    def __init__(self, factor, settings=None, worker_options=(), workers=("a", "b")):
        self.place = make_place()
        self.watch = Watch(self.place, factor)
        self.tenants, self.extra_targets = [], {}
        sections = {"auth": {"anonymous": "false"}, "worker": {"embedded": "false"},
                    "listen": {"trusted_proxies": "127.0.0.1"}}
        write_settings(self.place, sections, settings(self.place) if callable(settings) else settings or {})
        api, admin, wire = ports(3)
        data = self.place / "data-a"
        data.mkdir(0o700)
        mount_disk(data)
        self.server = Server("a", self.place, api, admin, {}).start()
        self.servers = {"a": self.server}
        self.url = f"http://127.0.0.1:{api}"
        # Workers reach the server through a wire, callers do not.
        self.to_workers = Wire(wire, [api])
        write_secret(self.place / "worker.token", self.server.token("workers", "worker"))
        there = f"http://127.0.0.1:{wire}"
        self.workers = {name: Worker(f"worker-{name}", self.place, there, port, worker_options).start()
                        for name, port in zip(workers, ports(len(workers)))}
        self.wait_for_workers(len(workers))

    wait_for_workers = Cluster.wait_for_workers
    start_watch = Cluster.start_watch

    def tenant(self, name, parameters=None):
        """A tenant whose key the server has."""
        tenant = Tenant(name, self.place, self.url, self.server.token(name, "jobs,keys,read"))
        self.tenants.append(tenant)
        return tenant.make_keys(parameters).push_keys()

    def close(self):
        close(self)


def make_place():
    """A directory that is removed at the end, however the trial ends. It lies in memory, because other
    work on the disk of this machine would be a fault of its own."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="cloakwork-drill-"))
    run("mount", "-t", "tmpfs", "-o", "mode=0755", "cloakwork-drill", place)
    atexit.register(remove, place)
    return place


def remove(place):
    end_all()
    for mounted in [*place.glob("data-*"), place]:
        subprocess.run(["umount", "--lazy", mounted], check=False, capture_output=True)
    shutil.rmtree(place, ignore_errors=True)


def write_settings(place, sections, settings):
    """Writes cluster.toml. Keys of `settings` are full names of settings."""
    top = {}
    for name, value in settings.items():
        section, _, key = name.rpartition(".")
        (sections.setdefault(section, {}) if section else top)[key] = value
    value = lambda text: text if text in ("true", "false") or text.replace(".", "", 1).isdigit() else f'"{text}"'
    lines = [f"{key} = {value(str(text))}" for key, text in top.items()]
    for name, section in sections.items():
        lines += [f"[{name}]", *(f"{key} = {value(str(text))}" for key, text in section.items())]
    (place / "cluster.toml").write_text("\n".join(lines) + "\n")


def write_secret(path, text):
    with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)


def mount_disk(directory):
    """Gives a directory a small file system of its own, in the mount namespace of the trial."""
    run("mount", "-t", "tmpfs", "-o", f"mode=0700,size={DISK_BYTES}", "cloakwork-drill", directory)


def fill_disk(directory, share):
    """Has a file of another program fill a disk up to this share."""
    space = os.statvfs(directory)
    wanted = int(space.f_blocks * space.f_frsize * share)
    used = (space.f_blocks - space.f_bfree) * space.f_frsize
    with open(directory / "other-program.log", "ab") as file:
        left = wanted - used
        while left > 0:
            left -= file.write(bytes(min(left, 1 << 20)))


def free_disk(directory):
    (directory / "other-program.log").unlink(missing_ok=True)


def close(stack):
    """Ends all processes of a stack, and removes its files. Its logs stay in target/drill."""
    end_all()
    logs = TOP / "target/drill" / stack.name
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    for log in [*stack.place.glob("*.log"), *stack.place.glob("watch/*.log")]:
        shutil.copy(log, logs)
    remove(stack.place)
