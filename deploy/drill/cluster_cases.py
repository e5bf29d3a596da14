"""Faults of a cluster: its database, its servers, its bucket, and the network between them."""

import threading
import time

import certificates
from case import Case, Group
from load import Load
from programs import changed_clock
from stack import Cluster

TOY = "TOY_MESSAGE_2_CARRY_2"


def start(factor):
    """A cluster with a synchronous and an asynchronous standby, under a light load."""
    stack = Cluster(factor, ("sync", "async"), {
        "allow_weak_sets": "true", "limits.lease_ms": "3000", "limits.database_readers": "16"})
    stack.start_watch()
    tenants = [stack.tenant(name, TOY) for name in ("acme", "globex")]
    stack.load = Load(tenants * 3, pause=0.05)
    stack.uploader = tenants[0]
    stack.load.wait_for_right(0, 60)
    return stack


def certificate(days):
    return lambda stack: certificates.make_server(stack.place / "certs", days)


def crash_standby(name):
    return lambda stack: stack.standbys[name].crash()


def start_standby(name):
    return lambda stack: stack.standbys[name].start()


def suspend_standbys(stack):
    stack.postgres.wait_for_standbys("")
    for standby in stack.standbys.values():
        standby.suspend()
    stack.postgres.sql("CREATE TABLE burst AS SELECT repeat(md5(i::text), 32) FROM generate_series(1, 120000) AS i")


def resume_standbys(stack):
    for standby in stack.standbys.values():
        standby.resume()
    stack.postgres.sql("DROP TABLE burst")
    stack.postgres.wait_for_standbys("sync")


def slow_database(stack):
    """Delays each message to PostgreSQL. So many callers come that a transaction always waits."""
    stack.rush = stack.uploader.background("bench", "--clients", "48", "--duration", "240")
    time.sleep(3)
    for wire in stack.to_database.values():
        wire.delay = 0.3


def fast_database(stack):
    for wire in stack.to_database.values():
        wire.delay = 0
    stack.rush.kill()


def cut_owner_off(stack):
    owner = stack.owner()
    stack.cut = stack.inward[owner]
    stack.cut.lead_to([])
    stack.balancer.lead_to([stack.servers[stack.other(owner)].api])


def connect_owner(stack):
    stack.cut.lead_to([server.api for name, server in stack.servers.items() if stack.inward[name] is stack.cut])
    lead_to_all(stack)


def lead_to_all(stack):
    stack.balancer.lead_to([server.api for server in stack.servers.values()])


def crash_database_under_load(stack):
    """Crashes PostgreSQL until it has lost a commit that no caller relies on (docs/operations.md). Its
    log writer is as late as the settings allow, so that the first crash nearly always suffices."""
    fenced = lambda: any((server.metric("cloakwork_fenced_total") or 0) > 0 for server in stack.servers.values())
    stack.postgres.sql("ALTER SYSTEM SET wal_writer_delay = '10s'")
    for _ in range(12):
        stack.postgres.sql("SELECT pg_reload_conf()")
        time.sleep(2)
        stack.postgres.crash()
        stack.postgres.start()
        time.sleep(2)
        revive(stack)
        if fenced():
            return


def end_crashes(stack):
    stack.postgres.sql("ALTER SYSTEM RESET wal_writer_delay")
    revive(stack)


def revive(stack):
    """Starts servers again that have ended, as a supervisor does."""
    for server in stack.servers.values():
        if not server.process.runs():
            server.start()


def kill_server(stack):
    stack.killed = stack.servers[stack.owner()]
    stack.killed.process.kill()


def kill_all_servers(stack):
    for server in stack.servers.values():
        server.process.kill()


def stop_database(stack):
    stack.postgres.crash()


def stop_database_and_owner(stack):
    owner = stack.servers[stack.owner()]
    stack.postgres.crash()
    owner.process.kill()


def start_database(stack):
    stack.postgres.start()
    revive(stack)
    stack.owner(60)


def refuse_writes(stack):
    stack.bucket.refuses_writes = True
    stack.pushes = push_until(stack)


def push_until(stack):
    """Pushes new keys in a loop, until the bucket takes them again."""

    def push():
        number = 0
        while stack.bucket.refuses_writes:
            number += 1
            keys = ["--keys", str(stack.place / f"fresh-{number}")]
            stack.uploader.call("keygen", "--set", TOY, *keys, check=False)
            try:
                stack.uploader.call("keys", "push", *keys, check=False, patience=8)
            except Exception:  # the caller gives up
                pass

    threads = [threading.Thread(target=push, daemon=True)]
    for thread in threads:
        thread.start()
    return threads


def allow_writes(stack):
    stack.bucket.refuses_writes = False
    for thread in stack.pushes:
        thread.join(60)


def change_clock(stack):
    """Restarts a server on a machine whose clock is a minute ahead."""
    name = stack.other(stack.owner())
    server = stack.servers[name]
    server.process.end()
    server.environment = changed_clock("+60s")
    server.start()


def right_clock(stack):
    for server in stack.servers.values():
        if server.environment:
            server.process.end()
            server.environment = {}
            server.start()


def change_database_by_hand(stack):
    """Adds a job to the database that no server knows, as a restore by hand could."""
    columns = stack.postgres.sql("SELECT string_agg(column_name, ',') FROM information_schema.columns "
                                 "WHERE table_name = 'jobs' AND is_generated = 'NEVER'").split(",")
    copied = ", ".join({"id": "decode(repeat('ab', 16), 'hex')", "request_id": "decode(repeat('ab', 16), 'hex')",
                        "state": "1"}.get(column, column) for column in columns)
    stack.postgres.sql(f"INSERT INTO jobs ({', '.join(columns)}) SELECT {copied} FROM jobs ORDER BY id DESC LIMIT 1")


def undo_change(stack):
    stack.postgres.sql("DELETE FROM jobs WHERE id = decode(repeat('ab', 16), 'hex')")


CLUSTER = Group("cluster", start, [
    Case("the certificate of the servers ends in ten days", (), certificate(10),
         later=("CloakworkCertificateExpires",)),
    Case("the asynchronous standby of PostgreSQL crashes", ("CloakworkStandbyMissing",), crash_standby("async"),
         start_standby("async")),
    Case("both standbys are suspended while 120 MB are written", ("CloakworkStandbyLags",), suspend_standbys,
         resume_standbys),
    Case("the synchronous standby of PostgreSQL crashes", ("CloakworkSyncStandbyMissing",), crash_standby("sync"),
         start_standby("sync"), later=("CloakworkAvailabilityBurnsSlowly",)),
    Case("the clock of a server is a minute ahead", ("CloakworkClockDiffers",), change_clock, right_clock),
    Case("the bucket refuses writes", ("CloakworkBlobStoreErrors", "CloakworkUploadsFail"), refuse_writes, allow_writes,
         patience=120),
    Case("the network between the servers is cut: connections to the owner are refused",
         ("CloakworkForwardingFails",), cut_owner_off, connect_owner),
    Case("PostgreSQL crashes and restarts, and has lost commits that nobody relies on", ("CloakworkFenced",),
         crash_database_under_load, end_crashes),
    Case("a job is added to the database by hand", ("CloakworkInvariantViolated",), change_database_by_hand,
         undo_change, patience=200),
    Case("the server that owns the database is killed", ("CloakworkServerDown",), kill_server, revive),
    Case("PostgreSQL crashes and stays away", ("CloakworkDatabaseErrors", "CloakworkAvailabilityBurnsFast"),
         stop_database, start_database),
    Case("the machine with PostgreSQL and the owner is lost", ("CloakworkNoOwner",), stop_database_and_owner,
         start_database),
    Case("all servers are killed", ("CloakworkDown",), kill_all_servers, revive),
    Case("the certificate of the servers ends in a day", ("CloakworkCertificateExpiresSoon",), certificate(1),
         certificate(90)),
])

# A transaction takes more than half a second here, so a window of 5 seconds would have few of them.
DATABASE = Group("database", start, [
    Case("the network delays each message to PostgreSQL by 0.3 s",
         ("CloakworkDatabaseSlow", "CloakworkDatabaseSaturated"), slow_database, fast_database,
         patience=200),
], factor_max=20)
