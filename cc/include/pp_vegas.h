/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What Vegas and those that descend from it share: the least RTT of the path, the least one of the
 * round trip in progress, and when that ends.
 *
 * An RTT of r us counts as r + 1, so that none is zero. A round begins with everything sent so far
 * outstanding and ends with the first ACK beyond it. Its least RTT is judged rather than its mean:
 * the receiver's delayed ACKs lengthen many samples, but not all.
 */
#ifndef PP_VEGAS_H
#define PP_VEGAS_H

#include "pp_math.h"

/* No RTT is known. Half of what the field holds, as in Linux: a quotient by it is nearly zero,
 * and sums of two do not wrap. */
#define PP_RTT_UNKNOWN 0x7fffffffU
/* A round with this many RTT samples or fewer had an ACK or two, probably delayed ones: its
 * delay says nothing. */
#define PP_ROUND_FEW_SAMPLES 2

struct pp_rounds {
	__u32 base_us;		/* least RTT since the connection or its last pause began */
	__u32 least_us;		/* least RTT of the round */
	__u32 samples;		/* RTT samples of the round */
	__u32 end;		/* sequence number that ends the round */
	__u32 active;		/* 1: delay is judged; 0 from a loss until the sender is Open again */
};

PP_INLINE void pp_rounds_next(struct pp_rounds *r, const struct pp_flow *f)
{
	r->end = f->snd_nxt;
	r->samples = 0;
	r->least_us = PP_RTT_UNKNOWN;
}

/* The path may have changed: nothing is known of it. */
PP_INLINE void pp_rounds_init(struct pp_rounds *r, const struct pp_flow *f)
{
	pp_rounds_next(r, f);
	r->base_us = PP_RTT_UNKNOWN;
	r->active = 1;
}

PP_INLINE void pp_rounds_set_state(struct pp_rounds *r, const struct pp_flow *f, __u32 new_state)
{
	r->active = new_state == PP_CA_OPEN;
	if (r->active)
		pp_rounds_next(r, f);
}

/* After a pause what was known of the path is old, and no window is in flight that a round could
 * measure. */
PP_INLINE void pp_rounds_cwnd_event(struct pp_rounds *r, const struct pp_flow *f, __u32 event)
{
	if (event == PP_EVENT_CWND_RESTART || event == PP_EVENT_TX_START)
		pp_rounds_init(r, f);
}

PP_INLINE void pp_rounds_sample(struct pp_rounds *r, const struct pp_sample *sample)
{
	__u32 rtt_us = (__u32)sample->rtt_us + 1;

	if (sample->rtt_us < 0)
		return;
	r->base_us = pp_min(r->base_us, rtt_us);
	r->least_us = pp_min(r->least_us, rtt_us);
	r->samples++;
}

/* Whether this ACK ends the round, and the round's delay can be judged. */
PP_INLINE int pp_rounds_ends(const struct pp_rounds *r, __u32 ack)
{
	return pp_after(ack, r->end);
}

PP_INLINE int pp_rounds_tell(const struct pp_rounds *r)
{
	return r->samples > PP_ROUND_FEW_SAMPLES;
}

/* Queueing delay that the whole round saw, us. */
PP_INLINE __u32 pp_rounds_queue_us(const struct pp_rounds *r)
{
	return r->least_us - r->base_us;	/* the least RTT of a round is never below the least of all */
}

#endif
