/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * C-MPBBR: coupled multipath BBR.
 *
 * Idea. Each subflow of a connection runs BBR, version 1 (cc/algs/bbr.c). Several of them through
 * one bottleneck would take several flows' shares of it. Subflows that share a bottleneck see like
 * bandwidths, so a subflow that finds n of its connection within 20 % of its own bandwidth, itself
 * included, sends at 1/n of it from then on, except while it probes and gives back what it probed
 * (the first two of the eight phases of a cycle): these keep the measured bandwidth up. Alone it is
 * BBR.
 *
 * Source. I. Mahmud, T. Lubna, Y.-J. Song, Y.-Z. Cho: "Coupled Multipath BBR (C-MPBBR): A Efficient
 * Congestion Control Algorithm for Multipath TCP", IEEE Access 8, 2020, DOI
 * 10.1109/ACCESS.2020.3022720. The paper itself was not at hand: this follows its abstract, others'
 * descriptions of it and the behaviour of the module that its authors published for MPTCP 0.93,
 * where the constants come from.
 *
 * What could not be known. How often the subflows are to be compared: here once a cycle, when its
 * fourth phase begins. How the judgement is smoothed: as their module does, one comparison that
 * finds others is not believed, and one that finds none after one that did is not either. Whether
 * like bandwidths of separate paths are told from a shared bottleneck: nothing known of it does, so
 * two separate paths of one rate are taken for one, and the connection then leaves half of each
 * unused between probings.
 *
 * Differences. The paper closes a subflow once the best one's bandwidth less 40 % has been above
 * the rate of all together in five comparisons in a row. An algorithm here cannot close a subflow,
 * and does not try.
 */
#include "pp_bbr.h"
#include "pp_coupled.h"

/* How near the bandwidths of subflows are that share a bottleneck: one part in this. Raising it
 * overlooks shared bottlenecks, lowering it finds some where there are none. */
#define CMPBBR_NEAR 5
/* The phase with which subflows are compared, the first after the two of probing that has seen
 * their outcome. */
#define CMPBBR_PHASE 3

struct cmpbbr_state {
	struct bbr_model bbr;	/* begins with the bandwidth, which is what siblings see of this subflow */
	__u8 alike;		/* subflows found within 20 % by the last comparison, this one included */
	__u8 sharing;		/* subflows that the bandwidth is divided by */
};

PP_STATE_FITS(struct cmpbbr_state);

/* The subflows whose bandwidth is within a fifth of this one's, itself included. */
PP_INLINE __u32 cmpbbr_count(const struct pp_ctx *c, __u32 own)
{
	__u32 i, count = 1, least = own - own / CMPBBR_NEAR, most = pp_min_branchless(own, ~0U - own / CMPBBR_NEAR) + own / CMPBBR_NEAR;

	if (!c->siblings)
		return 1;
	for (i = 0; i < PP_MAX_SIBLINGS; i++) {
		__u32 bw = (__u32)c->siblings->at[i].priv_word;

		if (i >= c->siblings->len)
			break;
		count += i != c->siblings->self && c->siblings->at[i].usable && bw && bw >= least && bw <= most;
	}
	return count;
}

/* One comparison counts only together with the one before it. */
PP_INLINE void cmpbbr_compare(const struct pp_ctx *c, struct cmpbbr_state *s)
{
	__u32 alike = cmpbbr_count(c, s->bbr.bw[0]), before = s->alike;

	s->sharing = 1;
	if (before > 1)
		s->sharing = (__u8)(alike > 1 ? alike : before);
	s->alike = (__u8)alike;
}

/* The bandwidth to send at. */
PP_INLINE __u32 cmpbbr_bw(const struct cmpbbr_state *s)
{
	__u32 bw = bbr_bw(&s->bbr);

	return s->bbr.state == BBR_PROBE_BW && s->bbr.cycle_index > 1 && s->sharing > 1 ? bw / s->sharing : bw;
}

static void cmpbbr_init(struct pp_ctx *c)
{
	struct cmpbbr_state *s = c->priv;

	*s = (struct cmpbbr_state){ 0 };
	bbr_model_init(&s->bbr, c->flow);
}

static __u32 cmpbbr_ssthresh(struct pp_ctx *c)
{
	struct cmpbbr_state *s = c->priv;

	bbr_save_cwnd(&s->bbr, c->flow);
	return c->flow->ssthresh;
}

static void cmpbbr_set_state(struct pp_ctx *c, __u32 new_state)
{
	struct cmpbbr_state *s = c->priv;

	if (new_state == PP_CA_LOSS)
		bbr_timed_out(&s->bbr, c->flow);
}

static void cmpbbr_cwnd_event(struct pp_ctx *c, __u32 event)
{
	struct cmpbbr_state *s = c->priv;

	if (event == PP_EVENT_TX_START && c->flow->app_limited)
		bbr_handle_restart_from_idle(&s->bbr, c->flow);
}

static __u32 cmpbbr_undo_cwnd(struct pp_ctx *c)
{
	struct cmpbbr_state *s = c->priv;

	bbr_undo(&s->bbr, c->flow);
	return c->flow->cwnd;
}

static void cmpbbr_cong_control(struct pp_ctx *c, __u32 ack, __u32 ack_flags, const struct pp_sample *sample)
{
	struct cmpbbr_state *s = c->priv;
	struct pp_flow *f = c->flow;
	__u32 phase = s->bbr.cycle_index, bw;

	(void)ack;
	(void)ack_flags;
	bbr_update_model(&s->bbr, f, sample);
	if (s->bbr.state == BBR_PROBE_BW && s->bbr.cycle_index == CMPBBR_PHASE && phase != CMPBBR_PHASE)
		cmpbbr_compare(c, s);
	bw = cmpbbr_bw(s);
	bbr_set_pacing_rate(&s->bbr, f, bw, bbr_pacing_gain(&s->bbr));
	bbr_set_cwnd(&s->bbr, f, sample, bw);
}

static __u32 cmpbbr_sndbuf_expand(struct pp_ctx *c)
{
	(void)c;
	return 3;
}

static __u32 cmpbbr_min_tso_segs(struct pp_ctx *c)
{
	return bbr_least_burst(c->flow);
}

PP_CC_REGISTER(cmpbbr) = {
	.name = "cmpbbr",
	.flags = PP_CC_COUPLED | PP_CC_PACES | PP_CC_SEES_SAMPLES | PP_CC_DRAWS,
	.priv_bytes = sizeof(struct cmpbbr_state),
	.init = cmpbbr_init,
	.ssthresh = cmpbbr_ssthresh,
	.set_state = cmpbbr_set_state,
	.cwnd_event = cmpbbr_cwnd_event,
	.undo_cwnd = cmpbbr_undo_cwnd,
	.cong_control = cmpbbr_cong_control,
	.sndbuf_expand = cmpbbr_sndbuf_expand,
	.min_tso_segs = cmpbbr_min_tso_segs,
};

PP_CC_ABOUT(cmpbbr) = {
	.family = PP_FAMILY_MODEL,
	.source = "Mahmud et al., IEEE Access 8, 2020 (C-MPBBR)",
	.aliases = "c-mpbbr mpbbr",
};
