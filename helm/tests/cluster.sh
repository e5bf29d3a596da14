#!/usr/bin/env bash
# Installs the chart with the control plane of Kubernetes, on loopback: an API server with its
# admission, controllers and the scheduler. No program of Cloakwork runs, because kwok takes the
# place of the kubelet and reports each pod as running. The charts of tests/values are installed
# in a namespace with the profile `restricted`, and one of them is upgraded and rolled back. The run
# takes up to ten minutes, mostly waits.
#
# Needs what helm/check.sh needs, etcd and OpenSSL. The programs of Kubernetes are built with Go
# into a cache outside the clone, once, which takes a quarter of an hour on one core. If a tool is
# missing, the script fails where `CI` is `true`, and prints a loud message elsewhere.
set -euo pipefail
cd "$(dirname "$0")"

kubernetes=1.36.3
kwok=0.8.0
programs="${CLOAKWORK_CACHE:-$HOME/.cache/cloakwork}/helm/kubernetes-$kubernetes-kwok-$kwok"

give_up() {
    if [ "${CI:-}" = true ]; then
        echo "$1: the chart cannot be installed" >&2
        exit 1
    fi
    echo "*** SKIPPED: $1: the chart was not installed with a control plane ***" >&2
    exit 0
}

paths=$(../check.sh --tools)
[ -n "$paths" ] || give_up "a tool of helm/check.sh is missing"
for tool in go etcd openssl; do
    command -v "$tool" >/dev/null || give_up "$tool is missing"
done

work=$(mktemp -d)
started=()
cleanup() {
    # Without its store, the API server would wait for a minute to end in order.
    for process in "${started[@]}"; do
        kill -9 "$process" 2>/dev/null && wait "$process" 2>/dev/null || true
    done
    rm -rf "$work" "${fresh:-}"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The modules of Kubernetes name each other by directories of its repository. As a dependency, each
# module of the same release takes the place of its directory.
build() {
    mkdir -p "$(dirname "$programs")"
    fresh=$(mktemp -d "$(dirname "$programs")/fresh.XXXXXX")
    local modules="api apiextensions-apiserver apimachinery apiserver cli-runtime client-go cloud-provider
        cluster-bootstrap code-generator component-base component-helpers controller-manager cri-api cri-client
        cri-streaming csi-translation-lib dynamic-resource-allocation endpointslice externaljwt kms kube-aggregator
        kube-controller-manager kube-proxy kube-scheduler kubectl kubelet metrics mount-utils pod-security-admission
        sample-apiserver sample-cli-plugin sample-controller streaming"
    {
        printf 'module cluster\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v%s\n' "$kubernetes"
        for module in $modules; do
            echo "replace k8s.io/$module => k8s.io/$module v0.${kubernetes#*.}"
        done
    } >"$work/go.mod"
    local version=k8s.io/component-base/version
    (
        cd "$work"
        export CGO_ENABLED=0
        # helm compares the version of the server with that of the chart.
        go build -mod=mod -o "$fresh/" \
            -ldflags "-X $version.gitVersion=v$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=${kubernetes:2:2}" \
            k8s.io/kubernetes/cmd/{kube-apiserver,kube-controller-manager,kube-scheduler,kubectl}
        GOBIN="$fresh" go install "sigs.k8s.io/kwok/cmd/kwok@v$kwok"
    ) || give_up "Kubernetes $kubernetes cannot be built"
    # The stages say how pods, nodes and volumes behave.
    cp -r "$(go env GOMODCACHE)/sigs.k8s.io/kwok@v$kwok/kustomize/stage" "$fresh/stages"
    chmod -R u+w "$fresh/stages"
    mv -T "$fresh" "$programs" 2>/dev/null || [ -x "$programs/kwok" ]
}
[ -x "$programs/kwok" ] || build

export PATH="$programs:$paths:$PATH" KUBECONFIG="$work/kubeconfig"
export HELM_CONFIG_HOME="$work/helm/config" HELM_CACHE_HOME="$work/helm/cache" HELM_DATA_HOME="$work/helm/data"
# The etcd of Debian 12 does not report the progress of a watch, which this feature needs.
export KUBE_FEATURE_WatchListClient=false

# Ports that are free now.
read -r api store peers < <(python3 -c '
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*(it.getsockname()[1] for it in sockets))')

start() {
    "$@" >"$work/$(basename "$1").log" 2>&1 &
    started+=($!)
}

fail() {
    echo "$1" >&2
    kubectl --namespace fhe get pods,events >&2 || true
    exit 1
}

openssl genrsa -out "$work/accounts.key" 2048 2>/dev/null
openssl rsa -in "$work/accounts.key" -pubout -out "$work/accounts.pub" 2>/dev/null
token=$(openssl rand -hex 16)
echo "$token,admin,admin,system:masters" >"$work/tokens"
cat >"$KUBECONFIG" <<CONFIG
apiVersion: v1
kind: Config
clusters: [{name: trial, cluster: {server: "https://127.0.0.1:$api", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: $token}}]
contexts: [{name: trial, context: {cluster: trial, user: admin}}]
current-context: trial
CONFIG

start etcd --data-dir "$work/etcd" --listen-client-urls "http://127.0.0.1:$store" \
    --advertise-client-urls "http://127.0.0.1:$store" --listen-peer-urls "http://127.0.0.1:$peers"
start kube-apiserver --etcd-servers "http://127.0.0.1:$store" --bind-address 127.0.0.1 --secure-port "$api" \
    --cert-dir "$work/certs" --token-auth-file "$work/tokens" --authorization-mode RBAC \
    --service-account-issuer https://trial --service-account-signing-key-file "$work/accounts.key" \
    --service-account-key-file "$work/accounts.pub" --service-cluster-ip-range 10.96.0.0/16 \
    --endpoint-reconciler-type none
for _ in $(seq 240); do
    kubectl get --raw /readyz >/dev/null 2>&1 && break
    sleep 0.5
done
kubectl get --raw /readyz >/dev/null || fail "the API server is not ready: $(tail -n 5 "$work/kube-apiserver.log")"
# No kubelet reports for the nodes, so their silence must not count.
start kube-controller-manager --kubeconfig "$KUBECONFIG" --leader-elect=false --secure-port 0 \
    --service-account-private-key-file "$work/accounts.key" --node-monitor-grace-period 24h
start kube-scheduler --kubeconfig "$KUBECONFIG" --leader-elect=false --secure-port 0
stages=()
for stage in "$programs"/stages/{node,pod,volume}/fast/*.yaml; do
    [ "$(basename "$stage")" = kustomization.yaml ] || stages+=(--config "$stage")
done
start kwok --kubeconfig "$KUBECONFIG" --manage-all-nodes "${stages[@]}"

# Objects that a cluster has: nodes, of which one has GPUs, a RuntimeClass, the kinds of KEDA and of
# the Prometheus operator, and a namespace with the strictest profile.
python3 cluster_objects.py >"$work/objects.yaml"
kubectl apply --filename "$work/objects.yaml" >/dev/null
kubectl wait --for=condition=Ready nodes --all --timeout 60s >/dev/null || fail "no nodes"
kubectl wait --for=condition=Established crds --all --timeout 60s >/dev/null || fail "no kinds of operators"
echo "Kubernetes $kubernetes is ready"

# Warnings of the API server, such as those of the profile, fail as well.
run_helm() {
    helm "$@" --namespace fhe >"$work/out" 2>&1 || fail "helm $*: $(cat "$work/out")"
    ! grep -i '^W.*warning\|^Warning' "$work/out" || fail "helm $*: warnings"
}
processors() {
    kubectl --namespace fhe get statefulset trial-cloakwork-server \
        --output 'jsonpath={.spec.template.spec.containers[0].resources.limits.cpu}'
}

# The namespace refuses what the profile forbids.
open='[{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "open"},
    "spec": {"hostNetwork": true, "containers": [{"name": "open", "image": "open:1"}]}}]'
! helm install trial ../cloakwork --namespace fhe --set-json "extraObjects=$open" >"$work/out" 2>&1 ||
    fail "the namespace accepts a pod in the network of its node"
grep -q 'violates PodSecurity' "$work/out" || fail "a pod in the network of its node: $(cat "$work/out")"
run_helm uninstall trial --wait --timeout 180s

for values in values/*.yaml; do
    more=()
    # No load balancer gives the Service an address, and helm would wait for it.
    ! grep -q 'type: LoadBalancer' "$values" || more=(--set service.type=NodePort)
    run_helm install trial ../cloakwork --values "$values" "${more[@]}" --wait --timeout 180s
    pods=$(kubectl --namespace fhe get pods --field-selector status.phase=Running --output name | wc -l)
    echo "$(basename "$values"): installed, with $pods pods"
    if [ "$(basename "$values")" = scaled.yaml ]; then
        before=$(processors)
        run_helm upgrade trial ../cloakwork --values "$values" --set server.cpu=3 --wait --timeout 300s
        [ "$(processors)" = 3 ] || fail "the upgrade changed nothing"
        run_helm rollback trial 1 --wait --timeout 300s
        [ "$(processors)" = "$before" ] || fail "the rollback changed nothing"
        echo "  upgraded and rolled back"
        kubectl --namespace fhe wait --for=jsonpath='{.status.disruptionsAllowed}'=1 --timeout 60s \
            poddisruptionbudget/trial-cloakwork-server >/dev/null || fail "the budget does not spare one of three servers"
        echo "  the budget lets one of three servers go"
    fi
    run_helm uninstall trial --wait --timeout 180s
    kubectl --namespace fhe wait --for=delete pods --all --timeout 180s >/dev/null || fail "pods stay"
    left=$(kubectl --namespace fhe get all,networkpolicies,poddisruptionbudgets,scaledobjects --output name)
    [ -z "$left" ] || fail "$(basename "$values"): left after the release: $left"
    kubectl --namespace fhe delete persistentvolumeclaims --all >/dev/null
done
