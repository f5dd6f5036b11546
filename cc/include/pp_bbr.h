/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * BBR version 1: the model of a path and the machine that drives a flow by it, shared by
 * cc/algs/bbr.c, whose essay explains them, and by its coupled form cc/algs/cmpbbr.c.
 * Section numbers are those of draft-cardwell-iccrg-bbr-congestion-control-00.
 *
 * Bandwidths are in segments per microsecond, times 2^24 (a unit is some 700 bit/s): 32 bits hold
 * up to 256 segments/us. Their product with an RTT in us stays below 2^64; with a gain as well for
 * windows below 2^30 segments. Gains are in 1/256.
 */
#ifndef PP_BBR_H
#define PP_BBR_H

#include "pp_math.h"

#define BBR_BW_SHIFT 24
#define BBR_BW_ONE (1ULL << BBR_BW_SHIFT)
#define BBR_GAIN_SHIFT 8
#define BBR_GAIN_ONE (1U << BBR_GAIN_SHIFT)

/* Rounds over which the largest bandwidth counts. Raising it rides out gaps of the application,
 * and keeps an outdated rate for longer. */
#define BBR_BW_ROUNDS 10
/* For how long the least RTT counts, ticks (10 s). Raising it probes for it less often, and
 * notices a longer path later. */
#define BBR_MIN_RTT_TICKS 2500
/* For how long at least the window stays at its minimum to see the path's bare RTT, ticks
 * (200 ms). Raising it drains larger queues of others, and costs throughput. */
#define BBR_PROBE_RTT_TICKS 50
/* Startup: the smallest gain that doubles the delivery rate each round, 2/ln 2 = 2.885
 * (4.3.2.1), times 256 and rounded up. Raising it only adds queue. */
#define BBR_HIGH_GAIN (BBR_GAIN_ONE * 2885 / 1000 + 1)
/* Drain: its inverse, so that the queue of Startup is gone after about one round. */
#define BBR_DRAIN_GAIN (BBR_GAIN_ONE * 1000 / 2885)
/* Window in ProbeBW, in BDPs. Raising it tolerates later and aggregated ACKs, and lets more than
 * one flow stand in the queue. */
#define BBR_CWND_GAIN (2 * BBR_GAIN_ONE)
/* ProbeBW: phases of a cycle, and the gains of the two that differ from 1. Raising the first
 * finds free capacity sooner and disturbs others more. */
#define BBR_CYCLE_LEN 8
#define BBR_PROBE_GAIN (BBR_GAIN_ONE * 5 / 4)
#define BBR_YIELD_GAIN (BBR_GAIN_ONE * 3 / 4)
/* The pipe is full once the bandwidth has grown by less than a quarter in three rounds
 * (4.3.2.2). */
#define BBR_FULL_GAIN (BBR_GAIN_ONE * 5 / 4)
#define BBR_FULL_ROUNDS 3
/* Smallest window, segments: two sequences of two segments with delayed ACKs. */
#define BBR_MIN_CWND 4
/* Window before there is any RTT sample, segments (RFC 6928). */
#define BBR_INIT_CWND 10
/* The flow is paced at so much less than its bandwidth that a queue shrinks on average. Raising
 * it costs that much throughput. */
#define BBR_MARGIN_PERCENT 1
/* A burst holds at most 2^-10 s at the pacing rate, and at most this, bytes. */
#define BBR_BURST_SHIFT 10
#define BBR_BURST_BYTES 65215
/* Below this rate a burst is one segment, byte/s (1.2 Mbit/s). */
#define BBR_SLOW_RATE 150000

/* Aggregated ACKs: rounds of each half of the window of the largest excess; most that it may
 * add, us at the bandwidth; most that an epoch counts, segments. */
#define BBR_EXTRA_ACKED_ROUNDS 5
#define BBR_EXTRA_ACKED_US 100000
#define BBR_EXTRA_ACKED_SEGMENTS ((1U << 20) - 1)

/* Policers: rounds of a sampling interval, rounds for which a policer's rate is used, losses
 * that show one (1/256), how near two rates are (1/256; byte/s). */
#define BBR_POLICER_ROUNDS_MIN 4
#define BBR_POLICER_ROUNDS_MAX 16
#define BBR_POLICER_USE_ROUNDS 48
#define BBR_POLICER_LOSS 50
#define BBR_POLICER_RATIO 32
#define BBR_POLICER_NEAR 500

enum bbr_state { BBR_STARTUP = 0, BBR_DRAIN = 1, BBR_PROBE_BW = 2, BBR_PROBE_RTT = 3 };

struct bbr_model {
	__u32 bw[3];			/* bandwidth: the largest of the last ten rounds, and what will follow it; the first bw_kept count */
	__u32 min_rtt_us;		/* least RTT of the last ten seconds; ~0 = no sample yet */
	__u16 bw_round[3];		/* rounds in which they were seen */
	__u16 round_count;		/* rounds so far, wraps */
	__u32 next_round_delivered;	/* the round ends when what was sent at this count of delivered segments is delivered */
	__u32 min_rtt_stamp;		/* when min_rtt_us was last seen, wraps */
	__u32 probe_rtt_done_stamp;	/* when ProbeRTT may end, wraps; 0 = the flight is not yet at its minimum */
	__u32 cycle_stamp;		/* start of the phase of ProbeBW, us, wraps */
	__u32 full_bw;			/* bandwidth from which a quarter more would be growth */
	__u32 prior_cwnd;		/* window to return to after recovery or ProbeRTT, segments */
	__u32 policer_bw;		/* rate of the last sampling interval, or of the policer; 0 = none */
	__u32 policer_delivered;	/* at the start of the sampling interval: segments delivered, lost, and time in ms */
	__u32 policer_lost;
	__u32 policer_ms;
	__u32 ack_epoch_us;		/* start of the epoch of aggregated ACKs, us, wraps */
	__u32 ack_epoch_acked;		/* segments acknowledged in it */
	__u16 extra_acked;		/* most segments beyond the bandwidth in the present five rounds */
	__u16 extra_acked_before;	/* and in the five before */
	__u8  state;			/* enum bbr_state */
	__u8  cycle_index;		/* of ProbeBW, 0 to 7 */
	__u8  prior_ca_state;		/* enum pp_ca_state at the last ACK */
	__u8  full_bw_count;		/* rounds without growth, up to 3 */
	__u8  extra_acked_rounds;	/* rounds of the present half */
	__u8  policer_rounds;		/* rounds of the sampling interval, or of using the policer's rate */
	__u8  bw_kept;			/* values in bw, 0 to 3 */
	__u8  round_start : 1;		/* this ACK began a round */
	__u8  filled_pipe : 1;		/* the pipe was filled: Startup is over */
	__u8  packet_conservation : 1;	/* first round of recovery: as many segments leave as arrive */
	__u8  has_seen_rtt : 1;		/* the pacing rate rests on an RTT sample */
	__u8  idle_restart : 1;		/* sending again after idle, nothing of it acknowledged yet */
	__u8  probe_rtt_round_done : 1;	/* a round has passed at the minimum of ProbeRTT */
	__u8  sampling : 1;		/* between two losses that may show a policer */
	__u8  policed : 1;		/* policer_bw is the rate to use */
};

PP_INLINE __u32 bbr_delivered_us(const struct pp_flow *f)
{
	return (__u32)(f->delivered_ns / 1000);
}

/* The bandwidth to send at. */
PP_INLINE __u32 bbr_bw(const struct bbr_model *m)
{
	return m->policed ? m->policer_bw : m->bw[0];
}

/* Takes the oldest of the kept bandwidths away. */
PP_INLINE void bbr_drop_oldest(struct bbr_model *m)
{
	m->bw[0] = m->bw[1];
	m->bw[1] = m->bw[2];
	m->bw_round[0] = m->bw_round[1];
	m->bw_round[1] = m->bw_round[2];
	m->bw_kept--;
}

/*
 * 4.1.1.3: the largest value of the last ten rounds. A window's exact maximum needs all values that
 * nothing newer exceeds; here at most three of them are kept, newest last and so smallest last,
 * which is Nichols's idea. A value that leaves the window, or that a newer one reaches, makes room.
 * While there is room otherwise, a smaller value is taken only when the largest has had a quarter
 * (for the second) or half (for the third) of the window, and in a later round than the one before
 * it: its successor then is younger by as much.
 */
PP_INLINE void bbr_note_bw(struct bbr_model *m, __u32 bw)
{
	__u32 kept = m->bw_kept, larger, i;

	for (i = 0; i < 3; i++)
		if (m->bw_kept && (__u16)(m->round_count - m->bw_round[0]) > BBR_BW_ROUNDS)
			bbr_drop_oldest(m);
	larger = (m->bw_kept > 0 && m->bw[0] > bw) + (m->bw_kept > 1 && m->bw[1] > bw) + (m->bw_kept > 2 && m->bw[2] > bw);
	if (larger && larger == kept &&
	    (larger == 3 || m->bw_round[larger - 1] == m->round_count || (__u16)(m->round_count - m->bw_round[0]) * 4U <= larger * BBR_BW_ROUNDS))
		return;
	if (larger == 0) {
		m->bw[0] = bw;
		m->bw_round[0] = m->round_count;
	} else if (larger == 1) {
		m->bw[1] = bw;
		m->bw_round[1] = m->round_count;
	} else {
		m->bw[2] = bw;
		m->bw_round[2] = m->round_count;
	}
	m->bw_kept = (__u8)(larger + 1);
}

/* Bandwidth to byte/s, with a gain and the margin. The product before the last shift holds for
 * gain * rate below 2^44 bytes/us * 2^-24: some 2 Tbit/s. */
PP_INLINE __u64 bbr_pacing_rate(const struct pp_flow *f, __u64 bw, __u32 gain)
{
	__u64 rate = (bw * f->mss * gain >> BBR_GAIN_SHIFT) * (10000 * (100 - BBR_MARGIN_PERCENT)) >> BBR_BW_SHIFT;

	return pp_min64(rate, f->max_pacing_rate);
}

/*
 * BBRInitPacingRate, 4.2.1: before there is a bandwidth, the window a round trip (or a
 * millisecond).
 */
PP_INLINE void bbr_init_pacing_rate(struct bbr_model *m, struct pp_flow *f)
{
	__u32 rtt_us = 1000;

	if (f->srtt_us) {
		rtt_us = pp_max_branchless(f->srtt_us >> 3, 1);
		m->has_seen_rtt = 1;
	}
	f->pacing_rate = bbr_pacing_rate(f, ((__u64)f->cwnd << BBR_BW_SHIFT) / rtt_us, BBR_HIGH_GAIN);
}

/*
 * BBRSetPacingRateWithGain, 4.2.1: until the pipe is full the rate only rises, so that a bandwidth
 * of a few segments does not slow Startup down.
 */
PP_INLINE void bbr_set_pacing_rate(struct bbr_model *m, struct pp_flow *f, __u32 bw, __u32 gain)
{
	__u64 rate = bbr_pacing_rate(f, bw, gain);

	if (!m->has_seen_rtt && f->srtt_us)
		bbr_init_pacing_rate(m, f);
	if (m->filled_pipe || rate > f->pacing_rate)
		f->pacing_rate = rate;
}

PP_INLINE __u32 bbr_least_burst(const struct pp_flow *f)
{
	return f->pacing_rate < BBR_SLOW_RATE ? 1 : 2;
}

/* BBRSetSendQuantum, 4.2.2: segments that leave as one burst. */
PP_INLINE __u32 bbr_send_quantum(const struct pp_flow *f)
{
	__u32 bytes = (__u32)pp_min64(f->pacing_rate >> BBR_BURST_SHIFT, BBR_BURST_BYTES);

	return pp_min_branchless(pp_max_branchless(bytes / pp_max_branchless(f->mss, 1), bbr_least_burst(f)), 127);
}

/* 4.2.3.2: bandwidth times least RTT times a gain, rounded up, segments. */
PP_INLINE __u32 bbr_bdp(const struct bbr_model *m, __u32 bw, __u32 gain)
{
	if (m->min_rtt_us == ~0U)
		return BBR_INIT_CWND;
	return (__u32)((((__u64)bw * m->min_rtt_us * gain >> BBR_GAIN_SHIFT) + BBR_BW_ONE - 1) >> BBR_BW_SHIFT);
}

/* 4.2.3.2: room for the bursts that sender and receiver hold, an even number for delayed ACKs,
 * and two more while probing, for small BDPs. */
PP_INLINE __u32 bbr_quantization_budget(const struct bbr_model *m, const struct pp_flow *f, __u32 window)
{
	window = (window + 3 * bbr_send_quantum(f) + 1) & ~1U;
	return m->state == BBR_PROBE_BW && m->cycle_index == 0 ? window + 2 : window;
}

/* BBRInflight. */
PP_INLINE __u32 bbr_inflight(const struct bbr_model *m, const struct pp_flow *f, __u32 bw, __u32 gain)
{
	return bbr_quantization_budget(m, f, bbr_bdp(m, bw, gain));
}

PP_INLINE __u32 bbr_pacing_gain(const struct bbr_model *m)
{
	if (m->state == BBR_STARTUP)
		return BBR_HIGH_GAIN;
	if (m->state == BBR_DRAIN)
		return BBR_DRAIN_GAIN;
	if (m->state == BBR_PROBE_RTT || m->policed || m->cycle_index > 1)
		return BBR_GAIN_ONE;
	return m->cycle_index ? BBR_YIELD_GAIN : BBR_PROBE_GAIN;
}

PP_INLINE __u32 bbr_cwnd_gain(const struct bbr_model *m)
{
	if (m->state == BBR_PROBE_BW)
		return BBR_CWND_GAIN;
	return m->state == BBR_PROBE_RTT ? BBR_GAIN_ONE : BBR_HIGH_GAIN;
}

/*
 * How much will be in the network when the next segment may leave. While it waits for that, what is
 * there now drains at the bandwidth; if probing, the burst that then leaves comes on top.
 */
PP_INLINE __u32 bbr_inflight_at_send(const struct bbr_model *m, const struct pp_flow *f, __u32 inflight)
{
	__u64 wait_us = f->next_send_ns > f->now_ns ? (f->next_send_ns - f->now_ns) / 1000 : 0;
	__u64 drained = bbr_bw(m) * wait_us >> BBR_BW_SHIFT;

	if (bbr_pacing_gain(m) > BBR_GAIN_ONE)
		inflight += bbr_send_quantum(f);
	return drained < inflight ? inflight - (__u32)drained : 0;
}

/* BBRSaveCwnd: the window of before recovery or ProbeRTT is the one to return to. */
PP_INLINE void bbr_save_cwnd(struct bbr_model *m, const struct pp_flow *f)
{
	int reduced = m->prior_ca_state >= PP_CA_RECOVERY || m->state == BBR_PROBE_RTT;

	m->prior_cwnd = reduced ? pp_max_branchless(m->prior_cwnd, f->cwnd) : f->cwnd;
}

/*
 * BBREnterProbeBW, 4.3.4.2: flows begin at a random phase, so that they do not probe together; not
 * at the one that yields, for which there was no reason yet.
 */
PP_INLINE void bbr_enter_probe_bw(struct bbr_model *m, const struct pp_flow *f)
{
	m->state = BBR_PROBE_BW;
	m->cycle_index = (BBR_CYCLE_LEN - (__u32)(((__u64)f->random * (BBR_CYCLE_LEN - 1)) >> 32)) & (BBR_CYCLE_LEN - 1);
	m->cycle_stamp = bbr_delivered_us(f);
}

/* BBRExitProbeRTT. */
PP_INLINE void bbr_exit_probe_rtt(struct bbr_model *m, struct pp_flow *f)
{
	__u32 now = pp_tick(f->now_ns);

	if (!m->probe_rtt_done_stamp || !pp_after(now, m->probe_rtt_done_stamp))
		return;
	m->min_rtt_stamp = now;
	f->cwnd = pp_max_branchless(f->cwnd, m->prior_cwnd);
	if (m->filled_pipe)
		bbr_enter_probe_bw(m, f);
	else
		m->state = BBR_STARTUP;
}

PP_INLINE void bbr_begin_interval(struct bbr_model *m, const struct pp_flow *f)
{
	m->policer_ms = (__u32)(f->delivered_ns / 1000000);
	m->policer_delivered = f->delivered;
	m->policer_lost = f->lost;
	m->policer_rounds = 0;
}

PP_INLINE void bbr_forget_policer(struct bbr_model *m, const struct pp_flow *f)
{
	m->policer_bw = 0;
	m->policed = 0;
	m->sampling = 0;
	bbr_begin_interval(m, f);
}

/* A sampling interval ended with many losses: two such rates that are alike are a policer's. */
PP_INLINE void bbr_judge_policer(struct bbr_model *m, const struct pp_flow *f, __u32 bw)
{
	__u32 apart = bw > m->policer_bw ? bw - m->policer_bw : m->policer_bw - bw;

	if (m->policer_bw && (((__u64)apart << BBR_GAIN_SHIFT) <= (__u64)BBR_POLICER_RATIO * m->policer_bw ||
			      bbr_pacing_rate(f, apart, BBR_GAIN_ONE) <= BBR_POLICER_NEAR)) {
		m->policer_bw = (__u32)(((__u64)bw + m->policer_bw) >> 1);
		m->policed = 1;
		m->policer_rounds = 0;
		return;
	}
	m->policer_bw = bw;
	bbr_begin_interval(m, f);
}

/*
 * Token-bucket policers let bursts through and then drop what exceeds their rate, so the largest
 * delivery rate is far above what they let through for long. Two intervals in a row, each of 4 to
 * 16 rounds from a loss to a loss, with a fifth or more lost and like rates, show one; for 48
 * rounds the flow keeps to that rate.
 */
PP_INLINE void bbr_watch_policer(struct bbr_model *m, const struct pp_flow *f, __s32 losses, int app_limited)
{
	__u32 delivered, lost, ms;

	if (m->policed) {
		if (m->state == BBR_PROBE_BW && m->round_start && ++m->policer_rounds >= BBR_POLICER_USE_ROUNDS) {
			bbr_forget_policer(m, f);
			bbr_enter_probe_bw(m, f);
		}
		return;
	}
	if (!m->sampling) {
		if (losses <= 0)
			return;
		bbr_begin_interval(m, f);
		m->sampling = 1;
	}
	if (app_limited) {
		bbr_forget_policer(m, f);
		return;
	}
	if (m->round_start)
		m->policer_rounds++;
	if (m->policer_rounds < BBR_POLICER_ROUNDS_MIN)
		return;
	if (m->policer_rounds > BBR_POLICER_ROUNDS_MAX) {
		bbr_forget_policer(m, f);
		return;
	}
	if (losses <= 0)
		return;
	delivered = f->delivered - m->policer_delivered;
	lost = f->lost - m->policer_lost;
	if (!delivered || ((__u64)lost << BBR_GAIN_SHIFT) < (__u64)BBR_POLICER_LOSS * delivered)
		return;
	ms = (__u32)(f->delivered_ns / 1000000) - m->policer_ms;
	/* A negative span, or more than half an hour: nothing to reckon with. */
	if (!ms)
		return;
	if (ms >= 1U << 21) {
		bbr_forget_policer(m, f);
		return;
	}
	bbr_judge_policer(m, f, (__u32)pp_min64(((__u64)delivered << BBR_BW_SHIFT) / (ms * 1000), ~0U));
}

/*
 * BBRUpdateRound and BBRUpdateBtlBw, 4.1.1: rounds, and the bandwidth as the largest delivery rate.
 */
PP_INLINE void bbr_update_bw(struct bbr_model *m, const struct pp_flow *f, const struct pp_sample *s)
{
	__u32 bw;

	m->round_start = 0;
	if (s->delivered < 0 || s->interval_us <= 0)
		return;
	if (!pp_after(m->next_round_delivered, s->prior_delivered)) {
		m->next_round_delivered = f->delivered;
		m->round_count++;
		m->round_start = 1;
		m->packet_conservation = 0;
	}
	bbr_watch_policer(m, f, s->losses, s->is_app_limited);
	bw = (__u32)pp_min64(((__u64)(__u32)s->delivered << BBR_BW_SHIFT) / (__u64)s->interval_us, ~0U);
	/* An application that had nothing to send says nothing about the path, unless it was faster
	 * still. */
	if (!s->is_app_limited || bw >= m->bw[0])
		bbr_note_bw(m, bw);
}

/* How many more segments than the bandwidth allows are acknowledged at a time: radio and cable
 * links hold ACKs back and deliver them in lumps. */
PP_INLINE void bbr_update_ack_aggregation(struct bbr_model *m, const struct pp_flow *f, const struct pp_sample *s)
{
	__u32 now = bbr_delivered_us(f), excess;
	__u64 expected;

	if (!s->acked_sacked || s->delivered < 0 || s->interval_us <= 0)
		return;
	if (m->round_start && ++m->extra_acked_rounds >= BBR_EXTRA_ACKED_ROUNDS) {
		m->extra_acked_rounds = 0;
		m->extra_acked_before = m->extra_acked;
		m->extra_acked = 0;
	}
	expected = (__u64)bbr_bw(m) * (now - m->ack_epoch_us) >> BBR_BW_SHIFT;
	if (m->ack_epoch_acked <= expected || m->ack_epoch_acked + s->acked_sacked > BBR_EXTRA_ACKED_SEGMENTS) {
		m->ack_epoch_acked = 0;
		m->ack_epoch_us = now;
		expected = 0;
	}
	m->ack_epoch_acked = pp_min_branchless(m->ack_epoch_acked + s->acked_sacked, BBR_EXTRA_ACKED_SEGMENTS);
	excess = pp_min_branchless(pp_min_branchless(m->ack_epoch_acked - (__u32)expected, f->cwnd), 0xffff);
	m->extra_acked = (__u16)pp_max_branchless(m->extra_acked, excess);
}

/*
 * BBRCheckCyclePhase, 4.3.4.3: a phase lasts one least RTT; probing goes on until the flight is
 * that much larger (or losses say it does not fit), yielding ends once it fits.
 */
PP_INLINE void bbr_check_cycle_phase(struct bbr_model *m, const struct pp_flow *f, const struct pp_sample *s)
{
	__u32 gain = bbr_pacing_gain(m), now = bbr_delivered_us(f), inflight;
	int next;

	if (m->state != BBR_PROBE_BW)
		return;
	next = now - m->cycle_stamp > m->min_rtt_us;
	if (gain != BBR_GAIN_ONE) {
		inflight = bbr_inflight_at_send(m, f, s->prior_in_flight);
		if (gain > BBR_GAIN_ONE)
			next = next && (s->losses > 0 || inflight >= bbr_inflight(m, f, m->bw[0], gain));
		else
			next = next || inflight <= bbr_inflight(m, f, m->bw[0], BBR_GAIN_ONE);
	}
	if (next) {
		m->cycle_index = (m->cycle_index + 1) & (BBR_CYCLE_LEN - 1);
		m->cycle_stamp = now;
	}
}

/* BBRCheckFullPipe, 4.3.2.2 */
PP_INLINE void bbr_check_full_pipe(struct bbr_model *m, const struct pp_sample *s)
{
	if (m->filled_pipe || !m->round_start || s->is_app_limited)
		return;
	if (m->bw[0] >= (__u64)m->full_bw * BBR_FULL_GAIN >> BBR_GAIN_SHIFT) {
		m->full_bw = m->bw[0];
		m->full_bw_count = 0;
		return;
	}
	m->full_bw_count++;
	m->filled_pipe = m->full_bw_count >= BBR_FULL_ROUNDS;
}

/* BBRCheckDrain, 4.3.3 */
PP_INLINE void bbr_check_drain(struct bbr_model *m, struct pp_flow *f)
{
	if (m->state == BBR_STARTUP && m->filled_pipe) {
		m->state = BBR_DRAIN;
		f->ssthresh = bbr_inflight(m, f, m->bw[0], BBR_GAIN_ONE);
	}
	if (m->state == BBR_DRAIN && bbr_inflight_at_send(m, f, f->in_flight) <= bbr_inflight(m, f, m->bw[0], BBR_GAIN_ONE))
		bbr_enter_probe_bw(m, f);
}

/*
 * BBRUpdateRTprop and BBRCheckProbeRTT, 4.1.2 and 4.3.5: the least RTT; once it is ten seconds old,
 * the window shrinks until the path shows its bare RTT.
 */
PP_INLINE void bbr_update_min_rtt(struct bbr_model *m, struct pp_flow *f, const struct pp_sample *s)
{
	__u32 now = pp_tick(f->now_ns);
	int expired = pp_after(now, m->min_rtt_stamp + BBR_MIN_RTT_TICKS);

	if (s->rtt_us >= 0 && (s->rtt_us < m->min_rtt_us || (expired && !s->is_ack_delayed))) {
		m->min_rtt_us = (__u32)s->rtt_us;
		m->min_rtt_stamp = now;
	}
	if (expired && !m->idle_restart && m->state != BBR_PROBE_RTT) {
		m->state = BBR_PROBE_RTT;
		bbr_save_cwnd(m, f);
		m->probe_rtt_done_stamp = 0;
	}
	if (m->state == BBR_PROBE_RTT) {
		/* The rates of a window this small are none of the path's. */
		f->app_limited = pp_max_branchless(f->delivered + f->in_flight, 1);
		if (!m->probe_rtt_done_stamp && f->in_flight <= BBR_MIN_CWND) {
			m->probe_rtt_done_stamp = pp_max_branchless(now + BBR_PROBE_RTT_TICKS, 1);
			m->probe_rtt_round_done = 0;
			m->next_round_delivered = f->delivered;
		} else if (m->probe_rtt_done_stamp) {
			if (m->round_start)
				m->probe_rtt_round_done = 1;
			if (m->probe_rtt_round_done)
				bbr_exit_probe_rtt(m, f);
		}
	}
	if (s->delivered > 0)
		m->idle_restart = 0;
}

/*
 * BBRUpdateModelAndState: model and mode from one ACK; the caller sets rate and window from them.
 */
PP_INLINE void bbr_update_model(struct bbr_model *m, struct pp_flow *f, const struct pp_sample *s)
{
	bbr_update_bw(m, f, s);
	bbr_update_ack_aggregation(m, f, s);
	bbr_check_cycle_phase(m, f, s);
	bbr_check_full_pipe(m, s);
	bbr_check_drain(m, f);
	bbr_update_min_rtt(m, f, s);
}

/*
 * BBRModulateCwndForRecovery, 4.2.3.4: what recovery does to the window. Returns the window;
 * `m->packet_conservation` says that the target does not count.
 */
PP_INLINE __u32 bbr_modulate_cwnd_for_recovery(struct bbr_model *m, const struct pp_flow *f, const struct pp_sample *s)
{
	__u32 cwnd = f->cwnd, state = f->ca_state, prior = m->prior_ca_state;

	if (s->losses > 0)
		cwnd = cwnd > (__u32)s->losses ? cwnd - (__u32)s->losses : 1;
	if (state == PP_CA_RECOVERY && prior != PP_CA_RECOVERY) {
		m->packet_conservation = 1;
		m->next_round_delivered = f->delivered;
		cwnd = f->in_flight + s->acked_sacked;
	} else if (prior >= PP_CA_RECOVERY && state < PP_CA_RECOVERY) {
		cwnd = pp_max_branchless(cwnd, m->prior_cwnd);
		m->packet_conservation = 0;
	}
	m->prior_ca_state = (__u8)state;
	return m->packet_conservation ? pp_max_branchless(cwnd, f->in_flight + s->acked_sacked) : cwnd;
}

/* BBRSetCwnd, 4.2.3: the window follows its target, by no more than what each ACK acknowledges. */
PP_INLINE void bbr_set_cwnd(struct bbr_model *m, struct pp_flow *f, const struct pp_sample *s, __u32 bw)
{
	__u32 cwnd = f->cwnd, target;

	if (s->acked_sacked) {
		cwnd = bbr_modulate_cwnd_for_recovery(m, f, s);
		if (!m->packet_conservation) {
			target = bbr_bdp(m, bw, bbr_cwnd_gain(m));
			if (m->filled_pipe)
				target += (__u32)pp_min64(pp_max_branchless(m->extra_acked, m->extra_acked_before), (__u64)bw * BBR_EXTRA_ACKED_US >> BBR_BW_SHIFT);
			target = bbr_quantization_budget(m, f, target);
			if (m->filled_pipe)
				cwnd = pp_min_branchless(cwnd + s->acked_sacked, target);
			else if (cwnd < target || f->delivered < BBR_INIT_CWND)
				cwnd += s->acked_sacked;
			cwnd = pp_max_branchless(cwnd, BBR_MIN_CWND);
		}
	}
	cwnd = pp_min_branchless(cwnd, f->cwnd_clamp);
	f->cwnd = m->state == BBR_PROBE_RTT ? pp_min_branchless(cwnd, BBR_MIN_CWND) : cwnd;
}

/* BBRInit. */
PP_INLINE void bbr_model_init(struct bbr_model *m, struct pp_flow *f)
{
	*m = (struct bbr_model){ 0 };
	f->ssthresh = PP_SSTHRESH_INFINITE;
	m->next_round_delivered = f->delivered;
	m->min_rtt_us = f->min_rtt_us;
	m->min_rtt_stamp = pp_tick(f->now_ns);
	m->ack_epoch_us = (__u32)(f->now_ns / 1000);
	bbr_init_pacing_rate(m, f);
	bbr_forget_policer(m, f);
	f->pacing = 1;
}

/*
 * BBRHandleRestartFromIdle, 4.3.4.4: what an application sends after a pause leaves at the
 * bandwidth: there is no reason to probe.
 */
PP_INLINE void bbr_handle_restart_from_idle(struct bbr_model *m, struct pp_flow *f)
{
	m->idle_restart = 1;
	m->ack_epoch_us = (__u32)(f->now_ns / 1000);
	m->ack_epoch_acked = 0;
	if (m->state == BBR_PROBE_BW)
		bbr_set_pacing_rate(m, f, bbr_bw(m), BBR_GAIN_ONE);
	else if (m->state == BBR_PROBE_RTT)
		bbr_exit_probe_rtt(m, f);
}

/* A reduction was spurious: so may have been what it said of the pipe and of a policer. */
PP_INLINE void bbr_undo(struct bbr_model *m, const struct pp_flow *f)
{
	m->full_bw = 0;
	m->full_bw_count = 0;
	bbr_forget_policer(m, f);
}

/* A retransmission timeout ends the round, and the pipe may be a different one. */
PP_INLINE void bbr_timed_out(struct bbr_model *m, const struct pp_flow *f)
{
	m->prior_ca_state = PP_CA_LOSS;
	m->full_bw = 0;
	m->round_start = 1;
	bbr_watch_policer(m, f, 1, 0);
}

#endif
