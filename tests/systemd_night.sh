#!/usr/bin/env bash
# What happens to the unit in a bad night, and what the operator sees of it. Runs in the container that
# systemd_boot.sh boots; the unit and the program are there.
set -euo pipefail

say() { printf '%s\n' "$*"; }
fail() {
    say "FAILED: $*"
    journalctl --unit=tidegate --no-pager --lines=40 --output=short-precise
    exit 1
}
# Until it is so, or for 60 s.
await() {
    for _ in $(seq 600); do
        "$@" && return
        sleep 0.1
    done
    fail "never: $*"
}
is() { [ "$(systemctl show tidegate --property="$1" --value)" = "$2" ]; }
expect() { is "$1" "$2" || fail "$1 is not $2 but $(systemctl show tidegate --property="$1" --value)"; }
is_beyond() { [ "$(systemctl show tidegate --property="$1" --value)" -gt "$2" ]; }
is_another() { ! is MainPID "$1" && ! is MainPID 0; }
logged() { journalctl --unit=tidegate --output=cat "${@:2}" | grep --quiet --fixed-strings -- "$1"; }
players() { # when, and with tokens of which key
    tidegate load --remote yojimbo://127.0.0.1:40000 --key "/etc/tidegate/${2:-netcode.key}" \
        --clients 5 --for 1s --connect-timeout 30s >/tmp/players 2>&1 || {
        cat /tmp/players
        fail "players are not served: $1"
    }
}

say "installed as the unit says"
cd /etc && mkdir tidegate && cd tidegate
tidegate keygen --out netcode.key
tidegate keygen --out next.key
# What `tidegate load` issues; one target that nobody is behind.
tidegate init yojimbo | sed '/^channel_byte/d; /^proxy_protocol/d; s/= "45s"/= "30s"/
    s|^bind .*|bind = ["127.0.0.1:40000"]|; s|^public_addresses.*|public_addresses = ["127.0.0.1:40000"]|
    s|^targets .*|targets = ["tcp://127.0.0.1:7000", "tcp://127.0.0.1:1"]|' >tidegate.toml
cp tidegate.toml good.toml
tidegate load --echo 127.0.0.1:7000 >/dev/null & echo=$!
systemctl enable --quiet --now tidegate
expect ActiveState active
players "after the start"
tidegate ctl stats | grep --quiet 'serving' || fail "ctl does not find it"

say "the journal knows what is bad"
await logged target_down --priority=warning
logged session_start --priority=warning && fail "everything is a warning"

say "a reload"
sed -i 's/= "30s"/= "31s"/' tidegate.toml
systemctl reload tidegate
logged max_token_lifetime || fail "the reload did not say what it changed"
sed -i 's/= "31s"/= "30s"/' tidegate.toml
systemctl reload tidegate

say "another key, by reloads alone"
hit=$(systemctl show tidegate --property=MainPID --value)
sed -i 's/^key_file .*/&\nprevious_key_files = ["next.key"]/' tidegate.toml
systemctl reload tidegate
players "while both keys are good"
players "while both keys are good" next.key
sed -i '/^previous_key_files/d; s/^key_file .*/key_file = "next.key"/' tidegate.toml
systemctl reload tidegate
players "under the next key" next.key
tidegate load --remote yojimbo://127.0.0.1:40000 --key netcode.key --clients 1 --for 1s \
    --connect-timeout 2s >/dev/null 2>&1 && fail "the old key is still good"
expect MainPID "$hit"
cp good.toml tidegate.toml
systemctl reload tidegate

say "a reload with a mistake"
echo 'typo = 1' >tidegate.toml
! systemctl reload tidegate 2>/dev/null || fail "it was taken"
logged reload_refused --priority=err || fail "the journal does not say so"
players "after a refused reload"

say "a restart with a mistake: once, not for ever"
! systemctl restart tidegate 2>/dev/null || fail "it was taken"
expect SubState failed
expect ExecMainStatus 78
expect NRestarts 0
logged 'unknown key `typo`' --priority=err || fail "the journal does not say which"

say "no key"
cp good.toml tidegate.toml
mv netcode.key away.key
! systemctl start tidegate 2>/dev/null || fail "it started"
expect SubState failed
expect ExecMainStatus 78
logged 'tidegate keygen --out /etc/tidegate/netcode.key' --priority=err || fail "the journal does not say what to do"
mv away.key netcode.key

say "a port that another program has for a while"
tidegate serve --listen gaffer://127.0.0.1:40000 --backend tcp://127.0.0.1:7000 --admin "" 2>/tmp/other & other=$!
await grep --quiet listening /tmp/other
! systemctl start tidegate 2>/dev/null || fail "it started"
# Beyond what systemd would allow by itself.
await is_beyond NRestarts 6
logged 'status=69' || fail "another exit code"
kill "$other"
await is ActiveState active
players "after the port was free"

say "a restart: who was there is remembered"
systemctl restart tidegate
logged '"found":"complete"' || fail "the file of used tokens went with the old process"
players "after a restart"

say "an upgrade: whoever plays may finish"
# Those before are gone from the figures too, which are published four times a second.
await eval 'tidegate ctl stats | grep -qx "peers  *0"'
tidegate load --remote yojimbo://127.0.0.1:40000 --key netcode.key --clients 1 --for 3s >/tmp/playing 2>&1 & playing=$!
await eval '! tidegate ctl stats | grep -qx "peers  *0"'
tidegate ctl drain
until tidegate ctl stats | grep -qx 'peers  *0'; do sleep 0.1; done
wait "$playing" || { cat /tmp/playing; fail "somebody was sent home"; }
systemctl restart tidegate
players "after an upgrade"

for signal in KILL STOP; do
    say "SIG$signal"
    hit=$(systemctl show tidegate --property=MainPID --value)
    kill -$signal "$hit"
    await is_another "$hit"
    await is ActiveState active
    players "after SIG$signal"
done
logged 'Watchdog timeout' || fail "it was not the watchdog"

say "a stop"
systemctl stop tidegate
expect ActiveState inactive
expect Result success
kill "$echo"
say "passed"
