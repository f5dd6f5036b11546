/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * YeAH: yet another highspeed TCP.
 *
 * Idea. While the queue is short grow as Scalable TCP does, fast whatever the RTT; once it holds
 * too much drain it before it overflows, and grow as Reno. If the drained queue fills again round
 * after round, somebody greedy is there: then keep to a window that Reno would have, so as not to
 * starve. A loss while alone takes only what was queued.
 *
 * Source. A. Baiocchi, A. Castellani, F. Vacirca: "YeAH-TCP: Yet Another Highspeed TCP",
 * PFLDnet 2007. Once a round trip, with base the least RTT seen and rtt the least of the round's:
 *
 *	Q = (rtt - base) cwnd / rtt					segments queued
 *	Q > QMAX or rtt - base > base / phi: a congested round, Reno's growth in the next; else Scalable's, one segment for 100 acknowledged
 *	Q > QMAX: cwnd - Q, by at most half and to no less than the window that Reno is thought to have, reno_count
 *	on loss, without competitors: cwnd - max(Q, cwnd / 8); with them (rho congested rounds in a row): half
 *
 * reno_count begins at half of the window of the first congested round, grows by one every such
 * round, is halved by a loss and forgotten after zeta rounds without congestion.
 *
 * Differences from the paper, all as in Linux: the drained share of the queue is all of it; on loss
 * Q counts for half of the window at most; the rounds without congestion need not be consecutive: a
 * loss alone begins their count anew. Only rounds with three RTT samples or more are judged.
 * Differences from Linux: none known; windows beyond 2^25 segments are not cut.
 */
#include "pp_vegas.h"

/* QMAX: segments queued that are drained. Raising it fills the link better against rivals, and
 * needs and fills larger queues. */
#define YEAH_QUEUE_MAX 80
/* phi: the queueing delay is congestion above 1/phi of the least RTT. Raising it turns to Reno's
 * growth earlier. */
#define YEAH_DELAY_PART 8
/* A drain takes at most 1/2^epsilon of the window. Raising it drains less at once, and leaves
 * queues standing longer. */
#define YEAH_DRAIN_SHIFT 1
/* A loss takes at least 1/2^delta of the window. Raising it keeps more of the link after random
 * losses, and makes room for others more slowly. */
#define YEAH_LOSS_SHIFT 3
/* rho: congested rounds in a row that mean competitors. Raising it drains for longer where a
 * greedy flow only takes the room. */
#define YEAH_RIVAL_ROUNDS 16
/* zeta: rounds without congestion after which Reno's window is forgotten. Raising it is more
 * cautious after competition ended. */
#define YEAH_FORGET_ROUNDS 50
/* Segments to acknowledge for one of growth while fast: Scalable's. Raising it grows more
 * slowly. */
#define YEAH_FAST_PER 100
/* Least window, and Reno's window as long as nothing is known of it, segments. */
#define YEAH_MIN_CWND 2

struct yeah_state {
	struct pp_rounds rounds;
	__u32 queue;		/* Q of the last round judged, segments */
	__u32 congested;	/* congested rounds in a row; 0: grow fast */
	__u32 reno_cwnd;	/* what Reno's window would be, segments */
	__u32 fast_rounds;	/* rounds without congestion since the last loss */
};

PP_STATE_FITS(struct yeah_state);

static void yeah_judge(struct yeah_state *s, struct pp_flow *f)
{
	__u32 queue_us = pp_rounds_queue_us(&s->rounds);

	/* Windows below 2^32 segments, RTTs below 2^31 us: the product stays below 2^63. */
	s->queue = (__u32)((__u64)f->cwnd * queue_us / s->rounds.least_us);
	if (s->queue <= YEAH_QUEUE_MAX && queue_us <= s->rounds.base_us / YEAH_DELAY_PART) {
		s->congested = 0;
		s->fast_rounds++;
		if (s->fast_rounds > YEAH_FORGET_ROUNDS) {
			s->fast_rounds = 0;
			s->reno_cwnd = YEAH_MIN_CWND;
		}
		return;
	}
	if (s->queue > YEAH_QUEUE_MAX && f->cwnd > s->reno_cwnd) {
		f->cwnd = pp_max(f->cwnd - pp_min(s->queue, f->cwnd >> YEAH_DRAIN_SHIFT), s->reno_cwnd);
		f->ssthresh = f->cwnd;
	}
	s->reno_cwnd = s->reno_cwnd <= YEAH_MIN_CWND ? pp_half(f) : s->reno_cwnd + 1;
	s->congested++;
}

static void yeah_init(struct pp_ctx *c)
{
	struct yeah_state *s = c->priv;

	pp_rounds_init(&s->rounds, c->flow);
	s->reno_cwnd = YEAH_MIN_CWND;
}

static __u32 yeah_ssthresh(struct pp_ctx *c)
{
	struct yeah_state *s = c->priv;
	__u32 cwnd = c->flow->cwnd, cut = pp_half(c->flow);

	if (s->congested < YEAH_RIVAL_ROUNDS)
		cut = pp_max(pp_min(s->queue, cut), cwnd >> YEAH_LOSS_SHIFT);
	s->fast_rounds = 0;
	s->reno_cwnd = pp_max(s->reno_cwnd >> 1, YEAH_MIN_CWND);
	return cwnd > cut ? pp_max(cwnd - cut, YEAH_MIN_CWND) : YEAH_MIN_CWND;
}

static void yeah_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	struct yeah_state *s = c->priv;
	struct pp_flow *f = c->flow;
	int slow_start_only = 0;

	if (!pp_is_cwnd_limited(f))
		return;
	if (pp_in_slow_start(f)) {
		acked = pp_slow_start(f, acked);
		slow_start_only = !acked;
	}
	if (!slow_start_only)
		pp_cong_avoid_ai(f, s->congested ? f->cwnd : pp_min(f->cwnd, YEAH_FAST_PER), acked);
	if (pp_rounds_ends(&s->rounds, ack)) {
		if (pp_rounds_tell(&s->rounds))
			yeah_judge(s, f);
		pp_rounds_next(&s->rounds, f);
	}
}

static void yeah_set_state(struct pp_ctx *c, __u32 new_state)
{
	struct yeah_state *s = c->priv;

	pp_rounds_set_state(&s->rounds, c->flow, new_state);
}

static void yeah_cwnd_event(struct pp_ctx *c, __u32 event)
{
	struct yeah_state *s = c->priv;

	pp_rounds_cwnd_event(&s->rounds, c->flow, event);
}

static void yeah_pkts_acked(struct pp_ctx *c, const struct pp_sample *sample)
{
	struct yeah_state *s = c->priv;

	pp_rounds_sample(&s->rounds, sample);
}

static __u32 yeah_undo_cwnd(struct pp_ctx *c)
{
	return pp_undo(c->flow);
}

PP_CC_REGISTER(yeah) = {
	.name = "yeah",
	.priv_bytes = sizeof(struct yeah_state),
	.init = yeah_init,
	.ssthresh = yeah_ssthresh,
	.cong_avoid = yeah_cong_avoid,
	.set_state = yeah_set_state,
	.cwnd_event = yeah_cwnd_event,
	.pkts_acked = yeah_pkts_acked,
	.undo_cwnd = yeah_undo_cwnd,
};

PP_CC_ABOUT(yeah) = {
	.family = PP_FAMILY_HYBRID,
	.source = "Baiocchi, Castellani, Vacirca, PFLDnet 2007",
	.counterpart = "yeah",
};
