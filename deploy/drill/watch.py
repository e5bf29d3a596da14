"""Prometheus and Alertmanager with the rules and routes of deploy/prometheus, and a receiver."""

import json
import pathlib
import re
import shutil
import urllib.parse
import urllib.request

import rules
from processes import Process, fetch, ports, wait_for
from receiver import Receiver

TOP = pathlib.Path(__file__).resolve().parents[2]
PROMETHEUS = TOP / "deploy/prometheus"


def alertmanager():
    """The program of Alertmanager. Debian gives it a name of its own."""
    return shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")


class Watch:
    """What an operator has beside the service, with times that are shorter by a factor."""

    # An alert that is removed from the rules, to see that a trial fails without it.
    left_out = ""

    def __init__(self, place, factor):
        self.place, self.factor = place / "watch", factor
        self.port, self.alerts_port, receiver_port = ports(3)
        self.place.mkdir()
        self.receiver = Receiver(receiver_port)
        self.write_rules()
        self.write_routes(receiver_port)

    def write_rules(self):
        recording = (PROMETHEUS / "recording.yaml").read_text()
        alerts = (PROMETHEUS / "alerts.yaml").read_text()
        (self.place / "recording.yaml").write_text(rules.shortened(recording, self.factor))
        alerts = rules.without(alerts, self.left_out) if self.left_out else alerts
        (self.place / "alerts.yaml").write_text(rules.shortened_alerts(alerts, self.factor))

    def write_routes(self, receiver_port):
        routes = (PROMETHEUS / "alertmanager.yml").read_text()
        routes = rules.shortened_routes(routes, self.factor).replace("127.0.0.1:9095", f"127.0.0.1:{receiver_port}")
        # The severity `info` is sent too, so that the receiver sees that such an alert has come.
        hook = f"    webhook_configs:\n      - url: http://127.0.0.1:{receiver_port}/info\n"
        if routes.count("  - name: none\n") != 1:
            raise ValueError("alertmanager.yml has no receiver `none`")
        routes = routes.replace("  - name: none\n", "  - name: none\n" + hook)
        (self.place / "alertmanager.yml").write_text(routes)

    def start(self, targets):
        """Starts both programs. `targets` has the ports of each job by the name of the instance."""
        Process("alertmanager", [
            alertmanager(), f"--config.file={self.place}/alertmanager.yml", f"--storage.path={self.place}/alerts",
            f"--web.listen-address=127.0.0.1:{self.alerts_port}", "--cluster.listen-address="],
            self.place / "alertmanager.log").start()
        jobs = "".join(
            f"  - job_name: {job}\n    static_configs:\n" + "".join(
                f"      - targets: ['127.0.0.1:{port}']\n        labels: {{instance: {instance}}}\n"
                for instance, port in instances.items())
            for job, instances in targets.items())
        (self.place / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
            "rule_files: [recording.yaml, alerts.yaml]\n"
            f"alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:{self.alerts_port}']}}]}}]}}\n"
            f"scrape_configs:\n{jobs}")
        # A series without a new sample counts for five minutes by default: this is a window too.
        Process("prometheus", [
            "prometheus", f"--config.file={self.place}/prometheus.yml", f"--storage.tsdb.path={self.place}/metrics",
            f"--web.listen-address=127.0.0.1:{self.port}", "--query.lookback-delta=" + rules.divided("5m", self.factor),
            "--rules.alert.resend-delay=1s"], self.place / "prometheus.log").start()
        wait_for("Prometheus is ready", lambda: fetch(f"http://127.0.0.1:{self.port}/-/ready"))
        wait_for("Alertmanager is ready", lambda: fetch(f"http://127.0.0.1:{self.alerts_port}/-/ready"))

    def ask(self, expression):
        """The result of a query."""
        query = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/query?{query}", timeout=10) as answer:
            return json.load(answer)["data"]["result"]

    def states(self):
        """The state of each alert in Prometheus that is not inactive, by name."""
        page = json.loads(fetch(f"http://127.0.0.1:{self.port}/api/v1/alerts") or '{"data": {"alerts": []}}')
        found = {}
        for alert in page["data"]["alerts"]:
            name = alert["labels"]["alertname"]
            found[name] = "firing" if "firing" in (alert["state"], found.get(name)) else "pending"
        return found

    def hidden(self):
        """The names of alerts that Alertmanager has and does not send, because another one fires."""
        page = json.loads(fetch(f"http://127.0.0.1:{self.alerts_port}/api/v2/alerts") or "[]")
        return {alert["labels"]["alertname"] for alert in page if alert["status"]["inhibitedBy"]}


SECTIONS = ["Meaning", "Effect on users", "First checks", "Causes", "End"]


def runbook_problems(path, name, severity):
    """What an operator would miss in a runbook."""
    file = TOP / path
    if not file.exists():
        return [f"{path} does not exist"]
    text = file.read_text()
    problems = [f"{path} has no section {section}" for section in SECTIONS if f"\n## {section}\n" not in text]
    if not text.startswith(f"# {name}\n"):
        problems.append(f"{path} has another title")
    if f"\nSeverity: {severity}.\n" not in text:
        problems.append(f"{path} states another severity than {severity}")
    if not re.search(r"(?m)^\| cause \| remedy \|$", text):
        problems.append(f"{path} has no table of causes and remedies")
    return problems


def first_checks(path):
    """The queries of a runbook."""
    return [line for block in re.findall(r"(?ms)^```promql\n(.*?)^```", (TOP / path).read_text())
            for line in block.splitlines() if line.strip()]
