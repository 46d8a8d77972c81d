/* origin.c - a page that children do not inherit. */
#include "base/origin.h"

#include <stdint.h>
#include <sys/mman.h>

void tauti_origin_init(struct tauti_origin *origin)
{
	long bytes = sysconf(_SC_PAGESIZE);
	unsigned char *page = MAP_FAILED;

	*origin = (struct tauti_origin){ .process = getpid() };
#ifdef MADV_WIPEONFORK
	if (bytes > 0)
		page = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return;
	if (madvise(page, (size_t)bytes, MADV_WIPEONFORK) != 0) {
		munmap(page, (size_t)bytes);
		return;
	}
	*page = 1;
	origin->page = page;
	origin->page_bytes = (size_t)bytes;
#else
	(void)bytes;
	(void)page;
#endif
}

void tauti_origin_fini(struct tauti_origin *origin)
{
	if (origin->page)
		munmap((void *)(uintptr_t)origin->page, origin->page_bytes);
	origin->page = NULL;
}
