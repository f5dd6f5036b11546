/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Illinois.
 *
 * Idea. Losses say when to reduce the window, as for Reno; the delay says by how much, and how fast
 * to grow. With an empty queue the window grows by ten segments a round trip, near the largest
 * queueing delay ever seen by less than Reno's one: the curve is concave, so the window stays near
 * its best value for long. A loss at low delay is taken for random and costs an eighth.
 *
 * Source. S. Liu, T. Basar, R. Srikant: "TCP-Illinois: a loss- and delay-based congestion control
 * algorithm for high-speed networks", Performance Evaluation 65(6-7), 2008. Once a round trip, with
 * da the mean queueing delay of the round and dm the largest (RTT minus the least RTT):
 *
 *	alpha = 10					da <= d1 = dm / 100
 *	alpha = k1 / (k2 + da), from 10 at d1 to 0.3 at dm	otherwise
 *	beta = 1/8					da <= d2 = dm / 10
 *	beta = 1/2					da >= d3 = 8 dm / 10
 *	beta in a line between				otherwise
 *
 * The window grows by alpha segments a round trip and loses beta of itself. After da was above d1,
 * alpha returns to 10 only after theta rounds below. Below 15 segments it is Reno.
 *
 * Differences from the paper, all as in Linux: alpha is in whole 1/128 and 38/128 at least, beta in
 * whole 1/64; the theta rounds need not be consecutive; a retransmission timeout makes it Reno
 * until the next round ends, and what was acknowledged beyond a whole increase is forgotten. Before
 * the first round it grows by 10. Differences from Linux: none known; rounds of more than 65535 RTT
 * samples do not wrap.
 */
#include "pp_math.h"

/* alpha in 1/128 segments a round trip. Raising the most finds free capacity sooner, and
 * overshoots more. */
#define ILLINOIS_ALPHA_SHIFT 7
#define ILLINOIS_ALPHA_RENO (1U << ILLINOIS_ALPHA_SHIFT)
#define ILLINOIS_ALPHA_MAX (10 * ILLINOIS_ALPHA_RENO)
/* Raising the least makes losses more frequent on a full path. */
#define ILLINOIS_ALPHA_MIN (3 * ILLINOIS_ALPHA_RENO / 10)
/* beta in 1/64 of the window. Raising the least gives random losses more weight. */
#define ILLINOIS_BETA_SHIFT 6
#define ILLINOIS_BETA_MIN (1U << (ILLINOIS_BETA_SHIFT - 3))
#define ILLINOIS_BETA_MAX (1U << (ILLINOIS_BETA_SHIFT - 1))
/* Windows below this are Reno's, segments. Raising it is gentler to Reno on short paths. */
#define ILLINOIS_MIN_CWND 15
/* theta: rounds of low delay before alpha returns to its most. Raising it tolerates more jitter,
 * and refills an empty path later. */
#define ILLINOIS_CALM_ROUNDS 5
/* Longer RTTs count as this, us (3.4 s): then a delay times the most alpha fits into 32 bits. */
#define ILLINOIS_RTT_MAX_US (~0U / ILLINOIS_ALPHA_MAX)
/* No RTT is known. */
#define ILLINOIS_RTT_UNKNOWN 0x7fffffffU

struct illinois_state {
	__u64 rtt_sum_us;	/* RTT samples of the round */
	__u32 samples;		/* their number */
	__u32 base_us;		/* least RTT seen */
	__u32 max_us;		/* largest RTT seen */
	__u32 round_end;	/* sequence number that ends the round */
	__u32 alpha;		/* segments of growth a round trip, 1/128 */
	__u32 beta;		/* what a loss takes of the window, 1/64 */
	__u32 acked;		/* segments that the ACK being handled acknowledged */
	__u8  was_above;	/* the delay was above d1 since alpha last was the most */
	__u8  calm_rounds;	/* rounds at or below d1 since */
};

PP_STATE_FITS(struct illinois_state);

static void illinois_begin_round(struct illinois_state *s, const struct pp_flow *f)
{
	s->round_end = f->snd_nxt;
	s->rtt_sum_us = 0;
	s->samples = 0;
}

/* The paper's kappas spelt out: alpha_max (dm - d1) / ((dm - d1) + (da - d1) (alpha_max -
 * alpha_min) / alpha_min). */
static __u32 illinois_alpha(struct illinois_state *s, __u32 da_us, __u32 dm_us)
{
	__u32 d1_us = dm_us / 100;
	__u32 range_us = dm_us - d1_us, above_us = da_us - d1_us;

	if (da_us <= d1_us) {
		if (s->was_above) {
			s->calm_rounds++;
			if (s->calm_rounds < ILLINOIS_CALM_ROUNDS)
				return s->alpha;
			s->calm_rounds = 0;
			s->was_above = 0;
		}
		return ILLINOIS_ALPHA_MAX;
	}
	s->was_above = 1;
	/* Delays below ILLINOIS_RTT_MAX_US: both products below 2^32. d1 < da <= dm: the divisor is not
	 * 0. */
	return range_us * ILLINOIS_ALPHA_MAX / (range_us + above_us * (ILLINOIS_ALPHA_MAX - ILLINOIS_ALPHA_MIN) / ILLINOIS_ALPHA_MIN);
}

static __u32 illinois_beta(__u32 da_us, __u32 dm_us)
{
	__u32 d2_us = dm_us / 10, d3_us = 8 * dm_us / 10;

	if (da_us <= d2_us)
		return ILLINOIS_BETA_MIN;
	if (da_us >= d3_us)
		return ILLINOIS_BETA_MAX;
	/* From one to the other; d2 < da < d3. */
	return (ILLINOIS_BETA_MIN * (d3_us - da_us) + ILLINOIS_BETA_MAX * (da_us - d2_us)) / (d3_us - d2_us);
}

static void illinois_end_round(struct illinois_state *s, const struct pp_flow *f)
{
	if (f->cwnd < ILLINOIS_MIN_CWND) {
		s->alpha = ILLINOIS_ALPHA_RENO;
		s->beta = ILLINOIS_BETA_MAX;
	} else if (s->samples) {
		__u32 da_us = (__u32)(s->rtt_sum_us / s->samples) - s->base_us;
		__u32 dm_us = s->max_us - s->base_us;

		s->alpha = illinois_alpha(s, da_us, dm_us);
		s->beta = illinois_beta(da_us, dm_us);
	}
	illinois_begin_round(s, f);
}

static void illinois_init(struct pp_ctx *c)
{
	struct illinois_state *s = c->priv;

	*s = (struct illinois_state){ .base_us = ILLINOIS_RTT_UNKNOWN, .alpha = ILLINOIS_ALPHA_MAX, .beta = ILLINOIS_BETA_MAX };
	illinois_begin_round(s, c->flow);
}

static __u32 illinois_ssthresh(struct pp_ctx *c)
{
	const struct illinois_state *s = c->priv;
	__u32 cwnd = c->flow->cwnd;

	return pp_max(cwnd - (__u32)((__u64)cwnd * s->beta >> ILLINOIS_BETA_SHIFT), 2);
}

static void illinois_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	struct illinois_state *s = c->priv;
	struct pp_flow *f = c->flow;
	__u64 credit;

	if (pp_after(ack, s->round_end))
		illinois_end_round(s, f);
	if (!pp_is_cwnd_limited(f))
		return;
	if (pp_in_slow_start(f)) {
		pp_slow_start(f, acked);
		return;
	}
	f->cwnd_cnt += s->acked;
	s->acked = 1;
	credit = (__u64)f->cwnd_cnt * s->alpha >> ILLINOIS_ALPHA_SHIFT;
	if (credit >= f->cwnd) {
		f->cwnd = (__u32)pp_min64(f->cwnd + pp_div(credit, f->cwnd), f->cwnd_clamp);
		f->cwnd_cnt = 0;
	}
}

static void illinois_set_state(struct pp_ctx *c, __u32 new_state)
{
	struct illinois_state *s = c->priv;

	if (new_state != PP_CA_LOSS)
		return;
	s->alpha = ILLINOIS_ALPHA_RENO;
	s->beta = ILLINOIS_BETA_MAX;
	s->was_above = 0;
	s->calm_rounds = 0;
	illinois_begin_round(s, c->flow);
}

static void illinois_pkts_acked(struct pp_ctx *c, const struct pp_sample *sample)
{
	struct illinois_state *s = c->priv;
	__u32 rtt_us;

	s->acked = sample->pkts_acked;
	if (sample->rtt_us < 0)
		return;
	rtt_us = (__u32)pp_min64((__u64)sample->rtt_us, ILLINOIS_RTT_MAX_US);
	s->base_us = pp_min(s->base_us, rtt_us);
	s->max_us = pp_max(s->max_us, rtt_us);
	/* Below 2^64 for 2^32 samples. */
	s->rtt_sum_us += rtt_us;
	s->samples++;
}

static __u32 illinois_undo_cwnd(struct pp_ctx *c)
{
	return pp_undo(c->flow);
}

PP_CC_REGISTER(illinois) = {
	.name = "illinois",
	.priv_bytes = sizeof(struct illinois_state),
	.init = illinois_init,
	.ssthresh = illinois_ssthresh,
	.cong_avoid = illinois_cong_avoid,
	.set_state = illinois_set_state,
	.pkts_acked = illinois_pkts_acked,
	.undo_cwnd = illinois_undo_cwnd,
};

PP_CC_ABOUT(illinois) = {
	.family = PP_FAMILY_HYBRID,
	.source = "Liu, Basar, Srikant, Performance Evaluation 65(6-7), 2008",
	.counterpart = "illinois",
};
