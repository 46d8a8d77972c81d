/* What the header forbids: it says so, and harms nothing. */
#include "tests/support/unit.h"

#include <string.h>

#include <taut/coll.h>

/* --- inside done() ---------------------------------------------------------------------*/

struct inside {
	struct taut_comm *comm;
	taut_status (*what)(struct taut_comm *comm, struct taut_error *err);
	int n_done;
	taut_status status, got;
	struct taut_error err;
};

static float data[4];

static const struct taut_coll_call sum = { .output = data, .count = 4 };

static taut_status run(struct taut_comm *comm, struct taut_error *err)
{
	return taut_comm_run(comm, &sum, err);
}

static taut_status wait_for_ever(struct taut_comm *comm, struct taut_error *err)
{
	return taut_comm_wait(comm, -1, err);
}

static taut_status destroy(struct taut_comm *comm, struct taut_error *err)
{
	(void)err;
	taut_comm_destroy(comm);
	return TAUT_EINVAL;
}

static void do_inside(void *context, taut_status status)
{
	struct inside *it = context;

	it->n_done++;
	it->status = status;
	it->got = it->what(it->comm, &it->err);
}

static void begin(struct inside *it,
	taut_status (*what)(struct taut_comm *comm, struct taut_error *err))
{
	*it = (struct inside){ .what = what };
	assert_int_equal(taut_comm_create_inproc(1, &it->comm, NULL), TAUT_OK);
	assert_int_equal(taut_comm_start(it->comm, &sum, do_inside, it, NULL),
		TAUT_OK);
	assert_int_equal(it->n_done, 1);
	assert_int_equal(it->status, TAUT_OK);
	assert_int_equal(it->got, TAUT_EINVAL);
}

/* Each would wait for itself. The communicator is as it was. */
static void test_refused(void **state)
{
	static taut_status (*const refused[])(
		struct taut_comm *comm, struct taut_error *err) = {
		run, taut_comm_barrier, taut_comm_progress, wait_for_ever };
	struct inside it;

	(void)state;
	for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
		begin(&it, refused[i]);
		assert_non_null(strstr(it.err.message, "rank 0: what ends a call"));
		assert_int_equal(taut_comm_run(it.comm, &sum, NULL), TAUT_OK);
		taut_comm_destroy(it.comm);
	}
}

/* It ends all, and is there as long as somebody is at work in it. */
static void test_destroyed(void **state)
{
	struct inside it;

	(void)state;
	begin(&it, destroy);
	assert_int_equal(taut_comm_progress(it.comm, &it.err), TAUT_EIO);
	assert_non_null(strstr(it.err.message, "was destroyed"));
	taut_comm_destroy(it.comm);
}

/* --- no such verb ----------------------------------------------------------------------*/

static void test_no_verb(void **state)
{
	static const int verbs[] = { TAUT_VERBS, 1000, -1 };
	struct taut_comm *comm;

	(void)state;
	assert_int_equal(taut_comm_create_inproc(1, &comm, NULL), TAUT_OK);
	for (int i = 0; i < 3; i++) {
		struct taut_coll_choice choice = taut_comm_choice(
			comm, (enum taut_coll_verb)verbs[i], 5);

		assert_int_equal(choice.way, TAUT_WAY_AUTO);
		assert_int_equal(choice.passes_at_once, 0);
	}
	assert_int_not_equal(
		taut_comm_choice(comm, TAUT_ALLREDUCE, 5).way, TAUT_WAY_AUTO);
	taut_comm_destroy(comm);
}

/* --- no such call ----------------------------------------------------------------------*/

/* It is looked at, though it is like the one before but for that. */
static void test_ring_in_order(void **state)
{
	struct taut_coll_call call = sum;
	struct taut_comm *comm;

	(void)state;
	call.way = TAUT_WAY_RING;
	assert_int_equal(taut_comm_create_inproc(1, &comm, NULL), TAUT_OK);
	assert_int_equal(taut_comm_run(comm, &call, NULL), TAUT_OK);
	call.ordered = true;
	assert_int_equal(taut_comm_run(comm, &call, NULL), TAUT_EINVAL);
	taut_comm_destroy(comm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_destroyed),
		cmocka_unit_test(test_no_verb),
		cmocka_unit_test(test_ring_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
