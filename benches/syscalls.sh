#!/usr/bin/env bash
# System calls that `tidegate serve` makes for a relayed message: 300 peers, 30 Hz, 64 B, for some seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v strace >/dev/null || { echo "needs strace" >&2; exit 1; }
cargo bench --quiet --bench relay --no-run
table=$(mktemp)
said=$(mktemp)
trap 'rm -f "$table" "$said"' EXIT
cargo bench --quiet --bench relay -- --only tidegate --peers 300 --seconds 12 >/dev/null 2>"$said" &
bench=$!
sleep 6
# Its own: another tidegate may run on this machine.
server=$(sed -n 's/^tidegate serve: process //p' "$said")
[ -n "$server" ] || { cat "$said" >&2; exit 1; }
timeout -s INT 5 strace -f -c -U calls,name -o "$table" -p "$server" 2>/dev/null || true
wait "$bench"
# Each message to a backend is one write; as many come back.
awk '
    $2 ~ /^[a-z_0-9]+$/ && $1 ~ /^[0-9]+$/ { calls[$2] = $1; if ($2 != "total") sum += $1 }
    END {
        messages = 2 * calls["sendto"]
        if (!messages) { print "no message was relayed" > "/dev/stderr"; exit 1 }
        print "| call | per relayed message |"
        print "|---|---|"
        for (name in calls) if (name != "total" && calls[name] / messages >= 0.0005)
            printf "| %s | %.3f |\n", name, calls[name] / messages
        printf "| all | %.3f |\n", sum / messages
    }' "$table"
