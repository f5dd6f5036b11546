/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Shortest transfer time first.
 *
 * Idea. Each segment goes where it would reach the peer first, and windows need not be open for
 * that: it may wait in a subflow's queue. A segment that fits the window now takes half a round
 * trip. One that does not waits for as many further windows as what stands before it fills:
 * windows double up to the slow-start threshold and grow by a segment a round trip beyond.
 *
 * Source. P. Hurtig et al.: "Low-latency scheduling in MPTCP", IEEE/ACM Transactions on Networking
 * 27(1), 2019.
 *
 * Differences from the authors' kernel: it moves what still waits in the queues of subflows when
 * the estimates change, here what has been enqueued stays, so at most as much as a window and a
 * half may wait; it takes the last measured round trip, here the smoothed one counts. MPTCP 0.96
 * does not have this scheduler.
 */
#include "pp_choose.h"

/* Most round trips that are looked ahead: a segment that takes longer is out of the question. */
#define STTF_MOST_ROUNDS 64

/* Time until another segment of a subflow would have reached the peer, us times 16. */
static __u64 sttf_time(const struct pp_path_view *p)
{
	__u64 mss = p->mss ? p->mss : 1;
	__u64 left = pp_minus(PP_DIV64(p->unsent + mss - 1, mss) + 1, pp_minus(p->cwnd, p->in_flight));
	__u64 window = pp_max(p->cwnd, 1);
	__u32 rounds;

	for (rounds = 0; left && rounds < STTF_MOST_ROUNDS; rounds++) {
		window = window < p->ssthresh ? pp_min64(2 * window, p->ssthresh) : window + 1;
		left = pp_minus(left, window);
	}
	return (2ULL * rounds + 1) * p->srtt_us;
}

static __u32 sttf_pick(struct pp_sched_ctx *c, struct pp_choice *choice)
{
	__u32 i, best = PP_NOBODY;
	const struct pp_path_view *p;
	__u64 time, least = 0;
	int any_active;

	if (c->queue->end == c->queue->next)
		return 0;
	any_active = pp_any_active(c);
	for (i = 0; i < c->len; i++) {
		if (!pp_counts(&c->paths[i], any_active))
			continue;
		time = sttf_time(&c->paths[i]);
		if (best == PP_NOBODY || time < least) {
			best = i;
			least = time;
		}
	}
	if (best == PP_NOBODY)
		return 0;
	p = &c->paths[best];
	if (!p->room || pp_minus(p->unsent, pp_window_space(p)) >= (p->cwnd + p->cwnd / 2) * p->mss)
		return 0;
	choice->subflow = best;
	choice->from = c->queue->next;
	choice->bytes = p->mss;
	return 1;
}

PP_SCHED_REGISTER(sttf) = {
	.name = "sttf",
	.pick = sttf_pick,
};

PP_SCHED_ABOUT(sttf) = {
	.what = "shortest transfer time of the next segment, queues included (Hurtig et al. 2019)",
};
