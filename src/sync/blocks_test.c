/* Float32 that goes as blocks which share a scale (TAUT_MXINT8): the bits of sums,
 * however tasks are cut, fused, halved, or had in parts; and what is counted. */
#include "sync/ranks.h"

#include "sync/sync.h"

/* Less than a block, whole ones, some pieces, blocks of unequal length by rank. */
static const uint64_t COUNTS[] = { 1, 31, 32, 33, 64, 100, 2048, 2049, 6000, 70001 };
static const double FACTORS[] = { 0, 1, 0.5, 1.0 / 3 };

enum { TASKS = sizeof COUNTS / sizeof *COUNTS, LONGEST = 70001, BLOCK_BYTES = 33,
	MOST_BLOCKS = LONGEST / 32 + 1 };

struct job {
	struct taut_sync_options options;
	double factor;
	bool in_parts; /* of each task the first two thirds are ready, rounded up */
	float values[SYNC_RANKS][TASKS][LONGEST];
	struct taut_sync_counts counts;
	uint64_t seed;
};

/* Some blocks have a number that is none. */
static float input_of(uint64_t seed, uint32_t rank, uint32_t task, uint64_t i)
{
	uint64_t random = seed << 40 ^ (uint64_t)rank << 32 ^
		(uint64_t)task << 24 ^ i;
	uint64_t x = ranks_random(&random);

	if (x % 5000 == 0)
		return (float)NAN;
	return ldexpf((float)(int32_t)(x >> 32), -31 - (int)(i / 64 % 40) -
		(int)(x % 5));
}

static uint64_t part_of(const struct job *job, uint32_t task)
{
	return job->in_parts ? (2 * COUNTS[task] + 2) / 3 : COUNTS[task];
}

static void sum_all(struct rank *rank)
{
	struct job *job = rank->all->context;
	float (*mine)[LONGEST] = job->values[rank->id];
	uint32_t task;

	for (uint32_t t = 0; t < TASKS; t++) {
		for (uint64_t i = 0; i < COUNTS[t]; i++)
			mine[t][i] = input_of(job->seed, rank->id, t, i);
		RANK_OK(rank, taut_sync_declare(rank->sync, TAUT_FLOAT32,
			COUNTS[t], t % 3, job->factor, &task, why));
	}
	for (uint32_t t = 0; t < TASKS; t++)
		RANK_OK(rank, job->in_parts ?
			taut_sync_ready_part(rank->sync, t, mine[t],
				part_of(job, t), why) :
			taut_sync_ready(rank->sync, t, mine[t], why));
	RANK_OK(rank, taut_sync_wait(rank->sync, TAUT_NONE, -1, why));
	if (!rank->id)
		taut_sync_counts(rank->sync, &job->counts);
}

static void run(struct job *job, uint32_t n)
{
	struct ranks ranks;

	ranks_create(&ranks, n, &job->options);
	ranks.context = job;
	ranks_each(&ranks, sum_all);
	ranks_destroy(&ranks);
}

/* Of the whole task, in the order of the ranks. */
static void right_sum(const struct job *job, uint32_t n, uint32_t task, float *sum)
{
	static uint8_t blocks[MOST_BLOCKS * BLOCK_BYTES],
		others[MOST_BLOCKS * BLOCK_BYTES];
	uint64_t count = part_of(job, task);

	for (uint32_t r = 0; r < n; r++) {
		for (uint64_t i = 0; i < count; i++)
			sum[i] = input_of(job->seed, r, task, i);
		taut_narrow(TAUT_MXINT8, r ? others : blocks, sum, count,
			job->factor == 0 ? 1 : (float)job->factor);
		if (r)
			taut_reduce(TAUT_MXINT8, TAUT_SUM, blocks, blocks,
				others, (count + 31) / 32);
	}
	taut_widen(TAUT_MXINT8, sum, blocks, count);
}

static void check(const struct job *job, uint32_t n)
{
	static float sum[LONGEST];

	for (uint32_t t = 0; t < TASKS; t++) {
		uint64_t count = part_of(job, t);

		right_sum(job, n, t, sum);
		for (uint32_t r = 0; r < n; r++) {
			const float *got = job->values[r][t];

			if (memcmp(got, sum, count * sizeof *sum))
				fail_msg("rank %u of %u: a wrong sum of task %u",
					r, n, t);
			for (uint64_t i = count; i < COUNTS[t]; i++) {
				float own = input_of(job->seed, r, t, i);

				assert_memory_equal(&got[i], &own, sizeof own);
			}
		}
	}
}

static void test_bits(void **state)
{
	static const uint64_t pieces[] = { 0, 64, 5000, 16384 };
	struct job *job = calloc(1, sizeof *job);

	(void)state;
	assert_non_null(job);
	for (uint32_t i = 0; i < 48; i++) {
		uint32_t n = 1 + i % 4;

		job->seed = i;
		job->options = (struct taut_sync_options){ .ordered = true,
			.wire = TAUT_MXINT8, .halves = i / 4 % 3 == 0,
			.order = i % 5 ? TAUT_SCHED_AGREED : TAUT_SCHED_DECLARED,
			.piece_bytes = pieces[i / 3 % 4],
			.credit_bytes = i % 7 ? 0 : 6000,
			.fuse_bytes = i % 2 ? 0 : 3000 };
		job->in_parts = !job->options.halves && i % 4 == 1;
		job->factor = FACTORS[i / 5 % 4];
		run(job, n);
		check(job, n);
	}
	free(job);
}

/* In any way: all ranks have the same bits, each near to the sum. Each cast and each
 * addition is off by a 64th of what may be twice the scale at most. */
static void check_near(const struct job *job, uint32_t n)
{
	for (uint32_t t = 0; t < TASKS; t++)
		for (uint64_t i = 0; i < COUNTS[t]; i++) {
			double sum = 0, most = 0;

			for (uint64_t k = i / 32 * 32; k < COUNTS[t] &&
				k < i / 32 * 32 + 32; k++) {
				double sizes = 0;

				for (uint32_t r = 0; r < n; r++)
					sizes += fabs((double)input_of(
						job->seed, r, t, k));
				most = isnan(most) || isnan(sizes) ? (double)NAN :
					fmax(most, sizes);
			}
			for (uint32_t r = 0; r < n; r++) {
				sum += (double)input_of(job->seed, r, t, i);
				assert_memory_equal(&job->values[r][t][i],
					&job->values[0][t][i], 4);
			}
			if (isnan(most))
				assert_true(isnan(job->values[0][t][i]));
			else
				assert_true(fabs((double)job->values[0][t][i] -
					sum) <= 2 * n * most / 64);
		}
}

static void test_ways(void **state)
{
	static const struct taut_sync_options options[] = {
		{ .wire = TAUT_MXINT8 },
		{ .wire = TAUT_MXINT8, .piece_bytes = 9000, .fuse_bytes = 2000 },
		{ .wire = TAUT_MXINT8, .halves = true, .piece_bytes = 30000 },
	};
	struct job *job = calloc(1, sizeof *job);

	(void)state;
	assert_non_null(job);
	job->factor = 1;
	for (int i = 0; i < 3; i++)
		for (uint32_t n = 2; n <= 4; n++) {
			job->options = options[i];
			job->seed = n;
			run(job, n);
			check_near(job, n);
		}
	free(job);
}

/* Pieces are whole blocks, and bytes as they are sent. */
static void test_counts(void **state)
{
	const uint64_t piece = 8448; /* the multiple of 33 x 64 below */
	struct job *job = calloc(1, sizeof *job);
	uint64_t bytes = 0, pieces = 0;

	(void)state;
	assert_non_null(job);
	for (uint32_t t = 0; t < TASKS; t++) {
		uint64_t of_task = (COUNTS[t] + 31) / 32 * BLOCK_BYTES;

		bytes += of_task;
		pieces += (of_task + piece - 1) / piece;
	}
	job->options = (struct taut_sync_options){
		.wire = TAUT_MXINT8, .piece_bytes = 10000 };
	run(job, 2);
	assert_int_equal(job->counts.bytes, bytes);
	assert_int_equal(job->counts.cast_bytes, 2 * bytes);
	assert_int_equal(job->counts.sched.pieces, pieces);
	free(job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bits),
		cmocka_unit_test(test_ways),
		cmocka_unit_test(test_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
