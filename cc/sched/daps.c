/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Delay-aware packet scheduling.
 *
 * Idea. Data should arrive in order although paths have other delays. A subflow brings a window of
 * segments each round trip, so the times at which windows arrive are known ahead; sequence numbers
 * are dealt out in the order of these times. The slow subflow thereby sends at once what the peer
 * needs only a slow round trip later, while the fast one still has to send what comes before.
 *
 * Source. N. Kuhn et al.: "DAPS: Intelligent delay-aware packet scheduling for multipath
 * transport", IEEE ICC 2014.
 *
 * Differences from the paper: it plans for the least common multiple of the delays and then plans
 * anew; here each window takes the delay of the moment, and at most as much as the slowest
 * subflow's round trip is planned ahead. It takes half of the round trip as delay, which orders
 * windows alike. The paper's weakness stays: a plan is not changed when a path slows down. MPTCP
 * 0.96 does not have this scheduler.
 */
#include "pp_choose.h"

struct daps_state {
	__u64 clock;	/* where the plan's own clock stands, us times 8 */
};

struct daps_subflow {
	__u64 arrival;	/* when its next window arrives on that clock */
	__u64 left;	/* bytes of that window that are yet to be dealt out; 0: it has not begun */
};

PP_SCHED_STATE_FITS(struct daps_state);
PP_SCHED_SUBFLOW_FITS(struct daps_subflow);

static __u32 daps_pick(struct pp_sched_ctx *c, struct pp_choice *choice)
{
	const struct daps_state *plan = c->priv;
	const struct pp_path_view *p;
	struct daps_subflow *s, *first = 0;
	__u32 i, best = PP_NOBODY, slowest = 0;
	__u64 windows, most;
	int any_active;

	if (c->queue->end == c->queue->next)
		return 0;
	any_active = pp_any_active(c);
	for (i = 0; i < c->len; i++) {
		p = &c->paths[i];
		if (!pp_counts(p, any_active))
			continue;
		slowest = pp_max(slowest, p->srtt_us);
		s = pp_subflow_state(c, i);
		if (!s->left) {
			s->left = pp_max(p->cwnd, 1) * p->mss;
			/* A subflow that was away does not make up for it. */
			s->arrival = pp_max64(s->arrival, plan->clock) + p->srtt_us;
		}
		if (!first || s->arrival < first->arrival) {
			best = i;
			first = s;
		}
	}
	if (!first)
		return 0;
	p = &c->paths[best];
	/* As many windows as the slowest subflow's round trip holds may wait here. */
	windows = p->srtt_us ? slowest / p->srtt_us : 1;
	most = windows * p->cwnd * p->mss;
	if (!p->room || pp_minus(p->unsent, pp_window_space(p)) >= most)
		return 0;
	choice->subflow = best;
	choice->from = c->queue->next;
	choice->bytes = first->left;
	return 1;
}

static void daps_scheduled(struct pp_sched_ctx *c, const struct pp_choice *choice, __u64 bytes)
{
	struct daps_subflow *s = pp_subflow_state(c, choice->subflow);
	struct daps_state *plan = c->priv;

	s->left = pp_minus(s->left, bytes);
	plan->clock = pp_max64(plan->clock, s->arrival);
}

PP_SCHED_REGISTER(daps) = {
	.name = "daps",
	.priv_bytes = sizeof(struct daps_state),
	.subflow_bytes = sizeof(struct daps_subflow),
	.pick = daps_pick,
	.scheduled = daps_scheduled,
};

PP_SCHED_ABOUT(daps) = {
	.what = "deals out windows in the order in which they will arrive (Kuhn et al. 2014)",
};
