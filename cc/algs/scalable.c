/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Scalable TCP.
 *
 * Idea. Reno needs a number of round trips in proportion to its window to win back what a loss
 * took, and on a fast long path these are hours. Scalable TCP grows by a fixed part of the window a
 * round trip and loses a fixed part on loss, so the number of round trips between losses is the
 * same at every window: some 13.4.
 *
 * Source. T. Kelly: "Scalable TCP: improving performance in highspeed wide area networks", ACM
 * SIGCOMM CCR 33(2), 2003, sections 2 and 3:
 *
 *	for each segment acknowledged		cwnd += a, a = 0.01
 *	on loss					cwnd -= b cwnd, b = 1/8
 *
 * Differences from the paper, as in Linux: the paper is Reno up to a legacy window of 16 segments,
 * in growth and in reduction. Here growth is Reno's up to 1/a = 100 segments, where both are equal,
 * and a loss takes an eighth of every window. The reduced window is at least two segments.
 * Differences from Linux: none known.
 */
#include "pp_math.h"

/* Segments to acknowledge for an increase of one: 1/a. Raising it grows more slowly and
 * overshoots less, and makes Reno's region larger. */
#define SCALABLE_SEGMENTS 100
/* A loss takes cwnd / 2^this: b. Raising it keeps more of the link busy after a loss, and makes
 * room for others more slowly. */
#define SCALABLE_BETA_SHIFT 3

static __u32 scalable_ssthresh(struct pp_ctx *c)
{
	__u32 cwnd = c->flow->cwnd;

	return pp_max(cwnd - (cwnd >> SCALABLE_BETA_SHIFT), 2);
}

static void scalable_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	struct pp_flow *f = c->flow;

	(void)ack;
	if (!pp_is_cwnd_limited(f))
		return;
	if (pp_in_slow_start(f)) {
		acked = pp_slow_start(f, acked);
		if (!acked)
			return;
	}
	pp_cong_avoid_ai(f, pp_clamp(f->cwnd, 1, SCALABLE_SEGMENTS), acked);
}

static __u32 scalable_undo_cwnd(struct pp_ctx *c)
{
	return pp_undo(c->flow);
}

PP_CC_REGISTER(scalable) = {
	.name = "scalable",
	.ssthresh = scalable_ssthresh,
	.cong_avoid = scalable_cong_avoid,
	.undo_cwnd = scalable_undo_cwnd,
};

PP_CC_ABOUT(scalable) = {
	.family = PP_FAMILY_LOSS,
	.source = "Kelly, CCR 33(2), 2003",
	.counterpart = "scalable",
	.aliases = "stcp scalable-tcp",
};
