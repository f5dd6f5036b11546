/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * BBR version 3: its state, and what an ACK does to its model of the path. cc/algs/bbr3.c explains
 * it and sets rate and window by it. Section numbers are those of draft-ietf-ccwg-bbr-06; units are
 * those of pp_bbr.h.
 */
#ifndef PP_BBR3_H
#define PP_BBR3_H

#include "pp_bbr.h"

/* Gains in 1/256. Startup: 4 ln 2 = 2.77, the least with which the rate doubles each round
 * (5.3.1.1). Raising it adds queue. */
#define BBR3_STARTUP_GAIN 709
/* Drain: raising it takes longer to empty the queue. */
#define BBR3_DRAIN_GAIN 128
#define BBR3_DRAIN_ROUNDS 3
/* Down: the least gain with which flows that probe by 1.25 converge to equal shares. Raising it
 * slows that down. */
#define BBR3_DOWN_GAIN 230
#define BBR3_UP_GAIN 320
/* Windows: in general, while probing, and in ProbeRTT, in BDPs. Raising the first allows more
 * queue and tolerates later ACKs. */
#define BBR3_CWND_GAIN 512
#define BBR3_UP_CWND_GAIN 576
#define BBR3_PROBE_RTT_GAIN 128
/* Losses that say that too much is in flight, 1/256 (2 %). Raising it stands more random loss,
 * and pushes more out of shallow queues. */
#define BBR3_LOSS 5
/* ACKs of a round that must reveal losses to end Startup. Raising it overshoots longer. */
#define BBR3_STARTUP_LOSSES 6
/* What a round with losses leaves of the short-term bounds at least, 1/256 (0.7, as cubic). */
#define BBR3_BETA 179
/* The part of the long-term bound left free for others while not probing, 1/256 (15 %). Raising
 * it lets others in sooner and costs throughput. */
#define BBR3_HEADROOM 38
/* Longest wait between probings: rounds (5.3.3.8.2), and ms of which up to BBR3_WAIT_MORE_MS are
 * drawn. Raising them leaves Reno more time to grow. */
#define BBR3_WAIT_ROUNDS 63
#define BBR3_WAIT_MS 2000
#define BBR3_WAIT_MORE_MS 1000
/* How old the least RTT may be before ProbeRTT, ticks (5 s). Raising it loses less throughput,
 * and notices a longer path later. */
#define BBR3_PROBE_RTT_TICKS 1250
/* "No bound", segments. */
#define BBR3_NONE 0xffffU
#define BBR3_NO_BW (~0U)

enum bbr3_state { BBR3_STARTUP = 0, BBR3_DRAIN, BBR3_DOWN, BBR3_CRUISE, BBR3_REFILL, BBR3_UP, BBR3_PROBE_RTT };
enum bbr3_ack_phase { BBR3_INIT = 0, BBR3_REFILLING, BBR3_STARTING, BBR3_FEEDBACK, BBR3_STOPPING };
enum bbr3_undo_state { BBR3_UNDO_NOTHING = 0, BBR3_UNDO_STARTUP, BBR3_UNDO_UP };

struct bbr3_model {
	__u32 bw[2];			/* largest rate of this and of the last cycle; unit as in pp_bbr.h */
	__u32 bw_latest;		/* largest rate of this round of losses */
	__u32 bw_shortterm;		/* short-term bound; ~0 = none */
	__u32 full_bw;			/* rate from which a quarter more would be growth */
	__u32 min_rtt_us;		/* least RTT of ten seconds; ~0 = no sample yet */
	__u32 min_rtt_stamp;		/* when it was seen, wraps */
	__u32 probe_rtt_min_us;		/* least RTT since ProbeRTT was last due */
	__u32 probe_rtt_min_stamp;	/* when it was seen, wraps */
	__u32 probe_rtt_done_stamp;	/* when ProbeRTT may end, wraps; 0 = the flight is not yet small */
	__u32 next_round_delivered;	/* the round ends when what was sent at this count of delivered segments is delivered */
	__u32 loss_round_delivered;	/* the same for rounds of losses */
	__u32 cycle_stamp;		/* start of Down, ms, wraps */
	__u32 prior_cwnd;		/* window to return to after recovery or ProbeRTT, segments */
	__u32 ack_epoch_us;		/* start of the epoch of aggregated ACKs, us, wraps */
	__u16 ack_epoch_acked;		/* segments acknowledged in it */
	__u16 extra_acked;		/* most segments beyond the rate in the present rounds */
	__u16 extra_acked_before;	/* and in those before */
	__u16 inflight_latest;		/* most segments delivered within a flight in this round of losses */
	__u16 inflight_shortterm;	/* short-term bound, segments */
	__u16 inflight_longterm;	/* long-term bound, segments */
	__u16 undo_inflight_longterm;	/* the same before the present losses */
	__u16 bw_probe_up_acks;		/* segments acknowledged toward the next increase of it */
	__u16 round_lost;		/* pp_flow.lost at the start of the round of losses, low 16 bits */
	__u8  bw_probe_wait;		/* drawn part of the wait between probings, 1/256 of BBR3_WAIT_MORE_MS */
	__u8  state;			/* enum bbr3_state */
	__u8  ack_phase;		/* of the samples: enum bbr3_ack_phase */
	__u8  full_bw_count : 2;	/* rounds without growth, up to 3 */
	__u8  rounds;			/* of Drain; of raising the bound in Up */
	__u8  prior_ca_state : 3;	/* enum pp_ca_state at the last ACK */
	__u8  rounds_since_bw_probe;	/* since the last probing, up to 63 */
	__u8  undo_state : 2;		/* enum bbr3_undo_state */
	__u8  extra_acked_rounds : 3;
	__u8  loss_events_in_round : 3;	/* ACKs of this round that revealed losses, up to 6 */
	__u8  full_bw_reached : 1;	/* the pipe was filled once */
	__u8  full_bw_now : 1;		/* and is, as far as this probing shows */
	__u8  has_seen_rtt : 1;		/* the pacing rate rests on an RTT sample */
	__u8  idle_restart : 1;		/* sending again after idle, nothing of it acknowledged yet */
	__u8  probe_rtt_round_done : 1;	/* a round has passed at the minimum of ProbeRTT */
	__u8  loss_in_round : 1;	/* something was lost in this round of losses */
	__u8  bw_probe_samples : 1;	/* samples are of a probing that was not yet found too high */
	__u8  prev_probe_too_high : 1;	/* the last probing lost too much */
	__u8  stopped_risky_probe : 1;	/* this probing ended at the bound, as a precaution */
	__u8  unbounded : 1;		/* there were no short-term bounds before the present losses */
	__u8  round_start : 1;		/* this ACK began a round; kept here, where a BPF verifier does not tell the cases apart */
	__u8  loss_round_start : 1;	/* and a round of losses */
};

/* What one ACK tells. */
struct bbr3_ack {
	__u32 bw;		/* delivery rate */
	__u32 delivered;	/* segments delivered within the flight of the last one */
	__u32 flight;		/* segments in flight when it left */
	__u32 lost;		/* segments lost in this round */
	__u32 app_limited;
};

PP_INLINE __u32 bbr3_max_bw(const struct bbr3_model *m)
{
	return pp_max_branchless(m->bw[0], m->bw[1]);
}

/* 5.5.10.3, BoundBWForModel */
PP_INLINE __u32 bbr3_bw(const struct bbr3_model *m)
{
	return pp_min_branchless(bbr3_max_bw(m), m->bw_shortterm);
}

PP_INLINE int bbr3_in_probe_bw(const struct bbr3_model *m)
{
	return m->state >= BBR3_DOWN && m->state <= BBR3_UP;
}

PP_INLINE __u16 bbr3_segments(__u32 value)
{
	return (__u16)pp_min_branchless(value, BBR3_NONE);
}

PP_INLINE __u32 bbr3_pacing_gain(const struct bbr3_model *m)
{
	switch (m->state) {
	case BBR3_STARTUP:
		return BBR3_STARTUP_GAIN;
	case BBR3_DRAIN:
		return BBR3_DRAIN_GAIN;
	case BBR3_DOWN:
		return BBR3_DOWN_GAIN;
	case BBR3_UP:
		return BBR3_UP_GAIN;
	default:
		return BBR_GAIN_ONE;
	}
}

/* 5.6.4.2, BDPMultiple: rounded up. Products hold for windows below 2^30 segments. */
PP_INLINE __u32 bbr3_bdp(const struct bbr3_model *m, __u32 bw, __u32 gain)
{
	if (m->min_rtt_us == ~0U)
		return BBR_INIT_CWND;
	return (__u32)((((__u64)bw * m->min_rtt_us * gain >> BBR_GAIN_SHIFT) + BBR_BW_ONE - 1) >> BBR_BW_SHIFT);
}

/* 5.6.4.2, QuantizationBudget */
PP_INLINE __u32 bbr3_quantization_budget(const struct bbr3_model *m, const struct pp_flow *f, __u32 window)
{
	window = pp_max_branchless(pp_max_branchless(window, 3 * pp_max_branchless(bbr_send_quantum(f), 2)), BBR_MIN_CWND);
	return m->state == BBR3_UP ? window + 2 : window;
}

/* 5.3.3.9, InflightWithHeadroom */
PP_INLINE __u32 bbr3_inflight_with_headroom(const struct bbr3_model *m)
{
	__u32 bound = m->inflight_longterm;

	if (bound == BBR3_NONE)
		return ~0U;
	return pp_max_branchless(bound - pp_min_branchless(bound, pp_max_branchless(1, bound * BBR3_HEADROOM >> 8)), BBR_MIN_CWND);
}

PP_INLINE __u32 bbr3_target(const struct bbr3_model *m, const struct pp_flow *f)
{
	return pp_min_branchless(bbr3_bdp(m, bbr3_bw(m), BBR_GAIN_ONE), f->cwnd);
}

PP_INLINE void bbr3_reset_full_bw(struct bbr3_model *m, __u32 bw)
{
	m->full_bw = bw;
	m->full_bw_count = 0;
	m->full_bw_now = 0;
}

PP_INLINE void bbr3_reset_short_term_model(struct bbr3_model *m)
{
	m->bw_shortterm = BBR3_NO_BW;
	m->inflight_shortterm = BBR3_NONE;
}

PP_INLINE void bbr3_start_down(struct bbr3_model *m, const struct pp_flow *f)
{
	PP_REREAD(m);
	m->loss_in_round = 0;
	m->loss_events_in_round = 0;
	m->bw_latest = 0;
	m->inflight_latest = 0;
	m->round_lost = (__u16)f->lost;
	m->rounds_since_bw_probe = f->random & 1;
	m->bw_probe_wait = (__u8)(f->random >> 24);
	m->cycle_stamp = (__u32)(f->now_ns / 1000000);
	m->ack_phase = BBR3_STOPPING;
	m->next_round_delivered = f->delivered;
	m->state = BBR3_DOWN;
}

PP_INLINE void bbr3_start_refill(struct bbr3_model *m, const struct pp_flow *f)
{
	PP_REREAD(m);
	bbr3_reset_short_term_model(m);
	m->rounds = 0;
	m->bw_probe_up_acks = 0;
	m->stopped_risky_probe = 0;
	m->ack_phase = BBR3_REFILLING;
	m->next_round_delivered = f->delivered;
	m->state = BBR3_REFILL;
}

PP_INLINE void bbr3_start_up(struct bbr3_model *m, const struct pp_flow *f, __u32 bw)
{
	PP_REREAD(m);
	m->ack_phase = BBR3_STARTING;
	m->next_round_delivered = f->delivered;
	bbr3_reset_full_bw(m, bw);
	m->state = BBR3_UP;
	m->rounds = 0;
}

PP_INLINE void bbr3_save_cwnd(struct bbr3_model *m, const struct pp_flow *f)
{
	int reduced = f->ca_state >= PP_CA_RECOVERY || m->state == BBR3_PROBE_RTT;

	PP_REREAD(m);
	m->prior_cwnd = reduced ? pp_max_branchless(m->prior_cwnd, f->cwnd) : f->cwnd;
}

/* 5.5.10.2, IsInflightTooHigh: 2^16 * 2^8 fits. */
PP_INLINE int bbr3_is_inflight_too_high(const struct bbr3_ack *a)
{
	return ((__u64)a->lost << 8) > (__u64)a->flight * BBR3_LOSS;
}

/* 5.5.10.2: losses while probing set the bound to where they passed 2 %, and end the probing. */
PP_INLINE void bbr3_handle_inflight_too_high(struct bbr3_model *m, const struct pp_flow *f, const struct bbr3_ack *a, __u32 flight)
{
	PP_REREAD(m);
	m->prev_probe_too_high = 1;
	m->bw_probe_samples = 0;
	if (!a->app_limited)
		m->inflight_longterm = bbr3_segments(pp_max_branchless(flight, (__u32)((__u64)bbr3_target(m, f) * BBR3_BETA >> 8)));
	if (m->state == BBR3_UP) {
		m->undo_state = BBR3_UNDO_UP;
		bbr3_start_down(m, f);
	}
}

/* 5.5.10.2, HandleLostPacket, for the losses that an ACK revealed. */
PP_INLINE void bbr3_handle_lost_packets(struct bbr3_model *m, const struct pp_flow *f, const struct pp_sample *s, const struct bbr3_ack *a)
{
	__u32 before, lost_before, threshold;

	PP_REREAD(m);
	if (!m->loss_in_round) {
		m->loss_in_round = 1;
		m->loss_round_delivered = f->delivered;
		m->undo_state = BBR3_UNDO_NOTHING;
		m->undo_inflight_longterm = m->inflight_longterm;
		m->unbounded = m->bw_shortterm == BBR3_NO_BW && m->inflight_shortterm == BBR3_NONE;
	}
	if (m->loss_events_in_round < BBR3_STARTUP_LOSSES)
		m->loss_events_in_round++;
	if (!m->bw_probe_samples || !bbr3_is_inflight_too_high(a))
		return;
	/* InflightAtLoss: how much was in flight without the segments found lost just now, and how many
	 * of them 2 % would have allowed. */
	before = a->flight - pp_min_branchless(a->flight, (__u32)s->losses);
	lost_before = a->lost - pp_min_branchless(a->lost, (__u32)s->losses);
	threshold = before * BBR3_LOSS >> 8;
	if (threshold > lost_before)
		before += (threshold - lost_before) * 256 / (256 - BBR3_LOSS);
	bbr3_handle_inflight_too_high(m, f, a, before);
}

/* 5.5.1 and 5.5.10.3: what this ACK delivered; rounds, and rounds of losses. */
PP_INLINE void bbr3_begin_ack(struct bbr3_model *m, const struct pp_flow *f, const struct pp_sample *s, struct bbr3_ack *a)
{
	a->delivered = (__u32)s->delivered;
	a->bw = (__u32)pp_min64(((__u64)a->delivered << BBR_BW_SHIFT) / (__u64)s->interval_us, BBR3_NO_BW - 1);
	a->lost = (__u16)(f->lost - m->round_lost);
	a->flight = a->delivered + a->lost;
	a->app_limited = s->is_app_limited;
	m->round_start = 0;
	m->loss_round_start = 0;
}

PP_INLINE void bbr3_update_bw(struct bbr3_model *m, const struct pp_flow *f, const struct pp_sample *s, struct bbr3_ack *a)
{
	PP_REREAD(m);
	m->bw_latest = pp_max_branchless(m->bw_latest, a->bw);
	m->inflight_latest = (__u16)pp_max_branchless(m->inflight_latest, bbr3_segments(a->delivered));
	if (!pp_after(m->loss_round_delivered, s->prior_delivered)) {
		m->loss_round_delivered = f->delivered;
		m->loss_round_start = 1;
	}
	if (!pp_after(m->next_round_delivered, s->prior_delivered)) {
		m->next_round_delivered = f->delivered;
		m->round_start = 1;
		m->rounds = (__u8)pp_min_branchless(m->rounds + (m->state == BBR3_DRAIN), 31);
		m->rounds_since_bw_probe = (__u8)pp_min_branchless(m->rounds_since_bw_probe + 1, BBR3_WAIT_ROUNDS);
	}
	/* 5.5.5 */
	if (!a->app_limited || a->bw >= bbr3_max_bw(m))
		m->bw[0] = pp_max_branchless(m->bw[0], a->bw);
}

/* 5.5.10.3, AdaptLowerBoundsFromCongestion: once a round, unless it is no wonder. */
PP_INLINE void bbr3_adapt_lower_bounds(struct bbr3_model *m, const struct pp_flow *f)
{
	__u32 bw = m->bw_shortterm, inflight = m->inflight_shortterm;

	PP_REREAD(m);
	if (!m->loss_in_round || m->state == BBR3_STARTUP || m->state == BBR3_REFILL || m->state == BBR3_UP)
		return;
	if (bw == BBR3_NO_BW)
		bw = bbr3_max_bw(m);
	if (inflight == BBR3_NONE)
		inflight = bbr3_segments(f->cwnd);
	m->bw_shortterm = pp_max_branchless(m->bw_latest, (__u32)((__u64)bw * BBR3_BETA >> 8));
	m->inflight_shortterm = (__u16)pp_max_branchless(m->inflight_latest, inflight * BBR3_BETA >> 8);
}

/* 5.5.9 */
PP_INLINE void bbr3_update_ack_aggregation(struct bbr3_model *m, const struct pp_flow *f, const struct pp_sample *s)
{
	__u32 now = bbr_delivered_us(f), excess, acked = m->ack_epoch_acked;
	__u64 expected;

	PP_REREAD(m);
	if (!s->acked_sacked)
		return;
	if (m->round_start) {
		m->extra_acked_rounds = (m->extra_acked_rounds + 1) & 7;
		if (!m->full_bw_reached || m->extra_acked_rounds >= BBR_EXTRA_ACKED_ROUNDS) {
			m->extra_acked_rounds = 0;
			m->extra_acked_before = m->full_bw_reached ? m->extra_acked : 0;
			m->extra_acked = 0;
		}
	}
	expected = (__u64)bbr3_bw(m) * (now - m->ack_epoch_us) >> BBR_BW_SHIFT;
	if (acked <= expected || acked + s->acked_sacked > 0xffff) {
		acked = 0;
		m->ack_epoch_us = now;
		expected = 0;
	}
	acked = pp_min_branchless(acked + s->acked_sacked, 0xffff);
	m->ack_epoch_acked = (__u16)acked;
	excess = pp_min_branchless(acked - (__u32)expected, f->cwnd);
	m->extra_acked = (__u16)pp_max_branchless(m->extra_acked, excess);
}

/* 5.3.1.2 */
PP_INLINE void bbr3_check_full_bw_reached(struct bbr3_model *m, const struct bbr3_ack *a)
{
	PP_REREAD(m);
	if (m->full_bw_now || !m->round_start || a->app_limited)
		return;
	if (a->bw >= (__u64)m->full_bw * BBR_FULL_GAIN >> BBR_GAIN_SHIFT) {
		bbr3_reset_full_bw(m, a->bw);
		return;
	}
	m->full_bw_count = (m->full_bw_count + 1) & 3;
	if (m->full_bw_count >= BBR_FULL_ROUNDS) {
		m->full_bw_now = 1;
		m->full_bw_reached = 1;
	}
}

/* 5.3.1.3 and 5.3.2 */
PP_INLINE void bbr3_check_startup(struct bbr3_model *m, struct pp_flow *f, const struct bbr3_ack *a, __u32 losses)
{
	PP_REREAD(m);
	if (m->state != BBR3_STARTUP)
		return;
	if (!m->full_bw_reached && m->loss_round_start && f->ca_state == PP_CA_RECOVERY && losses >= BBR3_STARTUP_LOSSES &&
	    bbr3_is_inflight_too_high(a)) {
		m->undo_state = BBR3_UNDO_STARTUP;
		m->full_bw_reached = 1;
		m->inflight_longterm = bbr3_segments(pp_max_branchless(bbr3_bdp(m, bbr3_bw(m), BBR_GAIN_ONE), m->inflight_latest));
	}
	if (m->full_bw_reached) {
		m->state = BBR3_DRAIN;
		m->rounds = 0;
		f->ssthresh = bbr3_quantization_budget(m, f, bbr3_bdp(m, bbr3_max_bw(m), BBR_GAIN_ONE));
	}
}

PP_INLINE void bbr3_check_drain(struct bbr3_model *m, const struct pp_flow *f)
{
	__u32 pipe = bbr3_quantization_budget(m, f, bbr3_bdp(m, bbr3_bw(m), BBR_GAIN_ONE));

	PP_REREAD(m);
	if (m->state == BBR3_DRAIN && (f->in_flight <= pipe || m->rounds > BBR3_DRAIN_ROUNDS))
		bbr3_start_down(m, f);
}

/* 5.3.3.8: the wait is over, by the clock or by what Reno would need. */
PP_INLINE int bbr3_is_time_to_probe_bw(const struct bbr3_model *m, const struct pp_flow *f)
{
	__u32 waited = (__u32)(f->now_ns / 1000000) - m->cycle_stamp;

	PP_REREAD(m);
	return waited > BBR3_WAIT_MS + ((__u32)m->bw_probe_wait * BBR3_WAIT_MORE_MS >> 8) ||
	       m->rounds_since_bw_probe >= pp_min_branchless(bbr3_target(m, f), BBR3_WAIT_ROUNDS);
}

/* 5.3.3.9, ProbeInflightLongtermUpward: 1, 2, 4, ... segments a round while the window is what
 * limits. */
PP_INLINE void bbr3_probe_inflight_longterm_upward(struct bbr3_model *m, const struct pp_flow *f, const struct pp_sample *s)
{
	__u32 per, steps, acked;

	PP_REREAD(m);
	if (!f->cwnd_limited || f->cwnd < m->inflight_longterm)
		return;
	per = pp_max_branchless(f->cwnd >> (m->rounds & 31), 1);
	acked = m->bw_probe_up_acks + pp_min_branchless(s->acked_sacked, 0xffff);
	if (acked >= per) {
		steps = acked / per;
		acked -= steps * per;
		m->inflight_longterm = bbr3_segments(m->inflight_longterm + pp_min_branchless(steps, 0xffff));
	}
	m->bw_probe_up_acks = bbr3_segments(acked);
	if (m->round_start)
		m->rounds = (__u8)pp_min_branchless(m->rounds + 1, 30);
}

/* 5.3.3.9, AdaptLongTermModel: 1 if a new phase has begun. */
PP_INLINE int bbr3_adapt_long_term_model(struct bbr3_model *m, const struct pp_flow *f, const struct pp_sample *s, const struct bbr3_ack *a)
{
	PP_REREAD(m);
	if (m->ack_phase == BBR3_STARTING && m->round_start)
		m->ack_phase = BBR3_FEEDBACK;
	if (m->ack_phase == BBR3_STOPPING && m->round_start) {
		m->bw_probe_samples = 0;
		m->ack_phase = BBR3_INIT;
		if (bbr3_in_probe_bw(m)) {
			if (!a->app_limited && m->bw[0]) {
				m->bw[1] = m->bw[0];
				m->bw[0] = 0;
			}
			if (m->stopped_risky_probe && !m->prev_probe_too_high) {
				bbr3_start_refill(m, f);
				return 1;
			}
		}
	}
	if (bbr3_is_inflight_too_high(a) || m->inflight_longterm == BBR3_NONE)
		return 0;
	if (a->flight > m->inflight_longterm)
		m->inflight_longterm = bbr3_segments(a->flight);
	if (m->state == BBR3_UP)
		bbr3_probe_inflight_longterm_upward(m, f, s);
	return 0;
}

/* 5.3.3.9, IsTimeToGoDown */
PP_INLINE int bbr3_is_time_to_go_down(struct bbr3_model *m, const struct pp_flow *f, const struct bbr3_ack *a)
{
	PP_REREAD(m);
	if (m->prev_probe_too_high && f->in_flight >= m->inflight_longterm) {
		m->stopped_risky_probe = 1;
		return 1;
	}
	if (f->cwnd_limited && f->cwnd >= m->inflight_longterm)
		bbr3_reset_full_bw(m, a->bw);
	else if (m->full_bw_now)
		return 1;
	return 0;
}

/* 5.3.3.9, UpdateProbeBWCyclePhase */
PP_INLINE void bbr3_update_probe_bw_cycle_phase(struct bbr3_model *m, const struct pp_flow *f, const struct pp_sample *s,
						const struct bbr3_ack *a)
{
	__u32 pipe;

	PP_REREAD(m);
	if (!m->full_bw_reached || bbr3_adapt_long_term_model(m, f, s, a))
		return;
	switch (m->state) {
	case BBR3_DOWN:
		pipe = pp_min_branchless(bbr3_inflight_with_headroom(m), bbr3_quantization_budget(m, f, bbr3_bdp(m, bbr3_max_bw(m), BBR_GAIN_ONE)));
		if (bbr3_is_time_to_probe_bw(m, f))
			bbr3_start_refill(m, f);
		else if (f->in_flight <= pipe)
			m->state = BBR3_CRUISE;
		break;
	case BBR3_CRUISE:
		if (bbr3_is_time_to_probe_bw(m, f))
			bbr3_start_refill(m, f);
		break;
	case BBR3_REFILL:
		if (m->round_start) {
			m->bw_probe_samples = 1;
			bbr3_start_up(m, f, a->bw);
		}
		break;
	case BBR3_UP:
		if (bbr3_is_time_to_go_down(m, f, a)) {
			m->prev_probe_too_high = 0;
			bbr3_start_down(m, f);
		}
		break;
	}
}

/* 5.6.4.5 */
PP_INLINE __u32 bbr3_probe_rtt_cwnd(const struct bbr3_model *m)
{
	return pp_max_branchless(bbr3_bdp(m, bbr3_bw(m), BBR3_PROBE_RTT_GAIN), BBR_MIN_CWND);
}

/* 5.3.4.4 */
PP_INLINE void bbr3_exit_probe_rtt(struct bbr3_model *m, struct pp_flow *f)
{
	__u32 now = pp_tick(f->now_ns);

	PP_REREAD(m);
	if (!m->probe_rtt_done_stamp || !pp_after(now, m->probe_rtt_done_stamp))
		return;
	m->probe_rtt_min_stamp = now;
	f->cwnd = pp_max_branchless(f->cwnd, m->prior_cwnd);
	bbr3_reset_short_term_model(m);
	if (m->full_bw_reached) {
		bbr3_start_down(m, f);
		m->state = BBR3_CRUISE;
	} else {
		m->state = BBR3_STARTUP;
	}
}

/* 5.3.4.3 */
PP_INLINE void bbr3_update_min_rtt(struct bbr3_model *m, struct pp_flow *f, const struct pp_sample *s)
{
	__u32 now = pp_tick(f->now_ns);
	int due = pp_after(now, m->probe_rtt_min_stamp + BBR3_PROBE_RTT_TICKS);

	PP_REREAD(m);
	if (s->rtt_us >= 0 && (s->rtt_us < m->probe_rtt_min_us || (due && !s->is_ack_delayed))) {
		m->probe_rtt_min_us = (__u32)s->rtt_us;
		m->probe_rtt_min_stamp = now;
	}
	if (m->probe_rtt_min_us < m->min_rtt_us || pp_after(now, m->min_rtt_stamp + BBR_MIN_RTT_TICKS)) {
		m->min_rtt_us = m->probe_rtt_min_us;
		m->min_rtt_stamp = m->probe_rtt_min_stamp;
	}
	if (due && !m->idle_restart && m->state != BBR3_PROBE_RTT) {
		m->state = BBR3_PROBE_RTT;
		bbr3_save_cwnd(m, f);
		m->probe_rtt_done_stamp = 0;
		m->ack_phase = BBR3_STOPPING;
		m->next_round_delivered = f->delivered;
	}
	if (m->state == BBR3_PROBE_RTT) {
		f->app_limited = pp_max_branchless(f->delivered + f->in_flight, 1);
		if (!m->probe_rtt_done_stamp && f->in_flight <= bbr3_probe_rtt_cwnd(m)) {
			m->probe_rtt_done_stamp = pp_max_branchless(now + BBR_PROBE_RTT_TICKS, 1);
			m->probe_rtt_round_done = 0;
			m->next_round_delivered = f->delivered;
		} else if (m->probe_rtt_done_stamp) {
			if (m->round_start)
				m->probe_rtt_round_done = 1;
			if (m->probe_rtt_round_done)
				bbr3_exit_probe_rtt(m, f);
		}
	}
	m->idle_restart = 0;
}

/* 5.2.3, UpdateModelAndState, of an ACK with a rate sample */
PP_INLINE void bbr3_update_model(struct bbr3_model *m, struct pp_flow *f, const struct pp_sample *s)
{
	struct bbr3_ack a;
	__u32 losses;

	bbr3_begin_ack(m, f, s, &a);
	if (s->losses > 0)
		bbr3_handle_lost_packets(m, f, s, &a);
	bbr3_update_bw(m, f, s, &a);
	losses = m->loss_events_in_round;
	if (m->loss_round_start) {
		bbr3_adapt_lower_bounds(m, f);
		m->loss_in_round = 0;
		m->loss_events_in_round = 0;
		m->round_lost = (__u16)f->lost;
	}
	bbr3_update_ack_aggregation(m, f, s);
	bbr3_check_full_bw_reached(m, &a);
	bbr3_check_startup(m, f, &a, losses);
	bbr3_check_drain(m, f);
	bbr3_update_probe_bw_cycle_phase(m, f, s, &a);
	bbr3_update_min_rtt(m, f, s);
	if (m->loss_round_start) {
		m->bw_latest = a.bw;
		m->inflight_latest = bbr3_segments(a.delivered);
	}
}

#endif
