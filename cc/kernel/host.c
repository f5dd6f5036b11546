/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the machine may see of its host. User-Mode Linux calls the C library for it; the linker's
 * --wrap sends these calls here, so that the kernel's tree needs no patch and every release gets
 * the same.
 *
 * Nothing of the host may reach a result: not its random numbers, not its processor, not its name.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>

/* In UML_SEED; 0 without. */
unsigned long long pp_host_seed(void)
{
	const char *seed = getenv("UML_SEED");

	return seed ? strtoull(seed, NULL, 10) : 0;
}

/* Random numbers: a stream (splitmix64) of the seed. */
ssize_t __wrap_getrandom(void *buffer, size_t length, unsigned int flags)
{
	static unsigned long long state;
	static int begun;
	unsigned char *bytes = buffer;
	size_t i;

	(void)flags;
	if (!begun) {
		state = pp_host_seed() * 2654435761ULL + 1;
		begun = 1;
	}
	for (i = 0; i < length; i++) {
		unsigned long long z = state += 0x9e3779b97f4a7c15ULL;

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
		bytes[i] = z ^ (z >> 31);
	}
	return length;
}

/* The time of day, with which 5.4 begins whatever time-travel-start says, and from which it draws:
 * that time (crates/guest/src/machine.rs) and, in nanoseconds, the seed. */
int __real_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	unsigned long long ns = pp_host_seed();

	if (clock != CLOCK_REALTIME)
		return __real_clock_gettime(clock, now);
	now->tv_sec = 1735689600 + ns / 1000000000;
	now->tv_nsec = ns % 1000000000;
	return 0;
}

/* The host's name and release, which /proc/cpuinfo of the machine shows. */
int __wrap_uname(struct utsname *host)
{
	memset(host, 0, sizeof(*host));
	strcpy(host->sysname, "Linux");
	strcpy(host->nodename, "host");
	strcpy(host->release, "0");
	strcpy(host->version, "0");
	strcpy(host->machine, "x86_64");
	return 0;
}

/*
 * The host's processor, of which the kernel takes features and the size of a cache line; that size
 * decides how objects are laid out in memory, and so what a packet counts toward a socket's buffer.
 */
static const char processor[] = "flags\t\t: fpu tsc cx8 cmov fxsr sse sse2 syscall nx lm\ncache_alignment\t: 64\n";

FILE *__real_fopen64(const char *path, const char *mode);
FILE *__real_fopen(const char *path, const char *mode);

FILE *__wrap_fopen64(const char *path, const char *mode)
{
	return strcmp(path, "/proc/cpuinfo") ? __real_fopen64(path, mode) : fmemopen((char *)processor, sizeof(processor) - 1, "r");
}

FILE *__wrap_fopen(const char *path, const char *mode)
{
	return strcmp(path, "/proc/cpuinfo") ? __real_fopen(path, mode) : fmemopen((char *)processor, sizeof(processor) - 1, "r");
}

/*
 * The vector registers of the machine's processes. The kernel has room for 2696 bytes of them (x87
 * to AVX-512); a processor with AMX has 11008, and accepts no less when they are written. The
 * machine's programs cannot use the rest (Linux gives AMX only to who asks, and User-Mode Linux
 * does not pass that on), so reading stops at 2696 bytes and writing fills up with zeros: every
 * processor shows the kernel the same.
 *
 * The kernel reads them twice at a page fault, and writes them back at every system call and fault
 * of a program. What was read or written and not changed since is neither read nor written again. A
 * process is known by its id until its program goes on (PTRACE_SYSEMU); the code that the kernel
 * has it run meanwhile (PTRACE_CONT, to map memory) is compiled without these registers.
 */
#define REGISTERS_BYTES 2696
#define REGISTERS_MOST (64 * 1024)
#define KNOWN 16	/* processes; a power of two */

static struct {
	pid_t pid;	/* 0: nothing is known */
	size_t length;	/* bytes */
	int read;	/* the host's answer; else what was written */
	unsigned char state[REGISTERS_BYTES];
} known[KNOWN];

/* The process that was resumed last, and how; the kernel lets one run at a time and waits for
 * it. */
static struct {
	pid_t pid;	/* 0: none */
	int request;
} resumed;

long __real_ptrace(int request, pid_t pid, void *address, void *data);

/* How many bytes this processor has, as the host says for a stopped process. */
static size_t registers_bytes(pid_t pid)
{
	static unsigned char all[REGISTERS_MOST];
	static size_t bytes;
	struct iovec whole = { all, sizeof(all) };

	if (!bytes && __real_ptrace(PTRACE_GETREGSET, pid, (void *)NT_X86_XSTATE, &whole) == 0)
		bytes = whole.iov_len;
	return bytes;
}

/* Both are whole numbers of words. The kernel's own memcmp, which a call would reach here, looks
 * at single bytes. */
static int same(const void *a, const void *b, size_t length)
{
	const unsigned long long *x = a, *y = b;
	size_t i;

	for (i = 0; i < length / sizeof(*x); i++)
		if (x[i] != y[i])
			return 0;
	return 1;
}

static long read_registers(pid_t pid, struct iovec *to)
{
	unsigned int slot = pid % KNOWN;
	long result;

	if (to->iov_len > REGISTERS_BYTES)
		to->iov_len = REGISTERS_BYTES;
	if (known[slot].pid == pid && known[slot].read && known[slot].length <= to->iov_len) {
		to->iov_len = known[slot].length;
		memcpy(to->iov_base, known[slot].state, to->iov_len);
		return 0;
	}
	known[slot].pid = 0;
	result = __real_ptrace(PTRACE_GETREGSET, pid, (void *)NT_X86_XSTATE, to);
	if (result == 0) {
		known[slot].pid = pid;
		known[slot].length = to->iov_len;
		known[slot].read = 1;
		memcpy(known[slot].state, to->iov_base, to->iov_len);
	}
	return result;
}

static long write_registers(pid_t pid, const struct iovec *from)
{
	static unsigned char all[REGISTERS_MOST];
	unsigned int slot = pid % KNOWN;
	size_t bytes = registers_bytes(pid);
	size_t length = from->iov_len < REGISTERS_BYTES ? from->iov_len : REGISTERS_BYTES;
	struct iovec whole = { all, bytes };
	long result;

	if (known[slot].pid == pid && known[slot].length <= length && same(known[slot].state, from->iov_base, known[slot].length))
		return 0;
	known[slot].pid = 0;
	if (length > bytes)
		length = bytes;
	memcpy(all, from->iov_base, length);
	result = __real_ptrace(PTRACE_SETREGSET, pid, (void *)NT_X86_XSTATE, &whole);
	if (result == 0) {
		known[slot].pid = pid;
		known[slot].length = length;
		known[slot].read = 0;
		memcpy(known[slot].state, from->iov_base, length);
	}
	return result;
}

/* Who is told when a program has stopped, for a page fault or for a call of the kernel (vary.c);
 * the kernel takes its registers then. */
void (*pp_host_on_stop)(int fault, long call);

/* clock.c */
void pp_clock_called(long result);

/* The process that stopped last, and its signal. */
static struct {
	pid_t pid;
	int signal;
	int told;	/* whether the kernel has taken its registers */
} stopped;

/* fault.c */
void pp_fault_registers(pid_t pid, const struct user_regs_struct *registers);
void pp_fault_signal(pid_t pid, const siginfo_t *info);
int pp_fault_told(pid_t pid);
void pp_fault_handled(pid_t pid);

/* resume.c */
int pp_resume_dispatched(pid_t pid);
void pp_resume_new(pid_t pid);
void pp_resume_gone(pid_t pid);
int pp_resume_given(pid_t pid, const struct user_regs_struct *registers);
long pp_resume_refused(pid_t pid);
long pp_resume_settle(pid_t pid);
int pp_resume_waits(pid_t pid);
long pp_resume(pid_t pid, int step, int *request);
int pp_resume_early(pid_t pid, int signal);
int pp_resume_stopped(pid_t pid, int status);

/* stub.c */
void pp_stub_ends(void);

/* The host's answer to registers that the kernel gives a program, which ends where it refuses
 * them. */
static long given(long result)
{
	int error = errno;

	if (result)
		pp_stub_ends();
	errno = error;
	return result;
}

/* The process that has stopped once more, as the kernel is to believe. */
static pid_t told;

static long take_registers(pid_t pid, void *address, void *data)
{
	struct user_regs_struct *registers = data;
	/* What its last call returned. */
	long before = (long)registers->rax;
	long result = pp_resume_settle(pid);

	if (result == 0)
		result = __real_ptrace(PTRACE_GETREGS, pid, address, data);
	/* The host leaves this where it stops a program at its calls; where a signal does (resume.c),
	 * the call's number is there still. What the kernel reads later is its own: 6.1 gives a
	 * process its registers, with a call's result, and takes them back when it switches to it
	 * (arch_switch_to() in arch/x86/um). */
	if (result == 0 && pid == stopped.pid && !stopped.told && stopped.signal == (SIGTRAP | 0x80))
		registers->rax = -ENOSYS;
	if (result == 0)
		pp_fault_registers(pid, registers);
	if (result == 0 && pid == stopped.pid && !stopped.told) {
		int call = stopped.signal == (SIGTRAP | 0x80);

		stopped.told = 1;
		if (call)
			pp_clock_called(before);
		if (pp_host_on_stop && (call || stopped.signal == SIGSEGV))
			pp_host_on_stop(!call, (long)registers->orig_rax);
	}
	return result;
}

static long take_signal(pid_t pid, void *address, void *data)
{
	long result = __real_ptrace(PTRACE_GETSIGINFO, pid, address, data);

	if (result == 0)
		pp_fault_signal(pid, data);
	return result;
}

static void forget_registers(pid_t pid)
{
	if (known[pid % KNOWN].pid == pid)
		known[pid % KNOWN].pid = 0;
}

long __wrap_ptrace(int request, pid_t pid, void *address, void *data)
{
	switch (request) {
	case PTRACE_GETREGS:
		return take_registers(pid, address, data);
	case PTRACE_GETREGSET:
		return (long)address == NT_X86_XSTATE ? read_registers(pid, data) : __real_ptrace(request, pid, address, data);
	case PTRACE_SETREGSET:
		if ((long)address != NT_X86_XSTATE)
			return __real_ptrace(request, pid, address, data);
		return write_registers(pid, data) ? given(pp_resume_refused(pid)) : 0;
	case PTRACE_GETSIGINFO:
		return take_signal(pid, address, data);
	case PTRACE_SETREGS:
		return pp_resume_given(pid, data) ? 0 : given(__real_ptrace(request, pid, address, data));
	case PTRACE_SETOPTIONS:
		/* A new process, perhaps under an old number. */
		forget_registers(pid);
		pp_resume_new(pid);
		return __real_ptrace(request, pid, address, data);
	case PTRACE_KILL:
		pp_resume_gone(pid);
		return __real_ptrace(request, pid, address, data);
	case PTRACE_CONT:
		if (((long)data == SIGSEGV && pp_fault_told(pid)) || (!data && pp_resume_waits(pid))) {
			told = pid;
			return 0;
		}
		if (pp_resume_settle(pid))
			return -1;
		resumed.pid = pid;
		resumed.request = request;
		/* A handler has registers of its own. */
		if (data)
			forget_registers(pid);
		return __real_ptrace(request, pid, address, data);
	case PTRACE_SYSEMU:
	case PTRACE_SYSEMU_SINGLESTEP:
		resumed.pid = pid;
		resumed.request = request;
		forget_registers(pid);
		if (pp_resume_dispatched(pid))
			return pp_resume(pid, request == PTRACE_SYSEMU_SINGLESTEP, &resumed.request);
		return __real_ptrace(request, pid, address, data);
	case PTRACE_SYSCALL:
	case PTRACE_SINGLESTEP:
		resumed.pid = pid;
		resumed.request = request;
		/* fall through */
	default:
		forget_registers(pid);
		return pp_resume_settle(pid) ? -1 : __real_ptrace(request, pid, address, data);
	}
}

/*
 * Stopped and continued from outside (Ctrl-Z, a debugger, kill -STOP), a machine goes on as if
 * nothing had been. The kernel is told of these signals before its process gets them, and knows no
 * answer but to die: they end here, and the process goes on as it was last asked to. Only where a
 * new process stops itself does the kernel wait for such a signal. Nor is it told of a signal of
 * its own that finds a program while the code that maps its pages still runs (resume.c).
 */
pid_t __real_waitpid(pid_t pid, int *status, int options);

static int job_control(int signal)
{
	return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU || signal == SIGCONT;
}

static int stopped_itself(pid_t pid)
{
	siginfo_t info;

	return __real_ptrace(PTRACE_GETSIGINFO, pid, NULL, &info) == 0 && info.si_signo == SIGSTOP && info.si_pid == pid;
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
	int found = 0;
	pid_t who;

	if (told && told == pid) {
		told = 0;
		if (status)
			*status = W_STOPCODE(SIGTRAP);
		return pid;
	}
	for (;;) {
		who = __real_waitpid(pid, &found, options);
		if (who <= 0 || !WIFSTOPPED(found))
			break;
		if (!pp_resume_early(who, WSTOPSIG(found)) && (!job_control(WSTOPSIG(found)) || stopped_itself(who)))
			break;
		/* It fails for a new process that is not traced yet; that one goes on by itself once it is
		 * continued. */
		__real_ptrace(who == resumed.pid ? resumed.request : PTRACE_CONT, who, NULL, NULL);
	}
	/* Its number may be given to another. */
	if (who > 0 && !WIFSTOPPED(found)) {
		pp_resume_gone(who);
		if (who == resumed.pid)
			resumed.pid = 0;
	}
	if (who > 0 && WIFSTOPPED(found)) {
		found = pp_resume_stopped(who, found);
		stopped.pid = who;
		stopped.told = 0;
		stopped.signal = WSTOPSIG(found);
		if (stopped.signal == SIGTRAP)
			pp_fault_handled(who);
	}
	if (status)
		*status = found;
	return who;
}
