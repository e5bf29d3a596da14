#!/usr/bin/env python3
"""Makes each alert of deploy/prometheus fire, by a fault against a running stack.

usage: trial.py [--factor F] [--groups cluster,queue] [--cases TEXT] [--leave-out ALERT] [--table]

--factor divides all times of the rules, by default by 60, and by at most 20 in the group `database`.
--groups runs some of the groups, and --cases those of their faults that contain a text. --leave-out
removes an alert from the rules, to see that the trial fails. --table prints the table of README.md,
and starts nothing. run.sh starts this program.
"""

import argparse
import sys
import time

import cluster_cases
import rules
import worker_cases
from drill import about_machine, say
from processes import handle_signals, wait_for
from watch import PROMETHEUS, Watch, runbook_problems

GROUPS = [cluster_cases.CLUSTER, cluster_cases.DATABASE, worker_cases.QUEUE, worker_cases.TRUST, worker_cases.KEYS, worker_cases.DISK]


def table():
    """The table of README.md: each alert, and the fault that makes it fire."""
    rows = {}
    for group in GROUPS:
        for case in group.cases:
            for alert in (*case.alerts, *case.later):
                rows.setdefault(alert, []).append((case, group))
    names = rules.alerts((PROMETHEUS / "alerts.yaml").read_text())
    lines = ["| alert | fault that makes it fire | group | kind |", "|---|---|---|---|"]
    for name in names:
        found = rows.pop(name, [])
        if len(found) != 1:
            raise ValueError(f"{name} has {len(found)} faults, and not one")
        case, group = found[0]
        lines.append(f"| {name} | {case.fault} | {group.name} | {'real' if case.is_real else 'stand-in'} |")
    if rows:
        raise ValueError(f"alerts.yaml has no {', '.join(rows)}")
    return "\n".join(lines)


class Trial:
    """Runs groups of cases, and keeps what came and what did not."""

    def __init__(self, factor, text):
        self.factor, self.text = factor, text
        self.alerts = rules.alerts((PROMETHEUS / "alerts.yaml").read_text())
        self.came, self.problems = {}, []

    def run(self, group):
        begun = time.monotonic()
        say(f"\n{group.name}")
        stack = group.start(min(self.factor, group.factor_max))
        stack.name = group.name
        say(f"  the stack serves after {time.monotonic() - begun:.0f} s")
        try:
            late = []
            for case in (case for case in group.cases if self.text in case.fault):
                self.run_case(stack, case, late)
            for alert, fault, since in late:
                self.await_alert(stack, alert, fault, since, 150)
        finally:
            if hasattr(stack, "load"):
                stack.load.stopped.set()
            stack.close()
        say(f"  {group.name} took {time.monotonic() - begun:.0f} s")

    def run_case(self, stack, case, late):
        # An alert that fires already would prove nothing.
        wanted = {*case.alerts, *case.later}
        try:
            wait_for("quiet", lambda: not wanted & stack.watch.states().keys(), 60, 0.5)
        except TimeoutError:
            self.problems.append(f"{case.fault}: fires before the fault: {wanted & stack.watch.states().keys()}")
        stack.injected = time.monotonic()
        try:
            case.inject(stack)
            for alert in case.alerts:
                self.await_alert(stack, alert, case.fault, stack.injected, case.patience)
            late += [(alert, case.fault, stack.injected) for alert in case.later]
            case.repair(stack)
            others = {each.name for each in stack.watch.receiver.since(stack.injected)} - wanted
            say(f"    {case.fault}; also came: {', '.join(sorted(others)) or 'nothing'}")
        except (RuntimeError, TimeoutError, OSError) as problem:
            self.problems.append(f"{case.fault}: {problem}")

    def await_alert(self, stack, alert, fault, since, patience):
        """Waits until an alert is at the receiver, or at Alertmanager and hidden by another one."""
        watch = stack.watch
        def find():
            for arrival in watch.receiver.since(since):
                if arrival.name == alert:
                    return arrival.came - since, arrival.path
            if alert in watch.hidden():
                return time.monotonic() - since, "hidden by another alert"
        try:
            seconds, path = wait_for(alert, find, patience, 0.2)
        except TimeoutError:
            state = watch.states().get(alert, "inactive")
            self.problems.append(f"{alert} did not come: {fault}; in Prometheus it is {state}")
            return
        self.came[alert] = (seconds, path, fault)
        self.problems += runbook_problems(f"docs/runbooks/{alert}.md", alert, self.alerts[alert]["severity"])
        say(f"  {alert}: {seconds:.0f} s, {path}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--factor", type=float, default=60)
    parser.add_argument("--groups", default=",".join(group.name for group in GROUPS))
    parser.add_argument("--cases", default="")
    parser.add_argument("--leave-out", default="")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.table:
        print(table())
        return 0
    handle_signals()
    Watch.left_out = args.leave_out
    say(about_machine(args.factor))
    begun = time.monotonic()
    trial = Trial(args.factor, args.cases)
    for group in GROUPS:
        if group.name in args.groups.split(","):
            trial.run(group)
    say(f"\n{len(trial.came)} alerts came, in {time.monotonic() - begun:.0f} s")
    for problem in trial.problems:
        say(f"FAILED: {problem}")
    return 1 if trial.problems else 0


if __name__ == "__main__":
    sys.exit(main())
