/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Earliest arrival and in order: what a faster path will have sent by then waits in its queue.
 *
 * Idea. A path's rate is measured as in arrival.c: what it was given less what it still has, over
 * an RTT or more, while an RTT above the least shows a queue. A path that got all at once and is
 * idle again tells it too: on average its segments waited for half of the others. A segment arrives
 * half of the least RTT after all before it has passed, and not before the window lets it out.
 *
 * 1. A path with nothing in flight begins with the initial window (RFC 6928): after an idle timeout
 *    Linux goes back to it, but only once it sends. Near the end of the data whole fragments count.
 * 2. A path is left out if a fragment on it would hold up the window for longer than another path
 *    takes for all of it. Nothing leaves if one path, waited for, would deliver all that waits first.
 * 3. Where the soonest path's window is full and another has room, bytes still queue on the
 *    soonest, until they would arrive there as late, so those that go to the other are in order; near the end
 *    they do not, since what stands in a queue cannot be moved. Nothing is sent twice.
 *
 * Source. This project; 2 asks what BLEST and ECF do, 3 seeks what DAPS and STTF do.
 */
#include "pp_choose.h"

#define INORDER_INTERVAL 5000		/* least one, us: shorter ones measure bunched ACKs, longer ones lag */
#define INORDER_FORGETS 4096		/* how slowly the least RTT follows; sooner takes a standing queue for the path */
#define INORDER_MOST_ROUNDS 32		/* that are looked ahead */
#define INORDER_FRAGMENT 32768		/* bytes; Linux: a page of mptcp_data_frag */
#define INORDER_INITIAL 10		/* segments */
#define INORDER_WINDOW 196608		/* bytes; a smaller window is expected to grow; more leaves out fewer paths */

struct inorder_subflow {
	__u32 owed;	/* bytes that it had when the interval began, and was given since */
	__u32 since_us;	/* when the interval began; 0: nothing was in flight */
	__u32 rate;	/* bytes in a millisecond; 0: no queue was seen yet */
	__u32 least;	/* least smoothed RTT, microseconds */
};

PP_SCHED_SUBFLOW_FITS(struct inorder_subflow);

static void inorder_look(struct inorder_subflow *s, const struct pp_path_view *p, __u64 now_ns)
{
	__u32 left = (__u32)pp_min64(p->unsent + pp_mul(p->in_flight, p->mss), ~0U), srtt = p->srtt_us / 8;
	__u32 now = (__u32)PP_DIV64(now_ns, 1000) | 1, took = now - s->since_us, rate = 0, queue;

	if (!p->usable || !srtt)
		return;
	if (!s->least || srtt < s->least)
		s->least = srtt;
	queue = srtt > s->least + s->least / 2;
	if (!left && !s->since_us && s->owed && queue)
		rate = (__u32)PP_DIV64(s->owed * 500ULL, srtt - s->least);
	s->owed = pp_max(s->owed, left);
	if (s->since_us && p->in_flight) {
		if (took < pp_max(srtt, INORDER_INTERVAL))
			return;
		rate = (__u32)PP_DIV64((s->owed - left) * 1000ULL, took);	/* of 2^32 bytes in 5 ms: below 2^30 */
		s->least += (srtt - s->least) / INORDER_FORGETS;
	}
	if (queue)
		s->rate = s->rate && rate ? (s->rate + rate) / 2 : pp_max(s->rate, rate);
	else if (s->rate && rate > s->rate)	/* it carries at least as much */
		s->rate += (rate - s->rate) / 8;
	s->since_us = p->in_flight ? now : 0;
	s->owed = left;
}

/* Time until so many bytes more have passed at the path's rate, us; 0: not known. */
static __u64 inorder_passed(const struct inorder_subflow *s, const struct pp_path_view *p, __u64 bytes)
{
	if (!s->rate)
		return 0;
	/* What is in flight beyond a round trip's worth stands in the queue; huge products saturate. */
	return s->least / 2 + PP_DIV64(pp_mul(p->unsent + bytes, 1000), s->rate) +
	       pp_minus(PP_DIV64(pp_mul(pp_mul(p->in_flight, p->mss), 1000), s->rate), s->least);
}

/* The same, and not before the window lets them out. */
static __u64 inorder_in(const struct inorder_subflow *s, const struct pp_path_view *p, __u64 bytes)
{
	__u64 mss = p->mss ? p->mss : 1, window = pp_max(p->in_flight ? p->cwnd : pp_min(p->cwnd, INORDER_INITIAL), 1);
	__u64 left = pp_minus(PP_DIV64(p->unsent + bytes + mss - 1, mss), pp_minus(window, p->in_flight)), round = p->srtt_us / 8;
	__u32 rounds;

	if (s->rate)
		round = pp_max64(s->least, pp_min64(PP_DIV64(pp_mul(pp_mul(p->in_flight, mss), 1000), s->rate), round));
	for (rounds = 0; rounds < INORDER_MOST_ROUNDS && left > window; rounds++) {
		left -= window;
		window = window < p->ssthresh ? pp_min64(2 * window, p->ssthresh) : window + 1;
	}
	return pp_max64(inorder_passed(s, p, bytes), round / 2 + rounds * round + PP_DIV64(pp_mul(left, round), window));
}

static __u32 inorder_pick(struct pp_sched_ctx *c, struct pp_choice *choice)
{
	const struct pp_data_queue *q = c->queue;
	__u64 ahead = pp_waiting(q), window = pp_later(q->window_end, q->una) - q->una, fragment = pp_min64(ahead, INORDER_FRAGMENT);
	__u64 all = ~0ULL, full = ~0ULL, least = ~0ULL, soonest = ~0ULL, widest = 0, unit, in;
	__u32 i, best = PP_NOBODY, first = PP_NOBODY, any_active = pp_any_active(c);

	for (i = 0; i < c->len && ahead; i++) {
		struct inorder_subflow *s = pp_subflow_state(c, i);

		inorder_look(s, &c->paths[i], q->now_ns);
		if (!pp_counts(&c->paths[i], any_active))
			continue;
		widest = pp_max64(widest, c->paths[i].mss);
		all = pp_min64(all, inorder_in(s, &c->paths[i], ahead));
		full = pp_min64(full, inorder_in(s, &c->paths[i], pp_max64(window, INORDER_WINDOW)) + s->least / 2);	/* and back */
	}
	unit = ahead > window / 2 ? pp_min64(ahead, widest) : fragment;
	for (i = 0; i < c->len && ahead; i++) {
		const struct inorder_subflow *s = pp_subflow_state(c, i);
		const struct pp_path_view *p = &c->paths[i];

		if (!pp_counts(p, any_active) || inorder_passed(s, p, fragment) + s->least / 2 > full)
			continue;
		in = inorder_in(s, p, unit);
		if (first == PP_NOBODY || in < soonest) {
			first = i;
			soonest = in;
		}
		if (pp_takes_data(p) && (best == PP_NOBODY || in < least)) {
			best = i;
			least = in;
		}
	}
	if (best == PP_NOBODY || all < least)
		return 0;
	if (soonest < least && c->paths[first].room && inorder_in(pp_subflow_state(c, first), &c->paths[first], ahead / 2) >= least)
		best = first;
	choice->subflow = best;
	choice->from = q->next;
	choice->bytes = 2 * c->paths[best].mss;
	return 1;
}

static void inorder_scheduled(struct pp_sched_ctx *c, const struct pp_choice *choice, __u64 bytes)
{
	((struct inorder_subflow *)pp_subflow_state(c, choice->subflow))->owed += (__u32)bytes;
}

PP_SCHED_REGISTER(inorder) = {
	.name = "inorder",
	.flags = PP_SCHED_KEEPS_HEAD,
	.subflow_bytes = sizeof(struct inorder_subflow),
	.pick = inorder_pick,
	.scheduled = inorder_scheduled,
};

PP_SCHED_ABOUT(inorder) = {
	.what = "earliest arrival by measured rates, in order",
};
