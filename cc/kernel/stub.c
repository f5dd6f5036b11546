/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What runs in a program's memory for the kernel: it maps what the program is to find there, and the program goes on.
 *
 * The kernel has code of its own for it, after which the host stops the program once more. This one ends in the program itself, so that a page fault takes
 * one stop and not two (resume.c). Known for one release only, since it reads what the kernel leaves for its own code.
 */
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/version.h>

/* Whether the kernel's request to run at `at` in process `pid` can wait until the program goes on. It is then as if it had run, without an error. */
int pp_stub_waits(int pid, unsigned long at);
/* Where the program's process is to go on with what waited, its stack there in `stack`. `back`: its registers after it, as pp_stub_map() takes them. */
unsigned long pp_stub_start(const unsigned long *back, unsigned long *stack);
/* Whether pages that waited for the present process are not mapped yet; once it has stopped by a trap, they could not be. */
int pp_stub_lacks(void);
/* Where a process may make calls of the host: this page. One such call lies at `*call`, then a trap. 0: not known for this release. */
unsigned long pp_stub_page(unsigned long *call);

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0) || LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
int pp_stub_waits(int pid, unsigned long at)
{
	return 0;
}

unsigned long pp_stub_start(const unsigned long *back, unsigned long *stack)
{
	return 0;
}

int pp_stub_lacks(void)
{
	return 0;
}

unsigned long pp_stub_page(unsigned long *call)
{
	return 0;
}
#else

#define PP_STUB __attribute__((section(".__syscall_stub"), used))
#define PP_HOST_MMAP 9
#define PP_HOST_MPROTECT 10
#define PP_HOST_MUNMAP 11
#define PP_MAP_SHARED_FIXED 0x11

/* arch/um/include/shared/skas/stub-data.h */
enum { PP_MAP = 1, PP_UNMAP, PP_PROTECT };

struct pp_mapping {
	unsigned long address, length, offset;
	int fd, prot;
	int kind;
};

struct pp_stub_data {
	unsigned long offset;
	long err, child_err;
	int mappings;
	struct pp_mapping mapping[(PAGE_SIZE - 128) / sizeof(struct pp_mapping)] __aligned(16);
	/* What the program's registers are to be, and the rest of it as a stack. */
	unsigned long back[20] __aligned(PAGE_SIZE);
	unsigned char stack[PAGE_SIZE - 20 * sizeof(long)];
};
static_assert(sizeof(struct pp_stub_data) == 2 * PAGE_SIZE);

/* The kernel's own. */
extern unsigned long stub_start;
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
	struct pp_stub_data *data;
	struct pp_mapping *at, *end;
	long result;

	asm volatile("movq %%rsp, %0" : "=r"(data));
	data = (void *)((unsigned long)data & ~(sizeof(*data) - 1));
	end = data->mapping + data->mappings;
	for (at = data->mapping; at < end; at++) {
		if (at->kind == PP_MAP)
			result = pp_host_call(PP_HOST_MMAP, at->address, at->length, at->prot, PP_MAP_SHARED_FIXED, at->fd, at->offset) - at->address;
		else if (at->kind == PP_UNMAP)
			result = pp_host_call(PP_HOST_MUNMAP, at->address, at->length, 0, 0, 0, 0);
		else
			result = pp_host_call(PP_HOST_MPROTECT, at->address, at->length, at->prot, 0, 0, 0);
		if (result) {
			asm volatile("int3");
			for (;;)
				;
		}
	}
	data->mappings = 0;
	asm volatile("movq %0, %%rsp\n"
		     "popq %%r15; popq %%r14; popq %%r13; popq %%r12; popq %%rbp; popq %%rbx; popq %%r11; popq %%r10\n"
		     "popq %%r9; popq %%r8; popq %%rax; popq %%rcx; popq %%rdx; popq %%rsi; popq %%rdi\n"
		     "iretq" : : "r"(data->back));
	__builtin_unreachable();
}

static struct pp_stub_data *pp_stub_data(void)
{
	return current->mm ? (struct pp_stub_data *)current->mm->context.id.stack : NULL;
}

static unsigned long pp_stub_at(void (*function)(void))
{
	return stub_start + ((unsigned long)function - (unsigned long)__syscall_stub_start);
}

int pp_stub_waits(int pid, unsigned long at)
{
	struct pp_stub_data *data = pp_stub_data();
	int i;

	if (!data || current->mm->context.id.pid != pid || at != pp_stub_at(stub_syscall_handler))
		return 0;
	/* A full table is emptied because more comes. */
	if (data->mappings <= 0 || data->mappings >= (int)ARRAY_SIZE(data->mapping))
		return 0;
	for (i = 0; i < data->mappings; i++)
		if (data->mapping[i].kind < PP_MAP || data->mapping[i].kind > PP_PROTECT)
			return 0;
	data->err = 0;
	return 1;
}

unsigned long pp_stub_start(const unsigned long *back, unsigned long *stack)
{
	struct pp_stub_data *data = pp_stub_data();

	memcpy(data->back, back, sizeof(data->back));
	/* As a function finds it that was called. */
	*stack = stub_start + PAGE_SIZE + sizeof(*data) - sizeof(long);
	return pp_stub_at(pp_stub_map);
}

int pp_stub_lacks(void)
{
	struct pp_stub_data *data = pp_stub_data();

	return data && (data->mappings || data->err < 0);
}

unsigned long pp_stub_page(unsigned long *call)
{
	*call = pp_stub_at(pp_stub_call);
	return stub_start;
}
#endif
