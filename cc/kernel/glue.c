/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Makes one algorithm of cc/algs a congestion control of a kernel, built in, named pp_<name>. With
 * cc/bpf/glue.bpf.c this is the only code that knows the kernel's ops table, and it means the same.
 *
 * `polypath linux build` compiles it once for each algorithm with the flags of net/ipv4/tcp_cubic.c
 * and PP_ALG (the name), PP_ALG_FILE (the C file), and PP_KERNEL_<FEATURE> for what the release has
 * (python/polypath/linux/_features.py). It needs no change to the kernel's tree.
 *
 * A hook gets a pp_flow read from the socket; what the hook changed is written back. Everything is
 * inlined, so the compiler drops the fields that a hook does not look at. The private state is the
 * kernel's icsk_ca_priv; its last two words keep the counters that siblings need.
 *
 * Differences from the BPF glue: last_sent_ns is the kernel's own time of the last transmission (in
 * ticks) in every hook, and `random` is a hash of the socket's progress. A subflow's siblings are
 * read without the connection's lock: this kernel has one processor, does not preempt, and takes
 * timers only when it is idle or leaves a lock, so that none comes or goes meanwhile.
 */
#define PP_BUILD_KERNEL 1

#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/version.h>
#include <net/tcp.h>
#ifdef PP_KERNEL_MPTCP
#include "net/mptcp/protocol.h"
#endif

/* Releases with two kinds of ECN (AccECN, RFC 9768) have no single flag for it. */
#ifdef TCP_ECN_OK
#define PP_TCP_ECN_OK TCP_ECN_OK
#else
#define PP_TCP_ECN_OK TCP_ECN_MODE_ANY
#endif

#include PP_ALG_FILE

#define PP_CAT_(a, b) a##b
#define PP_CAT(a, b) PP_CAT_(a, b)
#define PP_STR_(a) #a
#define PP_STR(a) PP_STR_(a)
#define PP_OPS PP_CAT(pp_cc_, PP_ALG)

static __always_inline void pp_send_ack(struct tcp_sock *tp, u32 rcv_nxt)
{
	struct sock *sk = (struct sock *)tp;

	/* Vendors carried the third argument back to releases that had two. */
	if (__builtin_types_compatible_p(typeof(__tcp_send_ack), void(struct sock *, u32, u16)))
		((void (*)(struct sock *, u32, u16))(void *)__tcp_send_ack)(sk, rcv_nxt, 0);
	else
		((void (*)(struct sock *, u32))(void *)__tcp_send_ack)(sk, rcv_nxt);
}

#include "pp_socket.h"

static_assert(ICSK_CA_PRIV_SIZE >= PP_CC_PRIV_BYTES, "this kernel gives an algorithm too little room per socket");
static_assert(sizeof(PP_STR(PP_CAT(pp_, PP_ALG))) <= TCP_CA_NAME_MAX, "the algorithm's name is longer than 12 letters");

/* Every bit of the result depends on every bit of x: the finalizer of MurmurHash3. One
 * multiplication leaves near numbers near. */
static __always_inline u32 pp_mix(u64 x)
{
	x = (x ^ x >> 33) * 0xff51afd7ed558ccdULL;
	x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ULL;
	return x >> 32;
}

static __always_inline void pp_read_flow(struct sock *sk, struct pp_flow *f)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	*f = (struct pp_flow){ 0 };
	pp_read_counters(tp, f);
	/* The kernel says "not limited" as ~0, the interface as 0. */
	f->pacing_rate = sk->sk_pacing_rate == ~0UL ? 0 : sk->sk_pacing_rate;
	f->max_pacing_rate = sk->sk_max_pacing_rate;
	f->last_sent_ns = f->now_ns - jiffies_to_nsecs(tcp_jiffies32 - tp->lsndtime);
	f->ca_state = icsk->icsk_ca_state;
	f->cwnd_limited = tp->is_cwnd_limited;
	f->ecn_ok = !!(tp->ecn_flags & PP_TCP_ECN_OK);
	f->established = sk->sk_state == TCP_ESTABLISHED;
	f->pacing = sk->sk_pacing_status != SK_PACING_NONE;
	/* Sequence numbers begin at random; drawing from the kernel's generator would change what
	 * everybody else draws. */
	f->random = pp_mix(tp->tcp_mstamp ^ (u64)tp->snd_una << 32 ^ tp->snd_nxt);
}

static __always_inline void pp_write_flow(struct sock *sk, const struct pp_flow *f, const struct pp_flow *before)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (f->cwnd != before->cwnd)
		tp->snd_cwnd = max(f->cwnd, 1U);
	if (f->cwnd_cnt != before->cwnd_cnt)
		tp->snd_cwnd_cnt = f->cwnd_cnt;
	if (f->ssthresh != before->ssthresh)
		tp->snd_ssthresh = f->ssthresh;
	if (f->app_limited != before->app_limited)
		tp->app_limited = f->app_limited;
	if (f->pacing_rate != before->pacing_rate)
		WRITE_ONCE(sk->sk_pacing_rate, min_t(u64, f->pacing_rate, sk->sk_max_pacing_rate));
	if (f->pacing && !before->pacing)
		cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	/* Calls the algorithm again, which must see what it wrote. */
	if ((PP_OPS.flags & PP_CC_REDUCES) && f->reduce)
		tcp_enter_cwr(sk);
}

#ifdef PP_KERNEL_MPTCP
/* The subflows of the connection that `sk` belongs to; null for plain TCP and algorithms that do
 * not look. */
static __always_inline const struct pp_siblings *pp_read_siblings(struct sock *sk, struct pp_siblings *view)
{
	const struct mptcp_subflow_context *subflow;
	const struct inet_connection_sock *other;
	bool open;

	if (!(PP_OPS.flags & PP_CC_COUPLED) || !tcp_sk(sk)->is_mptcp)
		return NULL;
	view->len = 0;
	view->self = PP_MAX_SIBLINGS;
	list_for_each_entry(subflow, &mptcp_sk(mptcp_subflow_ctx(sk)->conn)->conn_list, node) {
		if (view->len == PP_MAX_SIBLINGS)
			break;
		if (subflow->tcp_sock == sk)
			view->self = view->len;
		other = inet_csk(subflow->tcp_sock);
		open = subflow->tcp_sock->sk_state == TCP_ESTABLISHED || subflow->tcp_sock->sk_state == TCP_CLOSE_WAIT;
		pp_read_sibling(tcp_sk(subflow->tcp_sock), other->icsk_ca_state, open, other->icsk_ca_ops == inet_csk(sk)->icsk_ca_ops, &view->at[view->len++]);
	}
	/* A subflow beyond the bound, or not yet in the list, is on its own. */
	return view->self < view->len ? view : NULL;
}
#else
static __always_inline const struct pp_siblings *pp_read_siblings(struct sock *sk, struct pp_siblings *view)
{
	return NULL;
}
#endif

/* Runs `call` with a pp_ctx `c` of this socket; `view` is the view of the siblings. */
#define PP_WITH_FLOW(sk, view, call)					\
	struct pp_flow flow, before;					\
	struct pp_ctx c = { &flow, inet_csk_ca(sk), (view) };		\
									\
	pp_read_flow(sk, &flow);					\
	before = flow;							\
	call;								\
	pp_write_flow(sk, &flow, &before)

static void pp_init(struct sock *sk)
{
	struct inet_connection_sock *icsk = inet_csk(sk);

	memset(icsk->icsk_ca_priv, 0, sizeof(icsk->icsk_ca_priv));
	if (PP_OPS.flags & PP_CC_NEEDS_ECN) {
		/* Not agreed to: packets must not say that they may be marked. */
		if (!(tcp_sk(sk)->ecn_flags & PP_TCP_ECN_OK) && sk->sk_state != TCP_LISTEN && sk->sk_state != TCP_CLOSE) {
			WRITE_ONCE(icsk->icsk_ca_ops, &tcp_reno);
			return;
		}
		icsk->icsk_ca_priv[PP_WORD_MARKS] = tcp_sk(sk)->rcv_nxt;
	} else {
		pp_begin_losses(tcp_sk(sk));
	}
	if (PP_OPS.init) {
		PP_WITH_FLOW(sk, NULL, PP_OPS.init(&c));
	}
}

static void pp_release(struct sock *sk)
{
	PP_WITH_FLOW(sk, NULL, PP_OPS.release(&c));
}

static u32 pp_ssthresh(struct sock *sk)
{
	struct pp_siblings siblings;
	u32 ssthresh;
	PP_WITH_FLOW(sk, pp_read_siblings(sk, &siblings), ssthresh = PP_OPS.ssthresh(&c));

	return ssthresh;
}

static void pp_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct pp_siblings siblings;
	PP_WITH_FLOW(sk, pp_read_siblings(sk, &siblings), PP_OPS.cong_avoid(&c, ack, acked));
}

static void pp_set_state(struct sock *sk, u8 new_state)
{
	if (!(PP_OPS.flags & PP_CC_NEEDS_ECN))
		pp_note_loss(tcp_sk(sk), new_state);
	if (PP_OPS.set_state) {
		PP_WITH_FLOW(sk, NULL, PP_OPS.set_state(&c, new_state));
	}
}

static void pp_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (PP_OPS.flags & PP_CC_NEEDS_ECN && (event == PP_EVENT_ECN_NO_CE || event == PP_EVENT_ECN_IS_CE))
		pp_note_mark(tcp_sk(sk), event);
	PP_WITH_FLOW(sk, NULL, PP_OPS.cwnd_event(&c, event));
}

#ifdef PP_KERNEL_TX_START
/* 7.x tells this event by a hook of its own, and cwnd_event no more (tcp_ca_event()). */
static void pp_cwnd_event_tx_start(struct sock *sk)
{
	pp_cwnd_event(sk, CA_EVENT_TX_START);
}
#endif

static void pp_in_ack_event(struct sock *sk, u32 flags)
{
	PP_WITH_FLOW(sk, NULL, PP_OPS.in_ack_event(&c, flags));
}

static void pp_pkts_acked(struct sock *sk, const struct ack_sample *acked)
{
	struct pp_sample sample = {
		.rtt_us = acked->rtt_us,
		.pkts_acked = acked->pkts_acked,
		.prior_delivered = pp_prior_delivered(tcp_sk(sk), acked->in_flight),
	};
	PP_WITH_FLOW(sk, NULL, PP_OPS.pkts_acked(&c, &sample));
}

static u32 pp_undo_cwnd(struct sock *sk)
{
	u32 cwnd;
	PP_WITH_FLOW(sk, NULL, cwnd = PP_OPS.undo_cwnd(&c));

	return cwnd;
}

static u32 pp_sndbuf_expand(struct sock *sk)
{
	u32 windows;
	PP_WITH_FLOW(sk, NULL, windows = PP_OPS.sndbuf_expand(&c));

	return windows;
}

static u32 pp_min_tso_segs(struct sock *sk)
{
	u32 segments;
	PP_WITH_FLOW(sk, NULL, segments = PP_OPS.min_tso_segs(&c));

	return segments;
}

static void pp_control(struct sock *sk, u32 ack, u32 ack_flags, const struct rate_sample *rs)
{
	struct pp_siblings siblings;
	struct pp_sample sample = {
		.prior_ns = rs->prior_mstamp * NSEC_PER_USEC,
		.interval_us = rs->interval_us,
		.rtt_us = rs->rtt_us,
		.prior_delivered = rs->prior_delivered,
		.delivered = rs->delivered,
		.losses = rs->losses,
		.acked_sacked = rs->acked_sacked,
		.pkts_acked = rs->acked_sacked,
		.prior_in_flight = rs->prior_in_flight,
#ifdef PP_KERNEL_LAST_END_SEQ
		.last_end_seq = rs->last_end_seq,
#else
		.last_end_seq = tcp_sk(sk)->snd_una,
#endif
		.is_app_limited = rs->is_app_limited,
		.is_retrans = rs->is_retrans,
		.is_ack_delayed = rs->is_ack_delayed,
		.is_ece = !!(ack_flags & PP_ACK_ECE),
	};
	PP_WITH_FLOW(sk, pp_read_siblings(sk, &siblings), PP_OPS.cong_control(&c, ack, ack_flags, &sample));
}

#ifdef PP_KERNEL_CONTROL_FLAGS
static void pp_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	pp_control(sk, ack, pp_ack_flags(flag), rs);
}
#else
/* Before 6.10 this hook is not told of the ACK's number and flags. */
static void pp_cong_control(struct sock *sk, const struct rate_sample *rs)
{
	pp_control(sk, tcp_sk(sk)->snd_una, 0, rs);
}
#endif

static struct tcp_congestion_ops pp_ops __read_mostly = {
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = pp_init,
	.ssthresh = pp_ssthresh,
	.set_state = pp_set_state,
	.undo_cwnd = pp_undo_cwnd,
	.name = PP_STR(PP_CAT(pp_, PP_ALG)),
	.owner = THIS_MODULE,
};

/* A hook that the algorithm lacks must be absent here too, since a null hook has a meaning. */
#define PP_TAKE(hook)			\
	do {				\
		if (PP_OPS.hook)	\
			pp_ops.hook = pp_##hook; \
	} while (0)

static int __init pp_register(void)
{
	if (PP_OPS.flags & PP_CC_NEEDS_ECN)
		pp_ops.flags |= TCP_CONG_NEEDS_ECN;
#ifdef TCP_CONG_ECT_1_NEGOTIATION
	/* The handshake alone: what follows it is ECT(0) (tcp_ecn_send). */
	if (PP_OPS.flags & PP_CC_ECT_1)
		pp_ops.flags |= TCP_CONG_ECT_1_NEGOTIATION;
#endif
	PP_TAKE(release);
	PP_TAKE(cong_avoid);
	PP_TAKE(cwnd_event);
#ifdef PP_KERNEL_TX_START
	if (PP_OPS.cwnd_event)
		pp_ops.cwnd_event_tx_start = pp_cwnd_event_tx_start;
#endif
	PP_TAKE(in_ack_event);
	PP_TAKE(pkts_acked);
	PP_TAKE(cong_control);
	PP_TAKE(sndbuf_expand);
	PP_TAKE(min_tso_segs);
	return tcp_register_congestion_control(&pp_ops);
}
late_initcall(pp_register);
