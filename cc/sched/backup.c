/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * One subflow works, the others wait for it to fail.
 *
 * Idea. The first subflow, in the order in which they were opened, carries everything as long as it
 * can be used at all; full windows are waited for. One in the Loss state has failed for the time
 * being. Subflows that the peer or the path manager has marked as backup come after all others.
 *
 * Source. The mode of RFC 8684 section 3.3.8, for people who pay for the second link.
 *
 * Differences from MPTCP 0.96: it has no scheduler of this kind; its users set the backup flag on
 * an interface, which gives the same with two subflows and shares the load between the active ones
 * with more.
 */
#include "pp_choose.h"

static __u32 backup_working(const struct pp_sched_ctx *c)
{
	__u32 backup, i;

	for (backup = 0; backup < 2; backup++)
		for (i = 0; i < c->len; i++)
			if (c->paths[i].backup == backup && c->paths[i].usable && !c->paths[i].in_loss)
				return i;
	return PP_NOBODY;
}

static __u32 backup_pick(struct pp_sched_ctx *c, struct pp_choice *choice)
{
	__u32 i;

	if (c->queue->end == c->queue->next)
		return 0;
	i = backup_working(c);
	if (i == PP_NOBODY || !pp_takes_data(&c->paths[i]))
		return 0;
	choice->subflow = i;
	choice->from = c->queue->next;
	choice->bytes = pp_window_space(&c->paths[i]);
	return 1;
}

PP_SCHED_REGISTER(backup) = {
	.name = "backup",
	.flags = PP_SCHED_KEEPS_HEAD,
	.pick = backup_pick,
};

PP_SCHED_ABOUT(backup) = {
	.what = "the first subflow alone; the others when it fails",
};
