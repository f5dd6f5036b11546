# One flow with $1 from the namespace c over the router r to the server s, 50 Mbit/s and 10 ms, whose queue marks packets (RED with ECN) or, if $2 is
# "plain", drops them alone, while the server does not agree to ECN. Prints the congestion control at the end, the bytes sent, and
# the window every 10 ms.
set -e
# setting NAMESPACE FILE VALUE: writes a setting below net.ipv4; a small host has no program for it.
setting() { ip netns exec "$1" sh -c "echo $3 > /proc/sys/net/ipv4/$2"; }
cc=$1
for name in c r s; do
	ip netns add $name
	ip -n $name link set lo up
done
ip link add c0 netns c type veth peer name r0 netns r
ip link add r1 netns r type veth peer name s0 netns s
ip -n c addr add 10.0.1.1/24 dev c0
ip -n r addr add 10.0.1.2/24 dev r0
ip -n r addr add 10.0.2.2/24 dev r1
ip -n s addr add 10.0.2.1/24 dev s0
for place in "c c0" "r r0" "r r1" "s s0"; do
	ip -n ${place% *} link set ${place#* } up gso_max_segs 1
done
ip -n c route add default via 10.0.1.2
ip -n s route add default via 10.0.2.2
setting r ip_forward 1
setting c tcp_congestion_control $cc
ip netns exec c tc qdisc add dev c0 root netem delay 5ms limit 10000
ip netns exec s tc qdisc add dev s0 root netem delay 5ms limit 10000
ip netns exec r tc qdisc add dev r1 root handle 1: htb default 1 r2q 1000
ip netns exec r tc class add dev r1 parent 1: classid 1:1 htb rate 50mbit burst 1600 cburst 1600
if [ "$2" = plain ]; then
	setting s tcp_congestion_control reno
	setting s tcp_ecn 0
	ip netns exec r tc qdisc add dev r1 parent 1:1 pfifo limit 40
else
	setting s tcp_congestion_control $cc
	ip netns exec r tc qdisc add dev r1 parent 1:1 red limit 400000 min 30000 max 90000 avpkt 1500 burst 21 bandwidth 50mbit probability 0.1 ecn
fi
cat > /tmp/server.py <<'END'
import socket

listener = socket.create_server(("10.0.2.1", 5000))
connection, _ = listener.accept()
while connection.recv(1 << 16):
    pass
END
cat > /tmp/client.py <<'END'
import select, socket, struct, time

connection = socket.create_connection(("10.0.2.1", 5000))
connection.setblocking(False)
begin = due = time.monotonic()
sent, windows, data = 0, [], bytes(65536)
while time.monotonic() < begin + 5:
    if select.select([], [connection], [], max(0, due - time.monotonic()))[1]:
        try:
            sent += connection.send(data)
        except BlockingIOError:
            pass
    if time.monotonic() >= due:
        # struct tcp_info: tcpi_snd_cwnd lies 80 bytes from its beginning.
        windows.append(struct.unpack_from("I", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 80)[0])
        due += 0.01
print(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode())
print(sent)
print(*windows)
END
ip netns exec s python3 /tmp/server.py &
sleep 0.5
ip netns exec c python3 /tmp/client.py
