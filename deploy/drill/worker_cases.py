"""Faults of workers, of the queue and of a small server: one server, with its data on one disk."""

import os
import random
import re
import signal
import threading
import time

from case import Case, Group
from processes import ports, run, wait_for
from programs import changed_clock
from stack import Single, fill_disk, free_disk
from standins import Gpus, Page

TOY = "TOY_MESSAGE_2_CARRY_2"


def start_queue(factor):
    """A server with a short queue, a pool without workers, and a collector of traces."""
    (collector,) = ports(1)
    page = Page(collector, kind="application/x-protobuf")
    stack = Single(factor, {
        "allow_weak_sets": "true", "limits.lease_ms": "3000", "limits.queued_jobs": "40",
        "limits.tenant_queued_jobs": "40", "telemetry.otlp_endpoint": f"http://127.0.0.1:{collector}",
        "telemetry.otlp_protocol": "http", "telemetry.trace_percent": "100",
        "pools.cpu.bootstraps_per_second": "150", "pools.night.bootstraps_per_second": "150"})
    stack.collector = page
    (gpus,) = ports(1)
    stack.gpus = Gpus(gpus)
    stack.gpus.show(2)
    stack.extra_targets = {"gpu-stand-in": gpus}
    stack.start_watch()
    stack.caller = stack.tenant("acme")
    stack.loads = []
    return stack


def load(stack, clients, seconds, rows=1):
    """A load of callers that each send one job after the other."""
    words = ["--clients", str(clients), "--rows", str(rows), "--duration", str(seconds)]
    stack.loads.append(stack.caller.background("bench", *words))


def end_loads(stack):
    for process in stack.loads:
        process.kill()
    stack.loads = []


def crash_collector(stack):
    stack.collector.close()
    load(stack, 2, 20)


def break_gpu(stack):
    stack.gpus.show(2, errors=1)


def lose_gpu(stack):
    stack.gpus.show(1, errors=1)


def send_batch(stack):
    """More work than two workers do in half a minute, as often as it ends."""
    load(stack, 38, 240, rows=400)


def kill_busy_workers(stack):
    """Kills all workers while they hold jobs, and jobs wait."""
    load(stack, 38, 90)
    wait_for("workers hold five jobs", lambda: sum(worker.jobs() for worker in stack.workers.values()) >= 5, pause=0.02)
    for worker in stack.workers.values():
        worker.kill()


def start_workers(stack):
    for worker in stack.workers.values():
        worker.start()
    stack.wait_for_workers(2)


def kill_worker(stack):
    stack.workers["b"].kill()


def start_worker(stack):
    stack.workers["b"].start()
    stack.wait_for_workers(2)


def kill_worker_thrice(stack):
    worker = stack.workers["b"]
    attached = lambda: worker.log.read_text().count("attached to the server")
    for _ in range(3):
        before = attached()
        worker.kill()
        worker.start()
        wait_for("the worker is attached", lambda: attached() > before)


QUEUE = Group("queue", start_queue, [
    Case("the GPU of a worker reports an XID (a stand-in shows its metrics)", ("CloakworkGpuError",),
         break_gpu, is_real=False),
    Case("a worker shows one GPU of two (a stand-in shows its metrics)", ("CloakworkGpuLost",), lose_gpu,
         is_real=False),
    Case("the collector of traces ends", ("CloakworkSpansDropped",), crash_collector, end_loads),
    Case("all workers are killed while they hold jobs, and stay away",
         ("CloakworkNoWorkers", "CloakworkLeasesExpire", "CloakworkOldestJobTooOld"), kill_busy_workers, start_workers,
         later=("CloakworkLatencyBurnsSlowly",)),
    Case("a worker is killed three times", ("CloakworkWorkersFlap",), kill_worker_thrice),
    Case("a worker is killed and stays away", ("CloakworkWorkerDown",), kill_worker, start_worker),
    Case("38 callers send more work than the workers can do, and one of two declared pools has no worker",
         ("CloakworkPoolWithoutWorkers", "CloakworkLimitNearlyUsed", "CloakworkLatencyBurnsFast"), send_batch,
         end_loads, patience=150),
])


def start_keys(factor):
    """A server whose only worker has memory for one key, with three tenants."""
    stack = Single(factor, {"limits.lease_ms": "3000"}, worker_options=["--memory", "300"], workers=("a",))
    stack.start_watch()
    stack.callers = [stack.tenant(name) for name in ("acme", "globex", "initech")]
    stack.loads = []
    return stack


def use_more_keys(stack):
    for caller in stack.callers:
        stack.loads.append(caller.background("bench", "--clients", "6", "--duration", "120"))


def send_chains(stack):
    """Has 15 callers of three keys send programs whose 120 operations follow one another."""
    chain = "x"
    for _ in range(60):
        chain = f"({chain}*y+z)"

    def call(caller):
        while not stack.stopped.is_set():
            caller.call("eval", chain, "x=u4:1", "y=u4:3", "z=u4:5", check=False, patience=300)

    stack.stopped = threading.Event()
    for caller in stack.callers * 5:
        threading.Thread(target=call, args=(caller,), daemon=True).start()


def end_chains(stack):
    stack.stopped.set()


KEYS = Group("keys", start_keys, [
    Case("three tenants use three keys in turn, and the worker has memory for one", ("CloakworkKeyCacheThrashes",),
         use_more_keys, end_loads),
    Case("15 callers of three keys send programs whose operations follow one another", ("CloakworkWaveFillLow",),
         send_chains, end_chains, patience=150),
])


def start_trust(factor):
    """A server that verifies all rows, and whose key signs in a program of its own."""
    def settings(place):
        return {"verify_percent": "100", "limits.lease_ms": "3000", "attestation.sign_command": str(place / "sign"),
                "attestation.anchor": f"ed25519:{make_signer(place)}"}

    stack = Single(factor, settings)
    stack.start_watch()
    stack.caller = stack.tenant("acme")
    stack.loads = []
    return stack


def make_signer(place):
    """Makes the program of docs/operations.md that signs with openssl. Returns its public key."""
    run("openssl", "genpkey", "-algorithm", "ed25519", "-out", place / "sign.pem")
    (place / "sign").write_text(
        "#!/bin/sh\nmessage=$(mktemp) && cat > \"$message\" || exit 1\n"
        f"openssl pkeyutl -sign -inkey {place}/sign.pem -rawin -in \"$message\"\nstatus=$?\nrm -f \"$message\"\n"
        "exit $status\n")
    (place / "sign").chmod(0o755)
    run("openssl", "pkey", "-in", place / "sign.pem", "-pubout", "-outform", "DER", "-out", place / "sign.der")
    return (place / "sign.der").read_bytes()[-32:].hex()


def damage_memory(stack):
    """Changes bytes in the memory of a worker, where its key lies, as bad memory does."""
    load(stack, 4, 60)
    worker = stack.workers["b"]
    wait_for("the worker computes", lambda: worker.jobs() > 0, pause=0.02)
    time.sleep(3)
    pid = worker.process.process.pid
    maps = re.findall(r"(?m)^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ 00:00 0 *$", open(f"/proc/{pid}/maps").read())
    first, last = max(((int(a, 16), int(b, 16)) for a, b in maps), key=lambda place: place[1] - place[0])
    chance = random.Random(1)
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        for _ in range(4000):
            memory.seek(chance.randrange(first, last - 64) & ~63)
            memory.write(chance.randbytes(64))


def restart_all(stack):
    end_loads(stack)
    for worker in stack.workers.values():
        worker.kill()
    stack.server.process.end()
    stack.server.start()
    for worker in stack.workers.values():
        worker.environment = {}
        worker.start()
    stack.wait_for_workers(len(stack.workers))


def damage_wire(stack):
    """Changes a byte of each large piece on the way to the workers, which read their key again."""
    def damage(piece):
        if len(piece) < 100_000:
            return piece
        place = len(piece) // 2
        return piece[:place] + bytes([piece[place] ^ 1]) + piece[place + 1 :]

    stack.to_workers.damage = damage
    for worker in stack.workers.values():
        worker.kill()
        worker.start()
    load(stack, 2, 60)


def repair_wire(stack):
    stack.to_workers.damage = None
    restart_all(stack)


def change_worker_clock(stack):
    for worker in stack.workers.values():
        worker.end()
        worker.environment = changed_clock("+20m")
        worker.start()
    load(stack, 2, 60)


def break_signing(stack):
    os.rename(stack.place / "sign.pem", stack.place / "away.pem")
    worker = stack.workers["b"]
    worker.kill()
    worker.start()


def repair_signing(stack):
    os.rename(stack.place / "away.pem", stack.place / "sign.pem")


def lose_second_worker(stack):
    stack.workers["b"].kill()
    load(stack, 1, 150)


def damage_store(stack):
    """Changes bytes of the stored key while its jobs wait, as a bad disk does."""
    load(stack, 12, 60)
    wait_for("workers hold five jobs", lambda: sum(worker.jobs() for worker in stack.workers.values()) >= 5, pause=0.02)
    for worker in stack.workers.values():
        worker.kill()
    wait_for("ten jobs wait", lambda: (stack.server.metric("cloakwork_jobs_queued") or 0) >= 10)
    for path in (stack.place / "data-a/blobs").rglob("*"):
        if path.is_file() and path.stat().st_size > 1 << 20:
            with open(path, "r+b") as file:
                for place in range(1 << 16, path.stat().st_size, 1 << 20):
                    file.seek(place)
                    file.write(b"\x55" * 64)
    for worker in stack.workers.values():
        worker.start()


TRUST = Group("trust", start_trust, [
    Case("only one worker of two is left, so no row is verified", (), lose_second_worker,
         later=("CloakworkUnverified",)),
    Case("the program that signs certificates fails", ("CloakworkCertificationFails",), break_signing, repair_signing),
    Case("the clocks of the workers are 20 minutes ahead", ("CloakworkResultsRefused",), change_worker_clock,
         restart_all),
    Case("bytes of the key change in the memory of a worker", ("CloakworkWrongResult",), damage_memory, restart_all),
    Case("the network changes bytes on the way to the workers", ("CloakworkKeyReadWrong",), damage_wire, repair_wire,
         patience=120),
    Case("bytes of the stored key change on the disk", ("CloakworkJobsFail",), damage_store, end_loads, patience=150),
])


def start_disk(factor):
    stack = Single(factor, {"allow_weak_sets": "true"}, workers=("a",))
    stack.start_watch()
    return stack


def fill(*shares, pause):
    """Fills the disk in steps, in the background."""
    def inject(stack):
        def steps():
            for share in shares:
                fill_disk(stack.place / "data-a", share)
                time.sleep(pause)

        threading.Thread(target=steps, daemon=True).start()

    return inject


DISK = Group("disk", start_disk, [
    Case("another program writes a 200th of the disk every three seconds, from half of it on", ("CloakworkDiskFills",),
         fill(*(0.55 + step / 200 for step in range(35)), pause=3), patience=180),
    Case("the other program fills four fifths of the disk, and goes on", ("CloakworkDiskFullSoon",),
         fill(*(0.78 + step / 200 for step in range(20)), pause=2), patience=120),
    Case("the other program fills 97 % of the disk", ("CloakworkDiskNearlyFull",), fill(0.97, pause=0),
         lambda stack: free_disk(stack.place / "data-a")),
])
