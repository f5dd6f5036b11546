/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The kernel's structures as far as the glue reads them. Every field is found in the running
 * kernel's BTF when an object is loaded (CO-RE), so this header fits any release that has the
 * fields, and objects compile on machines without BTF.
 */
#ifndef PP_KERNEL_H
#define PP_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef signed short __s16;
typedef signed int __s32;
typedef signed long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

#define NULL ((void *)0)
#define BPF_MAP_TYPE_SK_STORAGE 24
#define BPF_F_NO_PREALLOC 1
#define BPF_SK_STORAGE_GET_F_CREATE 1

#define PP_TCP_ESTABLISHED 1	/* skc_state */
#define PP_TCP_CLOSE 7
#define PP_TCP_CLOSE_WAIT 8
#define PP_TCP_LISTEN 10
#define PP_TCP_CA_LOSS 4		/* icsk_ca_state */
#define PP_TCP_ECN_OK 17	/* ecn_flags: RFC 3168 or, from 6.18 on, AccECN; a bit without a meaning before */
#define PP_TCP_CONG_NON_RESTRICTED 1	/* flags of an ops table */
#define PP_TCP_CONG_NEEDS_ECN 2
#define PP_SOL_SOCKET 1		/* asm-generic/socket.h */
#define PP_SO_MAX_PACING_RATE 47
#define PP_SOL_TCP 6
#define PP_TCP_CONGESTION 13

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head {
	struct list_head *next;
};

struct sock_common {
	unsigned char skc_state;
};

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;		/* byte/s; ~0 = not limited */
	unsigned long sk_max_pacing_rate;
	__u32 sk_pacing_status;
	int sk_wmem_queued;
	int sk_sndbuf;
};

struct inet_sock {
	struct sock sk;
};

struct tcp_congestion_ops;

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	void *icsk_ulp_data;
	__u8 icsk_ca_state : 5;
	struct {
		__u8 pending;
	} icsk_ack;
	__u64 icsk_ca_priv[13];
};

struct tcp_rack {
	__u64 mstamp;
};

struct minmax_sample {
	__u32 t;
	__u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_options_received {
	__u32 rcv_tsval;
	__u32 rcv_tsecr;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	bool is_mptcp;
	__u64 bytes_acked;
	__u64 tcp_mstamp;		/* us */
	__u64 tcp_wstamp_ns;		/* when pacing lets the next segment leave */
	__u64 delivered_mstamp;		/* us */
	__u32 lsndtime;			/* jiffies, the low 32 bits */
	__u32 rcv_nxt;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 write_seq;
	__u32 mss_cache;
	__u32 packets_out;
	__u32 retrans_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 max_packets_out;
	__u32 snd_cwnd;
	__u32 snd_cwnd_cnt;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 prior_cwnd;
	__u32 srtt_us;
	__u32 mdev_us;
	__u32 rttvar_us;
	struct minmax rtt_min;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 lost;
	__u32 app_limited;
	__u32 reordering;
	struct tcp_options_received rx_opt;
	__u8 ecn_flags;
	__u8 is_cwnd_limited : 1;
};

struct ack_sample {
	__u32 pkts_acked;
	__s32 rtt_us;
	__u32 in_flight;
};

struct rate_sample {
	__u64 prior_mstamp;		/* us */
	__u32 prior_delivered;
	__s32 delivered;
	long interval_us;
	long rtt_us;
	int losses;
	__u32 acked_sacked;
	__u32 prior_in_flight;
	__u32 last_end_seq;		/* from 6.1 on */
	bool is_app_limited;
	bool is_retrans;
	bool is_ack_delayed;
};

/* Of schedulers pp_mptcp.h has them. */
#ifndef PP_SCHED
struct mptcp_subflow_context {
	struct list_head node;
	struct sock *tcp_sock;
	struct sock *conn;
};

struct mptcp_sock {
	struct list_head conn_list;
};
#endif

#define PP_TCP_CONGESTION_OPS						\
	void (*init)(struct sock *sk);					\
	void (*release)(struct sock *sk);				\
	__u32 (*ssthresh)(struct sock *sk);				\
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);	\
	void (*set_state)(struct sock *sk, __u8 new_state);		\
	void (*cwnd_event)(struct sock *sk, __u32 event);		\
	void (*in_ack_event)(struct sock *sk, __u32 flags);		\
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample); \
	__u32 (*undo_cwnd)(struct sock *sk);				\
	/* From 6.10 on. */						\
	void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs); \
	__u32 (*sndbuf_expand)(struct sock *sk);			\
	__u32 (*min_tso_segs)(struct sock *sk);				\
	__u32 flags;							\
	char name[16];

struct tcp_congestion_ops {
	PP_TCP_CONGESTION_OPS
};

/* The same of 7.x. What follows the three underscores is no part of the kernel's name. */
struct tcp_congestion_ops___tx_start {
	PP_TCP_CONGESTION_OPS
	void (*cwnd_event_tx_start)(struct sock *sk);
};

#pragma clang attribute pop

#endif
