/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a program did when it met a page that is not mapped, or may not be written: read or write.
 * The kernel learns of it from a handler that the program runs for it, which takes a turn of both
 * processes. Here the stopped program's instruction is looked at instead, which is most of the
 * kernel's answer; the address the host knows by itself.
 *
 * Only instructions of which there is no doubt are known here; for all others the handler runs.
 * What both reads and writes its operand (an addition to memory) writes where the page may be read,
 * and else has the handler run: processors do not agree on what such an instruction did.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>

#define PAGE_BYTES 4096UL
/* A string instruction may have gone some bytes beyond its registers. */
#define STRING_BYTES 64UL

enum access { UNKNOWN = -1, READS = 0, WRITES = 1, MODIFIES = 2 };

static int within(unsigned long address, unsigned long first, unsigned long bytes)
{
	return address - first < bytes;
}

static int touches(unsigned long address, unsigned long first, unsigned long bytes)
{
	unsigned long page = address / PAGE_BYTES;

	return page >= first / PAGE_BYTES && page <= (first + bytes - 1) / PAGE_BYTES;
}

/* Opcodes behind 0x0f, with or without VEX and EVEX; `simd` is the prefix that belongs to them. */
static enum access of_two_bytes(const unsigned char *at, unsigned char simd, int vex)
{
	unsigned char opcode = at[0], modrm = at[1];

	if (modrm >> 6 == 3)
		return UNKNOWN;
	switch (opcode) {
	case 0x10: case 0x12: case 0x14 ... 0x16: case 0x28: case 0x2a: case 0x2c ... 0x2f:
	case 0x51 ... 0x6f: case 0x70: case 0x74 ... 0x76: case 0xc2: case 0xc6:
	case 0xd1 ... 0xd5: case 0xd8 ... 0xe5: case 0xe8 ... 0xef: case 0xf1 ... 0xf6: case 0xf8 ... 0xfe:
		return READS;
	case 0x11: case 0x13: case 0x17: case 0x29: case 0x2b: case 0x7f: case 0xd6: case 0xe7:
		return WRITES;
	case 0x7e:
		return simd == 0xf3 ? READS : WRITES;
	}
	if (vex)
		return UNKNOWN;
	switch (opcode) {
	case 0x40 ... 0x4f: case 0xa3: case 0xaf: case 0xb6: case 0xb7: case 0xbc ... 0xbf:
		return READS;
	case 0x90 ... 0x9f: case 0xc3:
		return WRITES;
	case 0xab: case 0xb0: case 0xb1: case 0xb3: case 0xbb: case 0xc0: case 0xc1:
		return MODIFIES;
	case 0xba:
		return (modrm >> 3 & 7) < 4 ? UNKNOWN : (modrm >> 3 & 7) == 4 ? READS : MODIFIES;
	}
	return UNKNOWN;
}

static enum access of_string(unsigned char opcode, unsigned long address, const struct user_regs_struct *registers)
{
	int from = touches(address, registers->rsi, STRING_BYTES), to = touches(address, registers->rdi, STRING_BYTES);

	switch (opcode) {
	case 0xa4: case 0xa5:
		return from == to ? UNKNOWN : to ? WRITES : READS;
	case 0xaa: case 0xab:
		return WRITES;
	}
	return READS;
}

static enum access of_one_byte(const unsigned char *at, unsigned long address, const struct user_regs_struct *registers)
{
	unsigned char opcode = at[0], modrm = at[1], reg = modrm >> 3 & 7;
	int memory = modrm >> 6 != 3;

	switch (opcode) {
	case 0x50 ... 0x57: case 0x68: case 0x6a: case 0xe8:
		return within(address, registers->rsp - 8, 8) ? WRITES : UNKNOWN;
	case 0x58 ... 0x5f: case 0xc3:
		return within(address, registers->rsp, 8) ? READS : UNKNOWN;
	case 0xc9:
		return within(address, registers->rbp, 8) ? READS : UNKNOWN;
	case 0xa4 ... 0xa7: case 0xaa ... 0xaf:
		return of_string(opcode, address, registers);
	}
	if (!memory)
		return UNKNOWN;
	switch (opcode) {
	case 0x00 ... 0x3f:
		/* Two operands; of these eight operations only a comparison leaves its first one alone. */
		if ((opcode & 7) > 3)
			return UNKNOWN;
		return (opcode & 2) || (opcode & 0x38) == 0x38 ? READS : MODIFIES;
	case 0x63: case 0x69: case 0x6b: case 0x84: case 0x85: case 0x8a: case 0x8b:
		return READS;
	case 0x80: case 0x81: case 0x83:
		return reg == 7 ? READS : MODIFIES;
	case 0x86: case 0x87:
		return MODIFIES;
	case 0x88: case 0x89:
		return WRITES;
	case 0xc6: case 0xc7:
		return reg == 0 ? WRITES : UNKNOWN;
	case 0xf6: case 0xf7:
		return reg == 2 || reg == 3 ? MODIFIES : READS;
	case 0xfe: case 0xff:
		if (reg < 2)
			return MODIFIES;
		if (opcode == 0xfe)
			return UNKNOWN;
		/* A call reads its target and writes where it returns to; a jump only reads. */
		if (reg == 2 && (modrm & 7) != 4)
			return within(address, registers->rsp - 8, 8) ? WRITES : READS;
		return reg == 4 ? READS : UNKNOWN;
	}
	return UNKNOWN;
}

/*
 * Whether the instruction `code` (15 bytes; what is beyond its end may be anything) wrote to
 * `address` (1) when it stopped with these registers, read (0), or does both (2); -1 where that is
 * not known for certain.
 */
int pp_fault_writes(const unsigned char *code, unsigned long address, const struct user_regs_struct *registers)
{
	unsigned char simd = 0;
	int prefixes = 0;

	for (;; code++) {
		if (prefixes++ > 4)
			return UNKNOWN;
		if (*code == 0xf2 || *code == 0xf3)
			simd = *code;
		else if (*code != 0x66 && *code != 0x2e && *code != 0x3e && *code != 0x64 && *code != 0x65 && *code != 0xf0)
			break;
	}
	if (code[0] == 0xc5)
		return of_two_bytes(code + 2, (code[1] & 3) == 2 ? 0xf3 : 0, 1);
	/* Of the other forms only those with the opcodes behind 0x0f. */
	if (code[0] == 0xc4)
		return (code[1] & 0x1f) == 1 ? of_two_bytes(code + 3, (code[2] & 3) == 2 ? 0xf3 : 0, 1) : UNKNOWN;
	if (code[0] == 0x62)
		return (code[1] & 7) == 1 ? of_two_bytes(code + 4, (code[2] & 3) == 2 ? 0xf3 : 0, 1) : UNKNOWN;
	if ((code[0] & 0xf0) == 0x40)
		code++;
	return code[0] == 0x0f ? of_two_bytes(code + 1, simd, 0) : of_one_byte(code, address, registers);
}

/* What the kernel keeps of a fault, where its handler leaves it:
 * arch/x86/um/shared/sysdep/faultinfo_64.h. */
struct faultinfo {
	int error_code;
	unsigned long cr2;
	int trap_no;
};

#define PAGE_FAULT 14	/* trap_no */
/* Bits of error_code. */
#define PRESENT 1
#define WRITE 2
#define USER 4
#define FETCH 16

#define USER_CS 0x33	/* 64-bit programs */
#define LONGEST_INSTRUCTION 15

/* The kernel's own: where the handler leaves it, in the process that is current. */
extern unsigned long current_stub_stack(void) __attribute__((weak));
/* around.c */
extern void pp_fault_around(unsigned long address) __attribute__((weak));

/* The process whose registers were taken last, and where it faulted then. */
static struct {
	pid_t pid;	/* 0: none */
	struct user_regs_struct registers;
	int code;	/* si_code; 0: not known */
	unsigned long address;
} stopped;

/* Whether the handler of this release was seen to leave what is expected: 1 yes, -1 no, 0 not
 * yet. */
static int trusted;
/* The process whose handler shows it, and what is expected. */
static pid_t watched;
static struct faultinfo expected;

void pp_fault_registers(pid_t pid, const struct user_regs_struct *registers)
{
	stopped.pid = pid;
	stopped.registers = *registers;
	stopped.code = 0;
}

void pp_fault_signal(pid_t pid, const siginfo_t *info)
{
	if (pid != stopped.pid || info->si_signo != SIGSEGV)
		return;
	stopped.code = info->si_code;
	stopped.address = (unsigned long)info->si_addr;
}

/* The processor's error code, or -1 where only the handler can say. A page that may not be
 * accessed counts as present. */
static int error_code(pid_t pid)
{
	unsigned char code[LONGEST_INSTRUCTION + 1] = { 0 };
	unsigned long address = stopped.address, rip = stopped.registers.rip;
	struct iovec here = { code, LONGEST_INSTRUCTION }, there = { (void *)rip, LONGEST_INSTRUCTION };
	int present = stopped.code == SEGV_ACCERR, writes;

	if (pid != stopped.pid || (!present && stopped.code != SEGV_MAPERR) || stopped.registers.cs != USER_CS)
		return -1;
	if (address == rip && !present)
		return USER | FETCH;
	if (address - rip < LONGEST_INSTRUCTION || process_vm_readv(pid, &here, 1, &there, 1, 0) != LONGEST_INSTRUCTION)
		return -1;
	writes = pp_fault_writes(code, address, &stopped.registers);
	/* A page that is there can be read, as a rule; and what does both may have done either where
	 * there is none. */
	if (writes == UNKNOWN || (present && writes == READS) || (!present && writes == MODIFIES))
		return -1;
	return USER | (writes ? WRITE : 0) | (present ? PRESENT : 0);
}

/*
 * The kernel is about to let a program run the handler of its fault. Puts there what that would
 * leave, and returns 1; or 0, where the handler is needed. The first such handler runs in any case,
 * and shows whether this release's leaves what is expected.
 */
int pp_fault_told(pid_t pid)
{
	struct faultinfo fault = { 0, stopped.address, PAGE_FAULT };

	if (trusted < 0 || !current_stub_stack)
		return 0;
	fault.error_code = error_code(pid);
	if (fault.error_code < 0)
		return 0;
	if (trusted) {
		/* This may sleep, while another program with the same memory has a fault told there. */
		if (fault.error_code & PRESENT)
			pp_fault_around(fault.cr2);
		*(struct faultinfo *)current_stub_stack() = fault;
		return 1;
	}
	watched = pid;
	expected = fault;
	return 0;
}

/* A process has stopped by a trap, as a handler ends. */
void pp_fault_handled(pid_t pid)
{
	const struct faultinfo *left;

	if (!watched || pid != watched)
		return;
	watched = 0;
	left = (const struct faultinfo *)current_stub_stack();
	trusted = (left->error_code | PRESENT) == (expected.error_code | PRESENT) && left->cr2 == expected.cr2 && left->trap_no == expected.trap_no ? 1 : -1;
}
