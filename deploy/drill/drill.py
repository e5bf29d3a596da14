#!/usr/bin/env python3
"""The drill: six faults against a running stack, each with its alert, runbook and recovery.

usage: drill.py [--factor F] [--faults 1,4] [--leave-out ALERT]

--factor divides all times of the rules, by default by 10. --faults runs some of the six. --leave-out
removes an alert from the rules, to see that the drill fails. run.sh starts this program.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
import time

import night
import rules
from load import Load
from processes import handle_signals, wait_for
from stack import Cluster
from watch import PROMETHEUS, TOP, Watch, first_checks, runbook_problems

# Time after which the alert of a repaired fault must have ended.
END_MAX = 400

# Alerts of long windows, which go on for 6 and for 36 minutes even with the shorter times. The drill
# does not wait for their end.
LASTING = {"CloakworkFenced", "CloakworkAvailabilityBurnsSlowly"}


class Drill:
    """Runs the faults one after the other, and keeps what went wrong."""

    def __init__(self, stack, load):
        self.stack, self.load, self.watch = stack, load, stack.watch
        self.alerts = rules.alerts((PROMETHEUS / "alerts.yaml").read_text())
        self.problems, self.rows = [], []

    def run(self, number, fault):
        say(f"\n{number}. {fault.name}")
        self.wait(f"{fault.name}: quiet before the fault", self.is_quiet, END_MAX)
        begun = time.monotonic()
        fault.inject(self.stack)
        came = self.alert_of(fault, begun)
        self.show_runbook(fault, came)
        acted = time.monotonic()
        fault.act(self.stack)
        say(f"   action: {fault.action}")
        right = self.wait(f"{fault.alert}: a right result after the action",
                          lambda: self.load.right_since(acted), END_MAX)
        ended = self.wait(f"{fault.alert}: the end of the alert", lambda: came is None or came.ended, END_MAX)
        # Nothing more may come of this fault later.
        self.wait(f"{fault.name}: the end of all alerts", lambda: not self.watch.receiver.firing() - LASTING, END_MAX)
        arrivals = self.watch.receiver.since(begun)
        others = sorted({each.name for each in arrivals} - {fault.alert, *fault.companions})
        if others:
            self.problems.append(f"{fault.name}: alerts of another fault: {', '.join(others)}")
        companions = sorted({each.name for each in arrivals} & set(fault.companions))
        row = [fault.name, fault.alert, came and came.came - begun, fault.action, right and right.ended - acted,
               came and ended and came.ended - acted, self.load.longest_gap(begun), companions]
        self.rows.append(row)
        say(f"   alert after {show(row[2])} s; from the action, a right result after {show(row[4], 1)} s and the end "
            f"of the alert after {show(row[5])} s; longest time without a right result: {show(row[6], 1)} s; "
            f"also came: {', '.join(companions) or 'nothing'}")

    def is_quiet(self):
        return not (self.watch.receiver.firing() | self.watch.states().keys()) - LASTING

    def alert_of(self, fault, begun):
        find = lambda: next((each for each in self.watch.receiver.since(begun) if each.name == fault.alert), None)
        return self.wait(f"{fault.name}: the alert {fault.alert}", find, fault.patience)

    def wait(self, what, condition, patience):
        """The value of a condition, or nothing and a problem."""
        try:
            return wait_for(what, condition, patience)
        except TimeoutError as problem:
            self.problems.append(f"{problem}; firing: {sorted(self.watch.receiver.firing())}, "
                                 f"in Prometheus: {self.watch.states()}")
            return None

    def show_runbook(self, fault, came):
        about = self.alerts[fault.alert]
        path = came.annotations["runbook"] if came else about["runbook"]
        self.problems += runbook_problems(path, fault.alert, about["severity"])
        if came:
            say(f"   {came.labels['severity']}: {came.annotations['summary']}\n   {path}")
        for query in first_checks(path):
            values = [f"{each['metric']} {each['value'][1]}" for each in self.watch.ask(query)][:4]
            say(f"     {query}: {'; '.join(values).replace(chr(39), '') or 'no value'}")

    def finish(self):
        self.load.stop()
        lost, self.forgotten = self.load.lost(), self.load.forgotten()
        self.problems += [f"lost job: {each}" for each in lost]
        return len(lost)


def show(seconds, places=0):
    return "-" if seconds is None else f"{seconds:.{places}f}"


def say(text):
    print(text, flush=True)


def table(rows, lost):
    """The table of docs/drill.md."""
    lines = ["| fault | alert | seconds to the alert | action of the runbook | seconds from the action to a right "
             "result | seconds from the action to the end of the alert | longest time without a right result, "
             "seconds | further alerts of the fault |",
             "|---|---|---:|---|---:|---:|---:|---|"]
    for name, alert, came, action, right, ended, gap, companions in rows:
        lines.append(f"| {name} | [{alert}](runbooks/{alert}.md) | {show(came)} | {action} | {show(right, 1)} | "
                     f"{show(ended)} | {show(gap, 1)} | {', '.join(companions) or 'none'} |")
    return "\n".join(lines) + f"\n\nJobs lost: {lost}."


def about_machine(factor):
    processors = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())
    commit = subprocess.run(["git", "-C", TOP, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
                            capture_output=True, text=True)
    return (f"{processors.group(1) if processors else platform.machine()}, {os.cpu_count()} processors, commit "
            f"{commit.stdout.strip()}, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, times of the rules "
            f"divided by {factor}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--factor", type=float, default=10)
    parser.add_argument("--faults", default="1,2,3,4,5,6")
    parser.add_argument("--leave-out", default="")
    args = parser.parse_args()
    handle_signals()
    Watch.left_out = args.leave_out
    say(about_machine(args.factor))
    begun = time.monotonic()
    stack = Cluster(args.factor)
    try:
        stack.start_watch()
        load = Load([stack.tenant(name) for name in ("acme", "globex", "initech")])
        load.wait_for_right(0, 60)
        drill = Drill(stack, load)
        say(f"the stack serves after {time.monotonic() - begun:.0f} s: {stack.url}, Prometheus at {stack.watch.port}")
        for number in map(int, args.faults.split(",")):
            drill.run(number, night.FAULTS[number - 1])
        lost = drill.finish()
    finally:
        stack.close()
    say("\n" + table(drill.rows, lost))
    say(f"Jobs with the right result: {sum(result.right for result in load.results)}. Calls that failed and were "
        f"repeated as new jobs: {len(load.errors)}. Jobs whose caller has the right result, and whose record a crash "
        f"of PostgreSQL undid: {len(drill.forgotten)}. Time of the whole drill: {time.monotonic() - begun:.0f} s.")
    for _, text in load.errors:
        say(f"  a failed call: {text}")
    for problem in drill.problems:
        say(f"FAILED: {problem}")
    return 1 if drill.problems else 0


if __name__ == "__main__":
    sys.exit(main())
