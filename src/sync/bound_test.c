/* What crossing the barrier can give, by cases worked out by hand, and beside the
 * shortest steps of small jobs, found among all ways to make them. */
#include "tests/support/unit.h"

#include <math.h>
#include <stdlib.h>

#include <taut/sync.h>

static struct taut_sync_bound bound_of(
	int64_t f, int64_t b, int64_t c, int64_t exposed)
{
	return taut_sync_bound(&(struct taut_sync_times){
		.forward_ns = f,
		.backward_ns = b,
		.communication_ns = c,
		.exposed_ns = exposed,
	});
}

static void expect(int64_t f, int64_t b, int64_t c, int64_t overlapped,
	int64_t crossed, double gain)
{
	struct taut_sync_bound bound = bound_of(f, b, c, 0);

	assert_true(bound.overlapped_ns == overlapped);
	assert_true(bound.crossed_ns == crossed);
	assert_true(fabs(bound.most_gain - gain) < 1e-12);
}

static void test_cases(void **state)
{
	(void)state;
	expect(10, 20, 0, 30, 30, 1);
	expect(10, 20, 15, 30, 30, 1); /* hidden behind the backward pass */
	expect(10, 20, 20, 30, 30, 1);
	expect(10, 20, 25, 35, 30, 35.0 / 30);
	expect(10, 20, 30, 40, 30, 4.0 / 3); /* the most for b = 2 f */
	expect(10, 20, 60, 70, 60, 7.0 / 6);
	expect(10, 0, 10, 20, 10, 2); /* the most there is */
	expect(0, 0, 0, 0, 0, 1);
	expect(-5, 20, 10, 20, 20, 1);
}

/* What waits behind the backward pass counts, where it is more than C - b. */
static void test_exposed(void **state)
{
	struct taut_sync_bound bound = bound_of(10, 20, 15, 6);

	(void)state;
	assert_true(bound.overlapped_ns == 36 && bound.crossed_ns == 30);
	bound = bound_of(10, 20, 30, 6); /* C - b is more */
	assert_true(bound.overlapped_ns == 40 && bound.crossed_ns == 30);
	bound = bound_of(10, 20, 30, 15);
	assert_true(bound.overlapped_ns == 45 && bound.crossed_ns == 30);
	bound = bound_of(10, 20, 15, -6);
	assert_true(bound.overlapped_ns == 30 && bound.most_gain == 1);
}

/* At no times is it more than 1 + f / (f + b), and it never falls below 1. */
static void test_most(void **state)
{
	const int64_t f = 70, b = 130;

	(void)state;
	for (int64_t c = 0; c < 1000; c += 7) {
		struct taut_sync_bound bound = bound_of(f, b, c, 0);

		assert_true(bound.most_gain >= 1);
		assert_true(bound.most_gain <= 1 + 70.0 / 200 + 1e-12);
	}
	expect(f, b, f + b, 2 * f + b, f + b, 1 + 70.0 / 200);
	assert_true(bound_of(INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX)
		.crossed_ns > 0);
}

/* Updates keep the core busy in either step; a window is a bound of one that crosses,
 * and where it is more than the other takes there is nothing to gain. */
static void test_window_and_update(void **state)
{
	struct taut_sync_times times = { .forward_ns = 10, .backward_ns = 20,
		.update_ns = 5, .communication_ns = 30, .exposed_ns = 12 };
	struct taut_sync_bound bound = taut_sync_bound(&times);

	(void)state;
	assert_true(bound.overlapped_ns == 47 && bound.crossed_ns == 35);
	times.window_ns = 40;
	bound = taut_sync_bound(&times);
	assert_true(bound.overlapped_ns == 47 && bound.crossed_ns == 40);
	assert_true(fabs(bound.most_gain - 47.0 / 40) < 1e-12);
	times.window_ns = 50;
	bound = taut_sync_bound(&times);
	assert_true(bound.crossed_ns == 50 && bound.most_gain == 1);
	times = (struct taut_sync_times){ INT64_MAX, INT64_MAX, INT64_MAX,
		INT64_MAX, INT64_MAX, INT64_MAX };
	assert_true(taut_sync_bound(&times).overlapped_ns > 0);
}

static void test_pieces(void **state)
{
	const uint64_t kib = 1024, mib = 1 << 20;
	const int64_t ms = 1000000;

	(void)state;
	/* 31 bytes a microsecond, of 248 Mbit/s: 77.5 kB in 2.5 ms */
	assert_true(taut_sync_piece_bytes(31000000, 1000 * ms) == 64 * kib);
	/* the nearest by its logarithm, on both sides of sqrt(2) 64 KiB */
	assert_true(taut_sync_piece_bytes(92681, 2500000) == 64 * kib);
	assert_true(taut_sync_piece_bytes(92683, 2500000) == 128 * kib);
	/* 10 Gbit/s, and 10 Mbit/s */
	assert_true(taut_sync_piece_bytes(1250000000, 1000 * ms) == mib);
	assert_true(taut_sync_piece_bytes(1250000, 1000 * ms) == 32 * kib);
	assert_true(taut_sync_piece_bytes(UINT64_MAX, 1) == mib);
	assert_true(taut_sync_piece_bytes(1, INT64_MAX) == 32 * kib);
	assert_true(taut_sync_piece_bytes(0, ms) == mib);
	assert_true(taut_sync_piece_bytes(mib, 0) == mib);
	assert_true(taut_sync_piece_bytes(mib, -1) == mib);
}

/* --- windows ------------------------------------------------------------------ */

static void expect_window(struct taut_sync_demand *demands, size_t n,
	int64_t bound, int64_t ready, int64_t due, int64_t communication)
{
	struct taut_sync_window window = taut_sync_window(demands, n);

	assert_true(window.bound_ns == bound);
	assert_true(window.ready_ns == ready);
	assert_true(window.due_ns == due);
	assert_true(window.communication_ns == communication);
}

/* communication, update, need, ready */
static void test_window_cases(void **state)
{
	/* f = 10, b = 20. An embedding that is tied to the output: all of it goes
	 * while nothing is computed. */
	struct taut_sync_demand tied[] = { { 8, 0, 0, 30 }, { 9, 0, 5, 20 } };
	/* Each layer's gradient comes as late as it is needed early. */
	struct taut_sync_demand chain[] = { { 6, 0, 0, 30 }, { 6, 0, 3, 24 },
		{ 6, 0, 6, 18 } };
	/* The large layer lies in the middle, needed late: there is time. */
	struct taut_sync_demand middle[] = { { 2, 0, 0, 30 }, { 40, 0, 9, 11 } };
	struct taut_sync_demand updated[] = { { 8, 4, 0, 30 }, { 5, 1, 0, 30 } };

	(void)state;
	expect_window(NULL, 0, 0, 0, 0, 0);
	expect_window(tied, 2, 38, 30, 0, 8);
	expect_window(chain, 3, 36, 30, 0, 6);
	chain[1].communication_ns = 20; /* in the order of due: still the second */
	expect_window(chain, 3, 24 - 3 + 26, 24, 3, 26);
	expect_window(middle, 2, 42 + 11 - 9, 11, 9, 42);
	/* What is updated in 1 goes last. */
	expect_window(updated, 2, 13 + 30 + 1, 30, -1, 13);
}

/* Times that cannot be: the bound is smaller for it. */
static void test_window_bad(void **state)
{
	struct taut_sync_demand behind[] = { { 50, 0, 20, 10 } };
	struct taut_sync_demand below[] = { { -4, -4, -4, 5 } };
	struct taut_sync_demand most[] = {
		{ INT64_MAX, INT64_MAX, 0, INT64_MAX },
		{ INT64_MAX, INT64_MAX, 0, INT64_MAX },
		{ INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN },
	};

	(void)state;
	expect_window(behind, 1, 0, 0, 0, 0);
	expect_window(below, 1, 5, 5, 0, 0);
	assert_true(taut_sync_window(most, 3).bound_ns > INT64_MAX / 5);
}

/* --- beside all schedules ---------------------------------------------------------
 * A job in units of time: in each the link moves a unit of one gradient or none, and
 * the core makes one of a pass, one of an update, or none. All that can be done is
 * tried, breadth first, for the earliest end of step n. */

enum { MOST = 3 };

struct job {
	size_t n;
	int64_t computation; /* of both passes */
	struct taut_sync_demand of[MOST];
};

struct at {
	int64_t step, offset;
	int64_t done[MOST]; /* units moved, and then updated, of the last gradient */
};

static int64_t whole(const struct taut_sync_demand *d)
{
	return d->communication_ns + d->update_ns;
}

static size_t number_of(const struct job *job, const struct at *at)
{
	size_t number = (size_t)(at->step * job->computation + at->offset);

	for (size_t i = 0; i < job->n; i++)
		number = number * (size_t)(whole(&job->of[i]) + 1) +
			(size_t)at->done[i];
	return number;
}

/* The core makes a unit of a pass. False: a parameter is missing. */
static bool advance(const struct job *job, struct at *at)
{
	for (size_t i = 0; i < job->n; i++)
		if (job->of[i].need_ns == at->offset &&
			at->done[i] < whole(&job->of[i]))
			return false;
	at->offset++;
	for (size_t i = 0; i < job->n; i++)
		if (job->of[i].ready_ns == at->offset)
			at->done[i] = 0;
	if (at->offset == job->computation) {
		at->offset = 0;
		at->step++;
	}
	return true;
}

/* core: n + 1: idle, n: a pass, else an update; link: n: idle. */
static bool act(const struct job *job, size_t core, size_t link, struct at *at)
{
	const struct at before = *at;

	if (link < job->n) {
		if (before.done[link] >= job->of[link].communication_ns)
			return false;
		at->done[link]++;
	}
	if (core < job->n) {
		if (before.done[core] < job->of[core].communication_ns ||
			before.done[core] >= whole(&job->of[core]))
			return false;
		at->done[core]++;
	}
	if (core == job->n) {
		struct at passed = before;

		if (!advance(job, &passed))
			return false;
		for (size_t i = 0; i < job->n; i++)
			if (passed.done[i] == before.done[i])
				passed.done[i] = at->done[i];
		*at = passed;
	}
	return true;
}

struct search {
	const struct job *job;
	struct at *queue;
	bool *seen;
	size_t end;
};

static void put(struct search *s, const struct at *at)
{
	size_t number = number_of(s->job, at);

	if (s->seen[number])
		return;
	s->seen[number] = true;
	s->queue[s->end++] = *at;
}

/* When step n can be over, at best. */
static int64_t earliest(const struct job *job, int64_t n)
{
	struct at at = { 0 };
	struct search s = { .job = job };
	size_t first = 0, most = (size_t)((n + 1) * job->computation);
	int64_t time = 0;

	for (size_t i = 0; i < job->n; i++) {
		most *= (size_t)(whole(&job->of[i]) + 1);
		at.done[i] = whole(&job->of[i]); /* nothing is missing at first */
	}
	s.queue = malloc(most * sizeof *s.queue);
	s.seen = calloc(most, sizeof *s.seen);
	assert_true(s.queue && s.seen);
	for (put(&s, &at); at.step < n; time++)
		for (size_t level = s.end; first < level && at.step < n; first++)
			for (size_t way = 0; way < (job->n + 2) * (job->n + 1) &&
				at.step < n; way++) {
				at = s.queue[first];
				if (act(job, way / (job->n + 1),
					    way % (job->n + 1), &at))
					put(&s, &at);
			}
	free(s.queue);
	free(s.seen);
	return time;
}

static int64_t bound_of_job(const struct job *job)
{
	struct job copy = *job; /* the window sorts */
	struct taut_sync_times times = { .forward_ns = job->computation };

	for (size_t i = 0; i < job->n; i++) {
		times.communication_ns += job->of[i].communication_ns;
		times.update_ns += job->of[i].update_ns;
	}
	times.window_ns = taut_sync_window(copy.of, copy.n).bound_ns;
	return taut_sync_bound(&times).crossed_ns;
}

static int64_t below(uint64_t *random, int64_t n)
{
	*random = *random * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (int64_t)((*random >> 33) % (uint64_t)n);
}

static struct job random_job(uint64_t *random, bool has_updates)
{
	int64_t f = 1 + below(random, 3), b = 1 + below(random, 3);
	struct job job = { .computation = f + b };

	job.n = 1 + (size_t)below(random, MOST);
	for (size_t i = 0; i < job.n; i++)
		job.of[i] = (struct taut_sync_demand){
			.communication_ns = below(random, 4),
			.update_ns = has_updates ? below(random, 3) : 0,
			.need_ns = below(random, f),
			.ready_ns = f + 1 + below(random, b),
		};
	return job;
}

/* No way to make so many steps is shorter than the bound of each but the first; so
 * many that a bound of one unit more would be found out. Without updates some way is
 * as short. */
static void test_all_schedules(void **state)
{
	uint64_t random = 1;
	int n_by_window = 0;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		bool has_updates = i % 2;
		struct job job = random_job(&random, has_updates);
		int64_t bound = bound_of_job(&job), n = bound + 2;
		int64_t time = earliest(&job, n);

		assert_true(time >= (n - 1) * bound);
		if (has_updates)
			continue;
		assert_true(time <= n * bound);
		for (size_t j = 0; j < job.n; j++)
			job.of[j].need_ns = job.of[j].ready_ns;
		n_by_window += bound_of_job(&job) < bound;
	}
	assert_true(n_by_window > 100); /* others would do without windows */
}

static void test_rows(void **state)
{
	(void)state;
	assert_true(taut_sync_takes_rows(0, 0));
	assert_true(taut_sync_takes_rows(0, 1));
	assert_false(taut_sync_takes_rows(1, 1));
	assert_true(taut_sync_takes_rows(2, 5));
	assert_false(taut_sync_takes_rows(3, 5));
	assert_true(taut_sync_takes_rows(UINT64_MAX / 2, UINT64_MAX));
	assert_false(taut_sync_takes_rows(UINT64_MAX, UINT64_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_exposed),
		cmocka_unit_test(test_most),
		cmocka_unit_test(test_window_and_update),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_window_cases),
		cmocka_unit_test(test_window_bad),
		cmocka_unit_test(test_all_schedules),
		cmocka_unit_test(test_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
