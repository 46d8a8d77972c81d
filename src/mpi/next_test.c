/* Functions that come next: what is remembered of callers, and by many threads. */
#include "tests/support/unit.h"

#include <dlfcn.h>
#include <pthread.h>

#include "mpi/mpi.h"

enum { THREADS = 4, CALLERS = 200, TURNS = 20000 };

static struct tauti_form_known shared[TAUTI_FORM_KNOWN];

static uintptr_t function_of(uintptr_t caller, unsigned long long n_closed)
{
	return caller * 3 + n_closed + 1;
}

static void what_is_remembered_holds_until_one_is_closed(void **state)
{
	struct tauti_form_known known[TAUTI_FORM_KNOWN] = { { .found = 0 } };
	int n_known = 0;

	(void)state;
	assert_int_equal(tauti_form_recall(known, 77, 0), 0);
	tauti_form_remember(known, 77, 5, 1234);
	assert_int_equal(tauti_form_recall(known, 77, 5), 1234);
	assert_int_equal(tauti_form_recall(known, 78, 5), 0);
	assert_int_equal(tauti_form_recall(known, 77, 6), 0);
	tauti_form_remember(known, 77, 6, 4321);
	assert_int_equal(tauti_form_recall(known, 77, 6), 4321);
	/* More than one caller has a place, and each its own function. */
	for (uintptr_t caller = 1; caller <= CALLERS; caller++)
		tauti_form_remember(
			known, caller * 48, 6, function_of(caller, 6));
	for (uintptr_t caller = 1; caller <= CALLERS; caller++) {
		uintptr_t found = tauti_form_recall(known, caller * 48, 6);

		n_known += found != 0;
		if (found)
			assert_int_equal(found, function_of(caller, 6));
	}
	assert_true(n_known > TAUTI_FORM_KNOWN / 2);
}

/* Returns how often another caller's was given. */
static void *act(void *seed)
{
	uint64_t random = *(uint64_t *)seed;
	uintptr_t wrong = 0;

	for (int turn = 0; turn < TURNS; turn++) {
		uintptr_t caller, found;
		unsigned long long n_closed;

		random = random * 6364136223846793005u + 1442695040888963407u;
		caller = 1 + (random >> 40) % CALLERS;
		n_closed = random >> 33 & 1;
		found = tauti_form_recall(shared, caller, n_closed);
		wrong += found && found != function_of(caller, n_closed);
		if (!found)
			tauti_form_remember(shared, caller, n_closed,
				function_of(caller, n_closed));
	}
	return (void *)wrong;
}

static void threads_do_not_mix_callers_up(void **state)
{
	uint64_t seeds[THREADS];
	pthread_t threads[THREADS];
	void *wrong;

	(void)state;
	for (int i = 0; i < THREADS; i++) {
		seeds[i] = (uint64_t)i + 1;
		assert_int_equal(pthread_create(
			&threads[i], NULL, act, &seeds[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
}

static void a_function_behind_us_is_found(void **state)
{
	struct tauti_form_known known[TAUTI_FORM_KNOWN] = { { .found = 0 } };
	struct tauti_form_known none[TAUTI_FORM_KNOWN] = { { .found = 0 } };
	void *caller = __builtin_return_address(0);
	void *behind = dlsym(RTLD_NEXT, "getppid");

	(void)state;
	assert_non_null(behind);
	for (int i = 0; i < 3; i++)
		assert_ptr_equal(
			tauti_form_next(known, "getppid", caller), behind);
	assert_null(tauti_form_next(none, "taut_no_such_function", caller));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_remembered_holds_until_one_is_closed),
		cmocka_unit_test(threads_do_not_mix_callers_up),
		cmocka_unit_test(a_function_behind_us_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
