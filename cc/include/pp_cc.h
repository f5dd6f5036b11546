/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The only interface between a congestion-control algorithm and the transport that runs it.
 *
 * An algorithm is one C file in cc/algs/ that defines one `struct pp_cc_ops` with PP_CC_REGISTER.
 * It is compiled unchanged into the simulator, into a BPF struct_ops object and into a kernel. So:
 * integers only, no 128-bit products, bounded loops, no libc, no mutable globals, no pointer kept
 * between calls. Only pp_env.h may ask which build this is.
 *
 * Hooks are called in the order in which Linux calls those of the same names.
 */
#ifndef PP_CC_H
#define PP_CC_H

#include "pp_env.h"

#define PP_CC_PRIV_BYTES 104	/* room the kernel gives an algorithm per socket */
#define PP_CC_STATE_BYTES 88	/* of these, what an algorithm may use; the kernel builds keep the rest */
#define PP_SSTHRESH_INFINITE 0x7fffffffU

/* Congestion states of the sender; values as in Linux's tcp_ca_state. */
enum pp_ca_state { PP_CA_OPEN = 0, PP_CA_DISORDER = 1, PP_CA_CWR = 2, PP_CA_RECOVERY = 3, PP_CA_LOSS = 4 };

/* What cwnd_event tells; values as in Linux's tcp_ca_event. */
enum pp_event {
	PP_EVENT_TX_START = 0,		/* first transmission with nothing in flight */
	PP_EVENT_CWND_RESTART = 1,	/* window reduced after idle */
	PP_EVENT_COMPLETE_CWR = 2,	/* end of a window reduction */
	PP_EVENT_LOSS = 3,		/* retransmission timeout */
	PP_EVENT_ECN_NO_CE = 4,
	PP_EVENT_ECN_IS_CE = 5,
};

/* in_ack_event's flags. */
enum pp_ack_flags { PP_ACK_SLOWPATH = 1, PP_ACK_WIN_UPDATE = 2, PP_ACK_ECE = 4 };

/*
 * Bits of pp_flow.compat: what an algorithm shall compute otherwise than the paper and Linux 6.12,
 * one property each. A transport that stands for a kernel sets those that the kernel has
 * (docs/reference/kernels.md); no file here asks which kernel that is.
 */
enum pp_compat {
	PP_COMPAT_HYSTART_MS = 1,		/* HyStart's clock has whole milliseconds, and its RTTs have eighths of one */
	PP_COMPAT_HYSTART_HALF_RTT = 2,		/* a train of ACKs may last half the least RTT, without an allowance for bursts or pacing */
	PP_COMPAT_HYSTART_LATE_ROUNDS = 4,	/* HyStart's first round begins once the window has 16 segments */
	PP_COMPAT_ACK_COUNTS_ONCE = 8,		/* to coupled algorithms an ACK is one segment, however much it acknowledges */
	PP_COMPAT_LIA_COARSE = 16,		/* LIA's alpha is a whole number of 1/4096, found by whole numbers */
	PP_COMPAT_OLIA_COARSE = 32,		/* what an ACK adds to OLIA's credit is a whole number of 2^-10 segments */
	PP_COMPAT_OLIA_KEEPS_CREDIT = 64,	/* a reduction leaves OLIA's credit as it is */
	PP_COMPAT_BALIA_WHOLE_ALPHA = 128,	/* Balia's cut on loss takes the whole part of alpha */
	PP_COMPAT_BALIA_ONE_SEGMENT = 256,	/* Balia's cut may leave a single segment */
};

/* One flow or subflow. "rw" marks what an algorithm may write. Windows are in segments of `mss`
 * bytes. */
struct pp_flow {
	__u64 now_ns;		/* virtual or monotonic time */
	__u64 pacing_rate;	/* rw byte/s; the transport's own rule overwrites it unless PP_CC_PACES is set */
	__u64 max_pacing_rate;	/* byte/s, ~0 = none */
	__u64 delivered_ns;	/* time of the most recent delivery */
	__u64 last_sent_ns;	/* time of the most recent transmission of data before the present one */
	__u64 bytes_acked;	/* since the connection began */
	__u64 next_send_ns;	/* when pacing lets the next segment leave; in the past: at once */
	__u32 cwnd;		/* rw segments */
	__u32 cwnd_cnt;		/* rw segments acknowledged toward the next increase */
	__u32 cwnd_clamp;	/* segments, upper bound of cwnd */
	__u32 ssthresh;		/* rw segments */
	__u32 prior_cwnd;	/* segments, cwnd before the reduction in progress */
	__u32 mss;		/* bytes of payload in a full segment */
	__u32 srtt_us;		/* smoothed RTT in microseconds, times 8 as in Linux; 0 before the first sample */
	__u32 mdev_us;		/* medium deviation in microseconds, times 4 */
	__u32 min_rtt_us;	/* windowed minimum RTT; ~0 before the first sample */
	__u32 in_flight;	/* segments in the network */
	__u32 packets_out;	/* segments sent and not cumulatively acknowledged */
	__u32 max_packets_out;	/* most packets_out of the last window */
	__u32 delivered;	/* segments delivered since the connection began, wraps */
	__u32 delivered_ce;	/* of these, marked CE */
	__u32 lost;		/* segments marked lost since the connection began, wraps */
	__u32 snd_una;		/* first unacknowledged sequence number, bytes, wraps */
	__u32 snd_nxt;		/* next sequence number to send, bytes, wraps */
	__u32 write_seq;	/* end of the data accepted for sending, bytes, wraps */
	__u32 app_limited;	/* rw delivered + in_flight when the application last had nothing to send; 0 = not limited */
	__u32 reordering;	/* segments */
	__u32 ts_peer;		/* the peer's timestamp in the last segment it sent (RFC 7323), ticks of its clock, which begins anywhere; 0 = none */
	__u32 ts_echo;		/* its echo of ours, ms of now_ns, wraps */
	__u8  ca_state;		/* enum pp_ca_state */
	__u8  cwnd_limited;	/* 1: the window, not the application, limited the last round of sending */
	__u8  ecn_ok;		/* ECN negotiated */
	__u8  established;	/* handshake complete */
	__u8  pacing;		/* rw 1: the algorithm asks for pacing */
	__u8  tso_segs_goal;	/* rw 0: the transport's rule */
	__u8  reduce;		/* rw 1, in cong_avoid with PP_CC_REDUCES: the transport enters CWR, as on an ECN mark, and asks ssthresh where to */
	__u8  reserved;
	__u32 random;		/* a fresh pseudo-random number at each call, if PP_CC_DRAWS is set */
	__u32 compat;		/* bits of enum pp_compat */
};

/* What one ACK delivered (Linux's rate_sample and ack_sample in one). */
struct pp_sample {
	__u64 prior_ns;		/* start of the delivery interval */
	__s64 interval_us;	/* length of the delivery interval; negative = no valid sample */
	__s64 rtt_us;		/* RTT of the last segment acknowledged by this ACK; negative = none */
	__u32 prior_delivered;	/* pp_flow.delivered when the most recently sent segment that this ACK delivered was sent */
	__s32 delivered;	/* segments delivered over the interval; negative = no valid sample */
	__s32 losses;		/* segments marked lost by this ACK */
	__u32 acked_sacked;	/* segments newly acknowledged or sacked by this ACK */
	__u32 pkts_acked;	/* for the hook pkts_acked alone: segments newly acknowledged cumulatively, sacked before or not; 0 if some were only sacked */
	__u32 prior_in_flight;	/* segments in flight before this ACK */
	__u32 last_end_seq;	/* end sequence number of the most recently sent segment delivered */
	__u8  is_app_limited;
	__u8  is_retrans;
	__u8  is_ack_delayed;
	__u8  is_ece;
};

/*
 * What a coupled algorithm sees of each subflow of its connection. A loss is the entry into CWR,
 * Recovery or Loss (noted when set_state is called) if anything was acknowledged since the last
 * one; before the first loss bytes_since_loss counts from the beginning and bytes_between_losses is
 * 0.
 */
struct pp_sibling {
	__u64 bytes_since_loss;		/* acknowledged since the last loss (OLIA's l2) */
	__u64 bytes_between_losses;	/* acknowledged between the last two losses (OLIA's l1) */
	__u64 priv_word;		/* the first 8 bytes of that subflow's private state */
	__u32 cwnd;			/* segments */
	__u32 ssthresh;			/* segments */
	__u32 srtt_us;			/* times 8 as in pp_flow */
	__u32 mss;			/* bytes */
	__u8  ca_state;			/* enum pp_ca_state */
	__u8  in_recovery;		/* in recovery or loss */
	__u8  usable;			/* established, can send, and has an RTT sample: count it */
	__u8  reserved[5];
};

struct pp_siblings {
	__u32 len;	/* entries used; 1 for plain TCP */
	__u32 self;	/* which of them is this subflow */
	struct pp_sibling at[PP_MAX_SIBLINGS];
};

/*
 * Everything a hook is given. `siblings` is null unless the ops carry PP_CC_COUPLED, for plain TCP,
 * and in the BPF build in all hooks but ssthresh, cong_avoid and cong_control: no other hook may
 * need it. The own entry may be older than the flow.
 */
struct pp_ctx {
	struct pp_flow *flow;
	void *priv;			/* PP_CC_PRIV_BYTES, 8-byte aligned, zeroed before init */
	const struct pp_siblings *siblings;
};

enum pp_cc_flags {
	PP_CC_COUPLED = 1,		/* wants siblings */
	PP_CC_PACES = 2,		/* sets pacing_rate itself */
	PP_CC_NEEDS_ECN = 4,
	PP_CC_SEES_SAMPLES = 8,		/* has cong_control: replaces the transport's window rules */
	PP_CC_DRAWS = 16,		/* looks at pp_flow.random */
	PP_CC_REDUCES = 32,		/* sets pp_flow.reduce */
	PP_CC_SEES_STAMPS = 64,		/* looks at pp_flow.ts_peer, which begins at a random value */
	PP_CC_ECT_1 = 128,		/* with PP_CC_NEEDS_ECN: packets say ECT(1) (RFC 9331), where the transport can */
};

/* By what an algorithm knows congestion. */
enum pp_family {
	PP_FAMILY_LOSS = 0,	/* by losses and marks */
	PP_FAMILY_DELAY = 1,	/* by the RTT */
	PP_FAMILY_HYBRID = 2,	/* by both */
	PP_FAMILY_MODEL = 3,	/* by a model of the path: its rate and its least RTT */
};

/* Facts for people, beside the ops table: `polypath list cc` shows them. Texts that are not
 * there are empty. */
struct pp_cc_about {
	__u32 family;		/* enum pp_family */
	char source[100];	/* papers and standards, one line */
	char counterpart[16];	/* what Linux calls its own of this kind */
	char aliases[48];	/* what else people call it, lower case, with spaces between */
};

/* Any hook but ssthresh, cong_avoid (or cong_control) and undo_cwnd may be null. */
struct pp_cc_ops {
	char name[16];
	__u32 flags;
	__u32 priv_bytes;
	void (*init)(struct pp_ctx *c);
	void (*release)(struct pp_ctx *c);
	__u32 (*ssthresh)(struct pp_ctx *c);			/* new slow-start threshold on loss or ECN */
	void (*cong_avoid)(struct pp_ctx *c, __u32 ack, __u32 acked);	/* acked segments, sender in Open or Disorder */
	void (*set_state)(struct pp_ctx *c, __u32 new_state);	/* before flow->ca_state changes */
	void (*cwnd_event)(struct pp_ctx *c, __u32 event);
	void (*in_ack_event)(struct pp_ctx *c, __u32 flags);
	void (*pkts_acked)(struct pp_ctx *c, const struct pp_sample *s);
	__u32 (*undo_cwnd)(struct pp_ctx *c);			/* window to return to after a spurious reduction */
	void (*cong_control)(struct pp_ctx *c, __u32 ack, __u32 ack_flags, const struct pp_sample *s);
	__u32 (*sndbuf_expand)(struct pp_ctx *c);		/* send buffer in windows; null = 2 */
	__u32 (*min_tso_segs)(struct pp_ctx *c);		/* null = 2 */
};

#endif
