#!/bin/sh
# 100 Mbit/s, 80 ms, and a client whose tcp_wmem ends at $1 bytes; with $2, net.ipv4.tcp_min_tso_segs is so many.
# CC names the congestion controls, SENDERS the senders ("HOW SIZE,HOW SIZE").
set -e
HERE=$(cd "$(dirname "$0")" && pwd)
WMEM=${1:-100000}
for node in client server; do ip netns add $node; ip -n $node link set lo up; done
ip link add left netns client type veth peer name right netns server
ip -n client addr add 10.0.0.1/24 dev left; ip -n server addr add 10.0.0.2/24 dev right
ip -n client link set left up; ip -n server link set right up
set_up() {
    ip netns exec "$1" ethtool -K "$2" tso off gso off gro off >/dev/null 2>&1 || true
    ip netns exec "$1" tc qdisc add dev "$2" root netem delay 40ms rate 100mbit limit 10000
    ip netns exec "$1" sh -c "echo 4096 131072 60000000 >/proc/sys/net/ipv4/tcp_rmem; echo 4096 16384 $WMEM >/proc/sys/net/ipv4/tcp_wmem"
}
set_up client left; set_up server right
[ -z "$2" ] || ip netns exec client sh -c "echo $2 >/proc/sys/net/ipv4/tcp_min_tso_segs"
echo "kernel $(uname -r), tcp_wmem $WMEM, tcp_min_tso_segs $(ip netns exec client cat /proc/sys/net/ipv4/tcp_min_tso_segs)"
ip netns exec server python3 "$HERE/programs.py" 10.0.0.2 & sleep 1
ALL="blocks 262144,blocks 131072,blocks 16384,until-full 65536,asks 131072,asks 16384"
for cc in ${CC:-cubic reno}; do
    echo "${SENDERS:-$ALL}" | tr , '\n' | while read -r how size; do
        ip netns exec client python3 "$HERE/programs.py" 10.0.0.2 "$how" "$size" "$cc" 8
    done
done
kill %1 2>/dev/null || true
