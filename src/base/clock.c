/* clock.c - the machine's own clock, in the shape that a virtual one has. */
#include <taut/base.h>

#include "base/now.h"

static int64_t monotonic_now_ns(void *state)
{
	(void)state;
	return tauti_now_ns();
}

struct taut_clock taut_clock_monotonic(void)
{
	return (struct taut_clock){ .now_ns = monotonic_now_ns };
}
