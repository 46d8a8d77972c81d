/* stalls_host.c - memory that is left for files. */
#include <sys/resource.h>

#include "cli/memory.h"
#include "cli/stalls.h"

uint64_t stalls_page_cache(uint32_t n_ranks)
{
	uint64_t bytes = memory_left(""), ranks = 0;
	struct rusage used;

	if (!getrusage(RUSAGE_CHILDREN, &used))
		ranks = (uint64_t)used.ru_maxrss * 1024 * n_ranks;
	return bytes > ranks ? bytes - ranks : 0;
}
