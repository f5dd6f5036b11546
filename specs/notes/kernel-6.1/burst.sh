# Two paths of 95 and 8 ms into a hop of 17 Mbit/s with ten packets: send buffers of the connection and of its subflows, and what was written.
set -e
for n in c h s; do ip netns add $n; ip -n $n link set lo up; ip netns exec $n sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv4.tcp_no_metrics_save=1; done
ip link add c1 netns c type veth peer name h1 netns h
ip link add c2 netns c type veth peer name h2 netns h
ip link add hs netns h type veth peer name s0 netns s
ip -n c addr add 10.1.1.1/24 dev c1; ip -n h addr add 10.1.1.2/24 dev h1
ip -n c addr add 10.1.2.1/24 dev c2; ip -n h addr add 10.1.2.2/24 dev h2
ip -n h addr add 10.3.0.1/24 dev hs; ip -n s addr add 10.3.0.2/24 dev s0
for d in "c c1" "c c2" "h h1" "h h2" "h hs" "s s0"; do set -- $d; ip -n $1 link set $2 up; ip netns exec $1 ethtool -K $2 tso off gso off gro off >/dev/null 2>&1 || true; done
ip -n c route add default via 10.1.1.2
ip -n c rule add from 10.1.2.1 table 2; ip -n c route add default via 10.1.2.2 table 2
ip -n c rule add from 10.1.1.1 table 1; ip -n c route add default via 10.1.1.2 table 1
ip -n s route add default via 10.3.0.1
tc -n c qdisc add dev c1 root netem delay 46.5ms limit 10000
tc -n c qdisc add dev c2 root netem delay 2.95ms limit 10000
tc -n h qdisc add dev h1 root netem delay 46.5ms limit 10000
tc -n h qdisc add dev h2 root netem delay 2.95ms limit 10000
tc -n h qdisc add dev hs root netem rate 17mbit limit 10
tc -n s qdisc add dev s0 root netem delay 1.2ms limit 10000
for n in c s; do ip netns exec $n sysctl -qw net.ipv4.tcp_congestion_control=${CC:-reno} net.mptcp.enabled=1 net.ipv4.tcp_rmem="4096 131072 16777216" net.ipv4.tcp_wmem="4096 16384 16777216"; ip -n $n mptcp limits set subflows 2 add_addr_accepted 2; done
ip -n c mptcp endpoint add 10.1.2.1 dev c2 subflow
cat > /tmp/r.py <<'P'
import socket
s=socket.socket(socket.AF_INET,socket.SOCK_STREAM,262); s.bind(('',5001)); s.listen(1); c,_=s.accept(); n=0
while True:
    d=c.recv(1<<18)
    if not d: break
P
cat > /tmp/w.py <<'P'
import socket,struct,time,threading,subprocess
s=socket.socket(socket.AF_INET,socket.SOCK_STREAM,262); s.connect(('10.3.0.2',5001))
sent=0
def go():
    global sent
    b=b'x'*262144
    while True: sent+=s.send(b)
t=threading.Thread(target=go,daemon=True); t.start()
last=0
for i in range(60):
    time.sleep(0.5)
    m=struct.unpack('9I',s.getsockopt(socket.SOL_SOCKET,55,36))
    # rmem_alloc rcvbuf wmem_alloc sndbuf fwd wmem_queued
    o=subprocess.run('ss -tmin dst 10.3.0.2',shell=True,capture_output=True,text=True).stdout
    import re
    subs=[]
    for blk in re.split(r'\n(?=ESTAB)',o):
        a=re.search(r'(10\.1\.\d)\.1',blk); tb=re.search(r'skmem:\(.*?tb(\d+).*?w(\d+)',blk); cw=re.search(r'cwnd:(\d+)',blk); un=re.search(r'unacked:(\d+)',blk); ns=re.search(r'notsent:(\d+)',blk)
        if a: subs.append((a[1][-1],'tb',tb and tb[1],'w',tb and tb[2],'cwnd',cw and cw[1],'un',un and un[1],'ns',ns and ns[1]))
    if i%3==0 or i<6: print(i/2+.5,'sndbuf',m[3],'queued',m[5],'Mb/s %.2f'%((sent-last)*8/(0.5 if i%3==0 and i<6 else 1.5)/1e6 if 1 else 0),sorted(subs))
    if i%3==0 or i<6: last=sent
print('total',sent*8/30e6)
P
ip netns exec s python3 /tmp/r.py & sleep 0.2
ip netns exec c python3 /tmp/w.py
kill %1 2>/dev/null || true
