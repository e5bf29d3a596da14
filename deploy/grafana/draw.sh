#!/usr/bin/env bash
# Draws the boards from the answers of a Prometheus, one picture for each board:
# `draw.sh [PROMETHEUS [MINUTES [DIRECTORY]]]`. Without arguments, the script draws the last ten
# minutes of the Prometheus on this machine into ./boards.
#
# Needs what run.sh needs, and Chromium.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
prometheus=${1:-http://127.0.0.1:9090}
minutes=${2:-10}
directory=${3:-boards}

chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$chromium" ]; then
    echo "Chromium is missing" >&2
    exit 1
fi
mkdir -p "$directory"
# The distance of scrapes in seconds, as in deploy/prometheus/prometheus.yml.
scrape=15
end=$(date +%s)
"$here/run.sh" pictures/main "$prometheus" $((end - minutes * 60)) "$end" "$scrape" "$here/dashboards" "$directory" "$chromium"
echo "pictures of the boards are in $directory"
