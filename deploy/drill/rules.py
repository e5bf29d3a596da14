"""The rules of deploy/prometheus with all times divided by one factor.

A drill of minutes cannot wait for a window of six hours. So `for:`, `interval:`, the windows in
brackets and the offsets are divided by the factor, and nothing else of an expression changes. Some
numbers in the expressions are times too: TIMES lists them, and they are divided as well. The names
of recorded series keep the times of the original, such as `cloakwork:calls:rate1h`.
"""

import re

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

# Numbers in alerts.yaml that are times in seconds: the text, how often it occurs, and the number in
# it. Thresholds are not divided: the drill really brings them about.
TIMES = [
    ("rate1h * 3600 >=", 2, 3600),
    ("rate6h * 21600 >=", 2, 21600),
    ("rate3d * 259200 >=", 2, 259200),
    ("24 * 3600) <", 1, 3600),
    (" 4 * 3600) <", 1, 3600),
    ("cloakwork_job_oldest_queued_seconds) > 600", 1, 600),
    ("cloakwork_job_oldest_queued_seconds) > 3600", 1, 3600),
]

DURATION = r"(\d+)([smhd])"
PLACES = [
    rf"(?m)(?<=^        for: ){DURATION}$",
    rf"(?m)(?<=^    interval: ){DURATION}$",
    rf"(?<=\[){DURATION}(?=\])",
    rf"(?<=\boffset ){DURATION}\b",
]


def seconds(duration):
    """The seconds of a duration such as `15m`."""
    number, unit = re.fullmatch(DURATION, duration).groups()
    return int(number) * UNITS[unit]


def divided(duration, factor):
    """A duration that is shorter by the factor, in milliseconds."""
    return f"{max(1, round(seconds(duration) * 1000 / factor))}ms"


def shortened(rules, factor):
    """The text of a file of rules with all durations divided by the factor."""
    for place in PLACES:
        rules = re.sub(place, lambda found: divided(found.group(), factor), rules)
    return rules


def shortened_alerts(rules, factor):
    """The text of alerts.yaml with all times divided by the factor, those of TIMES included."""
    rules = shortened(rules, factor)
    for text, count, number in TIMES:
        if rules.count(text) != count:
            raise ValueError(f"alerts.yaml has '{text}' {rules.count(text)} times, and not {count} times")
        rules = rules.replace(text, text.replace(str(number), f"{number / factor:g}"))
    return rules


def shortened_routes(text, factor):
    """The text of alertmanager.yml with the waits of its routes divided by the factor."""
    place = rf"(?m)(?<=(?:_wait|erval): ){DURATION}$"
    return re.sub(place, lambda found: divided(found.group(), factor), text)


def alerts(rules):
    """The alerts of alerts.yaml by name, each with `severity`, `summary` and `runbook`."""
    found = {}
    for block in re.split(r"(?m)^      - alert: ", rules)[1:]:
        name = block.split("\n", 1)[0].strip()
        field = lambda key: re.search(rf"(?m)^ +{key}: (.*)$", block).group(1).strip("'")
        found[name] = {key: field(key) for key in ("severity", "summary", "runbook")}
    return found


def without(rules, alert):
    """The text of alerts.yaml without one alert."""
    text, count = re.subn(rf"(?ms)^      - alert: {alert}\n.*?(?=^      [-#]|^  -|\Z)", "", rules)
    if count != 1:
        raise ValueError(f"alerts.yaml has no alert {alert}")
    return text
