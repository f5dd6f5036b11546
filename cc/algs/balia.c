/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Balia, the balanced linked adaptation.
 *
 * Idea. Between LIA, which is friendly but slow to move traffic, and OLIA, which balances well but
 * reacts slowly: increase and decrease both depend on how a subflow's rate compares with the best
 * one's.
 *
 * Source. Q. Peng, A. Walid, J. Hwang, S. Low: "Multipath TCP: analysis, design, and
 * implementation", IEEE/ACM ToN 24(1), 2016; draft-walid-mptcp-congestion-control-04. With x_r =
 * w_r mss_r / rtt_r and alpha_r = max_k(x_k) / x_r:
 *
 *	for each segment acknowledged	w_r += (x_r / rtt_r) / (sum_k x_k)^2 * (1 + alpha_r) / 2 * (4 + alpha_r) / 5	(rates in segments)
 *	for each loss			w_r -= w_r / 2 * min(alpha_r, 3/2)
 *
 * x_r / rtt_r = x_r^2 / w_r, so the segments to acknowledge for an increase of one are
 *
 *	w_r * (sum_k x_k / x_r)^2 * 10 / ((1 + alpha_r) (4 + alpha_r))
 *
 * On one path alpha is 1 and this is Reno.
 *
 * Differences from the paper: none known. Differences from MPTCP 0.96: that one counts ACKs instead
 * of segments (PP_COMPAT_ACK_COUNTS_ONCE), and on loss takes the whole part of alpha, so that a
 * path with alpha = 1.6 loses half, not three quarters (PP_COMPAT_BALIA_WHOLE_ALPHA), and may leave
 * a single segment (PP_COMPAT_BALIA_ONE_SEGMENT).
 */
#include "pp_coupled.h"

/*
 * Largest share of half the window that a loss costs, in 1/1024. Raising it makes a path that is
 * worse than the best give way faster, and costs throughput where losses are random.
 */
#define BALIA_MAX_CUT 1536

struct balia_view {
	__u32 sum;	/* sum of rates over the own rate, 1/1024 */
	__u32 alpha;	/* largest rate over the own rate, 1/1024 */
};

static struct balia_view balia_look(const struct pp_ctx *c)
{
	__u64 own = pp_own(c).rate, sum = 0, best = 0;
	__u32 i, n = pp_paths(c);

	for (i = 0; i < PP_MAX_SIBLINGS && i < n; i++) {
		__u64 rate = pp_path(c, i).rate;

		sum += rate;
		best = pp_max64(best, rate);
	}
	return (struct balia_view){ pp_ratio(sum, own), pp_ratio(best, own) };
}

static __u32 balia_segments_per_increase(const struct pp_ctx *c)
{
	struct balia_view v = balia_look(c);
	/* sum <= 2^20, so the dividend stays below 2^52; sum <= 32 alpha, so the quotient, in 1/256,
	 * stays below 10240 * 256. */
	__u64 dividend = (__u64)v.sum * v.sum * 10 << 8;
	__u64 divisor = (__u64)(PP_RATIO_ONE + v.alpha) * (4 * PP_RATIO_ONE + v.alpha);

	return (__u32)pp_max64(pp_min64(pp_max(c->flow->cwnd, 1) * (dividend / divisor) >> 8, ~0U), 1);
}

static __u32 balia_ssthresh(struct pp_ctx *c)
{
	__u32 compat = c->flow->compat, alpha = balia_look(c).alpha, cut;

	cut = pp_min(compat & PP_COMPAT_BALIA_WHOLE_ALPHA ? alpha & ~(PP_RATIO_ONE - 1) : alpha, BALIA_MAX_CUT);
	return pp_max(c->flow->cwnd - (__u32)((__u64)c->flow->cwnd * cut >> (PP_RATIO_SHIFT + 1)), compat & PP_COMPAT_BALIA_ONE_SEGMENT ? 1 : 2);
}

static void balia_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	(void)ack;
	if (!pp_is_cwnd_limited(c->flow))
		return;
	/* draft-walid-mptcp-congestion-control-04, 3: slow start is as in RFC 5681. */
	if (pp_in_slow_start(c->flow)) {
		acked = pp_slow_start(c->flow, acked);
		if (!acked)
			return;
	}
	pp_cong_avoid_ai(c->flow, balia_segments_per_increase(c), pp_coupled_acked(c->flow, acked));
}

static __u32 balia_undo_cwnd(struct pp_ctx *c)
{
	return pp_undo(c->flow);
}

PP_CC_REGISTER(balia) = {
	.name = "balia",
	.flags = PP_CC_COUPLED,
	.ssthresh = balia_ssthresh,
	.cong_avoid = balia_cong_avoid,
	.undo_cwnd = balia_undo_cwnd,
};

PP_CC_ABOUT(balia) = {
	.family = PP_FAMILY_LOSS,
	.source = "Peng et al., ToN 24(1), 2016; draft-walid-mptcp-congestion-control-04",
};
