#!/usr/bin/env bash
# Metrics, alerts and dashboard against a real Prometheus and a tidegate at work. Not part of
# `cargo test`, which must work on a machine with only Rust and a C compiler; `just operate` and the
# check run call it. About a minute; each wait is bounded.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/said.sh

for tool in promtool prometheus curl python3; do
    command -v "$tool" >/dev/null || {
        echo "$tool is missing. Debian: apt-get install prometheus curl python3" >&2
        exit 1
    }
done

promtool check rules grafana/alerts.yaml
promtool test rules grafana/alerts_test.yaml
panels=$(mktemp)
python3 tests/prometheus_panels.py grafana/dashboard.json >"$panels"
promtool test rules "$panels"
rm "$panels"

cargo build --quiet --bin tidegate
tidegate=${CARGO_TARGET_DIR:-target}/debug/tidegate

work=$(mktemp -d)
pids=()
cleanup() {
    status=$?
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    [ "$status" = 0 ] || tail -n 5 "$work"/*.log | cut -c1-300 >&2
    rm -rf "$work"
}
trap cleanup EXIT

"$tidegate" demo --players 60 --rate 10 --for 900s --admin 127.0.0.1:0 >"$work/demo.log" 2>&1 &
pids+=($!)

python3 tests/prometheus_scene.py backend >"$work/backend.log" 2>&1 &
backend_pid=$!
pids+=("$backend_pid")
backend=$(said "$work/backend.log" '^(127.*)')
"$tidegate" keygen --out "$work/netcode.key" >/dev/null
"$tidegate" serve --listen yojimbo://127.0.0.1:0 --backend "tcp://$backend" \
    --key "$work/netcode.key" --admin 127.0.0.1:0 >"$work/serve.log" 2>&1 &
pids+=($!)
udp=$(said "$work/serve.log" '"listening".*"address":"([^"]+)"')
"$tidegate" connect --listen tcp://127.0.0.1:0 --remote "yojimbo://$udp" \
    --key "$work/netcode.key" --admin "" >"$work/connect.log" 2>&1 &
pids+=($!)
tunnel=$(said "$work/connect.log" '"listening".*"address":"([^"]+)"')
python3 tests/prometheus_scene.py callers "$tunnel" "$udp" >"$work/callers.log" 2>&1 &
pids+=($!)

demo_admin=$(said "$work/demo.log" 'http://([^/]+)/')
serve_admin=$(said "$work/serve.log" '"admin","listen":"([^"]+)"')
for admin in "$demo_admin" "$serve_admin"; do
    curl --silent --show-error --fail --max-time 10 "http://$admin/metrics" | promtool check metrics
done

sed -e "s/\"tidegate:9477\"/\"$demo_admin\", \"$serve_admin\"/" \
    -e 's/_interval: 5s/_interval: 1s/' \
    -e "s|alerts.yaml|$PWD/grafana/alerts.yaml|" grafana/prometheus.yaml >"$work/prometheus.yaml"
promtool check config "$work/prometheus.yaml"
prometheus --config.file="$work/prometheus.yaml" --storage.tsdb.path="$work/data" \
    --web.listen-address=127.0.0.1:0 2>"$work/prometheus.log" &
pids+=($!)
prometheus=$(said "$work/prometheus.log" 'Listening on" address=(.*)')

python3 tests/prometheus_queries.py "$prometheus" grafana/dashboard.json healthy
kill "$backend_pid"
python3 tests/prometheus_queries.py "$prometheus" grafana/dashboard.json no-backend
