/* The engine's contract, and what this engine alone promises: who waits for a rank
 * that is gone hears so. */
#include "coll/engines/contract.h"

#include "tests/support/alloc_fail.h"

static void *begin(uint32_t n_ranks)
{
	struct tauti_engine *engines = calloc(n_ranks, sizeof *engines);

	assert_non_null(engines);
	assert_int_equal(tauti_inproc_create(n_ranks, engines, NULL), TAUT_OK);
	return engines;
}

static taut_status make(void *engines, uint32_t rank,
	struct tauti_engine *ret_engine, struct taut_error *err)
{
	(void)err;
	*ret_engine = ((struct tauti_engine *)engines)[rank];
	return TAUT_OK;
}

static void end(void *engines)
{
	free(engines);
}

/* Rank 2 goes; rank 1 waits for it and goes; rank 0, which waits for rank 1, is
 * told of rank 2. What rank 2 sent and nobody took goes with it. */
static void test_gone(void **state)
{
	struct contract_request requests[3] = { { .n_done = 0 } };
	struct tauti_engine e[3];
	struct taut_error err;
	uint32_t to = 0;
	char in = 0, out = 'x';

	(void)state;
	for (int i = 0; i < 3; i++)
		requests[i].request.done = contract_done;
	assert_int_equal(tauti_inproc_create(3, e, NULL), TAUT_OK);
	assert_int_equal(e[0].table->recv(e[0].context, 1, 5, &in, 1,
		&requests[0].request, NULL), TAUT_OK);
	assert_int_equal(e[1].table->recv(e[1].context, 2, 5, &in, 1,
		&requests[1].request, NULL), TAUT_OK);
	assert_int_equal(e[2].table->send(e[2].context, &to, 1, 9, &out, 1,
		&requests[2].request, NULL), TAUT_OK);
	e[2].table->destroy(e[2].context);
	assert_int_equal(requests[2].n_done, 1);
	assert_int_equal(requests[2].status, TAUT_EIO);
	assert_int_equal(e[0].table->progress(e[0].context, &err), TAUT_OK);
	assert_int_equal(e[1].table->progress(e[1].context, &err), TAUT_EIO);
	assert_string_equal(err.message, "rank 2 is gone");
	e[1].table->destroy(e[1].context);
	assert_int_equal(requests[1].n_done, 1);
	assert_int_equal(e[0].table->progress(e[0].context, &err), TAUT_EIO);
	assert_string_equal(err.message, "rank 2 is gone");
	e[0].table->destroy(e[0].context);
	assert_int_equal(requests[0].n_done, 1);
	assert_int_equal(requests[0].status, TAUT_EIO);
}

/* A send, a receive and the world itself; what cannot begin has not begun. */
static void test_no_memory(void **state)
{
	struct contract_request request = { .n_done = 0 };
	struct tauti_engine e[2];
	uint32_t to = 1;
	char byte = 0;

	(void)state;
	alloc_fail_after(0);
	assert_int_equal(tauti_inproc_create(2, e, NULL), TAUT_ENOMEM);
	alloc_fail_never();
	assert_int_equal(tauti_inproc_create(2, e, NULL), TAUT_OK);
	request.request.done = contract_done;
	alloc_fail_after(0);
	assert_int_equal(e[0].table->send(e[0].context, &to, 1, 1, &byte, 1,
		&request.request, NULL), TAUT_ENOMEM);
	assert_int_equal(e[0].table->recv(e[0].context, 1, 1, &byte, 1,
		&request.request, NULL), TAUT_ENOMEM);
	alloc_fail_never();
	e[0].table->destroy(e[0].context);
	e[1].table->destroy(e[1].context);
	assert_int_equal(request.n_done, 0);
}

int main(void)
{
	struct contract contract = { begin, make, end };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_no_memory),
	};
	int failed = contract_run(&contract);

	return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
