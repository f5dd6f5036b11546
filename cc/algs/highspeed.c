/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * HighSpeed TCP.
 *
 * Idea. Reno's window is 1.2 / sqrt(p) at a loss rate p, so a window of 83,000 segments (10 Gbit/s
 * at 100 ms) needs losses as rare as 2e-10. Beyond a window of 38 HighSpeed TCP follows 0.12 /
 * p^0.835 instead: it grows by a(w) segments a round trip and loses b(w) of the window, both by a
 * table, and is Reno below.
 *
 * Source. RFC 3649 sections 5 and 7, with Low_Window 38, High_Window 83,000, High_P 1e-7,
 * High_Decrease 0.1:
 *
 *	p(w) = 0.078 / w^1.2
 *	b(w) = (0.1 - 0.5) (log w - log 38) / (log 83000 - log 38) + 0.5
 *	a(w) = w^2 p(w) 2 b(w) / (2 - b(w))
 *
 * Differences from the RFC, as in Linux: an ACK counts once, however much it acknowledges, so that
 * with delayed ACKs growth is half of the RFC's; beyond the table's last row a and b stay at its
 * values (72, 24/256); a loss is answered with the b of the last ACK in congestion avoidance, so
 * the first loss, in slow start, halves. The reduced window is at least two segments. Differences
 * from Linux: none known.
 */
#include "pp_math.h"

/* Row n holds up to its window, segments: a = n + 1 segments a round trip, b in 1/256. Windows
 * from RFC 3649, appendix B; b from the formula, rounded down. */
struct highspeed_row {
	__u32 window;
	__u32 b;
};

#define HIGHSPEED_ROWS 72

PP_TABLE struct highspeed_row highspeed_table[HIGHSPEED_ROWS] = {
	{ 38, 128 }, { 118, 112 }, { 221, 104 }, { 347, 98 }, { 495, 93 }, { 663, 89 }, { 851, 86 }, { 1058, 83 },
	{ 1284, 81 }, { 1529, 78 }, { 1793, 76 }, { 2076, 74 }, { 2378, 72 }, { 2699, 71 }, { 3039, 69 }, { 3399, 68 },
	{ 3778, 66 }, { 4177, 65 }, { 4596, 64 }, { 5036, 62 }, { 5497, 61 }, { 5979, 60 }, { 6483, 59 }, { 7009, 58 },
	{ 7558, 57 }, { 8130, 56 }, { 8726, 55 }, { 9346, 54 }, { 9991, 53 }, { 10661, 52 }, { 11358, 52 }, { 12082, 51 },
	{ 12834, 50 }, { 13614, 49 }, { 14424, 48 }, { 15265, 48 }, { 16137, 47 }, { 17042, 46 }, { 17981, 45 }, { 18955, 45 },
	{ 19965, 44 }, { 21013, 43 }, { 22101, 43 }, { 23230, 42 }, { 24402, 41 }, { 25618, 41 }, { 26881, 40 }, { 28193, 39 },
	{ 29557, 39 }, { 30975, 38 }, { 32450, 38 }, { 33986, 37 }, { 35586, 36 }, { 37253, 36 }, { 38992, 35 }, { 40808, 35 },
	{ 42707, 34 }, { 44694, 33 }, { 46776, 33 }, { 48961, 32 }, { 51258, 32 }, { 53677, 31 }, { 56230, 30 }, { 58932, 30 },
	{ 61799, 29 }, { 64851, 28 }, { 68113, 28 }, { 71617, 27 }, { 75401, 26 }, { 79517, 26 }, { 84035, 25 }, { 89053, 24 },
};

struct highspeed_state {
	__u32 row;	/* of the window at the last ACK in congestion avoidance */
};

PP_STATE_FITS(struct highspeed_state);

/* The first row whose window is not below cwnd, the last one if there is none: by halves, since
 * BPF verifies each step of a loop. */
static __u32 highspeed_row(__u32 cwnd)
{
	__u32 row = 0, step;

	for (step = 64; step; step >>= 1) {
		__u32 next = row + step;

		if (next < HIGHSPEED_ROWS && cwnd > highspeed_table[next - 1].window)
			row = next;
	}
	return row;
}

static void highspeed_init(struct pp_ctx *c)
{
	struct highspeed_state *s = c->priv;

	s->row = 0;
}

static __u32 highspeed_ssthresh(struct pp_ctx *c)
{
	const struct highspeed_state *s = c->priv;
	__u32 cwnd = c->flow->cwnd;

	/* 2^32 * 2^7 fits into 64 bits. */
	return pp_max(cwnd - (__u32)((__u64)cwnd * highspeed_table[pp_min(s->row, HIGHSPEED_ROWS - 1)].b >> 8), 2);
}

static void highspeed_cong_avoid(struct pp_ctx *c, __u32 ack, __u32 acked)
{
	struct highspeed_state *s = c->priv;
	struct pp_flow *f = c->flow;

	(void)ack;
	if (!pp_is_cwnd_limited(f))
		return;
	if (pp_in_slow_start(f)) {
		pp_slow_start(f, acked);
		return;
	}
	s->row = highspeed_row(f->cwnd);
	if (f->cwnd >= f->cwnd_clamp)
		return;
	f->cwnd_cnt += s->row + 1;
	if (f->cwnd_cnt >= f->cwnd) {
		f->cwnd_cnt -= f->cwnd;
		f->cwnd++;
	}
}

static __u32 highspeed_undo_cwnd(struct pp_ctx *c)
{
	return pp_undo(c->flow);
}

PP_CC_REGISTER(highspeed) = {
	.name = "highspeed",
	.priv_bytes = sizeof(struct highspeed_state),
	.init = highspeed_init,
	.ssthresh = highspeed_ssthresh,
	.cong_avoid = highspeed_cong_avoid,
	.undo_cwnd = highspeed_undo_cwnd,
};

PP_CC_ABOUT(highspeed) = {
	.family = PP_FAMILY_LOSS,
	.source = "RFC 3649",
	.counterpart = "highspeed",
	.aliases = "hstcp",
};
