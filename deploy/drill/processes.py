"""Processes of a trial: each has a log, and none outlives the trial."""

import atexit
import http.server
import os
import pwd
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

RUNNING = []


class Process:
    """A program in the background, with its output in a log."""

    def __init__(self, name, command, log, user=None, environment=None, cwd=None):
        self.name, self.command, self.log = name, [str(word) for word in command], log
        # PostgreSQL refuses to run as root.
        self.user = pwd.getpwnam(user) if user and os.getuid() == 0 else None
        self.environment, self.cwd, self.process = environment, cwd, None

    def start(self):
        owner = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.cwd, start_new_session=True,
                env=os.environ | (self.environment or {}), **owner)
        RUNNING.append(self)
        return self

    def runs(self):
        return self.process is not None and self.process.poll() is None

    def send(self, number):
        if self.runs():
            os.killpg(self.process.pid, number)

    def kill(self):
        """Ends the process at once, as a crash would."""
        self.end(signal.SIGKILL)

    def end(self, number=signal.SIGTERM, patience=40):
        """Ends the process, by force once the patience is over."""
        self.send(number)
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.send(signal.SIGKILL)
            self.process.wait()
        if self in RUNNING:
            RUNNING.remove(self)

    def last_lines(self, count=15):
        with open(self.log, errors="replace") as log:
            return "".join(log.readlines()[-count:])


@atexit.register
def end_all():
    for process in reversed(list(RUNNING)):
        process.send(signal.SIGCONT)
        process.send(signal.SIGQUIT if process.user else signal.SIGKILL)
    for process in list(RUNNING):
        process.end(signal.SIGKILL)


def handle_signals():
    """Ends the trial, and with it all of its processes, at an interrupt."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))


class WebServer(http.server.ThreadingHTTPServer):
    """An HTTP server in a thread. Callers may break their connections."""

    daemon_threads = True

    def __init__(self, port, handler):
        super().__init__(("127.0.0.1", port), handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def ports(count):
    """Free ports of loopback."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return found


def run(*command, **options):
    """The output of a command, which must succeed."""
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout


def fetch(url, timeout=5):
    """The text of a page, or nothing if there is none."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            return answer.read().decode()
    except (OSError, urllib.error.URLError):
        return None


def wait_for(what, condition, patience=60, pause=0.1):
    """Waits until a condition holds, and returns its value."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(pause)
    raise TimeoutError(f"{what}: not within {patience} s")
