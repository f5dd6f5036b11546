"""What programs of a machine find while the host stops and resumes them: their registers, their pages and their steps.

All the same on a host that cannot tell calls of the kernel's own from theirs (cc/kernel/host.c, fault.c, around.c, resume.c).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from one_program import compiled, what_it_says

from polypath import linux

# Processes and threads that hold values in vector registers across system calls, page faults and signals, which host.c handles sparingly.
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
# After a fork both processes write some of their pages, in several mappings, which around.c makes writable in groups.
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
# All other registers, flags and the stack below its pointer across page faults, most of which have mappings to do.
GENERAL = r"""
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGES 64
#define FLAGS 0xcd5UL	/* carry, parity, adjust, zero, sign, direction, overflow */

/* Sets each register to its number, the flags to FLAGS and a word below the stack to 77, writes to the page, and stores what it has. */
void set_and_write(volatile char *page);
unsigned long seen[18], stack;

asm("set_and_write:\n"
    "push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
    "mov %rdi, %r12; mov %rsp, stack; push $0xcd5; popf; movq $77, -64(%rsp)\n"
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

	set_and_write(page);
	for (int i = 1; i < 16; i++)
		found += i != 12 && seen[i] != i;
	return found + (seen[0] != 77) + (seen[16] != stack) + ((seen[17] & FLAGS) != FLAGS);
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
# A process that another watches step by step through calls and page faults: where it is after each, and how often it stops.
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
# Touches more pages than a process of the host may have mappings, none beside its neighbour in the machine's memory.
SCATTERED = r"""
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	unsigned long pages = MAPPINGS + 4000;
	char *area = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int status;

	if (!fork()) {
		for (int odd = 0; odd < 2; odd++)
			for (unsigned long page = odd; page < pages; page += 2)
				area[page * 4096] = 1;
		_exit(0);
	}
	wait(&status);
	say("signal %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	return 0;
}
"""
# Starts a command for which the host knows no system call user dispatch, as before Linux 5.11.
OLD_HOST = r"""
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SYSCALL_USER_DISPATCH 59

int main(int count, char **words)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYSCALL_USER_DISPATCH, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("seccomp");
		return 1;
	}
	execvp(words[1], words + 1);
	perror(words[1]);
	return 1;
}
"""
PROGRAMS = {"registers": REGISTERS, "pages": PAGES, "general": GENERAL, "steps": STEPS}

Ask = Callable[..., str]


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All of them, compiled."""
    folder = tmp_path_factory.mktemp("programs")
    return {name: compiled(folder / name, text) for name, text in {**PROGRAMS, "old-host": OLD_HOST}.items()}


@pytest.fixture(params=["dispatch", "old-host"])
def ask(request: pytest.FixtureRequest, kernel: linux.Kernel, programs: dict[str, Path], tmp_path: Path) -> Ask:
    """Runs a program in a machine of this host, and of one that cannot tell calls apart; what it said."""
    before = (str(programs["old-host"]),) if request.param == "old-host" else ()
    return lambda program: what_it_says(kernel.file, programs[program], tmp_path, before=before)


def test_programs_keep_their_registers(ask: Ask) -> None:
    assert ask("registers") == "wrong 0\n"
    assert ask("general") == "wrong 0\n"


def test_a_fork_shares_no_writes(ask: Ask) -> None:
    assert ask("pages") == "wrong 0\n"


def test_steps_are_the_same_on_every_host(kernel: linux.Kernel, programs: dict[str, Path], tmp_path: Path) -> None:
    with_dispatch = what_it_says(kernel.file, programs["steps"], tmp_path)
    without = what_it_says(kernel.file, programs["steps"], tmp_path, before=(str(programs["old-host"]),))
    assert with_dispatch == without
    assert with_dispatch.startswith("exit 16 steps ")
    assert int(with_dispatch.split()[3]) > 16 * 6


def test_pages_that_the_host_cannot_map_end_the_program_alone(kernel: linux.Kernel, tmp_path: Path) -> None:
    most = int(Path("/proc/sys/vm/max_map_count").read_text())
    pages = min(most, 100_000)
    program = compiled(tmp_path / "scattered", SCATTERED.replace("MAPPINGS", str(pages)))
    # A host that allows more has room for all of them.
    assert what_it_says(kernel.file, program, tmp_path, memory="1000M") == ("signal 11\n" if pages == most else "signal 0\n")
