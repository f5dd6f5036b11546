/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Round-robin.
 *
 * Idea. Every subflow with room in its congestion window gets a segment before any gets a second.
 * Backup subflows take part, as in MPTCP 0.96.
 *
 * Source. MPTCP 0.96's scheduler of that name, with its defaults: one segment a turn, windows
 * respected.
 *
 * Differences from MPTCP 0.96: none known.
 */
#include "pp_choose.h"

struct roundrobin_state {
	__u32 served;	/* a bit for each subflow that has had a turn in this round */
};

PP_SCHED_STATE_FITS(struct roundrobin_state);

/* The last subflow in order goes first, as in MPTCP 0.96. */
static __u32 roundrobin_next(const struct pp_sched_ctx *c, __u32 served)
{
	__u32 i;

	for (i = c->len; i-- > 0;)
		if (pp_fits_window(&c->paths[i]) && !(served >> i & 1))
			return i;
	return PP_NOBODY;
}

static __u32 roundrobin_pick(struct pp_sched_ctx *c, struct pp_choice *choice)
{
	struct roundrobin_state *s = c->priv;
	__u32 i, next;

	if (c->queue->end == c->queue->next)
		return 0;
	next = roundrobin_next(c, s->served);
	if (next == PP_NOBODY) {
		/* All that could send had their turn: a new round. */
		for (i = 0; i < c->len; i++)
			if (pp_fits_window(&c->paths[i]))
				s->served &= ~(1U << i);
		next = roundrobin_next(c, s->served);
		if (next == PP_NOBODY)
			return 0;
	}
	s->served |= 1U << next;
	choice->subflow = next;
	choice->from = c->queue->next;
	choice->bytes = c->paths[next].mss;
	return 1;
}

PP_SCHED_REGISTER(roundrobin) = {
	.name = "roundrobin",
	.flags = PP_SCHED_KEEPS_HEAD,
	.priv_bytes = sizeof(struct roundrobin_state),
	.pick = roundrobin_pick,
};

PP_SCHED_ABOUT(roundrobin) = {
	.what = "a segment each in turn, where windows have room",
};
