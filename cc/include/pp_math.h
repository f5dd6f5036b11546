/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Arithmetic and window rules that more than one algorithm needs. Everything is inline: in the BPF
 * build each object is one file. Windows and counts are in segments.
 */
#ifndef PP_MATH_H
#define PP_MATH_H

#include "pp_cc.h"

/* Every helper is forced inline: BPF verifies a program as one piece, and a call would cost more
 * than the body. */
#define PP_INLINE static inline __attribute__((always_inline, unused))

#define PP_STATE_FITS(type) _Static_assert(sizeof(type) <= PP_CC_STATE_BYTES, #type " exceeds the room an algorithm has per socket")

PP_INLINE __u32 pp_min(__u32 a, __u32 b)
{
	return a < b ? a : b;
}

PP_INLINE __u32 pp_max(__u32 a, __u32 b)
{
	return a > b ? a : b;
}

/* The same two without a branch: for algorithms of so many that the BPF verifier could not walk
 * all combinations. */
PP_INLINE __u32 pp_min_branchless(__u32 a, __u32 b)
{
	__u64 apart = (__u64)a - b;

	PP_OPAQUE(apart);
	return b + (__u32)(apart & (0 - (apart >> 63)));
}

PP_INLINE __u32 pp_max_branchless(__u32 a, __u32 b)
{
	__u64 apart = (__u64)b - a;

	PP_OPAQUE(apart);
	return b - (__u32)(apart & (0 - (apart >> 63)));
}

PP_INLINE __u64 pp_min64(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

PP_INLINE __u64 pp_max64(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

/* a / b, and the largest value where b is zero: a quotient without bound. */
PP_INLINE __u64 pp_div(__u64 a, __u64 b)
{
	return b ? PP_DIV64(a, b) : ~0ULL;
}

/* 1 if a == b, else 0, without a branch. */
PP_INLINE __u32 pp_equal(__u64 a, __u64 b)
{
	__u64 x = a ^ b;

	PP_OPAQUE(x);
	return 1 ^ (__u32)((x | (0 - x)) >> 63);
}

PP_INLINE __u32 pp_clamp(__u32 value, __u32 low, __u32 high)
{
	return pp_min(pp_max(value, low), high);
}

/* The largest integer whose cube does not exceed x: one bit a step, exact for every x. */
PP_INLINE __u32 pp_cube_root(__u64 x)
{
	__u64 root = 0;
	int bit;

	/* The root of 2^64 - 1 is 2642245, which has 22 bits. */
	for (bit = 21; bit >= 0; bit--) {
		__u64 next = root | 1ULL << bit;

		/* next^3 <= x, divided by next so that nothing overflows: n^2 <= x / n holds for whole
		 * quotients too. */
		if (next * next <= x / next)
			root = next;
	}
	return (__u32)root;
}

/*
 * Some of Linux's algorithms tell time in ticks, and what they compute shows it: an RTT of 21 ms is
 * six ticks, so 24 ms. To agree with them theirs of ours do too, with ticks of HZ=250, which is
 * what most distributions build.
 */
#define PP_TICK_US 4000U
#define PP_TICKS_PER_S (1000000U / PP_TICK_US)

/* The tick that it is; wraps after 198 days. */
PP_INLINE __u32 pp_tick(__u64 now_ns)
{
	return (__u32)(now_ns / (PP_TICK_US * 1000ULL));
}

/* A length of time in ticks, rounded up. */
PP_INLINE __u32 pp_ticks(__u32 us)
{
	return us / PP_TICK_US + (us % PP_TICK_US != 0);
}

/* Sequence numbers: a is after b. */
PP_INLINE int pp_after(__u32 a, __u32 b)
{
	return (__s32)(b - a) < 0;
}

PP_INLINE int pp_in_slow_start(const struct pp_flow *f)
{
	return f->cwnd < f->ssthresh;
}

/*
 * Whether the window limits the flow: growth it would not use proves nothing (RFC 7661). In slow
 * start up to twice what was in use, so that an application that pauses for a moment does not stop
 * the probing.
 */
PP_INLINE int pp_is_cwnd_limited(const struct pp_flow *f)
{
	return f->cwnd_limited || (pp_in_slow_start(f) && f->cwnd < 2 * (__u64)f->max_packets_out);
}

/* RFC 5681 section 3.1: one segment for each segment acknowledged, up to ssthresh. Returns the
 * segments that were not needed for that. */
PP_INLINE __u32 pp_slow_start(struct pp_flow *f, __u32 acked)
{
	__u32 room = f->ssthresh - f->cwnd;	/* slow start: ssthresh > cwnd */
	__u32 used = pp_min(acked, room);

	f->cwnd = pp_min(f->cwnd + used, f->cwnd_clamp);
	return acked - used;
}

/*
 * RFC 5681 section 3.1: one segment for each `per` (> 0) segments acknowledged; with per = cwnd
 * that is one a round trip. Credit collected under a larger `per` counts for one segment only, so
 * that a sudden fall of `per` makes no burst.
 */
PP_INLINE void pp_cong_avoid_ai(struct pp_flow *f, __u32 per, __u32 acked)
{
	if (f->cwnd_cnt >= per) {
		f->cwnd_cnt = 0;
		f->cwnd++;
	}
	f->cwnd_cnt += acked;
	if (f->cwnd_cnt >= per) {
		__u32 steps = f->cwnd_cnt / pp_max(per, 1);

		f->cwnd_cnt -= steps * per;
		f->cwnd += steps;
	}
	f->cwnd = pp_min(f->cwnd, f->cwnd_clamp);
}

/* Reno's whole reaction to an ACK: what the coupled algorithms fall back to on a connection of
 * one path. */
PP_INLINE void pp_reno_cong_avoid(struct pp_flow *f, __u32 acked)
{
	if (!pp_is_cwnd_limited(f))
		return;
	if (pp_in_slow_start(f)) {
		acked = pp_slow_start(f, acked);
		if (!acked)
			return;
	}
	pp_cong_avoid_ai(f, pp_max(f->cwnd, 1), acked);
}

/* RFC 5681, equation 4, on the window instead of the flight size, as Linux does: half, at least
 * two segments. */
PP_INLINE __u32 pp_half(const struct pp_flow *f)
{
	return pp_max(f->cwnd >> 1, 2);
}

/* The window of before a reduction that proved spurious, or the present one if that has grown
 * beyond (RFC 3522, 4015). */
PP_INLINE __u32 pp_undo(const struct pp_flow *f)
{
	return pp_max(f->cwnd, f->prior_cwnd);
}

#endif
