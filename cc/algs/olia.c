/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * OLIA, the opportunistic linked increases algorithm.
 *
 * Idea. LIA keeps traffic on congested paths to stay responsive. OLIA takes Kelly and Voice's
 * Pareto-optimal increase and adds a term that moves window from the paths with the largest windows
 * to those that seem best but have small ones, so that it stays responsive without that traffic.
 *
 * Source. R. Khalili, N. Gast, M. Popovic, J.-Y. Le Boudec: "MPTCP is not Pareto-optimal:
 * performance issues and a possible solution", CoNEXT 2012 and IEEE/ACM ToN 2013;
 * draft-khalili-mptcp-congestion-control-05. For each segment acknowledged on path r:
 *
 *	w_r += (w_r / rtt_r^2) / (sum_p w_p / rtt_p)^2 + alpha_r / w_r
 *
 * With x_r = w_r mss_r / rtt_r that is ((x_r / sum_p x_p)^2 + alpha_r) / w_r. l_r is the larger of
 * the bytes acknowledged since the last loss on r and between the last two; 1 / l_r estimates the
 * loss rate, and sqrt(l_r) / rtt_r the rate that a TCP would get there. B is the set of paths with
 * the largest l_r / rtt_r^2, M that with the largest windows, n the number of paths:
 *
 *	alpha_r = 1 / (n |B \ M|)	if r is in B but not in M
 *	        = -1 / (n |M|)		if r is in M and B \ M is not empty
 *	        = 0			otherwise
 *
 * On loss the window is halved. On one path this is Reno.
 *
 * Differences from the paper: paths whose l / rtt^2 agree to one in a thousand count as equally
 * good. l above 2 GiB counts as 2 GiB. Differences from MPTCP 0.96: that one counts ACKs instead of
 * segments (PP_COMPAT_ACK_COUNTS_ONCE), each ACK adds a whole number of 2^-10 segments
 * (PP_COMPAT_OLIA_COARSE), and a loss keeps the credit (PP_COMPAT_OLIA_KEEPS_CREDIT). With two
 * equal subflows of 140 segments an ACK adds 1 instead of 1.8, and to a subflow of 400 segments
 * with a share below 0.62 none at all.
 */
#include "pp_coupled.h"

#define OLIA_SHIFT 20	/* credit and alpha are in 2^-20 segments */
#define OLIA_ONE (1LL << OLIA_SHIFT)

/* Largest l, bytes: keeps the quality of a path within 64 bits. */
#define OLIA_MAX_BYTES ((1ULL << 31) - 1)

/*
 * PP_COMPAT_OLIA_COARSE, facts in the published sources of MPTCP 0.96, and seen in what it does
 * (specs/notes/coupled-out-of-tree): what an ACK adds is a whole number of 2^-10 segments, and a
 * segment counts as full at 1023 of them, when all ten fractional bits are set.
 */
#define OLIA_COARSE_BITS 10
#define OLIA_COARSE_STEP ((1LL << OLIA_COARSE_BITS) - 1)

struct olia_state {
	/* Increase times window not yet applied, 2^-20 segments, within +-(acked + window) * 2^20; if
	 * coarse, increase, 2^-10 segments. */
	__s64 credit;
};

PP_STATE_FITS(struct olia_state);

/*
 * l / rtt^2 of a subflow of a connection: l * 2^32 over the square of the RTT in microseconds. l
 * below 2^31 keeps that below 2^63; the square of srtt_us, which has 32 bits, always fits. An l of
 * 100 kB at an RTT of a second still has three digits.
 */
static inline __u64 olia_quality(const struct pp_sibling *s, __u32 srtt_us)
{
	__u64 bytes = pp_min64(pp_max64(s->bytes_since_loss, s->bytes_between_losses), OLIA_MAX_BYTES);

	/* srtt_us is eight times the RTT, so its square is 64 times the RTT's. */
	return (bytes << 32) / (((__u64)srtt_us * srtt_us >> 6) + 1);
}

static inline __u64 olia_window(struct pp_path p)
{
	return (__u64)p.cwnd * p.mss;
}

/* alpha_r of the own subflow, 2^-20; between -1 and 1. */
static inline __s64 olia_alpha(const struct pp_ctx *c)
{
	__u64 best_quality = 0, largest = 0, part;
	__u32 i, n = pp_paths(c), self, paths = 0, collected = 0, max_w = 0;
	struct pp_path own = pp_own(c);

	if (!c->siblings || c->siblings->self >= PP_MAX_SIBLINGS)
		return 0;
	self = c->siblings->self;
	for (i = 0; i < PP_MAX_SIBLINGS && i < n; i++) {
		struct pp_path p = pp_path(c, i);

		best_quality = pp_max64(best_quality, olia_quality(&c->siblings->at[i], p.srtt_us) * p.usable);
		largest = pp_max64(largest, olia_window(p) * p.usable);
	}
	for (i = 0; i < PP_MAX_SIBLINGS && i < n; i++) {
		struct pp_path p = pp_path(c, i);
		__u32 max = pp_equal(olia_window(p), largest) & p.usable;

		collected += pp_equal(olia_quality(&c->siblings->at[i], p.srtt_us), best_quality) & p.usable & (1 ^ max);
		max_w += max;
		paths += p.usable;
	}
	if (!collected)
		return 0;
	if (olia_window(own) == largest) {
		part = pp_div(OLIA_ONE, (__u64)paths * max_w);
		return -(__s64)part;
	}
	part = pp_div(OLIA_ONE, (__u64)paths * collected);
	return olia_quality(&c->siblings->at[self], own.srtt_us) == best_quality ? (__s64)part : 0;
}

/* The sum of all rates. */
static inline __u64 olia_sum(const struct pp_ctx *c)
{
	__u64 sum = 0;
	__u32 i, n = pp_paths(c);

	for (i = 0; i < PP_MAX_SIBLINGS && i < n; i++)
		sum += pp_path(c, i).rate;
	return sum;
}

/* (x_r / sum x)^2 + alpha_r of the own subflow, 2^-20; between -1 and 2. */
static __s64 olia_increase(const struct pp_ctx *c)
{
	__u64 share = pp_min(pp_ratio(pp_own(c).rate, olia_sum(c)), PP_RATIO_ONE);

	return (__s64)(share * share) + olia_alpha(c);
}

static __u32 olia_ssthresh(struct pp_ctx *c)
{
	return pp_half(c->flow);
}

/* Credit to collect for a step of one segment. Windows below 2^32 segments: below 2^52. */
static inline __s64 olia_step(const struct pp_flow *f)
{
	return f->compat & PP_COMPAT_OLIA_COARSE ? OLIA_COARSE_STEP : (__s64)pp_max(f->cwnd, 1) << OLIA_SHIFT;
}

/* What `increase` per segment adds to the credit: if coarse, a whole number of 2^-10 segments
 * for the ACK, rounded towards zero. */
static inline __s64 olia_credit(const struct pp_flow *f, __s64 increase, __u32 acked)
{
	__u64 part;

	increase *= acked;
	if (!(f->compat & PP_COMPAT_OLIA_COARSE))
		return increase;
	part = ((__u64)(increase < 0 ? -increase : increase) >> (OLIA_SHIFT - OLIA_COARSE_BITS)) / pp_max(f->cwnd, 1);
	return increase < 0 ? -(__s64)part : (__s64)part;
}

static void olia_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	struct olia_state *s = c->priv;
	struct pp_flow *f = c->flow;
	__s64 step;

	(void)ack;
	if (!pp_is_cwnd_limited(f))
		return;
	/* draft-khalili-mptcp-congestion-control-05, 2: slow start is as in RFC 5681. */
	if (pp_in_slow_start(f)) {
		acked = pp_slow_start(f, acked);
		if (!acked)
			return;
	}
	s->credit += olia_credit(f, olia_increase(c), pp_coupled_acked(f, acked));
	step = olia_step(f);
	if (s->credit >= step) {
		__u32 steps = (__u32)((__u64)s->credit / (__u64)step);

		s->credit -= (__s64)steps * step;
		f->cwnd = pp_min(f->cwnd + steps, f->cwnd_clamp);
	} else if (s->credit <= -step) {
		s->credit += step;
		f->cwnd = pp_max(f->cwnd - 1, 1);
	}
}

static void olia_set_state(struct pp_ctx *c, __u32 new_state)
{
	struct olia_state *s = c->priv;

	/* As the transport does with cwnd_cnt: a reduction begins a new count. */
	if (new_state >= PP_CA_CWR && !(c->flow->compat & PP_COMPAT_OLIA_KEEPS_CREDIT))
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

PP_CC_ABOUT(olia) = {
	.family = PP_FAMILY_LOSS,
	.source = "Khalili et al., CoNEXT 2012; draft-khalili-mptcp-congestion-control-05",
};
