/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Lowest RTT first.
 *
 * Idea. The subflow with the lowest smoothed RTT among those whose congestion window has room;
 * backup subflows only when no other subflow exists that could be used at all, even later.
 *
 * Source. C. Raiciu et al.: "How hard can it be? Designing and implementing a deployable Multipath
 * TCP", NSDI 2012; the default of MPTCP 0.96.
 *
 * Differences from MPTCP 0.96: none known.
 */
#include "pp_choose.h"

static __u32 minrtt_pick(struct pp_sched_ctx *c, struct pp_choice *choice)
{
	return pp_pick_fastest(c, choice);
}

PP_SCHED_REGISTER(minrtt) = {
	.name = "minrtt",
	.pick = minrtt_pick,
};

PP_SCHED_ABOUT(minrtt) = {
	.what = "lowest RTT with room in its window: the default of MPTCP 0.96",
};
