/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Reno.
 *
 * Idea. Double the window every round trip until something is lost or ssthresh is reached; from
 * there add one segment a round trip; on loss halve the window.
 *
 * Source. RFC 5681 (section 3.1), with the counting in segments of RFC 3465, L = unlimited.
 *
 * Differences from the RFC: ssthresh is half of the congestion window, not of the flight size,
 * because the transport does not let a window grow that the flow does not use. Differences from
 * Linux: none known.
 */
#include "pp_math.h"

static __u32 reno_ssthresh(struct pp_ctx *c)
{
	return pp_half(c->flow);
}

static void reno_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	(void)ack;
	pp_reno_cong_avoid(c->flow, acked);
}

static __u32 reno_undo_cwnd(struct pp_ctx *c)
{
	return pp_undo(c->flow);
}

PP_CC_REGISTER(reno) = {
	.name = "reno",
	.ssthresh = reno_ssthresh,
	.cong_avoid = reno_cong_avoid,
	.undo_cwnd = reno_undo_cwnd,
};

PP_CC_ABOUT(reno) = {
	.family = PP_FAMILY_LOSS,
	.source = "RFC 5681",
	.counterpart = "reno",
	.aliases = "newreno",
};
