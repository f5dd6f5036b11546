/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Watches a machine from below: every packet, TCP socket and counter of every network namespace,
 * written straight to a file of the host.
 *
 * A run that is watched must be the run that nobody watches. So nothing here takes virtual time,
 * wakes a program, holds a namespace, draws a random number or allocates memory, and a run that
 * could be watched and is not ("idle") does all the same, but for the calls of the host that write
 * things down.
 *
 * It looks with a soft interrupt every 10 ms, where reading a clock is free. This kernel has one
 * processor and does not preempt, so what a soft interrupt finds is whole; a socket that a program
 * holds at that moment is left out of that look.
 *
 * The file "observe" in the run's folder says what is wanted; without it nothing of this is there.
 * Its lines: "idle" or "all"; kernel events; what of dynamic debug is printed; and from when to
 * when events are kept (nanoseconds since the machine's start, 0 0: always). The file
 * "results/observed" gets records of 8-byte words: time, what and how long, and that many bytes
 * (python/polypath/selftests/_observed.py reads them).
 */
#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/netdevice.h>
#include <linux/seq_file.h>
#include <linux/sysctl.h>
#include <linux/version.h>
#include <net/inet_hashtables.h>
#include <net/net_namespace.h>
#include <net/tcp.h>
#ifdef PP_KERNEL_MPTCP
#include "net/mptcp/protocol.h"
#endif

/* host.c: calls of the host. */
extern int pp_host_observe(const char *lines[4]);
extern void pp_host_record(u64 time_ns, u32 what, u32 parts, const void *const *part, const u32 *bytes);
extern void pp_host_flush(void);
extern u64 pp_host_log_bytes(void);
extern long pp_host_shell_read(void *into, unsigned long most);
extern long pp_host_shell_write(const void *from, unsigned long bytes);

/* The kernel's own, which the link makes visible (python/polypath/linux/_link.py). Null where a
 * configuration lacks them. */
extern unsigned long long time_travel_time;
extern int snmp_seq_show(struct seq_file *seq, void *v) __weak;
extern int netstat_seq_show(struct seq_file *seq, void *v) __weak;
extern int set_buf_size(char *size) __weak;
extern void trace_set_ring_buffer_expanded(void *trace) __weak;
extern int ddebug_exec_queries(char *query, const char *module) __weak;
extern int trace_set_clr_event(const char *system, const char *event, int set);

enum { PP_PACKET = 1, PP_SOCKET = 2, PP_COUNTERS = 3, PP_LOG = 4, PP_REFUSED = 5, PP_PACKETS = 6 };
enum { PP_IDLE = 1, PP_ALL = 2 };

#define PP_PERIOD_NS (10 * NSEC_PER_MSEC)
#define PP_SNAPLEN 160		/* bytes kept of a packet: the headers with all options */
#define PP_EVENTS_SIZE "256M"	/* of the kernel's events; the oldest go first */
#define PP_TEXT_BYTES 32768	/* the counters of a namespace, as text */

static int pp_mode;
static const char *pp_lines[4];
static u64 pp_from_ns, pp_to_ns;	/* when events are kept; both 0: always */

#ifdef CONFIG_EVENT_TRACING
/* Stamps of the kernel's events. Its own would be the ticks of 4 ms, and a finer clock costs the
 * reader virtual time. */
u64 notrace trace_clock_local(void)
{
	return time_travel_time;
}
#endif

static void pp_record(u32 what, u32 parts, const void *const *part, const u32 *bytes)
{
	pp_host_record(time_travel_time, what, parts, part, bytes);
}

struct pp_packet {
	u32 namespace, device;
	u32 length, kept;	/* bytes */
	char name[IFNAMSIZ];
};

/* Of all packets so far: two runs with the same count and hash had the same packets at the same
 * times. */
static struct {
	u64 count, hash;
} pp_packets;

static void pp_hash(const void *from, u32 bytes)
{
	const u64 *word = from;
	u32 i;

	for (i = 0; i < bytes / sizeof(*word); i++)
		pp_packets.hash = (pp_packets.hash ^ word[i]) * 0x9e3779b97f4a7c15ULL, pp_packets.hash ^= pp_packets.hash >> 29;
}

static int pp_tap(struct sk_buff *skb, struct net_device *dev, struct packet_type *pt, struct net_device *orig)
{
	static u64 bytes[PP_SNAPLEN / sizeof(u64)];
	struct pp_packet packet = { dev_net(dev)->ns.inum, dev->ifindex };
	/* What came in has its link header before its data; what goes out begins with it. */
	u32 before = skb->pkt_type == PACKET_OUTGOING ? 0 : skb->data - skb_mac_header(skb);
	const void *part[] = { &packet, bytes };
	u32 length[] = { sizeof(packet), 0 };

	packet.length = skb->len + before;
	packet.kept = length[1] = min_t(u32, packet.length, PP_SNAPLEN);
	memcpy(packet.name, dev->name, IFNAMSIZ);
	bytes[packet.kept / sizeof(u64) % ARRAY_SIZE(bytes)] = 0;
	if (skb_copy_bits(skb, -(int)before, bytes, packet.kept) == 0) {
		pp_packets.count++;
		pp_hash(&(u64){ time_travel_time }, sizeof(u64));
		pp_hash(&packet, sizeof(packet));
		pp_hash(bytes, ALIGN(packet.kept, sizeof(u64)));
		if (pp_mode == PP_ALL)
			pp_record(PP_PACKET, 2, part, length);
	}
	/* It was not dropped. */
	consume_skb(skb);
	return 0;
}

static struct packet_type pp_tap_type = { .type = cpu_to_be16(ETH_P_ALL), .func = pp_tap };

struct pp_socket {
	u32 namespace;
	u16 family, state;
	u16 source_port, destination_port;
	u32 token, flags;	/* of MPTCP; 0: plain TCP */
	u8 source[16], destination[16];
	char cc[TCP_CA_NAME_MAX];
};

static void pp_look_socket(struct sock *sk)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);
	static struct tcp_info info;
	struct pp_socket seen = { .family = sk->sk_family, .state = sk->sk_state };
	const void *part[] = { &seen, &info };
	const u32 length[] = { sizeof(seen), sizeof(info) };

	if (sk->sk_state == TCP_TIME_WAIT || sk->sk_state == TCP_NEW_SYN_RECV || sock_owned_by_user(sk))
		return;
	seen.namespace = sock_net(sk)->ns.inum;
	seen.source_port = ntohs(inet_sk(sk)->inet_sport);
	seen.destination_port = ntohs(inet_sk(sk)->inet_dport);
	if (sk->sk_family == AF_INET) {
		memcpy(seen.source, &sk->sk_rcv_saddr, 4);
		memcpy(seen.destination, &sk->sk_daddr, 4);
	}
#if IS_ENABLED(CONFIG_IPV6)
	else {
		memcpy(seen.source, &sk->sk_v6_rcv_saddr, 16);
		memcpy(seen.destination, &sk->sk_v6_daddr, 16);
	}
#endif
	if (icsk->icsk_ca_ops)
		memcpy(seen.cc, icsk->icsk_ca_ops->name, TCP_CA_NAME_MAX);
#ifdef PP_KERNEL_MPTCP
	if (tcp_sk(sk)->is_mptcp && icsk->icsk_ulp_data) {
		const struct mptcp_subflow_context *subflow = mptcp_subflow_ctx(sk);

		seen.token = subflow->conn ? mptcp_sk(subflow->conn)->token : 0;
		/* As MPTCP_SUBFLOW_FLAG_MCAP_REM, _JOIN_REM and _JOIN_LOC. */
		seen.flags = subflow->mp_capable | subflow->mp_join << 2 | subflow->request_join << 3;
	}
#endif
	/* Out-of-tree MPTCP has a third argument: do not lock. */
	if (__builtin_types_compatible_p(typeof(tcp_get_info), void(struct sock *, struct tcp_info *, bool)))
		((void (*)(struct sock *, struct tcp_info *, bool))(void *)tcp_get_info)(sk, &info, true);
	else
		((void (*)(struct sock *, struct tcp_info *))(void *)tcp_get_info)(sk, &info);
	pp_record(PP_SOCKET, 2, part, length);
}

static void pp_look_sockets(void)
{
	const struct hlist_nulls_node *node;
	struct sock *sk;
	u32 i;

	for (i = 0; i <= tcp_hashinfo.ehash_mask; i++)
		sk_nulls_for_each(sk, node, &tcp_hashinfo.ehash[i].chain)
			pp_look_socket(sk);
}

static void pp_write_counters(struct net *net)
{
	static char text[PP_TEXT_BYTES];
	struct seq_file seq = { .buf = text, .size = sizeof(text), .private = net };
	u32 namespace = net->ns.inum, length[] = { sizeof(namespace), 0 };
	const void *part[] = { &namespace, text };

	if (pp_mode != PP_ALL || !snmp_seq_show || !netstat_seq_show)
		return;
	snmp_seq_show(&seq, NULL);
	netstat_seq_show(&seq, NULL);
	length[1] = seq.count;
	pp_record(PP_COUNTERS, 2, part, length);
}

static void __net_exit pp_net_exit(struct net *net)
{
	pp_write_counters(net);
}

static struct pernet_operations pp_net_ops = { .exit = pp_net_exit };

static void pp_look_log(void)
{
	static u64 before;
	u64 now = pp_host_log_bytes();
	const void *part[] = { &now };
	const u32 length[] = { sizeof(now) };

	if (now != before)
		pp_record(PP_LOG, 1, part, length);
	before = now;
}

static void pp_window(void)
{
#ifdef CONFIG_EVENT_TRACING
	static bool within = true;
	bool wanted = !pp_to_ns || (time_travel_time >= pp_from_ns && time_travel_time < pp_to_ns);

	if (wanted == within)
		return;
	within = wanted;
	wanted ? tracing_on() : tracing_off();
#endif
}

static enum hrtimer_restart pp_look(struct hrtimer *timer)
{
	if (pp_mode == PP_ALL) {
		pp_look_sockets();
		pp_window();
	}
	pp_look_log();
	pp_host_flush();
	hrtimer_add_expires_ns(timer, PP_PERIOD_NS);
	return HRTIMER_RESTART;
}

/*
 * /proc/sys/polypath/observe: written to, it writes down the counters of all namespaces, at a run's
 * end. /proc/sys/polypath/shell: reading waits for a person's line, and since it is the whole
 * kernel that waits in a call of the host, no virtual time goes by; what is written is shown to
 * them.
 */
static int pp_finish(void *table, int write, void *buffer, size_t *length, loff_t *at)
{
	const void *part[] = { &pp_packets };
	const u32 bytes[] = { sizeof(pp_packets) };
	struct net *net;

	if (!write) {
		*length = 0;
		return 0;
	}
	pp_record(PP_PACKETS, 1, part, bytes);
	rcu_read_lock();
	for_each_net_rcu(net)
		pp_write_counters(net);
	rcu_read_unlock();
	pp_look_log();
	pp_host_flush();
	*at += *length;
	return 0;
}

static int pp_shell(void *table, int write, void *buffer, size_t *length, loff_t *at)
{
	long done = write ? pp_host_shell_write(buffer, *length) : pp_host_shell_read(buffer, *length);

	if (done < 0)
		return -EIO;
	*length = done;
	*at += done;
	return 0;
}

static struct ctl_table pp_observe_table[] = {
	{ .procname = "observe", .mode = 0600, .proc_handler = (void *)pp_finish },
	{ .procname = "shell", .mode = 0600, .proc_handler = (void *)pp_shell },
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 6, 0)
	{ }
#endif
};

/* Before the kernel begins: as its command line would ask for it, which is not used since it is
 * mixed into random numbers. */
static int __init pp_before(void)
{
	pp_mode = pp_host_observe(pp_lines);
	if (pp_mode == PP_ALL && pp_lines[3])
		sscanf(pp_lines[3], "%llu %llu", &pp_from_ns, &pp_to_ns);
	if (pp_mode == PP_ALL && pp_lines[1][0] && trace_set_ring_buffer_expanded && set_buf_size) {
		trace_set_ring_buffer_expanded(NULL);
		set_buf_size(PP_EVENTS_SIZE);
	}
	return 0;
}
static initcall_t pp_before_call __used __section(".uml.postsetup.init") = pp_before;

static void __init pp_refused(const char *what)
{
	const void *part[] = { what };
	const u32 length[] = { strlen(what) };

	pp_record(PP_REFUSED, 1, part, length);
}

/*
 * "tcp:*,skb:kfree_skb". Not as the kernel's own trace_event= does it: that enables, disables and
 * enables again, waits for the last readers in between, and so takes time of the machine.
 */
static void __init pp_enable_events(char *events)
{
	char *event, *system;

	while ((event = strsep(&events, ","))) {
		if (!*event)
			continue;
#ifdef CONFIG_EVENT_TRACING
		system = strsep(&event, ":");
		if (!trace_set_clr_event(system, event && *event && strcmp(event, "*") ? event : NULL, 1))
			continue;
#else
		system = event;
#endif
		pp_refused(system);
	}
}

static int __init pp_observe(void)
{
	static struct hrtimer timer;

	if (!pp_mode)
		return 0;
	if (pp_mode == PP_ALL) {
		pp_enable_events((char *)pp_lines[1]);
		if (pp_lines[2][0] && (!ddebug_exec_queries || ddebug_exec_queries((char *)pp_lines[2], NULL) <= 0))
			pp_refused("dynamic debug");
		pp_window();
	}
	dev_add_pack(&pp_tap_type);
	register_sysctl("polypath", pp_observe_table);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 15, 0)
	hrtimer_setup(&timer, pp_look, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
#else
	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	timer.function = pp_look;
#endif
	hrtimer_start(&timer, PP_PERIOD_NS, HRTIMER_MODE_ABS_SOFT);
	return register_pernet_subsys(&pp_net_ops);
}
late_initcall(pp_observe);
