/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What pp_kernel.h is for congestion controls, for schedulers: MPTCP's structures, and the functions
 * that a kernel with BPF schedulers lends them.
 */
#ifndef PP_MPTCP_H
#define PP_MPTCP_H

#include "pp_kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct mptcp_data_frag {
	__u64 data_seq;
	__u16 data_len;
	__u16 already_sent;
};

struct mptcp_subflow_context {
	struct list_head node;
	__u32 request_bkup : 1;
	__u32 backup : 1;
	__u32 subflow_id;
	struct sock *tcp_sock;
	struct sock *conn;
};

struct mptcp_sock {
	struct inet_connection_sock sk;
	__u64 write_seq;
	__u64 snd_nxt;
	int snd_burst;			/* bytes before the scheduler is asked again; schedulers may write it */
	__u64 snd_una;
	__u64 wnd_end;
	bool snd_data_fin_enable;
	struct list_head conn_list;
	struct mptcp_data_frag *first_pending;
};

/* From 6.15 on. */
struct mptcp_sched_ops {
	int (*get_send)(struct mptcp_sock *msk);
	int (*get_retrans)(struct mptcp_sock *msk);
	char name[16];
	void (*init)(struct mptcp_sock *msk);
	void (*release)(struct mptcp_sock *msk);
};

#pragma clang attribute pop

struct bpf_iter_mptcp_subflow {
	__u64 opaque[2];
} __attribute__((aligned(8)));

extern int bpf_iter_mptcp_subflow_new(struct bpf_iter_mptcp_subflow *it, struct sock *sk) __ksym;
extern struct mptcp_subflow_context *bpf_iter_mptcp_subflow_next(struct bpf_iter_mptcp_subflow *it) __ksym;
extern void bpf_iter_mptcp_subflow_destroy(struct bpf_iter_mptcp_subflow *it) __ksym;
extern bool mptcp_subflow_active(struct mptcp_subflow_context *subflow) __ksym;
extern void mptcp_subflow_set_scheduled(struct mptcp_subflow_context *subflow, bool scheduled) __ksym;
extern void mptcp_set_timeout(struct sock *sk) __ksym;

#endif
