/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * No data on a slow subflow that would block the window of the peer.
 *
 * Idea. What a slow subflow carries holds its place in the peer's window for a round trip of that
 * subflow. If the fast subflow could send more in that time than the window has room for, it would
 * come to a halt (head-of-line blocking): then nothing goes to the slow one, and the fast one is
 * waited for. What the fast one can send is an estimate: its window, growing as in slow start or
 * by a segment a round trip, over as many of its round trips as fit, times a factor lambda. Lambda
 * grows where blocking happened all the same, and shrinks slowly where it did not.
 *
 * Source. S. Ferlin et al.: "BLEST: Blocking estimation-based MPTCP scheduler for heterogeneous
 * networks", IFIP Networking 2016.
 *
 * As in MPTCP 0.96: lambda begins at 1.2 and stays between 1.0 and 1.3, in steps of +4 and -1 % at
 * most once in the slow subflow's least round trip; the slow subflow's time is taken from between
 * its least and largest round trip, by how full its window is; blocking is noticed when the window
 * of the peer or the full send buffer leads to a retransmission on another subflow.
 *
 * Differences from MPTCP 0.96: neither a backup subflow nor one in the Loss state is waited for.
 */
#include "pp_choose.h"

/* Thousandths. A larger lambda keeps more of the window for the fast subflow, and leaves the slow
 * one idle more often. */
#define BLEST_LAMBDA 1200
#define BLEST_LEAST 1000
#define BLEST_LARGEST 1300
/* Steps of lambda. Larger ones follow the network sooner, and swing more. */
#define BLEST_UP 40
#define BLEST_DOWN 10
/* Most round trips over which growth in slow start is believed: windows beyond 2^16 times the
 * present one mean nothing. */
#define BLEST_MOST_DOUBLINGS 16

struct blest_state {
	__u64 changed_ns;	/* when lambda changed last */
	__u32 lambda;		/* thousandths */
	__u32 blocked;		/* a retransmission for want of window since then */
};

/* Least and largest smoothed RTT, us times 8; 0 before the first. */
struct blest_subflow {
	__u32 least;
	__u32 largest;
};

PP_SCHED_STATE_FITS(struct blest_state);
PP_SCHED_SUBFLOW_FITS(struct blest_subflow);

static void blest_init(struct pp_sched_ctx *c)
{
	struct blest_state *s = c->priv;

	s->lambda = BLEST_LAMBDA;
}

/* `srtt`: the slow subflow's least, us times 8. */
static void blest_adapt(struct blest_state *s, __u64 now_ns, __u32 srtt)
{
	if (now_ns - s->changed_ns < srtt / 8 * 1000ULL)
		return;
	s->lambda = pp_clamp(s->blocked ? s->lambda + BLEST_UP : s->lambda - BLEST_DOWN, BLEST_LEAST, BLEST_LARGEST);
	s->blocked = 0;
	s->changed_ns = now_ns;
}

/* How long a segment that a slow subflow gets now takes to be acknowledged, us times 8. */
static __u32 blest_linger(const struct pp_path_view *slow, const struct blest_subflow *seen)
{
	__u64 in_flight = slow->in_flight + 1ULL;
	__u32 estimate = seen->largest;

	/* in_flight < cwnd: the product stays below 2^64, the quotient below largest - least. */
	if (in_flight < slow->cwnd)
		estimate = seen->least + (__u32)PP_DIV64((seen->largest - seen->least) * in_flight, slow->cwnd);
	return pp_max(estimate, slow->srtt_us);
}

/* Bytes that the fast subflow sends in `time` (us times 8), times lambda. */
static __u64 blest_sends(const struct pp_path_view *fast, const struct blest_subflow *seen, __u32 time, __u32 lambda)
{
	__u64 mean = ((__u64)seen->least + seen->largest) / 2;
	__u64 rounds = mean ? PP_DIV64(time, mean) + 1 : 1;
	__u64 packets, bytes, thousands;

	if (fast->ssthresh == PP_SSTHRESH_INFINITE)
		packets = fast->cwnd * ((1ULL << pp_min64(rounds, BLEST_MOST_DOUBLINGS)) - 1);
	else	/* Congestion avoidance is taken to have begun. */
		packets = (pp_max64(fast->cwnd, fast->ssthresh + 1ULL) + (rounds - 1) / 2) * rounds;
	/* Below 2^48 packets, a window of 2^32 in 2^16 rounds. In thousands and the rest, so that
	 * lambda makes nothing overflow that is not beyond every window. */
	bytes = pp_mul(packets, fast->mss);
	thousands = PP_DIV64(bytes, 1000);
	return pp_mul(thousands, lambda) + (__u32)(bytes - thousands * 1000) * lambda / 1000;
}

static __u32 blest_pick(struct pp_sched_ctx *c, struct pp_choice *choice)
{
	const struct pp_data_queue *q = c->queue;
	const struct pp_path_view *slow, *fast;
	struct blest_state *s = c->priv;
	__u64 for_fast, on_slow, buffer, window, segments;
	struct blest_subflow *seen;
	__u32 i, fastest;

	for (i = 0; i < c->len; i++) {
		seen = pp_subflow_state(c, i);
		if (c->paths[i].usable && c->paths[i].srtt_us) {
			seen->least = seen->least ? pp_min(seen->least, c->paths[i].srtt_us) : c->paths[i].srtt_us;
			seen->largest = pp_max(seen->largest, c->paths[i].srtt_us);
		}
	}
	if (!pp_pick_fastest(c, choice))
		return 0;
	slow = &c->paths[choice->subflow];
	fastest = pp_fastest(c, slow->backup);
	if (fastest == PP_NOBODY)
		return 0;
	fast = &c->paths[fastest];
	/* Of two that are as fast, a kernel takes the newer one; the other has room too. */
	if (fastest == choice->subflow || pp_takes_data(fast))
		return 1;
	seen = pp_subflow_state(c, choice->subflow);
	blest_adapt(s, q->now_ns, seen->least);
	for_fast = blest_sends(fast, pp_subflow_state(c, fastest), blest_linger(slow, seen), s->lambda);
	segments = slow->mss ? slow->mss : 1;
	buffer = pp_min64(PP_DIV64(PP_BUFFER_BYTES, segments) * slow->mss, pp_waiting(q));
	on_slow = slow->in_flight * slow->mss + slow->unsent + buffer;
	window = pp_later(q->window_end, q->una) - q->una;
	return for_fast <= pp_minus(window, on_slow);
}

static void blest_blocked(struct pp_sched_ctx *c)
{
	struct blest_state *s = c->priv;

	s->blocked = 1;
}

PP_SCHED_REGISTER(blest) = {
	.name = "blest",
	.priv_bytes = sizeof(struct blest_state),
	.subflow_bytes = sizeof(struct blest_subflow),
	.init = blest_init,
	.pick = blest_pick,
	.blocked = blest_blocked,
};

PP_SCHED_ABOUT(blest) = {
	.what = "lowest RTT, but waits for it where a slower one would block the peer's window (Ferlin et al. 2016)",
};
