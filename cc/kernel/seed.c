/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The run's seed for releases that ask the host for no random numbers: before 5.18 they draw from
 * their clock, which begins at the same time in every run. Later ones ask (host.c).
 */
#include <linux/init.h>
#include <linux/random.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 18, 0)
/* host.c */
unsigned long long pp_host_seed(void);

static int __init pp_seed(void)
{
	unsigned long long seed = pp_host_seed();

	add_device_randomness(&seed, sizeof(seed));
	return 0;
}
early_initcall(pp_seed);
#endif
