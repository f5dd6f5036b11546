/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * OLIA, the opportunistic linked increases algorithm.
 *
 * Idea. LIA keeps traffic on congested paths to stay responsive. OLIA takes Kelly and Voice's Pareto-optimal increase and adds a term that moves window from the
 * paths with the largest windows to those that seem best but have small ones, so that it stays responsive without that traffic.
 *
 * Source. R. Khalili, N. Gast, M. Popovic, J.-Y. Le Boudec: "MPTCP is not Pareto-optimal: performance issues and a possible solution", CoNEXT 2012 and IEEE/ACM ToN
 * 2013; draft-khalili-mptcp-congestion-control-05. For each segment acknowledged on path r:
 *
 *	w_r += (w_r / rtt_r^2) / (sum_p w_p / rtt_p)^2 + alpha_r / w_r
 *
 * With x_r = w_r mss_r / rtt_r that is ((x_r / sum_p x_p)^2 + alpha_r) / w_r. l_r is the larger of the bytes acknowledged since the last loss on r and
 * between the last two; 1 / l_r estimates the loss rate, and sqrt(l_r) / rtt_r the rate that a TCP would get there. B is the set of paths with the largest
 * l_r / rtt_r^2, M that with the largest windows, n the number of paths:
 *
 *	alpha_r = 1 / (n |B \ M|)	if r is in B but not in M
 *	        = -1 / (n |M|)		if r is in M and B \ M is not empty
 *	        = 0			otherwise
 *
 * On loss the window is halved. On one path this is Reno.
 *
 * Differences from the paper: paths whose l / rtt^2 agree to one in a thousand count as equally good. l above 2 GiB counts as 2 GiB.
 * Differences from the out-of-tree kernel: that one counts ACKs instead of segments; a transport that models it sets flow->counts_acks.
 */
#include "pp_coupled.h"

#define OLIA_SHIFT 20	/* credit and alpha are in 2^-20 segments */
#define OLIA_ONE (1LL << OLIA_SHIFT)

/* Largest l, bytes, so that l times a squared ratio of RTTs (below 2^32) fits into 64 bits. */
#define OLIA_MAX_BYTES ((1ULL << 31) - 1)
#define OLIA_MAX_RTT_RATIO ((1U << 16) - 1)	/* in 1/1024 */

struct olia_state {
	__s64 credit;	/* increase times window not yet applied, 2^-20 segments; within +-(acked + window) * 2^20 */
};

PP_STATE_FITS(struct olia_state);

/* The larger of both estimates of the bytes between two losses on subflow i. */
static __u64 olia_bytes(const struct pp_ctx *c, __u32 i)
{
	if (!c->siblings)
		return 0;
	return pp_min64(pp_max64(c->siblings->at[i].bytes_since_loss, c->siblings->at[i].bytes_between_losses), OLIA_MAX_BYTES);
}

/* l_a / rtt_a^2 >= l_b / rtt_b^2, as l_a >= l_b (rtt_a / rtt_b)^2. */
static int olia_not_worse(__u64 bytes_a, __u32 rtt_a, __u64 bytes_b, __u32 rtt_b)
{
	__u64 ratio = pp_min64(pp_div((__u64)rtt_a << PP_RATIO_SHIFT, rtt_b), OLIA_MAX_RTT_RATIO);

	return bytes_a << (2 * PP_RATIO_SHIFT) >= bytes_b * ratio * ratio;
}

/* (x_r / sum x)^2 + alpha_r of the own subflow, 2^-20; between -1 and 2. */
static __s64 olia_increase(const struct pp_ctx *c)
{
	__u64 own = pp_path(c, c->siblings ? c->siblings->self : 0).rate, sum = 0, best_bytes = 0, largest = 0;
	__u32 i, n = pp_paths(c), paths = 0, best_rtt = 0, collected = 0, max_w = 0, self_best = 0, self_max = 0, share;
	__s64 alpha = 0;

	for (i = 0; i < PP_MAX_SIBLINGS && i < n; i++) {
		struct pp_path p = pp_path(c, i);
		__u64 bytes = olia_bytes(c, i);

		if (!p.rate)
			continue;
		paths++;
		sum += p.rate;
		largest = pp_max64(largest, (__u64)p.cwnd * p.mss);
		if (!best_rtt || olia_not_worse(bytes, p.srtt_us, best_bytes, best_rtt)) {
			best_bytes = bytes;
			best_rtt = p.srtt_us;
		}
	}
	if (!own)
		return OLIA_ONE;
	for (i = 0; i < PP_MAX_SIBLINGS && i < n; i++) {
		struct pp_path p = pp_path(c, i);
		int best, max;

		if (!p.rate)
			continue;
		best = olia_not_worse(olia_bytes(c, i), p.srtt_us, best_bytes, best_rtt);
		max = (__u64)p.cwnd * p.mss == largest;
		collected += best && !max;
		max_w += max;
		if (pp_is_self(c, i)) {
			self_best = best;
			self_max = max;
		}
	}
	if (collected) {
		if (self_max)
			alpha = -(__s64)((__u64)OLIA_ONE / (paths * max_w));
		else if (self_best)
			alpha = (__s64)((__u64)OLIA_ONE / (paths * collected));
	}
	share = pp_ratio(own, sum);
	return (__s64)((__u64)share * share) + alpha;
}

static __u32 olia_ssthresh(struct pp_ctx *c)
{
	return pp_half(c->flow);
}

static void olia_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	struct olia_state *s = c->priv;
	struct pp_flow *f = c->flow;
	__s64 per;

	(void)ack;
	if (!pp_is_cwnd_limited(f))
		return;
	/* draft-khalili-mptcp-congestion-control-05, 2: slow start is as in RFC 5681. */
	if (pp_in_slow_start(f)) {
		acked = pp_slow_start(f, acked);
		if (!acked)
			return;
	}
	s->credit += olia_increase(c) * pp_coupled_acked(f, acked);
	/* Windows below 2^32 segments: below 2^52. */
	per = (__s64)pp_max(f->cwnd, 1) << OLIA_SHIFT;
	if (s->credit >= per) {
		__u32 steps = (__u32)((__u64)s->credit / (__u64)per);

		s->credit -= (__s64)steps * per;
		f->cwnd = pp_min(f->cwnd + steps, f->cwnd_clamp);
	} else if (s->credit <= -per) {
		s->credit += per;
		f->cwnd = pp_max(f->cwnd - 1, 1);
	}
}

static void olia_set_state(struct pp_ctx *c, __u32 new_state)
{
	struct olia_state *s = c->priv;

	/* As the transport does with cwnd_cnt: a reduction begins a new count. */
	if (new_state >= PP_CA_CWR)
		s->credit = 0;
}

static __u32 olia_undo_cwnd(struct pp_ctx *c)
{
	return pp_undo(c->flow);
}

PP_CC_REGISTER(olia) = {
	.name = "olia",
	.flags = PP_CC_COUPLED,
	.priv_bytes = sizeof(struct olia_state),
	.ssthresh = olia_ssthresh,
	.cong_avoid = olia_cong_avoid,
	.set_state = olia_set_state,
	.undo_cwnd = olia_undo_cwnd,
};
