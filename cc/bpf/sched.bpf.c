/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Makes one scheduler of cc/sched a struct_ops `mptcp_sched_ops` named pp_<name>, for trees that
 * take schedulers as BPF (MPTCP's branch `export`; no release does). It is to such a tree what
 * cc/kernel/sched.c is to one that is built with ours.
 *
 * build.sh compiles it once for each scheduler with PP_SCHED (the name) and PP_SCHED_FILE (the C
 * file).
 *
 * Differences from cc/kernel/sched.c: BPF cannot move the place from which a connection goes on. So
 * one that sends everything on every subflow (redundant) gives new data to all that take it at
 * once, and nothing again; `scheduled` is told zero bytes there. Of a connection PP_MAX_SIBLINGS
 * subflows are looked at. What a subflow leaves undelivered goes to the first one that is idle.
 */
#define PP_BUILD_BPF 1

#include "pp_kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "pp_mptcp.h"
#include PP_SCHED_FILE

#define PP_CAT_(a, b) a##b
#define PP_CAT(a, b) PP_CAT_(a, b)
#define PP_STR_(a) #a
#define PP_STR(a) PP_STR_(a)
#define PP_OPS PP_CAT(pp_sched_, PP_SCHED)

_Static_assert(sizeof(PP_STR(PP_CAT(pp_, PP_SCHED))) <= 16, "the scheduler's name is longer than 12 letters");

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* A connection that this scheduler serves, while one hook runs and between them. */
struct pp_connection {
	struct pp_data_queue queue;
	struct pp_path_view paths[PP_MAX_SIBLINGS];
	struct pp_choice given;		/* the last choice of which `scheduled` has to be told */
	__u64 priv[PP_SCHED_STATE_BYTES / 8];
	__u64 subflow_priv[PP_MAX_SIBLINGS][PP_SCHED_SUBFLOW_BYTES / 8];
	__u32 ids[PP_MAX_SIBLINGS];	/* subflow_id of each */
	__u32 len;
	__u32 was_given;
	__u8 weights[PP_SCHED_MAX_SUBFLOWS];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct pp_connection);
} pp_connections SEC(".maps");

#define PP_CONTEXT(c)								\
	{									\
		.paths = (c)->paths, .queue = &(c)->queue, .priv = (c)->priv,	\
		.subflow_priv = (c)->subflow_priv, .weights = (c)->weights,	\
		.len = pp_min((c)->len, PP_MAX_SIBLINGS),			\
	}

SEC("struct_ops/init")
void BPF_PROG(pp_init, struct mptcp_sock *msk)
{
	struct pp_connection *c = bpf_sk_storage_get(&pp_connections, msk, NULL, BPF_SK_STORAGE_GET_F_CREATE);

	/* Without memory the connection sends nothing by this scheduler. */
	if (!c)
		return;
	__builtin_memset(c->weights, 1, sizeof(c->weights));
	if (PP_OPS.init) {
		struct pp_sched_ctx view = PP_CONTEXT(c);

		PP_OPS.init(&view);
	}
}

SEC("struct_ops/release")
void BPF_PROG(pp_release, struct mptcp_sock *msk)
{
	bpf_sk_storage_delete(&pp_connections, msk);
}

/* The index of a subflow, PP_MAX_SIBLINGS if there is no room. */
static __always_inline __u32 pp_index(struct pp_connection *c, __u32 id)
{
	__u32 i;

	for (i = 0; i < PP_MAX_SIBLINGS && i < c->len; i++)
		if (c->ids[i] == id)
			return i;
	if (i < PP_MAX_SIBLINGS) {
		c->ids[i] = id;
		c->len = i + 1;
	}
	return i;
}

static __always_inline void pp_view(struct mptcp_subflow_context *subflow, struct pp_path_view *p)
{
	struct sock *ssk = subflow->tcp_sock;
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(ssk);

	if (!tp)
		return;
	p->usable = mptcp_subflow_active(subflow);
	p->backup = BPF_CORE_READ_BITFIELD(subflow, backup) || BPF_CORE_READ_BITFIELD(subflow, request_bkup);
	p->room = ssk->sk_wmem_queued < ssk->sk_sndbuf;
	p->queued = ssk->sk_wmem_queued;
	/* The kernel says "not limited" as ~0 byte/s. */
	p->pacing_rate = pp_min64(ssk->sk_pacing_rate, ~0ULL / 8) * 8;
	p->mss = tp->mss_cache;
	p->unsent = tp->write_seq - tp->snd_nxt;
	p->rttvar_ns = tp->rttvar_us * 1000ULL;
	p->srtt_us = tp->srtt_us;
	p->cwnd = tp->snd_cwnd;
	p->in_flight = tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
	p->ssthresh = tp->snd_ssthresh;
	p->in_loss = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state) == PP_TCP_CA_LOSS;
}

static __always_inline void pp_look(struct pp_connection *c, struct mptcp_sock *msk)
{
	struct mptcp_subflow_context *subflow;
	struct bpf_iter_mptcp_subflow it;
	__u32 i;

	__builtin_memset(c->paths, 0, sizeof(c->paths));
	bpf_iter_mptcp_subflow_new(&it, (struct sock *)msk);
	while ((subflow = bpf_iter_mptcp_subflow_next(&it))) {
		i = pp_index(c, subflow->subflow_id);
		if (i < PP_MAX_SIBLINGS)
			pp_view(subflow, &c->paths[i]);
	}
	bpf_iter_mptcp_subflow_destroy(&it);
}

/* Where the connection goes on sending, and the end of the data: a DATA_FIN has a number too. */
static __always_inline void pp_read_queue(struct pp_connection *c, const struct mptcp_sock *msk)
{
	const struct mptcp_data_frag *head = msk->first_pending;

	c->queue.una = msk->snd_una;
	c->queue.end = msk->write_seq - msk->snd_data_fin_enable;
	c->queue.next = head ? head->data_seq + head->already_sent : c->queue.end;
	c->queue.window_end = c->queue.next + (msk->wnd_end - msk->snd_nxt);
	c->queue.now_ns = bpf_ktime_get_ns();
}

/* Lets the subflows send whose bit is set in `chosen`; returns what the hooks return. */
static __always_inline int pp_schedule(struct pp_connection *c, struct mptcp_sock *msk, __u32 chosen)
{
	struct mptcp_subflow_context *subflow;
	struct bpf_iter_mptcp_subflow it;
	int result = -1;
	__u32 i;

	bpf_iter_mptcp_subflow_new(&it, (struct sock *)msk);
	while ((subflow = bpf_iter_mptcp_subflow_next(&it))) {
		i = pp_index(c, subflow->subflow_id);
		if (i < PP_MAX_SIBLINGS && chosen >> i & 1) {
			mptcp_subflow_set_scheduled(subflow, 1);
			result = 0;
		}
	}
	bpf_iter_mptcp_subflow_destroy(&it);
	return result;
}

SEC("struct_ops/get_send")
int BPF_PROG(pp_get_send, struct mptcp_sock *msk)
{
	struct pp_connection *c = bpf_sk_storage_get(&pp_connections, msk, NULL, 0);
	const int copies = !!(PP_OPS.flags & PP_SCHED_NO_REINJECTION);
	struct pp_choice choice = { 0 };
	__u32 chosen = 0, i, n;
	__u64 place;

	if (!c)
		return -1;
	mptcp_set_timeout((struct sock *)msk);
	pp_look(c, msk);
	pp_read_queue(c, msk);
	place = c->queue.next;
	/* What was sent before is out of reach. */
	if (copies)
		c->queue.una = place;

	struct pp_sched_ctx view = PP_CONTEXT(c);

	if (PP_OPS.scheduled && c->was_given && pp_before64(c->given.from, place)) {
		choice = c->given;
		if (choice.subflow < view.len)
			PP_OPS.scheduled(&view, &choice, place - choice.from);
	}
	c->was_given = 0;
	if (PP_OPS.blocked && !(PP_OPS.flags & PP_SCHED_BURSTS)) {
		__u64 left = pp_window_left(&c->queue);

		for (i = 0; i < view.len; i++) {
			if (c->paths[i].usable && left < pp_min64(pp_waiting(&c->queue), c->paths[i].mss)) {
				PP_OPS.blocked(&view);
				break;
			}
		}
	}
	for (n = 0; n < (copies ? view.len : 1); n++) {
		if (!PP_OPS.pick(&view, &choice) || choice.subflow >= view.len || choice.from != place || chosen >> choice.subflow & 1)
			break;
		chosen |= 1U << choice.subflow;
		if (copies && PP_OPS.scheduled)
			PP_OPS.scheduled(&view, &choice, 0);
	}
	if (!chosen)
		return -1;
	if (choice.bytes)
		msk->snd_burst = pp_min64(choice.bytes, 0x7fffffff);
	if (!copies) {
		c->given = choice;
		c->was_given = 1;
	}
	return pp_schedule(c, msk, chosen);
}

/* A subflow that has nothing under way, one that is no backup first (Linux:
 * `mptcp_subflow_get_retrans`). */
SEC("struct_ops/get_retrans")
int BPF_PROG(pp_get_retrans, struct mptcp_sock *msk)
{
	struct pp_connection *c = bpf_sk_storage_get(&pp_connections, msk, NULL, 0);
	__u32 idle[2] = { 0, 0 };
	__u32 i;

	if (!c)
		return -1;
	pp_look(c, msk);
	for (i = 0; i < PP_MAX_SIBLINGS; i++)
		if (c->paths[i].usable && !c->paths[i].in_flight && !c->paths[i].unsent)
			idle[!!c->paths[i].backup] |= 1U << i;
	i = idle[0] ? idle[0] : idle[1];
	return pp_schedule(c, msk, i & -i);
}

SEC(".struct_ops")
struct mptcp_sched_ops PP_CAT(pp_, PP_SCHED) = {
	.get_send = (void *)pp_get_send,
	.get_retrans = (void *)pp_get_retrans,
	.init = (void *)pp_init,
	.release = (void *)pp_release,
	.name = PP_STR(PP_CAT(pp_, PP_SCHED)),
};
