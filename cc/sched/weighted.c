/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Round-robin by fixed weights, segment by segment.
 *
 * Idea. The person says how the load is to be shared, `weighted 3:1` for three quarters on the
 * first subflow, whatever the paths could carry. A subflow whose turn it is and whose window is
 * full is waited for, so the slowest one for its weight sets the pace; one that cannot be used at
 * all is passed over. Subflows beyond the last weight have the last weight; without weights all
 * are equal.
 *
 * Source. Smooth weighted round-robin as web balancers have it: each turn every subflow earns its
 * weight, the richest one is chosen and pays the sum, so turns mix (a a b a, not a a a b) and
 * shares hold over every round.
 *
 * Differences from MPTCP 0.96: that has equal turns alone, there by default passing over full
 * windows (roundrobin).
 */
#include "pp_choose.h"

struct weighted_state {
	__u32 turn;	/* whose turn it is, plus one; 0: not decided */
};

struct weighted_subflow {
	__s32 credit;	/* earned and not paid, within the sum of all weights of zero */
};

PP_SCHED_STATE_FITS(struct weighted_state);
PP_SCHED_SUBFLOW_FITS(struct weighted_subflow);

/* The richest of those that count, which pays for all; the first of several. */
static __u32 weighted_turn(const struct pp_sched_ctx *c, int any_active)
{
	__u32 i, richest = PP_NOBODY;
	__s32 sum = 0, most = 0;
	struct weighted_subflow *s;

	for (i = 0; i < c->len; i++) {
		if (!pp_counts(&c->paths[i], any_active))
			continue;
		s = pp_subflow_state(c, i);
		s->credit += c->weights[i];
		sum += c->weights[i];
		if (richest == PP_NOBODY || s->credit > most) {
			richest = i;
			most = s->credit;
		}
	}
	if (richest != PP_NOBODY) {
		s = pp_subflow_state(c, richest);
		s->credit -= sum;
	}
	return richest;
}

static __u32 weighted_pick(struct pp_sched_ctx *c, struct pp_choice *choice)
{
	struct weighted_state *s = c->priv;
	int any_active;
	__u32 turn;

	if (c->queue->end == c->queue->next)
		return 0;
	any_active = pp_any_active(c);
	turn = s->turn - 1;
	if (!s->turn || turn >= c->len || !pp_counts(&c->paths[turn], any_active))
		turn = weighted_turn(c, any_active);
	s->turn = turn + 1;
	if (turn == PP_NOBODY || !pp_takes_data(&c->paths[turn]))
		return 0;
	choice->subflow = turn;
	choice->from = c->queue->next;
	choice->bytes = c->paths[turn].mss;
	return 1;
}

static void weighted_scheduled(struct pp_sched_ctx *c, const struct pp_choice *choice, __u64 bytes)
{
	struct weighted_state *s = c->priv;

	(void)choice;
	(void)bytes;
	s->turn = 0;
}

PP_SCHED_REGISTER(weighted) = {
	.name = "weighted",
	.flags = PP_SCHED_KEEPS_HEAD | PP_SCHED_WEIGHTS,
	.priv_bytes = sizeof(struct weighted_state),
	.subflow_bytes = sizeof(struct weighted_subflow),
	.pick = weighted_pick,
	.scheduled = weighted_scheduled,
};

PP_SCHED_ABOUT(weighted) = {
	.what = "fixed shares, \"weighted 3:1\"; waits for the subflow whose turn it is",
};
