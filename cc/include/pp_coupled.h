/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the coupled algorithms share: the rates of a connection's subflows, as whole numbers.
 *
 * Notation of the papers: subflow r has window w_r, round-trip time rtt_r and rate x_r = w_r mss_r
 * / rtt_r. Only ratios of rates matter to any of the algorithms, so a rate's unit (bytes per 2^-17
 * microseconds) cancels out.
 *
 * The view of a subflow's own window is the flow's, which is newer than its entry among the
 * siblings.
 */
#ifndef PP_COUPLED_H
#define PP_COUPLED_H

#include "pp_math.h"

#define PP_RATIO_SHIFT 10	/* ratios of rates are in 1/1024 */
#define PP_RATIO_ONE (1U << PP_RATIO_SHIFT)
#define PP_RATIO_MAX (1U << 20)	/* a ratio of 1024; beyond it a path carries nothing that matters */

/* Keeps three digits of one segment's rate at an RTT of a second. */
#define PP_RATE_SHIFT 20

/* What is known of one subflow. */
struct pp_path {
	__u64 rate;	/* bytes per 2^-17 us; 0 if not usable */
	__u32 cwnd;	/* segments */
	__u32 mss;	/* bytes */
	__u32 srtt_us;	/* times 8; never 0 */
	__u32 usable;	/* 0: leave this subflow out; the own one is always usable */
};

/*
 * Window over RTT. Windows below 2^43 bytes do not overflow; below 2^30 bytes (more than any send
 * buffer) the rate stays below 2^47. The RTT is rounded up by less than a microsecond so that it is
 * never zero: a branch less, and verifying a BPF program takes time exponential in branches.
 */
PP_INLINE __u64 pp_rate(__u32 cwnd, __u32 mss, __u32 srtt_us)
{
	return ((__u64)cwnd * mss << PP_RATE_SHIFT) / (srtt_us | 7);
}

/* The number of subflows to look at: 1 for plain TCP, so that every coupled algorithm becomes
 * its single-path self there. */
PP_INLINE __u32 pp_paths(const struct pp_ctx *c)
{
	return c->siblings && c->siblings->len ? pp_min(c->siblings->len, PP_MAX_SIBLINGS) : 1;
}

PP_INLINE int pp_is_self(const struct pp_ctx *c, __u32 i)
{
	return !c->siblings || i == c->siblings->self;
}

/* Subflow i, with i < PP_MAX_SIBLINGS. */
PP_INLINE struct pp_path pp_path(const struct pp_ctx *c, __u32 i)
{
	struct pp_path p;

	if (pp_is_self(c, i)) {
		p.cwnd = c->flow->cwnd;
		p.mss = c->flow->mss;
		p.srtt_us = c->flow->srtt_us | 7;
		p.usable = 1;
	} else {
		p.cwnd = c->siblings->at[i].cwnd;
		p.mss = c->siblings->at[i].mss;
		p.srtt_us = c->siblings->at[i].srtt_us | 7;
		p.usable = c->siblings->at[i].usable & 1;
	}
	p.rate = pp_rate(p.cwnd, p.mss, p.srtt_us) * p.usable;
	return p;
}

/* The subflow itself. */
PP_INLINE struct pp_path pp_own(const struct pp_ctx *c)
{
	struct pp_path p;

	p.cwnd = c->flow->cwnd;
	p.mss = c->flow->mss;
	p.srtt_us = c->flow->srtt_us | 7;
	p.usable = 1;
	p.rate = pp_rate(p.cwnd, p.mss, p.srtt_us);
	return p;
}

/* a / b in 1/1024, at most PP_RATIO_MAX. Rates below 2^53 cannot overflow. */
PP_INLINE __u32 pp_ratio(__u64 a, __u64 b)
{
	return (__u32)pp_min64(pp_div(a << PP_RATIO_SHIFT, b), PP_RATIO_MAX);
}

/* How many segments one call of cong_avoid stands for. */
PP_INLINE __u32 pp_coupled_acked(const struct pp_flow *f, __u32 acked)
{
	return f->compat & PP_COMPAT_ACK_COUNTS_ONCE ? 1 : acked;
}

#endif
