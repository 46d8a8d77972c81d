/* Calls that are made, and times that are told, of a communicator that is made up:
 * ranks agree on samples of 1, 2, 3 ... ns. */
#include "tests/support/unit.h"

#include "cli/bench.h"

static uint64_t n_calls;
static float buffer[4];

taut_status taut_comm_run(struct taut_comm *comm,
	const struct taut_coll_call *call, struct taut_error *reterr)
{
	(void)comm, (void)reterr;
	if (call->type != TAUT_INT64)
		n_calls++;
	else
		for (uint64_t i = 0; i < call->count; i++)
			((int64_t *)call->output)[i] = (int64_t)i + 1;
	return TAUT_OK;
}

taut_status taut_comm_barrier(struct taut_comm *comm, struct taut_error *reterr)
{
	(void)comm, (void)reterr;
	return TAUT_OK;
}

uint32_t taut_comm_rank(const struct taut_comm *comm)
{
	(void)comm;
	return 0;
}

uint32_t taut_comm_size(const struct taut_comm *comm)
{
	(void)comm;
	return 2;
}

const char *taut_comm_engine(const struct taut_comm *comm)
{
	(void)comm;
	return "made up";
}

struct taut_coll_choice taut_comm_choice(const struct taut_comm *comm,
	enum taut_coll_verb verb, uint64_t bytes)
{
	(void)comm, (void)bytes;
	return (struct taut_coll_choice){ .verb = verb, .way = TAUT_WAY_FLAT };
}

static struct bench_row time_of(unsigned warmup, unsigned repeats)
{
	struct bench_plan plan = { .verb = TAUT_ALLREDUCE, .type = TAUT_FLOAT32,
		.warmup = warmup, .repeats = repeats };
	struct bench_rank rank = { .plan = &plan, .output = buffer };
	struct taut_coll_call call = bench_call(&rank, sizeof buffer);
	struct bench_row row = { .count = 4 };
	struct taut_error err;

	n_calls = 0;
	assert_int_equal(bench_time(&rank, &call, 1000000, 1, &row, &err), TAUT_OK);
	return row;
}

static void test_warmup(void **state)
{
	(void)state;
	for (unsigned warmup = 1; warmup < 10; warmup += 4) {
		struct bench_row row = time_of(warmup, 3);

		assert_int_equal(row.samples, 3);
		assert_int_equal(n_calls - row.samples * row.batch, warmup);
	}
}

/* The least of the samples that nine in ten do not exceed. */
static void test_p90(void **state)
{
	static const struct {
		unsigned samples, p90;
	} cases[] = { { 1, 1 }, { 2, 2 }, { 5, 5 }, { 9, 9 }, { 10, 9 },
		{ 11, 10 }, { 20, 18 }, { 21, 19 }, { 1000, 900 } };

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct bench_row row = time_of(0, cases[i].samples);

		assert_int_equal(row.samples, cases[i].samples);
		assert_int_equal((int)(row.p90_ns * row.batch + 0.5),
			cases[i].p90);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_warmup),
		cmocka_unit_test(test_p90),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
