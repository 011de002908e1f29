#!/usr/bin/env bash
# The unit is well-formed and keeps its distance from the machine; then it is run, in systemd_boot.sh. `just
# operate` and the check run call it.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v systemd-analyze >/dev/null || {
    echo "systemd-analyze is missing. Debian: apt-get install systemd" >&2
    exit 1
}

# In tenths: 1.2 of 10.
systemd-analyze security --offline=true --threshold=12 --no-pager systemd/tidegate.service | tail -n 1

others=$(grep -E '^Exec[A-Za-z]*=' systemd/tidegate.service | grep -v '=/usr/bin/tidegate ' || true)
[ -z "$others" ] || {
    echo "needs more than tidegate: $others" >&2
    exit 1
}

# verify wants the programs to exist, so it looks at a copy that names one that does.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed 's|/usr/bin/tidegate|/bin/true|' systemd/tidegate.service >"$work/tidegate.service"
problems=$(systemd-analyze verify --man=no "$work/tidegate.service" 2>&1 | grep -F tidegate.service || true)
[ -z "$problems" ] || {
    echo "$problems" >&2
    exit 1
}

tests/systemd_boot.sh
