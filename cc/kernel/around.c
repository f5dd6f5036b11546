/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pages around one that a program writes and may not: they become writable with it.
 *
 * A fork leaves every page of parent and child read-only, and each one's first write is a fault,
 * for which the host stops the program. That takes longer than copying the page. So the neighbours
 * become writable too, copied where needed: pages of the same private mapping that are there
 * already. The program cannot tell: it gets the pages that it would get, in another order.
 */
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/version.h>
#include <asm/tlbflush.h>

/* fault.c: a program of `current` writes `address`, and may not. The page itself is left to the
 * kernel. */
void pp_fault_around(unsigned long address);

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
/* There a changed page is mapped at once, by code that runs in the stopped program, which is not
 * to run now. Later releases do so before the program goes on. */
void pp_fault_around(unsigned long address)
{
}
#else

#define PP_PAGES 8UL	/* a power of two; aligned to it */

/* Whether a write there would be a fault though a page is there. */
static bool pp_waits(struct mm_struct *mm, unsigned long address)
{
	pmd_t *pmd = pmd_off(mm, address);
	pte_t pte;

	if (pmd_none(*pmd))
		return false;
	pte = *pte_offset_kernel(pmd, address);
	return pte_present(pte) && (!pte_young(pte) || !pte_write(pte));
}

void pp_fault_around(unsigned long address)
{
	struct mm_struct *mm = current->mm;
	unsigned long first, last, at;
	struct vm_area_struct *vma;

	if (!mm || !mmap_read_trylock(mm))
		return;
	vma = find_vma(mm, address);
	if (!vma || vma->vm_start > address || vma->vm_flags & (VM_SHARED | VM_PFNMAP | VM_IO) || !(vma->vm_flags & VM_WRITE))
		goto out;
	first = address & ~(PP_PAGES * PAGE_SIZE - 1);
	last = min(first + PP_PAGES * PAGE_SIZE, vma->vm_end);
	first = max(first, vma->vm_start);
	for (at = first; at < last; at += PAGE_SIZE) {
		if (at == (address & PAGE_MASK) || !pp_waits(mm, at))
			continue;
		if (handle_mm_fault(vma, at, FAULT_FLAG_USER | FAULT_FLAG_WRITE, NULL) & VM_FAULT_ERROR)
			break;
	}
	flush_tlb_range(vma, first, last);
out:
	mmap_read_unlock(mm);
}
#endif
