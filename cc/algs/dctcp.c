/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * DCTCP, Data Center TCP.
 *
 * Idea. Where switches mark packets as soon as their queue exceeds a few, a mark says that there is
 * a queue, not that there is congestion as grave as a loss. The share of marked packets says how
 * much: alpha follows it, and once a round trip with marks the window loses alpha / 2 of itself.
 * Queues stay short, and links full.
 *
 * Source. RFC 8257; M. Alizadeh et al.: "Data Center TCP (DCTCP)", SIGCOMM 2010.
 *
 *	alpha = (1 - g) alpha + g M, once a round trip, M = marked / delivered in it, g = 1/16	RFC 8257 section 3.3
 *	on marks: cwnd (1 - alpha / 2)								RFC 8257 section 3.3
 *	on loss: half									RFC 8257 section 3.5
 *
 * The receiver must tell each mark: that half, an ACK at once whenever marks begin or end, is the
 * transport's wherever an algorithm has PP_CC_NEEDS_ECN (RFC 8257 section 3.2).
 *
 * Differences from the RFC, all as in Linux: alpha begins at 1 and is in whole 1/1024, M in 1/64;
 * below 1/64 it falls to 0 at once; segments count, not bytes. Where ECN was not agreed it is Reno.
 * Differences from Linux: no protective load balancing (sysctl tcp_plb_enabled, off unless set).
 */
#include "pp_math.h"

/* g = 1/2^this. Raising it smooths more, and follows a change of load more slowly. */
#define DCTCP_GAIN_SHIFT 4
/* alpha in 1/1024. */
#define DCTCP_ALPHA_SHIFT 10
#define DCTCP_ALPHA_ONE (1U << DCTCP_ALPHA_SHIFT)

struct dctcp_state {
	__u32 round_end;	/* sequence number whose acknowledgement ends the round */
	__u32 delivered;	/* pp_flow.delivered when the round began */
	__u32 delivered_ce;	/* pp_flow.delivered_ce when the round began */
	__u32 alpha;		/* mean share of marked segments, 1/1024 */
	__u32 loss_cwnd;	/* window before the last reduction, segments */
	__u8  marks;		/* ECN was agreed */
};

PP_STATE_FITS(struct dctcp_state);

static void dctcp_begin_round(struct dctcp_state *s, const struct pp_flow *f)
{
	s->round_end = f->snd_nxt;
	s->delivered = f->delivered;
	s->delivered_ce = f->delivered_ce;
}

static void dctcp_note_loss(struct dctcp_state *s, struct pp_flow *f)
{
	s->loss_cwnd = f->cwnd;
	f->ssthresh = pp_half(f);
}

static void dctcp_init(struct pp_ctx *c)
{
	struct dctcp_state *s = c->priv;

	s->alpha = DCTCP_ALPHA_ONE;
	s->loss_cwnd = 0;
	/* A listening socket has agreed to nothing yet. */
	s->marks = c->flow->ecn_ok || !c->flow->established;
	dctcp_begin_round(s, c->flow);
}

static __u32 dctcp_ssthresh(struct pp_ctx *c)
{
	struct dctcp_state *s = c->priv;
	__u32 cwnd = c->flow->cwnd;

	s->loss_cwnd = cwnd;
	if (!s->marks)
		return pp_half(c->flow);
	return pp_max(cwnd - (__u32)((__u64)cwnd * s->alpha >> (DCTCP_ALPHA_SHIFT + 1)), 2);
}

static void dctcp_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	(void)ack;
	pp_reno_cong_avoid(c->flow, acked);
}

static void dctcp_set_state(struct pp_ctx *c, __u32 new_state)
{
	struct dctcp_state *s = c->priv;

	if (s->marks && new_state == PP_CA_RECOVERY && c->flow->ca_state != PP_CA_RECOVERY)
		dctcp_note_loss(s, c->flow);
}

static void dctcp_cwnd_event(struct pp_ctx *c, __u32 event)
{
	struct dctcp_state *s = c->priv;

	/* Not when the state becomes Loss: that happens for each timeout of one recovery. */
	if (s->marks && event == PP_EVENT_LOSS)
		dctcp_note_loss(s, c->flow);
}

static void dctcp_in_ack_event(struct pp_ctx *c, __u32 flags)
{
	struct dctcp_state *s = c->priv;
	const struct pp_flow *f = c->flow;
	__u32 delivered, marked, decay;

	(void)flags;
	if (pp_after(s->round_end, f->snd_una))
		return;
	delivered = f->delivered - s->delivered;
	marked = f->delivered_ce - s->delivered_ce;
	decay = s->alpha >> DCTCP_GAIN_SHIFT;
	s->alpha -= decay ? decay : s->alpha;
	if (marked) {
		__u64 share = ((__u64)marked << (DCTCP_ALPHA_SHIFT - DCTCP_GAIN_SHIFT)) / pp_max(delivered, 1);

		s->alpha = (__u32)pp_min64(s->alpha + share, DCTCP_ALPHA_ONE);
	}
	dctcp_begin_round(s, f);
}

static __u32 dctcp_undo_cwnd(struct pp_ctx *c)
{
	const struct dctcp_state *s = c->priv;

	return pp_max(c->flow->cwnd, s->loss_cwnd);
}

PP_CC_REGISTER(dctcp) = {
	.name = "dctcp",
	.flags = PP_CC_NEEDS_ECN,
	.priv_bytes = sizeof(struct dctcp_state),
	.init = dctcp_init,
	.ssthresh = dctcp_ssthresh,
	.cong_avoid = dctcp_cong_avoid,
	.set_state = dctcp_set_state,
	.cwnd_event = dctcp_cwnd_event,
	.in_ack_event = dctcp_in_ack_event,
	.undo_cwnd = dctcp_undo_cwnd,
};

PP_CC_ABOUT(dctcp) = {
	.family = PP_FAMILY_LOSS,
	.source = "RFC 8257; Alizadeh et al., SIGCOMM 2010",
	.counterpart = "dctcp",
};
