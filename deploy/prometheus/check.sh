#!/usr/bin/env bash
# Checks the rules of Prometheus, their tests, the example configurations, and the expressions in
# docs/runbooks. Each alert needs a test in which it fires, and one in which it does not.
#
# Needs promtool and amtool, from the packages prometheus and prometheus-alertmanager. If either is
# missing, the script fails where `CI` is `true`, and prints a loud message elsewhere.
set -euo pipefail
cd "$(dirname "$0")"

give_up() {
    if [ "${CI:-}" = true ]; then
        echo "$1: the alerts cannot be checked" >&2
        exit 1
    fi
    echo "*** SKIPPED: $1: the alerts were not checked ***" >&2
    exit 0
}

fail() {
    echo "$1" >&2
    exit 1
}

# Prints the names of alerts that the tests expect to fire, or not to fire. A test names its alert
# before it lists what is expected.
tested() {
    awk -v wanted="$1" '
        $1 == "alertname:" { alert = $2 }
        $1 == "exp_alerts:" && (($2 == "[]") == (wanted == "silent")) { print alert }
    ' tests/*.yaml | sort -u
}

# Prints a rule for each expression in the runbooks, so that promtool can check them.
expressions() {
    echo "groups: [{name: runbooks, rules: ["
    awk '
        FNR == 1 { inside = 0 }
        /^```/ { inside = ($0 == "```promql"); next }
        inside && NF {
            gsub(/\047/, "\047\047")
            printf "{record: expression_%d, expr: \047%s\047},\n", ++count, $0
        }
        END { if (count < 40) exit 1 }
    ' ../../docs/runbooks/*.md || return 1
    echo "]}]"
}

alerts=$(sed -n 's/^ *- alert: //p' alerts.yaml | sort)
[ -n "$alerts" ] || fail "alerts.yaml has no alerts"
repeated=$(uniq -d <<<"$alerts")
[ -z "$repeated" ] || fail "defined twice: $repeated"
for outcome in fires silent; do
    if ! differences=$(diff <(echo "$alerts") <(tested "$outcome")); then
        fail "alerts of alerts.yaml (<) and of tests with the outcome '$outcome' (>) differ:"$'\n'"$differences"
    fi
done

for tool in promtool amtool; do
    command -v "$tool" >/dev/null || give_up "$tool is missing"
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

expressions >"$scratch/runbooks.yaml" || fail "the expressions of docs/runbooks were not found"
# The tools are quiet unless a check fails.
quietly() {
    "$@" >"$scratch/output" 2>&1 || fail "$* failed:"$'\n'"$(cat "$scratch/output")"
}
quietly promtool check rules --lint=all --lint-fatal recording.yaml alerts.yaml "$scratch/runbooks.yaml"
quietly promtool check config --lint=all --lint-fatal prometheus.yml
# One process for each file: the tests take most of the time.
quietly xargs -n 1 -P "$(nproc)" promtool test rules < <(printf '%s\n' tests/*.yaml)
quietly amtool check-config alertmanager.yml
echo "$(wc -l <<<"$alerts") alerts checked"
