/* xplane_sums_test.c - what XPlane files tell of gradients that Taut's exchange sums,
 * read from small ones written by hand, and from ones made to be slow. */
#include <time.h>

#include "trace/test_support.h"

#include "tests/support/alloc_fail.h"
#include "trace/formats/xplane_write.h"

static const int64_t begin_ns = 1700000000 * INT64_C(1000000000);

struct writer {
	struct plane p;
	struct bytes line, space;
};

static void begin(struct writer *w)
{
	w->space.len = 0;
	begin_plane(&w->p, "/host:CPU");
	begin_line(&w->line, 1, "python", begin_ns);
}

static struct taut_run *end(struct writer *w)
{
	struct taut_run *run = NULL;
	struct taut_error err = { 0 };

	put_in(&w->p.bytes, 3, &w->line);
	end_plane(&w->p, &w->space);
	if (taut_run_open_memory("t.xplane.pb", w->space.at, w->space.len, -1,
		    &run, &err) != TAUT_OK)
		fail_msg("%s", err.message);
	return run;
}

static void make_gradient(struct writer *w, struct bytes *event, int64_t task,
	int64_t elements, const char *dtype)
{
	begin_event(&w->p, event, "taut_gradient", 0, 0);
	add_number(&w->p, event, "taut_task", task);
	add_number(&w->p, event, "taut_elements", elements);
	add_text(&w->p, event, "taut_dtype", dtype);
}

static void make_call(struct writer *w, struct bytes *event, const char *name,
	int64_t task, int64_t from_ns)
{
	begin_event(&w->p, event, name, from_ns, 5);
	add_number(&w->p, event, "taut_task", task);
}

static void make_piece(struct writer *w, struct bytes *event, int64_t message,
	int64_t task, int64_t bytes, int64_t from_ns)
{
	begin_event(&w->p, event, "taut_piece", 0, 0);
	add_number(&w->p, event, "taut_task", task);
	add_number(&w->p, event, "taut_message", message);
	add_number(&w->p, event, "taut_bytes", bytes);
	add_number(&w->p, event, "taut_start_ns", begin_ns + from_ns);
	add_number(&w->p, event, "taut_end_ns", begin_ns + from_ns + 20);
}

static void put_gradient(struct writer *w, int64_t task, int64_t elements,
	const char *dtype)
{
	struct bytes event;

	make_gradient(w, &event, task, elements, dtype);
	put_in(&w->line, 4, &event);
}

static void put_ready(struct writer *w, int64_t task, int64_t from_ns)
{
	struct bytes event;

	make_call(w, &event, "taut_sync_ready", task, from_ns);
	put_in(&w->line, 4, &event);
}

static void put_wait(struct writer *w, int64_t task, int64_t from_ns)
{
	struct bytes event;

	make_call(w, &event, "taut_sync_wait", task, from_ns);
	put_in(&w->line, 4, &event);
}

static void put_piece(struct writer *w, int64_t message, int64_t task,
	int64_t bytes, int64_t from_ns)
{
	struct bytes event;

	make_piece(w, &event, message, task, bytes, from_ns);
	put_in(&w->line, 4, &event);
}

/* The event of that name that starts then. */
static size_t at(const struct taut_trace *t, const char *name, int64_t start_ns)
{
	for (size_t i = 0; i < t->n_events; i++)
		if (!strcmp(taut_trace_name(t, i), name) &&
			t->base_ns + t->start_ns[i] == begin_ns + start_ns)
			return i;
	fail_msg("no %s at %lld", name, (long long)start_ns);
	return 0;
}

static size_t count(const struct taut_trace *t, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n_events; i++)
		n += !strcmp(taut_trace_name(t, i), name);
	return n;
}

/* --- messages, calls, gradients ------------------------------------------------------ */

/* Two steps of two gradients: one message for both, then one for each. */
static void put_job(struct writer *w)
{
	begin(w);
	put_gradient(w, 7, 100, "float32");
	put_gradient(w, 3, 50, "float16");
	put_ready(w, 3, 10);
	put_ready(w, 7, 20);
	put_wait(w, 3, 30);
	put_wait(w, 7, 60);
	put_ready(w, 3, 110);
	put_ready(w, 7, 150);
	put_wait(w, 3, 160);
	put_wait(w, 7, 190);
	put_piece(w, 5, 7, 400, 30);
	put_piece(w, 5, 3, 100, 30);
	put_piece(w, 6, 3, 100, 120);
	put_piece(w, 9, 7, 400, 160);
}

static void test_messages(void **state)
{
	struct writer w;
	struct taut_run *run;
	const struct taut_trace *t;
	size_t both, first, second;

	(void)state;
	put_job(&w);
	run = end(&w);
	t = &run->traces[0];
	assert_int_equal(count(t, "taut_sum"), 3);
	both = at(t, "taut_sum", 25); /* when both were handed over, to 50 */
	first = at(t, "taut_sum", 115);
	second = at(t, "taut_sum", 155);
	assert_int_equal(t->dur_ns[both], 25);
	assert_int_equal(t->kind[both], TAUT_KIND_COMM);
	assert_int_equal(taut_trace_comm(t, both)->in_elements, 500);
	assert_int_equal(taut_trace_comm(t, both)->seq, 5);
	assert_int_equal(taut_trace_comm(t, second)->in_elements, 400);
	assert_int_equal(taut_trace_comm(t, second)->seq, 9);

	/* Who handed over last posted it; both waited for it. */
	assert_int_equal(t->correlation[at(t, "taut_sync_ready", 10)], 0);
	assert_int_equal(t->correlation[at(t, "taut_sync_ready", 20)],
		t->correlation[both]);
	assert_int_equal(t->correlation[at(t, "taut_sync_wait", 30)],
		t->correlation[both]);
	assert_int_equal(t->correlation[at(t, "taut_sync_wait", 60)],
		t->correlation[both]);
	assert_int_equal(t->correlation[at(t, "taut_sync_ready", 110)],
		t->correlation[first]);
	assert_int_equal(t->correlation[at(t, "taut_sync_wait", 160)],
		t->correlation[first]);
	assert_int_equal(t->correlation[at(t, "taut_sync_wait", 190)],
		t->correlation[second]);
	assert_int_not_equal(t->correlation[first], t->correlation[second]);
	taut_run_close(run);
}

static void test_calls(void **state)
{
	struct writer w;
	struct taut_run *run;
	const struct taut_trace *t;
	const struct taut_comm_args *args;

	(void)state;
	put_job(&w);
	put_gradient(&w, 7, 80, "float64"); /* told again: this holds */
	put_wait(&w, 4, 195); /* of no gradient */
	run = end(&w);
	t = &run->traces[0];
	args = taut_trace_comm(t, at(t, "taut_sync_wait", 160));
	assert_int_equal(args->seq, 3);
	assert_int_equal(args->in_elements, 50);
	assert_string_equal(taut_names_text(t->names, args->dtype), "float16");
	args = taut_trace_comm(t, at(t, "taut_sync_ready", 20));
	assert_int_equal(args->seq, 7);
	assert_int_equal(args->in_elements, 80);
	assert_string_equal(taut_names_text(t->names, args->dtype), "float64");
	args = taut_trace_comm(t, at(t, "taut_sync_wait", 195));
	assert_int_equal(args->seq, 4);
	assert_int_equal(args->in_elements, -1);
	assert_int_equal(args->dtype, 0);
	assert_int_equal(t->correlation[at(t, "taut_sync_wait", 195)], 0);
	taut_run_close(run);
}

/* What cannot be, and what nothing in the window handed over, is left out. */
static void test_left_out(void **state)
{
	struct writer w;
	struct taut_run *run;

	(void)state;
	begin(&w);
	put_gradient(&w, 1, INT64_MAX, "float32");
	put_ready(&w, 1, 40);
	put_ready(&w, -1, 45);
	put_ready(&w, INT64_C(1) << 40, 45);
	put_wait(&w, 1, 50);
	put_piece(&w, 0, 1, 8, 30); /* before it was handed over */
	put_piece(&w, 1, 2, 8, 60); /* nobody did */
	put_piece(&w, 2, 1, 0, 60);
	put_piece(&w, 2, 1, INT64_MAX, 60);
	put_piece(&w, 2, 1, INT64_MAX, 61);
	put_piece(&w, -3, 1, 8, 60);
	put_piece(&w, 4, 1, 8, INT64_MAX - 20 - begin_ns);
	put_piece(&w, 8, 1, 8, 60);
	run = end(&w);
	assert_int_equal(count(&run->traces[0], "taut_sum"), 1);
	assert_int_equal(taut_trace_comm(&run->traces[0],
		at(&run->traces[0], "taut_sync_wait", 50))->in_elements, -1);
	taut_run_close(run);
}

/* --- many ------------------------------------------------------------------------------ */

enum { MANY = 200000, FIRST = 1 << 14 }; /* all numbers are varints of three bytes */

struct growing {
	char *at;
	size_t len;
};

static void set_number(char *at, int value)
{
	at[0] = (char)(value | 0x80);
	at[1] = (char)(value >> 7 | 0x80);
	at[2] = (char)(value >> 14);
}

/* The event, in which FIRST stands for its number, with every number. */
static void repeat(struct growing *to, const struct bytes *event)
{
	struct bytes field = { .len = 0 };
	char number[3];

	set_number(number, FIRST);
	put_in(&field, 4, event);
	for (int i = 0; i < MANY; i++) {
		char *copy = to->at + to->len;

		memcpy(copy, field.at, field.len);
		to->len += field.len;
		for (size_t k = 0; k + 3 <= field.len; k++)
			if (!memcmp(field.at + k, number, 3))
				set_number(copy + k, FIRST + i);
	}
}

static void put_head(struct growing *to, unsigned field, size_t len)
{
	struct bytes head = { .len = 0 };

	put_varint(&head, field << 3 | 2);
	put_varint(&head, len);
	memcpy(to->at + to->len, head.at, head.len);
	to->len += head.len;
}

static void copy(struct growing *to, const char *from, size_t len)
{
	memcpy(to->at + to->len, from, len);
	to->len += len;
}

enum { ROOM = 64 << 20 };

/* The file of these events; they are freed. */
static struct growing make_file(struct writer *w, struct growing *events)
{
	struct growing file = { malloc(ROOM), 0 };
	struct bytes name = w->p.bytes;
	size_t line = w->line.len + events->len;

	assert_non_null(file.at);
	w->p.bytes.len = 0;
	put_names(&w->p, 4, w->p.events, w->p.n_events);
	put_names(&w->p, 5, w->p.stats, w->p.n_stats);
	put_head(&file, 1, name.len + 1 + 4 + line + w->p.bytes.len);
	copy(&file, name.at, name.len);
	put_head(&file, 3, line); /* a length of four bytes */
	copy(&file, w->line.at, w->line.len);
	copy(&file, events->at, events->len);
	copy(&file, w->p.bytes.at, w->p.bytes.len);
	free(events->at);
	return file;
}

/* In proportion to what it holds, that is, in some tenths of a second; with a look at
 * each gradient for each call it was more than a minute. Under a sanitizer all takes some
 * ten times as long. The file is freed. */
static struct taut_run *open_fast(struct growing file)
{
	const clock_t most = 100 / UNIT_ROUNDS(10) * (clock_t)CLOCKS_PER_SEC;
	struct taut_run *run = NULL;
	struct taut_error err;
	clock_t from = clock();

	if (taut_run_open_memory("t.xplane.pb", file.at, file.len, -1, &run,
		    &err) != TAUT_OK)
		fail_msg("%s", err.message);
	assert_true(clock() - from < most);
	free(file.at);
	return run;
}

/* Gradients, pieces, and calls of both kinds. */
static void test_many(void **state)
{
	struct growing events = { malloc(ROOM), 0 };
	struct bytes event;
	struct taut_run *run;
	const struct taut_trace *t;
	struct writer w;

	(void)state;
	assert_non_null(events.at);
	begin(&w);
	make_gradient(&w, &event, FIRST, 100, "float32");
	repeat(&events, &event);
	make_call(&w, &event, "taut_sync_ready", FIRST, 10);
	repeat(&events, &event);
	make_call(&w, &event, "taut_sync_wait", FIRST, 20);
	repeat(&events, &event);
	make_piece(&w, &event, FIRST, FIRST, 400, 15);
	repeat(&events, &event);
	run = open_fast(make_file(&w, &events));
	t = &run->traces[0];
	assert_int_equal(t->n_events, 3 * MANY);
	for (size_t i = 0; i < t->n_events; i++) {
		assert_int_not_equal(t->correlation[i], 0);
		assert_true(taut_trace_comm(t, i)->in_elements > 0);
	}
	taut_run_close(run);
}

/* Collectives of an operation whose size is told again and again: the last holds. */
static void test_many_shapes(void **state)
{
	struct growing events = { malloc(ROOM), 0 };
	struct bytes event;
	struct taut_run *run;
	const struct taut_trace *t;
	struct writer w;

	(void)state;
	assert_non_null(events.at);
	begin(&w);
	begin_event(&w.p, &event, "taut_collective", 0, 0);
	add_text(&w.p, &event, "taut_op", "sum");
	add_text(&w.p, &event, "taut_dtype", "float32");
	add_number(&w.p, &event, "taut_elements", FIRST);
	repeat(&events, &event);
	begin_event(&w.p, &event, "sum:CollectiveReduceV2", 10, 0);
	add_number(&w.p, &event, "instance_key", FIRST);
	repeat(&events, &event);
	run = open_fast(make_file(&w, &events));
	t = &run->traces[0];
	assert_int_equal(t->n_events, MANY);
	for (size_t i = 0; i < t->n_events; i++)
		assert_int_equal(taut_trace_comm(t, i)->in_elements,
			FIRST + MANY - 1);
	taut_run_close(run);
}

static void test_no_memory(void **state)
{
	taut_status status = TAUT_ENOMEM;
	struct taut_run *run = NULL;
	struct writer w;

	(void)state;
	put_job(&w);
	taut_run_close(end(&w));
	for (long n = 0; status; n++) {
		alloc_fail_after(n);
		status = taut_run_open_memory("t.xplane.pb", w.space.at,
			w.space.len, -1, &run, NULL);
		alloc_fail_never();
		if (status)
			assert_int_equal(status, TAUT_ENOMEM);
	}
	assert_int_equal(count(&run->traces[0], "taut_sum"), 3);
	taut_run_close(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_left_out),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_many_shapes),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
