/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Makes one algorithm of cc/algs a struct_ops `tcp_congestion_ops` named pp_<name>. This file is
 * the only one that knows the kernel's ops table.
 *
 * build.sh compiles it once for each algorithm with PP_ALG (the name), PP_ALG_FILE (the C file) and
 * a PP_HAS_<hook> for each hook of the algorithm's ops table.
 *
 * A hook gets a pp_flow read from the socket; what the hook changed is written back. Everything is
 * inlined, so the compiler drops the fields that a hook does not look at. The private state is the
 * kernel's icsk_ca_priv; its last two words keep the counters that siblings need.
 *
 * Differences from a kernel module: last_sent_ns is the time of the last delivery, except in
 * cwnd_event, where it matters (a call more in every hook is more than the verifier can follow).
 * Whoever loads an object says how long a tick is (pp_tick_ns); if nobody does, it is so there too,
 * and cubic takes up to one RTT too much for idle time. A subflow's siblings are read without the
 * connection's lock: one that comes or goes at that moment may be missed.
 */
#define PP_BUILD_BPF 1

#include "pp_kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include PP_ALG_FILE

#define PP_CAT_(a, b) a##b
#define PP_CAT(a, b) PP_CAT_(a, b)
#define PP_STR_(a) #a
#define PP_STR(a) PP_STR_(a)
#define PP_OPS PP_CAT(pp_cc_, PP_ALG)

static __always_inline void pp_send_ack(struct tcp_sock *tp, __u32 rcv_nxt)
{
	bpf_tcp_send_ack(tp, rcv_nxt);
}

#include "pp_socket.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#if defined(PP_NEEDS_ECN) && (defined(PP_COUPLED) || !defined(PP_HAS_cwnd_event))
#error an algorithm that needs ECN has the hook cwnd_event, through which marks are told, and is not coupled, since both need the same words
#endif

#ifdef PP_HAS_cwnd_event
/* Length of a jiffy, ns: crates/bpf fills it in, and finds it by its section. */
const volatile __u32 pp_tick_ns SEC(".rodata.tick");
#endif

static __always_inline void pp_read_flow(const struct tcp_sock *tp, struct pp_flow *f)
{
	const struct inet_connection_sock *icsk = &tp->inet_conn;
	const struct sock *sk = &icsk->icsk_inet.sk;

	*f = (struct pp_flow){ 0 };
	pp_read_counters(tp, f);
	/* The kernel says "not limited" as ~0, the interface as 0. */
	f->pacing_rate = sk->sk_pacing_rate == ~0UL ? 0 : sk->sk_pacing_rate;
	f->max_pacing_rate = sk->sk_max_pacing_rate;
	f->last_sent_ns = f->delivered_ns;
	f->ca_state = BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state);
	f->cwnd_limited = BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
	f->ecn_ok = BPF_CORE_READ_BITFIELD(tp, ecn_flags) & PP_TCP_ECN_OK;
	f->established = sk->__sk_common.skc_state == PP_TCP_ESTABLISHED;
	f->pacing = sk->sk_pacing_status != 0;
#ifdef PP_DRAWS
	f->random = bpf_get_prandom_u32();
#endif
}

static __always_inline void pp_write_flow(struct tcp_sock *tp, const struct pp_flow *f, const struct pp_flow *before)
{
	if (f->cwnd != before->cwnd)
		tp->snd_cwnd = pp_max(f->cwnd, 1);
	if (f->cwnd_cnt != before->cwnd_cnt)
		tp->snd_cwnd_cnt = f->cwnd_cnt;
	if (f->ssthresh != before->ssthresh)
		tp->snd_ssthresh = f->ssthresh;
	if (f->app_limited != before->app_limited)
		tp->app_limited = f->app_limited;
	if (f->pacing_rate != before->pacing_rate)
		tp->inet_conn.icsk_inet.sk.sk_pacing_rate = f->pacing_rate;
#ifdef PP_PACES
	/* BPF may not write sk_pacing_status; any limit makes the kernel pace, and this one is 4
	 * GByte/s. */
	if (f->pacing && !before->pacing) {
		__u32 most = ~0U - 1;

		bpf_setsockopt(tp, PP_SOL_SOCKET, PP_SO_MAX_PACING_RATE, &most, sizeof(most));
	}
#endif
}

#ifdef PP_COUPLED
extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym;
#define pp_cast(type, p) ((type *)bpf_rdonly_cast((p), bpf_core_type_id_kernel(type)))

/* Scratch for the view of the siblings: larger than the stack, and private to a socket because
 * sockets interrupt each other. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct pp_siblings);
} pp_scratch SEC(".maps");

/* The subflows of the connection that `tp` belongs to; null for plain TCP. */
static __always_inline const struct pp_siblings *pp_read_siblings(struct tcp_sock *tp)
{
	const struct mptcp_subflow_context *subflow;
	const struct list_head *node, *head;
	const struct mptcp_sock *msk;
	struct pp_siblings *view;
	__u32 i;

	if (!bpf_core_field_exists(tp->is_mptcp) || !tp->is_mptcp)
		return NULL;
	view = bpf_sk_storage_get(&pp_scratch, tp, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!view)
		return NULL;
	subflow = pp_cast(struct mptcp_subflow_context, tp->inet_conn.icsk_ulp_data);
	msk = pp_cast(struct mptcp_sock, subflow->conn);
	head = &msk->conn_list;
	node = head->next;
	view->len = 0;
	view->self = PP_MAX_SIBLINGS;
	for (i = 0; i < PP_MAX_SIBLINGS; i++) {
		const struct tcp_sock *other;
		__u8 state;

		if (!node || node == head)
			break;
		subflow = pp_cast(struct mptcp_subflow_context, (const char *)node - bpf_core_field_offset(struct mptcp_subflow_context, node));
		other = pp_cast(struct tcp_sock, subflow->tcp_sock);
		state = other->inet_conn.icsk_inet.sk.__sk_common.skc_state;
		pp_read_sibling(other, BPF_CORE_READ_BITFIELD(&other->inet_conn, icsk_ca_state), state == PP_TCP_ESTABLISHED || state == PP_TCP_CLOSE_WAIT,
				other->inet_conn.icsk_ca_ops == tp->inet_conn.icsk_ca_ops, &view->at[i]);
		if ((__u64)other == (__u64)tp)
			view->self = i;
		view->len = i + 1;
		node = node->next;
	}
	/* A subflow beyond the bound, or not yet in the list, is on its own. */
	return view->self < view->len ? view : NULL;
}
#else
static __always_inline const struct pp_siblings *pp_read_siblings(struct tcp_sock *tp)
{
	(void)tp;
	return NULL;
}
#endif

/* Runs `call` with a pp_ctx `c` of this socket; `view` is the view of the siblings. */
#define PP_WITH_FLOW(sk, view, call)						\
	struct tcp_sock *tp = (struct tcp_sock *)(sk);				\
	struct pp_flow flow, before;						\
	struct pp_ctx c = { &flow, tp->inet_conn.icsk_ca_priv, (view) };	\
	pp_read_flow(tp, &flow);						\
	before = flow;								\
	call;									\
	pp_write_flow(tp, &flow, &before)

#if defined(PP_HAS_init) || defined(PP_COUPLED) || defined(PP_NEEDS_ECN)
SEC("struct_ops/init")
void BPF_PROG(pp_init, struct sock *sk)
{
#ifdef PP_COUPLED
	pp_begin_losses((struct tcp_sock *)sk);
#endif
#ifdef PP_NEEDS_ECN
	struct tcp_sock *socket = (struct tcp_sock *)sk;
	__u8 state = sk->__sk_common.skc_state;

	/* Not agreed to: packets must not say that they may be marked. */
	if (!(socket->ecn_flags & PP_TCP_ECN_OK) && state != PP_TCP_LISTEN && state != PP_TCP_CLOSE) {
		char reno[] = "reno";

		bpf_setsockopt(sk, PP_SOL_TCP, PP_TCP_CONGESTION, reno, sizeof(reno));
		return;
	}
	socket->inet_conn.icsk_ca_priv[PP_WORD_MARKS] = socket->rcv_nxt;
#endif
#ifdef PP_HAS_init
	PP_WITH_FLOW(sk, NULL, PP_OPS.init(&c));
#endif
}
#define PP_HAS_INIT 1
#endif

#ifdef PP_HAS_release
SEC("struct_ops/release")
void BPF_PROG(pp_release, struct sock *sk)
{
	PP_WITH_FLOW(sk, NULL, PP_OPS.release(&c));
}
#endif

SEC("struct_ops/ssthresh")
__u32 BPF_PROG(pp_ssthresh, struct sock *sk)
{
	__u32 ssthresh;
	PP_WITH_FLOW(sk, pp_read_siblings(tp), ssthresh = PP_OPS.ssthresh(&c));
	return ssthresh;
}

#ifdef PP_HAS_cong_avoid
/* BPF cannot have the kernel enter CWR: the reduction takes place at once, and is over. */
static __always_inline void pp_reduce(struct pp_ctx *c)
{
#ifdef PP_REDUCES
	if (!c->flow->reduce)
		return;
	c->flow->ssthresh = PP_OPS.ssthresh(c);
	c->flow->cwnd = c->flow->ssthresh;
	c->flow->cwnd_cnt = 0;
#ifdef PP_HAS_cwnd_event
	PP_OPS.cwnd_event(c, PP_EVENT_COMPLETE_CWR);
#endif
#endif
}

SEC("struct_ops/cong_avoid")
void BPF_PROG(pp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	PP_WITH_FLOW(sk, pp_read_siblings(tp), PP_OPS.cong_avoid(&c, ack, acked); pp_reduce(&c));
}
#endif

#if defined(PP_HAS_set_state) || defined(PP_COUPLED)
SEC("struct_ops/set_state")
void BPF_PROG(pp_set_state, struct sock *sk, __u8 new_state)
{
#ifdef PP_COUPLED
	pp_note_loss((struct tcp_sock *)sk, new_state);
#endif
#ifdef PP_HAS_set_state
	PP_WITH_FLOW(sk, NULL, PP_OPS.set_state(&c, new_state));
#endif
}
#define PP_HAS_SET_STATE 1
#endif

#ifdef PP_HAS_cwnd_event
static __always_inline void pp_read_last_sent(const struct tcp_sock *tp, struct pp_flow *f)
{
	if (pp_tick_ns)
		f->last_sent_ns = f->now_ns - (__u64)((__u32)bpf_jiffies64() - tp->lsndtime) * pp_tick_ns;
}

SEC("struct_ops/cwnd_event")
void BPF_PROG(pp_cwnd_event, struct sock *sk, __u32 event)
{
#ifdef PP_NEEDS_ECN
	if (event == PP_EVENT_ECN_NO_CE || event == PP_EVENT_ECN_IS_CE)
		pp_note_mark((struct tcp_sock *)sk, event);
#endif
	PP_WITH_FLOW(sk, NULL, pp_read_last_sent(tp, &flow); PP_OPS.cwnd_event(&c, event));
}

/* 7.x tells this event by a hook of its own, and cwnd_event no more. */
SEC("?struct_ops/cwnd_event_tx_start")
void BPF_PROG(pp_cwnd_event_tx_start, struct sock *sk)
{
	PP_WITH_FLOW(sk, NULL, pp_read_last_sent(tp, &flow); PP_OPS.cwnd_event(&c, PP_EVENT_TX_START));
}
#endif

#ifdef PP_HAS_in_ack_event
SEC("struct_ops/in_ack_event")
void BPF_PROG(pp_in_ack_event, struct sock *sk, __u32 flags)
{
	PP_WITH_FLOW(sk, NULL, PP_OPS.in_ack_event(&c, flags));
}
#endif

#ifdef PP_HAS_pkts_acked
SEC("struct_ops/pkts_acked")
void BPF_PROG(pp_pkts_acked, struct sock *sk, const struct ack_sample *acked)
{
	struct pp_sample sample = { 0 };

	sample.rtt_us = acked->rtt_us;
	sample.pkts_acked = acked->pkts_acked;
	sample.prior_delivered = pp_prior_delivered((struct tcp_sock *)sk, acked->in_flight);
	PP_WITH_FLOW(sk, NULL, PP_OPS.pkts_acked(&c, &sample));
}
#endif

SEC("struct_ops/undo_cwnd")
__u32 BPF_PROG(pp_undo_cwnd, struct sock *sk)
{
	__u32 cwnd;
	PP_WITH_FLOW(sk, NULL, cwnd = PP_OPS.undo_cwnd(&c));
	return cwnd;
}

#ifdef PP_HAS_cong_control
SEC("struct_ops/cong_control")
void BPF_PROG(pp_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	__u32 flags = pp_ack_flags(flag);
	struct pp_sample sample = { 0 };

	sample.prior_ns = rs->prior_mstamp * 1000;
	sample.interval_us = rs->interval_us;
	sample.rtt_us = rs->rtt_us;
	sample.prior_delivered = rs->prior_delivered;
	sample.delivered = rs->delivered;
	sample.losses = rs->losses;
	sample.acked_sacked = rs->acked_sacked;
	sample.pkts_acked = rs->acked_sacked;
	sample.prior_in_flight = rs->prior_in_flight;
	sample.last_end_seq = bpf_core_field_exists(rs->last_end_seq) ? rs->last_end_seq : ((struct tcp_sock *)sk)->snd_una;
	sample.is_app_limited = rs->is_app_limited;
	sample.is_retrans = rs->is_retrans;
	sample.is_ack_delayed = rs->is_ack_delayed;
	sample.is_ece = !!(flags & PP_ACK_ECE);
	PP_WITH_FLOW(sk, pp_read_siblings(tp), PP_OPS.cong_control(&c, ack, flags, &sample));
}
#endif

#ifdef PP_HAS_sndbuf_expand
SEC("struct_ops/sndbuf_expand")
__u32 BPF_PROG(pp_sndbuf_expand, struct sock *sk)
{
	__u32 windows;
	PP_WITH_FLOW(sk, NULL, windows = PP_OPS.sndbuf_expand(&c));
	return windows;
}
#endif

#ifdef PP_HAS_min_tso_segs
SEC("struct_ops/min_tso_segs")
__u32 BPF_PROG(pp_min_tso_segs, struct sock *sk)
{
	__u32 segments;
	PP_WITH_FLOW(sk, NULL, segments = PP_OPS.min_tso_segs(&c));
	return segments;
}
#endif

#ifdef PP_NEEDS_ECN
#define PP_OPS_FLAGS (PP_TCP_CONG_NON_RESTRICTED | PP_TCP_CONG_NEEDS_ECN)
#else
#define PP_OPS_FLAGS PP_TCP_CONG_NON_RESTRICTED
#endif

SEC(".struct_ops")
struct tcp_congestion_ops PP_CAT(pp_, PP_ALG) = {
#include "pp_table.h"
};

#ifdef PP_HAS_cwnd_event
/* The table of kernels with the hook cwnd_event_tx_start. Whoever loads an object creates one of
 * the two (crates/bpf/src/kernel.rs); without a choice it is the first. */
SEC("?.struct_ops")
struct tcp_congestion_ops___tx_start PP_CAT(px_, PP_ALG) = {
#include "pp_table.h"
	.cwnd_event_tx_start = (void *)pp_cwnd_event_tx_start,
};
#endif
