/* The core, event by event: what worlds (world_test.c) do not say by name. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/core.h"
#include "tests/support/alloc_fail.h"

enum { MOST = 32 };

/* What was begun, as text; and where pushes go. */
struct seen {
	struct tauti_core *core;
	char log[512];
	void *into[MOST];
	const float *near[MOST]; /* where pushes lie already; NULL: they come */
	float answered;
};

static void on_receive(void *context, uint32_t worker, uint32_t part,
	uint32_t round, void *into, size_t bytes)
{
	struct seen *seen = context;
	size_t n = strlen(seen->log);

	(void)bytes;
	snprintf(seen->log + n, sizeof seen->log - n, "<%u.%u.%u", worker, part,
		round);
	seen->into[worker] = into;
}

static void on_answer(void *context, uint32_t worker, uint32_t part,
	uint32_t round, const void *data, size_t bytes, uint32_t contributors)
{
	struct seen *seen = context;
	size_t n = strlen(seen->log);

	(void)part;
	(void)bytes;
	memcpy(&seen->answered, data, sizeof seen->answered);
	snprintf(seen->log + n, sizeof seen->log - n, ">%u.%u=%g/%u", worker,
		round, (double)seen->answered, contributors);
}

static const void *on_find(void *context, uint32_t worker, uint32_t part,
	uint32_t round, size_t bytes)
{
	struct seen *seen = context;

	(void)part;
	(void)round;
	(void)bytes;
	return seen->near[worker];
}

static const struct tauti_core_calls calls = { on_receive, on_answer, NULL,
	on_find };

static const struct tauti_part_said one_part = { 4, TAUT_FLOAT32, 1, 99 };

static void start(struct seen *seen, const struct taut_server_options *options)
{
	*seen = (struct seen){ .log = "" };
	assert_int_equal(tauti_core_create(options, &calls, seen, &seen->core,
		NULL), TAUT_OK);
	for (uint32_t w = 0; w < options->n_workers; w++) {
		assert_int_equal(tauti_core_join(seen->core, w, NULL), TAUT_OK);
		assert_int_equal(tauti_core_declare(seen->core, w, &one_part, 1,
			NULL), TAUT_OK);
	}
}

static void ask(struct seen *seen, uint32_t worker, uint32_t what,
	uint32_t round)
{
	assert_int_equal(tauti_core_ask(seen->core, worker, 4, what, round,
		NULL), TAUT_OK);
}

static void push(struct seen *seen, uint32_t worker, float value)
{
	memcpy(seen->into[worker], &value, sizeof value);
	tauti_core_received(seen->core, worker, 4);
}

static void expect(struct seen *seen, const char *log)
{
	assert_string_equal(seen->log, log);
	seen->log[0] = '\0';
}

/* All that can be done since one went. */
static void go_on(struct seen *seen)
{
	while (tauti_core_go_on(seen->core))
		;
}

enum { BOTH = TAUTI_ASK_PUSH | TAUTI_ASK_PULL };

static void test_order(void **state)
{
	const struct taut_server_options options = { .n_workers = 3 };
	struct seen seen;

	(void)state;
	start(&seen, &options);
	ask(&seen, 2, BOTH, 1);
	ask(&seen, 1, BOTH, 1);
	ask(&seen, 0, BOTH, 1);
	expect(&seen, "<2.4.1<1.4.1<0.4.1");
	/* (2^24 + 1) + 1 is 2^24 in float32; 2^24 + (1 + 1) is not. */
	push(&seen, 2, 1);
	push(&seen, 1, 1);
	expect(&seen, "");
	push(&seen, 0, 16777216);
	expect(&seen, ">0.1=1.67772e+07/3>1.1=1.67772e+07/3>2.1=1.67772e+07/3");
	assert_true(seen.answered == 16777216);
	/* Round 2 comes while 1 still goes to others, and waits with its end. */
	tauti_core_answered(seen.core, 0, 4);
	ask(&seen, 0, BOTH, 2);
	expect(&seen, "<0.4.2");
	push(&seen, 0, 3);
	tauti_core_answered(seen.core, 1, 4);
	tauti_core_answered(seen.core, 2, 4);
	tauti_core_destroy(seen.core);
}

static void test_rescale(void **state)
{
	const struct taut_server_options options = { .n_workers = 4,
		.on_loss = TAUT_SERVER_RESCALE };
	struct seen seen;

	(void)state;
	start(&seen, &options);
	for (uint32_t w = 0; w < 3; w++)
		ask(&seen, w, BOTH, 1);
	for (uint32_t w = 0; w < 3; w++)
		push(&seen, w, 1);
	seen.log[0] = '\0';
	tauti_core_lost(seen.core, 3, "host", "gone");
	go_on(&seen);
	expect(&seen, ">0.1=4/3>1.1=4/3>2.1=4/3");
	assert_int_equal(tauti_core_join(seen.core, 3, NULL), TAUT_EMATCH);
	tauti_core_destroy(seen.core);
}

/* What lies in memory that is shared is not received, is in its turn, and is kept by the
 * core when its worker leaves before that. */
static void test_near(void **state)
{
	const struct taut_server_options options = { .n_workers = 3 };
	float boards[3] = { 16777216, 1, 1 };
	struct seen seen;

	(void)state;
	start(&seen, &options);
	seen.near[1] = &boards[1];
	seen.near[2] = &boards[2];
	ask(&seen, 2, TAUTI_ASK_PUSH, 1);
	ask(&seen, 1, BOTH, 1);
	assert_true(tauti_core_is_idle(seen.core, 2));
	tauti_core_left(seen.core, 2);
	go_on(&seen);
	boards[2] = 77; /* it is gone, and so is its memory */
	expect(&seen, "");
	ask(&seen, 0, BOTH, 1);
	expect(&seen, "<0.4.1");
	push(&seen, 0, boards[0]);
	expect(&seen, ">0.1=1.67772e+07/3>1.1=1.67772e+07/3");
	assert_true(seen.answered == 16777216); /* from left to right */
	tauti_core_destroy(seen.core);
	/* First of all, and lost before its turn. */
	start(&seen, &options);
	seen.near[0] = &boards[0];
	seen.near[1] = &boards[1];
	ask(&seen, 1, BOTH, 1);
	ask(&seen, 0, BOTH, 1);
	boards[0] = boards[1] = 0; /* both are in the sum */
	ask(&seen, 2, BOTH, 1);
	expect(&seen, "<2.4.1");
	push(&seen, 2, 4);
	expect(&seen, ">0.1=1.67772e+07/3>1.1=1.67772e+07/3>2.1=1.67772e+07/3");
	assert_true(seen.answered == 16777220);
	tauti_core_destroy(seen.core);
}

/* A server whose memory ends when it must keep what a worker leaves. */
static void test_near_memory(void **state)
{
	const struct taut_server_options options = { .n_workers = 2 };
	const float board = 1;
	struct seen seen;

	(void)state;
	start(&seen, &options);
	seen.near[1] = &board;
	ask(&seen, 1, TAUTI_ASK_PUSH, 1);
	alloc_fail_after(0);
	tauti_core_left(seen.core, 1);
	go_on(&seen);
	alloc_fail_never();
	assert_int_equal(tauti_core_fault(seen.core, NULL), TAUT_ENOMEM);
	tauti_core_destroy(seen.core);
}

static void test_near_first(void **state)
{
	struct taut_server_options options = { .n_workers = 1 };
	float board = 3;
	struct seen seen;

	(void)state;
	assert_int_equal(taut_server_update_read("sgd:lr=0.5", &options.update,
		NULL), TAUT_OK);
	start(&seen, &options);
	seen.near[0] = &board;
	ask(&seen, 0, TAUTI_ASK_FIRST | TAUTI_ASK_PULL, 0);
	expect(&seen, ">0.0=3/1");
	tauti_core_answered(seen.core, 0, 4);
	board = 2;
	ask(&seen, 0, BOTH, 1);
	expect(&seen, ">0.1=2/1");
	tauti_core_destroy(seen.core);
}

static void test_left(void **state)
{
	const struct taut_server_options options = { .n_workers = 2 };
	struct taut_error err;
	struct seen seen;

	(void)state;
	start(&seen, &options);
	/* One that pushed and left is in the sum; for the next it is missed. */
	ask(&seen, 1, TAUTI_ASK_PUSH, 1);
	assert_false(tauti_core_is_idle(seen.core, 1));
	push(&seen, 1, 5);
	assert_true(tauti_core_is_idle(seen.core, 1));
	tauti_core_left(seen.core, 1);
	go_on(&seen);
	ask(&seen, 0, BOTH, 1);
	seen.log[0] = '\0';
	push(&seen, 0, 2);
	expect(&seen, ">0.1=7/2");
	tauti_core_answered(seen.core, 0, 4);
	ask(&seen, 0, BOTH, 2);
	assert_int_equal(tauti_core_fault(seen.core, &err), TAUT_EIO);
	assert_string_equal(err.message, "worker 1 has left, and others wait "
		"for what it does not push");
	tauti_core_destroy(seen.core);
}

static void test_first(void **state)
{
	struct taut_server_options options = { .n_workers = 2,
		.on_loss = TAUT_SERVER_CONTINUE };
	struct taut_error err;
	struct seen seen;

	(void)state;
	assert_int_equal(taut_server_update_read("sgd:lr=0.5", &options.update,
		NULL), TAUT_OK);
	start(&seen, &options);
	assert_int_equal(tauti_core_ask(seen.core, 1, 4, BOTH, 1, &err),
		TAUT_EFORMAT);
	assert_string_equal(err.message,
		"part 4: a gradient comes before the first values");
	ask(&seen, 1, TAUTI_ASK_PULL, 0);
	expect(&seen, "");
	ask(&seen, 0, TAUTI_ASK_FIRST | TAUTI_ASK_PULL, 0);
	expect(&seen, "<0.4.0");
	push(&seen, 0, 10);
	expect(&seen, ">0.0=10/1>1.0=10/1");
	tauti_core_answered(seen.core, 0, 4);
	tauti_core_answered(seen.core, 1, 4);
	ask(&seen, 0, BOTH, 1);
	ask(&seen, 1, BOTH, 1);
	push(&seen, 0, 1);
	seen.log[0] = '\0';
	push(&seen, 1, 2);
	expect(&seen, ">0.1=8.5/2>1.1=8.5/2");
	tauti_core_destroy(seen.core);
	/* Who gives them is lost before. */
	start(&seen, &options);
	ask(&seen, 1, TAUTI_ASK_PULL, 0);
	tauti_core_lost(seen.core, 0, "host", "why");
	go_on(&seen);
	assert_int_equal(tauti_core_fault(seen.core, &err), TAUT_EIO);
	assert_string_equal(err.message, "worker 0 (host) is gone before it "
		"gave the first values: why");
	tauti_core_destroy(seen.core);
}

/* Who is to give the first values goes, and a pull comes before or after that. */
static void lack_first(const struct taut_server_options *options, bool lost, bool asks_first,
	const char *line)
{
	struct taut_error err = { .message = "" };
	struct seen seen;

	start(&seen, options);
	if (asks_first)
		ask(&seen, 1, TAUTI_ASK_PULL, 0);
	if (lost)
		tauti_core_lost(seen.core, 0, "host", "why");
	else
		tauti_core_left(seen.core, 0);
	go_on(&seen);
	if (!asks_first && !tauti_core_fault(seen.core, NULL))
		ask(&seen, 1, TAUTI_ASK_PULL, 0);
	assert_int_equal(tauti_core_fault(seen.core, &err), TAUT_EIO);
	assert_string_equal(err.message, line);
	tauti_core_destroy(seen.core);
}

static void test_lacks_first(void **state)
{
	static const char lost[] = "worker 0 is gone before it gave the first values";
	static const char left[] = "worker 0 has left before it gave the first values";
	struct taut_server_options options = { .n_workers = 2,
		.on_loss = TAUT_SERVER_CONTINUE };

	(void)state;
	for (int i = 0; i < 4; i++) {
		options.async = i / 2;
		lack_first(&options, true, i % 2, lost);
		lack_first(&options, false, i % 2, left);
	}
	assert_int_equal(taut_server_update_read("sgd:lr=0.5", &options.update,
		NULL), TAUT_OK);
	for (int i = 0; i < 4; i++) {
		options.async = i / 2;
		lack_first(&options, true, i % 2, "worker 0 (host) is gone before it "
			"gave the first values: why");
		lack_first(&options, false, i % 2, left);
	}
}

/* Where pushes are added to the value, one of another worker does; where that one waits,
 * too, nobody has one. */
static void test_lacks_any(void **state)
{
	const struct taut_server_options options = { .n_workers = 3, .async = true };
	struct taut_error err;
	struct seen seen;

	(void)state;
	for (int pushes = 0; pushes < 2; pushes++) {
		start(&seen, &options);
		ask(&seen, 1, TAUTI_ASK_PULL, 0);
		tauti_core_left(seen.core, 0);
		go_on(&seen);
		assert_int_equal(tauti_core_fault(seen.core, NULL), TAUT_OK);
		ask(&seen, 2, pushes ? BOTH : TAUTI_ASK_PULL, (uint32_t)pushes);
		if (pushes) {
			push(&seen, 2, 5);
			expect(&seen, "<2.4.1>1.1=5/1>2.1=5/1");
		}
		assert_int_equal(tauti_core_fault(seen.core, &err),
			pushes ? TAUT_OK : TAUT_EIO);
		tauti_core_destroy(seen.core);
	}
}

static void test_stale(void **state)
{
	const struct taut_server_options options = { .n_workers = 2,
		.async = true, .bounded = true, .staleness = 1 };
	struct seen seen;

	(void)state;
	start(&seen, &options);
	for (uint32_t round = 1; round <= 2; round++) {
		ask(&seen, 0, BOTH, round);
		push(&seen, 0, 1);
		if (round == 1) {
			expect(&seen, "<0.4.1>0.1=1/1");
			tauti_core_answered(seen.core, 0, 4);
		}
	}
	expect(&seen, "<0.4.2"); /* two ahead of worker 1: it waits */
	ask(&seen, 1, TAUTI_ASK_PUSH, 1);
	push(&seen, 1, 5);
	expect(&seen, "<1.4.1>0.3=7/1");
	tauti_core_destroy(seen.core);
}

static void test_landings(void **state)
{
	/* Room for one before its turn. */
	const struct taut_server_options options = { .n_workers = 4,
		.landing_bytes = 8 };
	struct taut_server_counts counts;
	struct seen seen;

	(void)state;
	start(&seen, &options);
	ask(&seen, 3, BOTH, 1);
	ask(&seen, 2, BOTH, 1);
	ask(&seen, 1, BOTH, 1);
	expect(&seen, "<3.4.1");
	push(&seen, 3, 8);
	ask(&seen, 0, BOTH, 1);
	expect(&seen, "<0.4.1");
	push(&seen, 0, 1);
	expect(&seen, "<1.4.1");
	push(&seen, 1, 2);
	expect(&seen, "<2.4.1");
	push(&seen, 2, 4);
	expect(&seen, ">0.1=15/4>1.1=15/4>2.1=15/4>3.1=15/4");
	tauti_core_counts(seen.core, &counts);
	assert_int_equal(counts.most_landing_bytes, 8);
	tauti_core_destroy(seen.core);
}

static void refuse(struct seen *seen, const struct tauti_part_said *said,
	size_t n, taut_status status, const char *why)
{
	struct taut_error err = { .message = "" };

	assert_int_equal(tauti_core_declare(seen->core, 1, said, n, &err),
		status);
	assert_non_null(strstr(err.message, why));
}

static void test_declare(void **state)
{
	const uint64_t beside = sizeof(struct tauti_core_part) +
		sizeof(uint32_t) + 2 * sizeof(struct tauti_seat);
	struct taut_server_options options = { .n_workers = 3,
		.memory_bytes = 8 + beside };
	struct tauti_part_said said[2] = { one_part, one_part };
	struct seen seen = { .log = "" };
	char line[80];

	(void)state;
	assert_int_equal(tauti_core_create(&options, &calls, &seen, &seen.core,
		NULL), TAUT_OK);
	assert_int_equal(tauti_core_join(seen.core, 1, NULL), TAUT_OK);
	/* The seat of the third worker is too much. */
	refuse(&seen, said, 1, TAUT_EINVAL, "bytes on this server");
	tauti_core_destroy(seen.core);
	options.n_workers = 2;
	assert_int_equal(tauti_core_create(&options, &calls, &seen, &seen.core,
		NULL), TAUT_OK);
	assert_int_equal(tauti_core_join(seen.core, 0, NULL), TAUT_OK);
	assert_int_equal(tauti_core_join(seen.core, 1, NULL), TAUT_OK);
	assert_int_equal(tauti_core_join(seen.core, 2, NULL), TAUT_EMATCH);
	assert_int_equal(tauti_core_join(seen.core, 1, NULL), TAUT_EMATCH);
	refuse(&seen, said, 2, TAUT_EFORMAT, "no list of parts");
	said[0].count = 2;
	snprintf(line, sizeof line, "need %zu bytes on this server",
		(size_t)(16 + beside));
	refuse(&seen, said, 1, TAUT_EINVAL, line);
	said[0].count = UINT64_C(1) << 47;
	refuse(&seen, said, 1, TAUT_EINVAL, "bytes on this server");
	assert_int_equal(tauti_core_declare(seen.core, 0, &one_part, 1, NULL),
		TAUT_OK);
	said[0].count = 2;
	refuse(&seen, said, 1, TAUT_EMATCH, "worker 1 declares 2 float32 for "
		"part 4, others 1 float32");
	refuse(&seen, said, 0, TAUT_EMATCH, "declares 0 parts, others 1");
	said[0] = one_part;
	said[0].hash++;
	refuse(&seen, said, 1, TAUT_EMATCH, "another key");
	assert_int_equal(tauti_core_declare(seen.core, 1, &one_part, 1, NULL),
		TAUT_OK);
	refuse(&seen, &one_part, 1, TAUT_EFORMAT, "twice");
	tauti_core_destroy(seen.core);
}

static void test_asks(void **state)
{
	const struct taut_server_options options = { .n_workers = 2 };
	static const struct {
		uint32_t part, ask, round;
	} wrong[] = { { 3, BOTH, 1 }, { 5, BOTH, 1 }, { 4, 0, 0 }, { 4, 8, 1 },
		{ 4, 5, 1 }, { 4, BOTH, 0 }, { 4, BOTH, 2 },
		{ 4, TAUTI_ASK_PULL, 1 }, { 4, TAUTI_ASK_FIRST, 1 } };
	struct seen seen;

	(void)state;
	start(&seen, &options);
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
		assert_int_equal(tauti_core_ask(seen.core, 0, wrong[i].part,
			wrong[i].ask, wrong[i].round, NULL), TAUT_EFORMAT);
	assert_int_equal(tauti_core_ask(seen.core, 1, 4, TAUTI_ASK_FIRST, 0,
		NULL), TAUT_EFORMAT);
	ask(&seen, 0, BOTH, 1);
	assert_int_equal(tauti_core_ask(seen.core, 0, 4, BOTH, 2, NULL),
		TAUT_EFORMAT);
	expect(&seen, "<0.4.1");
	tauti_core_destroy(seen.core);
}

/* A worker has its answer, and asks on, before it is known here that the answer has gone. */
static void test_asks_early(void **state)
{
	const struct taut_server_options options = { .n_workers = 1 };
	struct seen seen;

	(void)state;
	start(&seen, &options);
	ask(&seen, 0, BOTH, 1);
	push(&seen, 0, 3);
	expect(&seen, "<0.4.1>0.1=3/1");
	assert_int_equal(tauti_core_ask(seen.core, 0, 4, BOTH, 1, NULL), TAUT_EFORMAT);
	ask(&seen, 0, BOTH, 2);
	assert_int_equal(tauti_core_ask(seen.core, 0, 4, BOTH, 2, NULL), TAUT_EFORMAT);
	assert_false(tauti_core_is_idle(seen.core, 0));
	expect(&seen, "");
	tauti_core_answered(seen.core, 0, 4);
	expect(&seen, "<0.4.2");
	push(&seen, 0, 4);
	expect(&seen, ">0.2=4/1");
	tauti_core_answered(seen.core, 0, 4);
	assert_true(tauti_core_is_idle(seen.core, 0));
	tauti_core_destroy(seen.core);
}

static bool try_memory(void)
{
	const struct taut_server_options options = { .n_workers = 1,
		.update = { .rule = TAUT_SERVER_ADAM, .lr = 1 } };
	struct tauti_core *core;
	taut_status status;

	if (tauti_core_create(&options, &calls, NULL, &core, NULL))
		return false;
	assert_int_equal(tauti_core_join(core, 0, NULL), TAUT_OK);
	status = tauti_core_declare(core, 0, &one_part, 1, NULL);
	assert_true(status == TAUT_OK || status == TAUT_ENOMEM);
	tauti_core_destroy(core);
	return status == TAUT_OK;
}

static void test_memory(void **state)
{
	const struct taut_server_options options = { .n_workers = 2 };
	struct taut_error err;
	struct seen seen;

	(void)state;
	for (long n = 0; alloc_fail_after(n), !try_memory(); n++)
		;
	alloc_fail_never();
	start(&seen, &options);
	alloc_fail_after(0);
	ask(&seen, 1, BOTH, 1);
	alloc_fail_never();
	assert_int_equal(tauti_core_fault(seen.core, &err), TAUT_ENOMEM);
	tauti_core_destroy(seen.core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_rescale),
		cmocka_unit_test(test_near),
		cmocka_unit_test(test_near_memory),
		cmocka_unit_test(test_near_first),
		cmocka_unit_test(test_left),
		cmocka_unit_test(test_first),
		cmocka_unit_test(test_lacks_first),
		cmocka_unit_test(test_lacks_any),
		cmocka_unit_test(test_stale),
		cmocka_unit_test(test_landings),
		cmocka_unit_test(test_declare),
		cmocka_unit_test(test_asks),
		cmocka_unit_test(test_asks_early),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
