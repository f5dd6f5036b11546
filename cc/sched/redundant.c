/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Every subflow sends everything.
 *
 * Idea. Each subflow goes through the unacknowledged data at its own pace, and the one ahead sends
 * new data first. What arrives first counts, so the latency is that of the better subflow at each
 * moment, and so is the throughput.
 *
 * Source. A. Frömmgen et al.: "ReMP TCP: Low latency multipath TCP", IEEE ICC 2016; MPTCP 0.96's
 * scheduler of that name.
 *
 * Differences from MPTCP 0.96: up to April 2022 that repeats itself. A subflow remembers the buffer
 * that it sent last, forgets it once the peer has acknowledged all *before* it instead of all *in*
 * it, and begins again at the oldest buffer that is not acknowledged as a whole. So a subflow that
 * works on the oldest buffer fills its window with copies of it, and the next buffer waits behind
 * them: some 64 KiB of progress in the fastest subflow's full queue, where all links are busy.
 * https://github.com/multipath-tcp/mptcp/issues/474 reports it, with goodputs of a hundredth; pull
 * request 478 mended it. PP_SCHED_COMPAT_REDUNDANT_REPEATS does so too.
 */
#include "pp_choose.h"

struct redundant_state {
	__u32 begun;	/* a bit for each subflow that has got anything */
	__u32 turn;	/* whose turn it is; len: the first one's */
};

/* What a subflow got last, as data sequence numbers. */
struct redundant_subflow {
	__u64 start;
	__u64 end;
};

PP_SCHED_STATE_FITS(struct redundant_state);
PP_SCHED_SUBFLOW_FITS(struct redundant_subflow);

static __u32 redundant_pick(struct pp_sched_ctx *c, struct pp_choice *choice)
{
	int repeats = !!(c->compat & PP_SCHED_COMPAT_REDUNDANT_REPEATS);
	const struct pp_data_queue *q = c->queue;
	struct redundant_state *s = c->priv;
	int any_active = pp_any_active(c);
	__u32 step;

	/* Copies leave only as long as there is something new. */
	if (repeats && q->next == q->end)
		return 0;
	for (step = 0; step < c->len; step++) {
		__u32 i = (s->turn + step) % c->len;
		const struct pp_path_view *p = &c->paths[i];
		const struct redundant_subflow *last = pp_subflow_state(c, i);
		int goes_on = (s->begun >> i & 1) && (!repeats || pp_before64(q->una, last->start));
		/* What the peer has acknowledged need not be sent by the slower subflows any more. */
		__u64 from = goes_on ? pp_later(last->end, q->una) : q->una;
		__u64 end;

		if (!pp_before64(from, q->end) || !pp_takes_data(p) || (p->backup && any_active))
			continue;
		s->turn = i + 1;
		choice->subflow = i;
		choice->from = from;
		if (repeats) {
			/* A buffer as a whole, whatever the window. */
			choice->bytes = PP_SCHED_WHOLE_BUFFER;
			return 1;
		}
		/* What was sent once stays a copy: never mix it with new data in one choice. */
		end = pp_before64(from, q->next) ? q->next : pp_earlier(q->end, q->window_end);
		if (!pp_before64(from, end))
			continue;
		choice->bytes = pp_min64(end - from, pp_window_space(p));
		return 1;
	}
	return 0;
}

static void redundant_scheduled(struct pp_sched_ctx *c, const struct pp_choice *choice, __u64 bytes)
{
	struct redundant_subflow *last = pp_subflow_state(c, choice->subflow);
	struct redundant_state *s = c->priv;

	last->start = choice->from;
	last->end = choice->from + bytes;
	s->begun |= 1U << choice->subflow;
}

PP_SCHED_REGISTER(redundant) = {
	.name = "redundant",
	.flags = PP_SCHED_KEEPS_HEAD | PP_SCHED_NO_REINJECTION,
	.priv_bytes = sizeof(struct redundant_state),
	.subflow_bytes = sizeof(struct redundant_subflow),
	.pick = redundant_pick,
	.scheduled = redundant_scheduled,
};

PP_SCHED_ABOUT(redundant) = {
	.what = "everything on every subflow; with kernel 5.4-mptcp it repeats itself as that does",
};
