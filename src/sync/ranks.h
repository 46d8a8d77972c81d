/* ranks.h - a job in one process for tests: a communicator in memory, each rank with
 * its own threads, and sums that a slow and plain writing of the arithmetic gives.
 *
 *     struct ranks ranks;
 *     ranks_create(&ranks, 3, &(struct taut_sync_options){ .ordered = true });
 *     ranks_each(&ranks, body);   // body(rank) on a thread for each rank
 *     ranks_destroy(&ranks);      // no faults, or the test fails
 *
 * Threads other than the test's cannot fail it: RANK_CHECK() counts instead. */
#ifndef TAUT_SYNC_RANKS_H
#define TAUT_SYNC_RANKS_H

#include "tests/support/ranks.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <taut/sync.h>

enum { SYNC_RANKS = 4, SYNC_ROOM = 5 }; /* of most tests; of all */

struct ranks;

struct rank {
	struct ranks *all;
	uint32_t id;
	struct taut_comm *comm;
	struct taut_sync *sync;
	void (*body)(struct rank *rank);
};

struct ranks {
	uint32_t n;
	struct rank rank[SYNC_ROOM];
	void *context; /* the test's */
	atomic_uint faults;
};

#define RANK_CHECK(rank, condition) \
	do { \
		if (condition) \
			break; \
		fprintf(stderr, "%s:%d: rank %u: not so: %s\n", __FILE__, \
			__LINE__, (rank)->id, #condition); \
		atomic_fetch_add(&(rank)->all->faults, 1); \
	} while (0)

#define RANK_OK(rank, call) \
	do { \
		struct taut_error why_ = { .message = "" }; \
		struct taut_error *why = &why_; \
		if ((call) == TAUT_OK) \
			break; \
		fprintf(stderr, "%s:%d: rank %u: %s: %s\n", __FILE__, \
			__LINE__, (rank)->id, #call, why_.message); \
		atomic_fetch_add(&(rank)->all->faults, 1); \
	} while (0)

static inline void ranks_create(struct ranks *ranks, uint32_t n,
	const struct taut_sync_options *options)
{
	struct taut_comm *comms[SYNC_ROOM];

	memset(ranks, 0, sizeof *ranks);
	ranks->n = n;
	assert_int_equal(taut_comm_create_inproc(n, comms, NULL), TAUT_OK);
	for (uint32_t i = 0; i < n; i++) {
		struct rank *rank = &ranks->rank[i];

		rank->all = ranks;
		rank->id = i;
		rank->comm = comms[i];
		assert_int_equal(taut_sync_create(
			rank->comm, options, &rank->sync, NULL), TAUT_OK);
	}
}

static inline void *ranks_run_body(void *context)
{
	const struct ranks_one *one = context;
	struct ranks *ranks = one->shared;
	struct rank *rank = &ranks->rank[one->rank];

	rank->body(rank);
	return NULL;
}

static inline void ranks_each(
	struct ranks *ranks, void (*body)(struct rank *rank))
{
	struct ranks_one ones[SYNC_ROOM];

	for (uint32_t i = 0; i < ranks->n; i++)
		ranks->rank[i].body = body;
	ranks_start(ones, 0, ranks->n, ranks_run_body, ranks);
	ranks_join(ones, 0, ranks->n);
	assert_int_equal(atomic_load(&ranks->faults), 0);
}

static inline void ranks_destroy(struct ranks *ranks)
{
	for (uint32_t i = 0; i < ranks->n; i++)
		taut_sync_destroy(ranks->rank[i].sync);
	for (uint32_t i = 0; i < ranks->n; i++)
		taut_comm_destroy(ranks->rank[i].comm);
	assert_int_equal(atomic_load(&ranks->faults), 0);
}

/* Where it does not matter whether all has ended. */
static inline void ranks_try_ready(
	struct rank *rank, uint32_t task, void *data)
{
	taut_status status = taut_sync_ready(rank->sync, task, data, NULL);

	RANK_CHECK(rank, status != TAUT_EINVAL);
}

static inline uint32_t ranks_declare(struct rank *rank, enum taut_type type,
	uint64_t count, int64_t priority, double factor)
{
	uint32_t task = TAUT_NONE;

	RANK_OK(rank, taut_sync_declare(rank->sync, type, count, priority,
		factor, &task, why));
	return task;
}

static inline void ranks_ready(struct rank *rank, uint32_t task, void *data)
{
	RANK_OK(rank, taut_sync_ready(rank->sync, task, data, why));
}

static inline void ranks_await(struct rank *rank, uint32_t task)
{
	RANK_OK(rank, taut_sync_wait(rank->sync, task, -1, why));
}

/* Until its thread sleeps, and what others said to it is over. */
static inline void ranks_become_still(struct rank *rank)
{
	struct taut_sync_counts before, now = { .sleeps = 0 };

	do {
		before = now;
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
		taut_sync_counts(rank->sync, &now);
	} while (now.sleeps != before.sleeps || !now.sleeps);
}

/* All that is under way ends so, with a line that has this part. */
static inline void ranks_expect_line(
	struct rank *rank, taut_status status, const char *part)
{
	struct taut_error err = { .message = "" };
	taut_status got = taut_sync_wait(rank->sync, TAUT_NONE, -1, &err);

	if (got != status || !strstr(err.message, part)) {
		fprintf(stderr, "rank %u: %d: %s\n", rank->id, (int)got,
			err.message);
		RANK_CHECK(rank, !"that line");
	}
}

/* --- numbers -------------------------------------------------------------------------
 * As numbers of 64 bits that hold what is in memory. */

static inline uint64_t ranks_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static inline uint64_t ranks_below(uint64_t *state, uint64_t n)
{
	return ranks_random(state) % n;
}

/* Of `precision` bits with least exponent `least`, by doubles, which hold it. */
static inline double ranks_round(
	double value, int precision, int least, double most)
{
	double unit, rounded;
	int exponent;

	if (value == 0 || !isfinite(value))
		return value;
	frexp(value, &exponent);
	exponent = exponent - 1 < least ? least : exponent - 1;
	unit = ldexp(1, exponent - precision + 1);
	rounded = nearbyint(value / unit) * unit;
	return fabs(rounded) > most ? copysign(INFINITY, value) : rounded;
}

static inline double ranks_round_half(double value)
{
	return ranks_round(value, 11, -14, 65504);
}

static inline double ranks_round_brain(double value)
{
	return ranks_round(value, 8, -126, 0x1.fep127);
}

static inline double ranks_half(uint64_t bits)
{
	int exponent = (int)(bits >> 10 & 31);
	double fraction = (double)(bits & 1023), value;

	if (exponent == 31)
		value = fraction > 0 ? (double)NAN : (double)INFINITY;
	else if (exponent)
		value = ldexp(fraction + 1024, exponent - 25);
	else
		value = ldexp(fraction, -24);
	return bits & 0x8000 ? -value : value;
}

static inline uint64_t ranks_half_bits(double value)
{
	uint64_t sign = signbit(value) ? 0x8000 : 0;
	double size = fabs(value);
	int exponent;

	if (isnan(value))
		return sign | 0x7e00;
	if (isinf(value))
		return sign | 0x7c00;
	if (size < 0x1p-14)
		return sign | (uint64_t)ldexp(size, 24);
	frexp(size, &exponent);
	return sign | ((uint64_t)(exponent + 14) << 10) |
		((uint64_t)ldexp(size, 11 - exponent) & 1023);
}

static inline double ranks_brain(uint64_t bits)
{
	uint32_t wide = (uint32_t)bits << 16;
	float value;

	memcpy(&value, &wide, sizeof value);
	return value;
}

static inline uint64_t ranks_brain_bits(double value)
{
	float narrow = (float)value;
	uint32_t wide;

	memcpy(&wide, &narrow, sizeof wide);
	return wide >> 16;
}

static inline uint64_t ranks_load(const void *data, size_t bytes, uint64_t i)
{
	uint64_t value = 0;

	memcpy(&value, (const char *)data + i * bytes, bytes);
	return value;
}

static inline void ranks_store(
	void *data, size_t bytes, uint64_t i, uint64_t value)
{
	memcpy((char *)data + i * bytes, &value, bytes);
}

/* Any value for which sums of a few are finite. */
static inline uint64_t ranks_value(enum taut_type type, uint64_t seed)
{
	uint64_t bits = ranks_random(&seed);
	double value = ldexp((double)(int32_t)bits, -20 - (int)(bits >> 60));
	float narrow = (float)value;

	switch (type) {
	case TAUT_FLOAT32:
		bits = 0;
		memcpy(&bits, &narrow, sizeof narrow);
		return bits;
	case TAUT_FLOAT64:
		memcpy(&bits, &value, sizeof value);
		return bits;
	case TAUT_FLOAT16:
		return ranks_half_bits(ranks_round_half(value));
	case TAUT_BFLOAT16:
		return ranks_brain_bits(ranks_round_brain(value));
	default:
		return bits;
	}
}

static inline uint64_t ranks_float_sum(uint64_t a, uint64_t b, double factor)
{
	float x, y;
	uint64_t bits = 0;

	memcpy(&x, &a, sizeof x);
	memcpy(&y, &b, sizeof y);
	y *= (float)factor;
	x += y;
	memcpy(&bits, &x, sizeof x);
	return bits;
}

static inline uint64_t ranks_double_sum(uint64_t a, uint64_t b, double factor)
{
	double x, y;

	memcpy(&x, &a, sizeof x);
	memcpy(&y, &b, sizeof y);
	y *= factor;
	x += y;
	memcpy(&a, &x, sizeof x);
	return a;
}

static inline uint64_t ranks_half_sum(uint64_t a, uint64_t b, double factor)
{
	float y = (float)ranks_half(b) * (float)factor;

	y = (float)ranks_half(a) + (float)ranks_round_half(y);
	return ranks_half_bits(ranks_round_half(y));
}

static inline uint64_t ranks_brain_sum(uint64_t a, uint64_t b, double factor)
{
	float y = (float)ranks_brain(b) * (float)factor;

	y = (float)ranks_brain(a) + (float)ranks_round_brain(y);
	return ranks_brain_bits(ranks_round_brain(y));
}

/* What a sum begins with: minus zero, to which all can be added without a trace. */
static inline uint64_t ranks_nothing(enum taut_type type)
{
	switch (type) {
	case TAUT_FLOAT32:
		return UINT64_C(1) << 31;
	case TAUT_FLOAT64:
		return UINT64_C(1) << 63;
	case TAUT_FLOAT16:
	case TAUT_BFLOAT16:
		return UINT64_C(1) << 15;
	default:
		return 0;
	}
}

/* a + b times factor, each step rounded as the type is. */
static inline uint64_t ranks_sum(
	enum taut_type type, uint64_t a, uint64_t b, double factor)
{
	factor = factor == 0 ? 1 : factor;
	switch (type) {
	case TAUT_FLOAT32:
		return ranks_float_sum(a, b, factor);
	case TAUT_FLOAT64:
		return ranks_double_sum(a, b, factor);
	case TAUT_FLOAT16:
		return ranks_half_sum(a, b, factor);
	case TAUT_BFLOAT16:
		return ranks_brain_sum(a, b, factor);
	default:
		return a + b;
	}
}

/* A float32 times the factor, rounded to 16 bits; NaN: the quiet one that sums have. */
static inline uint64_t ranks_narrow(
	enum taut_type wire, uint64_t bits, double factor)
{
	float x;

	memcpy(&x, &bits, sizeof x);
	x *= factor == 0 ? 1 : (float)factor;
	if (isnan(x))
		return wire == TAUT_FLOAT16 ? 0x7e00 : 0x7fc0;
	return wire == TAUT_FLOAT16 ? ranks_half_bits(ranks_round_half(x)) :
		ranks_brain_bits(ranks_round_brain(x));
}

static inline uint64_t ranks_widen(enum taut_type wire, uint64_t bits)
{
	float x = (float)(wire == TAUT_FLOAT16 ? ranks_half(bits) :
		ranks_brain(bits));
	uint64_t wide = 0;

	memcpy(&wide, &x, sizeof x);
	return isnan(x) ? 0x7fc00000 : wide;
}

/* Bits of the type alone: integers wrap. */
static inline uint64_t ranks_bits(enum taut_type type, uint64_t value)
{
	size_t bits = 8 * taut_type_bytes(type);

	return bits == 64 ? value : value & ((UINT64_C(1) << bits) - 1);
}

#endif /* TAUT_SYNC_RANKS_H */
