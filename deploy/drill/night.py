"""The six faults of `make drill`: what an operator meets at night, and what the runbook says to do."""

import dataclasses
import time
from collections.abc import Callable

import certificates
from processes import wait_for
from stack import fill_disk, free_disk


@dataclasses.dataclass
class Fault:
    """A harm, the alert that must come, and the action of its runbook that ends the harm.

    `companions` are alerts that the same fault may cause, as their runbooks say. Any other alert
    fails the drill. `inject` may return a function that goes on with the harm until the action.
    """

    name: str
    alert: str
    inject: Callable
    action: str
    act: Callable
    companions: tuple = ()
    patience: float = 180


def kill_a_busy_worker(stack):
    """Kills a worker that holds jobs, and starts it again, as a supervisor does. Three times."""
    for _ in range(3):
        busy = wait_for("a worker holds a job", lambda: next(
            (worker for worker in stack.workers.values() if worker.jobs() > 0), None), pause=0.02)
        busy.kill()
        busy.start()
        stack.wait_for_workers(2)
        time.sleep(5)


def kill_all_workers(stack):
    for worker in stack.workers.values():
        worker.kill()


def start_workers(stack):
    for worker in stack.workers.values():
        worker.start()


def kill_owner(stack):
    stack.killed = stack.servers[stack.owner()]
    stack.killed.process.kill()


def start_killed_server(stack):
    stack.killed.start()


def crash_database(stack):
    stack.postgres.crash()


def start_database(stack):
    stack.postgres.start()
    # A server that lost the database for long may have ended. A supervisor starts it again.
    for server in stack.servers.values():
        if not server.process.runs():
            server.start()


def fill_owner_disk(stack):
    stack.filled = stack.place / f"data-{stack.owner()}"
    fill_disk(stack.filled, 0.97)


def free_owner_disk(stack):
    free_disk(stack.filled)


def install_short_certificate(stack):
    certificates.make_server(stack.place / "certs", 1)


def install_new_certificate(stack):
    certificates.make_server(stack.place / "certs", 90)


# The last fault uses the budget of errors up, so an alert of a long window may follow it.
FAULTS = [
    Fault("a worker that holds jobs is killed three times (kill -9)", "CloakworkWorkersFlap", kill_a_busy_worker,
          "the supervisor starts it again", lambda stack: None, companions=("CloakworkLeasesExpire",)),
    Fault("all workers of the pool are killed (kill -9)", "CloakworkNoWorkers", kill_all_workers,
          "start the workers", start_workers,
          companions=("CloakworkWorkerDown", "CloakworkLeasesExpire", "CloakworkPoolWithoutWorkers",
                      "CloakworkOldestJobTooOld")),
    Fault("the server that owns the database is killed (kill -9)", "CloakworkServerDown", kill_owner,
          "start the server", start_killed_server),
    Fault("another program fills the disk of the data directory", "CloakworkDiskNearlyFull", fill_owner_disk,
          "remove the file of the other program", free_owner_disk,
          companions=("CloakworkDiskFullSoon", "CloakworkDiskFills")),
    Fault("the certificate of the servers ends in a day", "CloakworkCertificateExpiresSoon", install_short_certificate,
          "renew it, and replace the files", install_new_certificate, companions=("CloakworkCertificateExpires",)),
    Fault("PostgreSQL crashes and stays away", "CloakworkDatabaseErrors", crash_database, "start PostgreSQL",
          start_database,
          companions=("CloakworkNoOwner", "CloakworkAvailabilityBurnsFast", "CloakworkAvailabilityBurnsSlowly",
                      "CloakworkForwardingFails", "CloakworkFenced", "CloakworkServerDown", "CloakworkDown")),
]
