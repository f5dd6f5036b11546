/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * NV, New Vegas.
 *
 * Idea. In networks whose machines batch segments and ACKs, single RTTs are noise. NV watches the
 * rate at which segments are delivered: with an empty queue it is window / least RTT, and once the
 * path is full it grows no more. So from the largest rate of the last round trips and the least RTT
 * follows the window that would give just that rate; a window that is larger by more than a pad is
 * congestion, and shrinks toward it by a part of the difference. Decisions wait for enough samples.
 *
 * Source. L. Brakmo: "TCP-NV: congestion avoidance for data centers", Linux Plumbers Conference
 * 2010; "TCP-NV: an update to TCP-Vegas", 2015 (no RFC, no formulas in print). With rtt the mean of
 * a sample and the mean before, rate = (bytes delivered while the last segment acknowledged was in
 * flight) / rtt:
 *
 *	ideal = max rate * least rtt / mss			once a round trip, from at least 20 samples to grow and 60 to shrink (30 in the first slow start)
 *	cwnd > ideal + pad: ssthresh = ideal + pad, cwnd - 30 % of the excess, no growth
 *	cwnd <= ideal + pad - 2: growth as Reno's, at least four segments a step
 *	loss: 80 % of the window
 *
 * After a loss nothing grows until a decision allows it, and the samples begin anew. Each
 * retransmission timeout halves the pace of growth, down to 1/256; nine decisions to grow double
 * it. The least RTT is that of the last 3.75 to 6.25 s, a time drawn anew every time so that flows
 * do not renew it together. Where a round has one sample only, which is a batch, it takes longer
 * rounds.
 *
 * Differences from the slides, all as in Linux: while the state is other than Open and Disorder
 * samples are not looked at; a sequence of samples that begins anew takes twice its first RTT for
 * the least one; growth faster than Reno's is not used. Differences from Linux: the drawn times
 * differ, and are exact (Linux: ticks); a BPF program is not asked for a base RTT.
 */
#include "pp_math.h"

/* Segments beyond the ideal window. Raising it fills the link better against others, and adds
 * delay. */
#define NV_PAD 10
/* Closer than this to the pad the window rests, segments. */
#define NV_PAD_REST 2
/* What a decision takes of the excess, 1/128 (30 %). Raising it drains queues faster, and
 * overreacts to noise. */
#define NV_SHRINK 38
/* What a loss leaves of the window, 1/1024 (80 %). */
#define NV_BETA 819
/* Samples before a decision to grow, to end the first slow start, to shrink. Raising them
 * withstands more noise, and reacts later. */
#define NV_GROW_SAMPLES 20
#define NV_LEAVE_SAMPLES 30
#define NV_SHRINK_SAMPLES 60
/* Round trips before a decision to shrink; after how many without enough samples growth stops. */
#define NV_SHRINK_ROUNDS 2
#define NV_STOP_ROUNDS 10
/* Decisions to grow that double the pace again. */
#define NV_FASTER_AFTER 8
/* The pace is at least 1/2^this of Reno's. */
#define NV_MOST_SLOWER 8
/* Segments to acknowledge for one of growth, at least. */
#define NV_MIN_PER 4
/* Least window that a decision leaves, segments. */
#define NV_MIN_CWND 2
/* The first least RTT counts for this long, later ones for (384 + 0..255) / 512 of the period,
 * ns. Raising it follows longer paths later. */
#define NV_FIRST_PERIOD_NS 2000000000ULL
#define NV_PERIOD_NS 5000000000ULL
/* Segments that a batch is thought to have: at first, steps, at most. A round of one sample
 * acknowledges a batch. */
#define NV_BATCH 4
#define NV_BATCH_STEP 2
#define NV_BATCH_MAX 81
/* Rates are in 100 bit/s: bytes per us times this. */
#define NV_RATE_UNIT 80000ULL
/* No RTT is known. */
#define NV_RTT_UNKNOWN (~0U)

struct nv_state {
	__u64 renew_ns;		/* when the least RTT is replaced by that of the recent past */
	__u32 rtt_us;		/* moving mean; 0 = none yet */
	__u32 least_us;		/* least rtt_us */
	__u32 next_least_us;	/* the same since it was last replaced */
	__u32 max_rate;		/* since the last decision, 100 bit/s */
	__u32 round_end;	/* sequence number that ends the round */
	__u32 last_una;		/* snd_una at the sample before */
	__u32 grown;		/* decisions to grow in a row */
	__u8  samples;		/* since the last decision, up to 255 */
	__u8  rounds;		/* the same */
	__u8  batch;		/* segments of a batch */
	__u8  slower;		/* the pace is 1/2^this of Reno's */
	__u8  may_grow;
	__u8  stale;		/* the samples are from before a loss */
};

PP_STATE_FITS(struct nv_state);

static void nv_begin(struct nv_state *s, const struct pp_flow *f)
{
	s->stale = 0;
	s->rtt_us = 0;
	s->max_rate = 0;
	s->round_end = f->snd_una;
	s->last_una = f->snd_una;
	s->grown = 0;
	s->samples = 0;
	s->rounds = 0;
}

/* The mean and the rate of this sample, and what they change. `bytes` were delivered within
 * `rtt_us`. */
static void nv_note(struct nv_state *s, const struct pp_flow *f, __u32 rtt_us, __u32 bytes)
{
	if (s->rtt_us) {
		rtt_us = (__u32)(((__u64)rtt_us + s->rtt_us) >> 1);
	} else {
		s->least_us = rtt_us << 1;
	}
	s->rtt_us = rtt_us;
	/* 2^32 * 80000 fits into 64 bits. */
	s->max_rate = pp_max(s->max_rate, (__u32)(bytes * NV_RATE_UNIT / pp_max(rtt_us, 1)));
	s->samples += s->samples < 255;
	s->least_us = pp_min(s->least_us, rtt_us);
	s->next_least_us = pp_min(s->next_least_us, rtt_us);
	if (f->now_ns >= s->renew_ns) {
		s->least_us = s->next_least_us;
		s->next_least_us = NV_RTT_UNKNOWN;
		s->renew_ns = f->now_ns + NV_PERIOD_NS * (384 + (f->random & 255)) / 512;
		s->batch = (__u8)pp_max(s->batch / 2, NV_BATCH);
	}
}

/* Whether the window is too large by so many samples that it was made smaller. */
static int nv_shrink(struct nv_state *s, struct pp_flow *f, __u32 most)
{
	__u32 excess = f->cwnd - most;

	if (s->rounds < NV_SHRINK_ROUNDS)
		return 0;
	if (f->ssthresh == PP_SSTHRESH_INFINITE) {
		if (s->samples < NV_LEAVE_SAMPLES)
			return 0;
	} else if (s->samples < NV_SHRINK_SAMPLES) {
		if (s->rounds > NV_STOP_ROUNDS)
			s->may_grow = 0;
		return 0;
	}
	s->may_grow = 0;
	s->grown = 0;
	f->ssthresh = most;
	/* Windows below 2^26 segments. */
	f->cwnd -= excess > 2 ? pp_max(excess * NV_SHRINK >> 7, 2) : excess;
	return 1;
}

static int nv_allow_growth(struct nv_state *s)
{
	if (s->samples < NV_GROW_SAMPLES)
		return 0;
	s->may_grow = 1;
	s->grown++;
	if (s->slower && s->grown > NV_FASTER_AFTER) {
		s->slower--;
		s->grown = 0;
	}
	return 1;
}

static void nv_end_round(struct nv_state *s, struct pp_flow *f, __u32 acked_bytes)
{
	__u32 most, decided = 0;

	s->round_end = f->snd_nxt;
	s->rounds += s->rounds < 255;
	if (s->samples == 1 && acked_bytes >= (s->batch - 1U) * f->mss && s->batch < NV_BATCH_MAX) {
		s->batch = (__u8)pp_min(s->batch + NV_BATCH_STEP, NV_BATCH_MAX);
		s->round_end += s->batch * f->mss;
		s->samples = 0;
		s->may_grow = 1;
		return;
	}
	most = (__u32)pp_div((__u64)s->max_rate * s->least_us, NV_RATE_UNIT * f->mss) + NV_PAD;
	if (f->cwnd > most)
		decided = nv_shrink(s, f, most);
	else if (f->cwnd <= most - NV_PAD_REST)
		decided = nv_allow_growth(s);
	if (!decided)
		return;
	s->samples = 0;
	s->rounds = 0;
	s->max_rate = 0;
	f->cwnd = pp_max(f->cwnd, NV_MIN_CWND);
}

static void nv_init(struct pp_ctx *c)
{
	struct nv_state *s = c->priv;

	*s = (struct nv_state){ .least_us = NV_RTT_UNKNOWN, .next_least_us = NV_RTT_UNKNOWN, .batch = NV_BATCH, .may_grow = 1 };
	s->renew_ns = c->flow->now_ns + NV_FIRST_PERIOD_NS;
	nv_begin(s, c->flow);
}

static __u32 nv_ssthresh(struct pp_ctx *c)
{
	return pp_max((__u32)((__u64)c->flow->cwnd * NV_BETA >> 10), 2);
}

static void nv_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	const struct nv_state *s = c->priv;
	struct pp_flow *f = c->flow;

	(void)ack;
	if (!pp_is_cwnd_limited(f) || !s->may_grow)
		return;
	if (pp_in_slow_start(f)) {
		acked = pp_slow_start(f, acked);
		if (!acked)
			return;
	}
	pp_cong_avoid_ai(f, s->slower ? f->cwnd << (s->slower & 15) : pp_max(f->cwnd, NV_MIN_PER), acked);
}

static void nv_set_state(struct pp_ctx *c, __u32 new_state)
{
	struct nv_state *s = c->priv;

	if (new_state >= PP_CA_CWR) {
		s->stale = 1;
		s->may_grow = 0;
		if (new_state == PP_CA_LOSS)
			s->slower += s->slower < NV_MOST_SLOWER;
	} else if (new_state == PP_CA_OPEN && s->stale) {
		nv_begin(s, c->flow);
	}
}

static void nv_pkts_acked(struct pp_ctx *c, const struct pp_sample *sample)
{
	struct nv_state *s = c->priv;
	struct pp_flow *f = c->flow;
	__u32 acked_bytes = f->snd_una - s->last_una;
	__u32 delivered = f->delivered - sample->prior_delivered;

	if (sample->rtt_us < 0 || f->ca_state > PP_CA_DISORDER)
		return;
	s->last_una = f->snd_una;
	if (!delivered)
		return;
	nv_note(s, f, (__u32)sample->rtt_us, delivered * f->mss);
	if (pp_after(f->snd_una, s->round_end))
		nv_end_round(s, f, acked_bytes);
}

static __u32 nv_undo_cwnd(struct pp_ctx *c)
{
	return pp_undo(c->flow);
}

PP_CC_REGISTER(nv) = {
	.name = "nv",
	.flags = PP_CC_DRAWS,
	.priv_bytes = sizeof(struct nv_state),
	.init = nv_init,
	.ssthresh = nv_ssthresh,
	.cong_avoid = nv_cong_avoid,
	.set_state = nv_set_state,
	.pkts_acked = nv_pkts_acked,
	.undo_cwnd = nv_undo_cwnd,
};

PP_CC_ABOUT(nv) = {
	.family = PP_FAMILY_DELAY,
	.source = "Brakmo, Linux Plumbers Conference 2010; TCP-NV: an update to TCP-Vegas, 2015",
	.counterpart = "nv",
};
