/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Ebb: for one TCP connection whose packets take several paths, some of which lose packets.
 *
 * Idea. Where losses are rare: cubic (RFC 9438 section 4) over a floor, the window that delivers
 * the last rate at the least mean round trip at nearly the largest rate. Losses that go on tell
 * nothing: a pacing rate rises until a queue is seen and ebbs, faster while that stays. The window
 * is then room for the longest round trip, and at least cubic's. A queue is what the mean of the
 * rounds' least RTT is above the base. Where ACKs pause for many times their spacing a tunnel holds
 * packets: only a span's least RTT tells then, and the rate leaps up to the largest.
 */
#include "pp_math.h"

#define EBB_C 410		/* as in cc/algs/cubic.c, 1/1024 segments/s^3 */
#define EBB_BETA 717		/* as there, 1/1024 */
#define EBB_RATE_SHIFT 24	/* rates are in segments/us times 2^24 */
#define EBB_CLEAN_US 500000	/* least length of a span. More: rates are told better, the answer comes later */
#define EBB_LOSSES_US 200000	/* the same where losses go on; and twice the longest RTT */
#define EBB_FULL_ROUNDS 3	/* rounds without a quarter more that end start-up. More: bears losses, overshoots */
#define EBB_LOSSY 4		/* a span with losses counts two, one without takes one off: from here on they go on */
#define EBB_LOSS_MOST 16	/* a span that loses such a part is congested */
#define EBB_QUEUE_PART 8	/* of the base: the queue that may stand. More: cedes more, and fills less alone */
#define EBB_HELD_PART 128	/* of the longest RTT: so much the least RTT errs where a tunnel holds packets */
#define EBB_BASE_PART 1024	/* the base grows by such a part each span. More: finds a longer one later */
#define EBB_DOWN_SHIFT 6	/* the first step down is a 64th, */
#define EBB_DOWN_MOST 2		/* each further one twice as much, at most 4 times */
#define EBB_TOP 2		/* near the largest rate a step up is at most 1 + so many 64ths */
#define EBB_LEAST 4		/* smallest window, segments */

enum ebb_values { EBB_STARTUP = 0, EBB_CLEAN = 1, EBB_LOSSES = 2, EBB_UP = 0, EBB_DOWN = 16, EBB_LEAPT = 32 };	/* phase; steps, a leap not judged yet */
struct ebb_state {
	union {
		__u64 rtt_sum;			/* clean: RTT times segments of the span, us */
		struct { __u32 least_sum, least_us; };	/* losses: sum and least of the rounds' least RTT, us */
	};
	__u32 samples;			/* segments or rounds in the sum */
	__u32 span_us, span_delivered, span_lost;	/* start of the span, us, wraps; segments until then */
	__u32 round_end;		/* a round ends when what is sent at this count of delivered segments is delivered */
	__u32 epoch, k;			/* start of the curve, wraps, 0 = not yet; from there to its plateau; 1/1024 s */
	__u32 w_max, cubic, floor;	/* the plateau, cubic's window, the floor, segments */
	__u32 rtt_us;			/* clean: mean RTT at the floor; losses: longest of late, a 16th is forgotten each span */
	__u32 rate, most, pace;		/* clean: the last span's; losses: smoothed. Largest, a 64th is forgotten. To send at */
	__u32 base_us, round_least_us;	/* least RTT, as above, and of the round */
	__u32 ack_us, silence_us;	/* last delivery, wraps; longest time between two in the span */
	__u8  phase, steps, lossy;	/* steps: in start-up rounds without growth; what spans with losses count */
};
PP_STATE_FITS(struct ebb_state);

PP_INLINE void ebb_grow_cubic(struct ebb_state *s, struct pp_flow *f, __u32 acked)
{
	__u32 t, delta, target, reno = (__u32)((__u64)s->cubic * 15 >> 3), time = (__u32)(f->now_ns * 2 / 1953125);	/* 1/1024 s */
	__u64 offset;

	if (!s->epoch) {
		s->epoch = pp_max(time, 1);
		s->w_max = pp_max(s->w_max, s->cubic);
		s->k = pp_cube_root((__u64)pp_min(s->w_max - s->cubic, (1U << 24) - 1) * ((1ULL << 40) / EBB_C));
		f->cwnd_cnt = 0;
	}
	t = time - s->epoch;
	offset = pp_min(t < s->k ? s->k - t : t - s->k, 1U << 18);	/* 410 * 2^54 < 2^63 */
	delta = (__u32)(EBB_C * offset * offset * offset >> 40);
	target = t < s->k ? s->w_max - pp_min(delta, s->w_max) : s->w_max + delta;
	f->cwnd_cnt += acked;
	if (f->cwnd_cnt > reno) {
		f->cwnd_cnt -= reno;
		s->cubic++;
	} else if (target > s->cubic) {
		s->cubic = pp_min(target, s->cubic + (acked + 1) / 2);
	}
}

PP_INLINE __u32 ebb_window(__u32 rate, __u32 rtt_us)
{
	return (__u32)pp_min64(pp_max64((__u64)rate * rtt_us >> EBB_RATE_SHIFT, EBB_LEAST), 1U << 24);
}

PP_INLINE void ebb_judge_clean(struct ebb_state *s, __u32 rate, __u32 rtt_us, __u32 used)
{
	__u32 before = s->rate;

	s->rate = rate;
	s->most = s->pace = pp_max(s->most - (s->phase == EBB_STARTUP ? 0 : s->most / 64), rate);
	if (s->phase == EBB_STARTUP) {	/* with packets on the slower path rounds get longer */
		s->steps = rate > before + before / 4 ? 0 : s->steps + 1;
		s->rtt_us = s->steps ? s->rtt_us : rtt_us;
		if (s->steps >= EBB_FULL_ROUNDS) {
			s->phase = EBB_CLEAN;
			s->floor = ebb_window(s->most, s->rtt_us) / 16 * 15;
			s->cubic = pp_min(s->cubic, s->floor + s->floor / 4);
		}
		return;
	}
	s->floor = pp_min(s->floor, pp_max(2 * used, EBB_LEAST));
	if (rate > s->most / 10 * 9)
		s->rtt_us = pp_min(s->rtt_us, rtt_us);
	if (s->cubic > s->floor)
		s->floor = ebb_window(pp_max(rate, before), s->rtt_us) / 16 * 15;
	else if (rtt_us > s->rtt_us + s->rtt_us / 4)
		s->floor = pp_max(s->floor - s->floor / 16, EBB_LEAST);
	if (s->lossy >= EBB_LOSSY) {
		s->phase = EBB_LOSSES;
		s->pace = s->most / 4 * 3;
		s->steps = EBB_LEAPT;
		s->base_us = 1U << 30;
		s->silence_us = 0;
	}
}

/* `sent` counts losses too; `mean_us` is of the rounds' least RTT; `spacing_us` lies between segments. */
PP_INLINE void ebb_judge_losses(struct ebb_state *s, __u32 sent, __u32 rate, __u32 mean_us, __u32 spacing_us)
{
	__u32 congested = sent - rate > sent / EBB_LOSS_MOST, held = s->silence_us > 2000 + 8 * spacing_us;
	__u32 queue_us = held ? s->least_us : mean_us, allowed_us;

	if (!congested)	/* where a tunnel has given up what is late, what comes next waits for nothing */
		s->base_us = pp_min(s->base_us + s->base_us / EBB_BASE_PART, s->least_us);
	allowed_us = pp_min(s->base_us / EBB_QUEUE_PART, 2000) + (held ? s->rtt_us / EBB_HELD_PART : 0);
	queue_us -= pp_min(queue_us, s->base_us);
	s->rate = s->rate - s->rate / 4 + rate / 4;
	s->most = pp_max(s->rate, s->most - s->most / 64);
	rate = pp_max(rate, s->rate);
	if (s->steps == EBB_LEAPT) {
		s->steps = EBB_UP;
	} else if (congested) {
		s->pace = pp_min(s->pace - s->pace / 8, rate + rate / 2);
		s->most -= s->most / (s->most / 2 > rate ? 2 : 8);
		s->steps = EBB_UP;
	} else if (held && queue_us > allowed_us && s->pace < s->most / 4 * 3) {
		s->steps = rate >= s->pace / 16 * 11 ? EBB_LEAPT : EBB_UP;
		s->pace = s->steps == EBB_LEAPT ? s->pace + s->pace / 2 : rate;
	} else if (queue_us > allowed_us) {
		s->pace = queue_us > 4 * allowed_us ? pp_min(s->pace, rate) : s->pace;
		s->steps = s->steps < EBB_DOWN ? EBB_DOWN : pp_min(s->steps + 1, EBB_DOWN + EBB_DOWN_MOST);
		s->pace -= s->pace >> (EBB_DOWN_SHIFT + EBB_DOWN - s->steps);
	} else if (s->pace <= rate + rate / 4) {
		s->steps = s->steps < EBB_DOWN ? s->steps : EBB_UP;
		s->pace += s->pace / 64 * (1 + s->steps);
		s->steps = pp_min(s->steps + 1, s->pace < s->most / 4 * 3 ? 15 : held ? EBB_TOP : pp_min(s->samples / 16, EBB_TOP));
	}
	s->floor = ebb_window(s->pace, s->rtt_us + s->rtt_us / 4) + EBB_LEAST;
	s->rtt_us -= s->rtt_us / 16;
	s->silence_us = 0;
	s->phase = s->lossy ? EBB_LOSSES : EBB_CLEAN;
	s->rtt_us = s->lossy ? s->rtt_us : s->base_us;
}

PP_INLINE void ebb_judge_span(struct ebb_state *s, const struct pp_flow *f, __u32 us)
{
	__u32 delivered = f->delivered - s->span_delivered, lost = f->lost - s->span_lost;
	__u32 rate = (__u32)pp_min64(pp_div((__u64)delivered << EBB_RATE_SHIFT, us), 1U << 30);
	__u32 sent = (__u32)pp_min64(pp_div((__u64)(delivered + lost) << EBB_RATE_SHIFT, us), 1U << 30);
	__u32 mean_us = (__u32)pp_div(s->phase == EBB_LOSSES ? s->least_sum : s->rtt_sum, s->samples);

	s->lossy = lost ? pp_min(s->lossy + 2, 2 * EBB_LOSSY) : (__u32)(s->lossy - (s->lossy > 0));
	if (s->phase != EBB_LOSSES)
		ebb_judge_clean(s, rate, mean_us, f->max_packets_out);
	else
		ebb_judge_losses(s, sent, rate, mean_us, us / pp_max(delivered, 1));
	s->span_us += us;
	s->span_delivered = f->delivered;
	s->span_lost = f->lost;
	s->rtt_sum = s->samples = 0;
	s->least_us = s->phase == EBB_LOSSES ? ~0U : 0;
}

static void ebb_init(struct pp_ctx *c)
{
	struct ebb_state *s = c->priv;
	struct pp_flow *f = c->flow;

	*s = (struct ebb_state){ .floor = EBB_LEAST, .cubic = f->cwnd, .round_end = f->delivered, .round_least_us = ~0U,
		.span_us = (__u32)(f->now_ns / 1000), .span_delivered = f->delivered, .span_lost = f->lost };
	f->ssthresh = PP_SSTHRESH_INFINITE;
	f->pacing = 1;
	f->pacing_rate = f->max_pacing_rate;
}

static __u32 ebb_ssthresh(struct pp_ctx *c)
{
	struct ebb_state *s = c->priv;

	if (s->phase == EBB_STARTUP)
		return c->flow->cwnd;
	s->w_max = s->cubic < s->w_max ? (__u32)((__u64)s->cubic * (1024 + EBB_BETA) >> 11) : s->cubic;
	s->cubic = pp_max((__u32)((__u64)s->cubic * EBB_BETA >> 10), EBB_LEAST);
	s->epoch = 0;
	return pp_max(s->cubic, c->flow->cwnd / 2);
}

static __u32 ebb_undo_cwnd(struct pp_ctx *c)
{
	return pp_undo(c->flow);
}

static void ebb_cong_control(struct pp_ctx *c, __u32 ack, __u32 ack_flags, const struct pp_sample *a)
{
	struct ebb_state *s = c->priv;
	struct pp_flow *f = c->flow;
	__u32 acked = a->acked_sacked, now_us = (__u32)(f->now_ns / 1000), us = now_us - s->span_us, target;
	__u64 pace;

	(void)ack, (void)ack_flags;
	s->silence_us = pp_max(s->silence_us, acked ? now_us - s->ack_us : 0);
	s->ack_us = acked ? now_us : s->ack_us;
	if (a->rtt_us > 0) {
		s->round_least_us = pp_min(s->round_least_us, (__u32)a->rtt_us);
		s->rtt_us = s->phase == EBB_LOSSES ? pp_max(s->rtt_us, (__u32)a->rtt_us) : s->rtt_us;
		if (s->phase != EBB_LOSSES) {
			s->rtt_sum += (__u64)a->rtt_us * acked;
			s->samples += acked;
		}
	}
	if (a->delivered > 0 && !pp_after(s->round_end, a->prior_delivered)) {
		s->round_end = f->delivered;
		if (s->phase == EBB_LOSSES && s->round_least_us != ~0U) {
			s->least_sum += s->round_least_us;
			s->least_us = pp_min(s->least_us, s->round_least_us);
			s->samples++;
		}
		s->round_least_us = ~0U;
		target = s->phase == EBB_LOSSES ? pp_max(EBB_LOSSES_US, 2 * s->rtt_us) : s->phase == EBB_CLEAN ? EBB_CLEAN_US : 1;
		if (s->samples && us >= target)
			ebb_judge_span(s, f, us);
	}
	if (s->phase == EBB_STARTUP)
		s->cubic += acked;
	else if (f->ca_state < PP_CA_RECOVERY && acked && pp_is_cwnd_limited(f))
		ebb_grow_cubic(s, f, acked);
	s->cubic = pp_min(s->cubic, pp_min(f->cwnd_clamp, 1U << 24));
	if (s->phase != EBB_STARTUP) {	/* bytes/s; 10^6 = 2^6 * 15625; mss 9000: below 2^32 * 2^30; srtt in eighths */
		pace = (s->phase == EBB_LOSSES ? s->pace : (__u64)s->pace * 5 / 4) * f->mss * 15625 >> (EBB_RATE_SHIFT - 6);
		pace = pp_max64(pace, pp_div((__u64)s->cubic * f->mss * 10000000, pp_max(f->srtt_us, 1)));
		f->pacing_rate = pp_min64(f->max_pacing_rate, pace);
	}
	target = pp_min(pp_max(s->floor, s->cubic), f->cwnd_clamp);
	if (s->phase != EBB_LOSSES)
		target = f->cwnd < target ? pp_min(f->cwnd + acked, target) : pp_max(target, f->cwnd - pp_min((acked + 1) / 2, f->cwnd - 1));
	f->cwnd = target;
}

PP_CC_REGISTER(ebb) = {
	.name = "ebb",
	.flags = PP_CC_PACES | PP_CC_SEES_SAMPLES, .priv_bytes = sizeof(struct ebb_state),
	.init = ebb_init,
	.ssthresh = ebb_ssthresh,
	.undo_cwnd = ebb_undo_cwnd,
	.cong_control = ebb_cong_control,
};
PP_CC_ABOUT(ebb) = { .family = PP_FAMILY_MODEL, .source = "studies/one-tcp-many-paths" };
