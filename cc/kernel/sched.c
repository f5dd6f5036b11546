/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Makes one scheduler of cc/sched an MPTCP scheduler of a kernel, built in, named pp_<name>: the
 * only code that knows the kernel's interface for them (6.6 and on; empty before).
 *
 * `polypath linux build` compiles it once for each scheduler with the flags of net/ipv4/tcp_cubic.c
 * and PP_SCHED (the name), PP_SCHED_FILE (the C file). It needs no change to the kernel's tree.
 * Releases with get_send and get_retrans (7.x) have a branch of their own.
 *
 * A subflow has the index of the order in which it was first seen. The private state is the glue's,
 * found by the connection's address, since a kernel has no room for it in its own.
 *
 * What Linux gives otherwise than MPTCP 0.96, and the simulator's Linux too:
 * - An amount counts in the connection's own buffers (mptcp_data_frag, up to 32 KiB): the subflow
 *   gets those that the amount begins, as far as its send buffer takes them (__subflow_push_pending).
 * - Nothing is sent again on a fast path for want of window (Raiciu et al. 2012); `blocked` is told
 *   when the window has no room for what waits. What a subflow leaves undelivered goes by the
 *   kernel's own rule (mptcp_subflow_get_retrans), whatever the scheduler.
 * - `wins_ties` is 0, and windows are counted in bytes.
 * - A choice of what was sent before moves the connection's place back, as the kernel does itself
 *   when a subflow fails (__mptcp_retransmit_pending_data). The DATA_FIN then waits until all of it
 *   is acknowledged.
 *
 * Otherwise than in the simulator, weights are all 1.
 */
#define PP_BUILD_KERNEL 1

#include <linux/module.h>
#include <net/tcp.h>
#include <net/mptcp.h>

#if defined(MPTCP_SCHED_NAME_MAX) && defined(PP_KERNEL_MPTCP)
#include "net/mptcp/protocol.h"
#include PP_SCHED_FILE

#define PP_CAT_(a, b) a##b
#define PP_CAT(a, b) PP_CAT_(a, b)
#define PP_STR_(a) #a
#define PP_STR(a) PP_STR_(a)
#define PP_OPS PP_CAT(pp_sched_, PP_SCHED)

static_assert(sizeof(PP_STR(PP_CAT(pp_, PP_SCHED))) <= MPTCP_SCHED_NAME_MAX, "the scheduler's name is longer than 12 letters");

/* A connection that this scheduler serves. */
struct pp_connection {
	struct hlist_node node;
	struct mptcp_sock *msk;
	struct pp_sched_ctx ctx;
	struct pp_data_queue queue;
	struct pp_path_view paths[PP_SCHED_MAX_SUBFLOWS];
	struct mptcp_subflow_context *at[PP_SCHED_MAX_SUBFLOWS];	/* null: it ended */
	u32 ids[PP_SCHED_MAX_SUBFLOWS];
	struct pp_choice given;		/* the last choice of which `scheduled` has to be told */
	bool was_given;
	u8 weights[PP_SCHED_MAX_SUBFLOWS];
	u64 priv[PP_SCHED_STATE_BYTES / 8];
	u64 subflow_priv[PP_SCHED_MAX_SUBFLOWS][PP_SCHED_SUBFLOW_BYTES / 8];
};

/* Connections by their address, a list for each bucket. */
#define PP_BUCKETS 64
static struct hlist_head pp_connections[PP_BUCKETS];
static DEFINE_SPINLOCK(pp_lock);

static struct hlist_head *pp_bucket(const struct mptcp_sock *msk)
{
	return &pp_connections[((unsigned long)msk >> 6) % PP_BUCKETS];
}

/* It stays while the caller holds the connection's lock. */
static struct pp_connection *pp_find(const struct mptcp_sock *msk)
{
	struct pp_connection *each, *found = NULL;

	spin_lock_bh(&pp_lock);
	hlist_for_each_entry(each, pp_bucket(msk), node) {
		if (each->msk == msk) {
			found = each;
			break;
		}
	}
	spin_unlock_bh(&pp_lock);
	return found;
}

static void pp_init(struct mptcp_sock *msk)
{
	struct pp_connection *c = kzalloc(sizeof(*c), GFP_ATOMIC);

	/* Without memory the connection has the kernel's own rule. */
	if (!c)
		return;
	c->msk = msk;
	c->ctx.paths = c->paths;
	c->ctx.queue = &c->queue;
	c->ctx.priv = c->priv;
	c->ctx.subflow_priv = c->subflow_priv;
	c->ctx.weights = c->weights;
	memset(c->weights, 1, sizeof(c->weights));
	if (PP_OPS.init)
		PP_OPS.init(&c->ctx);
	spin_lock_bh(&pp_lock);
	hlist_add_head(&c->node, pp_bucket(msk));
	spin_unlock_bh(&pp_lock);
}

static void pp_release(struct mptcp_sock *msk)
{
	struct pp_connection *c = pp_find(msk);

	if (!c)
		return;
	spin_lock_bh(&pp_lock);
	hlist_del(&c->node);
	spin_unlock_bh(&pp_lock);
	kfree(c);
}

/* The index of a subflow; a new one takes that of one that ended only when there is no other. */
static u32 pp_index(struct pp_connection *c, const struct mptcp_subflow_context *subflow)
{
	u32 i;

	for (i = 0; i < c->ctx.len; i++)
		if (c->ids[i] == subflow->subflow_id)
			return i;
	if (c->ctx.len < PP_SCHED_MAX_SUBFLOWS) {
		c->ctx.len++;
	} else {
		for (i = 0; i < c->ctx.len && c->at[i]; i++)
			;
		if (i == c->ctx.len)
			return i;
	}
	c->ids[i] = subflow->subflow_id;
	memset(c->subflow_priv[i], 0, sizeof(c->subflow_priv[i]));
	return i;
}

static void pp_view(struct mptcp_subflow_context *subflow, struct pp_path_view *p)
{
	struct sock *ssk = mptcp_subflow_tcp_sock(subflow);
	const struct tcp_sock *tp = tcp_sk(ssk);

	*p = (struct pp_path_view){ 0 };
	p->usable = mptcp_subflow_active(subflow);
	p->backup = subflow->backup || subflow->request_bkup;
	p->room = sk_stream_memory_free(ssk);
	p->queued = READ_ONCE(ssk->sk_wmem_queued);
	/* The kernel says "not limited" as ~0 byte/s. */
	p->pacing_rate = min_t(u64, READ_ONCE(ssk->sk_pacing_rate), ~0ULL / 8) * 8;
	if (PP_OPS.flags & PP_SCHED_BURSTS)
		return;
	p->mss = tcp_current_mss(ssk);
	p->unsent = tp->write_seq - tp->snd_nxt;
	p->rttvar_ns = (u64)tp->rttvar_us * NSEC_PER_USEC;
	p->srtt_us = tp->srtt_us;
	p->cwnd = tcp_snd_cwnd(tp);
	p->in_flight = tcp_packets_in_flight(tp);
	p->ssthresh = tp->snd_ssthresh;
	p->in_loss = inet_csk(ssk)->icsk_ca_state == TCP_CA_Loss;
}

/* What is left of a subflow's timer, ticks: the connection's own follows the longest. */
static long pp_timeout(const struct mptcp_subflow_context *subflow)
{
	const struct sock *ssk = mptcp_subflow_tcp_sock(subflow);

	if (!inet_csk(ssk)->icsk_pending || subflow->stale_count)
		return 0;
#ifdef MPTCP_SUBFLOWS_MAX
	return inet_csk(ssk)->icsk_timeout - jiffies;
#else
	return tcp_timeout_expires(ssk) - jiffies;
#endif
}

static void pp_look(struct pp_connection *c)
{
	struct mptcp_subflow_context *subflow;
	struct mptcp_sock *msk = c->msk;
	long timeout = 0;
	u32 i;

	for (i = 0; i < c->ctx.len; i++) {
		c->at[i] = NULL;
		c->paths[i] = (struct pp_path_view){ 0 };
	}
	mptcp_for_each_subflow(msk, subflow) {
		i = pp_index(c, subflow);
		if (i == PP_SCHED_MAX_SUBFLOWS)
			continue;
		c->at[i] = subflow;
		pp_view(subflow, &c->paths[i]);
		if (c->paths[i].usable)
			timeout = max(timeout, pp_timeout(subflow));
	}
#ifdef MPTCP_SUBFLOWS_MAX
	msk->timer_ival = timeout > 0 ? timeout : TCP_RTO_MIN;
#else
	msk->timer_ival = timeout > 0 ? timeout : READ_ONCE(inet_csk((struct sock *)msk)->icsk_rto_min);
#endif
}

/* End of the data: a DATA_FIN has a number too. */
static u64 pp_end(const struct mptcp_sock *msk)
{
	return msk->write_seq - msk->snd_data_fin_enable;
}

/* Where the connection goes on sending. */
static u64 pp_place(const struct mptcp_sock *msk)
{
	const struct mptcp_data_frag *head = msk->first_pending;

	return head ? head->data_seq + head->already_sent : pp_end(msk);
}

/* Makes the connection go on at a byte that it has sent before, or at the first that it has not. */
static void pp_go_to(struct mptcp_sock *msk, u64 seq)
{
	struct mptcp_data_frag *each, *head = NULL;

	if (pp_place(msk) == seq)
		return;
	list_for_each_entry(each, &msk->rtx_queue, list) {
		s64 before = seq - each->data_seq;

		each->already_sent = clamp_t(s64, before, 0, each->data_len);
		if (!head && each->already_sent < each->data_len)
			head = each;
	}
	msk->first_pending = head;
	if (before64(seq, msk->snd_nxt)) {
		/* What lies beyond may be acknowledged. */
		msk->recovery_snd_nxt = msk->snd_nxt;
		msk->recovery = true;
	}
}

static int pp_get_send(struct mptcp_sock *msk)
{
	struct pp_connection *c = pp_find(msk);
	struct pp_choice choice = { 0 };
	bool copies = PP_OPS.flags & PP_SCHED_NO_REINJECTION;
	u64 place = pp_place(msk);
	u32 i;

	if (!c) {
		struct sock *ssk = mptcp_subflow_get_send(msk);

		if (!ssk)
			return -EINVAL;
		mptcp_subflow_set_scheduled(mptcp_subflow_ctx(ssk), true);
		return 0;
	}
	pp_look(c);
	c->queue.una = msk->snd_una;
	c->queue.next = copies ? msk->snd_nxt : place;
	c->queue.end = pp_end(msk);
	/* As the kernel counts it, also while it sends again. */
	c->queue.window_end = c->queue.next + (msk->wnd_end - msk->snd_nxt);
	c->queue.now_ns = tcp_clock_ns();
	if (c->was_given && PP_OPS.scheduled && before64(c->given.from, place))
		PP_OPS.scheduled(&c->ctx, &c->given, place - c->given.from);
	c->was_given = false;
	if (PP_OPS.blocked && !(PP_OPS.flags & PP_SCHED_BURSTS)) {
		u64 left = pp_window_left(&c->queue);

		for (i = 0; i < c->ctx.len; i++) {
			if (c->paths[i].usable && left < min(pp_waiting(&c->queue), c->paths[i].mss)) {
				PP_OPS.blocked(&c->ctx);
				break;
			}
		}
	}
	if (!PP_OPS.pick(&c->ctx, &choice) || choice.subflow >= c->ctx.len || !c->at[choice.subflow]) {
		/* Asked again at the next ACK, also when all was sent once. */
		if (copies && before64(msk->snd_una, msk->snd_nxt))
			pp_go_to(msk, msk->snd_una);
		return -EINVAL;
	}
	if (copies)
		pp_go_to(msk, choice.from);
	if (choice.bytes)
		msk->snd_burst = min_t(u64, choice.bytes, INT_MAX);
	c->given = choice;
	c->was_given = true;
	mptcp_subflow_set_scheduled(c->at[choice.subflow], true);
	return 0;
}

static int pp_get_retrans(struct mptcp_sock *msk)
{
	struct sock *ssk = mptcp_subflow_get_retrans(msk);

	if (!ssk)
		return -EINVAL;
	mptcp_subflow_set_scheduled(mptcp_subflow_ctx(ssk), true);
	return 0;
}

#ifdef MPTCP_SUBFLOWS_MAX
static int pp_get_subflow(struct mptcp_sock *msk, struct mptcp_sched_data *data)
{
	return data->reinject ? pp_get_retrans(msk) : pp_get_send(msk);
}
#endif

static struct mptcp_sched_ops pp_ops = {
#ifdef MPTCP_SUBFLOWS_MAX
	.get_subflow = pp_get_subflow,
#else
	/* Since 6.15. */
	.get_send = pp_get_send,
	.get_retrans = pp_get_retrans,
#endif
	.init = pp_init,
	.release = pp_release,
	.name = PP_STR(PP_CAT(pp_, PP_SCHED)),
	.owner = THIS_MODULE,
};

static int __init pp_register(void)
{
	return mptcp_register_scheduler(&pp_ops);
}
late_initcall(pp_register);
#endif
