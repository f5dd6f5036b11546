/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * CDG, CAIA delay gradient.
 *
 * Idea. A queue that grows shows in RTTs that grow, whatever the least RTT is. CDG takes the slope
 * of the RTT over eight round trips and backs off with a probability that rises with it, so that
 * flows do not back off all at once. Where that does not help, since a loss-based flow fills the
 * queue anyway, it stops; and it remembers, in a shadow window, what it has yielded, to answer a
 * loss with half of that instead.
 *
 * Source. D. Hayes, G. Armitage: "Revisiting TCP congestion control using delay gradients",
 * Networking 2011. For the round's least and largest RTT each
 *
 *	g = RTT - RTT of the round before, summed over 8 rounds; the slope that counts is the least RTTs' if it is positive, or else the largest ones'
 *	back off with probability 1 - exp(-g / G), to 0.7071 of the window; after more than 5 in vain in a row no more until a slope falls
 *	on loss: half of the shadow window, which grows with the window and does not fall when that backs off
 *
 * Growth is Reno's. HyStart ends slow start: when ACKs come as a train as long as half the least
 * RTT, or when a round's RTTs are an eighth above it.
 *
 * Differences from the paper, as in Linux: G is 1/42 per ms of the sum, a third of a millisecond of
 * slope a round trip; rounds of a window reduction do not count; the sum of fewer than 8 rounds is
 * scaled up; the handshake's RTT belongs to the first round (specs/notes/handshake-rtt); a delayed
 * ACK's RTT counts only if it is a new least one; an application that does not fill the window
 * brings the shadow window down to it. The paper's slow start is Reno's; its heuristic for losses
 * that are not congestion is off in Linux, and absent here. Differences from Linux: random numbers,
 * of course, so windows agree in distribution only; a round's change of the RTT counts for at most
 * 8.4 s; as BPF, which cannot have the kernel reduce a window over a round trip, a back-off takes
 * place at once.
 */
#include "pp_math.h"

/* Rounds over which slopes are summed. Raising it smooths the slope and reacts later; the state
 * has room for 8. */
#define CDG_ROUNDS 8
/* The probability to back off is 1 - exp(-this * sum of slopes in s). Raising it backs off
 * sooner, from smaller queues. */
#define CDG_FACTOR 42
/* What a back-off leaves of the window, 1/1024. Raising it yields less, and drains queues less. */
#define CDG_BETA 724
/* Back-offs in vain in a row that are made. Raising it yields for longer to flows that fill the
 * queue. */
#define CDG_MOST_IN_VAIN 5
/* A sum of slopes at most this shows that a back-off was not in vain, us. */
#define CDG_EFFECT_US -32

/* HyStart: ACKs closer than this belong to one train, us. */
#define CDG_ACK_DELTA_US 3000
/* HyStart: least length of a train, and least RTT to leave at, us. */
#define CDG_LEAST_US 125
/* HyStart: RTT samples of a round before its least one is judged. */
#define CDG_MIN_SAMPLES 8
/* Delayed ACKs of more than one segment that excuse as many ACKs of one. */
#define CDG_MOST_DELAYED 5

/* A slope is kept in 24 bits. */
#define CDG_SLOPE_MAX 0x7fffff

enum cdg_mode { CDG_UNKNOWN = 0, CDG_BACKOFF = 1 };

struct cdg_state {
	__u64 least_slopes[3];	/* of the rounds' least RTTs, us, 24 bits each, the newest lowest */
	__u64 largest_slopes[3];
	__u32 least_us;		/* RTTs of the round; 0 = none yet */
	__u32 largest_us;
	__u32 before_least_us;	/* of the round before */
	__u32 before_largest_us;
	__u32 round_end;	/* sequence number that ends the round */
	__u32 shadow;		/* the window without back-offs, segments */
	__u32 path_us;		/* HyStart: least RTT; 0 = none yet */
	__u32 train_us;		/* HyStart: when the train began */
	__u32 last_ack_us;	/* HyStart: its last ACK; 0 = no train */
	__u32 count : 3;	/* slopes so far, modulo CDG_ROUNDS */
	__u32 filled : 1;	/* all of them are there */
	__u32 mode : 1;		/* enum cdg_mode */
	__u32 delayed : 3;	/* ACKs of several segments that none of one followed yet */
	__u32 samples : 4;	/* HyStart: of the round, up to CDG_MIN_SAMPLES */
	__u32 in_vain : 16;	/* back-offs in a row */
};

PP_STATE_FITS(struct cdg_state);

/* Takes in the newest slope; the oldest leaves. A place that is not constant would be too much
 * for BPF's verifier. */
static void cdg_push(__u64 *words, __s32 slope)
{
	__u32 bits = (__u32)(slope > CDG_SLOPE_MAX ? CDG_SLOPE_MAX : slope < -CDG_SLOPE_MAX ? -CDG_SLOPE_MAX : slope) & 0xffffff;

	words[2] = words[2] << 24 | words[1] >> 40;
	words[1] = words[1] << 24 | words[0] >> 40;
	words[0] = words[0] << 24 | bits;
}

/* 8 * 2^23 us fit. */
static __s32 cdg_sum(const __u64 *words)
{
	__u64 a = words[0], b = words[1], c = words[2];
	__s32 sum = 0;
	__u32 i;

	for (i = 0; i < CDG_ROUNDS; i++) {
		/* With the sign of its 24 bits. */
		sum += (__s32)((__u32)a << 8) >> 8;
		a = a >> 24 | b << 40;
		b = b >> 24 | c << 40;
		c >>= 24;
	}
	return sum;
}

/* 2^32 exp(-x / 10^6), at most 2^32 - 1: as 2^-n 2^-f with f below 1. */
static __u32 cdg_exp(__u32 x)
{
	/* x log2(e) / 10^6 in 2^-32: 2^44 log2(e) / 10^6 is 25380160, below 2^25. */
	__u64 y = (__u64)x * 25380160 >> 12;
	__u32 n = (__u32)(y >> 32);
	__u64 f = y & 0xffffffff, p;

	if (n > 31)
		return 0;
	/* The series of 2^-f = exp(-f ln 2) to the sixth power, 2 * 10^-5 at most from it; coefficients
	 * in 2^-31, all products below 2^64. */
	p = 330788;
	p = 2863360 - (p * f >> 32);
	p = 20654775 - (p * f >> 32);
	p = 119194166 - (p * f >> 32);
	p = 515882496 - (p * f >> 32);
	p = 1488522236 - (p * f >> 32);
	p = 2147483648ULL - (p * f >> 32);
	return (__u32)(pp_min64(p << 1, 0xffffffff) >> n);
}

static void cdg_begin_round(struct cdg_state *s, const struct pp_flow *f)
{
	s->round_end = f->snd_nxt;
	s->before_least_us = s->least_us;
	s->before_largest_us = s->largest_us;
	s->least_us = 0;
	s->largest_us = 0;
}

static void cdg_reset(struct cdg_state *s, const struct pp_flow *f)
{
	*s = (struct cdg_state){ 0 };
	s->round_end = f->snd_nxt;
	s->shadow = f->cwnd;
}

static void cdg_hystart(struct cdg_state *s, struct pp_flow *f)
{
	__u32 now_us = (__u32)(f->now_ns / 1000);

	if (s->least_us && (!s->path_us || s->least_us < s->path_us))
		s->path_us = s->least_us;
	if (!s->path_us)
		return;
	if (!s->last_ack_us || !pp_is_cwnd_limited(f)) {
		s->last_ack_us = now_us;
		s->train_us = now_us;
	} else if (pp_after(s->last_ack_us + CDG_ACK_DELTA_US, now_us)) {
		s->last_ack_us = now_us;
		if (pp_after(now_us, s->train_us + pp_max(s->path_us / 2, CDG_LEAST_US))) {
			f->ssthresh = f->cwnd;
			return;
		}
	}
	if (s->samples < CDG_MIN_SAMPLES)
		s->samples++;
	else if (s->least_us > pp_max(s->path_us + s->path_us / 8, CDG_LEAST_US))
		f->ssthresh = f->cwnd;
}

/* The sum of slopes that counts, us, with that of the round that ends. */
static __s32 cdg_slope(struct cdg_state *s)
{
	__s32 least, largest, slope;

	cdg_push(s->least_slopes, (__s32)(s->least_us - s->before_least_us));
	cdg_push(s->largest_slopes, (__s32)(s->largest_us - s->before_largest_us));
	s->count++;
	least = cdg_sum(s->least_slopes);
	largest = cdg_sum(s->largest_slopes);
	slope = least > 0 ? least : largest;
	if (!s->filled) {
		if (!s->count)
			s->filled = 1;
		else
			/* With its sign; at most 7 * 2^23 * 8 fit. */
			slope = slope > 0 ? (__s32)((__u32)slope * CDG_ROUNDS / s->count) : 0;
	}
	if (least <= CDG_EFFECT_US || largest <= CDG_EFFECT_US)
		s->in_vain = 0;
	return slope;
}

/* Whether to back off; then the transport does, and asks ssthresh to what. */
static int cdg_backs_off(struct cdg_state *s, struct pp_flow *f, __u32 slope_us)
{
	/* 8 * 2^23 * 42 < 2^32. */
	if (f->random <= cdg_exp(slope_us * CDG_FACTOR))
		return 0;
	s->in_vain++;
	if (s->in_vain > CDG_MOST_IN_VAIN)
		return 0;
	s->shadow = pp_max(s->shadow, f->cwnd);
	s->mode = CDG_BACKOFF;
	f->reduce = 1;
	return 1;
}

static void cdg_init(struct pp_ctx *c)
{
	struct cdg_state *s = c->priv;

	cdg_reset(s, c->flow);
	/* Of small packets: with it the second round's least RTT is a little higher, and that is the
	 * slope; without it the window's burst would be. */
	s->least_us = c->flow->srtt_us >> 3;
	s->largest_us = s->least_us;
}

static __u32 cdg_ssthresh(struct pp_ctx *c)
{
	struct cdg_state *s = c->priv;
	__u32 cwnd = c->flow->cwnd;

	if (s->mode == CDG_BACKOFF)
		return pp_max((__u32)((__u64)cwnd * CDG_BETA >> 10), 2);
	s->shadow = pp_min(s->shadow >> 1, cwnd);
	return pp_max(pp_max(s->shadow, cwnd >> 1), 2);
}

static void cdg_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	struct cdg_state *s = c->priv;
	struct pp_flow *f = c->flow;
	__u32 before;

	if (pp_in_slow_start(f))
		cdg_hystart(s, f);
	if (pp_after(ack, s->round_end) && (s->least_us || s->largest_us)) {
		__s32 slope = s->before_least_us || s->before_largest_us ? cdg_slope(s) : 0;

		cdg_begin_round(s, f);
		s->last_ack_us = 0;
		s->samples = 0;
		if (slope > 0 && cdg_backs_off(s, f, (__u32)slope))
			return;
	}
	if (!pp_is_cwnd_limited(f)) {
		s->shadow = pp_min(s->shadow, f->cwnd);
		return;
	}
	before = f->cwnd;
	pp_reno_cong_avoid(f, acked);
	s->shadow = pp_max(s->shadow, s->shadow + (f->cwnd - before));
}

static void cdg_cwnd_event(struct pp_ctx *c, __u32 event)
{
	struct cdg_state *s = c->priv;

	if (event == PP_EVENT_CWND_RESTART) {
		cdg_reset(s, c->flow);
	} else if (event == PP_EVENT_COMPLETE_CWR) {
		s->mode = CDG_UNKNOWN;
		cdg_begin_round(s, c->flow);
	}
}

static void cdg_pkts_acked(struct pp_ctx *c, const struct pp_sample *sample)
{
	struct cdg_state *s = c->priv;
	__u32 rtt_us;

	if (sample->rtt_us <= 0)
		return;
	rtt_us = (__u32)sample->rtt_us;
	/* Nothing is SACKed. */
	if (c->flow->packets_out == c->flow->in_flight) {
		if (sample->pkts_acked == 1 && s->delayed) {
			s->least_us = pp_min(s->least_us, rtt_us);
			s->delayed--;
			return;
		}
		if (sample->pkts_acked > 1 && s->delayed < CDG_MOST_DELAYED)
			s->delayed++;
	}
	if (!s->least_us || rtt_us < s->least_us)
		s->least_us = rtt_us;
	s->largest_us = pp_max(s->largest_us, rtt_us);
}

static __u32 cdg_undo_cwnd(struct pp_ctx *c)
{
	return pp_undo(c->flow);
}

PP_CC_REGISTER(cdg) = {
	.name = "cdg",
	.flags = PP_CC_DRAWS | PP_CC_REDUCES,
	.priv_bytes = sizeof(struct cdg_state),
	.init = cdg_init,
	.ssthresh = cdg_ssthresh,
	.cong_avoid = cdg_cong_avoid,
	.cwnd_event = cdg_cwnd_event,
	.pkts_acked = cdg_pkts_acked,
	.undo_cwnd = cdg_undo_cwnd,
};

PP_CC_ABOUT(cdg) = {
	.family = PP_FAMILY_HYBRID,
	.source = "Hayes, Armitage, Networking 2011",
	.counterpart = "cdg",
};
