/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * H-TCP.
 *
 * Idea. The longer the last loss is past, the faster the window grows: for a second as Reno, so
 * that small windows share with Reno, then faster and faster, so that large ones recover in
 * seconds. A loss leaves as much of the window as empties the queue, if the rate shows that the
 * flow was not alone to blame.
 *
 * Source. D. Leith, R. Shorten: "H-TCP: TCP for high-speed and long-distance networks", PFLDnet
 * 2004; draft-leith-tcp-htcp-06. With D the seconds since the last loss:
 *
 *	a round trip adds	alpha = 2 (1 - beta) (1 + 10 (D - 1) + ((D - 1) / 2)^2) segments, 2 (1 - beta) in the first second
 *				times the RTT over 100 ms, between 1/10 and 2 (RTT scaling)
 *	a loss leaves		beta = least RTT / largest RTT, between 0.5 and 0.8; 0.5 if the rate before it differs by more than a fifth from that before the last loss
 *
 * Differences from the draft, as in Linux: the factor of alpha is a whole number, at least 1,
 * before and after RTT scaling; beta is above 0.5 only where the least RTT is above 12 ms; after a
 * loss that changed the rate one more passes at 0.5; alpha changes only when the window does; in
 * Open each ACK counts what it acknowledged, otherwise one segment; the largest RTT rises by at
 * most 20 ms at once and fades by 5 % of what it exceeds the least one at each loss; time and RTTs
 * are in ticks. Differences from Linux: none known but that products have 64 bits (Linux: they wrap
 * after 524 s without a loss).
 */
#include "pp_math.h"

/* alpha and beta are in 1/128. */
#define HTCP_SHIFT 7
#define HTCP_ONE (1U << HTCP_SHIFT)
/* Bounds of what a loss leaves, 1/128. Raising the upper one keeps more of the link busy, and
 * makes room for others more slowly. */
#define HTCP_BETA_MIN 64
#define HTCP_BETA_MAX 102
/* For how long growth is Reno's after a loss, ticks. Raising it is fairer to Reno at larger
 * windows, and fills fast paths later. */
#define HTCP_RENO_TICKS PP_TICKS_PER_S
/* The RTT at which growth is the paper's, in 1/8 of ticks: 100 ms. */
#define HTCP_REFERENCE (PP_TICKS_PER_S * 8 / 10)
/* Bounds of reference over RTT, 1/8: paths below 10 ms count as 10 ms, those above 200 ms as
 * 200 ms. */
#define HTCP_SCALE_MIN 4
#define HTCP_SCALE_MAX 80
/* A quotient of RTTs means something where the least one is above this, ticks (10 ms, rounded
 * up). */
#define HTCP_JUDGED_RTT 3
/* Most by which one sample may raise the largest RTT, ticks. Raising it follows new routes at
 * once, and believes single late ACKs. */
#define HTCP_RTT_STEP (PP_TICKS_PER_S / 50)
/* What each loss leaves of the largest RTT beyond the least one, percent. */
#define HTCP_FADE 95
/* Round trips after a loss in which the rate is taken anew instead of smoothed. */
#define HTCP_FRESH_ROUNDS 3

struct htcp_state {
	__u32 alpha;		/* segments a round trip, 1/128 */
	__u32 beta;		/* 1/128 */
	__u32 acked;		/* segments that the next ACK counts */
	__u32 least_rtt;	/* ticks; 0 = none yet */
	__u32 largest_rtt;	/* ticks */
	__u32 loss_tick;	/* the last loss; growth is by the time since then */
	__u32 rate;		/* segments/s, smoothed */
	__u32 largest_rate;	/* since the last loss */
	__u32 before_rate;	/* largest_rate as of the last loss */
	__u32 segments;		/* acknowledged in the sample of the rate */
	__u32 sample_tick;	/* when that began */
	__u32 undo_loss_tick;	/* what to return to if the loss was none */
	__u32 undo_largest_rtt;
	__u32 undo_before_rate;
	__u8  can_undo;
	__u8  judges;		/* the next loss may leave more than half */
};

PP_STATE_FITS(struct htcp_state);

static void htcp_update_alpha(struct htcp_state *s, __u32 now)
{
	__u32 since = now - s->loss_tick;
	__u64 factor = 1;

	if (since > HTCP_RENO_TICKS) {
		__u64 t = since - HTCP_RENO_TICKS, half = t / 2;

		/* In ticks: 1 + 10 t/HZ + (t/2)^2 / HZ^2; t below 2^32. */
		factor = 1 + (10 * t + half * half / PP_TICKS_PER_S) / PP_TICKS_PER_S;
	}
	if (s->least_rtt) {
		__u32 scale = pp_clamp(HTCP_REFERENCE / s->least_rtt, HTCP_SCALE_MIN, HTCP_SCALE_MAX);

		factor = pp_max64(factor * 8 / scale, 1);
	}
	/* A day without a loss makes a factor of 2^31. */
	s->alpha = (__u32)pp_min64(2 * factor * (HTCP_ONE - s->beta), ~0U);
}

static void htcp_update_beta(struct htcp_state *s)
{
	__u64 rate = 5ULL * s->largest_rate, before = s->before_rate;

	s->before_rate = s->largest_rate;
	if (rate < 4 * before || rate > 6 * before) {
		s->beta = HTCP_BETA_MIN;
		s->judges = 0;
	} else if (s->judges && s->least_rtt > HTCP_JUDGED_RTT && s->largest_rtt) {
		s->beta = pp_clamp((__u32)(((__u64)s->least_rtt << HTCP_SHIFT) / s->largest_rtt), HTCP_BETA_MIN, HTCP_BETA_MAX);
	} else {
		s->beta = HTCP_BETA_MIN;
		s->judges = 1;
	}
}

static void htcp_see_rtt(struct htcp_state *s, const struct pp_flow *f, __u32 rtt)
{
	if (!s->least_rtt || rtt < s->least_rtt)
		s->least_rtt = rtt;
	if (f->ca_state != PP_CA_OPEN)
		return;
	s->largest_rtt = pp_max(s->largest_rtt, s->least_rtt);
	if (rtt > s->largest_rtt && rtt <= s->largest_rtt + HTCP_RTT_STEP)
		s->largest_rtt = rtt;
}

/* Ends a sample of the rate once a window, but for one increase, and a round trip have passed. */
static void htcp_see_rate(struct htcp_state *s, const struct pp_flow *f, __u32 now)
{
	__u32 increase = pp_max(s->alpha >> HTCP_SHIFT, 1), ticks = now - s->sample_tick, sample;

	if (f->cwnd < increase || s->segments < f->cwnd - increase || !s->least_rtt || ticks < s->least_rtt)
		return;
	sample = (__u32)((__u64)s->segments * PP_TICKS_PER_S / ticks);
	if ((now - s->loss_tick) / s->least_rtt <= HTCP_FRESH_ROUNDS) {
		s->rate = sample;
		s->largest_rate = sample;
	} else {
		s->rate = (__u32)((3ULL * s->rate + sample) / 4);
		s->largest_rate = pp_max(s->largest_rate, s->rate);
	}
	s->segments = 0;
	s->sample_tick = now;
}

static void htcp_init(struct pp_ctx *c)
{
	struct htcp_state *s = c->priv;

	*s = (struct htcp_state){ 0 };
	s->alpha = HTCP_ONE;
	s->beta = HTCP_BETA_MIN;
	s->acked = 1;
	s->loss_tick = pp_tick(c->flow->now_ns);
	/* Linux begins the first sample when the machine starts: it finds a rate of next to nothing. */
	s->sample_tick = s->loss_tick - (1U << 31);
}

static __u32 htcp_ssthresh(struct pp_ctx *c)
{
	struct htcp_state *s = c->priv;

	htcp_update_beta(s);
	htcp_update_alpha(s, pp_tick(c->flow->now_ns));
	if (s->least_rtt && s->largest_rtt > s->least_rtt)
		s->largest_rtt = s->least_rtt + (__u32)((__u64)(s->largest_rtt - s->least_rtt) * HTCP_FADE / 100);
	return pp_max((__u32)((__u64)c->flow->cwnd * s->beta >> HTCP_SHIFT), 2);
}

static void htcp_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	struct htcp_state *s = c->priv;
	struct pp_flow *f = c->flow;

	(void)ack;
	if (!pp_is_cwnd_limited(f))
		return;
	if (pp_in_slow_start(f)) {
		pp_slow_start(f, acked);
		return;
	}
	if (((__u64)f->cwnd_cnt * s->alpha >> HTCP_SHIFT) >= f->cwnd) {
		f->cwnd = pp_max(f->cwnd, pp_min(f->cwnd + 1, f->cwnd_clamp));
		f->cwnd_cnt = 0;
		htcp_update_alpha(s, pp_tick(f->now_ns));
	} else {
		f->cwnd_cnt += s->acked;
	}
	s->acked = 1;
}

static void htcp_set_state(struct pp_ctx *c, __u32 new_state)
{
	struct htcp_state *s = c->priv;
	__u32 now = pp_tick(c->flow->now_ns);

	if (new_state >= PP_CA_CWR) {
		s->undo_loss_tick = s->loss_tick;
		s->undo_largest_rtt = s->largest_rtt;
		s->undo_before_rate = s->before_rate;
		s->can_undo = 1;
		s->loss_tick = now;
	} else if (new_state == PP_CA_OPEN && s->can_undo) {
		s->loss_tick = now;
		s->can_undo = 0;
	}
}

static void htcp_pkts_acked(struct pp_ctx *c, const struct pp_sample *sample)
{
	struct htcp_state *s = c->priv;
	const struct pp_flow *f = c->flow;
	__u32 now = pp_tick(f->now_ns);

	if (f->ca_state == PP_CA_OPEN)
		s->acked = sample->pkts_acked;
	if (sample->rtt_us > 0)
		htcp_see_rtt(s, f, pp_ticks((__u32)sample->rtt_us));
	if (f->ca_state > PP_CA_DISORDER) {
		s->segments = 0;
		s->sample_tick = now;
		return;
	}
	s->segments += sample->pkts_acked;
	htcp_see_rate(s, f, now);
}

static __u32 htcp_undo_cwnd(struct pp_ctx *c)
{
	struct htcp_state *s = c->priv;

	if (s->can_undo) {
		s->loss_tick = s->undo_loss_tick;
		s->largest_rtt = s->undo_largest_rtt;
		s->before_rate = s->undo_before_rate;
		s->can_undo = 0;
	}
	return pp_undo(c->flow);
}

PP_CC_REGISTER(htcp) = {
	.name = "htcp",
	.priv_bytes = sizeof(struct htcp_state),
	.init = htcp_init,
	.ssthresh = htcp_ssthresh,
	.cong_avoid = htcp_cong_avoid,
	.set_state = htcp_set_state,
	.pkts_acked = htcp_pkts_acked,
	.undo_cwnd = htcp_undo_cwnd,
};

PP_CC_ABOUT(htcp) = {
	.family = PP_FAMILY_HYBRID,
	.source = "Leith, Shorten, PFLDnet 2004; draft-leith-tcp-htcp-06",
	.counterpart = "htcp",
	.aliases = "h-tcp hamilton-tcp",
};
