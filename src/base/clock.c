/* clock.c - the machine's own clock, in the shape that a virtual one has. */
#include <taut/base.h>

#include <time.h>

static int64_t monotonic_now_ns(void *state)
{
	(void)state;
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct taut_clock taut_clock_monotonic(void)
{
	return (struct taut_clock){ .now_ns = monotonic_now_ns };
}
