"""Tests of the divided rules. They need no server."""

import re
import unittest

import rules
from watch import PROMETHEUS

RECORDING = (PROMETHEUS / "recording.yaml").read_text()
ALERTS = (PROMETHEUS / "alerts.yaml").read_text()
ROUTES = (PROMETHEUS / "alertmanager.yml").read_text()


class Durations(unittest.TestCase):
    def test_a_duration_is_divided(self):
        self.assertEqual(rules.divided("15m", 10), "90000ms")
        self.assertEqual(rules.divided("1d", 60), "1440000ms")
        self.assertEqual(rules.divided("30s", 60), "500ms")

    def test_windows_offsets_and_waits_are_divided_and_names_are_not(self):
        text = ("        for: 10m\n    interval: 1m\n      - record: cloakwork:calls:rate1h\n"
                "        expr: rate(x[5m]) unless last_over_time(y[10m] offset 15m)\n"
                "          description: 'for 10 minutes'\n          runbook: docs/runbooks/for: 10m.md\n")
        self.assertEqual(rules.shortened(text, 60), (
            "        for: 10000ms\n    interval: 1000ms\n      - record: cloakwork:calls:rate1h\n"
            "        expr: rate(x[5000ms]) unless last_over_time(y[10000ms] offset 15000ms)\n"
            "          description: 'for 10 minutes'\n          runbook: docs/runbooks/for: 10m.md\n"))

    def test_no_duration_of_the_files_is_left(self):
        for text in (rules.shortened(RECORDING, 60), rules.shortened_alerts(ALERTS, 60)):
            code = re.sub(r"#.*|cloakwork:\S+|description: .*", "", text)
            self.assertEqual(re.findall(r"\b\d+[smhd]\b", code), [])

    def test_a_factor_of_one_changes_only_the_unit(self):
        once = rules.shortened(RECORDING, 1)
        original = re.sub(r"(?<=[\[ ])\d+[smhd](?=\]|\)|$)", "T", RECORDING, flags=re.M)
        self.assertEqual(re.sub(r"\d+ms", "T", once), original)

    def test_times_in_seconds_are_divided_and_thresholds_are_not(self):
        text = rules.shortened_alerts(ALERTS, 60)
        for wanted in ("rate1h * 60 >= 10", "rate6h * 360 >= 10", "rate3d * 4320 >= 10", "24 * 60) < 0", " 4 * 60) < 0",
                       "queued_seconds) > 10\n", "queued_seconds) > 60\n", "< 14 * 86400", "< 2 * 86400", "> 0.25"):
            self.assertIn(wanted, text)

    def test_a_time_that_the_list_does_not_know_is_an_error(self):
        with self.assertRaises(ValueError):
            rules.shortened_alerts(ALERTS.replace("rate1h * 3600", "rate1h * 7200"), 60)

    def test_the_waits_of_routes_are_divided(self):
        text = rules.shortened_routes(ROUTES, 60)
        self.assertIn("  group_wait: 500ms\n  group_interval: 5000ms\n", text)
        self.assertNotRegex(text, r"(wait|interval): \d+[smhd]\n")


class Alerts(unittest.TestCase):
    def test_the_alerts_are_read(self):
        found = rules.alerts(ALERTS)
        self.assertEqual(len(found), ALERTS.count("- alert: "))
        self.assertEqual(found["CloakworkDown"], {
            "severity": "page", "summary": "No Cloakwork server answers", "runbook": "docs/runbooks/CloakworkDown.md"})

    def test_one_alert_is_left_out(self):
        left = rules.alerts(rules.without(ALERTS, "CloakworkWorkersFlap"))
        self.assertEqual(rules.alerts(ALERTS).keys() - left.keys(), {"CloakworkWorkersFlap"})
        with self.assertRaises(ValueError):
            rules.without(ALERTS, "CloakworkNothing")


if __name__ == "__main__":
    unittest.main()
