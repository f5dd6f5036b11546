/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * wVegas, weighted Vegas.
 *
 * Idea. Vegas keeps alpha segments queued on its path. wVegas divides one total alpha over the
 * subflows in proportion to the rates that they reach: a subflow on a congested path reaches less,
 * so it gets less to queue and yields further, until all paths show the same congestion. Now and
 * then a subflow drains the queue that it made, so that the others see the true minimum RTT.
 *
 * Source. Y. Cao, M. Xu, X. Fu: "Delay-based congestion control for multipath TCP", ICNP 2012;
 * draft-xu-mptcp-congestion-control-05. Once a round trip, with base the least RTT seen and rtt the
 * mean of the round's:
 *
 *	diff = (cwnd / base - cwnd / rtt) * base = cwnd * (rtt - base) / rtt
 *	in slow start: leave it if diff > gamma
 *	else:	if diff >= alpha: x = cwnd / rtt, weight = x / (sum of all subflows' x), alpha = weight * total_alpha
 *		if diff < alpha: cwnd + 1; if diff > alpha: cwnd - 1
 *		if rtt - base >= 2 * (its least value since the last draining): cwnd * base / (2 rtt), forget the least value
 *
 * so x is that of the last equilibrium, and a subflow that has not reached one yet counts as 0.
 *
 * The paper does not say what happens after losses and pauses. Here as in Linux's Vegas: Reno until
 * the sender is Open again; then share, alpha and the least queue begin anew, and after a pause the
 * least RTT too, since the path may have changed. That this is so in MPTCP 0.96 is told by its
 * published sources, which were read for this fact; there only a window that shrank while idle
 * counts as a pause. The measured rows that it moves are two: beside one reno flow two subflows get
 * 2.0 and 2.4 Mbit/s, as that kernel's 1.99 and 2.41; with what they had learnt kept, 1.6 and 2.8.
 * Rounds with two RTT samples or fewer are Reno's, and ssthresh is held at three quarters of the
 * window.
 *
 * Differences from the paper: alpha is at least 2 whole segments. Differences from MPTCP 0.96: none
 * known by design, but on a path of 2 ms with 1 % loss it gets 39 Mbit/s where this gets 28: it
 * drains its queue less often there.
 */
#include "pp_coupled.h"

/* Segments that all subflows together keep in queues. Raising it fills links better against
 * loss-based flows, and adds delay. */
#define WVEGAS_TOTAL_ALPHA 10
/* alpha before a subflow's first equilibrium, and its least value, segments. Raising it speeds
 * up small subflows and blunts the shift of traffic. */
#define WVEGAS_MIN_ALPHA 2
/* Segments queued at which slow start ends. Raising it fills the path sooner and overshoots
 * more. */
#define WVEGAS_GAMMA 1
/* A queue this many times the least one is drained. Raising it drains less often: better use of
 * the link, older minimum RTTs. */
#define WVEGAS_DRAIN_FACTOR 2
/* RTT samples that a round must have to be judged. */
#define WVEGAS_MIN_SAMPLES 2

struct wvegas_state {
	__u64 rate;		/* at the last equilibrium, bytes per 2^-17 us: what siblings read as priv_word; 0 = none yet */
	__u64 rtt_sum_us;	/* RTT samples of the round */
	__u32 samples;		/* their number */
	__u32 base_us;		/* least RTT; ~0 = none yet */
	__u32 least_queue_us;	/* least queueing delay since the last draining; ~0 = none yet */
	__u32 round_end;	/* sequence number that ends the round */
	__u32 alpha;		/* segments to keep queued */
	__u8  active;		/* whether delay is judged: not after losses and pauses until a round is complete */
};

PP_STATE_FITS(struct wvegas_state);

static void wvegas_begin_round(struct wvegas_state *s, const struct pp_flow *f)
{
	s->round_end = f->snd_nxt;
	s->rtt_sum_us = 0;
	s->samples = 0;
}

/* Begins to judge delay; what was learnt of the queue before is forgotten, but not the least
 * RTT. */
static void wvegas_enable(struct wvegas_state *s, const struct pp_flow *f)
{
	wvegas_begin_round(s, f);
	s->active = 1;
	s->rate = 0;
	s->alpha = WVEGAS_MIN_ALPHA;
	s->least_queue_us = ~0U;
}

/* This subflow's share of total alpha, from the rates of all subflows at their last equilibria
 * (below 2^50 each). */
static __u32 wvegas_share(const struct pp_ctx *c, __u64 own)
{
	__u64 sum = 0;
	__u32 i, n = pp_paths(c);

	for (i = 0; i < PP_MAX_SIBLINGS && i < n; i++) {
		if (pp_is_self(c, i))
			sum += own;
		else if (c->siblings->at[i].usable)
			sum += pp_min64(c->siblings->at[i].priv_word, 1ULL << 50);
	}
	return pp_max((__u32)pp_div(own * WVEGAS_TOTAL_ALPHA, sum), WVEGAS_MIN_ALPHA);
}

/* The end of a round with enough samples. */
static void wvegas_judge(struct pp_ctx *c, __u32 acked)
{
	struct wvegas_state *s = c->priv;
	struct pp_flow *f = c->flow;
	__u32 rtt_us = (__u32)pp_max64(s->rtt_sum_us / s->samples, s->base_us);
	__u32 queue_us = rtt_us - s->base_us;
	/* Windows below 2^32 segments, RTTs below 2^32 us. */
	__u32 diff = (__u32)((__u64)f->cwnd * queue_us / rtt_us);
	__u32 target = f->cwnd - diff;

	if (pp_in_slow_start(f)) {
		if (diff > WVEGAS_GAMMA) {
			f->cwnd = pp_min(f->cwnd, target + 1);
			f->ssthresh = pp_min(f->ssthresh, f->cwnd - 1);
		} else {
			pp_slow_start(f, acked);
		}
	} else {
		if (diff >= s->alpha) {
			s->rate = pp_rate(f->cwnd, f->mss, pp_min(rtt_us, ~0U >> 3) << 3);
			s->alpha = wvegas_share(c, s->rate);
		}
		if (diff > s->alpha) {
			f->cwnd--;
			f->ssthresh = pp_min(f->ssthresh, f->cwnd - 1);
		} else if (diff < s->alpha) {
			f->cwnd++;
		}
		s->least_queue_us = pp_min(s->least_queue_us, queue_us);
		if (queue_us >= WVEGAS_DRAIN_FACTOR * (__u64)s->least_queue_us && queue_us) {
			f->cwnd = (__u32)((__u64)f->cwnd * s->base_us / (2ULL * rtt_us));
			s->least_queue_us = ~0U;
		}
	}
	f->cwnd = pp_clamp(f->cwnd, 2, f->cwnd_clamp);
	/* Linux's tcp_current_ssthresh: a later slow start may return to three quarters of a window
	 * that was fine. */
	f->ssthresh = pp_max(f->ssthresh, (f->cwnd >> 1) + (f->cwnd >> 2));
}

static void wvegas_init(struct pp_ctx *c)
{
	struct wvegas_state *s = c->priv;

	s->base_us = ~0U;
	wvegas_enable(s, c->flow);
}

static __u32 wvegas_ssthresh(struct pp_ctx *c)
{
	return pp_half(c->flow);
}

static void wvegas_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	struct wvegas_state *s = c->priv;
	struct pp_flow *f = c->flow;

	if (!s->active) {
		pp_reno_cong_avoid(f, acked);
		return;
	}
	if (pp_after(ack, s->round_end)) {
		if (s->samples <= WVEGAS_MIN_SAMPLES)
			pp_reno_cong_avoid(f, acked);
		else
			wvegas_judge(c, acked);
		wvegas_begin_round(s, f);
	} else if (pp_in_slow_start(f)) {
		pp_slow_start(f, acked);
	}
}

static void wvegas_set_state(struct pp_ctx *c, __u32 new_state)
{
	struct wvegas_state *s = c->priv;

	if (new_state == PP_CA_OPEN)
		wvegas_enable(s, c->flow);
	else
		s->active = 0;
}

static void wvegas_cwnd_event(struct pp_ctx *c, __u32 event)
{
	if (event == PP_EVENT_CWND_RESTART || event == PP_EVENT_TX_START)
		wvegas_init(c);
}

static void wvegas_pkts_acked(struct pp_ctx *c, const struct pp_sample *sample)
{
	struct wvegas_state *s = c->priv;
	__u32 rtt_us;

	if (sample->rtt_us < 0)
		return;
	rtt_us = (__u32)sample->rtt_us + 1;
	s->base_us = pp_min(s->base_us, rtt_us);
	/* Below 2^64 for 2^32 samples of 2^32 us. */
	s->rtt_sum_us += rtt_us;
	s->samples++;
}

static __u32 wvegas_undo_cwnd(struct pp_ctx *c)
{
	return pp_undo(c->flow);
}

PP_CC_REGISTER(wvegas) = {
	.name = "wvegas",
	.flags = PP_CC_COUPLED,
	.priv_bytes = sizeof(struct wvegas_state),
	.init = wvegas_init,
	.ssthresh = wvegas_ssthresh,
	.cong_avoid = wvegas_cong_avoid,
	.set_state = wvegas_set_state,
	.cwnd_event = wvegas_cwnd_event,
	.pkts_acked = wvegas_pkts_acked,
	.undo_cwnd = wvegas_undo_cwnd,
};

PP_CC_ABOUT(wvegas) = {
	.family = PP_FAMILY_DELAY,
	.source = "Cao et al., ICNP 2012; draft-xu-mptcp-congestion-control-05",
};
