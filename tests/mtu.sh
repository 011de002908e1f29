#!/usr/bin/env bash
# All three protocols over links of several MTUs, both families: everything arrives, and nothing is cut into IP
# fragments but the long messages of rudp, which know no other way. Then a link that shrinks under a transfer, and links
# of which no router says anything.
# The check run calls it. Needs to make network namespaces; where that is forbidden it is left out.
#
#   client (10.9.1.2) ── road, a router ── server (10.9.2.2)
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/skip.sh

# In namespaces of its own, so that everything ends with it, however it ends.
if [ "${1:-}" != inside ]; then
    cargo build --quiet --bin tidegate
    TIDEGATE=$(realpath "${CARGO_TARGET_DIR:-target}/debug/tidegate")
    export TIDEGATE
    own=(unshare --map-root-user --net --pid --fork --kill-child --mount-proc)
    "${own[@]}" sh -c 'ip link add left type veth peer name right && unshare --net true' 2>/dev/null || {
        skip "tests/mtu.sh: no network namespaces or veth pairs here (needs iproute2, util-linux and the right)"
    }
    exec "${own[@]}" "$0" inside
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unshare --net sleep 3600 & road=$!
unshare --net sleep 3600 & server=$!
until [ "$(readlink /proc/$road/ns/net)" != "$(readlink /proc/self/ns/net)" ] &&
    [ "$(readlink /proc/$server/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do :; done
on() { nsenter --target "$1" --net "${@:2}"; }

ip link add client type veth peer name west netns $road
on $road ip link add east type veth peer name server netns $server
interface() { # process, its name for the link, 1 or 2 for the network, host
    on "$1" ip link set lo up
    on "$1" ip link set "$2" up
    on "$1" ip address add "10.9.$3.$4/24" dev "$2"
    on "$1" ip address add "fd09:$3::$4/64" dev "$2" nodad
}
interface $$ client 1 2
interface $road west 1 1
interface $road east 2 1
interface $server server 2 2
on $road sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding'
for end in "$$ 1" "$server 2"; do
    read -r process network <<<"$end"
    on "$process" ip route add default via "10.9.$network.1"
    on "$process" ip -6 route add default via "fd09:$network::1"
done
west() { ip link set client mtu "$1" && on $road ip link set west mtu "$1"; }
east() { on $server ip link set server mtu "$1" && on $road ip link set east mtu "$1"; }
# What a router said is remembered for ten minutes otherwise.
forget() { for process in $$ $server; do on "$process" ip route flush cache; on "$process" ip -6 route flush cache; done; }
fragments() { # made so far, anywhere
    for process in $$ $road $server; do
        # nsenter keeps this /proc, whose net is the reader's own.
        on "$process" sh -c 'cat /proc/net/snmp /proc/net/snmp6'
    done | awk '/^Ip: [0-9]/ { sum += $20 } $1 == "Ip6FragCreates" { sum += $2 } END { print sum }'
}

"$TIDEGATE" keygen --out "$work/key" >/dev/null 2>&1
cat >"$work/tidegate.toml" <<END
version = 1
admin.listen = ""
admin.control_socket = ""
[listener.yojimbo]
protocol = "yojimbo"
bind = ["10.9.2.2:40001", "[fd09:2::2]:40001"]
backend = "echo"
netcode.key_file = "key"
[listener.gaffer]
protocol = "gaffer"
bind = ["10.9.2.2:40002", "[fd09:2::2]:40002"]
backend = "echo"
[listener.rudp]
protocol = "rudp"
bind = ["10.9.2.2:40003", "[fd09:2::2]:40003"]
backend = "echo"
[backend.echo]
targets = ["tcp://127.0.0.1:7000"]
framing = "u32be"
END
on $server "$TIDEGATE" load --echo 127.0.0.1:7000 >"$work/echo.log" 2>&1 &
on $server "$TIDEGATE" serve --config "$work/tidegate.toml" >"$work/serve.log" 2>&1 &
for _ in $(seq 600); do
    grep -qs '"address":"\[fd09:2::2\]:40003"' "$work/serve.log" && break
    sleep 0.1
done

load() { # protocol, port, host, more; every byte is checked
    local key=()
    [ "$1" = yojimbo ] && key=(--key "$work/key")
    timeout 150 "$TIDEGATE" load --remote "$1://$3:$2" "${key[@]}" --settle 60s "${@:4}" >"$work/load.log" 2>&1 || {
        echo "$1 to $3 with MTU $mtu: not everything came back" >&2
        tail -n 20 "$work/load.log" "$work/serve.log" >&2
        exit 1
    }
}
for mtu in 1500 1400 1280 9000; do
    west $mtu && east $mtu && forget
    before=$(fragments)
    for host in 10.9.2.2 '[fd09:2::2]'; do
        load yojimbo 40001 "$host" --clients 1 --window 100 --size 32-60000 --for 1s
        load yojimbo 40001 "$host" --clients 5 --rate 20 --size 32-7000 --for 1s
        load gaffer 40002 "$host" --clients 5 --rate 20 --size 32-7000 --for 1s
    done
    cut=$(($(fragments) - before))
    # Of some ten thousand datagrams: the server asks for the MTU of a family's path every 16 long ones, so that
    # many may be cut in two after a change.
    [ $cut -le 64 ] || { echo "MTU $mtu: $cut IP fragments" >&2; exit 1; }
    for host in 10.9.2.2 '[fd09:2::2]'; do
        load rudp 40003 "$host" --clients 5 --rate 20 --size 32-1468 --for 1s
    done
    echo "MTU $mtu: all arrives; IP fragments: $cut, and $(($(fragments) - before)) of rudp"
done
silence() { # add or del: routers say nothing of what they cannot pass on
    on $road ip rule "$1" iif lo prohibit pref 10
}
for host in 10.9.2.2 '[fd09:2::2]' silent; do
    mtu="1500, then 1300"
    to="to $host"
    [ "$host" = silent ] && silence add && host=10.9.2.2 && to="to $host behind silent routers"
    west 1500 && east 1500 && forget
    before=$(fragments)
    (sleep 1; east 1300) &
    load yojimbo 40001 "$host" --clients 1 --window 100 --size 32-60000 --for 4s
    cut=$(($(fragments) - before))
    [ $cut -le 64 ] || { echo "MTU $mtu, $to: $cut IP fragments" >&2; exit 1; }
    echo "MTU $mtu under a transfer $to: all arrives; IP fragments: $cut"
done
# Less than our own datagrams need. Over IPv4 routers cut them; they may cut what a socket says they may.
mtu="1000 behind silent routers"
east 1000 && forget
load yojimbo 40001 10.9.2.2 --clients 5 --rate 20 --size 32-7000 --for 1s
load gaffer 40002 10.9.2.2 --clients 5 --rate 20 --size 32-7000 --for 1s
load rudp 40003 10.9.2.2 --clients 5 --rate 20 --size 32-1468 --for 1s
echo "MTU $mtu: all arrives"
