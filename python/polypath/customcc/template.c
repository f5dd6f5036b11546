/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * NAME.
 *
 * Idea. What makes this algorithm different, in three sentences. As it stands it is Reno, with two
 * numbers to play with.
 *
 * Source. The paper, or that it is your own.
 *
 * The language: integers only, loops with a bound, no C library, no variables outside of the state.
 * pp_cc.h says what a hook is given and may change, pp_math.h has helpers. The same file runs in
 * the simulator, in a kernel of the engine linux, and as BPF in this machine's.
 */
#include "pp_math.h"

/* Segments that a round trip adds. Raising it finds free capacity sooner, and loses more. */
#define NAME_UPPER_INCREASE 1
/* What a loss leaves of the window, 1/1024. Raising it keeps more of the link busy, and makes
 * room for others more slowly. */
#define NAME_UPPER_BETA 512

/* What is kept between two calls, at most 88 bytes, zero before init. */
struct NAME_state {
	__u32 least_rtt_us;	/* least RTT seen, us; 0 = none yet */
	__u32 losses;		/* window reductions so far */
};

PP_STATE_FITS(struct NAME_state);

/* A loss or an ECN mark: the new slow-start threshold, segments. The transport brings the window
 * down to it. */
static __u32 NAME_ssthresh(struct pp_ctx *c)
{
	struct NAME_state *s = c->priv;

	s->losses++;
	/* A product of two numbers of 32 bits needs 64. */
	return pp_max((__u32)((__u64)c->flow->cwnd * NAME_UPPER_BETA / 1024), 2);
}

/* `acked` segments were acknowledged, and nothing is wrong. */
static void NAME_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	struct pp_flow *f = c->flow;

	(void)ack;
	/* A window that the application does not fill proves nothing. */
	if (!pp_is_cwnd_limited(f))
		return;
	if (pp_in_slow_start(f)) {
		acked = pp_slow_start(f, acked);
		if (!acked)
			return;
	}
	/* One segment for each so many that are acknowledged. */
	pp_cong_avoid_ai(f, pp_max(f->cwnd / NAME_UPPER_INCREASE, 1), acked);
}

/* The RTT of an ACK, -1 if it has none. */
static void NAME_pkts_acked(struct pp_ctx *c, const struct pp_sample *sample)
{
	struct NAME_state *s = c->priv;

	if (sample->rtt_us > 0 && (!s->least_rtt_us || sample->rtt_us < s->least_rtt_us))
		s->least_rtt_us = (__u32)sample->rtt_us;
}

/* The reduction proved spurious: the window to return to. */
static __u32 NAME_undo_cwnd(struct pp_ctx *c)
{
	return pp_undo(c->flow);
}

/* All hooks are in pp_cc.h. With .flags = PP_CC_COUPLED a hook sees the subflows of its
 * connection (pp_coupled.h). */
PP_CC_REGISTER(NAME) = {
	.name = "NAME",
	.priv_bytes = sizeof(struct NAME_state),
	.ssthresh = NAME_ssthresh,
	.cong_avoid = NAME_cong_avoid,
	.pkts_acked = NAME_pkts_acked,
	.undo_cwnd = NAME_undo_cwnd,
};

/* What `polypath list cc --cc-path .` says about it. */
PP_CC_ABOUT(NAME) = {
	.family = PP_FAMILY_LOSS,
	.source = "my own",
};
