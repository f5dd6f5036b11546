/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The only interface between an MPTCP scheduler and the connection that asks it.
 *
 * A scheduler is one C file in cc/sched/ that defines one `struct pp_sched_ops` with
 * PP_SCHED_REGISTER. It is compiled unchanged into the simulator and into a kernel. The language is
 * that of congestion controls (pp_cc.h): integers only, bounded loops, no libc, no mutable globals,
 * no pointer kept between calls.
 *
 * `pick` is asked again until it chooses nothing. Choosing nothing while data wait means to wait:
 * it is asked again at the next ACK. So wait only for a subflow that has something in flight.
 */
#ifndef PP_SCHED_H
#define PP_SCHED_H

#include "pp_env.h"

#define PP_SCHED_MAX_SUBFLOWS 32	/* subflows of a connection, those that ended included */
#define PP_SCHED_STATE_BYTES 64		/* room for private state per connection */
#define PP_SCHED_SUBFLOW_BYTES 16	/* and per subflow */
#define PP_SCHED_WHOLE_BUFFER (~0ULL)	/* pp_choice.bytes: all of the sender's buffer that has the byte at `from` */

/* What a kernel's faults make a scheduler compute otherwise; a model of that kernel sets it. */
enum pp_sched_compat {
	PP_SCHED_COMPAT_ECF_OVERFLOWS = 1,	/* the products of ecf are 32 bits wide */
	PP_SCHED_COMPAT_REDUNDANT_REPEATS = 2,	/* redundant begins again at the oldest buffer that is not acknowledged as a whole */
};

/* A subflow and its path. */
struct pp_path_view {
	__u64 pacing_rate;	/* bit/s; 0: not known yet */
	__u64 mss;		/* bytes of payload in a full segment */
	__u64 unsent;		/* bytes given to the subflow and not sent yet */
	__u64 queued;		/* bytes of memory in its send queue, sent or not (Linux: sk_wmem_queued) */
	__u64 rttvar_ns;	/* variation of the RTT, never below the least retransmission timeout (Linux: rttvar_us) */
	__u32 srtt_us;		/* smoothed RTT in microseconds, times 8; 0 before the first sample */
	__u32 cwnd;		/* congestion window, segments */
	__u32 in_flight;	/* segments in the network */
	__u32 ssthresh;		/* segments; 0x7fffffff before the first loss */
	__u32 buffers;		/* buffers of which something is unsent; counted only where burst > 0 */
	__u32 burst;		/* segments that leave as one; > 0: the window is counted in buffers (MPTCP 0.96), 0: in bytes */
	__u8 usable;		/* it can send, and was not given up as stale */
	__u8 backup;		/* only to be used when no other can be (RFC 8684 section 3.3.8) */
	__u8 room;		/* its send buffer takes more */
	__u8 in_loss;		/* in the Loss state, after a retransmission timeout */
	__u8 wins_ties;		/* it comes before an older one whose RTT is the same */
	__u8 reserved[3];
};

/* The data of the connection, in data sequence numbers, and the time. */
struct pp_data_queue {
	__u64 una;		/* first byte that the peer has not acknowledged */
	__u64 next;		/* first byte never given to any subflow */
	__u64 end;		/* end of what the application wrote */
	__u64 window_end;	/* end of the window that the peer advertised */
	__u64 now_ns;
};

/* Which bytes go where. */
struct pp_choice {
	__u64 from;		/* queue->next for new data, less for what went elsewhere before */
	__u64 bytes;		/* so many before the scheduler is asked again; Linux rounds up to whole fragments */
	__u32 subflow;		/* index into paths */
	__u32 reserved;
};

/* Everything a hook is given. */
struct pp_sched_ctx {
	const struct pp_path_view *paths;	/* in the order in which the subflows were opened */
	const struct pp_data_queue *queue;
	void *priv;			/* PP_SCHED_STATE_BYTES, zeroed before init */
	void *subflow_priv;		/* PP_SCHED_SUBFLOW_BYTES for each subflow, zeroed before its first pick */
	const __u8 *weights;		/* for each subflow; 1 unless the person said otherwise */
	__u32 len;			/* of paths, at most PP_SCHED_MAX_SUBFLOWS */
	__u32 compat;			/* bits of enum pp_sched_compat */
};

enum pp_sched_flags {
	/* It hands out long bursts to subflows with room in the send buffer, and of a path reads
	 * only usable, backup, queued, room and pacing_rate. The first word of a subflow's state is
	 * zero as long as it has not looked at that subflow. */
	PP_SCHED_BURSTS = 1,
	/* What holds up the peer's window is not sent again on a fast path (Raiciu et al. 2012), where
	 * that is the scheduler's to say: MPTCP 0.96. */
	PP_SCHED_KEEPS_HEAD = 2,
	/* What a path leaves undelivered does not go to the others: it went there already. */
	PP_SCHED_NO_REINJECTION = 4,
	/* Looks at weights: a person may write them behind its name, "weighted 3:1". */
	PP_SCHED_WEIGHTS = 8,
};

/* Any hook but pick may be null. */
struct pp_sched_ops {
	char name[16];
	__u32 flags;		/* enum pp_sched_flags */
	__u32 priv_bytes;	/* of PP_SCHED_STATE_BYTES */
	__u32 subflow_bytes;	/* of PP_SCHED_SUBFLOW_BYTES */
	__u32 reserved;
	void (*init)(struct pp_sched_ctx *c);	/* the connection begins; no paths and no queue */
	__u32 (*pick)(struct pp_sched_ctx *c, struct pp_choice *choice);	/* 1: chosen, 0: nothing to send now, or wait */
	void (*scheduled)(struct pp_sched_ctx *c, const struct pp_choice *choice, __u64 bytes);	/* so much of a choice was given to the subflow */
	void (*blocked)(struct pp_sched_ctx *c);	/* the peer's window or the send buffer held everything up */
};

/* Facts for people: `polypath list schedulers` shows them. */
struct pp_sched_about {
	char what[160];		/* what it does, one line */
};

#endif
