/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The one file that may ask which build this is: PP_BUILD_BPF, PP_BUILD_KERNEL, or neither for the
 * native build.
 */
#ifndef PP_ENV_H
#define PP_ENV_H

#if !defined(PP_BUILD_BPF) && !defined(PP_BUILD_KERNEL)
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed int __s32;
typedef signed long long __s64;
#endif

/*
 * Hides from the compiler what it knows of x. The BPF verifier walks every combination of branches;
 * where a comparison is written as arithmetic to spare it one, the compiler would otherwise turn it
 * back into a branch.
 */
#if defined(PP_BUILD_BPF)
#define PP_OPAQUE(x) __asm__ volatile("" : "+r"(x))
#else
#define PP_OPAQUE(x) ((void)(x))
#endif

/*
 * Makes the compiler read anew what a state holds. A BPF verifier takes a value that stays in a
 * register for known once a branch has looked at it, and walks all that follows once for each
 * value.
 */
#define PP_REREAD(state) PP_OPAQUE(state)

/* A quotient of 64 bits. A kernel for processors of 32 bits has no `/` for it. */
#if defined(PP_BUILD_KERNEL)
#include <linux/math64.h>
#define PP_DIV64(a, b) div64_u64(a, b)
#else
#define PP_DIV64(a, b) ((a) / (b))
#endif

/* Whether a product does not fit 64 bits; the product goes to `*product`. For the compiler's own way
 * LLVM wants 128 bits, which BPF has not. */
#if defined(PP_BUILD_BPF)
#define PP_MUL_OVERFLOWS(a, b, product)						\
	({									\
		__u64 most_ = (b) ? ~0ULL / (b) : ~0ULL;			\
		PP_OPAQUE(most_);						\
		*(product) = (a) * (b);						\
		(a) > most_;							\
	})
#else
#define PP_MUL_OVERFLOWS(a, b, product) __builtin_mul_overflow(a, b, product)
#endif

/* A constant table. Of one with 4, 8, 16 or 32 bytes LLVM makes a mergeable section, which the
 * loader of BPF objects does not know. */
#if defined(PP_BUILD_BPF)
#define PP_TABLE static const __attribute__((section(".rodata")))
#else
#define PP_TABLE static const
#endif

/* 1 where a way round a calculation costs more than the calculation: the BPF verifier walks it
 * as one more combination. */
#if defined(PP_BUILD_BPF)
#define PP_VERIFIER_PREFERS_STRAIGHT_CODE 1
#else
#define PP_VERIFIER_PREFERS_STRAIGHT_CODE 0
#endif

/* Subflows that a coupled algorithm sees, its own included: as many as the transport has. Linux
 * allows eight further ones. */
#if defined(PP_BUILD_BPF) || defined(PP_BUILD_KERNEL)
#define PP_MAX_SIBLINGS 9
#else
#define PP_MAX_SIBLINGS 32
#endif

/*
 * Defines the one ops table of an algorithm's or scheduler's file and the facts about it, both
 * named after the file. The native build links all of them by name; in the other two a glue file
 * includes the algorithm's, and internal linkage lets the compiler see through the table, which in
 * the BPF build must vanish (it has no indirect calls).
 */
#if defined(PP_BUILD_BPF) || defined(PP_BUILD_KERNEL)
#define PP_CC_REGISTER(alg) static const struct pp_cc_ops pp_cc_##alg
#define PP_CC_ABOUT(alg) static const struct pp_cc_about pp_about_##alg __attribute__((unused))
#define PP_SCHED_REGISTER(sched) static const struct pp_sched_ops pp_sched_##sched
#define PP_SCHED_ABOUT(sched) static const struct pp_sched_about pp_sched_about_##sched __attribute__((unused))
#else
#define PP_CC_REGISTER(alg) const struct pp_cc_ops pp_cc_##alg
#define PP_CC_ABOUT(alg) const struct pp_cc_about pp_about_##alg
#define PP_SCHED_REGISTER(sched) const struct pp_sched_ops pp_sched_##sched
#define PP_SCHED_ABOUT(sched) const struct pp_sched_about pp_sched_about_##sched
#endif

#endif
