#include "trace/test_support.h"

#include "tests/support/alloc_fail.h"
#include "tests/support/write_log.h"

static struct taut_run *open_log(const struct wl *w)
{
	struct taut_run *run = NULL;
	struct taut_error err = { 0 };

	if (taut_run_open_memory("r.tautlog", w, wl_bytes(w), -1, &run,
		    &err) != TAUT_OK)
		fail_msg("%s", err.message);
	return run;
}

static void check_refusal(const void *bytes, size_t len, const char *part)
{
	struct taut_run *run = NULL;
	struct taut_error err = { 0 };

	assert_int_equal(taut_run_open_memory("r.tautlog", bytes, len, -1,
				 &run, &err),
		TAUT_EFORMAT);
	assert_non_null(strstr(err.message, part));
}

static void test_events(void **state)
{
	(void)state;
	struct wl w = wl_begin(3, 4);
	struct tauti_log_record *r;

	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_STEP, "step", 100, 0, 90, 8);
	wl_comm(&w, "allreduce", 100, 10, 20, 5, 1000);
	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_LOAD, "batch", 77, 40, 9, 12);
	r = wl_event(&w, TAUTI_LOG_CHUNK, 0, "chunk", 200, 12, 5, 6);
	r->u.chunk.peer = 1;
	r->u.chunk.bytes = 4096;
	r->u.chunk.gpu_late_ns = 1000;
	r->u.chunk.peer_late_ns = -7;
	r->u.chunk.network_ns = 4000;
	wl_clock(&w, 50, -1234, 99);

	struct taut_run *run = open_log(&w);
	const struct taut_trace *t = &run->traces[0];
	assert_string_equal(t->format, "event log");
	assert_int_equal(t->rank, 3);
	assert_int_equal(t->world_size, 4);
	assert_string_equal(t->host, "host3");
	assert_string_equal(t->clock, "boot/host3");
	assert_int_equal(t->n_events, 4);
	assert_int_equal(t->base_ns, WL_EPOCH_NS);
	/* lanes 77 and 100 are threads, 200 stands beside them */
	assert_int_equal(t->n_lanes, 3);
	assert_int_equal(t->lanes[2].kind, TAUT_LANE_OTHER);
	assert_int_equal(t->kind[0], TAUT_KIND_LOAD);
	assert_int_equal(t->correlation[0], 12);
	assert_int_equal(t->kind[1], TAUT_KIND_STEP);
	assert_int_equal(t->sequence[1], 8);
	assert_int_equal(t->kind[2], TAUT_KIND_COMM);
	assert_int_equal(t->start_ns[2], 10000);
	assert_int_equal(t->dur_ns[2], 20000);
	assert_string_equal(taut_trace_name(t, 2), "allreduce");
	const struct taut_comm_args *c = taut_trace_comm(t, 2);
	assert_int_equal(c->in_elements, 1000);
	assert_int_equal(c->seq, 5);
	assert_string_equal(
		taut_names_text(t->names, c->group_name), "world");
	const struct taut_chunk_args *chunk = taut_trace_chunk(t, 3);
	assert_int_equal(chunk->gpu_late_ns, 1000);
	assert_int_equal(chunk->peer_late_ns, -1);
	assert_int_equal(chunk->network_ns, 4000);
	assert_int_equal(t->n_clock_samples, 1);
	assert_int_equal(t->clock_samples[0].offset_ns, -1234);
	assert_int_equal(t->clock_samples[0].at_ns, WL_EPOCH_NS + 50000);
	taut_run_close(run);
}

static size_t find(const struct taut_trace *t, const char *name, int64_t start_us)
{
	for (size_t i = 0; i < t->n_events; i++)
		if (!strcmp(taut_trace_name(t, i), name) && t->base_ns +
			t->start_ns[i] == WL_EPOCH_NS + start_us * 1000)
			return i;
	fail_msg("no %s at %lld us", name, (long long)start_us);
	return 0;
}

static uint32_t number(const struct taut_trace *t, const char *name, int64_t start_us)
{
	return t->correlation[find(t, name, start_us)];
}

static void put_gradient(struct wl *w, uint32_t exchange, uint32_t task, int64_t elements)
{
	uint32_t dtype = wl_text(w, "float32");
	struct tauti_log_record *r = wl_add(w, TAUTI_LOG_GRADIENT);

	r->u.gradient.exchange = exchange;
	r->u.gradient.task = task;
	r->u.gradient.dtype = dtype;
	r->u.gradient.elements = elements;
}

/* Two exchanges with the same numbers of tasks and messages: each keeps its own. What
 * was handed over before the window has the wait that is for it, and not one that is for
 * what was handed over since. */
static struct wl write_sums(void)
{
	struct wl w = wl_begin(1, 2);

	put_gradient(&w, 0, 3, 25);
	put_gradient(&w, 1, 3, 77);
	wl_sum_call(&w, 0, 3, 1, 100, 5, 20); /* of the step before */
	wl_sum_call(&w, 0, 3, 0, 100, 40, 1);
	wl_sum_call(&w, 1, 3, 0, 100, 45, 1);
	wl_sum_call(&w, 0, 3, 1, 100, 50, 20);
	wl_sum_call(&w, 1, 3, 1, 100, 80, 30);
	wl_sum_call(&w, 0, 4, 0, 100, 200, 1);
	wl_sum_call(&w, 0, 4, 1, 100, 210, 1);
	wl_piece(&w, 0, 3, 6, 8, 16);
	wl_piece(&w, 0, 3, 7, 44, 10); /* from 41 on the rank was there for it */
	wl_piece(&w, 1, 3, 7, 48, 40); /* from 46 on */
	wl_piece(&w, 0, 4, 5, 190, 5); /* nobody waits for it */
	return w;
}

static void test_sums(void **state)
{
	struct wl w = write_sums();
	struct taut_run *run;
	const struct taut_trace *t;
	const struct taut_comm_args *c;

	(void)state;
	run = open_log(&w);
	t = &run->traces[0];
	assert_int_equal(t->n_events, 7 + 3);
	c = taut_trace_comm(t, find(t, "taut_sum", 46));
	assert_string_equal(taut_names_text(t->names, c->group_name), "taut 1.2");
	assert_int_equal(c->group_size, 2);
	assert_int_equal(c->seq, 7);
	assert_int_equal(c->in_elements, 100);
	c = taut_trace_comm(t, find(t, "taut_sync_ready", 40));
	assert_int_equal(c->seq, 3);
	assert_int_equal(c->in_elements, 25);
	assert_string_equal(taut_names_text(t->names, c->dtype), "float32");
	c = taut_trace_comm(t, find(t, "taut_sync_wait", 80));
	assert_int_equal(c->in_elements, 77);

	assert_int_not_equal(number(t, "taut_sum", 8), 0);
	assert_int_equal(number(t, "taut_sum", 8), number(t, "taut_sync_wait", 5));
	assert_int_equal(number(t, "taut_sum", 41), number(t, "taut_sync_ready", 40));
	assert_int_equal(number(t, "taut_sum", 41), number(t, "taut_sync_wait", 50));
	assert_int_equal(number(t, "taut_sum", 46), number(t, "taut_sync_ready", 45));
	assert_int_equal(number(t, "taut_sum", 46), number(t, "taut_sync_wait", 80));
	assert_int_not_equal(number(t, "taut_sum", 41), number(t, "taut_sum", 46));
	assert_int_not_equal(number(t, "taut_sum", 41), number(t, "taut_sum", 8));
	assert_int_equal(number(t, "taut_sync_wait", 210), 0);
	/* messages stand beside the thread */
	assert_int_equal(t->n_lanes, 3);
	taut_run_close(run);
}

/* Two messages are under way at a time, of 100 bytes each. One that waits for another rank
 * while there is room began when it was handed over, whatever ended meanwhile; one for
 * which there was none when that came. */
static void test_sums_that_wait_for_room(void **state)
{
	static const int64_t posted[] = { 5, 7, 18, 61, 65 };
	static const int64_t from[] = { 10, 12, 70, 75, 90 }, to[] = { 60, 40, 88, 95, 99 };
	struct wl w = wl_begin(0, 1);
	struct taut_run *run;

	(void)state;
	for (uint32_t i = 0; i < 5; i++)
		wl_sum_call(&w, 0, i, 0, 100, posted[i], 1);
	for (uint32_t i = 0; i < 5; i++)
		wl_piece(&w, 0, i, i, from[i], to[i] - from[i]);
	run = open_log(&w);
	find(&run->traces[0], "taut_sum", 6);
	find(&run->traces[0], "taut_sum", 8);
	find(&run->traces[0], "taut_sum", 40); /* one of two ended; at 60 one of one */
	find(&run->traces[0], "taut_sum", 62);
	find(&run->traces[0], "taut_sum", 88); /* one of two */
	taut_run_close(run);
}

/* What cannot be is counted, and nothing of it is kept. */
static void test_sums_that_cannot_be(void **state)
{
	struct wl w = wl_begin(0, 1);
	struct taut_run *run;

	(void)state;
	put_gradient(&w, 0, UINT32_MAX, 8);
	put_gradient(&w, 0, 1, -8);
	put_gradient(&w, 0, 1, INT64_MAX);
	wl_sum_call(&w, 0, 1 << 30, 0, 100, 10, 1);
	wl_sum_call(&w, 0, 1, 0, 100, 10, -1);
	wl_sum_call(&w, 0, 1, 0, 100, 10, 1);
	wl_piece(&w, 0, 1, -1, 20, 5);
	wl_piece(&w, 0, 1, 0, 20, -5);
	wl_piece(&w, 0, 1, 0, 20, 5)->u.piece.bytes = 0;
	wl_piece(&w, 0, 1, 0, 20, 5)->u.piece.bytes = INT64_MAX;
	wl_piece(&w, 0, 1, 0, 20, 5);
	run = open_log(&w);
	assert_int_equal(run->traces[0].n_events, 2);
	assert_int_equal(taut_trace_comm(&run->traces[0], find(&run->traces[0],
		"taut_sum", 11))->in_elements, 100);
	assert_non_null(strstr(run->notes[0], "9 records make no sense"));
	taut_run_close(run);
}

static void test_sums_without_memory(void **state)
{
	struct wl w = write_sums();
	taut_status status = TAUT_ENOMEM;
	struct taut_run *run = NULL;

	(void)state;
	for (long n = 0; status; n++) {
		alloc_fail_after(n);
		status = taut_run_open_memory("r.tautlog", &w, wl_bytes(&w), -1, &run, NULL);
		alloc_fail_never();
		if (status)
			assert_int_equal(status, TAUT_ENOMEM);
	}
	assert_int_equal(run->traces[0].n_events, 7 + 3);
	taut_run_close(run);
}

/* What a batch consisted of stands beside its event, in the events' order. */
static void test_batches(void **state)
{
	(void)state;
	struct wl w = wl_begin(0, 1);
	struct tauti_log_record *r;

	wl_comm(&w, "allreduce", 300, 10, 20, 5, 1000);
	r = wl_event(&w, TAUTI_LOG_LOAD, TAUT_KIND_LOAD_WAIT, "own", 200, 40,
		9, 0);
	r->u.load.cpu_ns = 10000; /* more than there was */
	r->u.load.queued_ns = r->u.load.others_ns = -5;
	r->u.load.read_bytes = INT64_MAX;
	r->u.load.storage_bytes = r->u.load.samples = -1;
	r = wl_event(&w, TAUTI_LOG_LOAD, TAUT_KIND_LOAD, "batch", 77, 40, 9, 12);
	r->u.load.cpu_ns = 4000;
	r->u.load.queued_ns = 100;
	r->u.load.others_ns = 70000;
	r->u.load.read_bytes = 8192;
	r->u.load.storage_bytes = 4096;
	r->u.load.samples = 16;

	struct taut_run *run = open_log(&w);
	const struct taut_trace *t = &run->traces[0];
	const struct taut_load_args *load = taut_trace_load(t, 0);
	assert_int_equal(t->n_loads, 2);
	assert_ptr_equal(load, &t->loads[0]);
	assert_int_equal(t->correlation[0], 12);
	assert_int_equal(load->cpu_ns, 4000);
	assert_int_equal(load->queued_ns, 100);
	assert_int_equal(load->others_ns, 70000);
	assert_int_equal(load->read_bytes, 8192);
	assert_int_equal(load->storage_bytes, 4096);
	assert_int_equal(load->samples, 16);
	load = taut_trace_load(t, 1);
	assert_int_equal(t->kind[1], TAUT_KIND_LOAD_WAIT);
	assert_int_equal(load->cpu_ns, 9000);
	assert_int_equal(load->queued_ns, -1);
	assert_int_equal(load->others_ns, -1);
	assert_int_equal(load->read_bytes, INT64_C(1) << 48);
	assert_int_equal(load->storage_bytes, -1);
	assert_int_equal(load->samples, -1);
	assert_null(taut_trace_comm(t, 1));
	assert_null(taut_trace_load(t, 2));
	assert_int_equal(taut_trace_comm(t, 2)->in_elements, 1000);
	taut_run_close(run);
}

/* A text of more than one record, and what a name must not hold. */
static void test_texts(void **state)
{
	(void)state;
	char name[300];
	struct wl w = wl_begin(0, 1);

	memset(name, 'x', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	name[200] = '\n';
	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_OP, name, 1, 0, 1, 0);

	struct taut_run *run = open_log(&w);
	name[200] = ' ';
	assert_string_equal(taut_trace_name(&run->traces[0], 0), name);
	taut_run_close(run);
}

/* Records that cannot be are counted, and the rest is kept. */
static void test_nonsense(void **state)
{
	(void)state;
	struct wl w = wl_begin(0, 1);
	struct tauti_log_record *r;

	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_OP, "good", 1, 0, 1, 0);
	r = wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_OP, "backward", 1, 9, 1, 0);
	r->end_ns = r->start_ns - 1;
	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_KERNEL, "kernel", 1, 9, 1, 0);
	wl_event(&w, 99, TAUT_KIND_OP, "type", 1, 9, 1, 0);
	wl_event(&w, TAUTI_LOG_LOAD, TAUT_KIND_OP, "no batch", 1, 9, 1, 0);
	r = wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_OP, "text", 1, 5, 1, 0);
	r->name = UINT32_MAX;
	r = wl_add(&w, TAUTI_LOG_TEXT);
	r->name = 9;
	r->u.text.bytes = UINT32_MAX;

	struct taut_run *run = open_log(&w);
	assert_int_equal(run->traces[0].n_events, 2);
	assert_string_equal(taut_trace_name(&run->traces[0], 1), "");
	assert_int_equal(run->n_notes, 1);
	assert_non_null(strstr(run->notes[0], "5 records make no sense"));
	taut_run_close(run);
}

/* What a killed process leaves: not closed, reserved records unwritten. */
static void test_killed(void **state)
{
	(void)state;
	struct wl w = wl_begin(0, 1);

	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_OP, "op", 1, 0, 1, 0);
	wl_add(&w, TAUTI_LOG_UNUSED);
	w.header.closed_ns = 0;
	strcpy(w.header.state, "in step 12");

	struct taut_run *run = open_log(&w);
	assert_int_equal(run->traces[0].n_events, 1);
	assert_int_equal(run->n_notes, 1);
	assert_non_null(strstr(run->notes[0], "without closing the log: in "
					      "step 12"));
	taut_run_close(run);
}

static void test_full_log(void **state)
{
	(void)state;
	struct wl w = wl_begin(0, 1);

	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_OP, "op", 1, 0, 1, 0);
	w.header.capacity = w.header.reserved;
	w.header.reserved += 10;

	struct taut_run *run = open_log(&w);
	assert_int_equal(run->n_notes, 1);
	assert_non_null(strstr(run->notes[0], "10 of 13 records"));
	taut_run_close(run);
}

static void test_cut_file(void **state)
{
	(void)state;
	struct wl w = wl_begin(0, 1);
	struct taut_run *run = NULL;
	struct taut_error err = { 0 };

	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_OP, "op", 1, 0, 1, 0);
	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_OP, "op", 1, 2, 1, 0);
	assert_int_equal(taut_run_open_memory("r.tautlog", &w,
				 wl_bytes(&w) - 20, -1, &run, &err),
		TAUT_OK);
	assert_int_equal(run->traces[0].n_events, 1);
	assert_true(run->traces[0].truncated);
	taut_run_close(run);
	check_refusal(&w, 100, "ends inside its header");
	w.header.record_bytes = 64;
	check_refusal(&w, wl_bytes(&w), "records of 64 bytes");
}

static void test_no_memory(void **state)
{
	(void)state;
	struct wl w = wl_begin(0, 2);
	wl_comm(&w, "allreduce", 1, 0, 1, 0, 8);
	wl_clock(&w, 1, 2, 3);
	for (int n = 0;; n++) {
		struct taut_run *run = NULL;
		struct taut_error err = { 0 };

		alloc_fail_after(n);
		taut_status status = taut_run_open_memory("r.tautlog", &w,
			wl_bytes(&w), -1, &run, &err);
		alloc_fail_never();
		if (status == TAUT_OK) {
			taut_run_close(run);
			assert_true(n > 10);
			return;
		}
		assert_int_equal(status, TAUT_ENOMEM);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_sums_that_wait_for_room),
		cmocka_unit_test(test_sums_that_cannot_be),
		cmocka_unit_test(test_sums_without_memory),
		cmocka_unit_test(test_batches),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_full_log),
		cmocka_unit_test(test_cut_file),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
