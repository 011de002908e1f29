#!/usr/bin/env bash
# Metrics, alerts and dashboard against a real Prometheus. Not part of `cargo test`, which must work
# on a machine with only Rust and a C compiler; `just prometheus` and the check run call it.
set -euo pipefail
cd "$(dirname "$0")/.."

for tool in promtool prometheus curl python3; do
    command -v "$tool" >/dev/null || {
        echo "$tool is missing. Debian: apt-get install prometheus curl python3" >&2
        exit 1
    }
done

promtool check rules grafana/alerts.yaml
promtool test rules grafana/alerts_test.yaml

work=$(mktemp -d)
pids=()
cleanup() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# The page's example is an admin server with two listeners, a backend and made-up traffic.
cargo build --quiet --example page
admin=127.0.0.1:$(free_port)
"${CARGO_TARGET_DIR:-target}/debug/examples/page" "$admin" 2>"$work/page.log" &
pids+=($!)
curl --silent --fail --retry 50 --retry-connrefused --retry-delay 0 --retry-max-time 20 "http://$admin/metrics" >"$work/metrics"
promtool check metrics <"$work/metrics"

prometheus=127.0.0.1:$(free_port)
sed -e "s/tidegate:9477/$admin/" -e 's/_interval: 5s/_interval: 1s/' \
    -e "s|alerts.yaml|$PWD/grafana/alerts.yaml|" grafana/prometheus.yaml >"$work/prometheus.yaml"
promtool check config "$work/prometheus.yaml"
prometheus --config.file="$work/prometheus.yaml" --storage.tsdb.path="$work/data" \
    --web.listen-address="$prometheus" --log.level=warn 2>"$work/prometheus.log" &
pids+=($!)

python3 tests/prometheus_queries.py "$prometheus" grafana/dashboard.json
