/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Westwood+.
 *
 * Idea. Reno halves its window whatever the loss meant. Westwood+ measures how fast data is
 * acknowledged, and after a loss takes the window that this rate fills at the least RTT: on a path
 * that loses at random that is close to the window before, on one whose queue overflowed it is the
 * window without the queue.
 *
 * Source. S. Mascolo, C. Casetti, M. Gerla, M. Sanadidi, R. Wang: "TCP Westwood: bandwidth
 * estimation for enhanced transport over wireless links", MobiCom 2001; for the "+", a sample a
 * round trip instead of one an ACK: L. Grieco, S. Mascolo: "Performance evaluation and comparison
 * of Westwood+, New Reno, and Vegas TCP congestion control", ACM SIGCOMM CCR 34(2), 2004:
 *
 *	once a round trip (50 ms at least), b = bytes acknowledged / time
 *	bw = 7/8 bw + 1/8 b
 *	after a loss or a timeout		ssthresh = bw least_rtt, at least 2 segments; after a loss cwnd = ssthresh
 *
 * Growth is Reno's.
 *
 * Differences from the paper, as in Linux: the filter is applied twice; while a recovery lasts the
 * window falls to Reno's half, and ssthresh and window are set when it is over; a timeout forgets
 * the least RTT; a duplicate ACK counts a segment, which later partial ACKs give back; times are in
 * ticks, so an RTT of 21 ms is 24, and rates are whole bytes per tick. Differences from Linux: none
 * known.
 */
#include "pp_math.h"

/* Shortest time of a sample, ticks. Raising it smooths the rate and follows it later. */
#define WESTWOOD_MIN_SAMPLE (PP_TICKS_PER_S / 20)
/* The RTT before the first sample, ticks. */
#define WESTWOOD_FIRST_RTT (20 * PP_TICKS_PER_S)
/* A new sample's weight in both filters: 1/8. Raising the shift smooths the rate and follows it
 * later. */
#define WESTWOOD_FILTER_SHIFT 3

struct westwood_state {
	__u32 rate_once;	/* filtered once, bytes per tick */
	__u32 rate;		/* filtered twice */
	__u32 begun_tick;	/* when the sample began */
	__u32 bytes;		/* acknowledged in the sample */
	__u32 seen_una;		/* snd_una of the last ACK */
	__u32 advance;		/* bytes counted for duplicate ACKs that no partial ACK has given back yet */
	__u32 rtt;		/* last RTT, ticks */
	__u32 least_rtt;	/* ticks */
	__u8  forget;		/* the next RTT is the least one */
	__u8  seen;		/* seen_una is of an ACK */
};

PP_STATE_FITS(struct westwood_state);

static void westwood_end_sample(struct westwood_state *s, __u32 now, __u32 ticks)
{
	__u32 sample = s->bytes / pp_max(ticks, 1);

	/* Rates below 2^29 bytes per tick, 1 Tbit/s. */
	if (s->rate_once || s->rate) {
		s->rate_once = ((s->rate_once << WESTWOOD_FILTER_SHIFT) - s->rate_once + sample) >> WESTWOOD_FILTER_SHIFT;
		s->rate = ((s->rate << WESTWOOD_FILTER_SHIFT) - s->rate + s->rate_once) >> WESTWOOD_FILTER_SHIFT;
	} else {
		s->rate_once = sample;
		s->rate = sample;
	}
	s->bytes = 0;
	s->begun_tick = now;
}

/* Bytes that an ACK stands for, if anything but a plain one: a duplicate counts a segment, a
 * partial ACK what duplicates have not. */
static __u32 westwood_acked(struct westwood_state *s, __u32 bytes, __u32 mss)
{
	__u32 given;

	if (!bytes) {
		s->advance += mss;
		return mss;
	}
	if (bytes <= mss)
		return bytes;
	if (s->advance >= bytes) {
		s->advance -= bytes;
		return mss;
	}
	given = s->advance;
	s->advance = 0;
	return bytes - given;
}

/* The window that the rate fills at the least RTT, segments. */
static __u32 westwood_window(const struct westwood_state *s, const struct pp_flow *f)
{
	return pp_max((__u32)((__u64)s->rate * s->least_rtt / pp_max(f->mss, 1)), 2);
}

static void westwood_init(struct pp_ctx *c)
{
	struct westwood_state *s = c->priv;

	*s = (struct westwood_state){ 0 };
	s->rtt = WESTWOOD_FIRST_RTT;
	s->least_rtt = WESTWOOD_FIRST_RTT;
	s->begun_tick = pp_tick(c->flow->now_ns);
	s->seen_una = c->flow->snd_una;
	s->forget = 1;
}

static __u32 westwood_ssthresh(struct pp_ctx *c)
{
	return pp_half(c->flow);
}

static void westwood_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	(void)ack;
	pp_reno_cong_avoid(c->flow, acked);
}

static void westwood_cwnd_event(struct pp_ctx *c, __u32 event)
{
	struct westwood_state *s = c->priv;
	struct pp_flow *f = c->flow;

	if (event == PP_EVENT_COMPLETE_CWR) {
		f->ssthresh = westwood_window(s, f);
		f->cwnd = f->ssthresh;
	} else if (event == PP_EVENT_LOSS) {
		f->ssthresh = westwood_window(s, f);
		s->forget = 1;
	}
}

static void westwood_in_ack_event(struct pp_ctx *c, __u32 flags)
{
	struct westwood_state *s = c->priv;
	const struct pp_flow *f = c->flow;
	__u32 now = pp_tick(f->now_ns), ticks = now - s->begun_tick, bytes;

	/* What the handshake acknowledged is no data. */
	if (!s->seen) {
		s->seen_una = f->snd_una;
		s->seen = 1;
	}
	if (s->rtt && ticks > pp_max(s->rtt, WESTWOOD_MIN_SAMPLE))
		westwood_end_sample(s, now, ticks);
	bytes = f->snd_una - s->seen_una;
	s->seen_una = f->snd_una;
	s->bytes += flags & PP_ACK_SLOWPATH ? westwood_acked(s, bytes, f->mss) : bytes;
	s->least_rtt = s->forget ? s->rtt : pp_min(s->least_rtt, s->rtt);
	s->forget = 0;
}

static void westwood_pkts_acked(struct pp_ctx *c, const struct pp_sample *sample)
{
	struct westwood_state *s = c->priv;

	if (sample->rtt_us > 0)
		s->rtt = pp_ticks((__u32)sample->rtt_us);
}

static __u32 westwood_undo_cwnd(struct pp_ctx *c)
{
	return pp_undo(c->flow);
}

PP_CC_REGISTER(westwood) = {
	.name = "westwood",
	.priv_bytes = sizeof(struct westwood_state),
	.init = westwood_init,
	.ssthresh = westwood_ssthresh,
	.cong_avoid = westwood_cong_avoid,
	.cwnd_event = westwood_cwnd_event,
	.in_ack_event = westwood_in_ack_event,
	.pkts_acked = westwood_pkts_acked,
	.undo_cwnd = westwood_undo_cwnd,
};

PP_CC_ABOUT(westwood) = {
	.family = PP_FAMILY_HYBRID,
	.source = "Mascolo et al., MobiCom 2001; Grieco, Mascolo, CCR 34(2), 2004",
	.counterpart = "westwood",
	.aliases = "westwood+ tcp-westwood",
};
