/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Knee: for one TCP connection whose packets take several paths below it.
 *
 * Idea. In a tunnel that spreads packets over paths and restores their order the least round trip is
 * one path's and the largest rate all paths': BBR's model is of no network. Losses may be no queue's.
 * What keeps its meaning is the answer of the rate to the window: it grows up to the knee. The window
 * is the larger of cubic's (RFC 9438) and a floor at the knee, which losses do not reduce:
 *
 *	few losses		what cubic's window delivers, times the least mean RTT at nearly the largest rate, less a sixteenth
 *	losses that go on	found by probes: half as much more must bring a fifth more rate, a third less may cost 7 %
 *
 * Beside others the rate answers by one less the own share, so probes end near one half. Pacing at
 * 5/4 of the largest rate spreads what a tunnel releases at once. Unlike cc/algs/cubic.c the window
 * follows the curve itself, and a timeout is a loss like others. Source: studies/one-tcp-many-paths,
 * with limits; the knee is L. Kleinrock's (ICC 1979).
 */
#include "pp_math.h"

#define KNEE_C 410		/* as in cc/algs/cubic.c, 1/1024 segments/s^3 */
#define KNEE_BETA 717		/* as there, 1/1024 */
#define KNEE_RATE_SHIFT 24	/* rates are in segments/us times 2^24; times an RTT below 2^30 us: below 2^62 */
#define KNEE_SPAN_US 500000	/* least length of a span. More: rates are told better, the search takes longer */
#define KNEE_FULL_ROUNDS 2	/* rounds without a quarter more that end start-up. More: bears losses, overshoots */
#define KNEE_WAIT 3		/* spans between probes that fail. More: disturbs less, finds later */
#define KNEE_UP 1536		/* steps of the window and the rate that each must keep, 1/1024. A higher rate cedes more */
#define KNEE_UP_RATE 1229
#define KNEE_DOWN 683
#define KNEE_DOWN_RATE 952
#define KNEE_LOSSY 4		/* a span with losses counts two, one without takes one off: from here on they go on */
#define KNEE_LOSS_MOST 8	/* a span that loses such a part proves nothing, and takes a seventh off the floor */
#define KNEE_LEAST 4		/* smallest window, segments */

enum knee_phase { KNEE_STARTUP = 0, KNEE_BASE = 1, KNEE_PROBE_UP = 2, KNEE_PROBE_DOWN = 3 };

struct knee_state {
	__u64 rtt_sum;			/* of the span: RTT times segments, us */
	__u32 rtt_segments;		/* segments in it */
	__u32 span_us, span_delivered, span_lost;	/* start of the span, us, wraps; segments until then */
	__u32 round_end;		/* a round ends when what is sent at this count of delivered segments is delivered */
	__u32 epoch, k;			/* start of the curve, wraps, 0 = not yet; from there to its plateau; 1/1024 s */
	__u32 w_max, credit;		/* the plateau; acknowledged toward Reno's next one; segments */
	__u32 cubic, knee, probe;	/* cubic's window, the floor, the probe's window, segments */
	__u32 knee_rtt_us;		/* mean round trip at the knee */
	__u32 rate, most, pace;		/* of the last span that was no probe; largest, a 64th is forgotten each span; 4/5 of pacing */
	__u8  phase, flat;		/* enum knee_phase; rounds of start-up without growth */
	__u8  wait, down_next;		/* spans until the next probe; it is with less */
	__u8  lossy, settling;		/* what spans with losses count; this round was sent with another window */
};

PP_STATE_FITS(struct knee_state);

PP_INLINE __u32 knee_part(__u32 value, __u32 part)
{
	return (__u32)((__u64)value * part >> 10);
}

/* 1/1024 s: ns * 2^10 / 10^9. */
PP_INLINE __u32 knee_time(const struct pp_flow *f)
{
	return (__u32)(f->now_ns * 2 / 1953125);
}

PP_INLINE void knee_begin_span(struct knee_state *s, const struct pp_flow *f)
{
	s->span_us = (__u32)(f->now_ns / 1000);
	s->span_delivered = f->delivered;
	s->span_lost = f->lost;
	s->rtt_sum = s->rtt_segments = 0;
}

/* RFC 9438 sections 4.2 and 4.3. */
PP_INLINE void knee_grow_cubic(struct knee_state *s, const struct pp_flow *f, __u32 acked)
{
	__u32 t, delta, target, reno = (__u32)((__u64)s->cubic * 15 >> 3);
	__u64 offset;

	if (!s->epoch) {
		s->epoch = pp_max(knee_time(f), 1);
		s->w_max = pp_max(s->w_max, s->cubic);
		/* As in cc/algs/cubic.c; windows below 2^24 segments. */
		s->k = pp_cube_root((__u64)pp_min(s->w_max - s->cubic, (1U << 24) - 1) * ((1ULL << 40) / KNEE_C));
		s->credit = 0;
	}
	t = knee_time(f) - s->epoch;
	offset = pp_min(t < s->k ? s->k - t : t - s->k, 1U << 18);	/* 410 * 2^54 < 2^63 */
	delta = (__u32)(KNEE_C * offset * offset * offset >> 40);
	target = t < s->k ? s->w_max - pp_min(delta, s->w_max) : s->w_max + delta;
	s->credit += acked;
	if (s->credit > reno) {
		s->credit -= reno;
		s->cubic++;
	} else if (target > s->cubic) {
		s->cubic = pp_min(target, s->cubic + (acked + 1) / 2);
	}
}

/* The window that delivers a rate at the knee's round trip, less a sixteenth. */
PP_INLINE __u32 knee_at(const struct knee_state *s, __u32 rate)
{
	return pp_max((__u32)((__u64)rate * s->knee_rtt_us >> KNEE_RATE_SHIFT) / 16 * 15, KNEE_LEAST);
}

/* A round of start-up, against the one before: with packets on the slower path rounds get longer. */
PP_INLINE void knee_judge_round(struct knee_state *s, __u32 rate, __u32 rtt_us)
{
	int grew = rate > knee_part(s->rate, 1280);

	s->knee_rtt_us = grew ? rtt_us : s->knee_rtt_us;
	s->flat = grew ? 0 : s->flat + 1;
	s->rate = rate;
	s->most = s->pace = pp_max(s->most, rate);
	if (s->flat >= KNEE_FULL_ROUNDS) {
		s->phase = KNEE_BASE;
		s->knee = knee_at(s, s->most);
		s->cubic = pp_min(s->cubic, s->knee + s->knee / 4);
	}
}

/* `lost` is a part of all segments of the span, 1/1024; `used` were out at once of late. */
PP_INLINE void knee_judge_span(struct knee_state *s, __u32 rate, __u32 rtt_us, __u32 lost, __u32 used)
{
	__u32 phase = s->phase, before = s->rate;

	s->most = s->pace = pp_max(s->most - s->most / 64, rate);
	s->lossy = lost ? pp_min(s->lossy + 2, 2 * KNEE_LOSSY) : s->lossy - (s->lossy > 0);
	s->knee = pp_min(s->knee, pp_max(2 * used, KNEE_LEAST));
	s->phase = KNEE_BASE;
	if (phase != KNEE_BASE) {
		s->wait = KNEE_WAIT;
		if (rate <= knee_part(before, phase == KNEE_PROBE_UP ? KNEE_UP_RATE : KNEE_DOWN_RATE) ||
		    (phase == KNEE_PROBE_UP && (2 * used <= s->probe || lost * KNEE_LOSS_MOST > 1024)))
			return;
		s->wait = 0;
		s->down_next = phase == KNEE_PROBE_DOWN || s->probe > 2 * s->knee;
		s->knee_rtt_us = phase == KNEE_PROBE_UP ? rtt_us : s->knee_rtt_us;
		s->knee = s->probe;
		return;
	}
	s->rate = rate;
	if (rate > knee_part(s->most, 922))
		s->knee_rtt_us = pp_min(s->knee_rtt_us, rtt_us);
	if (s->lossy < KNEE_LOSSY) {
		if (s->cubic > s->knee)
			s->knee = knee_at(s, pp_max(rate, before));
		else if (rtt_us > s->knee_rtt_us + s->knee_rtt_us / 4)
			s->knee = pp_max(s->knee - s->knee / 16, KNEE_LEAST);
		return;
	}
	s->knee = pp_max(s->knee, s->cubic);
	if (lost * KNEE_LOSS_MOST > 1024) {
		s->knee = pp_max(s->knee - s->knee / 7, KNEE_LEAST);
	} else if (s->wait && rate >= s->most / 2) {
		s->wait--;
	} else if (s->down_next && rate >= s->most / 2) {
		s->phase = KNEE_PROBE_DOWN;
		s->probe = pp_max(knee_part(s->knee, KNEE_DOWN), KNEE_LEAST);
		s->down_next = 0;
	} else {
		s->phase = KNEE_PROBE_UP;
		s->probe = knee_part(s->knee, KNEE_UP) + KNEE_LEAST;
		if (rate < s->most / 4)
			s->probe = (__u32)pp_min64((__u64)s->knee * s->most / pp_max(rate, 1), 1U << 20);
		s->pace = pp_max(s->most, knee_part(rate, KNEE_UP));
		s->down_next = 1;
	}
}

static void knee_init(struct pp_ctx *c)
{
	struct knee_state *s = c->priv;
	struct pp_flow *f = c->flow;

	*s = (struct knee_state){ .knee = KNEE_LEAST, .cubic = f->cwnd, .round_end = f->delivered };
	knee_begin_span(s, f);
	f->ssthresh = PP_SSTHRESH_INFINITE;
	f->pacing = 1;
	f->pacing_rate = f->max_pacing_rate;
}

static __u32 knee_ssthresh(struct pp_ctx *c)
{
	struct knee_state *s = c->priv;

	if (s->phase == KNEE_STARTUP)
		return c->flow->cwnd;
	s->w_max = s->cubic < s->w_max ? knee_part(s->cubic, (1024 + KNEE_BETA) / 2) : s->cubic;
	s->cubic = pp_max(knee_part(s->cubic, KNEE_BETA), KNEE_LEAST);
	s->epoch = 0;
	return pp_max(s->cubic, c->flow->cwnd / 2);
}

static __u32 knee_undo_cwnd(struct pp_ctx *c)
{
	return pp_undo(c->flow);
}

static void knee_cong_control(struct pp_ctx *c, __u32 ack, __u32 ack_flags, const struct pp_sample *a)
{
	struct knee_state *s = c->priv;
	struct pp_flow *f = c->flow;
	__u32 acked = a->acked_sacked, us = (__u32)(f->now_ns / 1000) - s->span_us, target, delivered, lost, rate, rtt_us;

	(void)ack, (void)ack_flags;
	if (a->rtt_us > 0) {
		s->rtt_sum += (__u64)a->rtt_us * acked;
		s->rtt_segments += acked;
	}
	if (a->delivered > 0 && !pp_after(s->round_end, a->prior_delivered)) {
		s->round_end = f->delivered;
		delivered = f->delivered - s->span_delivered;
		lost = f->lost - s->span_lost;
		lost = (__u32)(((__u64)lost << 10) / pp_max(delivered + lost, 1)) + (lost > 0);
		if (s->settling) {
			s->settling = 0;
			knee_begin_span(s, f);
		} else if (us && s->rtt_segments && (s->phase == KNEE_STARTUP || us >= KNEE_SPAN_US)) {
			target = s->knee + s->phase;
			rate = (__u32)pp_min64(((__u64)delivered << KNEE_RATE_SHIFT) / us, ~0U);
			rtt_us = (__u32)pp_div(s->rtt_sum, s->rtt_segments);
			if (s->phase == KNEE_STARTUP)
				knee_judge_round(s, rate, rtt_us);
			else
				knee_judge_span(s, rate, rtt_us, lost, f->max_packets_out);
			s->settling = target != s->knee + s->phase;
			knee_begin_span(s, f);
		}
	}
	if (s->phase == KNEE_STARTUP)
		s->cubic += acked;
	else if (f->ca_state < PP_CA_RECOVERY && acked && pp_is_cwnd_limited(f))
		knee_grow_cubic(s, f, acked);
	/* bytes/s: 10^6 = 2^6 * 15625. Segments of 9000 bytes: below 2^32 * 2^30. */
	if (s->phase != KNEE_STARTUP)
		f->pacing_rate = pp_min64(f->max_pacing_rate, (__u64)s->pace * f->mss / 4 * 5 * 15625 >> (KNEE_RATE_SHIFT - 6));
	s->cubic = pp_min(s->cubic, f->cwnd_clamp);
	target = pp_min(pp_max(s->phase >= KNEE_PROBE_UP ? s->probe : s->knee, s->cubic), f->cwnd_clamp);
	f->cwnd = f->cwnd < target ? pp_min(f->cwnd + acked, target) : pp_max(target, f->cwnd - pp_min((acked + 1) / 2, f->cwnd - 1));
}

PP_CC_REGISTER(knee) = {
	.name = "knee",
	.flags = PP_CC_PACES | PP_CC_SEES_SAMPLES, .priv_bytes = sizeof(struct knee_state),
	.init = knee_init,
	.ssthresh = knee_ssthresh,
	.undo_cwnd = knee_undo_cwnd,
	.cong_control = knee_cong_control,
};

PP_CC_ABOUT(knee) = { .family = PP_FAMILY_MODEL, .source = "studies/one-tcp-many-paths" };
