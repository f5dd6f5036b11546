#!/bin/sh
# An MTU of 1500 on the router's interface towards the host: who hears of packets that are too long?
#   polypath linux exec studies/mtu/black-hole.sh
set -eu
for n in host router server; do ip netns add $n; ip -n $n link set lo up; done
ip -n host link add eth0 type veth peer name eth0 netns router
ip -n router link add eth1 type veth peer name eth0 netns server
ip -n host addr add 10.0.0.2/24 dev eth0; ip -n router addr add 10.0.0.1/24 dev eth0
ip -n server addr add 10.0.2.2/24 dev eth0; ip -n router addr add 10.0.2.1/24 dev eth1
for d in "host eth0" "router eth1" "server eth0"; do ip -n ${d% *} link set ${d#* } mtu 9000 up; done
ip -n router link set eth0 mtu 1500 up
ip netns exec router sysctl -qw net.ipv4.ip_forward=1
ip -n host route add default via 10.0.0.1; ip -n server route add default via 10.0.2.1
sleep 1
ask() { # FROM TO NAME
  printf '%s: ' "$3"
  ip netns exec $1 ping -n -M do -s 8972 -c 2 -W 1 $2 2>&1 | grep -o -m1 'Frag needed.*\|message too long.*\|bytes from' || echo nothing comes back
}
ask server 10.0.0.2 "9000 bytes from the server to the host"
ask host 10.0.2.2 "9000 bytes from the host to the server"
