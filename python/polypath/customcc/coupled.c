/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * NAME, coupled over the subflows of an MPTCP connection.
 *
 * Idea. What makes this algorithm different, in three sentences. As it stands all subflows share
 * one increase of Reno: together they grow by a segment for each so many that are acknowledged as
 * all their windows hold. Each halves its own window on a loss. On plain TCP it is Reno.
 *
 * Source. The paper, or that it is your own.
 *
 * The language: integers only, loops with a bound, no C library, no variables outside of the state.
 * pp_cc.h says what a hook is given and may change, pp_coupled.h what it sees of the other subflows
 * (window, RTT, MSS, rate), pp_math.h has helpers. The same file runs in the simulator, in a kernel
 * of the engine linux, and as BPF in this machine's.
 */
#include "pp_coupled.h"

/* Segments that all subflows together add in a round trip. Raising it finds free capacity sooner,
 * and takes more from others than one TCP would. */
#define NAME_UPPER_INCREASE 1
/* What a loss leaves of the subflow's window, 1/1024. Raising it keeps more of the link busy, and
 * makes room for others more slowly. */
#define NAME_UPPER_BETA 512

/* What is kept between two calls, at most 88 bytes, zero before init. */
struct NAME_state {
	__u32 losses;		/* window reductions so far */
};

PP_STATE_FITS(struct NAME_state);

/* Segments in the windows of all subflows that can send. At most PP_MAX_SIBLINGS windows of 32 bits
 * need 64. */
static __u64 NAME_total(const struct pp_ctx *c)
{
	__u64 total = 0;
	__u32 i, n = pp_paths(c);

	for (i = 0; i < PP_MAX_SIBLINGS && i < n; i++) {
		struct pp_path p = pp_path(c, i);

		if (p.usable)
			total += p.cwnd;
	}
	return total;
}

/* A loss or an ECN mark on this subflow: its new slow-start threshold, segments. */
static __u32 NAME_ssthresh(struct pp_ctx *c)
{
	struct NAME_state *s = c->priv;

	s->losses++;
	return pp_max((__u32)((__u64)c->flow->cwnd * NAME_UPPER_BETA / 1024), 2);
}

/* `acked` segments were acknowledged on this subflow, and nothing is wrong. */
static void NAME_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	struct pp_flow *f = c->flow;

	(void)ack;
	/* A window that the application does not fill proves nothing. */
	if (!pp_is_cwnd_limited(f))
		return;
	/* Slow start is each subflow's own. */
	if (pp_in_slow_start(f)) {
		acked = pp_slow_start(f, acked);
		if (!acked)
			return;
	}
	/* One segment for each so many that are acknowledged. */
	pp_cong_avoid_ai(f, pp_max((__u32)pp_min64(NAME_total(c) / NAME_UPPER_INCREASE, ~0U), 1), acked);
}

/* The reduction proved spurious: the window to return to. */
static __u32 NAME_undo_cwnd(struct pp_ctx *c)
{
	return pp_undo(c->flow);
}

/* All hooks are in pp_cc.h. */
PP_CC_REGISTER(NAME) = {
	.name = "NAME",
	.flags = PP_CC_COUPLED,
	.priv_bytes = sizeof(struct NAME_state),
	.ssthresh = NAME_ssthresh,
	.cong_avoid = NAME_cong_avoid,
	.undo_cwnd = NAME_undo_cwnd,
};

/* What `polypath list cc --cc-path .` says about it. */
PP_CC_ABOUT(NAME) = {
	.family = PP_FAMILY_LOSS,
	.source = "my own",
};
