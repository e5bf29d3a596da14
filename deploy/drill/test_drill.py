"""Tests of the receiver, the runbooks and the table of faults. They need no server."""

import contextlib
import io
import types
import unittest

import drill
import night
import rules
import trial
from load import Result
from processes import ports
from receiver import Receiver
from watch import PROMETHEUS, TOP, first_checks, runbook_problems

ALERTS = rules.alerts((PROMETHEUS / "alerts.yaml").read_text())


def webhook(status, name="CloakworkDown", fingerprint="1"):
    return {"status": status, "fingerprint": fingerprint, "labels": {"alertname": name}, "annotations": {}}


class Receiving(unittest.TestCase):
    def setUp(self):
        self.receiver = Receiver(ports(1)[0])
        self.addCleanup(self.receiver.server.server_close)
        self.addCleanup(self.receiver.server.shutdown)

    def test_an_alert_comes_once_and_ends(self):
        for status in ("firing", "firing", "resolved"):
            self.receiver.take("/page", webhook(status))
        (arrival,) = self.receiver.since(0)
        self.assertIsNotNone(arrival.ended)
        self.assertEqual(self.receiver.firing(), set())

    def test_an_alert_that_comes_again_is_another_arrival(self):
        for status in ("firing", "resolved", "firing"):
            self.receiver.take("/page", webhook(status))
        self.assertEqual(len(self.receiver.since(0)), 2)
        self.assertEqual(self.receiver.firing(), {"CloakworkDown"})


class FakeWatch:
    """A receiver, and a Prometheus without values."""

    def __init__(self):
        self.receiver = Receiver(ports(1)[0])

    def states(self):
        return {}

    def ask(self, _):
        return []


class FakeLoad:
    """A load whose jobs are right at once, and of which some are lost."""

    def __init__(self, lost=()):
        self.losses = list(lost)

    def right_since(self, moment):
        return Result("tenants/acme/jobs/1", moment, moment, True)

    def longest_gap(self, begun):
        return 0

    def stop(self):
        pass

    def lost(self):
        return self.losses

    def forgotten(self):
        return []


class Outcomes(unittest.TestCase):
    """A fault whose alerts the test chooses."""

    def drill(self, *names, lost=()):
        stack = types.SimpleNamespace(watch=FakeWatch())
        self.addCleanup(stack.watch.receiver.server.server_close)
        self.addCleanup(stack.watch.receiver.server.shutdown)
        take = stack.watch.receiver.take
        all_names = list(enumerate(names))
        annotations = lambda name: {"runbook": ALERTS[name]["runbook"], "summary": ALERTS[name]["summary"]}

        def send(status):
            for number, name in all_names:
                alert = webhook(status, name, str(number))
                alert["labels"]["severity"] = ALERTS[name]["severity"]
                take("/page", alert | {"annotations": annotations(name)})

        fault = night.Fault("a fault", "CloakworkNoOwner", lambda _: send("firing"), "an action",
                            lambda _: send("resolved"), companions=("CloakworkDatabaseErrors",), patience=0.5)
        outcome = drill.Drill(stack, FakeLoad(lost))
        with contextlib.redirect_stdout(io.StringIO()):
            outcome.run(1, fault)
        outcome.finish()
        return outcome

    def test_the_alert_of_the_fault_and_its_companions_are_right(self):
        self.assertEqual(self.drill("CloakworkNoOwner").problems, [])
        outcome = self.drill("CloakworkDatabaseErrors", "CloakworkNoOwner")
        self.assertEqual(outcome.problems, [])
        self.assertEqual(outcome.rows[0][-1], ["CloakworkDatabaseErrors"])

    def test_a_missing_alert_is_a_problem(self):
        (problem,) = self.drill("CloakworkDatabaseErrors").problems
        self.assertIn("the alert CloakworkNoOwner: not within 0.5 s", problem)

    def test_an_alert_of_another_fault_is_a_problem(self):
        (problem,) = self.drill("CloakworkNoOwner", "CloakworkJobsFail").problems
        self.assertIn("alerts of another fault: CloakworkJobsFail", problem)

    def test_a_lost_job_is_a_problem(self):
        (problem,) = self.drill("CloakworkNoOwner", lost=["failed: tenants/acme/jobs/1"]).problems
        self.assertEqual(problem, "lost job: failed: tenants/acme/jobs/1")


class Runbooks(unittest.TestCase):
    def test_each_alert_has_a_whole_runbook_with_queries(self):
        for name, about in ALERTS.items():
            self.assertEqual(runbook_problems(about["runbook"], name, about["severity"]), [])
            self.assertTrue(first_checks(about["runbook"]), name)

    def test_a_missing_runbook_and_a_wrong_severity_are_found(self):
        self.assertTrue(runbook_problems("docs/runbooks/CloakworkNothing.md", "CloakworkNothing", "page"))
        self.assertTrue(runbook_problems("docs/runbooks/CloakworkDown.md", "CloakworkDown", "ticket"))


class Faults(unittest.TestCase):
    def test_the_table_has_each_alert_once_and_equals_the_readme(self):
        text = (TOP / "deploy/drill/README.md").read_text()
        self.assertTrue(f"\n{trial.table()}\n" in text, "write the output of `trial.py --table` into README.md")

    def test_the_drill_names_alerts_that_exist(self):
        self.assertEqual(len(night.FAULTS), 6)
        for fault in night.FAULTS:
            self.assertLessEqual({fault.alert, *fault.companions}, ALERTS.keys())
            self.assertNotIn(fault.alert, fault.companions)
        self.assertEqual(len({fault.alert for fault in night.FAULTS}), 6)


if __name__ == "__main__":
    unittest.main()
