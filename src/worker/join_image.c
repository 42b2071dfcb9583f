#include "worker/join_image.h"

#include <linux/elf.h>
#include <linux/fcntl.h>
#include <linux/mman.h>

#include "worker/join_sys.h"

#if __SIZEOF_POINTER__ != 8
#error "for 64-bit programs"
#endif

static unsigned long down(unsigned long at, unsigned long page)
{
	return at & ~(page - 1);
}

static int protection(__u32 flags)
{
	return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) | (flags & PF_X ? PROT_EXEC : 0);
}

/* The same bytes at the same place, in memory of no file. */
static long copy_range(unsigned long from, unsigned long to, int prot)
{
	unsigned long len = to - from;
	long copy = sys6(SYS_mmap, 0, (long)len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (copy < 0 && copy > -4096)
		return copy;
	for (unsigned long i = 0; i < len / sizeof(long); i++)
		((long *)copy)[i] = ((const long *)from)[i];
	long e = sys3(SYS_mprotect, copy, (long)len, prot);
	if (e < 0)
		return e;
	e = sys5(SYS_mremap, copy, (long)len, (long)len, MREMAP_MAYMOVE | MREMAP_FIXED, (long)from);
	return e < 0 && e > -4096 ? e : 0;
}

/* The memory that the dynamic linker made read-only after it had written there. */
static long protect_again(const Elf64_Phdr *h, unsigned long base, unsigned long page)
{
	unsigned long from = down(base + h->p_vaddr, page), to = down(base + h->p_vaddr + h->p_memsz, page);
	return to > from ? sys3(SYS_mprotect, (long)from, (long)(to - from), PROT_READ) : 0;
}

__attribute__((visibility("default"))) long zygote_leave_file(const void *phdr, long n, long page_size)
{
	const Elf64_Phdr *all = phdr;
	unsigned long base = 0, page = (unsigned long)page_size;
	long e = 0;
	for (long i = 0; i < n; i++)
		if (all[i].p_type == PT_PHDR)
			base = (unsigned long)phdr - all[i].p_vaddr;
	/* The headers lie in a segment themselves: it stays readable at every moment. */
	for (long i = 0; i < n && e == 0; i++)
		if (all[i].p_type == PT_LOAD && all[i].p_filesz)
			e = copy_range(down(base + all[i].p_vaddr, page),
				down(base + all[i].p_vaddr + all[i].p_filesz + page - 1, page),
				protection(all[i].p_flags));
	for (long i = 0; i < n && e == 0; i++)
		if (all[i].p_type == PT_GNU_RELRO)
			e = protect_again(&all[i], base, page);
	return e;
}

long image_take_file(const char *path, const struct prctl_mm_map *map)
{
	struct prctl_mm_map m = *map;
	/* The box may have anything there: a pipe must not hold us up. */
	long fd = sys4(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	m.brk = (__u64)sys1(SYS_brk, 0);
	m.auxv = 0;
	m.auxv_size = 0;
	m.exe_fd = (__u32)fd;
	long e = sys5(SYS_prctl, PR_SET_MM, PR_SET_MM_MAP, (long)&m, sizeof m, 0);
	sys1(SYS_close, fd);
	return e;
}
