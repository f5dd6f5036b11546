"""What cc/kernel/fault.c says that an instruction did, beside what the processor says of it.

Each runs on a page that is not there, and what writes on one that may not be written, too.
"""

import re
import subprocess
from pathlib import Path

import pytest
from requirement import lacking

SOURCE = Path(__file__).parents[2] / "cc" / "kernel" / "fault.c"
UNKNOWN, READS, WRITES, MODIFIES = -1, 0, 1, 2
# With rbx at the page, and rcx 8. What comes after a semicolon is prepared before.
READING = (
    "mov (%rbx), %al",
    "movl (%rbx), %eax",
    "movq 8(%rbx), %r9",
    "movzbl (%rbx), %eax",
    "movzwl (%rbx), %eax",
    "movsbl (%rbx), %eax",
    "movslq (%rbx), %rax",
    "cmpl %eax, (%rbx)",
    "cmpb $7, (%rbx)",
    "cmpq (%rbx), %rax",
    "testb $1, (%rbx)",
    "testq %rax, (%rbx)",
    "addq (%rbx), %rax",
    "subl (%rbx), %eax",
    "andl (%rbx), %eax",
    "imulq (%rbx), %rax",
    "mulq (%rbx)",
    "btl $3, (%rbx)",
    "bsfl (%rbx), %eax",
    "cmovnel (%rbx), %eax",
    "movups (%rbx), %xmm0",
    "movdqu (%rbx), %xmm1",
    "movaps (%rbx), %xmm0",
    "movq (%rbx), %xmm0",
    "movd (%rbx), %xmm0",
    "pcmpeqb (%rbx), %xmm0",
    "addsd (%rbx), %xmm0",
    "cvtsi2sdl (%rbx), %xmm0",
    "ucomiss (%rbx), %xmm0",
    "jmp *(%rbx)",
    "call *(%rbx)",
    "pop %rax; mov %rbx, %rsp",
    "ret; mov %rbx, %rsp",
    "leave; mov %rbx, %rbp",
    "lodsb; mov %rbx, %rsi",
    "scasb; mov %rbx, %rdi",
    "rep movsb; mov %rbx, %rsi",
    "movsq; mov %rbx, %rsi",
)
WRITING = (
    "mov %al, (%rbx)",
    "movl %eax, (%rbx)",
    "movq %r9, 8(%rbx)",
    "movb $1, (%rbx)",
    "movq $1, (%rbx)",
    "movups %xmm0, (%rbx)",
    "movdqu %xmm1, (%rbx)",
    "movaps %xmm0, (%rbx)",
    "movq %xmm0, (%rbx)",
    "movd %xmm0, (%rbx)",
    "movntdq %xmm0, (%rbx)",
    "movnti %eax, (%rbx)",
    "setne (%rbx)",
    "movlps %xmm0, (%rbx)",
    "movhps %xmm0, (%rbx)",
    "push %rax; lea 64(%rbx), %rsp",
    "push $5; lea 64(%rbx), %rsp",
    "call 1f\\n1:; lea 64(%rbx), %rsp",
    "stosb; mov %rbx, %rdi",
    "rep stosq; mov %rbx, %rdi",
    "rep movsb; mov %rbx, %rdi",
    "movsq; mov %rbx, %rdi",
)
BOTH = (
    "addl %eax, (%rbx)",
    "addq $1, (%rbx)",
    "subl %eax, (%rbx)",
    "orl $1, (%rbx)",
    "xorb %al, (%rbx)",
    "incl (%rbx)",
    "decb (%rbx)",
    "negq (%rbx)",
    "notl (%rbx)",
    "xchg %eax, (%rbx)",
    "lock incl (%rbx)",
    "lock cmpxchgl %eax, (%rbx)",
    "lock xaddq %rax, (%rbx)",
    "btsl $3, (%rbx)",
)
DOUBTFUL = ("shll $1, (%rbx)", "fldl (%rbx)", "push (%rbx)", "call *(%rsp); mov %rbx, %rsp", "cmpxchg16b (%rbx)", "pshufb (%rbx), %xmm0")
AVX = ("vmovdqu (%rbx), %ymm0", "vmovdqu %ymm0, (%rbx)", "vmovups %ymm0, (%rbx)", "vpcmpeqb (%rbx), %ymm1, %ymm0", "vmovq (%rbx), %xmm0")
PROGRAM = r"""
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/user.h>
#include <ucontext.h>

int pp_fault_writes(const unsigned char *code, unsigned long address, const struct user_regs_struct *registers);

static sigjmp_buf back;
static const char *name;

static void fault(int signal, siginfo_t *info, void *context)
{
	greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
	struct user_regs_struct r = { .rsp = g[REG_RSP], .rbp = g[REG_RBP], .rsi = g[REG_RSI], .rdi = g[REG_RDI] };

	int ours = pp_fault_writes((void *)g[REG_RIP], (unsigned long)info->si_addr, &r);

	printf("%s|%d|%d|%d\n", name, info->si_code, (int)(g[REG_ERR] >> 1 & 1), ours);
	siglongjmp(back, 1);
}

static char own[16384] __attribute__((aligned(4096)));

int main(void)
{
	static char stack[65536];
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };

	sigaltstack(&alternate, NULL);
	sigaction(SIGSEGV, &action, NULL);
	for (int readable = 0; readable < @PAGES@; readable++) {
		char *page = mmap(NULL, 4096, readable ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (!readable)
			munmap(page, 4096);
@CASES@
	}
	return 0;
}
"""
CASE = """
name = "@NAME@";
if (!sigsetjmp(back, 1))
    asm volatile("mov %0, %%rsi\\n mov %0, %%rdi\\n mov $8, %%ecx\\n xor %%eax, %%eax\\n mov %1, %%rbx\\n @BEFORE@\\n @CODE@"
                 :: "r"(own + 8192), "r"(page) : "memory", "rax", "rbx", "rcx", "rsi", "rdi");
"""


def said(cases, folder, *, read_only_too=False):
    """What the processor and fault.c say of each instruction that met a fault."""
    texts = []
    for case in cases:
        code, _, before = (part.strip().replace("%", "%%") for part in case.partition(";"))
        texts.append(CASE.replace("@NAME@", case.replace("\\n", " ")).replace("@BEFORE@", before).replace("@CODE@", code))
    (folder / "main.c").write_text(PROGRAM.replace("@CASES@", "".join(texts)).replace("@PAGES@", "2" if read_only_too else "1"))
    subprocess.run(
        ["gcc", "-O0", "-mavx2", "-fno-pie", "-no-pie", "-fcf-protection=none", "-o", folder / "main", folder / "main.c", SOURCE],
        check=True,
    )
    printed = subprocess.run([folder / "main"], check=True, capture_output=True, text=True).stdout
    rows = [line.rsplit("|", 3) for line in printed.splitlines()]
    names = {case.replace("\\n", " "): case for case in cases}
    return {(names[name], code == "2"): (int(hardware), int(ours)) for name, code, hardware, ours in rows}


@pytest.mark.parametrize(("cases", "expected"), [(READING, READS), (WRITING, WRITES), (BOTH, MODIFIES), (DOUBTFUL, UNKNOWN)])
def test_what_an_instruction_did_is_what_the_processor_says(cases, expected, tmp_path):
    writes = expected in (WRITES, MODIFIES)
    # What only reads meets no fault on a page that may be read.
    found = said(cases, tmp_path, read_only_too=writes)
    assert set(found) == {(case, readable) for case in cases for readable in ((False, True) if writes else (False,))}
    for (case, readable), (hardware, ours) in found.items():
        assert ours == expected, case
        if expected == MODIFIES:
            assert hardware == 1 or not readable, case
        elif expected != UNKNOWN:
            assert hardware == expected, case


def test_wider_registers_are_known_too(tmp_path):
    if not re.search(r"\bavx2\b", Path("/proc/cpuinfo").read_text()):
        lacking("avx2", "this processor has no AVX2")
    found = said(AVX, tmp_path)
    assert set(found) == {(case, False) for case in AVX}
    assert all(hardware == ours for hardware, ours in found.values())
