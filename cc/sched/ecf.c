/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Earliest completion first.
 *
 * Idea. When the fastest subflow's window is full, a slower one may still be the wrong choice: what
 * it carries may arrive after the fast one, left alone, would have been done with everything. With
 * k bytes waiting, f the fastest subflow and s the one that minRTT would choose, the fast one needs
 * about (1 + k / window_f) round trips. If that is less than one round trip of s (and the spread of
 * the round-trip times), and s would need two of f's round trips at least, none sends and f is
 * waited for. Having decided to wait makes waiting again a quarter more attractive (the paper's
 * beta), so that the choice does not flap.
 *
 * Source. Y. Lim et al.: "ECF: An MPTCP path scheduler to manage heterogeneous paths", CoNEXT 2017.
 *
 * As in MPTCP 0.96: the spread is half of Linux's `rttvar`, which never falls below half of the
 * least retransmission timeout (100 ms), where the paper has the standard deviation; k counts as a
 * window at least.
 *
 * Differences from MPTCP 0.96: its products of microseconds and bytes are 32 bits wide and overflow
 * from some 4 MB ms on, a window of 100 kB at 40 ms: on most paths its decisions are then as good
 * as drawn. PP_SCHED_COMPAT_ECF_OVERFLOWS repeats that. Neither a backup subflow nor one in the
 * Loss state is waited for.
 */
#include "pp_choose.h"

/* Inverse of the hysteresis beta = 1/4. A larger one flaps more between waiting and sending. */
#define ECF_BETA_INVERSE 4

struct ecf_state {
	__u32 waiting;	/* the last decision was to wait */
};

PP_SCHED_STATE_FITS(struct ecf_state);

/* Microseconds (below 2^29) times bytes (below 2^32 where a window of that size is possible): below
 * 2^61, so that five times as much fits. Larger products are as good as infinite. */
static __u64 ecf_product(const struct pp_sched_ctx *c, __u64 us, __u64 bytes)
{
	return c->compat & PP_SCHED_COMPAT_ECF_OVERFLOWS ? (__u32)(us * bytes) : pp_mul(us, bytes);
}

/* Whether the `fast` subflow alone is done with what waits before the `slow` one could help. */
static int ecf_waits(const struct pp_sched_ctx *c, const struct pp_path_view *fast, const struct pp_path_view *slow)
{
	struct ecf_state *s = c->priv;
	__u64 rtt_f = fast->srtt_us / 8, rtt_s = slow->srtt_us / 8;
	__u64 window_f = fast->cwnd * fast->mss, window_s = slow->cwnd * slow->mss;
	__u64 spread = PP_DIV64(pp_max64(fast->rttvar_ns, slow->rttvar_ns), 1000) >> 1;
	__u64 waiting = pp_waiting(c->queue);
	__u64 alone = ecf_product(c, rtt_f, pp_max64(waiting, window_f) + window_f);
	__u64 helped = ecf_product(c, rtt_s + spread, window_f);

	if (pp_mul(ECF_BETA_INVERSE, alone) >= pp_mul(ECF_BETA_INVERSE + s->waiting, helped)) {
		s->waiting = 0;
		return 0;
	}
	/* The paper's second test leaves the memory of the last decision alone where it fails. */
	if (ecf_product(c, rtt_s, pp_max64(waiting, window_s)) < ecf_product(c, 2 * rtt_f + spread, window_s))
		return 0;
	s->waiting = 1;
	return 1;
}

static __u32 ecf_pick(struct pp_sched_ctx *c, struct pp_choice *choice)
{
	const struct pp_path_view *slow, *fast;
	__u32 fastest;

	if (!pp_pick_fastest(c, choice))
		return 0;
	slow = &c->paths[choice->subflow];
	fastest = pp_fastest(c, slow->backup);
	if (fastest == PP_NOBODY)
		return 0;
	fast = &c->paths[fastest];
	/* Of two that are as fast, a kernel takes the newer one; the other has room too. */
	return fastest == choice->subflow || pp_takes_data(fast) || !ecf_waits(c, fast, slow);
}

PP_SCHED_REGISTER(ecf) = {
	.name = "ecf",
	.priv_bytes = sizeof(struct ecf_state),
	.pick = ecf_pick,
};

PP_SCHED_ABOUT(ecf) = {
	.what = "lowest RTT, but waits for it where that completes earlier (Lim et al. 2017); with kernel 5.4-mptcp as that miscalculates it",
};
