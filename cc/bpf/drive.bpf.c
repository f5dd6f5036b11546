/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Runs the hooks of one algorithm of cc/algs on made-up flows in the kernel, without a socket: what
 * is to be called lies in the map of `pp_call`, and the outcome is written back there. The kernel
 * does not run struct_ops programs for tests; this is the same C file, compiled with the same flags
 * (build.sh), given the same kinds of memory as by the glue (the flow on the stack, private state
 * and siblings elsewhere), verified and translated by the same kernel.
 */
#define PP_BUILD_BPF 1

#include "pp_kernel.h"

#include <bpf/bpf_helpers.h>

#include PP_ALG_FILE

#define PP_CAT_(a, b) a##b
#define PP_CAT(a, b) PP_CAT_(a, b)
#define PP_OPS PP_CAT(pp_cc_, PP_ALG)

/* Numbers of the hooks; crates/bpf/src/drive.rs has the same. */
enum {
	PP_HOOK_INIT = 0,
	PP_HOOK_RELEASE = 1,
	PP_HOOK_SSTHRESH = 2,
	PP_HOOK_CONG_AVOID = 3,
	PP_HOOK_SET_STATE = 4,
	PP_HOOK_CWND_EVENT = 5,
	PP_HOOK_IN_ACK_EVENT = 6,
	PP_HOOK_PKTS_ACKED = 7,
	PP_HOOK_UNDO_CWND = 8,
	PP_HOOK_CONG_CONTROL = 9,
	PP_HOOK_SNDBUF_EXPAND = 10,
	PP_HOOK_MIN_TSO_SEGS = 11,
};

/* One call; crates/bpf/src/drive.rs mirrors it. */
struct pp_call {
	struct pp_flow flow;
	struct pp_sample sample;
	struct pp_siblings siblings;
	__u64 priv[PP_CC_PRIV_BYTES / 8];
	__u32 hook;
	__u32 value;		/* acknowledged segments, state, event or flags, as the hook wants it */
	__u32 has_siblings;
	__u32 result;		/* of the hooks that have one */
};

struct pp_call pp_call;

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("syscall")
int pp_drive(void *unused)
{
	struct pp_flow flow = pp_call.flow;
	struct pp_ctx c = { &flow, pp_call.priv, NULL };
	__u32 hook = pp_call.hook, value = pp_call.value;

	(void)unused;
	(void)value;
	/* As in the glue: siblings are there for these hooks only. */
#ifdef PP_COUPLED
	if (pp_call.has_siblings && (hook == PP_HOOK_SSTHRESH || hook == PP_HOOK_CONG_AVOID || hook == PP_HOOK_CONG_CONTROL))
		c.siblings = &pp_call.siblings;
#endif
	pp_call.result = hook == PP_HOOK_SNDBUF_EXPAND || hook == PP_HOOK_MIN_TSO_SEGS ? 2 : 0;	/* of an absent hook */
	switch (hook) {
#ifdef PP_HAS_init
	case PP_HOOK_INIT:
		PP_OPS.init(&c);
		break;
#endif
#ifdef PP_HAS_release
	case PP_HOOK_RELEASE:
		PP_OPS.release(&c);
		break;
#endif
	case PP_HOOK_SSTHRESH:
		pp_call.result = PP_OPS.ssthresh(&c);
		break;
#ifdef PP_HAS_cong_avoid
	case PP_HOOK_CONG_AVOID:
		PP_OPS.cong_avoid(&c, flow.snd_una, value);
		break;
#endif
#ifdef PP_HAS_set_state
	case PP_HOOK_SET_STATE:
		PP_OPS.set_state(&c, value);
		break;
#endif
#ifdef PP_HAS_cwnd_event
	case PP_HOOK_CWND_EVENT:
		PP_OPS.cwnd_event(&c, value);
		break;
#endif
#ifdef PP_HAS_in_ack_event
	case PP_HOOK_IN_ACK_EVENT:
		PP_OPS.in_ack_event(&c, value);
		break;
#endif
#ifdef PP_HAS_pkts_acked
	case PP_HOOK_PKTS_ACKED:
		PP_OPS.pkts_acked(&c, &pp_call.sample);
		break;
#endif
	case PP_HOOK_UNDO_CWND:
		pp_call.result = PP_OPS.undo_cwnd(&c);
		break;
#ifdef PP_HAS_cong_control
	case PP_HOOK_CONG_CONTROL:
		PP_OPS.cong_control(&c, flow.snd_una, value, &pp_call.sample);
		break;
#endif
#ifdef PP_HAS_sndbuf_expand
	case PP_HOOK_SNDBUF_EXPAND:
		pp_call.result = PP_OPS.sndbuf_expand(&c);
		break;
#endif
#ifdef PP_HAS_min_tso_segs
	case PP_HOOK_MIN_TSO_SEGS:
		pp_call.result = PP_OPS.min_tso_segs(&c);
		break;
#endif
	}
	pp_call.flow = flow;
	return 0;
}
