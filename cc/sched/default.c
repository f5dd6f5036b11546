/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The scheduler of Linux.
 *
 * Idea. It takes the subflow that would drain its send queue soonest: queued bytes over an averaged
 * pacing rate, the "linger time". The chosen subflow gets a burst of up to 64 KiB. Congestion
 * windows are not asked: a subflow may queue as much as its send buffer takes, so a burst waits
 * there, and if the chosen subflow's buffer is full, none sends.
 *
 * Source. Linux since 5.11: mptcp_subflow_get_send.
 *
 * Differences from Linux: none known.
 */
#include "pp_choose.h"

/* Largest burst, bytes: 64 KiB less room for headers (TCP 20, its options 40, IPv6 40 and a
 * fragment header 8). */
#define DEFAULT_BURST ((1U << 16) - 20 - 40 - 40 - 8)

struct default_subflow {
	__u64 rate;	/* pacing rate averaged over the bytes that it got, byte/s; 0 before it was looked at */
};

PP_SCHED_SUBFLOW_FITS(struct default_subflow);

/* Pacing rate, byte/s. */
static __u64 default_pace(const struct pp_path_view *p)
{
	return p->pacing_rate / 8;
}

static __u32 default_pick(struct pp_sched_ctx *c, struct pp_choice *choice)
{
	__u32 best[2] = { PP_NOBODY, PP_NOBODY };	/* active, backup */
	__u64 least[2] = { ~0ULL, ~0ULL };		/* their linger times, 2^-32 s */
	int any_active = 0, any_room = 0;
	struct default_subflow *state;
	const struct pp_path_view *p;
	__u64 linger, burst;
	__u32 i, rate;

	/* The chosen one must have room, so without any room there is nothing to choose; this is
	 * the common case by far. */
	for (i = 0; i < c->len; i++)
		any_room |= c->paths[i].room & c->paths[i].usable;
	if (c->queue->end == c->queue->next || !any_room)
		return 0;
	for (i = 0; i < c->len; i++) {
		p = &c->paths[i];
		state = pp_subflow_state(c, i);
		if (!p->usable)
			continue;
		any_active |= !p->backup;
		/* Linux divides by 32 bits of the rate. */
		if (!(__u32)state->rate)
			state->rate = default_pace(p);
		rate = (__u32)state->rate;
		if (!rate)
			continue;
		/* Queues stay below 2^32 bytes. */
		linger = PP_DIV64(p->queued << 32, rate);
		if (linger < least[p->backup]) {
			least[p->backup] = linger;
			best[p->backup] = i;
		}
	}
	i = best[!any_active];
	if (i == PP_NOBODY || !c->paths[i].room)
		return 0;
	burst = pp_min64(pp_window_left(c->queue), DEFAULT_BURST);
	if (burst) {
		p = &c->paths[i];
		state = pp_subflow_state(c, i);
		/* Weighted mean of the old rate over what is queued and of the current rate over
		 * the burst. Rates stay below 2^34 byte/s and weights below 2^29 bytes. */
		state->rate = PP_DIV64(state->rate * p->queued + default_pace(p) * burst, p->queued + burst);
	}
	choice->subflow = i;
	choice->from = c->queue->next;
	choice->bytes = burst;
	return 1;
}

PP_SCHED_REGISTER(default) = {
	.name = "default",
	.flags = PP_SCHED_BURSTS,
	.subflow_bytes = sizeof(struct default_subflow),
	.pick = default_pick,
};

PP_SCHED_ABOUT(default) = {
	.what = "shortest time to drain what is queued, in bursts: Linux",
};
