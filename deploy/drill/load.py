"""A light load that decrypts each result, compares it with the right one, and counts lost jobs."""

import dataclasses
import json
import threading
import time

from processes import wait_for

# Expressions with their meaning on numbers. Each job has fresh numbers.
EXPRESSIONS = [
    ("max(x, y) + z", "u8", lambda x, y, z: (max(x, y) + z) % 256),
    ("select(x >= y, x - y, z)", "u8", lambda x, y, z: x - y if x >= y else z),
    ("x * y + z", "u16", lambda x, y, z: (x * y + z) % 65536),
]


@dataclasses.dataclass
class Result:
    """A job that ended for its caller. Times are seconds of the monotonic clock."""

    job: str
    begun: float
    ended: float
    right: bool


class Load:
    """Callers that each send one job after the other until they are stopped."""

    def __init__(self, tenants, pause=0.2):
        self.results, self.errors, self.lock = [], [], threading.Lock()
        self.tenants, self.pause, self.stopped = tenants, pause, threading.Event()
        self.callers = [threading.Thread(target=self.call, args=(tenant, number), daemon=True)
                        for number, tenant in enumerate(tenants)]
        for caller in self.callers:
            caller.start()

    def call(self, tenant, number):
        text, kind, meaning = EXPRESSIONS[number % len(EXPRESSIONS)]
        top = 1 << int(kind[1:])
        while not self.stopped.is_set():
            values = [tenant.random.randrange(top) for _ in "xyz"]
            words = [f"{name}={kind}:{value}" for name, value in zip("xyz", values)]
            begun = time.monotonic()
            try:
                done = tenant.call("--json", "eval", text, *words, check=False, patience=300)
            except Exception as problem:  # a caller must not end silently
                self.take_error(f"{tenant.name}: {problem}")
                continue
            if done.returncode == 0:
                answer = json.loads(done.stdout)
                right = answer["outputs"][0]["results"] == [str(meaning(*values))]
                with self.lock:
                    self.results.append(Result(answer["job"], begun, time.monotonic(), right))
            else:
                self.take_error(f"{tenant.name}: status {done.returncode}: {done.stderr.strip()[:200]}")
            self.stopped.wait(self.pause)

    def take_error(self, text):
        with self.lock:
            self.errors.append((time.monotonic(), text))

    def right_since(self, moment):
        """The first right result of a job that was sent after a moment."""
        with self.lock:
            found = [result for result in self.results if result.begun >= moment and result.right]
        return min(found, key=lambda result: result.ended, default=None)

    def longest_gap(self, begun):
        """The longest time between two right results since a moment, of all callers together."""
        with self.lock:
            ends = sorted(result.ended for result in self.results if result.right and result.ended >= begun)
        return max((later - earlier for earlier, later in zip([begun, *ends], ends)), default=None)

    def wait_for_right(self, moment, patience):
        return wait_for("a job with the right result", lambda: self.right_since(moment), patience)

    def stop(self):
        self.stopped.set()
        for caller in self.callers:
            caller.join(330)

    def lost(self):
        """Accepted jobs without the right result. The callers must have stopped."""
        lost = [f"wrong result: {result.job}" for result in self.results if not result.right]
        return lost + [each for tenant in self.each_tenant() for each in lost_of(tenant)]

    def forgotten(self):
        """Jobs that the server no longer knows, although their callers have the right result.

        A caller of `RunJob` has its result before the end of the job is on the disk. A crash of
        PostgreSQL may undo such an end (docs/operations.md, durability).
        """
        known = {job for tenant in self.each_tenant() for job in tenant.jobs("succeeded")}
        return [result.job for result in self.results if result.job not in known]

    def each_tenant(self):
        return {tenant.name: tenant for tenant in self.tenants}.values()


def lost_of(tenant):
    """Jobs of a tenant that failed or never ended."""
    open_jobs = lambda: tenant.jobs("queued", "running")
    try:
        wait_for("the last jobs end", lambda: not open_jobs(), 90, pause=1)
    except TimeoutError:
        pass
    failed = [f"failed: {job}" for job in tenant.jobs("failed", "cancelled")]
    return [f"never ended: {job}" for job in open_jobs()] + failed
