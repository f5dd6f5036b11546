/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Lets time go by for a program that polls.
 *
 * Virtual time stands while programs run. The kernel itself lets 256 ns go by where a fine clock is
 * read (timer_read() in arch/um/kernel/time.c), as in poll(), and 1 us where a call fails
 * (handle_syscall()). But a program that polls a clock of whole ticks, as times(), or of its own
 * processing, or epoll_wait() without a timeout, would do so for ever. So after PP_PATIENCE such
 * calls in a row that found nothing, at one instant and with no other call of any program between
 * them, the clock goes on to the kernel's next event, at the latest the next tick.
 *
 * A run in which no program polls like that is the same with this as without it. Who polls memory,
 * or files that are there, still waits for ever.
 */
/* host.c: the current program calls the kernel. `result`: what its call before returned. */
void pp_clock_called(long result);

/* Before it (5.7) there is no list of what is to happen when, and a program that polls waits. */
#if !__has_include(<linux/time-internal.h>)
void pp_clock_called(long result)
{
}
#else
#include <linux/delay.h>
#include <linux/list.h>
#include <linux/sched.h>
#include <linux/time-internal.h>
#include <asm/unistd.h>

/* The kernel's own, which the link makes visible (python/polypath/linux/_link.py). */
extern unsigned long long time_travel_time;
extern struct list_head time_travel_events;

#define PP_PATIENCE 64	/* calls; programs that back off from a lock yield some ten times */

static struct {
	unsigned long long at;	/* ns */
	unsigned int calls;
} pp_asked;

/* Whether a call asked only whether there is something, or what time it is, and there was
 * nothing. */
static bool pp_found_nothing(long call, long result)
{
	switch (call) {
	case __NR_clock_gettime:
	case __NR_getrusage:
	case __NR_sched_yield:
	case __NR_time:
	case __NR_times:
		return true;
	case __NR_epoll_pwait:
#ifdef __NR_epoll_pwait2
	case __NR_epoll_pwait2:
#endif
	case __NR_epoll_wait:
	case __NR_wait4:
		return result == 0;
	}
	return false;
}

void pp_clock_called(long result)
{
	/* -1: it had a page fault in between. The new call's number is not there yet. */
	long before = current->thread.regs.regs.syscall;
	struct time_travel_event *next;

	if (time_travel_time != pp_asked.at || !pp_found_nothing(before, result)) {
		pp_asked.at = time_travel_time;
		pp_asked.calls = 0;
		return;
	}
	if (++pp_asked.calls < PP_PATIENCE)
		return;
	pp_asked.calls = 0;
	next = list_first_entry_or_null(&time_travel_events, struct time_travel_event, list);
	if (next)
		time_travel_ndelay(next->time - time_travel_time);
}
#endif
