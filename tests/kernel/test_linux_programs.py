"""What programs of a machine find while the host stops and resumes them.

All the same on a host that cannot tell calls of the kernel's own from theirs (cc/kernel/host.c,
fault.c, around.c, resume.c).
"""

import errno
import signal
from collections.abc import Callable

import pytest
from one_program import compiled, what_it_says

# Vector registers across system calls, faults and signals, which host.c handles sparingly.
REGISTERS = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 300

static int wide;

static long changed(unsigned long id)
{
	char *pages = mmap(NULL, ROUNDS * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long wrong = 0;

	for (unsigned long i = 0; i < ROUNDS; i++) {
		unsigned long value = id << 32 | i, low = 0, high = value;

		if (wide)
			asm volatile("vmovq %2, %%xmm6; vinsertf128 $1, %%xmm6, %%ymm6, %%ymm6; movb $1, (%3); movl $24, %%eax; syscall; movb $1, (%3);"
					"vmovq %%xmm6, %0; vextractf128 $1, %%ymm6, %%xmm6; vmovq %%xmm6, %1"
					: "=&r"(low), "=&r"(high) : "r"(value), "r"(pages + i * 4096) : "rax", "rcx", "r11", "memory", "xmm6");
		else
			asm volatile("movq %1, %%xmm6; movb $1, (%2); movl $24, %%eax; syscall; movq %%xmm6, %0"
					: "=&r"(low) : "r"(value), "r"(pages + i * 4096) : "rax", "rcx", "r11", "memory", "xmm6");
		wrong += low != value || high != value;
	}
	return wrong;
}

static void *thread(void *id)
{
	return (void *)changed((unsigned long)id);
}

static void handler(int signal)
{
	asm volatile("pcmpeqd %%xmm6, %%xmm6" ::: "xmm6");
}

int main(void)
{
	long wrong = 0;
	int status;

	wide = __builtin_cpu_supports("avx");
	signal(SIGUSR1, handler);
	for (unsigned long process = 1; process <= 3; process++)
		if (!fork()) {
			pthread_t other;
			void *result;

			for (int i = 0; i < 3; i++)
				kill(getpid(), SIGUSR1);
			pthread_create(&other, NULL, thread, (void *)(process * 16));
			wrong = changed(process);
			pthread_join(other, &result);
			_exit(wrong + (long)result > 0);
		}
	while (wait(&status) > 0)
		wrong += status != 0;
	say("wrong %ld\n", wrong);
	return 0;
}
"""
# Both processes write pages after a fork, which around.c makes writable in groups.
PAGES = r"""
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES 61
#define AT(area, page) (area)[(page) * 4096 + 17]

static unsigned char stored[PAGES * 4096] = { 1 };

static int wrong(const unsigned char *area, int every, int value)
{
	int found = 0;

	for (int page = 0; page < PAGES; page++)
		found += AT(area, page) != (every && page % every == 0 ? value : page);
	return found;
}

static void set(unsigned char *area, int every, int value)
{
	for (int page = 0; page < PAGES; page += every)
		AT(area, page) = value;
}

static void forbidden(int signal, siginfo_t *info, void *context)
{
	_exit(info->si_code == SEGV_ACCERR ? 0 : 1);
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = forbidden, .sa_flags = SA_SIGINFO };
	int file = open("/results/file", O_RDWR | O_CREAT, 0600), status, found = 0;
	unsigned char *own, *of_file, *shared;

	for (int page = 0; page < PAGES; page++) {
		unsigned char bytes[4096];

		memset(bytes, page, sizeof(bytes));
		write(file, bytes, sizeof(bytes));
		AT(stored, page) = page;
	}
	own = mmap(NULL, sizeof(stored), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	shared = mmap(NULL, sizeof(stored), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	of_file = mmap(NULL, sizeof(stored), PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	memcpy(own, stored, sizeof(stored));
	memcpy(shared, stored, sizeof(stored));
	for (int child = 1; child <= 3; child++)
		if (!fork()) {
			unsigned char *areas[] = { own, stored, of_file };

			for (int i = 0; i < 3; i++) {
				found += wrong(areas[i], 0, 0);
				set(areas[i], child + 2, 100 + child);
				usleep(1000);
				found += wrong(areas[i], child + 2, 100 + child);
			}
			AT(shared, child) = 200 + child;
			_exit(found > 0);
		}
	set(own, 2, 99);
	set(stored, 3, 98);
	while (wait(&status) > 0)
		found += status != 0;
	found += wrong(own, 2, 99) + wrong(stored, 3, 98) + wrong(of_file, 0, 0);
	for (int child = 1; child <= 3; child++)
		found += AT(shared, child) != 200 + child;
	/* Beside pages that may be written, one that may not. */
	mprotect(own + 2 * 4096, 4096, PROT_READ);
	if (!fork()) {
		sigaction(SIGSEGV, &action, NULL);
		AT(own, 1) = AT(own, 3) = 7;
		AT(own, 2) = 7;
		_exit(1);
	}
	wait(&status);
	found += status != 0;
	lseek(file, 0, SEEK_SET);
	for (int page = 0; page < PAGES; page++) {
		unsigned char bytes[4096];

		read(file, bytes, sizeof(bytes));
		found += bytes[17] != page;
	}
	say("wrong %d\n", found);
	return 0;
}
"""
# Other registers, flags and the stack below its pointer across page faults.
GENERAL = r"""
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGES 64
#define FLAGS 0xcd5UL	/* carry, parity, adjust, zero, sign, direction, overflow */

/* Sets each register to its number, the flags to `flags` and a word below the stack to 77, writes to the page, and stores what it has. */
void set_and_write(volatile char *page);
unsigned long seen[18], stack, flags;

asm("set_and_write:\n"
    "push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
    "mov %rdi, %r12; mov %rsp, stack; push flags; popf; movq $77, -64(%rsp)\n"
    "mov $1, %rax; mov $2, %rbx; mov $3, %rcx; mov $4, %rdx; mov $5, %rsi; mov $6, %rdi; mov $7, %rbp; mov $8, %r8\n"
    "mov $9, %r9; mov $10, %r10; mov $11, %r11; mov $13, %r13; mov $14, %r14; mov $15, %r15\n"
    "movb $1, (%r12)\n"
    "mov %rax, seen+8; mov %rbx, seen+16; mov %rcx, seen+24; mov %rdx, seen+32; mov %rsi, seen+40; mov %rdi, seen+48\n"
    "mov %rbp, seen+56; mov %r8, seen+64; mov %r9, seen+72; mov %r10, seen+80; mov %r11, seen+88\n"
    "mov %r13, seen+104; mov %r14, seen+112; mov %r15, seen+120; mov %rsp, seen+128\n"
    "mov -64(%rsp), %rax; mov %rax, seen; pushf; pop seen+136; cld\n"
    "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n");

static int wrong(volatile char *page)
{
	int found = 0;

	flags = flags ? 0 : FLAGS;
	set_and_write(page);
	for (int i = 1; i < 16; i++)
		found += i != 12 && seen[i] != i;
	return found + (seen[0] != 77) + (seen[16] != stack) + ((seen[17] & FLAGS) != flags);
}

int main(void)
{
	volatile char *pages = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int found = 0;

	for (int page = 0; page < PAGES; page++)
		found += wrong(pages + page * 4096);
	say("wrong %d\n", found);
	return 0;
}
"""
# A process that another watches step by step: where it is, how often it stops.
STEPS = r"""
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	volatile char *pages = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long way = 0, steps = 0;
	int child = fork(), status, sum = 0;

	if (!child) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		for (int i = 0; i < 16; i++) {
			pages[4096 * i] = i;
			sum += syscall(SYS_getppid) == 1;
		}
		_exit(sum);
	}
	while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
		struct user_regs_struct registers;

		ptrace(PTRACE_GETREGS, child, 0, &registers);
		way = way * 31 + registers.rip;
		steps++;
		ptrace(PTRACE_SINGLESTEP, child, 0, 0);
	}
	say("exit %d steps %lu way %lx\n", WEXITSTATUS(status), steps, way);
	return 0;
}
"""
# The kernel fills pages in one call: its table of what to map is not full, full, or more.
TABLES = r"""
#include <stdio.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST 300

static int wrong(int pages)
{
	char *area = mmap(NULL, 2 * 4096 * pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), bytes[MOST];
	struct iovec to[MOST];
	int ends[2], found = 0;

	pipe(ends);
	for (int page = 0; page < pages; page++) {
		to[page].iov_base = area + 2 * page * 4096;
		to[page].iov_len = 1;
		bytes[page] = pages + page;
	}
	write(ends[1], bytes, pages);
	found += readv(ends[0], to, pages) != pages;
	close(ends[0]);
	close(ends[1]);
	for (int page = 0; page < pages; page++)
		found += area[2 * page * 4096] != (char)(pages + page);
	mprotect(area, 2 * 4096 * pages, PROT_READ);
	for (int page = 0; page < 2 * pages; page++)
		found += area[page * 4096] != (page % 2 ? 0 : (char)(pages + page / 2));
	munmap(area, 2 * 4096 * pages);
	return found;
}

int main(void)
{
	int pages[] = { 1, 2, 97, 98, 99, 100, 101, 197, 198, 199, MOST }, found = 0;

	for (int i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
		found += wrong(pages[i]);
	say("wrong %d\n", found);
	return 0;
}
"""
# A process with its parent's memory whose first registers the host refuses.
SHARED = r"""
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_ADDRESS (1UL << 63)

int main(void)
{
	volatile int *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int status = 0;
	long child = syscall(SYS_clone, CLONE_VM | CLONE_VFORK | CLONE_PARENT_SETTID | CLONE_SETTLS | SIGCHLD, 0, page, 0, NO_ADDRESS);

	if (!child)
		_exit(0);
	waitpid(child, &status, 0);
	say("signal %d, the page right %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0, *page == child);
	return 0;
}
"""
# 32-bit code that meets pages.
NARROW = r"""
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

unsigned long stack;

/* Goes to 32-bit code, with the data segment that this needs. The code finds an address in %edi, and comes to `back`. */
void narrow(void *code, void *address);
extern const char back[];

asm("narrow:\n"
    "push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15; mov %rsp, stack\n"
    "mov $0x2b, %eax; mov %eax, %ds; mov %rdi, %rax; mov %rsi, %rdi; pushq $0x23; push %rax; lretq\n"
    "back: mov stack, %rsp; xor %eax, %eax; mov %eax, %ds; pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n");

int main(void)
{
	char *low = mmap(NULL, 4096 * 40, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	unsigned int to = (unsigned long)back;
	int right = 0;

	/* movb $7, (%edi); ljmp $0x33, $back */
	memcpy(low, "\xc6\x07\x07\xea", 4);
	memcpy(low + 4, &to, 4);
	memcpy(low + 8, "\x33", 2);
	for (int page = 1; page < 40; page++) {
		narrow(low, low + page * 4096);
		right += low[page * 4096] == 7;
	}
	say("right %d\n", right);
	return 0;
}
"""
# A process that another watches step by step: where it is, how often it stops.
NOWHERE = r"""
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
	struct user_regs_struct before, after;
	int child = fork(), status;

	if (!child) {
		struct timespec *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		syscall(SYS_clock_gettime, CLOCK_MONOTONIC, page);
		_exit(0);
	}
	waitpid(child, &status, 0);
	for (int stop = 0; stop < 2; stop++) {
		ptrace(PTRACE_SYSCALL, child, 0, 0);
		waitpid(child, &status, 0);
	}
	ptrace(PTRACE_GETREGS, child, 0, &before);
	before.rip = 1UL << 60;
	ptrace(PTRACE_SETREGS, child, 0, &before);
	ptrace(PTRACE_CONT, child, 0, 0);
	waitpid(child, &status, 0);
	ptrace(PTRACE_GETREGS, child, 0, &after);
	say("call %lu, signal %d, there %d\n", before.orig_rax, WSTOPSIG(status), after.rip == before.rip && after.rsp == before.rsp);
	return 0;
}
"""
# A process that touches a page at UNMAPPABLE, which a host can refuse to map there.
UNMAPPABLE = r"""
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	int status;

	if (!fork()) {
		char *page = mmap((void *)UNMAPPABLE, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

		*page = 1;
		_exit(0);
	}
	wait(&status);
	say("signal %d, exit %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0, WEXITSTATUS(status));
	return 0;
}
"""
# Starts a command on a host that knows no system call user dispatch, as before Linux 5.11 ("old"),
# or on one that does ("new"). It answers with an error number when it is to map anything at
# UNMAPPABLE; 0: it does map it.
HOST = r"""
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SYSCALL_USER_DISPATCH 59

/* Answers the call `number` with `error` where the lower half of its first argument is `value`. */
static void refuse(int number, unsigned int value, int error)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("seccomp");
		exit(1);
	}
}

int main(int count, char **words)
{
	if (!strcmp(words[1], "old"))
		refuse(SYS_prctl, SYSCALL_USER_DISPATCH, EINVAL);
	if (atoi(words[2]))
		refuse(SYS_mmap, UNMAPPABLE, atoi(words[2]));
	execvp(words[3], words + 3);
	perror(words[3]);
	return 1;
}
"""
ADDRESS = "0x12340000"
PROGRAMS = {
    "registers": REGISTERS,
    "pages": PAGES,
    "general": GENERAL,
    "steps": STEPS,
    "tables": TABLES,
    "shared": SHARED,
    "narrow": NARROW,
    "nowhere": NOWHERE,
    "unmappable": UNMAPPABLE,
    "host": HOST,
}

Ask = Callable[..., str]


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """All of them, compiled."""
    folder = tmp_path_factory.mktemp("programs")
    return {name: compiled(folder / name, text.replace("UNMAPPABLE", ADDRESS)) for name, text in PROGRAMS.items()}


@pytest.fixture(params=["new", "old"])
def ask(request, kernel, programs, tmp_path):
    """What a program says in a machine, on a host that can tell its calls apart and not."""

    def asked(program, refuses=0):
        return what_it_says(kernel.file, programs[program], tmp_path, before=(str(programs["host"]), request.param, str(refuses)))

    return asked


def test_programs_find_what_they_left_and_what_was_filled(ask):
    assert ask("registers") == "wrong 0\n"
    assert ask("general") == "wrong 0\n"
    assert ask("pages") == "wrong 0\n"
    assert ask("tables") == "wrong 0\n"
    assert ask("narrow") == "right 39\n"
    assert ask("nowhere") == f"call 228, signal {signal.SIGSEGV}, there 1\n"


def test_registers_that_the_host_refuses_end_their_program_alone(ask, kernel):
    # 6.1 does not look at what the host says of FS: the program goes on without it.
    ends = 0 if kernel.release.startswith("6.1.") else signal.SIGSEGV
    assert ask("shared") == f"signal {ends}, the page right 1\n"


@pytest.mark.parametrize("refuses", [errno.ENOMEM, errno.EPERM])
def test_pages_that_the_host_does_not_map_end_their_program_alone(ask, kernel, refuses):
    ends = signal.SIGKILL if kernel.release.startswith("6.1.") else signal.SIGSEGV
    assert ask("unmappable") == "signal 0, exit 0\n"
    assert ask("unmappable", refuses) == f"signal {ends}, exit 0\n"


def test_steps_are_the_same_on_every_host(kernel, programs, tmp_path):
    def on(host):
        return what_it_says(kernel.file, programs["steps"], tmp_path, before=(str(programs["host"]), host, "0"))

    new, old = on("new"), on("old")
    assert new == old
    assert new.startswith("exit 16 steps ")
    assert int(new.split()[3]) > 16 * 6
