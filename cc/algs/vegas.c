/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Vegas.
 *
 * Idea. A window larger than the path holds only fills a queue, and the queue shows in the RTT. So
 * once a round trip compare the rate that the window would have at the least RTT with the rate that
 * it has, and keep between alpha and beta segments queued: the flow stops growing before it loses
 * anything. Its price: beside flows that fill queues until they overflow it yields.
 *
 * Source. L. Brakmo, L. Peterson: "TCP Vegas: end to end congestion avoidance on a global
 * internet", IEEE JSAC 13(8), 1995. Once a round trip, with base the least RTT seen and rtt the
 * least of the round's:
 *
 *	diff = (cwnd / base - cwnd / rtt) * rtt = cwnd (rtt - base) / base		segments more than the path holds
 *	in slow start: go on if diff <= gamma, else leave it with cwnd base / rtt + 1
 *	else cwnd + 1 if diff < alpha, cwnd - 1 if diff > beta
 *
 * Differences from the paper, all as in Linux: slow start doubles the window every round trip, not
 * every other; the round's least RTT, not its mean; Vegas's own retransmission rules are left to
 * the transport; diff is scaled to base, not to rtt, which makes it larger the longer the queue;
 * losses halve the window, and delay is not judged from then until the sender is Open; ssthresh is
 * kept at three quarters of the window, so that a small loss of window is slow-started back. A
 * round with two RTT samples or fewer is Reno's. Within a round nothing grows outside slow start.
 * Differences from Linux: none known; windows and RTTs whose product exceeds 2^32 do not wrap.
 */
#include "pp_vegas.h"

/* Segments to keep queued, at least. Raising it holds more bandwidth against loss-based flows,
 * and adds delay for everybody. */
#define VEGAS_ALPHA 2
/* And at most. The room between both lets the window rest; raising it costs fairness between two
 * Vegas flows. */
#define VEGAS_BETA 4
/* Segments queued at which slow start ends. Raising it fills the path sooner and overshoots
 * more. */
#define VEGAS_GAMMA 1
/* Least window, segments. */
#define VEGAS_MIN_CWND 2

struct vegas_state {
	struct pp_rounds rounds;
};

PP_STATE_FITS(struct vegas_state);

static void vegas_judge(struct vegas_state *s, struct pp_flow *f, __u32 acked)
{
	/* Windows below 2^32 segments, RTTs below 2^31 us: products below 2^63. */
	__u64 target = (__u64)f->cwnd * s->rounds.base_us / s->rounds.least_us;
	__u64 diff = (__u64)f->cwnd * pp_rounds_queue_us(&s->rounds) / s->rounds.base_us;

	if (pp_in_slow_start(f)) {
		if (diff > VEGAS_GAMMA) {
			/* The whole number below the target would leave the link idle. */
			f->cwnd = (__u32)pp_min64(f->cwnd, target + 1);
			f->ssthresh = pp_min(f->ssthresh, f->cwnd);
		} else {
			pp_slow_start(f, acked);
		}
	} else if (diff > VEGAS_BETA) {
		f->cwnd--;
		f->ssthresh = pp_min(f->ssthresh, f->cwnd);
	} else if (diff < VEGAS_ALPHA) {
		f->cwnd++;
	}
	f->cwnd = pp_clamp(f->cwnd, VEGAS_MIN_CWND, f->cwnd_clamp);
	f->ssthresh = pp_max(f->ssthresh, (f->cwnd >> 1) + (f->cwnd >> 2));
}

static void vegas_init(struct pp_ctx *c)
{
	struct vegas_state *s = c->priv;

	pp_rounds_init(&s->rounds, c->flow);
}

static __u32 vegas_ssthresh(struct pp_ctx *c)
{
	return pp_half(c->flow);
}

static void vegas_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	struct vegas_state *s = c->priv;
	struct pp_flow *f = c->flow;

	if (!s->rounds.active) {
		pp_reno_cong_avoid(f, acked);
	} else if (pp_rounds_ends(&s->rounds, ack)) {
		if (pp_rounds_tell(&s->rounds))
			vegas_judge(s, f, acked);
		else
			pp_reno_cong_avoid(f, acked);
		pp_rounds_next(&s->rounds, f);
	} else if (pp_in_slow_start(f)) {
		pp_slow_start(f, acked);
	}
}

static void vegas_set_state(struct pp_ctx *c, __u32 new_state)
{
	struct vegas_state *s = c->priv;

	pp_rounds_set_state(&s->rounds, c->flow, new_state);
}

static void vegas_cwnd_event(struct pp_ctx *c, __u32 event)
{
	struct vegas_state *s = c->priv;

	pp_rounds_cwnd_event(&s->rounds, c->flow, event);
}

static void vegas_pkts_acked(struct pp_ctx *c, const struct pp_sample *sample)
{
	struct vegas_state *s = c->priv;

	pp_rounds_sample(&s->rounds, sample);
}

static __u32 vegas_undo_cwnd(struct pp_ctx *c)
{
	return pp_undo(c->flow);
}

PP_CC_REGISTER(vegas) = {
	.name = "vegas",
	.priv_bytes = sizeof(struct vegas_state),
	.init = vegas_init,
	.ssthresh = vegas_ssthresh,
	.cong_avoid = vegas_cong_avoid,
	.set_state = vegas_set_state,
	.cwnd_event = vegas_cwnd_event,
	.pkts_acked = vegas_pkts_acked,
	.undo_cwnd = vegas_undo_cwnd,
};

PP_CC_ABOUT(vegas) = {
	.family = PP_FAMILY_DELAY,
	.source = "Brakmo, Peterson, IEEE JSAC 13(8), 1995",
	.counterpart = "vegas",
};
