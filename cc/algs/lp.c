/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * LP, TCP Low Priority.
 *
 * Idea. A background transfer that takes only what others leave: it watches the one-way delay from
 * sender to receiver and gives way when that shows a queue, well before anything is lost. The first
 * sign halves the window; a second one within some round trips (the inference time) leaves one
 * segment; within that time nothing grows. Otherwise it is Reno.
 *
 * Source. A. Kuzmanovic, E. Knightly: "TCP-LP: low-priority service via end-point congestion
 * control", IEEE/ACM ToN 14(4), 2006. With d the smoothed one-way delay:
 *
 *	early congestion: d > d_min + delta (d_max - d_min), delta = 0.15, d smoothed by 1/8
 *	inference time: three round trips
 *
 * The one-way delay is the peer's timestamp less its echo of ours (RFC 7323), which holds an
 * unknown constant: both clocks begin at different values. Only differences of d matter, so the
 * constant should not either. How fast the peer's clock ticks is estimated.
 *
 * Differences from the paper, all as in Linux: at a sign of congestion d_min becomes d, and d_max
 * twice d; a new largest d replaces only the second largest; the inference time is three times the
 * RTT of the last ACK by timestamps, and the window is not set to one at its end; losses are
 * Reno's. The peer's clock is estimated in whole ticks a second, by a filter that rounds down, and
 * its ticks are converted by a whole quotient.
 *
 * What follows from these on Linux is astonishing, and so here. Since Linux 4.10 timestamps begin
 * at a random value for each connection. d therefore is a random number of 32 bits with the delay
 * in its last digits; but its smoothed value is kept in eighths, and has room for 29. Seven of
 * eight connections have a larger d, of which d_min is larger than the smoothed value can ever be:
 * they never see congestion and are Reno. With net.ipv4.tcp_timestamps=2, timestamps without random
 * start, the clocks of both ends begin with the machine and low priority works as it was meant to.
 * `specs/notes/low-priority` shows it. Differences from Linux: none known; timestamps in
 * microseconds (a route's feature since 6.7) are not expected.
 */
#include "pp_math.h"

/* delta: how much of the range of delays is congestion, percent. Raising it takes more from
 * others, and lowers the risk of giving way to noise. */
#define LP_DELTA_PERCENT 15
/* Inference time in round trips. Raising it stays small for longer after a sign of congestion. */
#define LP_INFERENCE_RTTS 3
/* Ticks of our own timestamp clock in a second. */
#define LP_CLOCK_HZ 1000
/* Weight of what the filter of the peer's clock keeps: 63/64. */
#define LP_CLOCK_SHIFT 6
/* No delay is known. */
#define LP_DELAY_UNKNOWN (~0U)

/* Delays are in ms of our clock, relative to an unknown constant; all of them wrap. */
struct lp_state {
	__u32 smoothed;		/* delay times 8; 0 = none yet */
	__u32 min;		/* least delay since the last sign of congestion */
	__u32 max;		/* largest delay, but the one that set second_max */
	__u32 top;		/* largest delay */
	__u32 peer_hz;		/* ticks of the peer's clock in a second; 0 = not yet known */
	__u32 peer_ref;		/* the peer's timestamp at the sample before; 0 = none */
	__u32 own_ref;		/* and its echo of ours */
	__u32 last_cut_ms;	/* when congestion last showed; 0 = never */
	__u32 inference_ms;	/* inference time */
	__u8  inferring;	/* within the inference time */
};

PP_STATE_FITS(struct lp_state);

/* How fast the peer's clock ticks, from its progress and ours since the sample before. */
static void lp_estimate_clock(struct lp_state *s, __u32 peer, __u32 own)
{
	__u32 peer_ticks = peer - s->peer_ref, own_ticks = own - s->own_ref;

	if (s->peer_ref && s->own_ref && peer_ticks && own_ticks) {
		/* The product wraps after 71 minutes without a sample. */
		__u32 hz = LP_CLOCK_HZ * peer_ticks / own_ticks;
		__s64 filtered = (__s64)(s->peer_hz << LP_CLOCK_SHIFT);

		/* Rounded down at every step: noise alone makes it fall. */
		s->peer_hz = filtered > 0 ? (__u32)((filtered + (__s64)hz - (filtered >> LP_CLOCK_SHIFT)) >> LP_CLOCK_SHIFT) : hz;
	}
	s->peer_ref = peer;
	s->own_ref = own;
}

static void lp_note_delay(struct lp_state *s, __u32 delay)
{
	s->min = pp_min(s->min, delay);
	if (delay > s->max) {
		s->max = delay > s->top && s->top ? s->top : delay;
		s->top = pp_max(s->top, delay);
	}
	if (s->smoothed)
		s->smoothed += delay - (s->smoothed >> 3);
	else
		s->smoothed = delay << 3;
}

static void lp_init(struct pp_ctx *c)
{
	struct lp_state *s = c->priv;

	*s = (struct lp_state){ .min = LP_DELAY_UNKNOWN };
}

static __u32 lp_ssthresh(struct pp_ctx *c)
{
	return pp_half(c->flow);
}

static void lp_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	const struct lp_state *s = c->priv;

	(void)ack;
	if (!s->inferring)
		pp_reno_cong_avoid(c->flow, acked);
}

static void lp_pkts_acked(struct pp_ctx *c, const struct pp_sample *sample)
{
	struct lp_state *s = c->priv;
	struct pp_flow *f = c->flow;
	__u32 now_ms = (__u32)(f->now_ns / 1000000);
	__s32 rtt_ms = (__s32)(now_ms - f->ts_echo);

	if (sample->rtt_us > 0) {
		lp_estimate_clock(s, f->ts_peer, f->ts_echo);
		if (s->peer_hz) {
			__u32 delay = f->ts_peer * (LP_CLOCK_HZ / s->peer_hz) - f->ts_echo;

			if (delay)
				lp_note_delay(s, delay);
		}
	}
	if (rtt_ms > 0)
		s->inference_ms = LP_INFERENCE_RTTS * (__u32)rtt_ms;
	s->inferring = s->last_cut_ms && now_ms - s->last_cut_ms < s->inference_ms;
	/* Delays wrap, and so does the product. */
	if (s->smoothed >> 3 < s->min + LP_DELTA_PERCENT * (s->max - s->min) / 100)
		return;
	s->min = s->smoothed >> 3;
	s->max = s->smoothed >> 2;
	s->top = s->max;
	f->cwnd = s->inferring ? 1 : pp_max(f->cwnd >> 1, 1);
	s->last_cut_ms = now_ms;
}

static __u32 lp_undo_cwnd(struct pp_ctx *c)
{
	return pp_undo(c->flow);
}

PP_CC_REGISTER(lp) = {
	.name = "lp",
	.flags = PP_CC_SEES_STAMPS,
	.priv_bytes = sizeof(struct lp_state),
	.init = lp_init,
	.ssthresh = lp_ssthresh,
	.cong_avoid = lp_cong_avoid,
	.pkts_acked = lp_pkts_acked,
	.undo_cwnd = lp_undo_cwnd,
};

PP_CC_ABOUT(lp) = {
	.family = PP_FAMILY_DELAY,
	.source = "Kuzmanovic, Knightly, ToN 14(4), 2006",
	.counterpart = "lp",
};
