# Two paths of 100 Mbit/s under a tunnel, 10 ms more on the first: one TCP, and how its receiver acknowledges. CC, SECONDS and WINDOW may be set.
set -e
HERE=$(cd "$(dirname "$0")" && pwd)
CC=${CC:-vegas} DURATION=${DURATION:-10} WINDOW=${WINDOW:-1600}
gcc -O2 -o /tmp/tunnel "$HERE/tunnel.c" -lpthread
for node in a b r1 r2; do
    ip netns add $node
    ip -n $node link set lo up
    ip netns exec $node sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv4.tcp_no_metrics_save=1
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
    for side in left right; do tc -n r$k qdisc add dev $side root netem delay 0.25ms rate 100mbit 24 limit 100; done
done
tc -n a qdisc add dev p1 root netem delay 10ms limit 100000
# Neighbours are known before the first packet.
for k in 1 2; do ip netns exec a ping -c1 10.$k.1.2 >/dev/null; done
ip netns exec b /tmp/tunnel bond $WINDOW 3 10.1.1.2 10.1.0.1 10.2.1.2 10.2.0.1 & B=$!
ip netns exec a /tmp/tunnel bond $WINDOW 3 10.1.0.1 10.1.1.2 10.2.0.1 10.2.1.2 & A=$!
sleep 0.1
for at in "a 10.9.0.1" "b 10.9.0.2"; do
    set -- $at
    ip netns exec $1 sysctl -qw net.ipv6.conf.bond.disable_ipv6=1
    ip -n $1 addr add $2/24 dev bond
    ip -n $1 link set bond mtu 1464 txqueuelen 1500 up
done
ip netns exec b tcpdump -i bond -s 100 -B 100000 -w /tmp/b.pcap 2>/dev/null & CAPTURE=$!
sleep 0.2
ip netns exec b timeout $((DURATION + 20)) python3 "$HERE/programs.py" read & READER=$!
sleep 0.3
ip netns exec a timeout $((DURATION + 10)) python3 "$HERE/programs.py" write $CC $DURATION
wait $READER
kill $CAPTURE
sleep 0.1
echo "$(uname -r), $CC"
python3 "$HERE/programs.py" acks /tmp/b.pcap
kill $A $B
