/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Prague, a scalable congestion control for the Internet (L4S).
 *
 * Idea. DCTCP's: the share of marked packets says how much is too much, and the window loses half
 * of that share. Packets say by ECT(1) that their sender reacts so, and a queue for them marks them
 * as soon as a few wait. Beyond DCTCP, flows of short round trips take no more than those of 25 ms.
 *
 * Source. draft-briscoe-iccrg-prague-congestion-control-04; RFC 9331 section 4; RFC 8257.
 *
 *	V = max(RTT, 25 ms), the virtual round trip
 *	alpha = (1 - g) alpha + g M, once in V, M = marked / delivered in it, g = 1/16
 *	on a mark, at most once in V: cwnd (1 - alpha / 2)
 *	each segment that comes unmarked: cwnd + (RTT / V)^2 / cwnd
 *	on loss: half				RFC 9331 section 4.3: as Reno
 *
 * With a share p of marks growth and loss are equal, (V / RTT) (RTT / V)^2 = p cwnd / 2, so the
 * rate is cwnd / RTT = 2 / (p V): the same for all round trips up to V. The window grows while it
 * recovers from marks too. A part of a segment that a reduction cannot take is taken by the next.
 *
 * Differences from the draft: alpha begins at 1, as RFC 8257 advises; round trips count less at
 * once and not only after some hundred rounds; marks of a queue that holds other traffic too are
 * not told apart; a window is two segments at least; pacing is Linux's rule for any window and not
 * cwnd / RTT, in bursts of at most 1 ms and not 0.25 ms. Feedback is that of DCTCP (RFC 8257
 * section 3.2) and not AccECN. Where ECN was not agreed it is Reno.
 */
#include "pp_math.h"

/* g = 1/2^this. Raising it smooths more, and follows a change of load more slowly. */
#define PRAGUE_GAIN_SHIFT 4
/* alpha in 1/2^20, so that a sixteenth of a small one is not none. */
#define PRAGUE_ALPHA_SHIFT 20
#define PRAGUE_ALPHA_ONE (1U << PRAGUE_ALPHA_SHIFT)
/* V is at least this, us. Raising it makes more round trips equal, and short ones slower. */
#define PRAGUE_VIRTUAL_US 25000U
/* Pacing in 1/1024 of cwnd / RTT: below the threshold, and above it. Raising it fills the window
 * sooner in each round, in denser bursts; at 1024 it is hardly ever full and cannot grow. */
#define PRAGUE_PACING_START 2048U
#define PRAGUE_PACING 1229U
/* Paced as if the RTT were 1 ms before its first sample, in 1/8 us, as BBR does. */
#define PRAGUE_FIRST_RTT 8000U
/* (RTT / V)^2 in 1/2^16. */
#define PRAGUE_SCALE_SHIFT 16

struct prague_state {
	__u64 round_ns;		/* when the virtual round began */
	__u64 cut_ns;		/* no reduction by marks before this */
	__u64 credit;		/* toward the next segment of window, 1/2^16 segments times segments */
	__u32 round_delivered;	/* pp_flow.delivered when the virtual round began */
	__u32 round_ce;		/* pp_flow.delivered_ce when the virtual round began */
	__u32 seen_ce;		/* pp_flow.delivered_ce at the last ACK */
	__u32 alpha;		/* mean share of marked segments, 1/2^20 */
	__u32 owed;		/* of the last reductions, not taken yet, 1/2^21 segments; less than one */
	__u32 loss_cwnd;	/* window before the last reduction by loss, segments */
};

PP_STATE_FITS(struct prague_state);

static __u32 prague_virtual_us(const struct pp_flow *f)
{
	return pp_max(f->srtt_us >> 3, PRAGUE_VIRTUAL_US);
}

static void prague_begin_round(struct prague_state *s, const struct pp_flow *f)
{
	s->round_ns = f->now_ns;
	s->round_delivered = f->delivered;
	s->round_ce = f->delivered_ce;
}

/* bytes: at most 2^39 times 2^11 / 2^10, and then times 2^23: below 2^64. srtt_us is in 1/8 us. */
static void prague_pace(struct pp_flow *f)
{
	__u64 share = pp_in_slow_start(f) ? PRAGUE_PACING_START : PRAGUE_PACING;
	__u64 bytes = pp_min64((__u64)f->cwnd * f->mss, 1ULL << 39) * share >> 10;

	f->pacing_rate = pp_min64(bytes * 8000000 / (f->srtt_us ? f->srtt_us : PRAGUE_FIRST_RTT), f->max_pacing_rate);
}

static void prague_init(struct pp_ctx *c)
{
	struct prague_state *s = c->priv;

	s->alpha = PRAGUE_ALPHA_ONE;
	s->seen_ce = c->flow->delivered_ce;
	prague_begin_round(s, c->flow);
	c->flow->pacing = 1;
	/* Before the first ACK: a scheduler asks each subflow for its rate. */
	prague_pace(c->flow);
}

/* What a mark asks for is done in cong_control, which knows how many there were. */
static __u32 prague_ssthresh(struct pp_ctx *c)
{
	return c->flow->ecn_ok ? pp_max(c->flow->cwnd, 2) : pp_half(c->flow);
}

static void prague_note_loss(struct prague_state *s, struct pp_flow *f)
{
	s->loss_cwnd = f->cwnd;
	f->ssthresh = pp_half(f);
	s->credit = 0;
}

static void prague_set_state(struct pp_ctx *c, __u32 new_state)
{
	struct pp_flow *f = c->flow;

	if (new_state != PP_CA_RECOVERY || f->ca_state == PP_CA_RECOVERY)
		return;
	prague_note_loss(c->priv, f);
	f->cwnd = f->ssthresh;
}

static void prague_cwnd_event(struct pp_ctx *c, __u32 event)
{
	/* Not when the state becomes Loss: that happens for each timeout of one recovery. */
	if (event == PP_EVENT_LOSS)
		prague_note_loss(c->priv, c->flow);
}

/* The share that is added: at most 2^32 * 2^16, below 2^64. */
static void prague_end_round(struct prague_state *s, const struct pp_flow *f)
{
	__u32 delivered = f->delivered - s->round_delivered;
	__u32 marked = f->delivered_ce - s->round_ce;

	if (f->now_ns - s->round_ns < (__u64)prague_virtual_us(f) * 1000 || !delivered)
		return;
	s->alpha -= s->alpha >> PRAGUE_GAIN_SHIFT;
	s->alpha += (__u32)(((__u64)pp_min(marked, delivered) << (PRAGUE_ALPHA_SHIFT - PRAGUE_GAIN_SHIFT)) / delivered);
	s->alpha = pp_min(s->alpha, PRAGUE_ALPHA_ONE);
	prague_begin_round(s, f);
}

/* taken: cwnd is below 2^31 and alpha at most 2^20, so less than 2^52. */
static void prague_cut(struct prague_state *s, struct pp_flow *f)
{
	__u64 taken = (__u64)f->cwnd * s->alpha + s->owed;

	s->owed = (__u32)(taken & ((1U << (PRAGUE_ALPHA_SHIFT + 1)) - 1));
	f->cwnd = pp_max(f->cwnd - (__u32)(taken >> (PRAGUE_ALPHA_SHIFT + 1)), 2);
	f->ssthresh = f->cwnd;
	s->cut_ns = f->now_ns + (__u64)prague_virtual_us(f) * 1000;
}

/* ratio: srtt_us >> 3 is below 2^29 and here less than V, so the ratio is below 2^16 and its square
 * below 2^32. */
static __u64 prague_scale(const struct pp_flow *f)
{
	__u32 rtt_us = f->srtt_us >> 3;
	__u64 ratio;

	if (!f->ecn_ok || !rtt_us || rtt_us >= PRAGUE_VIRTUAL_US)
		return 1ULL << PRAGUE_SCALE_SHIFT;
	ratio = ((__u64)rtt_us << PRAGUE_SCALE_SHIFT) / PRAGUE_VIRTUAL_US;
	return ratio * ratio >> PRAGUE_SCALE_SHIFT;
}

/* acked: segments that came unmarked; below 2^32, times at most 2^16. */
static void prague_grow(struct prague_state *s, struct pp_flow *f, __u32 acked)
{
	__u64 need = (__u64)pp_max(f->cwnd, 1) << PRAGUE_SCALE_SHIFT;
	__u64 more;

	if (!pp_is_cwnd_limited(f))
		return;
	if (pp_in_slow_start(f)) {
		acked = pp_slow_start(f, acked);
		if (!acked)
			return;
	}
	s->credit += acked * prague_scale(f);
	more = s->credit / need;
	s->credit -= more * need;
	f->cwnd = pp_min((__u32)pp_min64(f->cwnd + more, f->cwnd_clamp), f->cwnd_clamp);
}

static void prague_cong_control(struct pp_ctx *c, __u32 ack, __u32 ack_flags, const struct pp_sample *sample)
{
	struct prague_state *s = c->priv;
	struct pp_flow *f = c->flow;
	__u32 marked = f->delivered_ce - s->seen_ce;

	(void)ack;
	(void)ack_flags;
	s->seen_ce = f->delivered_ce;
	prague_end_round(s, f);
	if (f->ca_state != PP_CA_RECOVERY) {
		if (marked && f->ca_state != PP_CA_LOSS && f->now_ns >= s->cut_ns)
			prague_cut(s, f);
		if (sample->acked_sacked > marked)
			prague_grow(s, f, sample->acked_sacked - marked);
	}
	prague_pace(f);
}

/* A burst of two segments is a queue where the step is a millisecond: the transport's rule for
 * bursts, a millisecond of the rate, has no floor above one. */
static __u32 prague_min_tso_segs(struct pp_ctx *c)
{
	(void)c;
	return 1;
}

static __u32 prague_undo_cwnd(struct pp_ctx *c)
{
	const struct prague_state *s = c->priv;

	return pp_max(c->flow->cwnd, s->loss_cwnd);
}

PP_CC_REGISTER(prague) = {
	.name = "prague",
	.flags = PP_CC_NEEDS_ECN | PP_CC_ECT_1 | PP_CC_PACES | PP_CC_SEES_SAMPLES,
	.priv_bytes = sizeof(struct prague_state),
	.init = prague_init,
	.ssthresh = prague_ssthresh,
	.set_state = prague_set_state,
	.cwnd_event = prague_cwnd_event,
	.undo_cwnd = prague_undo_cwnd,
	.cong_control = prague_cong_control,
	.min_tso_segs = prague_min_tso_segs,
};

PP_CC_ABOUT(prague) = {
	.family = PP_FAMILY_LOSS,
	.source = "draft-briscoe-iccrg-prague-congestion-control-04, RFC 9331",
	.aliases = "l4s",
};
