/* skew_clock.c - a wall clock that is wrong, for tests: preloaded, it adds
 *
 *     TAUT_SKEW_OFFSET_NS + (now - TAUT_SKEW_ORIGIN_NS) * TAUT_SKEW_DRIFT_PPB
 *                                                       / 1e9
 *
 * to what CLOCK_REALTIME tells the process. What waits until a time of that
 * clock waits by the true one: keep the offset small. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t offset_ns, origin_ns, drift_ppb;

static int64_t number_of(const char *name)
{
	const char *text = getenv(name);

	return text ? strtoll(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void read_environment(void)
{
	offset_ns = number_of("TAUT_SKEW_OFFSET_NS");
	origin_ns = number_of("TAUT_SKEW_ORIGIN_NS");
	drift_ppb = number_of("TAUT_SKEW_DRIFT_PPB");
}

static int64_t skewed_ns(const struct timespec *now)
{
	int64_t now_ns = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec;
	double passed_ns = (double)(now_ns - origin_ns);

	return now_ns + offset_ns +
		(int64_t)(passed_ns * ((double)drift_ppb * 1e-9));
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (syscall(SYS_clock_gettime, clock, now))
		return -1;
	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
		int64_t ns = skewed_ns(now);

		now->tv_sec = ns / 1000000000;
		now->tv_nsec = ns % 1000000000;
	}
	return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec at;

	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &at))
		return -1;
	now->tv_sec = at.tv_sec;
	now->tv_usec = at.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *ret_now)
{
	struct timespec at = { .tv_sec = 0 };

	clock_gettime(CLOCK_REALTIME, &at);
	if (ret_now)
		*ret_now = at.tv_sec;
	return at.tv_sec;
}
