/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Earliest arrival, where a window counts in segments and segments differ.
 *
 * Idea. A congestion window and an ACK count segments, so the same bytes take seven places on a
 * path of 1500 bytes that take one on a path of 9000, and seven headers. The paths are therefore
 * compared by the same bytes, a segment of the widest path, in each one's own segments: those
 * beyond its window leave as earlier ones are acknowledged, a window a round trip. Of paths whose
 * window has room the one on which they arrive first is chosen; where two are as fast, the one
 * that spends fewer segments, and so fewer headers, on them. If another path, its window full or
 * not, would alone deliver all that waits before that one delivers its first byte, none is chosen.
 * Where all segments are equally long this is minRTT that waits as ECF does.
 *
 * Source. The wish of Manoratne 2025, section 13, for a scheduler that knows the sizes of segments;
 * the test for waiting is that of ECF (Lim et al. 2017). The rest is the project's own.
 */
#include "pp_choose.h"

/* Segments of a path that so many bytes take. */
static __u64 payload_segments(const struct pp_path_view *p, __u64 bytes)
{
	__u64 mss = p->mss ? p->mss : 1;
	__u64 whole = PP_DIV64(bytes, mss);

	return whole + (whole * mss != bytes);
}

/* Time until so many bytes, behind what waits there already, have reached the peer; us times 16.
 * An RTT below 2^32 and segments below 2^31 give a product below 2^64; larger ones are as good as
 * infinite. */
static __u64 payload_arrival(const struct pp_path_view *p, __u64 bytes)
{
	__u64 window = pp_max(p->cwnd, 1);
	__u64 beyond = pp_minus(payload_segments(p, p->unsent + bytes), pp_minus(p->cwnd, p->in_flight));

	return PP_DIV64(pp_mul(p->srtt_us, window + 2 * beyond), window);
}

static __u32 payload_pick(struct pp_sched_ctx *c, struct pp_choice *choice)
{
	__u64 waiting = pp_waiting(c->queue), widest = 0, least = 0, fewest = 0, first, unit;
	__u32 i, best = PP_NOBODY;
	int any_active;

	if (!waiting)
		return 0;
	any_active = pp_any_active(c);
	for (i = 0; i < c->len; i++)
		if (pp_counts(&c->paths[i], any_active))
			widest = pp_max64(widest, c->paths[i].mss);
	unit = pp_min64(waiting, widest);
	for (i = 0; i < c->len; i++) {
		const struct pp_path_view *p = &c->paths[i];
		__u64 arrival, segments;

		if (!pp_counts(p, any_active) || !pp_takes_data(p))
			continue;
		arrival = payload_arrival(p, unit);
		segments = payload_segments(p, unit);
		if (best == PP_NOBODY || arrival < least || (arrival == least && segments < fewest)) {
			best = i;
			least = arrival;
			fewest = segments;
		}
	}
	if (best == PP_NOBODY)
		return 0;
	first = payload_arrival(&c->paths[best], 0);
	for (i = 0; i < c->len; i++)
		if (i != best && pp_counts(&c->paths[i], any_active) && payload_arrival(&c->paths[i], waiting) < first)
			return 0;
	choice->subflow = best;
	choice->from = c->queue->next;
	choice->bytes = pp_share(&c->paths[best]);
	return 1;
}

PP_SCHED_REGISTER(payload) = {
	.name = "payload",
	.pick = payload_pick,
};

PP_SCHED_ABOUT(payload) = {
	.what = "earliest arrival, by the segments that each path needs for the same bytes",
};
