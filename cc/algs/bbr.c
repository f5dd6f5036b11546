/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * BBR, version 1: congestion control by a model of the path.
 *
 * Idea. A path is described by its bottleneck's rate and by its bare round-trip time; their
 * product, the BDP, is what fits into it without a queue. BBR measures both: the rate as the
 * largest delivery rate of the last ten round trips, the time as the least RTT of the last ten
 * seconds. It paces at the rate and keeps at most two BDPs in the network. Losses do not enter the
 * model, so random losses do not slow it down, and a queue that others keep full does not either:
 * against loss-based flows it takes more than its share where queues are short. Neither can be seen
 * at the same time as the other, so the flow moves between four states (cc/include/pp_bbr.h has the
 * machine):
 *
 *	Startup		pacing 2.89 times the rate, doubling it each round, until three rounds bring less than a quarter more
 *	Drain		the inverse, until the queue of Startup is gone
 *	ProbeBW		cycles of eight phases of one RTT: 1.25, 0.75, then six times 1; each flow begins at a random phase
 *	ProbeRTT	after ten seconds without a smaller RTT: four segments in flight for 200 ms and a round trip
 *
 * Source. N. Cardwell, Y. Cheng, C. S. Gunn, S. Hassas Yeganeh, V. Jacobson: "BBR: Congestion-Based
 * Congestion Control", ACM Queue 14(5), 2016; draft-cardwell-iccrg-bbr-congestion-control-00
 * (2017); delivery rates by draft-cheng-iccrg-delivery-rate-estimation-00. What the draft lacks and
 * Linux has: the margin of 1 % of the pacing rate, aggregated ACKs (both in -02 of the draft), and
 * policers (described in T. Flach et al.: "An Internet-Wide Analysis of Traffic Policing", SIGCOMM
 * 2016, and in the authors' talks at IETF 97 and 101).
 *
 * Differences from the draft, all as in Linux: the filter of the bandwidth keeps three values; the
 * flight that ends Drain and a phase is that of the moment at which pacing lets the next segment
 * leave; a retransmission timeout shrinks the window as the transport does, and starts over the
 * search for a full pipe. As Linux it counts the ten seconds and the 200 ms in ticks. Differences
 * from Linux: a bandwidth beyond 256 segments/us saturates; the filter keeps values by a rule of
 * its own, which gave another maximum than Linux's for at most one sample in 900 of random ones,
 * and there more often the true one (specs/notes/bbr).
 */
#include "pp_bbr.h"

PP_STATE_FITS(struct bbr_model);

static void bbr_init(struct pp_ctx *c)
{
	bbr_model_init(c->priv, c->flow);
}

static __u32 bbr_ssthresh(struct pp_ctx *c)
{
	bbr_save_cwnd(c->priv, c->flow);
	return c->flow->ssthresh;
}

static void bbr_set_state(struct pp_ctx *c, __u32 new_state)
{
	if (new_state == PP_CA_LOSS)
		bbr_timed_out(c->priv, c->flow);
}

static void bbr_cwnd_event(struct pp_ctx *c, __u32 event)
{
	if (event == PP_EVENT_TX_START && c->flow->app_limited)
		bbr_handle_restart_from_idle(c->priv, c->flow);
}

/* The window returns by itself when recovery ends. */
static __u32 bbr_undo_cwnd(struct pp_ctx *c)
{
	bbr_undo(c->priv, c->flow);
	return c->flow->cwnd;
}

static void bbr_cong_control(struct pp_ctx *c, __u32 ack, __u32 ack_flags, const struct pp_sample *s)
{
	struct bbr_model *m = c->priv;
	struct pp_flow *f = c->flow;

	(void)ack;
	(void)ack_flags;
	bbr_update_model(m, f, s);
	bbr_set_pacing_rate(m, f, bbr_bw(m), bbr_pacing_gain(m));
	bbr_set_cwnd(m, f, s, bbr_bw(m));
}

/* Recovery needs room for what is sent meanwhile: three windows instead of two. */
static __u32 bbr_sndbuf_expand(struct pp_ctx *c)
{
	(void)c;
	return 3;
}

static __u32 bbr_min_tso_segs(struct pp_ctx *c)
{
	return bbr_least_burst(c->flow);
}

PP_CC_REGISTER(bbr) = {
	.name = "bbr",
	.flags = PP_CC_PACES | PP_CC_SEES_SAMPLES | PP_CC_DRAWS,
	.priv_bytes = sizeof(struct bbr_model),
	.init = bbr_init,
	.ssthresh = bbr_ssthresh,
	.set_state = bbr_set_state,
	.cwnd_event = bbr_cwnd_event,
	.undo_cwnd = bbr_undo_cwnd,
	.cong_control = bbr_cong_control,
	.sndbuf_expand = bbr_sndbuf_expand,
	.min_tso_segs = bbr_min_tso_segs,
};

PP_CC_ABOUT(bbr) = {
	.family = PP_FAMILY_MODEL,
	.source = "Cardwell et al., ACM Queue 14(5), 2016; draft-cardwell-iccrg-bbr-congestion-control-00",
	.counterpart = "bbr",
	.aliases = "bbr1 bbrv1",
};
