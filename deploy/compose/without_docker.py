"""Runs the services of a Compose project without Docker, on Linux, as root.

A container has a network namespace on a bridge of the project, a mount namespace with its volumes and
secrets, and its user without capabilities. Containers of Cloakwork have the file system that
deploy/docker/rootfs.sh built. For images of others, programs of this machine take their places, on
a copy of its file system in memory. A server of DNS knows the names of services. Not modelled are
published ports, limits of resources, and logging.

The traffic stays within the namespaces, which have no way to another network.
"""

import ctypes
import ipaddress
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

OURS = "cloakwork"
# Users, programs and stop signals of the images of others. A program's name is that of Debian.
IMAGES = {
    "postgres": {"user": "postgres", "stop": signal.SIGINT},
    "prom/prometheus": {"user": "nobody", "program": "prometheus"},
    "prom/alertmanager": {"user": "nobody", "program": "prometheus-alertmanager"},
    "minio/minio": {"user": "root", "program": "minio"},
    "curlimages/curl": {"user": "nobody"},
}
# Images for which no program of a Debian machine stands.
MISSING = ("grafana/grafana", "grafana/tempo", "otel/opentelemetry-collector-contrib")
NETWORK = ipaddress.ip_network("172.30.77.0/24")
GATEWAY = str(NETWORK[1])
NO_NEW_PRIVILEGES, DROP_FROM_BOUNDING_SET, LAST_CAPABILITY = 38, 24, 40
CAPABILITIES = {"CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3}


def run(*command, **more):
    return subprocess.run([str(word) for word in command], check=True, text=True, **more)


def seconds(duration):
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+)(ms|[smh])", duration or ""))


def wait(condition, what, limit=60.0):
    """Waits for a condition, and fails after `limit` seconds."""
    end = time.monotonic() + limit
    while True:
        try:
            result = condition()
        except subprocess.CalledProcessError:
            result = None
        if result:
            return result
        if time.monotonic() > end:
            raise TimeoutError(f"not within {limit} s: {what}")
        time.sleep(0.2)


class Names(threading.Thread):
    """Answers DNS queries for names of services, inside a network namespace."""

    def __init__(self, namespace, lookup):
        super().__init__(daemon=True)
        self.namespace, self.lookup, self.ready = namespace, lookup, threading.Event()

    def run(self):
        # The namespace holds for this thread alone.
        with open(f"/run/netns/{self.namespace}") as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind((GATEWAY, 53))
            self.ready.set()
            while True:
                query, peer = server.recvfrom(4096)
                try:
                    server.sendto(self.answer(query), peer)
                except (IndexError, struct.error, UnicodeDecodeError):
                    continue

    def answer(self, query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode())
            at += 1 + query[at]
        (kind,) = struct.unpack("!H", query[at + 1 : at + 3])
        found = self.lookup(".".join(labels))
        addresses = found if kind == 1 else []
        no_error, no_name = 0x8180, 0x8183
        head = query[:2] + struct.pack("!HHHHH", no_error if found else no_name, 1, len(addresses), 0, 0)
        records = [struct.pack("!HHHIH", 0xC00C, 1, 1, 1, 4) + ipaddress.ip_address(it).packed for it in addresses]
        return head + query[12 : at + 5] + b"".join(records)


class Container:
    """A container of a service."""

    def __init__(self, project, service, name, number):
        self.project, self.service_name, self.name = project, service, name
        self.service = project.model["services"][service]
        self.image = self.service["image"].rpartition(":")[0]
        self.namespace = f"{project.prefix}-{number}"
        self.directory = project.directory / "containers" / name
        self.log = project.directory / f"{name}.log"
        self.process, self.wanted, self.restarts = None, False, 0
        front = (self.service.get("networks") or {}).get("front") or {}
        self.address = front.get("ipv4_address") or str(NETWORK[20 + number])

    def user(self):
        if self.image == OURS:
            return 65532, 65532
        import pwd

        name = (self.service.get("user") or IMAGES[self.image]["user"]).partition(":")[0]
        entry = pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name)
        return entry.pw_uid, entry.pw_gid

    def command(self):
        entry, command = self.service.get("entrypoint"), self.service.get("command") or []
        if entry is None and self.image == OURS:
            entry = ["/usr/bin/cloakwork-server"]
        elif entry is None and self.image == "postgres":
            entry = ["bash", "/entrypoint.sh"]
        elif entry is None:
            program = IMAGES[self.image]["program"]
            entry = [f"/usr/local/bin/{program}" if program in self.project.programs else shutil.which(program)]
        return [*entry, *command]

    def environment(self):
        values = {"PATH": "/usr/bin" if self.image == OURS else self.project.path, "HOSTNAME": self.name, "HOME": "/"}
        if self.image == "postgres":
            values["PGDATA"] = "/var/lib/postgresql/data"
        return values | {key: str(value) for key, value in (self.service.get("environment") or {}).items()}

    def mounts(self):
        """Source, target, and whether the container may write."""
        yield self.directory / "resolv.conf", "/etc/resolv.conf", False
        yield self.directory / "hosts", "/etc/hosts", False
        for mount in self.service.get("volumes") or []:
            named = mount["type"] == "volume"
            source = self.project.volume(mount["source"], mount["target"], self) if named else mount["source"]
            yield source, mount["target"], not mount.get("read_only")
        for secret in self.service.get("secrets") or []:
            target = secret.get("target") or f"/run/secrets/{secret['source']}"
            yield self.project.model["secrets"][secret["source"]]["file"], target, False
        program = IMAGES.get(self.image, {}).get("program")
        if program in self.project.programs:
            yield self.project.programs[program], f"/usr/local/bin/{program}", False
        if self.image == "postgres" and not self.service.get("entrypoint"):
            yield self.project.here / "postgres/entrypoint.sh", "/entrypoint.sh", False

    def start(self):
        for path in ("root", "layer"):
            (self.directory / path).mkdir(parents=True, exist_ok=True)
        (self.directory / "resolv.conf").write_text(f"nameserver {GATEWAY}\noptions timeout:1\n")
        (self.directory / "hosts").write_text(f"127.0.0.1 localhost\n{self.address} {self.name}\n")
        uid, gid = self.user()
        confined = self.service.get("cap_drop") == ["ALL"] or uid != 0
        kept = [CAPABILITIES[name] for name in self.service.get("cap_add") or []]
        given = {
            "name": self.name,
            "root": str(self.directory / "root"),
            "layer": str(self.directory / "layer"),
            "lower": str(self.project.image) if self.image == OURS else "/",
            "mounts": [[str(source), target, writable] for source, target, writable in self.mounts()],
            "tmpfs": list(self.service.get("tmpfs") or []) + ([] if self.image == OURS else ["/tmp"]),
            "read_only": bool(self.service.get("read_only")),
            "drop": [i for i in range(LAST_CAPABILITY + 1) if confined and i not in kept],
            "uid": uid,
            "gid": gid,
            "directory": "/var/lib/cloakwork" if self.image == OURS else "/",
            "environment": self.environment(),
            "command": self.command(),
        }
        (self.directory / "given.json").write_text(json.dumps(given))
        self.project.connect(self)
        self.wanted = True
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.namespace, "unshare", "--mount", "--pid", "--ipc", "--uts", "--fork",
                 "--kill-child=KILL", sys.executable, __file__, str(self.directory / "given.json")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def pid(self):
        """The process of the container, as this machine numbers it."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0]) if children else None

    def execute(self, *command, environment=None, **more):
        """Runs a command in the container, as its user."""
        uid, gid = self.user()
        enter = ["nsenter", f"--target={self.pid()}", "--mount", "--net", "--pid", "--uts", "--ipc", "--root",
                 "--wd", f"--setuid={uid}", f"--setgid={gid}"]
        return subprocess.run([*enter, *map(str, command)], env=self.environment() | (environment or {}), text=True,
                              capture_output=True, **more)

    def is_healthy(self):
        health = self.service["healthcheck"]
        kind, *test = health["test"]
        assert kind == "CMD", test
        limit = seconds(health.get("timeout")) or 30
        try:
            return self.pid() is not None and self.execute(*test, timeout=limit).returncode == 0
        except (subprocess.TimeoutExpired, FileNotFoundError):
            return False

    def kill(self):
        """Kills the container for good, as `docker kill` does."""
        self.wanted = False
        self.signal(signal.SIGKILL)
        self.process.wait(30)

    def restart(self):
        """Starts the container again if it ended and its policy says so."""
        is_kept = self.service.get("restart") == "unless-stopped"
        if is_kept and self.wanted and self.process.poll() is not None:
            self.restarts += 1
            self.start()

    def signal(self, number):
        if self.process and self.process.poll() is None and self.pid():
            os.kill(self.pid(), number)

    def stop(self):
        """Ends the container as `docker stop` does. Returns whether it ended in time."""
        self.wanted = False
        self.signal(IMAGES.get(self.image, {}).get("stop", signal.SIGTERM))
        try:
            self.process.wait(seconds(self.service.get("stop_grace_period")) or 10)
            return True
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return False


class Project:
    """A Compose project. `model` is what the parser of Compose files printed as JSON."""

    def __init__(self, model, directory, image, programs, path, here):
        self.model, self.directory, self.image = model, pathlib.Path(directory), image
        self.programs, self.path, self.here = programs, path, pathlib.Path(here)
        self.prefix = f"cw{os.getpid()}"
        self.containers, self.networks, self.visit = {}, [], None
        (self.directory / "volumes").mkdir(parents=True, exist_ok=True)
        self.hub = f"{self.prefix}-hub"
        run("ip", "netns", "add", self.hub)
        self.networks.append(self.hub)
        run("ip", "-n", self.hub, "link", "set", "lo", "up")
        run("ip", "-n", self.hub, "link", "add", "bridge0", "type", "bridge")
        run("ip", "-n", self.hub, "address", "add", f"{GATEWAY}/{NETWORK.prefixlen}", "dev", "bridge0")
        run("ip", "-n", self.hub, "link", "set", "bridge0", "up")
        threading.Thread(target=self.keep, daemon=True).start()
        names = Names(self.hub, self.lookup)
        names.start()
        if not names.ready.wait(10):
            raise TimeoutError("the server of names does not start")

    def keep(self):
        """Restarts containers, once a second."""
        while True:
            time.sleep(1)
            for container in list(self.containers.values()):
                if container.process:
                    container.restart()

    def lookup(self, name):
        found = [c for c in self.containers.values() if name in (c.service_name, c.name)]
        return [c.address for c in found if c.process and c.process.poll() is None]

    def join(self, name, number, address):
        """Makes a network namespace, on the bridge if it has an address."""
        run("ip", "netns", "add", name)
        self.networks.append(name)
        run("ip", "-n", name, "link", "set", "lo", "up")
        if address is None:
            return
        here, there = f"veth{number}", "eth0"
        run("ip", "link", "add", here, "netns", self.hub, "type", "veth", "peer", "name", there, "netns", name)
        run("ip", "-n", self.hub, "link", "set", here, "master", "bridge0", "up")
        run("ip", "-n", name, "address", "add", f"{address}/{NETWORK.prefixlen}", "dev", there)
        run("ip", "-n", name, "link", "set", there, "up")

    def connect(self, container):
        name = container.namespace
        if name not in self.networks:
            alone = container.service.get("network_mode") == "none"
            self.join(name, name.rpartition("-")[2], None if alone else container.address)

    def visitor(self):
        """A network namespace on the bridge without a container, whose programs know the services."""
        name = f"{self.prefix}-visitor"
        self.join(name, "v", NETWORK[99])
        # `ip netns exec` puts this file in the place of /etc/resolv.conf.
        self.visit = pathlib.Path("/etc/netns") / name
        self.visit.mkdir(parents=True)
        (self.visit / "resolv.conf").write_text(f"nameserver {GATEWAY}\n")
        return name

    def volume(self, name, target, container):
        """The directory of a volume. A new one takes owner and mode from the image, as in Docker."""
        path = self.directory / "volumes" / name
        if not path.exists():
            path.mkdir()
            of_image = pathlib.Path(f"{self.image}{target}")
            if container.image == OURS and of_image.is_dir():
                shutil.copystat(of_image, path)
                os.chown(path, of_image.stat().st_uid, of_image.stat().st_gid)
            elif container.image != OURS and container.service_name != "installation-copy":
                os.chown(path, *container.user())
        return path

    def up(self):
        """Starts all services that have programs here, in the order of their conditions."""
        started = []
        waiting = {n: s for n, s in self.model["services"].items() if s["image"].rpartition(":")[0] not in MISSING}
        while waiting:
            ready = [n for n, s in waiting.items() if all(d not in waiting for d in s.get("depends_on") or {})]
            for name in ready:
                for other, condition in (waiting[name].get("depends_on") or {}).items():
                    self.meet(other, condition["condition"])
                replicas = (waiting[name].get("deploy") or {}).get("replicas", 1)
                for index in range(replicas):
                    label = name if replicas == 1 else f"{name}-{index + 1}"
                    if label not in self.containers:
                        self.containers[label] = Container(self, name, label, len(self.containers))
                    self.containers[label].start()
                    started.append(label)
                del waiting[name]
        for name in started:
            if self.containers[name].service.get("healthcheck"):
                self.meet(self.containers[name].service_name, "service_healthy")
        return started

    def meet(self, service, condition):
        for container in [c for c in self.containers.values() if c.service_name == service]:
            if condition == "service_healthy":
                wait(container.is_healthy, f"{container.name} is healthy", 120)
            elif condition == "service_completed_successfully":
                if container.process.wait(120) != 0:
                    raise RuntimeError(f"{container.name} failed:\n{container.log.read_text()}")

    def down(self):
        """Stops all containers, the last one first. Returns the names of those that had to be killed."""
        killed = []
        for container in reversed(list(self.containers.values())):
            if container.process and container.process.poll() is None and not container.stop():
                killed.append(container.name)
        return killed

    def remove(self):
        self.down()
        for name in self.networks:
            subprocess.run(["ip", "netns", "delete", name], check=False)
        if self.visit:
            shutil.rmtree(self.visit)


def inside(given):
    """Builds the file system of a container in this process's mount namespace, and becomes its program."""
    root, layer = given["root"], given["layer"]
    socket.sethostname(given["name"])

    def mount(*words):
        run("mount", *words)

    mount("--make-rprivate", "/")
    mount("-t", "tmpfs", "tmpfs", layer)
    for name in ("upper", "work"):
        os.mkdir(f"{layer}/{name}")
    layers = f"lowerdir={given['lower']},upperdir={layer}/upper,workdir={layer}/work"
    mount("-t", "overlay", "overlay", "-o", layers, root)
    for name in ("proc", "dev", "run", "tmp"):
        os.makedirs(f"{root}/{name}", exist_ok=True)
    mount("-t", "proc", "proc", f"{root}/proc")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", f"{root}/dev")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", f"{root}/run")
    for device in ("null", "zero", "full", "random", "urandom"):
        open(f"{root}/dev/{device}", "w").close()
        mount("--bind", f"/dev/{device}", f"{root}/dev/{device}")
    os.symlink("/proc/self/fd", f"{root}/dev/fd")
    os.mkdir(f"{root}/dev/shm")
    os.chmod(f"{root}/dev/shm", 0o1777)
    os.makedirs(f"{root}/run/postgresql")
    os.chown(f"{root}/run/postgresql", given["uid"], given["gid"])
    for path in given["tmpfs"]:
        os.makedirs(root + path, exist_ok=True)
        mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", root + path)
    for source, target, writable in given["mounts"]:
        place = pathlib.Path(root + target)
        place.parent.mkdir(parents=True, exist_ok=True)
        if os.path.isdir(source):
            place.mkdir(exist_ok=True)
        else:
            place.unlink(missing_ok=True)
            place.touch()
        mount("--bind", source, place)
        if not writable:
            mount("-o", "remount,bind,ro", place)
    if given["read_only"]:
        mount("-o", "remount,ro", root)
    os.chroot(root)
    os.chdir(given["directory"])
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in given["drop"]:
        libc.prctl(DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)
    libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    os.setgroups([])
    os.setgid(given["gid"])
    os.setuid(given["uid"])
    os.umask(0o022)
    os.execvpe(given["command"][0], given["command"], given["environment"])


if __name__ == "__main__":
    inside(json.loads(pathlib.Path(sys.argv[1]).read_text()))
