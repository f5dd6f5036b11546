/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What both builds for a kernel do with a socket: the fields that BPF's view of the kernel's
 * structures (cc/bpf/pp_kernel.h) and the kernel's own headers name alike. Each glue includes this
 * behind its structures; what they reach in different ways stays there.
 */
#ifndef PP_SOCKET_H
#define PP_SOCKET_H

/* Words of icsk_ca_priv behind the algorithm's state. */
#define PP_WORD_LAST_LOSS 11	/* bytes acknowledged until the last loss */
#define PP_WORD_PRIOR_LOSS 12	/* and until the one before */
/* The same word of algorithms with PP_CC_NEEDS_ECN, which are not coupled. */
#define PP_WORD_MARKS 12	/* the sequence number received up to when the last data came, and 2^32 if that was marked */
_Static_assert(PP_CC_STATE_BYTES == PP_WORD_LAST_LOSS * 8, "the glue's words begin where the algorithm's end");

/* Bits of tcp_sock.ecn_flags and of icsk_ack.pending that the kernel's headers for BPF do not
 * have. */
#define PP_ECN_DEMAND_CWR 4
#define PP_ACK_PENDING_TIMER 2
#define PP_ACK_PENDING_NOW 16

/* The flags of tcp_input.c that concern us; it does not export them. */
#define PP_FLAG_WIN_UPDATE 0x02
#define PP_FLAG_ECE 0x40
#define PP_FLAG_SLOWPATH 0x100

static __always_inline __u32 pp_ack_flags(int flag)
{
	return (flag & PP_FLAG_SLOWPATH ? PP_ACK_SLOWPATH : 0) | (flag & PP_FLAG_WIN_UPDATE ? PP_ACK_WIN_UPDATE : 0) |
	       (flag & PP_FLAG_ECE ? PP_ACK_ECE : 0);
}

/* What was delivered while the most recently sent of the segments now acknowledged was in
 * flight; pkts_acked is told it in bytes. */
static __always_inline __u32 pp_prior_delivered(const struct tcp_sock *tp, __u32 in_flight)
{
	return tp->delivered - in_flight / (tp->mss_cache | !tp->mss_cache);
}

static __always_inline void pp_read_counters(const struct tcp_sock *tp, struct pp_flow *f)
{
	f->now_ns = tp->tcp_mstamp * 1000;
	f->delivered_ns = tp->delivered_mstamp * 1000;
	f->bytes_acked = tp->bytes_acked;
	f->next_send_ns = tp->tcp_wstamp_ns;
	f->cwnd = tp->snd_cwnd;
	f->cwnd_cnt = tp->snd_cwnd_cnt;
	f->cwnd_clamp = tp->snd_cwnd_clamp;
	f->ssthresh = tp->snd_ssthresh;
	f->prior_cwnd = tp->prior_cwnd;
	f->mss = tp->mss_cache;
	f->srtt_us = tp->srtt_us;
	f->mdev_us = tp->mdev_us;
	f->min_rtt_us = tp->rtt_min.s[0].v;
	f->in_flight = tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
	f->packets_out = tp->packets_out;
	f->max_packets_out = tp->max_packets_out;
	f->delivered = tp->delivered;
	f->delivered_ce = tp->delivered_ce;
	f->lost = tp->lost;
	f->snd_una = tp->snd_una;
	f->snd_nxt = tp->snd_nxt;
	f->write_seq = tp->write_seq;
	f->app_limited = tp->app_limited;
	f->reordering = tp->reordering;
	f->ts_peer = tp->rx_opt.rcv_tsval;
	f->ts_echo = tp->rx_opt.rcv_tsecr;
}

/* `same`: whether the subflow runs this algorithm; the state of another would be misread. */
static __always_inline void pp_read_sibling(const struct tcp_sock *tp, __u8 ca_state, int open, int same, struct pp_sibling *s)
{
	const struct inet_connection_sock *icsk = &tp->inet_conn;

	s->cwnd = tp->snd_cwnd;
	s->ssthresh = tp->snd_ssthresh;
	s->srtt_us = tp->srtt_us;
	s->mss = tp->mss_cache;
	s->ca_state = ca_state;
	s->in_recovery = ca_state >= PP_CA_RECOVERY;
	s->usable = open && s->srtt_us;
	s->bytes_since_loss = 0;
	s->bytes_between_losses = 0;
	s->priv_word = 0;
	if (same) {
		s->bytes_since_loss = tp->bytes_acked - icsk->icsk_ca_priv[PP_WORD_LAST_LOSS];
		s->bytes_between_losses = icsk->icsk_ca_priv[PP_WORD_LAST_LOSS] - icsk->icsk_ca_priv[PP_WORD_PRIOR_LOSS];
		s->priv_word = icsk->icsk_ca_priv[0];
	}
}

static __always_inline void pp_begin_losses(struct tcp_sock *tp)
{
	tp->inet_conn.icsk_ca_priv[PP_WORD_LAST_LOSS] = tp->bytes_acked;
	tp->inet_conn.icsk_ca_priv[PP_WORD_PRIOR_LOSS] = tp->bytes_acked;
}

/* What OLIA needs of each subflow: a loss begins a new stretch if anything was acknowledged
 * since the last. */
static __always_inline void pp_note_loss(struct tcp_sock *tp, __u32 new_state)
{
	struct inet_connection_sock *icsk = &tp->inet_conn;
	__u64 acked = tp->bytes_acked;

	if (new_state >= PP_CA_CWR && acked != icsk->icsk_ca_priv[PP_WORD_LAST_LOSS]) {
		icsk->icsk_ca_priv[PP_WORD_PRIOR_LOSS] = icsk->icsk_ca_priv[PP_WORD_LAST_LOSS];
		icsk->icsk_ca_priv[PP_WORD_LAST_LOSS] = acked;
	}
}

static __always_inline void pp_echo_marks(struct tcp_sock *tp, __u64 marked)
{
	if (marked)
		tp->ecn_flags |= PP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~PP_ECN_DEMAND_CWR;
}

/*
 * RFC 8257 section 3.2, the receiver's half of what PP_CC_NEEDS_ECN asks for: ACKs echo whether the
 * data was marked. Where that changes, an ACK that was delayed leaves first with the old echo for
 * what came before, and then one at once.
 */
static __always_inline void pp_note_mark(struct tcp_sock *tp, __u32 event)
{
	__u64 before = tp->inet_conn.icsk_ca_priv[PP_WORD_MARKS];
	__u64 marked = event == PP_EVENT_ECN_IS_CE;

	if (before >> 32 != marked) {
		if (tp->inet_conn.icsk_ack.pending & PP_ACK_PENDING_TIMER) {
			pp_echo_marks(tp, before >> 32);
			pp_send_ack(tp, (__u32)before);
		}
		tp->inet_conn.icsk_ack.pending |= PP_ACK_PENDING_NOW;
	}
	tp->inet_conn.icsk_ca_priv[PP_WORD_MARKS] = marked << 32 | tp->rcv_nxt;
	pp_echo_marks(tp, marked);
}

#endif
