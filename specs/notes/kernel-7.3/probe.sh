# What a kernel's settings say, how many subflows its path manager takes, and when an announced address that nobody can echo is announced again.
# Run by: polypath linux exec --kernel 7.3 specs/notes/kernel-7.3/probe.sh
for name in tcp_comp_sack_rtt_percent tcp_comp_sack_slack_ns tcp_limit_output_bytes; do
  printf '%s %s\n' $name "$(cat /proc/sys/net/ipv4/$name 2>/dev/null || echo none)"
done
echo "settings of net.mptcp: $(ls /proc/sys/net/mptcp | wc -l)"
most=0
for n in 1 2 4 8 9 16 32 64 65; do ip mptcp limits set subflows $n 2>/dev/null && most=$n; done
echo "subflows $most"

ip netns add server
ip netns add client
ip link add s netns server type veth peer name c netns client
ip -n server addr add 10.0.1.1/24 dev s
ip -n client addr add 10.0.1.2/24 dev c
for host in server client; do
  ip -n $host link set lo up
  ip -n $host mptcp limits set subflows 4 add_addr_accepted 4
done
ip -n server link set s up
ip -n client link set c up
ip netns exec server python3 -c '
import socket
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
listener.bind(("", 5001))
listener.listen()
connection, _ = listener.accept()
while connection.recv(1000):
    pass
' &
sleep 0.5
ip netns exec client python3 -c '
import socket, time
connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
connection.connect(("10.0.1.1", 5001))
for _ in range(20):
    connection.send(b"x")
    time.sleep(0.01)
time.sleep(400)
' &
sleep 1
# From here on nothing comes back, no echo and no answer to ARP.
ip -n server neigh replace 10.0.1.2 lladdr "$(ip netns exec client cat /sys/class/net/c/address)" dev s nud permanent
ip netns exec client tc qdisc add dev c root netem loss 100%
ip netns exec server python3 -c '
import socket, subprocess, time
OUTGOING, MPTCP, ADD_ADDR = 4, 30, 3
tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
tap.settimeout(400)
began = time.monotonic()
subprocess.run("ip mptcp endpoint add 10.0.9.1 signal".split(), check=True)
told = []
while time.monotonic() - began < 380:
    try:
        packet, address = tap.recvfrom(200)
    except TimeoutError:
        break
    if address[2] != OUTGOING or packet[:1] != b"E" or packet[9] != 6:
        continue
    options = packet[40 : 20 + (packet[32] >> 4) * 4]
    while options and options[0]:
        length = 1 if options[0] == 1 else options[1]
        if options[0] == MPTCP and options[2] >> 4 == ADD_ADDR:
            told.append(f"{time.monotonic() - began:.2f}")
        options = options[length:]
print("announced after", *told, "s")
'
