/* now.h - the machine's monotonic clock for who needs no other one. What acts in a
 * step, and may be played on a virtual clock, is handed a struct taut_clock. */
#ifndef TAUT_BASE_NOW_H
#define TAUT_BASE_NOW_H

#include <stdint.h>
#include <time.h>

static inline int64_t tauti_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline int64_t tauti_earlier_ns(int64_t a_ns, int64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

#endif /* TAUT_BASE_NOW_H */
