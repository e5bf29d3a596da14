"""Runs the tests of a package with a mutant."""

import os
import re
import signal
import subprocess
import tempfile
import threading

import tree

# A line of the test harness, which appears before the remaining tests have run.
FAILED = re.compile(r"test .+ \.\.\. FAILED$")


def run(copy, mutant, limit, number=0):
    """Outcome of the test programs with a mutant. `number` makes a switched mutant active."""
    commands = [[program] for program in copy.programs]
    if mutant:
        # The unit tests of the mutant's own module come first, because they usually fail.
        commands.insert(0, [copy.programs[0], module(mutant["file"]) + "::"])
    for command in commands:
        outcome = outcome_of(command, copy, limit, number)
        if outcome != "survived":
            return outcome
    return "survived"


def module(file):
    """Path of a file's module in its crate."""
    return re.sub(r"^.*?src/|\.rs$", "", file).replace("/", "::")


def outcome_of(command, copy, limit, number):
    """Outcome of one command, which ends at the first test that fails."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        environment = tree.ENVIRONMENT | {
            "ACTIVE_MUTANT": str(number),
            "TMPDIR": directory,
            # A stored failure of one mutant would be repeated with all others.
            "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1",
        }
        process = subprocess.Popen(
            command,
            cwd=copy.root / copy.sample.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            process_group=0,
        )
        try:
            return watched(process, limit)
        finally:
            kill(process)
            process.wait()
            unmount(directory)


def watched(process, limit):
    expired = threading.Event()

    def expire():
        expired.set()
        kill(process)

    timer = threading.Timer(limit, expire)
    timer.start()
    try:
        if any(FAILED.match(line) for line in process.stdout) or (process.wait() and not expired.is_set()):
            return "caught"
        return "timeout" if expired.is_set() else "survived"
    finally:
        timer.cancel()


def kill(process):
    """Kills a process and all its children."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def unmount(directory):
    """Removes file systems that a killed test has mounted."""
    with open("/proc/mounts") as mounts:
        points = [line.split()[1] for line in mounts]
    for point in points:
        if point.startswith(f"{directory}/"):
            subprocess.run(["umount", "-l", point], check=False)
