"""Runs the pods of a rendered chart as processes of this machine, on loopback.

Each pod has a directory that stands for its file system. Commands, arguments, variables and files
are the rendered ones. Only paths of mounts, ports, and names of hosts in them are replaced.
"""

import math
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request

import chart

# The user of the image. As root, programs run as this user, so that modes of files count.
USER = 65532
IS_ROOT = os.geteuid() == 0


class Failed(Exception):
    """A program did not do what the chart needs."""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait(what, condition, seconds=60):
    """Returns the first true value of a condition."""
    until = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > until:
            raise Failed(f"not within {seconds} s: {what}")
        time.sleep(0.1)


class Service:
    """Stands for the Service of the API: passes each connection to a server that is ready."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            caller, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=[caller], daemon=True).start()

    def serve(self, caller):
        for pod in self.cluster.pods:
            if chart.component(pod.labels) == "server" and pod.is_ready():
                server = socket.create_connection(("127.0.0.1", self.cluster.port(pod.name, 7270)))
                threading.Thread(target=self.copy, args=[server, caller], daemon=True).start()
                self.copy(caller, server)
                return
        caller.close()

    @staticmethod
    def copy(source, target):
        try:
            while piece := source.recv(1 << 16):
                target.sendall(piece)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Cluster:
    """The objects of a chart, its Secrets, and all running pods."""

    def __init__(self, directory, bins, objects, secrets):
        self.directory, self.bins, self.objects, self.secrets = directory, bins, objects, secrets
        self.pods, self.ports = [], {}
        self.service = Service(self)
        self.maps = {it["metadata"]["name"]: it["data"] for it in chart.of_kind(objects, "ConfigMap")}

    def port(self, pod, number):
        """The port of this machine that stands for a port of a pod."""
        return self.ports.setdefault((pod, int(number)), free_port())

    def workload(self, kind, end=""):
        return next(it for it in chart.of_kind(self.objects, kind) if it["metadata"]["name"].endswith(end))

    def pod(self, workload, number=0):
        name = f"{workload['metadata']['name']}-{number}" if workload["kind"] != "Pod" else workload["metadata"]["name"]
        pod = Pod(self, name, workload)
        self.pods.append(pod)
        return pod

    def stop(self):
        for pod in self.pods:
            pod.kill()


class Pod:
    def __init__(self, cluster, name, workload):
        self.cluster, self.name, self.workload = cluster, name, workload
        self.labels, self.spec = chart.pod_of(workload)
        self.root = os.path.join(cluster.directory, name)
        self.process, self.log = None, os.path.join(cluster.directory, f"{name}.log")
        os.makedirs(self.root)
        mounts = {mount["mountPath"]: mount for it in chart.containers(self.spec) for mount in it["volumeMounts"]}
        # A mount with a subPath covers a file that exists only once the init containers have run.
        self.mounts = {path: mount for path, mount in mounts.items() if "subPath" not in mount and path != "/tmp"}
        for path, mount in self.mounts.items():
            self.fill(self.root + path, self.volume(mount["name"]))

    def volume(self, name):
        volumes = {volume["name"]: volume for volume in self.spec.get("volumes", [])}
        return volumes.get(name, {"persistentVolumeClaim": {}})

    def fill(self, path, volume):
        """Makes the directory of a volume as the kubelet does with an fsGroup."""
        os.makedirs(path)
        if "configMap" in volume:
            for key, text in self.cluster.maps[volume["configMap"]["name"]].items():
                self.write(f"{path}/{key}", self.rewritten(text), 0o644)
        elif "secret" in volume:
            for item in volume["secret"]["items"]:
                self.write_secret(f"{path}/{item['path']}", volume["secret"], item["key"])
        elif IS_ROOT:
            os.chown(path, 0, USER)
            os.chmod(path, 0o2775)
        else:
            os.chmod(path, 0o700)

    def write_secret(self, path, secret, key):
        value = self.cluster.secrets[secret["secretName"]][key]
        self.write(path, value, secret["defaultMode"])

    def write(self, path, text, mode):
        if os.path.exists(path):
            os.remove(path)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        if IS_ROOT:
            os.chown(path, 0, USER)

    def rewritten(self, text):
        cluster = self.cluster
        for path in sorted(getattr(self, "mounts", {}), key=len, reverse=True):
            text = re.sub(rf"(?<![\w/]){re.escape(path)}(?=[/\"]|$)", self.root + path, text, flags=re.MULTILINE)
        # Ports that this pod binds.
        text = re.sub(r"0\.0\.0\.0:(\d+)", lambda found: f"127.0.0.1:{cluster.port(self.name, found[1])}", text)

        def host(found):
            # POD.SERVICE.NAMESPACE.svc is a server, and SERVICE.NAMESPACE.svc any server.
            pod, *more = found[1].split(".")
            return f"//127.0.0.1:{cluster.port(pod, found[2]) if len(more) == 3 else cluster.service.port}"

        return re.sub(r"//([a-z0-9.-]+\.svc):(\d+)", host, text)

    def environment(self, container):
        values = {}
        for variable in container.get("env", []):
            source = variable.get("valueFrom", {})
            if "fieldRef" in source:
                assert source["fieldRef"]["fieldPath"] == "metadata.name"
                value = self.name
            elif "secretKeyRef" in source:
                value = self.cluster.secrets[source["secretKeyRef"]["name"]][source["secretKeyRef"]["key"]].strip()
            else:
                value = self.rewritten(self.expanded(variable["value"], values))
            values[variable["name"]] = value
        return values

    @staticmethod
    def expanded(text, values):
        """Replaces $(NAME) as the kubelet does."""
        return re.sub(r"\$\((\w+)\)", lambda found: values.get(found[1], found[0]), text)

    def command(self, container, arguments=None):
        values = self.environment(container)
        program = f"{self.cluster.bins}/{os.path.basename(container['command'][0])}"
        arguments = container.get("args", []) if arguments is None else arguments
        words = [program, *(self.rewritten(self.expanded(argument, values)) for argument in arguments)]
        if IS_ROOT:
            words = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs", *words]
        return words, values

    def run(self, container, arguments=None):
        """Runs a container, or another command in it, to its end. Returns what it prints."""
        words, values = self.command(container, arguments)
        done = subprocess.run(words, env=values, cwd=self.root, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            raise Failed(f"{self.name}: {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def start(self):
        """Runs the init containers, and starts the container."""
        for container in self.spec.get("initContainers", []):
            self.run(container)
        container = self.spec["containers"][0]
        for mount in (mount for mount in container["volumeMounts"] if "subPath" in mount):
            self.write_secret(self.root + mount["mountPath"], self.volume(mount["name"])["secret"], mount["subPath"])
        words, values = self.command(container)
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(words, env=values, cwd=self.root, stdout=log, stderr=log)
        self.probe("startupProbe")
        self.probe("livenessProbe")
        if "readinessProbe" in container:
            self.probe("readinessProbe")

    def probe(self, kind):
        get = self.spec["containers"][0][kind]["httpGet"]
        wait(
            f"{kind} of {self.name}", lambda: self.get(get["port"], get["path"], get.get("scheme", "HTTP")) is not None
        )

    def is_ready(self):
        """Whether a Service would send connections to this pod."""
        get = self.spec["containers"][0]["readinessProbe"]["httpGet"]
        if not self.process or self.process.poll() is not None:
            return False
        return self.get(get["port"], get["path"], get.get("scheme", "HTTP")) is not None

    def get(self, port, path, scheme="HTTP"):
        """The answer of a port, or None unless it is a success. As the kubelet, does not verify
        certificates."""
        if self.process.poll() is not None:
            raise Failed(f"{self.name} ended with status {self.process.returncode}:\n{self.tail()}")
        container = self.spec["containers"][0]
        number = next(it["containerPort"] for it in container["ports"] if it["name"] == port)
        url = f"{scheme.lower()}://127.0.0.1:{self.cluster.port(self.name, number)}{path}"
        trusting = ssl._create_unverified_context()
        try:
            with urllib.request.urlopen(url, timeout=5, context=trusting) as answer:
                return answer.read().decode() if answer.status < 400 else None
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None

    def tail(self):
        with open(self.log) as log:
            return "".join(log.readlines()[-20:])

    def end(self):
        """Stops the pod as the kubelet does: SIGTERM, and the grace period."""
        grace = self.spec["terminationGracePeriodSeconds"]
        begun = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout=grace)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name} would be killed: not stopped within {grace} s\n{self.tail()}") from None
        if status != 0:
            raise Failed(f"{self.name} stopped with status {status}\n{self.tail()}")
        return time.monotonic() - begun

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def wanted_replicas(value, scaled_object):
    """The replicas that KEDA and the HorizontalPodAutoscaler want for the value of a query: none at or
    below the activation threshold, and the mean of the threshold for each replica above."""
    spec = scaled_object["spec"]
    metadata = spec["triggers"][0]["metadata"]
    if value <= float(metadata["activationThreshold"]):
        return spec["minReplicaCount"]
    wanted = math.ceil(value / float(metadata["threshold"]))
    return min(max(wanted, spec["minReplicaCount"], 1), spec["maxReplicaCount"])


def remove(directory):
    shutil.rmtree(directory, ignore_errors=True)
