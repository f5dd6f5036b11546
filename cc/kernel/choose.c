/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One scheduler of cc/sched as a kernel compiles it, without a kernel around it: `polypath sched
 * check` compiles it with a kernel's own flags and compares it with the simulator's build. PP_SCHED
 * is the name, PP_SCHED_FILE the C file.
 */
#define PP_BUILD_KERNEL 1

#include <linux/types.h>
#include "pp_env.h"

/* Seen from outside. */
#undef PP_SCHED_REGISTER
#define PP_SCHED_REGISTER(sched) const struct pp_sched_ops pp_sched_##sched

#include PP_SCHED_FILE
