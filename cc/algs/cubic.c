/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * CUBIC with HyStart.
 *
 * Idea. After a loss the window follows a cubic function of the time since then: fast towards the
 * window at which the loss came, slow around it, fast beyond, so growth does not depend on the RTT.
 * Where Reno would be faster, it grows as Reno. HyStart ends the first slow start before it
 * overshoots: when the ACKs of one window arrive as a train as long as half the path's RTT, or when
 * the RTT of a round rises.
 *
 * Source. RFC 9438; S. Ha, I. Rhee: "Taming the elephants: new TCP slow start", Computer Networks
 * 55(9), 2011. Constants are those that Linux 5.4 to 6.12 uses:
 *
 *	W(t) = C (t - K)^3 + W_max	C = 410/1024 = 0.4004 segments/s^3 (RFC: 0.4)		RFC 9438 section 4.2
 *	K = cbrt((W_max - cwnd) / C)							RFC 9438 section 4.2
 *	W_est grows by 8/15 = 0.533 segments a round trip (RFC: 3 (1 - b) / (1 + b) = 0.529)	RFC 9438 section 4.3
 *	on loss ssthresh = 717/1024 cwnd = 0.7002 cwnd (RFC: 0.7)				RFC 9438 section 4.6
 *
 * Differences from the RFC, all as in Linux: ssthresh is a part of the window, not of the flight
 * size; a target above 1.5 cwnd (4.2) is met by growing at most one segment for two acknowledged;
 * alpha stays 8/15 after W_est passes the window before the loss (4.3); before the first loss
 * growth is at least one segment for twenty acknowledged; a retransmission timeout forgets W_max;
 * between two changes of the window the rate of growth is kept for 1/32 s; the time of the curve is
 * counted in ticks. A difference from Linux: the cube root is exact (Linux: 0.2 % off on average).
 * HyStart sees RTT samples in microseconds as since 5.6, and counts rounds from the start as since
 * early 2025; releases before that began the first one at 16 segments. 5.4 takes time in
 * milliseconds, the RTT in eighths of one, and has no allowance for bursts in the threshold of an
 * ACK train.
 * PP_COMPAT_HYSTART_MS, PP_COMPAT_HYSTART_HALF_RTT and PP_COMPAT_HYSTART_LATE_ROUNDS (the first
 * round begins at 16 segments) let it do so.
 */
#include "pp_math.h"

/* C in 1/1024 segments/s^3. Raising it finds free capacity sooner, and overshoots and loses
 * more. */
#define CUBIC_C 410
/* What a loss leaves of the window, 1/1024. Raising it keeps more of the link busy after a loss,
 * and makes room for others more slowly. */
#define CUBIC_BETA 717
/* Segments acknowledged for an increase of one in the Reno-friendly region: cwnd * 15 / 8. */
#define CUBIC_RENO_SCALE 15
/* Fewest segments acknowledged for an increase of one. Raising it damps bursts, and costs time
 * on long fat paths. */
#define CUBIC_MIN_PER 2
/* The same before any loss is known. Raising it probes more gently after HyStart ended slow
 * start, and takes longer to fill the path. */
#define CUBIC_MAX_PER_BEFORE_LOSS 20
/* For how long an unchanged window keeps its rate of growth, ticks. Raising it saves divisions and
 * follows the curve more coarsely. */
#define CUBIC_KEEP_TICKS (PP_TICKS_PER_S / 32)

/* Smallest window at which HyStart looks, segments. Raising it protects short paths from leaving
 * early, and overshoots more on shallow queues. */
#define HYSTART_LOW_WINDOW 16
/* RTT samples of a round before its minimum is judged. Raising it tolerates jitter and reacts
 * later. */
#define HYSTART_MIN_SAMPLES 8
/* ACKs closer than this belong to one train, us. Raising it tolerates jitter, and calls sparse
 * ACKs a train. */
#define HYSTART_ACK_DELTA_US 2000
/* Rise of the RTT that ends slow start: an eighth of the minimum, within these bounds, us.
 * Raising them fills more of the queue. */
#define HYSTART_DELAY_MIN_US 4000
#define HYSTART_DELAY_MAX_US 16000
/* RTT samples this soon after a reduction still show the old queue, ticks. */
#define HYSTART_SETTLE_TICKS PP_TICKS_PER_S
/* Allowance for bursts in the length of a train: the time of this many bytes at the pacing rate,
 * at most 1 ms. */
#define HYSTART_BURST_BYTES (4 * 65536ULL)
#define HYSTART_BURST_MAX_US 1000

/* Time within an epoch is in 1/1024 s. Offsets from K up to 2^18 (256 s): 410 * 2^54 < 2^63. */
#define CUBIC_MAX_OFFSET (1U << 18)

struct cubic_state {
	__u64 round_ns;		/* HyStart: start of the round */
	__u64 last_ack_ns;	/* HyStart: last ACK of the train */
	__u32 epoch;		/* when this stretch of growth began, ticks */
	__u32 evaluated;	/* when `per` was last computed, ticks */
	__u32 evaluated_cwnd;	/* window for which `per` was computed, segments */
	__u32 per;		/* segments to acknowledge for an increase of one */
	__u32 w_max;		/* window before the last reduction, segments; 0 = none yet */
	__u32 origin;		/* plateau of the curve, segments */
	__u32 k;		/* time from the epoch to the plateau, 1/1024 s */
	__u32 w_est;		/* Reno's window, segments */
	__u32 acked;		/* segments acknowledged toward the next step of w_est */
	__u32 delay_min_us;	/* least RTT seen; 0 = none yet */
	__u32 round_rtt_us;	/* HyStart: least RTT of the round */
	__u32 round_end;	/* HyStart: sequence number that ends the round */
	__u8  samples;		/* HyStart: RTT samples of the round, up to HYSTART_MIN_SAMPLES */
	__u8  found;		/* HyStart: slow start was ended */
	__u8  grows;		/* `epoch` has begun */
};

PP_STATE_FITS(struct cubic_state);

/* A time as HyStart's clock has it. */
static __u64 hystart_ns(const struct pp_flow *f, __u64 ns)
{
	return f->compat & PP_COMPAT_HYSTART_MS ? ns - ns % 1000000 : ns;
}

static void cubic_begin_round(struct cubic_state *s, const struct pp_flow *f)
{
	s->round_ns = hystart_ns(f, f->now_ns);
	s->last_ack_ns = s->round_ns;
	s->round_end = f->snd_nxt;
	s->round_rtt_us = ~0U;
	s->samples = 0;
}

static void cubic_reset(struct cubic_state *s, const struct pp_flow *f)
{
	*s = (struct cubic_state){ 0 };
	cubic_begin_round(s, f);
}

/* RFC 9438 section 4.2: the curve through the present window with its plateau at the window of
 * the last loss. */
static void cubic_begin_epoch(struct cubic_state *s, const struct pp_flow *f, __u32 acked)
{
	s->epoch = pp_tick(f->now_ns);
	s->grows = 1;
	s->acked = acked;
	s->w_est = f->cwnd;
	if (s->w_max <= f->cwnd) {
		s->k = 0;
		s->origin = f->cwnd;
	} else {
		/* K^3 in 2^-30 s^3 is (W_max - cwnd) * 2^40 / 410; windows below 2^24 segments: below 2^64. */
		s->k = pp_cube_root((__u64)pp_min(s->w_max - f->cwnd, (1U << 24) - 1) * ((1ULL << 40) / CUBIC_C));
		s->origin = s->w_max;
	}
}

/* The curve's window one RTT from now, segments. */
static __u32 cubic_target(const struct cubic_state *s, __u32 now)
{
	__u64 t = ((__u64)(now - s->epoch) + pp_ticks(s->delay_min_us)) * 1024 / PP_TICKS_PER_S;
	__u64 offset = pp_min64(t < s->k ? s->k - t : t - s->k, CUBIC_MAX_OFFSET);
	__u32 delta = (__u32)(CUBIC_C * offset * offset * offset >> 40);

	return t < s->k ? s->origin - pp_min(delta, s->origin) : s->origin + delta;
}

static void cubic_update(struct cubic_state *s, const struct pp_flow *f, __u32 acked)
{
	__u32 cwnd = f->cwnd, now = pp_tick(f->now_ns), target, step, per;

	s->acked += acked;
	if (s->evaluated_cwnd == cwnd && now - s->evaluated <= CUBIC_KEEP_TICKS)
		return;

	if (!s->grows || now != s->evaluated) {
		if (!s->grows)
			cubic_begin_epoch(s, f, acked);
		target = cubic_target(s, now);
		s->per = target > cwnd ? cwnd / (target - cwnd) : 100 * cwnd;
		if (!s->w_max)
			s->per = pp_min(s->per, CUBIC_MAX_PER_BEFORE_LOSS);
	}
	s->evaluated_cwnd = cwnd;
	s->evaluated = now;

	/* RFC 9438 section 4.3: where Reno is faster, follow it. */
	step = pp_max((__u32)((__u64)cwnd * CUBIC_RENO_SCALE >> 3), 1);
	if (s->acked > step) {
		__u32 steps = (s->acked - 1) / step;

		s->acked -= steps * step;
		s->w_est += steps;
	}
	if (s->w_est > cwnd) {
		per = cwnd / (s->w_est - cwnd);
		s->per = pp_min(s->per, per);
	}
	s->per = pp_max(s->per, CUBIC_MIN_PER);
}

static void hystart_leave(struct cubic_state *s, struct pp_flow *f)
{
	s->found = 1;
	f->ssthresh = f->cwnd;
}

/* How long the ACKs of one window may take before the path is full: half the minimum RTT (all of
 * it if paced), and an allowance for bursts. */
static __u64 hystart_train_ns(const struct cubic_state *s, const struct pp_flow *f)
{
	if (f->compat & PP_COMPAT_HYSTART_HALF_RTT)
		return hystart_ns(f, s->delay_min_us * 500ULL);

	__u64 burst_us = f->pacing_rate ? pp_min64(HYSTART_BURST_BYTES * 1000000 / f->pacing_rate, HYSTART_BURST_MAX_US) : 0;

	return hystart_ns(f, (s->delay_min_us + burst_us) * 1000 >> (f->pacing ? 0 : 1));
}

static void hystart_update(struct cubic_state *s, struct pp_flow *f, __u32 rtt_us)
{
	__u64 now = hystart_ns(f, f->now_ns);
	__u32 delay_min = s->delay_min_us;

	if (f->compat & PP_COMPAT_HYSTART_LATE_ROUNDS && f->cwnd < HYSTART_LOW_WINDOW)
		return;
	if (f->compat & PP_COMPAT_HYSTART_MS) {
		rtt_us -= rtt_us % 125;
		delay_min -= delay_min % 125;
	}
	/* Rounds are counted from the first ACK on: one that began in the middle of an ACK train would
	 * cut that in two. */
	if (pp_after(f->snd_una, s->round_end))
		cubic_begin_round(s, f);
	if (f->cwnd < HYSTART_LOW_WINDOW)
		return;

	if (now - s->last_ack_ns <= HYSTART_ACK_DELTA_US * 1000ULL) {
		s->last_ack_ns = now;
		if (now - s->round_ns > hystart_train_ns(s, f))
			hystart_leave(s, f);
	}

	s->round_rtt_us = pp_min(s->round_rtt_us, rtt_us);
	if (s->samples < HYSTART_MIN_SAMPLES)
		s->samples++;
	else if (s->round_rtt_us > delay_min + pp_clamp(delay_min >> 3, HYSTART_DELAY_MIN_US, HYSTART_DELAY_MAX_US))
		hystart_leave(s, f);
}

static void cubic_init(struct pp_ctx *c)
{
	cubic_reset(c->priv, c->flow);
}

static __u32 cubic_ssthresh(struct pp_ctx *c)
{
	struct cubic_state *s = c->priv;
	__u32 cwnd = c->flow->cwnd;

	s->grows = 0;
	/* RFC 9438 section 4.7: a window that did not reach the last one's makes room for new flows.
	 * 2^32 * 1741 fits into 64 bits. */
	s->w_max = cwnd < s->w_max ? (__u32)((__u64)cwnd * (1024 + CUBIC_BETA) / 2048) : cwnd;
	/* RFC 9438 section 4.6 */
	return pp_max((__u32)((__u64)cwnd * CUBIC_BETA / 1024), 2);
}

static void cubic_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	struct cubic_state *s = c->priv;

	(void)ack;
	if (!pp_is_cwnd_limited(c->flow))
		return;
	if (pp_in_slow_start(c->flow)) {
		acked = pp_slow_start(c->flow, acked);
		if (!acked)
			return;
	}
	cubic_update(s, c->flow, acked);
	pp_cong_avoid_ai(c->flow, s->per, acked);
}

static void cubic_set_state(struct pp_ctx *c, __u32 new_state)
{
	if (new_state == PP_CA_LOSS)
		cubic_reset(c->priv, c->flow);
}

static void cubic_cwnd_event(struct pp_ctx *c, __u32 event)
{
	struct cubic_state *s = c->priv;
	__u32 now = pp_tick(c->flow->now_ns), idle = now - pp_tick(c->flow->last_sent_ns);

	/* RFC 9438 sections 4.2 and 5.8: the time in which the application sent nothing is no time to
	 * grow in. */
	if (event == PP_EVENT_TX_START && s->grows)
		s->epoch += pp_min(idle, now - s->epoch);
}

static void cubic_pkts_acked(struct pp_ctx *c, const struct pp_sample *sample)
{
	struct cubic_state *s = c->priv;
	struct pp_flow *f = c->flow;
	__u32 rtt_us;

	if (sample->rtt_us < 0)
		return;
	if (s->grows && pp_tick(f->now_ns) - s->epoch < HYSTART_SETTLE_TICKS)
		return;
	rtt_us = pp_max((__u32)sample->rtt_us, 1);
	if (!s->delay_min_us || rtt_us < s->delay_min_us)
		s->delay_min_us = rtt_us;
	if (!s->found && pp_in_slow_start(f))
		hystart_update(s, f, rtt_us);
}

static __u32 cubic_undo_cwnd(struct pp_ctx *c)
{
	return pp_undo(c->flow);
}

PP_CC_REGISTER(cubic) = {
	.name = "cubic",
	.priv_bytes = sizeof(struct cubic_state),
	.init = cubic_init,
	.ssthresh = cubic_ssthresh,
	.cong_avoid = cubic_cong_avoid,
	.set_state = cubic_set_state,
	.cwnd_event = cubic_cwnd_event,
	.pkts_acked = cubic_pkts_acked,
	.undo_cwnd = cubic_undo_cwnd,
};

PP_CC_ABOUT(cubic) = {
	.family = PP_FAMILY_LOSS,
	.source = "RFC 9438; HyStart: Ha, Rhee, Computer Networks 55(9), 2011",
	.counterpart = "cubic",
};
