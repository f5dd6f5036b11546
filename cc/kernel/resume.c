/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How a stopped program goes on.
 *
 * Before it does, the kernel often has pages for it to map, which only its own process can do. The
 * kernel lets it run a piece of code for that, waits until it has stopped once more, and gives it
 * its registers. A stop takes the host longer than a dozen mappings. So here that code is put off
 * until the program goes on, and another one is run then, which ends in the program (stub.c).
 *
 * The host must stop the program at its system calls and let that code make its own. It tells them
 * apart by where the call lies in memory (its system call user dispatch, Linux 5.11): a call from
 * elsewhere is a signal, SIGSYS, which stops the process as every signal does. The kernel is told
 * of a stop for a call. A host without it does as the kernel asks.
 *
 * A machine is no prison: a program that jumps into that code can make every call of the host that
 * the user who runs the machine can.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/user.h>
#include <sys/wait.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
enum { DISPATCH_OFF, DISPATCH_ON };
#define PAGE_BYTES 4096
/* Of a 64-bit program: its segments, the addresses that it can have, and the flags with which it
 * begins. */
#define USER_CS 0x33
#define USER_SS 0x2b
#define USER_END (1UL << 47)
#define FLAGS 0x202
#define CALL_AND_TRAP 0xcc050fL	/* the instructions at pp_stub_page()'s `call` */

/* stub.c */
int pp_stub_waits(int pid, unsigned long at);
unsigned long pp_stub_start(const unsigned long *back, unsigned long *stack);
long pp_stub_error(void);
unsigned long pp_stub_page(unsigned long *call);

/* The kernel's own, in releases that stub.c knows. */
void report_enomem(void) __attribute__((weak));
void fatal_sigsegv(void) __attribute__((weak));
int _printk(const char *format, ...) __attribute__((weak));

long __real_ptrace(int request, pid_t pid, void *address, void *data);
pid_t __real_waitpid(pid_t pid, int *status, int options);

/* Processes whose calls are signals, each at its id modulo PLACES. One that finds its place
 * taken goes on as the kernel asks. */
#define PLACES 256	/* a power of two */
static pid_t dispatched[PLACES];

/* The process that the kernel has given registers, and these. It gets them when it goes on. */
static struct registers {
	pid_t pid;	/* 0: none */
	struct user_regs_struct registers;
} given;

/* The process that has mappings to do first, with the registers for the kernel's own code; and
 * the one that began with them when it last went on. */
static struct registers waits;
static pid_t maps;

int pp_resume_dispatched(pid_t pid)
{
	return pid > 0 && dispatched[pid % PLACES] == pid;
}

/* A process has ended, or will. */
void pp_resume_gone(pid_t pid)
{
	if (pp_resume_dispatched(pid))
		dispatched[pid % PLACES] = 0;
	if (given.pid == pid)
		given.pid = 0;
	if (waits.pid == pid)
		waits.pid = 0;
	if (maps == pid)
		maps = 0;
}

/* Whether code stops with this signal by what it did itself. */
static int mistake(int signal)
{
	return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE;
}

/* Lets a stopped process run code of the kernel's, which ends in a trap. */
static int run(pid_t pid, const struct user_regs_struct *registers)
{
	int status;

	if (__real_ptrace(PTRACE_SETREGS, pid, NULL, (void *)registers) || __real_ptrace(PTRACE_CONT, pid, NULL, NULL))
		return -1;
	for (;;) {
		if (__real_waitpid(pid, &status, __WALL) < 0) {
			if (errno != EINTR)
				return -1;
			continue;
		}
		if (!WIFSTOPPED(status))
			return -1;
		if (WSTOPSIG(status) == SIGTRAP)
			return 0;
		/* Stopped from outside, it is not done yet; but for its own mistakes it would stop again. */
		if (mistake(WSTOPSIG(status)) || __real_ptrace(PTRACE_CONT, pid, NULL, NULL))
			return -1;
	}
}

/* A stopped process asks the host for signals, or for none any more. Its registers are lost. 0:
 * done; 1: the host has no such signals; -1: not now. */
static int ask_for_signals(pid_t pid, int mode)
{
	struct user_regs_struct registers;
	unsigned long call = 0, page = pp_stub_page(&call);

	/* The kernel looks at how processes are stopped before it is ready to have programs: then that
	 * page is not there. */
	if (!page || (__real_ptrace(PTRACE_PEEKTEXT, pid, (void *)call, NULL) & 0xffffff) != CALL_AND_TRAP)
		return -1;
	if (__real_ptrace(PTRACE_GETREGS, pid, NULL, &registers))
		return -1;
	registers.rip = call;
	registers.cs = USER_CS;
	registers.ss = USER_SS;
	registers.eflags = FLAGS;
	registers.rax = SYS_prctl;
	registers.orig_rax = -1;
	registers.rdi = PR_SET_SYSCALL_USER_DISPATCH;
	registers.rsi = mode;
	registers.rdx = mode == DISPATCH_ON ? page : 0;
	registers.r10 = mode == DISPATCH_ON ? PAGE_BYTES : 0;
	registers.r8 = 0;
	if (run(pid, &registers) || __real_ptrace(PTRACE_GETREGS, pid, NULL, &registers))
		return -1;
	return registers.rax != 0;
}

/* A new process, which has stopped itself. The kernel gives it its first registers later. */
void pp_resume_new(pid_t pid)
{
	static int refused;
	int result;

	pp_resume_gone(pid);
	if (refused || dispatched[pid % PLACES])
		return;
	result = ask_for_signals(pid, DISPATCH_ON);
	if (result == 0)
		dispatched[pid % PLACES] = pid;
	refused = result == 1;
}

/* The kernel gives a process registers. 0: the host is to have them now. */
int pp_resume_given(pid_t pid, const struct user_regs_struct *registers)
{
	if (!pp_resume_dispatched(pid))
		return 0;
	given.pid = pid;
	given.registers = *registers;
	return 1;
}

/* The process gets the registers that wait for it. */
long pp_resume_settle(pid_t pid)
{
	if (!pid || given.pid != pid)
		return 0;
	given.pid = 0;
	return __real_ptrace(PTRACE_SETREGS, pid, NULL, &given.registers);
}

/* The kernel has a process run code that maps pages, or another. 1: that waits until the program
 * goes on. */
int pp_resume_waits(pid_t pid)
{
	if (given.pid != pid || !pp_stub_waits(pid, given.registers.rip))
		return 0;
	waits = given;
	given.pid = 0;
	return 1;
}

/* The kernel's answer to pages that could not be mapped: the program ends, and this does not
 * return. */
static long cannot_map(long error)
{
	if (error == -ENOMEM)
		report_enomem();
	else
		_printk("The host did not map a program's pages: error %ld\n", error);
	fatal_sigsegv();
	return -1;
}

/* Whether code that maps pages can end in a program with these registers; in 32-bit code, or
 * where no program can be, it would fail itself. */
static int can_end_in(const struct user_regs_struct *program)
{
	return program->cs == USER_CS && program->ss == USER_SS && program->rip < USER_END;
}

/* The program gets its registers from the code that maps its pages. */
static void map_first(pid_t pid)
{
	const struct user_regs_struct *r = &given.registers;
	const unsigned long back[] = {
		r->r15, r->r14, r->r13, r->r12, r->rbp, r->rbx, r->r11, r->r10, r->r9, r->r8,
		r->rax, r->rcx, r->rdx, r->rsi, r->rdi, r->rip, r->cs, r->eflags, r->rsp, r->ss,
	};
	unsigned long stack = 0;

	maps = pid;
	given.registers.rip = pp_stub_start(back, &stack);
	given.registers.rsp = stack;
	given.registers.eflags = FLAGS;
}

/* What waited runs now, as the kernel asked. */
static long map_now(pid_t pid)
{
	long error;

	waits.pid = 0;
	if (run(pid, &waits.registers))
		return -1;
	error = pp_stub_error();
	return error ? cannot_map(error) : 0;
}

/* The host takes no registers that the kernel gives a program, which ends then. Other programs
 * may have its memory, so what waits is mapped. */
long pp_resume_refused(pid_t pid)
{
	given.pid = 0;
	maps = 0;
	if (waits.pid == pid)
		map_now(pid);
	return -1;
}

/*
 * A program goes on until it calls the kernel, with `step` for one instruction; what the host was
 * asked for is left in `request`. Once it is watched step by step, the host tells of its calls as
 * the kernel asks for good, since a call by signal is no step.
 */
long pp_resume(pid_t pid, int step, int *request)
{
	struct registers program = given;

	*request = step ? PTRACE_SYSEMU_SINGLESTEP : PTRACE_CONT;
	/* The kernel always gives a program its registers before. */
	if (waits.pid == pid && given.pid != pid)
		return -1;
	if (waits.pid == pid && !step && can_end_in(&given.registers))
		map_first(pid);
	else if (waits.pid == pid && map_now(pid))
		return -1;
	if (step) {
		if (ask_for_signals(pid, DISPATCH_OFF))
			return -1;
		pp_resume_gone(pid);
		given = program;
	}
	if (pp_resume_settle(pid))
		return pp_resume_refused(pid);
	waits.pid = 0;
	return __real_ptrace(*request, pid, NULL, NULL);
}

/* Whether one of the signals that the kernel itself may get has stopped a program before it had
 * its pages and registers: it must go on first. */
int pp_resume_early(pid_t pid, int signal)
{
	struct user_regs_struct registers;
	unsigned long call;

	return maps == pid && (signal == SIGALRM || signal == SIGIO || signal == SIGWINCH) && !__real_ptrace(PTRACE_GETREGS, pid, NULL, &registers) &&
	       registers.rip - pp_stub_page(&call) < PAGE_BYTES;
}

/* A process has stopped: its status as the kernel is to see it. */
int pp_resume_stopped(pid_t pid, int status)
{
	int signal = WSTOPSIG(status);

	if (maps == pid) {
		maps = 0;
		if (signal == SIGTRAP && pp_stub_error())
			cannot_map(pp_stub_error());
	}
	return signal == SIGSYS && pp_resume_dispatched(pid) ? W_STOPCODE(SIGTRAP | 0x80) : status;
}
