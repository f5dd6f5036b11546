/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What both tables of glue.bpf.c have. It is included there alone, between braces. */
#ifdef PP_HAS_INIT
	.init = (void *)pp_init,
#endif
#ifdef PP_HAS_release
	.release = (void *)pp_release,
#endif
	.ssthresh = (void *)pp_ssthresh,
#ifdef PP_HAS_cong_avoid
	.cong_avoid = (void *)pp_cong_avoid,
#endif
#ifdef PP_HAS_SET_STATE
	.set_state = (void *)pp_set_state,
#endif
#ifdef PP_HAS_cwnd_event
	.cwnd_event = (void *)pp_cwnd_event,
#endif
#ifdef PP_HAS_in_ack_event
	.in_ack_event = (void *)pp_in_ack_event,
#endif
#ifdef PP_HAS_pkts_acked
	.pkts_acked = (void *)pp_pkts_acked,
#endif
	.undo_cwnd = (void *)pp_undo_cwnd,
#ifdef PP_HAS_cong_control
	.cong_control = (void *)pp_cong_control,
#endif
#ifdef PP_HAS_sndbuf_expand
	.sndbuf_expand = (void *)pp_sndbuf_expand,
#endif
#ifdef PP_HAS_min_tso_segs
	.min_tso_segs = (void *)pp_min_tso_segs,
#endif
	/* Everybody may choose it, in every network namespace, as if root had written it to
	 * net.ipv4.tcp_allowed_congestion_control. */
	.flags = PP_OPS_FLAGS,
	.name = PP_STR(PP_CAT(pp_, PP_ALG)),
