/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What runs in a program's memory for the kernel, which calls such code a stub: it maps what the
 * program is to find there, and the program goes on.
 *
 * The kernel has a stub of its own for it, after which the host stops the program once more. This
 * one ends in the program itself, so that a page fault takes one stop and not two (resume.c). It
 * reads the table that the kernel fills for its own, so it is for one release only.
 */
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/version.h>
#include <mm_id.h>

/* Whether the kernel's request to run at `at` in process `pid` can wait until the program goes
 * on. It is then as if it had run, without an error. */
int pp_stub_waits(int pid, unsigned long at);
/* Where the program's process is to go on with what waited, its stack there in `stack`. `back`:
 * its registers after it, as pp_stub_map() takes them. */
unsigned long pp_stub_start(const unsigned long *back, unsigned long *stack);
/*
 * Why the host could not map what waited for the present process, once that has stopped by a trap:
 * a negative number of errno; 0: it could. Later a fault may be described at the same place
 * (fault.c).
 */
long pp_stub_error(void);
/* Where a process may make calls of the host: this page. One such call lies at `*call`, then a
 * trap. 0: not known for this release. */
unsigned long pp_stub_page(unsigned long *call);

/* The kernel's own, of releases in which one thread at a time works on a program's memory. */
extern struct mutex *__get_turnstile(struct mm_id *memory) __weak;
extern void exit_turnstile(struct mm_id *memory) __weak;

/* The kernel is about to end the present program between two turns of it. It would keep the
 * memory's lock for ever, and another program with the same memory would wait for it. */
void pp_stub_ends(void)
{
	struct mm_id *memory = current->mm ? &current->mm->context.id : NULL;

	if (memory && __get_turnstile && mutex_is_locked(__get_turnstile(memory)))
		exit_turnstile(memory);
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0) || LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
int pp_stub_waits(int pid, unsigned long at)
{
	return 0;
}

unsigned long pp_stub_start(const unsigned long *back, unsigned long *stack)
{
	return 0;
}

long pp_stub_error(void)
{
	return 0;
}

unsigned long pp_stub_page(unsigned long *call)
{
	return 0;
}
#else
#include <linux/mman.h>
#include <asm/unistd.h>
#include <stub-data.h>

#define PP_STUB __attribute__((section(".__syscall_stub"), used))
#define PP_REGISTERS 20	/* that pp_stub_map() gives back */

/* The masks below and the kernel's own need it. */
static_assert(sizeof(struct stub_data) == STUB_DATA_PAGES * PAGE_SIZE && STUB_DATA_PAGES == 2);
/* The program's registers lie at the start of the stub's stack, which grows down to them and
 * needs less. */
static_assert(sizeof_field(struct stub_data, sigstack) == PAGE_SIZE);

/* The kernel's own. */
extern char __syscall_stub_start[];
extern void stub_syscall_handler(void);

static __always_inline long pp_host_call(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 asm("r10") = d, r8 asm("r8") = e, r9 asm("r9") = f;
	long result;

	asm volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return result;
}

void pp_stub_call(void);
void pp_stub_map(void);

/* Makes the call whose number and arguments are in the registers. */
asm(".pushsection .__syscall_stub, \"ax\"\n"
    ".globl pp_stub_call\n"
    "pp_stub_call:\n"
    "	syscall\n"
    "	int3\n"
    ".popsection\n");

/* Its code must need nothing outside its page: no call, no constant in memory. */
void PP_STUB pp_stub_map(void)
{
	struct stub_data *data;
	struct stub_syscall *at, *end;
	long result, wanted;

	asm volatile("movq %%rsp, %0" : "=r"(data));
	data = (void *)((unsigned long)data & ~(sizeof(*data) - 1));
	end = data->syscall_data + data->syscall_data_len;
	for (at = data->syscall_data; at < end; at++) {
		wanted = 0;
		if (at->syscall == STUB_SYSCALL_MMAP) {
			wanted = at->mem.addr;
			result = pp_host_call(__NR_mmap, at->mem.addr, at->mem.length, at->mem.prot, MAP_SHARED | MAP_FIXED, at->mem.fd, at->mem.offset);
		} else if (at->syscall == STUB_SYSCALL_MUNMAP) {
			result = pp_host_call(__NR_munmap, at->mem.addr, at->mem.length, 0, 0, 0, 0);
		} else {
			result = pp_host_call(__NR_mprotect, at->mem.addr, at->mem.length, at->mem.prot, 0, 0, 0);
		}
		if (result != wanted) {
			data->err = result;
			asm volatile("int3" ::: "memory");
			for (;;)
				;
		}
	}
	asm volatile("movq %0, %%rsp\n"
		     "popq %%r15; popq %%r14; popq %%r13; popq %%r12; popq %%rbp; popq %%rbx; popq %%r11; popq %%r10\n"
		     "popq %%r9; popq %%r8; popq %%rax; popq %%rcx; popq %%rdx; popq %%rsi; popq %%rdi\n"
		     "iretq" : : "r"(data->sigstack) : "memory");
	__builtin_unreachable();
}

static struct stub_data *pp_stub_data(void)
{
	return current->mm ? (struct stub_data *)current->mm->context.id.stack : NULL;
}

static unsigned long pp_stub_at(void (*function)(void))
{
	return STUB_CODE + ((unsigned long)function - (unsigned long)__syscall_stub_start);
}

int pp_stub_waits(int pid, unsigned long at)
{
	struct stub_data *data = pp_stub_data();
	int i;

	if (!data || current->mm->context.id.pid != pid || at != pp_stub_at(stub_syscall_handler))
		return 0;
	/* A full table is emptied because more comes. */
	if (data->syscall_data_len <= 0 || data->syscall_data_len >= (int)ARRAY_SIZE(data->syscall_data))
		return 0;
	for (i = 0; i < data->syscall_data_len; i++)
		if (data->syscall_data[i].syscall < STUB_SYSCALL_MMAP || data->syscall_data[i].syscall > STUB_SYSCALL_MPROTECT)
			return 0;
	data->err = 0;
	return 1;
}

unsigned long pp_stub_start(const unsigned long *back, unsigned long *stack)
{
	struct stub_data *data = pp_stub_data();

	memcpy(data->sigstack, back, PP_REGISTERS * sizeof(*back));
	/* As a function finds it that was called. */
	*stack = STUB_DATA + sizeof(*data) - sizeof(long);
	return pp_stub_at(pp_stub_map);
}

long pp_stub_error(void)
{
	struct stub_data *data = pp_stub_data();

	return data && data->err < 0 ? data->err : 0;
}

unsigned long pp_stub_page(unsigned long *call)
{
	*call = pp_stub_at(pp_stub_call);
	return STUB_CODE;
}
#endif
