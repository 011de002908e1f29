#!/usr/bin/env bash
# The page in a real browser, over a demo under load. `just operate` and the check run call it.
set -euo pipefail
cd "$(dirname "$0")/.."

for tool in chromium chromedriver python3; do
    command -v "$tool" >/dev/null || {
        echo "$tool is missing. Debian: apt-get install chromium chromium-driver python3" >&2
        exit 1
    }
done

cargo build --quiet --bin tidegate
exec python3 tests/page.py "${CARGO_TARGET_DIR:-target}/debug/tidegate" "$@"
