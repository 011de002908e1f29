#!/usr/bin/env bash
# A systemd of its own boots over a copy of this system that vanishes, and the unit has a bad night there:
# systemd_night.sh. tests/systemd.sh calls it. Where nothing can be booted it is left out.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/skip.sh

# In a mount namespace of its own, so that everything goes with it.
if [ "${1:-}" != inside ]; then
    command -v systemd-nspawn >/dev/null || {
        echo "systemd-nspawn is missing. Debian: apt-get install systemd-container" >&2
        exit 1
    }
    cargo build --quiet --bin tidegate
    TIDEGATE=$(realpath "${CARGO_TARGET_DIR:-target}/debug/tidegate")
    export TIDEGATE
    unshare --mount true 2>/dev/null || {
        skip "tests/systemd_boot.sh: no mount namespaces here (needs root)"
    }
    exec unshare --mount "$0" inside
fi

work=$(mktemp -d)
trap 'umount --recursive --lazy "$work"; rmdir "$work"' EXIT
mount -t tmpfs tmpfs "$work"
mkdir "$work/changes" "$work/spare" "$work/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/changes,workdir=$work/spare" "$work/root" || {
    skip "tests/systemd_boot.sh: this system's files cannot be overlaid"
}
root=$work/root

# Of what this machine starts, nothing.
rm -rf "$root"/etc/systemd/system/* "$root/etc/machine-id"
# Empty, not absent: a first boot would turn on whatever the system's makers recommend.
: >"$root/etc/machine-id"
install -m 755 "$TIDEGATE" "$root/usr/bin/tidegate"
install -m 644 systemd/tidegate.service "$root/etc/systemd/system/"
install -m 755 tests/systemd_night.sh "$root/usr/bin/night"
cat >"$root/etc/systemd/system/night.service" <<'END'
[Unit]
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
ExecStart=/usr/bin/night
TimeoutStartSec=500
StandardOutput=file:/night.log
StandardError=file:/night.log
END

export SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1
code=0
timeout --kill-after=10 600 systemd-nspawn --quiet --register=no --keep-unit --private-network --link-journal=no \
    --console=pipe --machine="night$$" --directory="$root" --boot -- systemd.unit=night.service \
    </dev/null >"$work/console" 2>&1 || code=$?
if [ ! -s "$root/night.log" ]; then
    tail -n 5 "$work/console"
    skip "tests/systemd_boot.sh: no systemd can be booted here"
fi
tail -n 60 "$root/night.log"
exit "$code"
