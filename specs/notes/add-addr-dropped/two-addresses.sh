# A client and a server on three links, and a connection over the first. The server then announces its two other addresses, in one of four ways.
# Prints how many ADD_ADDRs the client has dropped and how many subflows it has joined, one second and 130 seconds later.
# Run by: polypath linux exec specs/notes/add-addr-dropped/two-addresses.sh
announce() {
  first="mptcp endpoint add 10.0.2.1 signal" second="mptcp endpoint add 10.0.3.1 signal"
  case $1 in
    "one program") printf '%s\n' "$first" "$second" | ip -n server -batch - ;;
    "two programs") ip -n server $first; ip -n server $second ;;
    "1 ms between") ip -n server $first; sleep 0.001; ip -n server $second ;;
  esac
}

joined() {
  ip netns exec client nstat -asz MPTcpExtAddAddrDrop MPTcpExtMPJoinSynAckRx | awk '/^MPTcp/ { n[$1] = $2 } END { printf " | %d | %d", n["MPTcpExtAddAddrDrop"], n["MPTcpExtMPJoinSynAckRx"] }'
}

echo "| announced | ADD_ADDRs dropped after 1 s | joins after 1 s | dropped after 130 s | joins after 130 s |"
echo "|---|---|---|---|---|"
for how in "one program" "two programs" "1 ms between" "before the connection"; do
  ip netns add server
  ip netns add client
  for n in 1 2 3; do
    ip link add s$n netns server type veth peer name c$n netns client
    ip -n server addr add 10.0.$n.1/24 dev s$n
    ip -n client addr add 10.0.$n.2/24 dev c$n
    ip -n server link set s$n up
    ip -n client link set c$n up
  done
  for host in server client; do
    ip -n $host link set lo up
    ip -n $host mptcp limits set subflows 4 add_addr_accepted 4
  done
  [ "$how" = "before the connection" ] && announce "two programs"
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
for _ in range(1350):
    connection.send(b"x")
    time.sleep(0.1)
' &
  sleep 1
  announce "$how"
  sleep 1
  printf '| %s' "$how"
  joined
  sleep 129
  joined
  echo " |"
  wait
  ip netns del server
  ip netns del client
done
