/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Earliest arrival, by the rate at which each path was seen to deliver.
 *
 * Idea. A window tells how much may leave and the smoothed RTT how long it took before. Where the
 * window is larger than the path is long the rest stands in a queue, and after a pause the RTT is
 * that of a queue which is gone: then neither tells when a segment arrives: the rate is measured.
 * What a subflow was given less what it still has is delivered; over half a round trip or more that
 * makes a rate. With a queue on the path (an RTT half above the least one) it is the path's own;
 * without, the path carries at least as much.
 *
 * A segment arrives half of the least RTT after all before it has passed at this rate, and not
 * before the window lets it out: a window each round trip, doubled up to the slow-start threshold
 * and a segment larger beyond. The path on which the next segment arrives first is chosen, of those
 * whose window has room. None is, and another path is waited for, if that alone would deliver
 * before this arrival all that waits; or half of the peer's window, less what the chosen path has:
 * then the segment would hold up the window. Two segments are given, then all is judged anew.
 *
 * Source. This project. Waiting for what waits is ECF's (Lim et al. 2017), for the window BLEST's
 * (Ferlin et al. 2016), growth of the window STTF's (Hurtig et al. 2019).
 *
 * It sends nothing twice, slows down no path, and does not see losses but by the window.
 */
#include "pp_choose.h"

/* Shorter intervals than that (us), or than half an RTT, measure bunched ACKs; longer ones lag. */
#define ARRIVAL_LEAST_INTERVAL 5000
/* The least RTT follows a longer one by so little an interval, and so forgets a path that is gone. */
#define ARRIVAL_FORGETS 256
#define ARRIVAL_MOST_ROUNDS 32	/* that are looked ahead */
/* Segments at once. More are judged by one estimate, fewer ask more often. */
#define ARRIVAL_BURST 2

struct arrival_subflow {
	__u32 owed;	/* bytes that it had when the interval began, and was given since */
	__u32 since_us;	/* when the interval began; 0: nothing was in flight */
	__u32 rate;	/* bytes in a millisecond; 0: no queue was seen yet */
	__u32 least;	/* least smoothed RTT, microseconds */
};

PP_SCHED_SUBFLOW_FITS(struct arrival_subflow);

/* Bytes that a subflow has and the peer has not acknowledged to it. */
static __u32 arrival_outstanding(const struct pp_path_view *p)
{
	return (__u32)pp_min64(p->unsent + pp_mul(p->in_flight, p->mss), ~0U);
}

static void arrival_look(struct arrival_subflow *s, const struct pp_path_view *p, __u64 now_ns)
{
	__u32 now = (__u32)PP_DIV64(now_ns, 1000) | 1, srtt = p->srtt_us / 8, left = arrival_outstanding(p);
	__u32 took = now - s->since_us, sample;

	if (!p->usable || !srtt)
		return;
	if (!s->least || srtt < s->least)
		s->least = srtt;
	/* It was given something that the scheduler was not told of. */
	s->owed = pp_max(s->owed, left);
	if (!s->since_us || !p->in_flight) {
		s->since_us = p->in_flight ? now : 0;
		s->owed = left;
		return;
	}
	if (took < pp_max(srtt / 2, ARRIVAL_LEAST_INTERVAL))
		return;
	/* Below 2^32 bytes in at least 5 ms: below 2^30. */
	sample = (__u32)PP_DIV64((s->owed - left) * 1000ULL, took);
	if (srtt > s->least + s->least / 2)
		s->rate = s->rate ? (s->rate + sample) / 2 : sample;
	else if (s->rate)
		s->rate = pp_max(s->rate, sample);
	s->least += (srtt - s->least) / ARRIVAL_FORGETS;
	s->since_us = now;
	s->owed = left;
}

/* Time until so many bytes more have reached the peer, microseconds. Products that do not fit 64
 * bits are as good as infinite. */
static __u64 arrival_in(const struct arrival_subflow *s, const struct pp_path_view *p, __u64 bytes)
{
	__u64 mss = p->mss ? p->mss : 1, window = pp_max(p->cwnd, 1), round = p->srtt_us / 8;
	__u64 passed = 0, left = pp_minus(PP_DIV64(p->unsent + bytes + mss - 1, mss), pp_minus(p->cwnd, p->in_flight));
	__u32 rounds;

	if (s->rate && s->least) {
		__u64 drained = PP_DIV64(pp_mul(pp_mul(p->in_flight, mss), 1000), s->rate);

		/* What is in flight beyond a round trip's worth stands in the queue. */
		passed = s->least / 2 + PP_DIV64(pp_mul(p->unsent + bytes, 1000), s->rate) + pp_minus(drained, s->least);
		round = pp_max64(s->least, pp_min64(drained, round));
	}
	for (rounds = 0; rounds < ARRIVAL_MOST_ROUNDS && left > window; rounds++) {
		left -= window;
		window = window < p->ssthresh ? pp_min64(2 * window, p->ssthresh) : window + 1;
	}
	return pp_max64(passed, round / 2 + rounds * round + PP_DIV64(pp_mul(left, round), window));
}

static __u32 arrival_pick(struct pp_sched_ctx *c, struct pp_choice *choice)
{
	const struct pp_data_queue *q = c->queue;
	__u64 ahead = pp_waiting(q), half = (pp_later(q->window_end, q->una) - q->una) / 2;
	__u64 widest = 0, least = ~0ULL, unit;
	__u32 i, best = PP_NOBODY, any_active = pp_any_active(c);

	for (i = 0; i < c->len; i++) {
		arrival_look(pp_subflow_state(c, i), &c->paths[i], q->now_ns);
		if (pp_counts(&c->paths[i], any_active))
			widest = pp_max64(widest, c->paths[i].mss);
	}
	unit = pp_min64(ahead, widest);
	for (i = 0; i < c->len && ahead; i++) {
		__u64 in = arrival_in(pp_subflow_state(c, i), &c->paths[i], unit);

		if (pp_counts(&c->paths[i], any_active) && pp_takes_data(&c->paths[i]) && (best == PP_NOBODY || in < least)) {
			best = i;
			least = in;
		}
	}
	if (best == PP_NOBODY)
		return 0;
	ahead = pp_min64(ahead, pp_max64(unit, pp_minus(half, arrival_outstanding(&c->paths[best]) + unit)));
	for (i = 0; i < c->len; i++)
		if (i != best && pp_counts(&c->paths[i], any_active) && arrival_in(pp_subflow_state(c, i), &c->paths[i], ahead) < least)
			return 0;
	choice->subflow = best;
	choice->from = q->next;
	choice->bytes = pp_min64(pp_share(&c->paths[best]), ARRIVAL_BURST * c->paths[best].mss);
	return 1;
}

static void arrival_scheduled(struct pp_sched_ctx *c, const struct pp_choice *choice, __u64 bytes)
{
	struct arrival_subflow *s = pp_subflow_state(c, choice->subflow);

	s->owed += (__u32)bytes;
}

PP_SCHED_REGISTER(arrival) = {
	.name = "arrival",
	.flags = PP_SCHED_KEEPS_HEAD,
	.subflow_bytes = sizeof(struct arrival_subflow),
	.pick = arrival_pick,
	.scheduled = arrival_scheduled,
};

PP_SCHED_ABOUT(arrival) = {
	.what = "earliest arrival, by the rate at which each path was seen to deliver",
};
