/* Float32 that goes as 16 bits: every bit of the sums against arithmetic in double
 * precision that is rounded by hand; what is counted, refused, and kept of memory. */
#include "sync/ranks.h"

#include <malloc.h>

#include "sync/sync.h"
#include "tests/support/alloc_fail.h"

static const enum taut_type WIRES[] = { TAUT_FLOAT16, TAUT_BFLOAT16 };
/* Less than a vector, tails, some pieces, blocks of unequal length. */
static const uint64_t COUNTS[] = { 1, 2, 7, 31, 32, 33, 64, 100, 129, 1000, 4097 };
static const double FACTORS[] = { 0, 1, 0.5, 1.0 / 3 };

enum { TASKS = sizeof COUNTS / sizeof *COUNTS, LONGEST = 4097, FIRST = 32 };

struct job {
	struct taut_sync_options options;
	double factor;
	enum taut_coll_way way;
	float values[SYNC_RANKS][TASKS][LONGEST], first[SYNC_RANKS][FIRST];
	struct taut_sync_counts counts;
	uint64_t seed;
};

static uint32_t bits_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

/* Numbers of all sizes; infinities, NaN of all kinds, zeros, denormals, what only
 * just is a number of 16 bits, or no longer; ties. */
static uint32_t any_bits(uint64_t *random)
{
	static const uint32_t odd[] = { 0, 0x80000000, 0x7f800000, 0xff800000,
		0x7fc00000, 0xffc12345, 0x7f800001, 1, 0x807fffff, 0x00800000,
		0x7f7fffff, 0x477fe000, 0x477fefff, 0x477ff000, 0xc7800000,
		0x7f7f7fff, 0x7f7f8000, 0x33000000, 0x33000001, 0x32ffffff,
		0x387fc000, 0x38800000, 0x3f801000, 0x3f803000, 0x3f808000,
		0x3f818000 };
	uint64_t x = ranks_random(random);

	if (x % 4 == 0)
		return odd[(x >> 8) % (sizeof odd / sizeof *odd)];
	if (x % 4 == 1)
		return (uint32_t)(x >> 32);
	/* Near 1, so that sums of some round and are finite. */
	return (uint32_t)(x >> 32 & 0x807fffff) |
		(uint32_t)(120 + (x >> 8) % 12) << 23;
}

static uint32_t input_of(uint64_t seed, uint32_t rank, uint32_t task, uint64_t i)
{
	uint64_t random = seed << 32 ^ (uint64_t)rank << 28 ^
		(uint64_t)task << 20 ^ i;

	return any_bits(&random);
}

static uint32_t sum_of(const struct job *job, uint32_t n, uint32_t task, uint64_t i)
{
	enum taut_type wire = job->options.wire;
	uint64_t sum = ranks_narrow(
		wire, input_of(job->seed, 0, task, i), job->factor);

	for (uint32_t r = 1; r < n; r++) {
		uint64_t other = ranks_narrow(
			wire, input_of(job->seed, r, task, i), job->factor);

		sum = ranks_sum(wire, sum, other, 1);
		if (isnan(wire == TAUT_FLOAT16 ? ranks_half(sum) :
			ranks_brain(sum))) /* whatever sign it has */
			sum = wire == TAUT_FLOAT16 ? 0x7e00 : 0x7fc0;
	}
	return (uint32_t)ranks_widen(wire, sum);
}

/* --- sums -----------------------------------------------------------------------------*/

static void sum_all(struct rank *rank)
{
	struct job *job = rank->all->context;
	float (*mine)[LONGEST] = job->values[rank->id];
	uint32_t task;

	for (uint32_t t = 0; t < TASKS; t++) {
		for (uint64_t i = 0; i < COUNTS[t]; i++) {
			uint32_t bits = input_of(job->seed, rank->id, t, i);

			memcpy(&mine[t][i], &bits, sizeof bits);
		}
		RANK_OK(rank, taut_sync_declare(rank->sync, TAUT_FLOAT32,
			COUNTS[t], t % 3, job->factor, &task, why));
	}
	RANK_OK(rank, taut_sync_carry(rank->sync, job->way, 0, 0, why));
	for (uint32_t t = 0; t < TASKS; t++)
		RANK_OK(rank, taut_sync_ready(rank->sync, t, mine[t], why));
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

static void check(const struct job *job, uint32_t n)
{
	for (uint32_t t = 0; t < TASKS; t++)
		for (uint64_t i = 0; i < COUNTS[t]; i++) {
			uint32_t right = sum_of(job, n, t, i);

			for (uint32_t r = 0; r < n; r++)
				if (bits_of(job->values[r][t][i]) != right)
					fail_msg("rank %u of %u: task %u, "
						"element %lu: %#x, not %#x", r,
						n, t, (unsigned long)i,
						bits_of(job->values[r][t][i]),
						right);
		}
}

/* Whatever is cut, fused or halved. */
static void test_bits(void **state)
{
	static const uint64_t pieces[] = { 0, 64, 448, 2048 };
	struct job *job = calloc(1, sizeof *job);

	(void)state;
	assert_non_null(job);
	for (uint32_t i = 0; i < 96; i++) {
		uint32_t n = 1 + i % 4;

		job->seed = i;
		job->options = (struct taut_sync_options){ .ordered = true,
			.wire = WIRES[i / 2 % 2], .halves = i / 4 % 3 == 0,
			.order = i % 5 ? TAUT_SCHED_AGREED : TAUT_SCHED_DECLARED,
			.piece_bytes = pieces[i / 3 % 4],
			.credit_bytes = i % 7 ? 0 : 1024,
			.fuse_bytes = i % 2 ? 0 : 300 };
		job->factor = FACTORS[i / 5 % 4];
		run(job, n);
		check(job, n);
	}
	free(job);
}

/* In no order: all ranks have the same bits, and numbers are near to their sums. */
static void check_near(const struct job *job, uint32_t n)
{
	double unit = job->options.wire == TAUT_FLOAT16 ? 0x1p-11 : 0x1p-8;

	for (uint32_t t = 0; t < TASKS; t++)
		for (uint64_t i = 0; i < COUNTS[t]; i++) {
			double sum = 0, sizes = 0;
			float got = job->values[0][t][i];

			for (uint32_t r = 0; r < n; r++) {
				uint32_t in = input_of(job->seed, r, t, i);
				float x;

				memcpy(&x, &in, sizeof x);
				sum += (double)x * job->factor;
				sizes += fabs((double)x * job->factor);
				assert_int_equal(bits_of(got),
					bits_of(job->values[r][t][i]));
			}
			/* A rounding of each part and of each addition; the
			 * last place of denormals. */
			if (sizes < 60000)
				assert_true(fabs(got - sum) <=
					n * 1.01 * unit * sizes + n * 0x1p-25);
		}
}

static void test_ways(void **state)
{
	static const enum taut_coll_way ways[] = { TAUT_WAY_AUTO, TAUT_WAY_RING,
		TAUT_WAY_HALVING, TAUT_WAY_TREE, TAUT_WAY_DOUBLING };
	struct job *job = calloc(1, sizeof *job);

	(void)state;
	assert_non_null(job);
	for (uint32_t i = 0; i < 20; i++) {
		job->seed = i;
		job->options = (struct taut_sync_options){
			.wire = WIRES[i % 2], .halves = i % 7 == 0,
			.piece_bytes = 1024, .fuse_bytes = i % 3 * 200 };
		job->factor = 1.0 / 4;
		job->way = ways[i / 2 % 5];
		run(job, 3 + i % 2);
		check_near(job, 3 + i % 2);
	}
	free(job);
}

/* --- counts -----------------------------------------------------------------------------*/

/* Bytes as they are sent, of which pieces are made. */
static void test_counts(void **state)
{
	struct job *job = calloc(1, sizeof *job);
	uint64_t n_elements = 0, n_pieces = 0;

	(void)state;
	assert_non_null(job);
	for (uint32_t t = 0; t < TASKS; t++) {
		n_elements += COUNTS[t];
		n_pieces += (COUNTS[t] + 255) / 256;
	}
	job->factor = 0.5;
	job->options = (struct taut_sync_options){ .wire = TAUT_FLOAT16,
		.piece_bytes = 512 };
	run(job, 2);
	assert_int_equal(job->counts.bytes, 2 * n_elements);
	assert_int_equal(job->counts.cast_bytes, 4 * n_elements);
	assert_int_equal(job->counts.copied_bytes, 0);
	assert_int_equal(job->counts.sched.pieces, n_pieces);
	assert_int_equal(job->counts.messages, n_pieces);
	job->options.wire = TAUT_FLOAT32;
	run(job, 2);
	assert_int_equal(job->counts.bytes, 4 * n_elements);
	assert_int_equal(job->counts.cast_bytes, 0);
	assert_true(job->counts.sched.pieces > n_pieces);
	free(job);
}

/* --- other types ------------------------------------------------------------------------*/

static void sum_others(struct rank *rank)
{
	double wide[3] = { 1 + 0x1p-40, 1e300, -2 };
	uint16_t half[2] = { 0x3c01, 0x7bff }; /* 1 + 2^-10, 65504 */
	int32_t used[2] = { 1 << 20 | 1, -3 };
	void *data[] = { wide, half, used };
	uint32_t task;

	RANK_OK(rank, taut_sync_declare(
		rank->sync, TAUT_FLOAT64, 3, 0, 0.5, &task, why));
	RANK_OK(rank, taut_sync_declare(
		rank->sync, TAUT_FLOAT16, 2, 0, 0.5, &task, why));
	RANK_OK(rank, taut_sync_declare(
		rank->sync, TAUT_INT32, 2, 0, 0, &task, why));
	for (task = 0; task < 3; task++)
		RANK_OK(rank, taut_sync_ready(
			rank->sync, task, data[task], why));
	RANK_OK(rank, taut_sync_wait(rank->sync, TAUT_NONE, -1, why));
	RANK_CHECK(rank, wide[0] == 1 + 0x1p-40 && wide[1] == 1e300);
	/* Twice the half of 1 + 2^-10 is itself. */
	RANK_CHECK(rank, half[0] == 0x3c01 && half[1] == 0x7bff);
	RANK_CHECK(rank, used[0] == (2 << 20 | 2) && used[1] == -6);
}

static void test_others(void **state)
{
	struct ranks ranks;

	(void)state;
	ranks_create(&ranks, 2, &(struct taut_sync_options){
		.wire = TAUT_BFLOAT16, .fuse_bytes = 1000 });
	ranks_each(&ranks, sum_others);
	ranks_destroy(&ranks);
}

/* --- memory -----------------------------------------------------------------------------*/

enum { SIZES = 6, TURNS = 2000 };

static void lay_out(struct taut_sync *sync, struct tauti_task_of_sync *tasks,
	struct taut_sched_piece *pieces, struct tauti_message *messages)
{
	sync->tasks.data = tasks;
	for (uint32_t t = 0; t < SIZES; t++) {
		tasks[t] = (struct tauti_task_of_sync){ .type = TAUT_FLOAT32,
			.wire = TAUT_FLOAT16, .count = (uint64_t)40000 << t };
		pieces[t] = (struct taut_sched_piece){ .task = t,
			.bytes = 2 * tasks[t].count };
		messages[t] = (struct tauti_message){ .sync = sync, .n = 1,
			.type = TAUT_FLOAT32, .wire = TAUT_FLOAT16,
			.pieces = &pieces[t], .n_blocks = 1 };
	}
}

static void reserve(struct tauti_message *message)
{
	uint64_t bytes = message->pieces[0].bytes;

	assert_true(tauti_staging_reserve(message));
	assert_true(malloc_usable_size(message->staging) >= bytes);
	assert_true(malloc_usable_size(message->staging) <=
		2 * bytes + (128 << 10) + 4096);
}

/* Whole gradients of all sizes under way, in any order: once there is memory for all,
 * no more is asked for, and none is held by what it is much too large for. */
static void test_staging(void **state)
{
	struct taut_sync sync = { 0 };
	struct tauti_task_of_sync tasks[SIZES];
	struct taut_sched_piece pieces[SIZES];
	struct tauti_message messages[SIZES];
	uint64_t random = 3;

	(void)state;
	lay_out(&sync, tasks, pieces, messages);
	for (uint32_t t = 0; t < SIZES; t++)
		reserve(&messages[t]);
	alloc_fail_never();
	for (int i = 0; i < TURNS; i++) {
		struct tauti_message *it = &messages[ranks_below(&random, SIZES)];

		if (it->staging)
			tauti_staging_give_back(&sync, it);
		else
			reserve(it);
	}
	assert_int_equal(alloc_fail_count(), 0);
	for (uint32_t t = 0; t < SIZES; t++)
		tauti_staging_give_back(&sync, &messages[t]);
	tauti_staging_free_all(&sync);
}

/* Only a large one is there; then a small one, of which a larger one has no use. */
static void test_staging_changes(void **state)
{
	struct taut_sync sync = { 0 };
	struct tauti_task_of_sync tasks[SIZES];
	struct taut_sched_piece pieces[SIZES];
	struct tauti_message messages[SIZES];

	(void)state;
	lay_out(&sync, tasks, pieces, messages);
	reserve(&messages[SIZES - 1]);
	tauti_staging_give_back(&sync, &messages[SIZES - 1]);
	alloc_fail_never();
	reserve(&messages[0]);
	assert_int_equal(alloc_fail_count(), 1);
	tauti_staging_give_back(&sync, &messages[0]);
	reserve(&messages[SIZES - 1]);
	assert_int_equal(alloc_fail_count(), 1);
	alloc_fail_after(0);
	assert_false(tauti_staging_reserve(&messages[SIZES - 2]));
	alloc_fail_never();
	assert_null(messages[SIZES - 2].staging);
	tauti_staging_give_back(&sync, &messages[SIZES - 1]);
	tauti_staging_free_all(&sync);
}

/* --- refused ----------------------------------------------------------------------------*/

static void differ(struct rank *rank)
{
	struct taut_sync_options options = { .order = rank->all->context ?
		TAUT_SCHED_DECLARED : TAUT_SCHED_AGREED };
	struct taut_error err = { .message = "" };
	float value = 1;
	uint32_t task;

	taut_sync_destroy(rank->sync);
	options.wire = rank->id == 1 ? TAUT_FLOAT16 : TAUT_FLOAT32;
	RANK_OK(rank, taut_sync_create(rank->comm, &options, &rank->sync, why));
	RANK_OK(rank, taut_sync_declare(
		rank->sync, TAUT_FLOAT32, 1, 0, 1, &task, why));
	RANK_OK(rank, taut_sync_ready(rank->sync, 0, &value, why));
	RANK_CHECK(rank, taut_sync_wait(rank->sync, 0, -1, &err) == TAUT_EMATCH);
	RANK_CHECK(rank, strstr(err.message, "ranks do not match: type on the "
		"wire") != NULL);
	RANK_CHECK(rank, value == 1);
	taut_sync_destroy(rank->sync);
	rank->sync = NULL;
}

static void test_refused(void **state)
{
	struct taut_sync_options options = { .wire = TAUT_INT8 };
	struct taut_comm *comm;
	struct taut_sync *sync;
	struct taut_error err;
	struct ranks ranks;

	(void)state;
	assert_int_equal(taut_comm_create_inproc(1, &comm, NULL), TAUT_OK);
	assert_int_equal(
		taut_sync_create(comm, &options, &sync, &err), TAUT_EINVAL);
	assert_string_equal(err.message, "sync: nothing is summed as int8: "
		"float16, bfloat16, mxint8 or, as it is, float32");
	taut_comm_destroy(comm);
	for (int declared = 0; declared < 2; declared++) {
		ranks_create(&ranks, 3, &(struct taut_sync_options){ 0 });
		ranks.context = declared ? &ranks : NULL;
		ranks_each(&ranks, differ);
		ranks_destroy(&ranks);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bits),
		cmocka_unit_test(test_ways),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_staging),
		cmocka_unit_test(test_staging_changes),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
