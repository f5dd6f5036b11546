/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What more than one scheduler asks of paths and data. Sequence numbers wrap; lengths are bytes.
 */
#ifndef PP_CHOOSE_H
#define PP_CHOOSE_H

#include "pp_math.h"
#include "pp_sched.h"

#define PP_SCHED_STATE_FITS(type) _Static_assert(sizeof(type) <= PP_SCHED_STATE_BYTES, #type " exceeds the room a scheduler has per connection")
#define PP_SCHED_SUBFLOW_FITS(type) _Static_assert(sizeof(type) <= PP_SCHED_SUBFLOW_BYTES, #type " exceeds the room a scheduler has per subflow")

#define PP_NOBODY (~0U)		/* in place of a subflow's index */

/* Largest buffer of a kernel, bytes: 64 KiB less the largest TCP header (Linux: MAX_TCP_HEADER). */
#define PP_BUFFER_BYTES (65535U - 320)

/* The private state of subflow i. */
PP_INLINE void *pp_subflow_state(const struct pp_sched_ctx *c, __u32 i)
{
	return (char *)c->subflow_priv + i * PP_SCHED_SUBFLOW_BYTES;
}

PP_INLINE int pp_before64(__u64 a, __u64 b)
{
	return (__s64)(a - b) < 0;
}

PP_INLINE __u64 pp_later(__u64 a, __u64 b)
{
	return pp_before64(a, b) ? b : a;
}

PP_INLINE __u64 pp_earlier(__u64 a, __u64 b)
{
	return pp_before64(b, a) ? b : a;
}

/* a * b, and the largest value where that does not fit. */
PP_INLINE __u64 pp_mul(__u64 a, __u64 b)
{
	__u64 product;

	return PP_MUL_OVERFLOWS(a, b, &product) ? ~0ULL : product;
}

/* a - b, and zero where b is larger. */
PP_INLINE __u64 pp_minus(__u64 a, __u64 b)
{
	return a > b ? a - b : 0;
}

/* Bytes that wait for their first transmission. */
PP_INLINE __u64 pp_waiting(const struct pp_data_queue *q)
{
	return q->end - q->next;
}

/* Bytes that the peer's window leaves for new data. */
PP_INLINE __u64 pp_window_left(const struct pp_data_queue *q)
{
	return pp_later(q->window_end, q->next) - q->next;
}

/* Bytes that the congestion window would let out now. */
PP_INLINE __u64 pp_window_space(const struct pp_path_view *p)
{
	return p->cwnd > p->in_flight ? (p->cwnd - p->in_flight) * p->mss : 0;
}

/* May be chosen: not in Loss, and no more bytes wait than the window lets out. */
PP_INLINE int pp_fits_window(const struct pp_path_view *p)
{
	return p->usable && !p->in_loss && p->in_flight < p->cwnd && p->unsent <= pp_window_space(p);
}

/* Segments in flight, and those that the buffers which wait count as: a burst each, but a lone one
 * is one segment, so that one too many is given rather than too few. */
PP_INLINE __u64 pp_counted(const struct pp_path_view *p)
{
	return p->in_flight + (p->buffers > 1 ? pp_min64((__u64)p->buffers * p->burst, ~0U) : p->buffers);
}

/* As pp_fits_window; where the window is counted in buffers, by those. */
PP_INLINE int pp_takes_data(const struct pp_path_view *p)
{
	if (!p->burst)
		return pp_fits_window(p);
	return p->usable && !p->in_loss && pp_counted(p) < p->cwnd;
}

/* Most to give at once, bytes: what the window lets out, at most half of it. Counted in buffers,
 * what the window has left by that count, and a burst at least. */
PP_INLINE __u64 pp_share(const struct pp_path_view *p)
{
	if (!p->burst)
		return pp_min64(pp_window_space(p), pp_max(p->cwnd / 2, 1) * p->mss);
	return pp_max64(pp_minus(p->cwnd, pp_counted(p)), p->burst) * p->mss;
}

/* Whether a path that is no backup can be used. */
PP_INLINE int pp_any_active(const struct pp_sched_ctx *c)
{
	__u32 i;

	for (i = 0; i < c->len; i++)
		if (c->paths[i].usable && !c->paths[i].backup)
			return 1;
	return 0;
}

/* Worth a look: usable and not in Loss, and a backup only where no other is usable (RFC 8684
 * section 3.3.8). `any_active` is pp_any_active. */
PP_INLINE int pp_counts(const struct pp_path_view *p, int any_active)
{
	return p->usable && !p->in_loss && p->backup != any_active;
}

/* The fastest path of those that are backup, or are not, with room or without: the one to wait for.
 * One in the Loss state may be dead, and is not waited for. */
PP_INLINE __u32 pp_fastest(const struct pp_sched_ctx *c, int backup)
{
	__u32 i, best = PP_NOBODY;

	for (i = 0; i < c->len; i++) {
		const struct pp_path_view *p = &c->paths[i];

		if (p->usable && !p->in_loss && p->backup == backup && (best == PP_NOBODY || p->srtt_us < c->paths[best].srtt_us))
			best = i;
	}
	return best;
}

/*
 * The fastest path that takes data, of those whose bit in `tried` is not set, then of the others,
 * and active ones before backups. An untried one that is merely busy is waited for: that beats
 * repeating a tried one, and beats a backup.
 */
PP_INLINE __u32 pp_best(const struct pp_path_view *paths, __u32 len, __u32 tried)
{
	__u32 backup, i;

	for (backup = 0; backup < 2; backup++) {
		__u32 best[2] = { PP_NOBODY, PP_NOBODY };	/* untried, tried */
		int fresh_but_busy = 0;

		for (i = 0; i < len; i++) {
			const struct pp_path_view *p = &paths[i];
			__u32 was = tried >> i & 1;
			__u32 than = best[was];

			if (p->backup != backup || !p->usable)
				continue;
			if (!pp_takes_data(p))
				fresh_but_busy |= !was;
			else if (than == PP_NOBODY || p->srtt_us < paths[than].srtt_us || (p->wins_ties && p->srtt_us == paths[than].srtt_us))
				best[was] = i;
		}
		if (best[0] != PP_NOBODY)
			return best[0];
		if (best[1] != PP_NOBODY && (backup || !fresh_but_busy))
			return best[1];
		if (best[1] == PP_NOBODY && fresh_but_busy)
			return PP_NOBODY;
	}
	return PP_NOBODY;
}

/* New data on the fastest path that takes data. The window of the peer is the connection's to
 * obey. */
PP_INLINE __u32 pp_pick_fastest(const struct pp_sched_ctx *c, struct pp_choice *choice)
{
	if (c->queue->end == c->queue->next)
		return 0;
	choice->subflow = pp_best(c->paths, c->len, 0);
	if (choice->subflow == PP_NOBODY)
		return 0;
	choice->from = c->queue->next;
	choice->bytes = pp_share(&c->paths[choice->subflow]);
	return 1;
}

#endif
