"""PostgreSQL servers for a trial, each with a data directory of its own."""

import glob
import os
import re
import shutil
import signal

from processes import Process, run, wait_for


def programs():
    """The directory with the programs of the newest PostgreSQL, or nothing."""
    found = glob.glob("/usr/lib/postgresql/*/bin")
    return max(found, key=lambda path: int(re.search(r"\d+", path).group()), default=None)


class Postgres:
    """A PostgreSQL server on loopback. The superuser has no password."""

    def __init__(self, name, directory, port):
        self.name, self.data, self.port = name, directory / name, port
        self.log = directory / f"{name}.log"
        self.process = None

    def make(self):
        """Makes an empty server, with a database for Cloakwork once it runs."""
        self.own(self.data)
        self.as_postgres("initdb", "-D", self.data, "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8")
        return self

    def copy(self, primary):
        """Makes a standby of another server."""
        self.own(self.data)
        source = f"host=127.0.0.1 port={primary.port} user=postgres application_name={self.name}"
        self.as_postgres("pg_basebackup", "-D", self.data, "-R", "-X", "stream", "-c", "fast", "-d", source)
        return self

    def own(self, path):
        path.mkdir(mode=0o700)
        if os.getuid() == 0:
            shutil.chown(path, "postgres", "postgres")

    def as_postgres(self, program, *words):
        user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
        return run(f"{programs()}/{program}", *words, cwd="/", **user)

    def start(self):
        self.log.touch()
        # Settings: no fsync, because no machine fails here; a standby connects again at once.
        settings = ["fsync=off", "wal_retrieve_retry_interval=500ms", "wal_sender_timeout=0", "max_wal_size=4GB",
                    "wal_keep_size=512MB", "unix_socket_directories=", "listen_addresses=127.0.0.1"]
        words = [word for setting in settings for word in ("-c", setting)]
        command = [f"{programs()}/postgres", "-D", self.data, "-p", self.port, *words]
        self.process = Process(self.name, command, self.log, user="postgres", cwd="/").start()
        wait_for(f"PostgreSQL {self.name} answers", self.answers)
        return self

    def answers(self):
        try:
            return self.sql("SELECT 1", database="postgres") == "1"
        except RuntimeError:
            return False

    def crash(self):
        """Ends the server without a checkpoint."""
        self.process.end(signal.SIGQUIT)

    def suspend(self):
        """Suspends all processes of the server. Each of them is in a group of its own."""
        self.each_process(signal.SIGSTOP)

    def resume(self):
        self.each_process(signal.SIGCONT)

    def each_process(self, number):
        main = self.process.process.pid
        with open(f"/proc/{main}/task/{main}/children") as children:
            for pid in [*map(int, children.read().split()), main]:
                os.kill(pid, number)

    def sql(self, statement, database="cloakwork"):
        words = ["-h", "127.0.0.1", "-p", self.port, "-U", "postgres", "-d", database, "-qAtc", statement]
        return run(f"{programs()}/psql", *words).strip()

    def wait_for_standbys(self, names):
        """Has commits wait for one of these standbys; an empty text means for none."""
        self.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        self.sql("SELECT pg_reload_conf()")
