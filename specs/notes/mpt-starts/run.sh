# One run of the reference's set-ups (tests/data/reference/mpt-gre) on a kernel, with the tunnel's end of specs/notes/packets-at-once.
#
# MODE nic or router, CC, DELAY and LOSS of path 1 in ms and %, WINDOW, QUEUE of the routers in packets, DURATION in s, BEFORE (packets sent before the
# SYN), SHIFT (us by which the start is later), CAPTURE (a folder for captures of the devices `bond`, or nothing).
set -e
HERE=$(cd "$(dirname "$0")" && pwd)
MODE=${MODE:-router} CC=${CC:-cubic} DELAY=${DELAY:-0} LOSS=${LOSS:-0} WINDOW=${WINDOW:-1600} QUEUE=${QUEUE:-100}
DURATION=${DURATION:-20} BEFORE=${BEFORE:-3} SHIFT=${SHIFT:-0} CAPTURE=${CAPTURE:-}
gcc -O2 -o /tmp/tunnel "$HERE/../packets-at-once/tunnel.c" -lpthread
for node in a b r1 r2; do
    ip netns add $node
    ip -n $node link set lo up
    ip netns exec $node sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv4.tcp_no_metrics_save=1 \
        net.ipv4.tcp_rmem="4096 131072 6291456" net.ipv4.tcp_wmem="4096 16384 4194304"
done
for k in 1 2; do
    ip link add p$k netns a type veth peer name left netns r$k
    ip link add p$k netns b type veth peer name right netns r$k
    ip -n a addr add 10.$k.0.1/24 dev p$k; ip -n r$k addr add 10.$k.0.2/24 dev left
    ip -n b addr add 10.$k.1.2/24 dev p$k; ip -n r$k addr add 10.$k.1.1/24 dev right
    for at in "a p$k" "b p$k" "r$k left" "r$k right"; do
        set -- $at
        ip -n $1 link set $2 up
        ip netns exec $1 ethtool -K $2 tso off gso off gro off tx off rx off >/dev/null 2>&1 || true
    done
    ip -n a route add 10.$k.1.0/24 via 10.$k.0.2; ip -n b route add 10.$k.0.0/24 via 10.$k.1.1
    case $MODE in
        router) for side in left right; do tc -n r$k qdisc add dev $side root netem delay 0.25ms rate 100mbit 24 limit $QUEUE; done ;;
        nic)
            for side in left right; do tc -n r$k qdisc add dev $side root netem delay 0.25ms limit 100000; done
            for node in a b; do
                tc -n $node qdisc add dev p$k root handle 1: tbf rate 100mbit burst 1514 overhead 24 limit 3000000
                tc -n $node qdisc add dev p$k parent 1:1 handle 10: pfifo limit 1000
            done ;;
    esac
done
# Path 1 has the delay or the losses; without either there is no netem.
slow="netem"
[ "$DELAY" = 0 ] || slow="$slow delay ${DELAY}ms"
[ "$LOSS" = 0 ] || slow="$slow loss ${LOSS}%"
if [ "$slow" != netem ]; then
    case $MODE in
        router) tc -n a qdisc add dev p1 root $slow limit 100000 ;;
        nic) tc -n a qdisc replace dev p1 parent 1:1 handle 20: $slow limit 1000 ;;
    esac
fi
# Neighbours are known before the first packet; a loss may take the first ping.
for k in 1 2; do ip netns exec a ping -qc3 -i0.2 10.$k.1.2 >/dev/null; done
ip netns exec b /tmp/tunnel bond $WINDOW $BEFORE 10.1.1.2 10.1.0.1 10.2.1.2 10.2.0.1 & B=$!
ip netns exec a /tmp/tunnel bond $WINDOW $BEFORE 10.1.0.1 10.1.1.2 10.2.0.1 10.2.1.2 & A=$!
sleep 0.1
for at in "a 10.9.0.1" "b 10.9.0.2"; do
    set -- $at
    ip netns exec $1 sysctl -qw net.ipv6.conf.bond.disable_ipv6=1
    ip -n $1 addr add $2/24 dev bond
    ip -n $1 link set bond mtu 1464 txqueuelen 1500 up
done
if [ -n "$CAPTURE" ]; then
    for node in a b; do ip netns exec $node tcpdump -i bond -s 100 -B 200000 -w $CAPTURE/$node.pcap 2>/dev/null & done
    sleep 0.2
fi
ip netns exec b timeout $((DURATION + 30)) python3 "$HERE/bulk.py" read $DURATION >/tmp/read & READER=$!
sleep 0.3
ip netns exec a timeout $((DURATION + 20)) python3 "$HERE/bulk.py" write $CC $DURATION $SHIFT >/tmp/write
wait $READER || true
[ -z "$CAPTURE" ] || { for p in $(pidof tcpdump); do kill $p; done; sleep 0.1; }
cat /tmp/read /tmp/write
for k in 1 2; do tc -n r$k -s qdisc show dev right | sed -n "s/^.*dropped \([0-9]*\).*/dropped$k \1/p"; done
tc -n a -s qdisc show dev p1 | sed -n "s/^.*dropped \([0-9]*\).*/dropped_own \1/p"
kill $A $B
