/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * BBR, version 3: a model of the path that listens to losses too.
 *
 * Idea. As version 1 (cc/algs/bbr.c), and beside the largest rate and the least RTT the model has
 * bounds of what may be in flight, learnt from losses. The long-term bound is how much was in
 * flight when probing lost more than 2 %; it is raised again by probing. The short-term bounds, of
 * rate and of volume, follow losses outside of probing, by at most 30 % a round, and are forgotten
 * when the next probing begins. Probing is rarer, and in step with what Reno would need to grow by
 * the same:
 *
 * The machine is in cc/include/pp_bbr3.h; its modes:
 *
 *	Startup		pacing 2.77 times the rate until three rounds bring less than a quarter more, or a round of recovery lost more than 2 %
 *	Drain		half the rate until the queue of Startup is gone, at most three rounds
 *	Down		0.9 times the rate until the flight leaves room for others
 *	Cruise		the rate, for 2 to 3 s or as many rounds as segments fit into the path (at most 63) since the last probing
 *	Refill		the rate for a round, without the short-term bounds
 *	Up		1.25 times the rate, raising the long-term bound by 1, 2, 4, ... segments a round, until the rate no longer grows or losses show. A probing that
 *			follows a lossy one stops as soon as it reaches the bound; if all goes well the next begins at once
 *	ProbeRTT	every five seconds without a smaller RTT: half a BDP in flight for 200 ms and a round trip
 *
 * Source. N. Cardwell, I. Swett, J. Beshay: draft-ietf-ccwg-bbr-06 (July 2026), "BBR Congestion
 * Control". Section numbers are that draft's.
 *
 * Differences from the draft. A kernel's rate sample says of the segment that was delivered last
 * neither how much was in flight when it left nor what was lost since: the first is taken as what
 * was delivered meanwhile and what was lost, which is the same where nothing overtakes; the second
 * as what was lost in this round. Ranges of lost segments in Startup are counted as ACKs that
 * revealed losses. Undoing a spurious recovery takes the short-term bounds away if there were none
 * before, and else leaves them. How much is to be acknowledged for each segment by which Up raises
 * the bound follows the present window, not that at the start of the round. Bounds of
 * 65535 segments and more are none. An epoch of aggregated ACKs holds at most 65535 segments, and
 * the largest excess is that of 5 to 10 rounds. As in Linux's version 1, delayed ACKs do not renew
 * the least RTT, and times of seconds are counted in ticks. The draft says nothing of ECN, and so
 * nothing is done about it. No kernel release has this version; its authors' tree has an earlier
 * form of it.
 */
#include "pp_bbr3.h"

PP_STATE_FITS(struct bbr3_model);

/* 5.6.2 */
PP_INLINE void bbr3_set_pacing_rate(struct bbr3_model *m, struct pp_flow *f, __u32 gain)
{
	__u64 rate = bbr_pacing_rate(f, bbr3_bw(m), gain);

	if (m->full_bw_reached || rate > f->pacing_rate)
		f->pacing_rate = rate;
}

PP_INLINE void bbr3_init_pacing_rate(struct bbr3_model *m, struct pp_flow *f)
{
	__u32 rtt_us = f->srtt_us ? pp_max_branchless(f->srtt_us >> 3, 1) : 1000;

	m->has_seen_rtt = f->srtt_us != 0;
	f->pacing_rate = bbr_pacing_rate(f, ((__u64)f->cwnd << BBR_BW_SHIFT) / rtt_us, BBR3_STARTUP_GAIN);
}

/* 5.6.4.7 */
PP_INLINE __u32 bbr3_bound(const struct bbr3_model *m)
{
	__u32 bound = ~0U;

	if (m->state == BBR3_PROBE_RTT || m->state == BBR3_CRUISE)
		bound = bbr3_inflight_with_headroom(m);
	else if (bbr3_in_probe_bw(m) && m->inflight_longterm != BBR3_NONE)
		bound = m->inflight_longterm;
	if (m->inflight_shortterm != BBR3_NONE)
		bound = pp_min_branchless(bound, m->inflight_shortterm);
	return pp_max_branchless(bound, BBR_MIN_CWND);
}

/* 5.6.4.6 */
PP_INLINE void bbr3_set_cwnd(struct bbr3_model *m, struct pp_flow *f, __u32 acked)
{
	__u32 cwnd = f->cwnd, most, gain = m->state == BBR3_UP ? BBR3_UP_CWND_GAIN : BBR3_CWND_GAIN;

	if (m->prior_ca_state >= PP_CA_RECOVERY && f->ca_state < PP_CA_RECOVERY)
		cwnd = pp_max_branchless(cwnd, m->prior_cwnd);
	m->prior_ca_state = f->ca_state & 7;
	if (m->state == BBR3_PROBE_RTT)
		gain = BBR3_PROBE_RTT_GAIN;
	most = bbr3_quantization_budget(m, f, bbr3_bdp(m, bbr3_bw(m), gain) + pp_max_branchless(m->extra_acked, m->extra_acked_before));
	if (m->full_bw_reached)
		cwnd = pp_min_branchless(cwnd + acked, most);
	else if (cwnd < most || f->delivered < BBR_INIT_CWND)
		cwnd += acked;
	cwnd = pp_max_branchless(cwnd, BBR_MIN_CWND);
	if (m->state == BBR3_PROBE_RTT)
		cwnd = pp_min_branchless(cwnd, bbr3_probe_rtt_cwnd(m));
	f->cwnd = pp_min_branchless(pp_min_branchless(cwnd, bbr3_bound(m)), f->cwnd_clamp);
}

static void bbr3_init(struct pp_ctx *c)
{
	struct bbr3_model *m = c->priv;
	struct pp_flow *f = c->flow;
	__u32 now = pp_tick(f->now_ns);

	*m = (struct bbr3_model){ 0 };
	f->ssthresh = PP_SSTHRESH_INFINITE;
	m->min_rtt_us = m->probe_rtt_min_us = f->min_rtt_us;
	m->min_rtt_stamp = m->probe_rtt_min_stamp = now;
	m->next_round_delivered = m->loss_round_delivered = f->delivered;
	m->round_lost = (__u16)f->lost;
	m->ack_epoch_us = (__u32)(f->now_ns / 1000);
	m->inflight_longterm = m->undo_inflight_longterm = BBR3_NONE;
	bbr3_reset_short_term_model(m);
	bbr3_init_pacing_rate(m, f);
	f->pacing = 1;
}

static __u32 bbr3_ssthresh(struct pp_ctx *c)
{
	bbr3_save_cwnd(c->priv, c->flow);
	return c->flow->ssthresh;
}

/* 5.4.1 */
static void bbr3_cwnd_event(struct pp_ctx *c, __u32 event)
{
	struct bbr3_model *m = c->priv;
	struct pp_flow *f = c->flow;

	if (event != PP_EVENT_TX_START || !f->app_limited)
		return;
	m->idle_restart = 1;
	m->ack_epoch_us = (__u32)(f->now_ns / 1000);
	m->ack_epoch_acked = 0;
	if (bbr3_in_probe_bw(m))
		bbr3_set_pacing_rate(m, f, BBR_GAIN_ONE);
	else if (m->state == BBR3_PROBE_RTT)
		bbr3_exit_probe_rtt(m, f);
}

/* 5.5.11.2 */
static __u32 bbr3_undo_cwnd(struct pp_ctx *c)
{
	struct bbr3_model *m = c->priv;
	struct pp_flow *f = c->flow;

	m->loss_in_round = 0;
	bbr3_reset_full_bw(m, 0);
	if (m->unbounded)
		bbr3_reset_short_term_model(m);
	m->inflight_longterm = (__u16)pp_max_branchless(m->inflight_longterm, m->undo_inflight_longterm);
	if (m->undo_state == BBR3_UNDO_STARTUP && m->state != BBR3_STARTUP) {
		m->full_bw_reached = 0;
		if (m->state != BBR3_PROBE_RTT)
			m->state = BBR3_STARTUP;
	} else if (m->undo_state == BBR3_UNDO_UP && m->state != BBR3_UP && m->state != BBR3_PROBE_RTT) {
		bbr3_start_refill(m, f);
	}
	m->undo_state = BBR3_UNDO_NOTHING;
	return pp_max_branchless(f->cwnd, m->prior_cwnd);
}

static void bbr3_cong_control(struct pp_ctx *c, __u32 ack, __u32 ack_flags, const struct pp_sample *s)
{
	struct bbr3_model *m = c->priv;
	struct pp_flow *f = c->flow;

	(void)ack;
	(void)ack_flags;
	if (s->delivered >= 0 && s->interval_us > 0)
		bbr3_update_model(m, f, s);
	if (!m->has_seen_rtt && f->srtt_us)
		bbr3_init_pacing_rate(m, f);
	bbr3_set_pacing_rate(m, f, bbr3_pacing_gain(m));
	if (s->acked_sacked)
		bbr3_set_cwnd(m, f, s->acked_sacked);
}

static __u32 bbr3_sndbuf_expand(struct pp_ctx *c)
{
	(void)c;
	return 3;
}

PP_CC_REGISTER(bbr3) = {
	.name = "bbr3",
	.flags = PP_CC_PACES | PP_CC_SEES_SAMPLES | PP_CC_DRAWS,
	.priv_bytes = sizeof(struct bbr3_model),
	.init = bbr3_init,
	.ssthresh = bbr3_ssthresh,
	.cwnd_event = bbr3_cwnd_event,
	.undo_cwnd = bbr3_undo_cwnd,
	.cong_control = bbr3_cong_control,
	.sndbuf_expand = bbr3_sndbuf_expand,
};

PP_CC_ABOUT(bbr3) = {
	.family = PP_FAMILY_MODEL,
	.source = "draft-ietf-ccwg-bbr-06 (Cardwell, Swett, Beshay)",
	.aliases = "bbrv3",
};
