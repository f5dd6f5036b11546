/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * LIA, the linked increases algorithm.
 *
 * Idea. Each subflow halves its window on loss as Reno does, but all of them share one increase:
 * together they take as much as one TCP would on the best path, and no subflow grows faster than
 * Reno would on its path.
 *
 * Source. RFC 6356. Section 3: for each ACK on subflow i the window grows by the smaller of alpha *
 * bytes_acked * mss_i / cwnd_total and bytes_acked * mss_i / cwnd_i. Section 4.1, for windows in
 * segments:
 *
 *	alpha = cwnd_total * max_i(w_i mss_i^2 / rtt_i^2) / (sum_i w_i mss_i / rtt_i)^2
 *
 * and the window grows by one when more than max(cwnd_total / alpha, cwnd_i) segments are
 * acknowledged. With x_i = w_i mss_i / rtt_i and b the subflow that has the largest x_b^2 / w_b,
 * cwnd_total cancels:
 *
 *	cwnd_total / alpha = (sum_i x_i)^2 / (x_b^2 / w_b) = w_b * (sum_i x_i / x_b)^2
 *
 * which needs no scaled alpha and loses no precision to alpha_scale.
 *
 * Differences from the RFC: alpha is computed anew at each ACK instead of once a window or a round
 * trip (section 4.1 leaves that open); "more than" is "at least". Differences from MPTCP 0.96: that
 * one counts ACKs instead of segments (PP_COMPAT_ACK_COUNTS_ONCE), and its alpha is a whole number
 * of 1/4096 whose best path is found among whole numbers w 2^32 / srtt_us^2: at an RTT of 65 ms
 * these are 0 for windows below 63 segments, and the initial subflow counts as the best. So it
 * grows more slowly than the RFC wherever the initial subflow is not the best (measured: with 8
 * subflows on one path beside one reno flow 4.1 of 20 Mbit/s). With PP_COMPAT_LIA_COARSE
 * lia_coarse() computes the same.
 */
#include "pp_coupled.h"

/*
 * x^2 / w = w mss^2 / rtt^2 of one subflow, scaled by 2^53 bytes^2 per us^2. The first quotient is
 * below 2^63 for rates below 2^47; the product overflows above 2^14 bytes per (us/8)^2, which is
 * 64 MiB at an RTT of 8 us.
 */
static inline __u64 lia_quality(struct pp_path p)
{
	return (p.rate << 16) / p.srtt_us * p.mss;
}

/*
 * Segments to acknowledge for an increase of one: max(w_b * (sum of rates / x_b)^2, own window).
 *
 * b maximises x^2 / w, so x_i / x_b <= sqrt(w_i / w_b), and the sum of at most 32 ratios, in
 * 1/1024, obeys s^2 * w_b <= 2^30 * w_max: below 2^63 for windows below 2^33 segments. Rates are
 * below 2^47, so their sum is below 2^53 as pp_ratio asks.
 */
static __u32 lia_segments_per_increase(const struct pp_ctx *c)
{
	__u64 sum = 0, ratio, best_quality = 0, best_rate = 0;
	__u32 i, n = pp_paths(c), best_cwnd = 0;

	for (i = 0; i < PP_MAX_SIBLINGS && i < n; i++) {
		struct pp_path p;
		__u64 quality;

		/* One that is not usable adds nothing but two divisions. */
		if (!PP_VERIFIER_PREFERS_STRAIGHT_CODE && c->siblings && !pp_is_self(c, i) && !(c->siblings->at[i].usable & 1))
			continue;
		p = pp_path(c, i);
		quality = lia_quality(p);
		sum += p.rate;
		if (quality > best_quality) {
			best_quality = quality;
			best_rate = p.rate;
			best_cwnd = p.cwnd;
		}
	}
	ratio = pp_ratio(sum, best_rate);
	return (__u32)pp_max64(pp_min64(ratio * ratio * best_cwnd >> (2 * PP_RATIO_SHIFT), ~0U), pp_max(c->flow->cwnd, 1));
}

#define LIA_RTT_SHIFT 7	/* RTTs to compare are in 16 us: with srtt_us of 8 to the us that is */
#define LIA_RTT_MIN 64	/* 1 ms, which keeps six bits of the RTT */
#define LIA_RTT_MAX (1U << 14)	/* 262 ms */
#define LIA_CWND_MAX (1U << 15)

/*
 * Whether `count` is surely below the segments per increase, for two usable subflows of one MSS, as
 * most connections have. With r = rtt and s = the sum of w r' over both, r' being the other one's
 * RTT, (sum x / x_b)^2 w_b is s^2 over the larger of the w r'^2: no division, where the exact
 * figure takes five of 64 bits.
 *
 * An RTT rounded down to LIA_RTT_SHIFT is too small by at most 1/64, the larger w r'^2 so by 1/32.
 * Rates of at least 4 segments of 32 bytes in 262 ms are whole numbers above 64, and of those and
 * of 1/1024 lia_segments_per_increase() loses less than 1/20 together: an eighth and one segment to
 * spare. s is below 2^30, w r'^2 below 2^43.
 */
static inline int lia_increase_surely_not_due(const struct pp_ctx *c, __u64 count)
{
	const struct pp_flow *f = c->flow;
	const struct pp_sibling *other = 0;
	__u64 rtt, other_rtt, sum, most;
	__u32 i, n = pp_paths(c);

	if (PP_VERIFIER_PREFERS_STRAIGHT_CODE || !c->siblings)
		return 0;
	for (i = 0; i < PP_MAX_SIBLINGS && i < n; i++) {
		if (i == c->siblings->self || !(c->siblings->at[i].usable & 1))
			continue;
		if (other)
			return 0;
		other = &c->siblings->at[i];
	}
	if (!other)
		return 0;
	rtt = f->srtt_us >> LIA_RTT_SHIFT;
	other_rtt = other->srtt_us >> LIA_RTT_SHIFT;
	if (other->mss != f->mss || f->mss < 32 || rtt < LIA_RTT_MIN || rtt >= LIA_RTT_MAX || other_rtt < LIA_RTT_MIN ||
	    other_rtt >= LIA_RTT_MAX || pp_min(f->cwnd, other->cwnd) < 4 || pp_max(f->cwnd, other->cwnd) >= LIA_CWND_MAX || count >= LIA_CWND_MAX)
		return 0;
	sum = f->cwnd * other_rtt + other->cwnd * rtt;
	most = pp_max64(f->cwnd * other_rtt * other_rtt, other->cwnd * rtt * rtt);
	return (count + 1) * most * 9 < sum * sum * 8;
}

/*
 * PP_COMPAT_LIA_COARSE: the arithmetic of MPTCP 0.96, stated as facts of that stack. Each is in its
 * published sources, and each shows in what it does (specs/notes/coupled-out-of-tree).
 *
 *	alpha has 12 fractional bits there, and is a whole number of 2^-12 after the division, 1 at least
 *	the paths are compared by w 2^32 / srtt^2, srtt in 1/8 us, as whole numbers; the first of equal ones counts
 *	each term of the sum has 10 fractional bits
 *	the window grows with the ACK after the one that completes 1 / alpha, so an increase takes one ACK more than the quotient
 *
 * The formula is the RFC's: multiplied by rtt_b^2 above and below, alpha = cwnd_total w_b / (sum_i
 * w_i rtt_b / rtt_i)^2. The squared sum has 2 * 10 fractional bits, so w_b shifted by 12 + 2 * 10
 * leaves 12 of them in alpha / cwnd_total, whose inverse is the segments per increase.
 */
#define LIA_COARSE_ALPHA_BITS 12
#define LIA_COARSE_PATH_BITS 32
#define LIA_COARSE_TERM_BITS 10

/*
 * Segments to acknowledge for an increase of one, by that arithmetic. The initial subflow is the
 * first sibling.
 *
 * Windows below 2^20 segments and ratios of RTTs below 2^9 keep the sum of 32 below 2^44; it is cut
 * at 2^32 so that its square fits: there alpha is 0, and bounded to 1, long before.
 */
static __u32 lia_coarse(const struct pp_ctx *c)
{
	__u64 best_quality = 0, sum = 0, alpha;
	__u32 i, n = pp_paths(c), best_cwnd = c->flow->cwnd, best_srtt = c->flow->srtt_us | 7;

	for (i = 0; i < PP_MAX_SIBLINGS && i < n; i++) {
		struct pp_path p = pp_path(c, i);
		__u64 quality = ((__u64)p.cwnd << LIA_COARSE_PATH_BITS) / ((__u64)p.srtt_us * p.srtt_us);

		if (p.usable && (!i || quality > best_quality)) {
			best_quality = quality;
			best_cwnd = p.cwnd;
			best_srtt = p.srtt_us;
		}
	}
	for (i = 0; i < PP_MAX_SIBLINGS && i < n; i++) {
		struct pp_path p = pp_path(c, i);

		sum += p.usable ? ((__u64)p.cwnd << LIA_COARSE_TERM_BITS) * best_srtt / p.srtt_us : 0;
	}
	sum = pp_max64(pp_min64(sum, ~0U), 1);
	alpha = pp_max64(((__u64)best_cwnd << (LIA_COARSE_ALPHA_BITS + 2 * LIA_COARSE_TERM_BITS)) / (sum * sum), 1);
	return pp_max((1U << LIA_COARSE_ALPHA_BITS) / (__u32)pp_min64(alpha, ~0U), c->flow->cwnd) + 1;
}

static __u32 lia_ssthresh(struct pp_ctx *c)
{
	return pp_half(c->flow);
}

static void lia_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	__u32 coarse = c->flow->compat & PP_COMPAT_LIA_COARSE, per;
	__u64 count;

	(void)ack;
	if (!pp_is_cwnd_limited(c->flow))
		return;
	/* RFC 6356, 3: slow start is as in RFC 5681, on each subflow by itself. */
	if (pp_in_slow_start(c->flow)) {
		acked = pp_slow_start(c->flow, acked);
		if (!acked)
			return;
	}
	acked = pp_coupled_acked(c->flow, acked);
	/* No increase takes fewer segments than the own window has: until then the others need not be
	 * looked at, nor long after. */
	count = c->flow->cwnd_cnt + (__u64)acked;
	if (c->flow->cwnd <= c->flow->cwnd_clamp && (count < c->flow->cwnd || (!coarse && lia_increase_surely_not_due(c, count)))) {
		c->flow->cwnd_cnt += acked;
		return;
	}
	per = coarse ? lia_coarse(c) : lia_segments_per_increase(c);
	pp_cong_avoid_ai(c->flow, per, acked);
}

static __u32 lia_undo_cwnd(struct pp_ctx *c)
{
	return pp_undo(c->flow);
}

PP_CC_REGISTER(lia) = {
	.name = "lia",
	.flags = PP_CC_COUPLED,
	.ssthresh = lia_ssthresh,
	.cong_avoid = lia_cong_avoid,
	.undo_cwnd = lia_undo_cwnd,
};

PP_CC_ABOUT(lia) = {
	.family = PP_FAMILY_LOSS,
	.source = "RFC 6356; Wischik et al., NSDI 2011",
};
