#!/usr/bin/env python3
"""Checks what schemas of Kubernetes cannot see in rendered charts.

usage: assertions.py RENDERED...

Each rule is a function that yields findings. At the end, faults are planted into the first rendered
charts, and each must be found: a rule that finds nothing would be no check.
"""

import copy
import re
import sys

import chart
from chart import component, containers, matches, name, of_kind, pod_of
from settings import limits as known_limits
from settings import settings as known_settings

LONG_RUNNING = {"StatefulSet", "Deployment"}
VOLUMES = {"configMap", "emptyDir", "secret", "persistentVolumeClaim"}
API, ADMIN, METRICS = 7270, 7271, 7272
CONFIGMAP_BYTES_MAX = 1 << 20
OUTSIDE, ELSEWHERE = "outside", "elsewhere"


def workloads(objects):
    return of_kind(objects, *chart.WORKLOADS)


def pods_are_restricted(objects):
    for it in workloads(objects):
        _, spec = pod_of(it)
        security = spec.get("securityContext", {})
        if security.get("runAsNonRoot") is not True or not isinstance(security.get("runAsUser"), int):
            yield f"{name(it)}: no numeric user other than root"
        if security.get("runAsUser") == 0:
            yield f"{name(it)}: runs as root"
        if security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
            yield f"{name(it)}: no seccomp profile"
        if spec.get("automountServiceAccountToken") is not False:
            yield f"{name(it)}: has the token of a service account"
        if any(spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC")):
            yield f"{name(it)}: shares a namespace with the node"
        for volume in spec.get("volumes", []):
            if set(volume) - {"name"} - VOLUMES:
                yield f"{name(it)}: the volume {volume['name']} is of a kind that the profile restricted refuses"
        for container in containers(spec):
            security = container.get("securityContext", {})
            at = f"{name(it)}, {container['name']}"
            if security.get("allowPrivilegeEscalation") is not False:
                yield f"{at}: may gain privileges"
            if security.get("readOnlyRootFilesystem") is not True:
                yield f"{at}: writable root"
            if security.get("capabilities") != {"drop": ["ALL"]}:
                yield f"{at}: capabilities"


def containers_are_limited(objects):
    for it in workloads(objects):
        for container in containers(pod_of(it)[1]):
            resources = container.get("resources", {})
            for side in ("requests", "limits"):
                for resource in ("cpu", "memory", "ephemeral-storage"):
                    if not resources.get(side, {}).get(resource):
                        yield f"{name(it)}, {container['name']}: no {side} of {resource}"
            for resource in resources.get("limits", {}):
                if "/" in resource and resources["requests"].get(resource) != resources["limits"][resource]:
                    yield f"{name(it)}, {container['name']}: request and limit of {resource} differ"


def images_are_fixed(objects):
    for it in workloads(objects):
        for container in containers(pod_of(it)[1]):
            image = container["image"]
            if not re.search(r"(:[^:/]+|@sha256:[0-9a-f]{64})$", image) or image.endswith(":latest"):
                yield f"{name(it)}, {container['name']}: the image {image} may change"
            if not container.get("command", [""])[0].startswith("/usr/bin/cloakwork"):
                yield f"{name(it)}, {container['name']}: the command does not name one of our programs"


def probes_exist(objects):
    for it in of_kind(objects, *LONG_RUNNING):
        labels, spec = pod_of(it)
        is_served = any(
            matches({"matchLabels": service["spec"]["selector"]}, labels) for service in of_kind(objects, "Service")
        )
        wanted = ["startupProbe", "livenessProbe"] + (["readinessProbe"] if is_served else [])
        for container in spec["containers"]:
            ports = {port["name"] for port in container.get("ports", [])}
            for kind in wanted:
                probe = container.get(kind)
                if not probe:
                    yield f"{name(it)}, {container['name']}: no {kind}"
                elif probe["httpGet"]["port"] not in ports:
                    yield f"{name(it)}, {container['name']}: {kind} of a port that has no name there"


def selectors_match(objects):
    pods = [pod_of(it)[0] for it in workloads(objects)]
    for it in of_kind(objects, "StatefulSet", "Deployment"):
        if not matches(it["spec"]["selector"], pod_of(it)[0]):
            yield f"{name(it)}: selects no pod of its own"
    for it in of_kind(objects, "Service"):
        if not any(matches({"matchLabels": it["spec"]["selector"]}, labels) for labels in pods):
            yield f"{name(it)}: selects no pod"
    for it in of_kind(objects, "PodDisruptionBudget", "PodMonitor"):
        if not any(matches(it["spec"]["selector"], labels) for labels in pods) and not no_pool(objects, it):
            yield f"{name(it)}: selects no pod"
    for it in of_kind(objects, "NetworkPolicy"):
        if not any(matches(it["spec"]["podSelector"], labels) for labels in pods):
            yield f"{name(it)}: selects no pod"
    for it in of_kind(objects, "ServiceMonitor"):
        found = [
            service
            for service in of_kind(objects, "Service")
            if matches(it["spec"]["selector"], service["metadata"]["labels"])
        ]
        if len(found) != 1:
            yield f"{name(it)}: selects {len(found)} services"
        for endpoint in it["spec"]["endpoints"]:
            if found and endpoint["port"] not in [port["name"] for port in found[0]["spec"]["ports"]]:
                yield f"{name(it)}: the service has no port {endpoint['port']}"
    for it in of_kind(objects, "PodMonitor"):
        for _, spec in (
            pod_of(other) for other in workloads(objects) if matches(it["spec"]["selector"], pod_of(other)[0])
        ):
            ports = {port["name"] for container in spec["containers"] for port in container.get("ports", [])}
            for endpoint in it["spec"]["podMetricsEndpoints"]:
                if endpoint["port"] not in ports:
                    yield f"{name(it)}: the pods have no port {endpoint['port']}"
    # Two workloads with one selector would fight for pods.
    selectors = [it["spec"]["selector"] for it in of_kind(objects, "StatefulSet", "Deployment")]
    for it in of_kind(objects, "StatefulSet", "Deployment"):
        if sum(matches(selector, pod_of(it)[0]) for selector in selectors) != 1:
            yield f"{name(it)}: pods that two workloads select"


def no_pool(objects, it):
    """A monitor of workers where there is no pool."""
    return it["kind"] == "PodMonitor" and not of_kind(objects, "Deployment")


def ports_have_names(objects):
    for it in of_kind(objects, "Service"):
        pods = [
            pod_of(other)[1]
            for other in workloads(objects)
            if matches({"matchLabels": it["spec"]["selector"]}, pod_of(other)[0])
        ]
        names = {
            port["name"] for spec in pods for container in spec["containers"] for port in container.get("ports", [])
        }
        for port in it["spec"]["ports"]:
            if port.get("targetPort") not in names:
                yield f"{name(it)}: no container has the port {port.get('targetPort')}"
    for it in of_kind(objects, "StatefulSet"):
        services = [
            other for other in of_kind(objects, "Service") if other["metadata"]["name"] == it["spec"]["serviceName"]
        ]
        if len(services) != 1 or services[0]["spec"].get("clusterIP") != "None":
            yield f"{name(it)}: no headless service"


def mounts_of(it):
    """Absolute paths of all files and directories that a container sees, by container."""
    _, spec = pod_of(it)
    volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
    for claim in it["spec"].get("volumeClaimTemplates", []) if it["kind"] == "StatefulSet" else []:
        volumes[claim["metadata"]["name"]] = {"name": claim["metadata"]["name"], "persistentVolumeClaim": {}}
    return volumes, spec


def files_are_mounted(objects):
    maps = {it["metadata"]["name"]: it for it in of_kind(objects, "ConfigMap")}
    mounted_maps = set()
    for it in workloads(objects):
        volumes, spec = mounts_of(it)
        used = set()
        for container in containers(spec):
            at = f"{name(it)}, {container['name']}"
            files, directories, paths = (
                set(),
                set(),
                [mount["mountPath"] for mount in container.get("volumeMounts", [])],
            )
            if len(paths) != len(set(paths)):
                yield f"{at}: two volumes at one path"
            for mount in container.get("volumeMounts", []):
                volume = volumes.get(mount["name"])
                if not volume:
                    yield f"{at}: the volume {mount['name']} does not exist"
                    continue
                used.add(mount["name"])
                if "secret" in volume:
                    items = [item["path"] for item in volume["secret"]["items"]]
                    if mount.get("subPath"):
                        files.add(mount["mountPath"])
                        if mount["subPath"] not in items:
                            yield f"{at}: the Secret has no {mount['subPath']}"
                    else:
                        files |= {f"{mount['mountPath']}/{item}" for item in items}
                    if mount.get("readOnly") is not True:
                        yield f"{at}: {mount['name']} is writable"
                elif "configMap" in volume:
                    source = volume["configMap"]["name"]
                    mounted_maps.add(source)
                    if source not in maps:
                        yield f"{at}: the ConfigMap {source} does not exist"
                    else:
                        files |= {f"{mount['mountPath']}/{key}" for key in maps[source]["data"]}
                else:
                    directories.add(mount["mountPath"])
            for setting, path in named_paths(it, container, maps, volumes):
                is_inside = any(path == directory or path.startswith(f"{directory}/") for directory in directories)
                if path not in files and not is_inside:
                    yield f"{at}: {setting} names {path}, which is not mounted"
        for unused in set(volumes) - used:
            yield f"{name(it)}: the volume {unused} is not mounted"
    for it in chart.configs(objects):
        if it["metadata"]["name"] not in mounted_maps:
            yield f"{name(it)}: mounted nowhere"
        if set(it["data"]) != {"cloakwork.toml"}:
            yield f"{name(it)}: keys that no program reads: {set(it['data'])}"


def named_paths(it, container, maps, volumes):
    """Paths in options, variables and settings of a container."""
    for option, value in chart.options(container).items():
        if value.startswith("/"):
            yield option, value
    for variable in container.get("env", []):
        if variable.get("value", "").startswith("/"):
            yield variable["name"], variable["value"]
    # The init container of a server reads no file that the settings name.
    if container["name"] not in ("server", "migrate"):
        return
    for mount in container.get("volumeMounts", []):
        source = volumes.get(mount["name"], {}).get("configMap", {}).get("name")
        if source not in maps:
            continue
        for section, settings in chart.settings(maps[source]).items():
            for key, value in settings.items() if isinstance(settings, dict) else []:
                # The program that signs is a part of the image.
                if isinstance(value, str) and value.startswith("/") and key != "sign_command":
                    yield f"{section}.{key}", value


def settings_exist(objects):
    known = {f"{section}.{key}" if section else key for section, key in known_settings()}
    known |= {f"limits.{key}" for key in known_limits()}
    for it in chart.configs(objects):
        for section, value in chart.settings(it).items():
            if section == "pools":
                names = {key for pool in value.values() for key in pool}
                unknown = names - {"bootstraps_per_second", "sets"}
            elif isinstance(value, dict):
                unknown = {f"{section}.{key}" for key in value} - known
            else:
                unknown = {section} - known
            for key in sorted(unknown):
                yield f"{name(it)}: no setting {key}"


def one_server_has_a_file(objects):
    settings = chart.server_settings(objects)
    for it in of_kind(objects, "StatefulSet"):
        has_claim = bool(it["spec"].get("volumeClaimTemplates"))
        is_scaled = "database" in settings
        if not is_scaled and it["spec"]["replicas"] != 1:
            yield f"{name(it)}: {it['spec']['replicas']} servers with a database file"
        if is_scaled == has_claim:
            yield f"{name(it)}: the database file needs a volume that stays, and the servers of PostgreSQL none"
        volume = next(mount for mount in pod_of(it)[1]["containers"][0]["volumeMounts"] if mount["name"] == "data")
        if not settings["storage"]["directory"].startswith(volume["mountPath"] + "/"):
            yield f"{name(it)}: the data directory is not inside of its volume"


def stops_have_time(objects):
    settings = chart.server_settings(objects)
    for it in of_kind(objects, *LONG_RUNNING):
        _, spec = pod_of(it)
        if it["kind"] == "StatefulSet":
            drain = settings.get("limits", {}).get("drain_ms", 30_000) / 1000
        else:
            drain = int(chart.options(spec["containers"][0])["--grace"])
        if spec["terminationGracePeriodSeconds"] <= drain:
            yield f"{name(it)}: killed before the end of its drain of {drain} s"


def memory_holds_the_budgets(objects):
    settings = chart.server_settings(objects)
    for it in of_kind(objects, *LONG_RUNNING):
        container = pod_of(it)[1]["containers"][0]
        limit = chart.mebibytes(container["resources"]["limits"]["memory"])
        if it["kind"] == "StatefulSet":
            worker = settings["worker"]
            needed = (worker.get("memory_bytes", 0) + worker.get("vector_memory_bytes", 0)) >> 20
            needed += 3072 if worker["embedded"] else 0
            least = 256
        else:
            options = chart.options(container)
            is_gpu = options["--devices"] == "cuda"
            needed = int(options["--vector-memory"])
            needed += int(options["--warm-memory"]) + 2048 if is_gpu else int(options["--memory"])
            least = 128
        if limit < needed + least:
            yield f"{name(it)}: {limit} MiB for budgets of {needed} MiB"


def uploads_fit(objects):
    """The kubelet evicts a pod whose volume of staged uploads is larger than its limit."""
    limits = chart.server_settings(objects).get("limits", {})
    for it in of_kind(objects, "StatefulSet"):
        volume = next((volume for volume in pod_of(it)[1]["volumes"] if volume["name"] == "data"), None)
        if volume is None:
            continue
        size = chart.mebibytes(volume["emptyDir"]["sizeLimit"]) << 20
        staged = limits.get("staged_bytes", size)
        if staged + (256 << 20) > size:
            yield f"{name(it)}: uploads take {staged} bytes of a volume of {size}"
        if staged < limits.get("blob_bytes", 16 << 30):
            yield f"{name(it)}: the largest blob does not fit into {staged} bytes"


def pools_agree(objects):
    declared = chart.server_settings(objects).get("pools", {})
    deployments = {it["metadata"]["name"]: it for it in of_kind(objects, "Deployment")}
    for it in deployments.values():
        container = pod_of(it)[1]["containers"][0]
        options = chart.options(container)
        if pod_of(it)[0]["cloakwork/pool"] != options["--pool"]:
            yield f"{name(it)}: the label names another pool than --pool"
        extended = [key for key in container["resources"]["limits"] if "/" in key]
        if (options["--devices"] == "cuda") != bool(extended):
            yield f"{name(it)}: --devices {options['--devices']} and devices {extended}"
        if options["--threads"] != container["resources"]["limits"]["cpu"]:
            yield f"{name(it)}: threads and processors differ"
    for it in of_kind(objects, "ScaledObject"):
        target = deployments.get(it["spec"]["scaleTargetRef"]["name"])
        if not target:
            yield f"{name(it)}: scales nothing"
            continue
        if "replicas" in target["spec"]:
            yield f"{name(target)}: an upgrade would undo the work of the autoscaler"
        pool = chart.options(pod_of(target)[1]["containers"][0])["--pool"]
        if pool not in declared:
            yield f"{name(it)}: the servers have no metric of the pool {pool}"
        for trigger in it["spec"]["triggers"]:
            if f'pool="{pool}"' not in trigger["metadata"]["query"]:
                yield f"{name(it)}: the query is of another pool"
            if trigger["metadata"]["ignoreNullValues"] != "false":
                yield f"{name(it)}: a query without a value would scale to zero"


def secrets_stay_apart(objects):
    for it in of_kind(objects, "Secret"):
        yield f"{name(it)}: a Secret in the chart"
    statefulset = of_kind(objects, "StatefulSet")[0]
    own = {
        volume["secret"]["secretName"]: {item["key"] for item in volume["secret"]["items"]}
        for volume in pod_of(statefulset)[1]["volumes"]
        if volume["name"] in ("tls", "installation", "database", "s3") and "secret" in volume
    }
    for it in workloads(objects):
        labels, spec = pod_of(it)
        for volume in spec.get("volumes", []):
            if "secret" not in volume:
                continue
            if not volume["secret"].get("items"):
                yield f"{name(it)}: mounts every key of the Secret {volume['secret']['secretName']}"
            if volume["secret"].get("defaultMode") != 0o440:
                yield f"{name(it)}: the mode of {volume['name']} is not 0440"
            keys = {item["key"] for item in volume["secret"].get("items", [])}
            if component(labels) in ("worker", "test"):
                private = keys & own.get(volume["secret"]["secretName"], set())
                if private:
                    yield f"{name(it)}: has {sorted(private)} of a Secret of the servers"


def hooks_come_first(objects):
    """Objects of a hook exist before the hook's Job, and none of them is an object of the release."""
    for it in of_kind(objects, "Job"):
        hook = it["metadata"]["annotations"]
        if "pre-upgrade" not in hook["helm.sh/hook"]:
            yield f"{name(it)}: not before an upgrade"
        for volume in pod_of(it)[1]["volumes"]:
            if "configMap" not in volume:
                continue
            source = next(
                other
                for other in of_kind(objects, "ConfigMap")
                if other["metadata"]["name"] == volume["configMap"]["name"]
            )
            own = source["metadata"].get("annotations", {})
            if own.get("helm.sh/hook") != hook["helm.sh/hook"] or int(own["helm.sh/hook-weight"]) >= int(
                hook["helm.sh/hook-weight"]
            ):
                yield f"{name(it)}: its ConfigMap does not exist when the Job runs"
        if pod_of(it)[1].get("serviceAccountName"):
            yield f"{name(it)}: its service account does not exist at an installation"


def names_are_short(objects):
    for it in objects:
        most = 52 if it["kind"] in ("StatefulSet", "Job") else 63
        if len(it["metadata"]["name"]) > most:
            yield f"{name(it)}: more than {most} characters"
        for label, value in it["metadata"].get("labels", {}).items():
            if len(value) > 63:
                yield f"{name(it)}: the label {label} has more than 63 characters"


def objects_fit(objects):
    for it in of_kind(objects, "ConfigMap"):
        size = sum(len(text.encode()) for text in it["data"].values())
        if size > CONFIGMAP_BYTES_MAX:
            yield f"{name(it)}: {size} bytes are more than the API server takes"


def allowed(objects, source, target, port):
    """Whether the policies let pods with the labels `source` reach pods with the labels `target`. A
    `target` of OUTSIDE is an address outside of the cluster, and ELSEWHERE a pod of another
    namespace."""

    def peer_matches(peer, labels):
        if labels == OUTSIDE:
            return "ipBlock" in peer
        if labels == ELSEWHERE:
            return "namespaceSelector" in peer
        return "podSelector" in peer and "namespaceSelector" not in peer and matches(peer["podSelector"], labels)

    def side(labels, direction, other):
        policies = [
            it["spec"]
            for it in of_kind(objects, "NetworkPolicy")
            if matches(it["spec"]["podSelector"], labels) and direction in it["spec"]["policyTypes"]
        ]
        if not policies:
            return True
        key, peers = ("ingress", "from") if direction == "Ingress" else ("egress", "to")
        for rule in (rule for policy in policies for rule in policy.get(key) or []):
            has_port = any(allowed_port["port"] == port for allowed_port in rule.get("ports", [{"port": port}]))
            if has_port and (peers not in rule or any(peer_matches(peer, other) for peer in rule[peers])):
                return True
        return False

    return side(source, "Egress", target) and (isinstance(target, str) or side(target, "Ingress", source))


def network_is_closed(objects):
    if not of_kind(objects, "NetworkPolicy"):
        return
    pods = {}
    for it in workloads(objects):
        pods.setdefault(component(pod_of(it)[0]), []).append(it)
    settings = chart.server_settings(objects)
    is_scaled, has_s3 = "database" in settings, settings["storage"].get("blobs") == "s3"
    server = pod_of(pods["server"][0])[0]
    stranger = {"app": "stranger"}

    def expect(wanted, source, target, port, text):
        if allowed(objects, source, target, port) != wanted:
            yield f"{'cannot' if wanted else 'can'} reach: {text}"

    yield from expect(is_scaled, server, server, API, "server to server")
    yield from expect(False, server, server, ADMIN, "server to the admin port of a server")
    yield from expect(False, stranger, server, ADMIN, "a stranger to the admin port")
    yield from expect(is_scaled, server, OUTSIDE, 5432, "server to the database")
    yield from expect(has_s3, server, OUTSIDE, 443, "server to S3")
    yield from expect(False, server, OUTSIDE, 80, "server to any address")
    endpoint = settings.get("telemetry", {}).get("otlp_endpoint", "")
    collector = int(endpoint.rsplit(":", 1)[1]) if endpoint else 4317
    yield from expect(bool(endpoint), server, ELSEWHERE, collector, "server to the collector")
    for it in pods.get("worker", []):
        labels = pod_of(it)[0]
        reads = "--blob-store" in chart.options(pod_of(it)[1]["containers"][0])
        pool = labels["cloakwork/pool"]
        yield from expect(True, labels, server, API, f"workers of {pool} to servers")
        yield from expect(False, labels, server, ADMIN, f"workers of {pool} to the admin port")
        yield from expect(False, server, labels, METRICS, f"servers to workers of {pool}")
        yield from expect(False, labels, labels, METRICS, f"workers of {pool} to each other")
        yield from expect(reads, labels, OUTSIDE, 443, f"workers of {pool} to S3")
        yield from expect(bool(endpoint), labels, ELSEWHERE, collector, f"workers of {pool} to the collector")
        yield from expect(False, labels, OUTSIDE, 5432, f"workers of {pool} to the database")
        yield from expect(False, stranger, labels, METRICS, f"a stranger to workers of {pool}")
    for it in pods.get("test", []):
        yield from expect(True, pod_of(it)[0], server, API, "helm test to servers")
        yield from expect(False, pod_of(it)[0], OUTSIDE, 443, "helm test to any address")
    for it in pods.get("migration", []):
        yield from expect(True, pod_of(it)[0], OUTSIDE, 5432, "the migration to the database")
        yield from expect(False, pod_of(it)[0], server, API, "the migration to servers")


RULES = [
    pods_are_restricted,
    containers_are_limited,
    images_are_fixed,
    probes_exist,
    selectors_match,
    ports_have_names,
    files_are_mounted,
    settings_exist,
    one_server_has_a_file,
    stops_have_time,
    memory_holds_the_budgets,
    uploads_fit,
    pools_agree,
    secrets_stay_apart,
    hooks_come_first,
    names_are_short,
    objects_fit,
    network_is_closed,
]


def findings(objects):
    return [finding for rule in RULES for finding in rule(objects)]


def first(objects, kind):
    return of_kind(objects, kind)[0]


def container(objects, kind):
    return pod_of(first(objects, kind))[1]["containers"][0]


def set_setting(objects, before, after):
    it = next(it for it in chart.configs(objects) if it["metadata"]["name"].endswith("-server"))
    assert before in it["data"]["cloakwork.toml"], before
    it["data"]["cloakwork.toml"] = it["data"]["cloakwork.toml"].replace(before, after)


def policy(objects, end):
    return next(it for it in of_kind(objects, "NetworkPolicy") if it["metadata"]["name"].endswith(end))


# A change of a rendered chart, and a part of the finding that it must cause. The charts are named
# by their value files.
PLANTED = [
    ("scaled", lambda o: pod_of(first(o, "Deployment"))[1]["securityContext"].pop("runAsUser"), "no numeric user"),
    ("scaled", lambda o: pod_of(first(o, "Job"))[1]["securityContext"].pop("seccompProfile"), "no seccomp profile"),
    ("scaled", lambda o: pod_of(first(o, "Pod"))[1].pop("automountServiceAccountToken"), "token of a service account"),
    ("scaled", lambda o: pod_of(first(o, "Pod"))[1].update(hostNetwork=True), "shares a namespace"),
    (
        "scaled",
        lambda o: container(o, "StatefulSet")["securityContext"].update(readOnlyRootFilesystem=False),
        "writable root",
    ),
    ("scaled", lambda o: container(o, "Pod")["securityContext"].pop("capabilities"), "capabilities"),
    ("scaled", lambda o: container(o, "Pod")["securityContext"].pop("allowPrivilegeEscalation"), "may gain privileges"),
    ("scaled", lambda o: container(o, "Job")["resources"]["limits"].pop("memory"), "no limits of memory"),
    ("scaled", lambda o: container(o, "Job").update(image="cloakwork:latest"), "may change"),
    ("scaled", lambda o: container(o, "Deployment").pop("livenessProbe"), "no livenessProbe"),
    ("scaled", lambda o: container(o, "StatefulSet").pop("readinessProbe"), "no readinessProbe"),
    ("scaled", lambda o: container(o, "Deployment")["ports"][0].update(name="other"), "a port that has no name"),
    (
        "scaled",
        lambda o: first(o, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"].update(x="y"),
        "selects no pod",
    ),
    (
        "scaled",
        lambda o: first(o, "ServiceMonitor")["spec"]["selector"]["matchLabels"].pop("cloakwork/metrics"),
        "selects 2 services",
    ),
    (
        "scaled",
        lambda o: first(o, "PodMonitor")["spec"]["podMetricsEndpoints"][0].update(port="x"),
        "the pods have no port",
    ),
    ("scaled", lambda o: first(o, "Service")["spec"]["ports"][0].update(targetPort="x"), "no container has the port"),
    ("scaled", lambda o: first(o, "StatefulSet")["spec"].update(serviceName="x"), "no headless service"),
    ("scaled", lambda o: container(o, "StatefulSet")["volumeMounts"].pop(), "not mounted"),
    ("scaled", lambda o: container(o, "Deployment")["args"].append("--key=/etc/cloakwork/x"), "names /etc/cloakwork/x"),
    ("scaled", lambda o: set_setting(o, "password_file", "pasword_file"), "no setting database.pasword_file"),
    ("scaled", lambda o: set_setting(o, "drain_ms", "drain"), "no setting limits.drain"),
    ("embedded", lambda o: first(o, "StatefulSet")["spec"].update(replicas=2), "2 servers with a database file"),
    (
        "embedded",
        lambda o: set_setting(o, '"/var/lib/cloakwork/data"', '"/var/lib/cloakwork"'),
        "not inside of its volume",
    ),
    (
        "scaled",
        lambda o: pod_of(first(o, "StatefulSet"))[1].update(terminationGracePeriodSeconds=30),
        "killed before the end",
    ),
    ("scaled", lambda o: container(o, "Deployment")["args"].append("--memory=9000000"), "for budgets of"),
    (
        "embedded",
        lambda o: container(o, "StatefulSet")["resources"]["limits"].update(memory="4096Mi"),
        "for budgets of",
    ),
    ("scaled", lambda o: set_setting(o, "staged_bytes = 2", "staged_bytes = 9"), "bytes of a volume of"),
    ("scaled", lambda o: set_setting(o, "staged_bytes = 2093", "staged_bytes = 9"), "the largest blob does not fit"),
    ("scaled", lambda o: container(o, "Deployment")["args"].append("--pool=x"), "the label names another pool"),
    ("scaled", lambda o: first(o, "ScaledObject")["spec"]["scaleTargetRef"].update(name="x"), "scales nothing"),
    (
        "scaled",
        lambda o: first(o, "ScaledObject")["spec"]["triggers"][0]["metadata"].update(query="x"),
        "of another pool",
    ),
    (
        "gpu",
        lambda o: [container(o, "Deployment")["resources"][s].pop("nvidia.com/gpu") for s in ("requests", "limits")],
        "--devices cuda and devices []",
    ),
    (
        "scaled",
        lambda o: pod_of(first(o, "Deployment"))[1]["volumes"].append(
            {
                "name": "x",
                "secret": {
                    "secretName": "cloakwork-tls",
                    "defaultMode": 0o440,
                    "items": [{"key": "tls.key", "path": "k"}],
                },
            }
        ),
        "of a Secret of the servers",
    ),
    ("scaled", lambda o: o.append({"kind": "Secret", "metadata": {"name": "x"}}), "a Secret in the chart"),
    (
        "scaled",
        lambda o: [
            it["metadata"].pop("annotations")
            for it in chart.configs(o)
            if it["metadata"]["name"].endswith("-migration")
        ],
        "does not exist when the Job runs",
    ),
    ("scaled", lambda o: first(o, "StatefulSet")["metadata"].update(name="x" * 53), "more than 52 characters"),
    ("scaled", lambda o: o.remove(policy(o, "-worker")), "cannot reach: workers of"),
    ("scaled", lambda o: policy(o, "-worker")["spec"]["egress"].append({}), "can reach: workers of"),
    (
        "scaled",
        lambda o: policy(o, "-server")["spec"]["egress"].remove({"ports": [{"port": 443, "protocol": "TCP"}]}),
        "cannot reach: server to S3",
    ),
    (
        "scaled",
        lambda o: policy(o, "-server")["spec"]["ingress"].append({"from": [{"podSelector": {}}]}),
        "a stranger to the admin port",
    ),
    (
        "shipped",
        lambda o: o[-1].update(kind="ConfigMap", data={"x": "x" * (CONFIGMAP_BYTES_MAX + 1)}),
        "more than the API server takes",
    ),
    ("gpu", lambda o: policy(o, "-worker")["spec"]["egress"].pop(), "to the collector"),
    (
        "embedded-pools",
        lambda o: o.remove(policy(o, "-server")) or o.remove(policy(o, "-default-deny")),
        "server to any address",
    ),
]


def main():
    rendered = {path.rsplit("/", 1)[1].removesuffix(".yaml"): chart.load(path) for path in sys.argv[1:]}
    failed = False
    for case, objects in rendered.items():
        for finding in findings(objects):
            print(f"{case}: {finding}", file=sys.stderr)
            failed = True
    for case, plant, expected in PLANTED:
        objects = copy.deepcopy(rendered[case])
        plant(objects)
        if not any(expected in finding for finding in findings(objects)):
            print(f"the planted fault is not found in {case}: {expected}", file=sys.stderr)
            failed = True
    if failed:
        sys.exit(1)
    print(f"{len(RULES)} rules hold in {len(rendered)} charts, and {len(PLANTED)} planted faults are found")


if __name__ == "__main__":
    main()
