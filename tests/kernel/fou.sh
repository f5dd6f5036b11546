# A tunnel between Polypath's daemon (a) and Linux's own GRE over FOU (b): RFC 8086 at both ends. $P is the daemon's program,
# $GRE what Linux's end is told, $KEY and $RULE what stands in the daemon's file; $WORK is ping, or all.
set -eu
for end in a b; do ip netns add $end; ip -n $end link set lo up; done
ip link add v netns a type veth peer name v netns b
ip -n a addr add 192.0.2.1/24 dev v; ip -n b addr add 192.0.2.2/24 dev v
# A cable between namespaces leaves checksums out; a program at its other end would see what no wire ever carries.
for end in a b; do ip netns exec $end ethtool -K v tx off > /dev/null; ip -n $end link set v up; done

# GRE right behind UDP's header is what Linux calls FOU with protocol 47; GUE would have a header of its own.
ip -n b fou add port 4754 ipproto 47
ip -n b link add g type gre local 192.0.2.2 remote 192.0.2.1 ttl 64 $GRE encap fou encap-sport auto encap-dport 4754
ip -n b addr add 10.9.0.2/24 dev g; ip -n b link set g up mtu 1460
mkdir -p /tmp/t
cat > /tmp/t/a.toml <<X
[tunnel]
device = "tun0"
addresses = ["10.9.0.1/24"]
peer = "10.9.0.2"
mtu = 1460
encapsulation = "rfc8086"
$KEY
[reorder]
rule = "$RULE"
[keepalive]
enabled = false
[[path]]
local = "192.0.2.1"
remote = "192.0.2.2"
X
ip netns exec a "$P" up /tmp/t/a.toml

found() {
    "$P" status a --json > "$OUT/status.json"
    ip -n b -s -j link show g > "$OUT/link.json"
}
if [ "$WORK" = ping ]; then
    ip netns exec b ping -q -c 20 -i 0.05 -W 1 10.9.0.1 | grep received
    found
    exit
fi
ip netns exec a ping -q -c 20 -i 0.05 10.9.0.2 | grep received
ip netns exec b ping -q -c 20 -i 0.05 -M do -s 1432 10.9.0.1 | grep received
# TCP both ways at once, echoed by the kernel's end.
ip netns exec b python3 - <<'X' &
import socket
server = socket.create_server(("10.9.0.2", 5001))
for _ in range(4):
    peer, _ = server.accept()
    while data := peer.recv(1 << 16):
        peer.sendall(data)
    peer.close()
X
sleep 1
ip netns exec a python3 - <<'X'
import os, socket, threading
for _ in range(4):
    client = socket.create_connection(("10.9.0.2", 5001))
    data, got = os.urandom(200_000), bytearray()
    sender = threading.Thread(target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR)))
    sender.start()
    while part := client.recv(1 << 16):
        got += part
    sender.join()
    assert bytes(got) == data
print("echoed")
X
wait
found
