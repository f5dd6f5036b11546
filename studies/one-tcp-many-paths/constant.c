/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A window that does not change, whatever is lost: what the best of them reaches in a network shows
 * where the capacity goes. `score.py constant` makes one of each size.
 */
#include "pp_math.h"

#define CONSTANT_WINDOW 1600	/* segments */

static __u32 constant_ssthresh(struct pp_ctx *c)
{
	return c->flow->cwnd;
}

static __u32 constant_undo_cwnd(struct pp_ctx *c)
{
	return c->flow->cwnd;
}

/* It is reached by one segment for one acknowledged, also after a timeout. */
static void constant_cong_control(struct pp_ctx *c, __u32 ack, __u32 ack_flags, const struct pp_sample *s)
{
	(void)ack;
	(void)ack_flags;
	c->flow->cwnd = pp_min(pp_min(c->flow->cwnd + s->acked_sacked, CONSTANT_WINDOW), c->flow->cwnd_clamp);
}

PP_CC_REGISTER(constant) = {
	.name = "constant",
	.flags = PP_CC_SEES_SAMPLES,
	.ssthresh = constant_ssthresh,
	.undo_cwnd = constant_undo_cwnd,
	.cong_control = constant_cong_control,
};

PP_CC_ABOUT(constant) = {
	.family = PP_FAMILY_LOSS,
	.source = "studies/one-tcp-many-paths",
};
