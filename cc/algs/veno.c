/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Veno: Vegas and Reno.
 *
 * Idea. On a wireless path most losses do not mean congestion. Veno estimates, as Vegas does, how
 * many segments the flow keeps in the queue: a loss while they are few was probably random and
 * costs a fifth of the window, not half; and while they are many the window grows at half of Reno's
 * pace, which keeps it near its best value for longer.
 *
 * Source. C. P. Fu, S. C. Liew: "TCP Veno: TCP enhancement for transmission over wireless access
 * networks", IEEE JSAC 21(2), 2003. With base the least RTT:
 *
 *	n = (cwnd / base - cwnd / rtt) * base = cwnd - cwnd base / rtt
 *	n < beta: Reno's increase; on loss 4/5 of the window
 *	else: one segment every other round trip; on loss half of the window
 *
 * Differences from the paper, all as in Linux: n is in whole half segments, and computed at every
 * ACK that may raise the window, from the least RTT since the ACK before; beta is 3. Delay is not
 * judged from a loss until the sender is Open; a loss in that time is judged by the n of before. In
 * slow start the window doubles whatever n is. The ACK at which a round of the slower growth ends
 * counts for nothing. The number of RTT samples, of which at least three are wanted, is that of the
 * connection, not of the round. Differences from Linux: none known; there the number wraps after
 * 65536 samples, and three ACKs are Reno's: so here.
 */
#include "pp_vegas.h"

/* Queued segments times two from which on the path counts as congested. Raising it calls more
 * losses random: faster on lossy links, greedier on full ones. */
#define VENO_BETA 6
/* RTT samples of the connection before n is computed. */
#define VENO_FEW_SAMPLES 2
/* Least window, segments. */
#define VENO_MIN_CWND 2

struct veno_state {
	__u32 base_us;		/* least RTT since the connection or its last pause began */
	__u32 least_us;		/* least RTT since the last ACK that was judged */
	__u32 queued;		/* n, in half segments */
	__u16 samples;		/* RTT samples of the connection, wraps */
	__u8  active;		/* 1: delay is judged */
	__u8  grows;		/* 1: the next full window of acknowledged segments raises the window, 0: it is passed over */
};

PP_STATE_FITS(struct veno_state);

static void veno_begin(struct veno_state *s)
{
	s->base_us = PP_RTT_UNKNOWN;
	s->least_us = PP_RTT_UNKNOWN;
	s->active = 1;
	s->grows = 1;
}

/* Half of Reno's pace: every other full window of acknowledged segments counts. */
static void veno_grow_slowly(struct veno_state *s, struct pp_flow *f, __u32 acked)
{
	if (f->cwnd_cnt < f->cwnd) {
		f->cwnd_cnt += acked;
		return;
	}
	f->cwnd_cnt = 0;
	s->grows = s->grows && f->cwnd < f->cwnd_clamp;
	f->cwnd += s->grows;
	s->grows ^= 1;
}

static void veno_judge(struct veno_state *s, struct pp_flow *f, __u32 acked)
{
	int slow_start_only = 0;

	/* Windows below 2^31 segments, RTTs below 2^31 us: the product stays below 2^63. */
	s->queued = 2 * f->cwnd - (__u32)(2ULL * f->cwnd * s->base_us / s->least_us);

	if (pp_in_slow_start(f)) {
		acked = pp_slow_start(f, acked);
		slow_start_only = !acked;
	}
	if (!slow_start_only) {
		if (s->queued < VENO_BETA)
			pp_cong_avoid_ai(f, pp_max(f->cwnd, 1), acked);
		else
			veno_grow_slowly(s, f, acked);
	}
	f->cwnd = pp_clamp(f->cwnd, VENO_MIN_CWND, f->cwnd_clamp);
}

static void veno_init(struct pp_ctx *c)
{
	veno_begin(c->priv);
}

static __u32 veno_ssthresh(struct pp_ctx *c)
{
	const struct veno_state *s = c->priv;

	if (s->queued < VENO_BETA)
		return pp_max((__u32)(c->flow->cwnd * 4ULL / 5), 2);
	return pp_half(c->flow);
}

static void veno_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	struct veno_state *s = c->priv;
	struct pp_flow *f = c->flow;

	(void)ack;
	if (!pp_is_cwnd_limited(f))
		return;
	if (!s->active) {
		pp_reno_cong_avoid(f, acked);
		return;
	}
	if (s->samples > VENO_FEW_SAMPLES)
		veno_judge(s, f, acked);
	else
		pp_reno_cong_avoid(f, acked);
	s->least_us = PP_RTT_UNKNOWN;
}

static void veno_set_state(struct pp_ctx *c, __u32 new_state)
{
	struct veno_state *s = c->priv;

	s->active = new_state == PP_CA_OPEN;
	if (s->active)
		s->least_us = PP_RTT_UNKNOWN;
}

static void veno_cwnd_event(struct pp_ctx *c, __u32 event)
{
	/* What was known of the path is old after a pause. */
	if (event == PP_EVENT_CWND_RESTART || event == PP_EVENT_TX_START)
		veno_begin(c->priv);
}

static void veno_pkts_acked(struct pp_ctx *c, const struct pp_sample *sample)
{
	struct veno_state *s = c->priv;
	__u32 rtt_us = (__u32)sample->rtt_us + 1;

	if (sample->rtt_us < 0)
		return;
	s->base_us = pp_min(s->base_us, rtt_us);
	s->least_us = pp_min(s->least_us, rtt_us);
	s->samples++;
}

static __u32 veno_undo_cwnd(struct pp_ctx *c)
{
	return pp_undo(c->flow);
}

PP_CC_REGISTER(veno) = {
	.name = "veno",
	.priv_bytes = sizeof(struct veno_state),
	.init = veno_init,
	.ssthresh = veno_ssthresh,
	.cong_avoid = veno_cong_avoid,
	.set_state = veno_set_state,
	.cwnd_event = veno_cwnd_event,
	.pkts_acked = veno_pkts_acked,
	.undo_cwnd = veno_undo_cwnd,
};

PP_CC_ABOUT(veno) = {
	.family = PP_FAMILY_HYBRID,
	.source = "Fu, Liew, IEEE JSAC 21(2), 2003",
	.counterpart = "veno",
};
