/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Round-robin by fixed weights.
 *
 * Idea. The person says how the load is to be shared, `weighted 3:1` for three quarters on the
 * first subflow, whatever the paths could carry. A subflow whose turn it is and whose window is
 * full is waited for, so the slowest one for its weight sets the pace; one that cannot be used at
 * all is passed over. Subflows beyond the last weight have the last weight; without weights all
 * are equal.
 *
 * Source. Smooth weighted round-robin as web balancers have it, in bytes, since a kernel gives
 * whole fragments: every subflow earns its weight of what was given, who got it pays the sum, and
 * the richest is next, so turns mix (a a b a, not a a a b) and shares hold over every round.
 *
 * Differences from MPTCP 0.96: that has equal turns alone, there by default passing over full
 * windows (roundrobin).
 */
#include "pp_choose.h"

struct weighted_state {
	__u32 turn;	/* whose turn it is, plus one; 0: not decided */
	__u32 shares;	/* a bit for each subflow that counted when it was */
};

struct weighted_subflow {
	__s64 credit;	/* bytes times weights, earned and not paid; all of them sum to zero */
};

PP_SCHED_STATE_FITS(struct weighted_state);
PP_SCHED_SUBFLOW_FITS(struct weighted_subflow);

/* The richest of those that count, once a segment more is given; the first of several. */
static __u32 weighted_turn(const struct pp_sched_ctx *c, int any_active)
{
	const struct weighted_subflow *s;
	struct weighted_state *state = c->priv;
	__u32 i, richest = PP_NOBODY;
	__s64 credit, most = 0;

	state->shares = 0;
	for (i = 0; i < c->len; i++) {
		if (!pp_counts(&c->paths[i], any_active))
			continue;
		state->shares |= 1U << i;
		s = pp_subflow_state(c, i);
		credit = s->credit + (__s64)c->paths[i].mss * c->weights[i];
		if (richest == PP_NOBODY || credit > most) {
			richest = i;
			most = credit;
		}
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

/* All earn by what was given, and who got it pays for all. */
static void weighted_scheduled(struct pp_sched_ctx *c, const struct pp_choice *choice, __u64 bytes)
{
	struct weighted_state *state = c->priv;
	struct weighted_subflow *s;
	__s64 earned, sum = 0;
	__u32 i;

	for (i = 0; i < PP_SCHED_MAX_SUBFLOWS; i++) {
		if (!(state->shares >> i & 1))
			continue;
		s = pp_subflow_state(c, i);
		earned = (__s64)bytes * c->weights[i];
		s->credit += earned;
		sum += earned;
	}
	s = pp_subflow_state(c, choice->subflow);
	s->credit -= sum;
	state->turn = 0;
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
