#!/usr/bin/env bash
# Builds the image without a daemon or a registry, and runs it: an empty base, a number for a user, a
# health command, an end in order. `just image` calls it; the release build takes minutes, so the
# check run does not.
#
#   tests/image.sh [STATIC_PROGRAM]
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/said.sh

for tool in buildah curl python3 strip pgrep; do
    command -v "$tool" >/dev/null || {
        echo "$tool is missing. Debian: apt-get install buildah curl python3 binutils procps" >&2
        exit 1
    }
done
case $(uname -m) in
    x86_64) platform=linux/amd64 ;;
    aarch64) platform=linux/arm64 ;;
    *) echo "no platform name for $(uname -m)" >&2; exit 1 ;;
esac

# musl where its target and compiler are installed, otherwise glibc's own static archive. Both find
# names in an empty root, from /etc/hosts and by DNS: no plug-ins are needed for these.
static_program() {
    target=$(uname -m)-unknown-linux-musl
    if rustup target list --installed | grep -qx "$target" && command -v musl-gcc >/dev/null; then
        cargo build --release --locked --bin tidegate --target "$target"
    else
        target=$(uname -m)-unknown-linux-gnu
        RUSTFLAGS="-C target-feature=+crt-static" \
            cargo build --release --locked --bin tidegate --target "$target"
    fi
    program=${CARGO_TARGET_DIR:-target}/$target/release/tidegate
}
if [ $# -gt 0 ]; then program=$1; else static_program; fi

work=$(mktemp -d)
store=(--storage-driver vfs --root "$work/root" --runroot "$work/run")
pids=()
cleanup() {
    status=$?
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    [ "$status" = 0 ] || cat "$work"/*.log >&2
    buildah "${store[@]}" rm --all >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap cleanup EXIT

# A context with only what the image is made of.
mkdir -p "$work/context/dist/$platform"
cp -r docker "$work/context/docker"
strip --strip-debug -o "$work/context/dist/$platform/tidegate" "$program"
chmod 0755 "$work/context/dist/$platform/tidegate"
# Docker's format, because the other has no place for a health check.
buildah "${store[@]}" bud --isolation chroot --format docker --build-arg FROM_STAGE=prebuilt \
    --build-arg "TARGETPLATFORM=$platform" --build-arg REVISION=checked \
    -t tidegate -f docker/Dockerfile "$work/context" >"$work/build.log" 2>&1

container=$(buildah "${store[@]}" from localhost/tidegate)
files=$(cd "$(buildah "${store[@]}" mount "$container")" && find . -type f | sort | tr '\n' ' ')
[ "$files" = "./run/tidegate/.keep ./usr/bin/tidegate ./var/lib/tidegate/.keep " ] || {
    echo "the image is not empty but for tidegate: $files" >&2
    exit 1
}
buildah "${store[@]}" inspect --type image localhost/tidegate | python3 -c '
import json, sys
config = json.load(sys.stdin)["Docker"]["config"]
assert config["User"] == "65532:65532", config
assert config["Healthcheck"]["Test"] == ["CMD", "/usr/bin/tidegate", "health"], config
assert config["Labels"]["org.opencontainers.image.revision"] == "checked", config
assert set(config["ExposedPorts"]) == {"40000/udp", "9477/tcp"}, config'

run() { buildah "${store[@]}" run --isolation chroot "$container" -- /usr/bin/tidegate "$@"; }
python3 tests/prometheus_scene.py backend >"$work/backend.log" 2>&1 &
pids+=($!)
backend=$(said "$work/backend.log" '^(127.*)')
run serve --listen yojimbo://127.0.0.1:0 --backend "tcp://$backend" \
    --admin 127.0.0.1:0 >"$work/serve.log" 2>&1 &
container_run=$!
pids+=("$container_run")
udp=$(said "$work/serve.log" '"listening".*"address":"([^"]+)"')
admin=$(said "$work/serve.log" '"admin","listen":"([^"]+)"')
curl --silent --show-error --fail --retry 100 --retry-all-errors --retry-delay 0 --retry-max-time 30 \
    "http://$admin/readyz" >/dev/null
run health --admin "$admin" >/dev/null
run health --ready --admin "$admin" >/dev/null
if run health --admin "$udp" 2>/dev/null; then
    echo "health says yes where nobody is" >&2
    exit 1
fi

# The last of the descendants is tidegate itself.
pid=$container_run
while child=$(pgrep -P "$pid" | head -n 1) && [ -n "$child" ]; do pid=$child; done
grep -q "^Uid:	65532	65532" "/proc/$pid/status" || {
    grep Uid "/proc/$pid/status" >&2
    exit 1
}
kill -TERM "$pid"
wait "$container_run" || {
    echo "SIGTERM ended it with $?" >&2
    exit 1
}
size=$(($(stat -c %s "$work/context/dist/$platform/tidegate") >> 20))
echo "the image: $size MiB, uid 65532, healthy, ready, ended in order"
