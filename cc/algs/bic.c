/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * BIC, binary increase congestion control.
 *
 * Idea. The window at the last loss was too large, the present one is not: look for the right one
 * between them as by binary search, a quarter of the way each round trip, but never by more than a
 * fixed step. Beyond the old window, probe away from it slowly at first, then faster.
 *
 * Source. L. Xu, K. Harfoush, I. Rhee: "Binary increase congestion control (BIC) for fast
 * long-distance networks", INFOCOM 2004. With W the window at the last loss, a round trip adds
 *
 *	(W - cwnd) / 4, at most 16 segments, at least 4/20 of one	below W
 *	4/20 up to W + 4, (cwnd - W) / 3 up to W + 48, then 16		beyond W
 *
 * and a loss leaves 0.8 of the window; W becomes 0.9 of it if it did not reach the last W (fast
 * convergence).
 *
 * Differences from the paper, as in Linux: the search goes a quarter of the way (paper: half), and
 * its last step is a fifth of a segment a round trip; a loss leaves 819/1024 (paper: 0.875); Reno
 * up to 14 segments, where a loss leaves half; before the first loss a round trip adds at least a
 * twentieth of the window; all growth is multiplied by the mean number of segments that an ACK
 * acknowledged (two to begin with), so with delayed ACKs it is twice the above; a retransmission
 * timeout forgets W; between two changes of the window the rate of growth is kept for seven ticks.
 * Differences from Linux: none known.
 */
#include "pp_math.h"

/* What a loss leaves of the window, 1/1024. Raising it keeps more of the link busy after a loss,
 * and makes room for others more slowly. */
#define BIC_BETA 819
/* Most that a round trip adds, segments. Raising it finds free capacity sooner, and loses more
 * at once. */
#define BIC_MAX_STEP 16
/* The search goes 1/this of the way a round trip. Raising it approaches the old window more
 * gently. */
#define BIC_SEARCH 4
/* Near the old window a round trip adds BIC_SEARCH/this segments. Raising it stays near it for
 * longer. */
#define BIC_SMOOTH 20
/* Largest window that is Reno's, segments. Raising it makes BIC fairer to Reno where windows are
 * small, and slower there. */
#define BIC_LOW_WINDOW 14
/* Most segments acknowledged for an increase of one before the first loss. Raising it probes
 * more gently. */
#define BIC_MAX_PER_BEFORE_LOSS 20
/* For how many ticks an unchanged window keeps its rate of growth. Raising it saves divisions,
 * and follows slowly. */
#define BIC_KEEP_TICKS (PP_TICKS_PER_S / 32)
/* Segments per ACK are in 1/16. */
#define BIC_RATIO_SHIFT 4

struct bic_state {
	__u32 per;		/* segments to acknowledge for an increase of one */
	__u32 w_max;		/* window at the last loss, segments; 0 = none yet */
	__u32 evaluated_cwnd;	/* window for which `per` was computed, segments */
	__u32 evaluated_tick;	/* when */
	__u32 ratio;		/* segments acknowledged per ACK, moving mean, 1/16 */
};

PP_STATE_FITS(struct bic_state);

static void bic_reset(struct bic_state *s)
{
	*s = (struct bic_state){ .ratio = 2U << BIC_RATIO_SHIFT };
}

/* Segments to acknowledge for an increase of one, by the paper's curve. Windows below
 * 2^27 segments do not overflow. */
static __u32 bic_curve(const struct bic_state *s, __u32 cwnd)
{
	__u32 smooth = cwnd * BIC_SMOOTH / BIC_SEARCH, step;

	if (cwnd < s->w_max) {
		step = (s->w_max - cwnd) / BIC_SEARCH;
		return step <= 1 ? smooth : cwnd / pp_min(step, BIC_MAX_STEP);
	}
	step = cwnd - s->w_max;
	if (step < BIC_SEARCH)
		return smooth;
	return step < BIC_MAX_STEP * (BIC_SEARCH - 1) ? cwnd * (BIC_SEARCH - 1) / step : cwnd / BIC_MAX_STEP;
}

static void bic_update(struct bic_state *s, const struct pp_flow *f)
{
	__u32 cwnd = f->cwnd, now = pp_tick(f->now_ns), per;

	if (s->evaluated_cwnd == cwnd && now - s->evaluated_tick <= BIC_KEEP_TICKS)
		return;
	s->evaluated_cwnd = cwnd;
	s->evaluated_tick = now;
	if (cwnd <= BIC_LOW_WINDOW) {
		s->per = cwnd;
		return;
	}
	per = bic_curve(s, cwnd);
	if (!s->w_max)
		per = pp_min(per, BIC_MAX_PER_BEFORE_LOSS);
	/* Windows below 2^25 segments: 5 * 2^25 * 16 < 2^32. */
	s->per = pp_max((per << BIC_RATIO_SHIFT) / pp_max(s->ratio, 1), 1);
}

static void bic_init(struct pp_ctx *c)
{
	bic_reset(c->priv);
}

static __u32 bic_ssthresh(struct pp_ctx *c)
{
	struct bic_state *s = c->priv;
	__u32 cwnd = c->flow->cwnd;

	/* A window that did not reach the last one's makes room for new flows. 2^32 * 1843 fits into 64
	 * bits. */
	s->w_max = cwnd < s->w_max ? (__u32)((__u64)cwnd * (1024 + BIC_BETA) / 2048) : cwnd;
	return cwnd <= BIC_LOW_WINDOW ? pp_half(c->flow) : pp_max((__u32)((__u64)cwnd * BIC_BETA / 1024), 2);
}

static void bic_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	struct bic_state *s = c->priv;
	struct pp_flow *f = c->flow;

	(void)ack;
	if (!pp_is_cwnd_limited(f))
		return;
	if (pp_in_slow_start(f)) {
		acked = pp_slow_start(f, acked);
		if (!acked)
			return;
	}
	bic_update(s, f);
	pp_cong_avoid_ai(f, pp_max(s->per, 1), acked);
}

static void bic_set_state(struct pp_ctx *c, __u32 new_state)
{
	if (new_state == PP_CA_LOSS)
		bic_reset(c->priv);
}

static void bic_pkts_acked(struct pp_ctx *c, const struct pp_sample *sample)
{
	struct bic_state *s = c->priv;

	if (c->flow->ca_state == PP_CA_OPEN)
		s->ratio += sample->pkts_acked - (s->ratio >> BIC_RATIO_SHIFT);
}

static __u32 bic_undo_cwnd(struct pp_ctx *c)
{
	return pp_undo(c->flow);
}

PP_CC_REGISTER(bic) = {
	.name = "bic",
	.priv_bytes = sizeof(struct bic_state),
	.init = bic_init,
	.ssthresh = bic_ssthresh,
	.cong_avoid = bic_cong_avoid,
	.set_state = bic_set_state,
	.pkts_acked = bic_pkts_acked,
	.undo_cwnd = bic_undo_cwnd,
};

PP_CC_ABOUT(bic) = {
	.family = PP_FAMILY_LOSS,
	.source = "Xu, Harfoush, Rhee, INFOCOM 2004",
	.counterpart = "bic",
	.aliases = "bic-tcp",
};
