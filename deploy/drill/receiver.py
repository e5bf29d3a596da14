"""The receiver of Alertmanager's webhooks: knows when each alert came, and when it ended."""

import dataclasses
import http.server
import json
import threading
import time

from processes import WebServer


@dataclasses.dataclass
class Arrival:
    """One firing of an alert. Times are seconds of the monotonic clock."""

    name: str
    labels: dict
    annotations: dict
    path: str
    came: float
    ended: float | None = None


class Receiver:
    """An HTTP server that takes webhooks at any path."""

    def __init__(self, port):
        self.arrivals, self.lock, self.open = [], threading.Lock(), {}
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                for alert in body["alerts"]:
                    receiver.take(self.path, alert)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = WebServer(port, Handler)

    def take(self, path, alert):
        """Takes an alert of a webhook. Alertmanager repeats alerts that still fire."""
        now = time.monotonic()
        with self.lock:
            known = self.open.get(alert["fingerprint"])
            if alert["status"] == "resolved":
                if known:
                    known.ended = now
                    del self.open[alert["fingerprint"]]
            elif not known:
                arrival = Arrival(alert["labels"]["alertname"], alert["labels"], alert["annotations"], path, now)
                self.open[alert["fingerprint"]] = arrival
                self.arrivals.append(arrival)

    def firing(self):
        """The names of alerts that have come and not ended."""
        with self.lock:
            return {arrival.name for arrival in self.open.values()}

    def since(self, moment):
        """The alerts that have come since a moment."""
        with self.lock:
            return [arrival for arrival in self.arrivals if arrival.came >= moment]
