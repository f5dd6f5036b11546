#!/bin/sh
# What netem's jitter leaves of one connection, in the order in which netem delivers and in the order sent.
#   polypath linux exec studies/jittertrap/netem.sh
set -eu
for n in sender middle receiver; do ip netns add $n; ip -n $n link set lo up; done
ip -n sender link add eth0 type veth peer name eth0 netns middle
ip -n middle link add eth1 type veth peer name eth0 netns receiver
ip -n sender addr add 10.0.0.2/24 dev eth0; ip -n middle addr add 10.0.0.1/24 dev eth0
ip -n receiver addr add 10.0.1.2/24 dev eth0; ip -n middle addr add 10.0.1.1/24 dev eth1
for d in "sender eth0" "middle eth0" "middle eth1" "receiver eth0"; do ip -n ${d% *} link set ${d#* } up; done
ip netns exec middle sysctl -qw net.ipv4.ip_forward=1
ip -n sender route add default via 10.0.0.1; ip -n receiver route add default via 10.0.1.1
measure() { # CC NAME NETEM...
  cc=$1; name=$2; shift 2
  for d in eth0 eth1; do
    ip netns exec middle tc qdisc replace dev $d root netem "$@"
  done
  port=$((port + 1))
  ip netns exec receiver iperf3 -s -1 -D -p $port
  sleep 1
  printf '%s, %s: ' $cc "$name"
  ip netns exec sender iperf3 -c 10.0.1.2 -p $port -C $cc -w 256K -t 10 -f m | grep receiver | grep -o '[0-9.]* Mbits/sec' || echo nothing
}
export TC_LIB_DIR=/usr/lib/x86_64-linux-gnu/tc
port=5200
# What a kernel remembers of a connection (tcp_metrics: slow start's threshold, reordering) begins the next one to the same host.
for forget in 1 0; do
  ip netns exec sender sysctl -qw net.ipv4.tcp_no_metrics_save=$forget
  for cc in cubic bbr; do
    for once in 1 2 3; do measure $cc "12 ms, normal, no_metrics_save $forget" delay 25ms 12ms distribution normal; done
    # With a rate netem lets no packet leave before the one in front of it.
    for once in 1 2; do measure $cc "the same in order" delay 25ms 12ms distribution normal rate 10gbit; done
  done
done
