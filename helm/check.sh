#!/usr/bin/env bash
# Checks the Helm chart: lint, stored renders, schemas of Kubernetes and of operators, kube-score,
# and rules of our own over the rendered objects. Wrong values must be refused, and NOTES.txt must
# warn where it should. UPDATE=1 helm/check.sh writes the stored renders, the table of values, the
# settings in the schema, and the copies of rules and dashboards.
#
# helm and kube-score are built with Go, and kubernetes-validate comes from Python, into a cache
# outside the clone, once. If one of them is missing, the script fails where `CI` is `true`, and
# prints a loud message elsewhere.
set -euo pipefail
shopt -s extglob
cd "$(dirname "$0")"

helm_version=v3.22.0
score_version=v1.20.0
validate_version=1.37.0
kubernetes_versions=1.28,1.33,1.37
cache="${CLOAKWORK_CACHE:-$HOME/.cache/cloakwork}/helm"
tools="$cache/helm-$helm_version-score-$score_version"
venv="$cache/validate-$validate_version"

give_up() {
    if [ "${CI:-}" = true ]; then
        echo "$1: the Helm chart cannot be checked" >&2
        exit 1
    fi
    echo "*** SKIPPED: $1: the Helm chart was not checked ***" >&2
    exit 0
}

# Installs next to the target and renames, so that no other process finds a partial installation.
install_tools() {
    command -v go >/dev/null || give_up "Go is missing"
    mkdir -p "$cache"
    fresh=$(mktemp -d "$cache/fresh.XXXXXX")
    trap 'rm -rf "$fresh"' EXIT
    GOBIN="$fresh" CGO_ENABLED=0 go install "helm.sh/helm/v3/cmd/helm@$helm_version" || give_up "helm cannot be built"
    GOBIN="$fresh" CGO_ENABLED=0 go install "github.com/zegl/kube-score/cmd/kube-score@$score_version" ||
        give_up "kube-score cannot be built"
    mv -T "$fresh" "$tools" 2>/dev/null || [ -x "$tools/kube-score" ]
}

install_venv() {
    python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        give_up "Python 3.11 with venv is missing"
    mkdir -p "$cache"
    # A virtual environment holds its own path, and cannot be renamed. The last file marks it whole.
    python3 -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "kubernetes-validate==$validate_version" ||
        give_up "kubernetes-validate $validate_version cannot be installed"
    touch "$venv/whole"
}

[ -x "$tools/kube-score" ] || install_tools
[ -e "$venv/whole" ] || install_venv
export PATH="$tools:$venv/bin:$PATH" PYTHONDONTWRITEBYTECODE=1
if [ "${1:-}" = --tools ]; then
    # For the other scripts of this directory.
    echo "$tools:$venv/bin"
    exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work" "${fresh:-}"' EXIT
# A configuration of helm on this machine must not change the renders.
export HELM_CONFIG_HOME="$work/config" HELM_CACHE_HOME="$work/cache" HELM_DATA_HOME="$work/data"
failed=0
complain() {
    echo "$1" >&2
    failed=1
}

# Files of the repository that a packaged chart needs, and their copies in it.
copy() {
    local from="../$1" to="cloakwork/files/$2"
    if [ -n "${UPDATE:-}" ]; then
        rm -rf "$to"
        if compgen -G "$from" >/dev/null; then
            mkdir -p "$to"
            cp $from "$to/"
        fi
    fi
    for file in $from; do
        if [ -e "$file" ] && ! cmp -s "$file" "$to/$(basename "$file")"; then
            complain "helm/$to/$(basename "$file") is not a copy of ${file#../}: run UPDATE=1 helm/check.sh"
        fi
    done
    for file in "$to"/*; do
        if [ -e "$file" ] && [ ! -e "$(dirname "$from")/$(basename "$file")" ]; then
            complain "helm/$file has no original in $(dirname "${from#../}"): run UPDATE=1 helm/check.sh"
        fi
    done
}
copy 'deploy/prometheus/@(recording|alerts).yaml' rules
copy 'deploy/grafana/dashboards/*.json' dashboards

version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"$/\1/p' ../Cargo.toml)
grep -qx "appVersion: $version" cloakwork/Chart.yaml || complain "Chart.yaml: appVersion is not $version"
if [ -n "${UPDATE:-}" ]; then
    python3 tests/settings.py --update
    python3 tests/table.py --update
fi
python3 tests/settings.py || failed=1
python3 tests/table.py || failed=1

render() {
    helm template trial "$1" --namespace fhe --kube-version 1.33 --values "$2"
}

for values in tests/values/*.yaml; do
    name=$(basename "$values")
    helm lint --strict --quiet --kube-version 1.33 cloakwork --values "$values" >"$work/lint" 2>&1 ||
        complain "helm lint with $values: $(cat "$work/lint")"
    render cloakwork "$values" >"$work/$name" || { complain "helm template with $values"; continue; }
    if [ -n "${UPDATE:-}" ]; then
        cp "$work/$name" "tests/golden/$name"
    elif ! diff -u "tests/golden/$name" "$work/$name" >&2; then
        complain "tests/golden/$name differs: if the change is right, run UPDATE=1 helm/check.sh"
    fi
done
for stored in tests/golden/*.yaml; do
    [ -e "tests/values/$(basename "$stored")" ] || complain "$stored belongs to no file in tests/values"
done

# A chart with rules and dashboards of the test, because templates in them must stay as they are.
cp -r cloakwork "$work/chart"
rm -rf "$work/chart/files"
mkdir -p "$work/chart/files"
cp -r tests/files/. "$work/chart/files/"
more='  prometheusRule: {enabled: true, runbooks: "https://git.example/main"}\n  dashboards: {enabled: true}'
sed "s|^metrics:\$|&\\n$more|" tests/values/scaled.yaml >"$work/values"
render "$work/chart" "$work/values" >"$work/files.yaml" || complain "helm template with rules and dashboards"
# The rules and dashboards that ship.
render cloakwork "$work/values" >"$work/shipped.yaml" || complain "helm template with the rules that ship"
python3 tests/files.py "$work/files.yaml" || failed=1

python3 tests/validate.py "$kubernetes_versions" "$work"/*.yaml || failed=1
python3 tests/assertions.py "$work"/*.yaml || failed=1
python3 tests/score.py "$work"/*.yaml || failed=1
python3 tests/refused.py || failed=1
python3 tests/notes.py || failed=1

helm package --destination "$work/package" cloakwork >/dev/null || complain "helm package"
exit "$failed"
