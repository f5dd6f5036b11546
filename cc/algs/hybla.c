/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * TCP Hybla.
 *
 * Idea. Reno grows by segments a round trip, so a flow over a satellite gets less than one over a
 * cable. Hybla grows as a Reno flow with an RTT of 25 ms would in the same time: rho = RTT / 25 ms,
 * one for shorter paths, says how many of that flow's round trips one round trip here lasts.
 *
 * Source. C. Caini, R. Firrincieli: "TCP Hybla: a TCP enhancement for heterogeneous networks", Int.
 * J. Satellite Communications and Networking 22, 2004, section 3:
 *
 *	for each ACK in slow start			cwnd += 2^rho - 1
 *	for each ACK in congestion avoidance		cwnd += rho^2 / cwnd
 *
 * Differences from the paper, as in Linux: an ACK counts once, however much it acknowledges; rho
 * counts in eighths and follows the least smoothed RTT, which is looked at on ACKs in Open and
 * Disorder; 2^rho is cut to 1/128 and rho in it stops at 16; outside of Open growth is Reno's; the
 * first window is rho segments instead of the transport's, so a short path starts with one; a
 * window is at most 65535 segments. No packet spacing and no bandwidth estimate (the paper's
 * section 5). Differences from Linux: none known.
 */
#include "pp_math.h"

/* RTT of the flow that Hybla grows like, us. Raising it makes Hybla gentler on long paths, up to
 * Reno where it exceeds their RTT. */
#define HYBLA_REFERENCE_US 25000
/* Largest rho that counts in slow start. Raising it lets a window leap further on one ACK. */
#define HYBLA_MAX_LEAP 16
/* Largest window, segments. */
#define HYBLA_MAX_WINDOW 65535
/* Windows grow in 1/128 segments. */
#define HYBLA_SHIFT 7
#define HYBLA_ONE (1U << HYBLA_SHIFT)

/* 2^(n/8) in 1/128, rounded down. */
PP_TABLE __u32 hybla_power[8] = { 128, 139, 152, 165, 181, 197, 215, 234 };

struct hybla_state {
	__u32 rho;		/* RTT / reference, 1/8, at least 8 */
	__u32 least_rtt_us;	/* smoothed RTT that rho is of, times 8 */
	__u32 part;		/* growth that has not made a segment yet, 1/128 */
	__u8  off;		/* not in Open: grows as Reno */
};

PP_STATE_FITS(struct hybla_state);

static void hybla_measure(struct hybla_state *s, const struct pp_flow *f)
{
	s->least_rtt_us = f->srtt_us;
	/* srtt_us counts eighths as rho does. */
	s->rho = pp_max(f->srtt_us / HYBLA_REFERENCE_US, 8);
}

/* Growth of one ACK, 1/128 segments. rho is below 2^32 / 25000 < 2^18, so its square times 2 is
 * below 2^37. */
static __u64 hybla_increase(const struct hybla_state *s, const struct pp_flow *f)
{
	if (pp_in_slow_start(f))
		return ((__u64)hybla_power[s->rho & 7] << pp_min(s->rho >> 3, HYBLA_MAX_LEAP)) - HYBLA_ONE;
	/* (rho/8)^2 * 128 = 2 rho^2 */
	return 2 * (__u64)s->rho * s->rho / pp_max(f->cwnd, 1);
}

static void hybla_init(struct pp_ctx *c)
{
	struct hybla_state *s = c->priv;

	*s = (struct hybla_state){ 0 };
	hybla_measure(s, c->flow);
	c->flow->cwnd = pp_min(s->rho >> 3, HYBLA_MAX_WINDOW);
}

static __u32 hybla_ssthresh(struct pp_ctx *c)
{
	return pp_half(c->flow);
}

static void hybla_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	struct hybla_state *s = c->priv;
	struct pp_flow *f = c->flow;
	__u32 most = pp_min(f->cwnd_clamp, HYBLA_MAX_WINDOW);
	__u64 increase, grown;

	(void)ack;
	if (f->srtt_us < s->least_rtt_us)
		hybla_measure(s, f);
	if (!pp_is_cwnd_limited(f))
		return;
	if (s->off) {
		pp_reno_cong_avoid(f, acked);
		return;
	}
	increase = hybla_increase(s, f);
	if (pp_in_slow_start(f)) {
		most = pp_min(most, f->ssthresh);
	} else if (increase < HYBLA_ONE) {
		/* A window beyond 128 rho^2 would not grow by parts at all: then one segment a round trip. */
		f->cwnd_cnt++;
		if (!increase && f->cwnd_cnt >= f->cwnd) {
			f->cwnd++;
			f->cwnd_cnt = 0;
		}
	}
	grown = s->part + increase;
	if (s->part + (increase & (HYBLA_ONE - 1)) >= HYBLA_ONE)
		f->cwnd_cnt = 0;
	s->part = grown & (HYBLA_ONE - 1);
	f->cwnd = (__u32)pp_min64(f->cwnd + (grown >> HYBLA_SHIFT), most);
}

static void hybla_set_state(struct pp_ctx *c, __u32 new_state)
{
	struct hybla_state *s = c->priv;

	s->off = new_state != PP_CA_OPEN;
}

static __u32 hybla_undo_cwnd(struct pp_ctx *c)
{
	return pp_undo(c->flow);
}

PP_CC_REGISTER(hybla) = {
	.name = "hybla",
	.priv_bytes = sizeof(struct hybla_state),
	.init = hybla_init,
	.ssthresh = hybla_ssthresh,
	.cong_avoid = hybla_cong_avoid,
	.set_state = hybla_set_state,
	.undo_cwnd = hybla_undo_cwnd,
};

PP_CC_ABOUT(hybla) = {
	.family = PP_FAMILY_LOSS,
	.source = "Caini, Firrincieli, Int. J. Satellite Communications and Networking 22, 2004",
	.counterpart = "hybla",
};
