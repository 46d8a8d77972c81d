/* Communication and batches of the host, as event logs tell them. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <taut/graph.h>
#include <taut/replay.h>

#include "tests/support/write_log.h"

#define US 1000

/* The run of n logs, as files of a folder that is gone again. */
static struct taut_graph *build(const struct taut_run *run)
{
	struct taut_graph *g = NULL;
	struct taut_error err = { 0 };

	if (taut_graph_build(run, NULL, &g, &err) != TAUT_OK)
		fail_msg("%s", err.message);
	return g;
}

/* Unchanged, a graph replays what was recorded. */
static void finish(struct taut_graph *g, struct taut_run *run)
{
	struct taut_timeline t;
	struct taut_error err = { 0 };

	assert_int_equal(taut_timeline_init(&t, g, &err), TAUT_OK);
	if (taut_replay(g, NULL, &t, &err) != TAUT_OK)
		fail_msg("%s", err.message);
	for (uint32_t i = 0; i < g->n_ops; i++)
		assert_int_equal(t.start_ns[i], g->start_ns[i]);
	taut_timeline_fini(&t);
	taut_graph_destroy(g);
	taut_run_close(run);
}

static uint32_t find_op(const struct taut_graph *g, uint32_t trace,
	enum taut_op_kind kind, const char *name, int skip)
{
	for (uint32_t i = 0; i < g->n_ops; i++)
		if (g->kind[i] == kind && !strcmp(name,
			taut_names_text(g->names, g->name[i])) &&
			g->lanes[g->lane[i]].trace == trace && !skip--)
			return i;
	fail_msg("no operation %s", name);
	return 0;
}

static int has_edge(const struct taut_graph *g, uint32_t from, uint32_t to)
{
	for (uint32_t e = g->edge_begin[from]; e < g->edge_begin[from + 1]; e++)
		if (g->edge_to[e] == to)
			return 1;
	return 0;
}

static void step(struct wl *w, int64_t start_us, int64_t dur_us, uint32_t id)
{
	wl_event(w, TAUTI_LOG_SPAN, TAUT_KIND_STEP, "step", 100, start_us,
		dur_us, id + 1);
}

/* Two ranks that block in an all-reduce; the second comes 30 us late. */
static void test_blocking_collective(void **state)
{
	struct wl w[2] = { wl_begin(0, 2), wl_begin(1, 2) };
	struct taut_run *run;
	struct taut_graph *g;
	uint32_t transfer;

	(void)state;
	for (int i = 0; i < 2; i++) {
		step(&w[i], 0, 100, 4);
		wl_event(&w[i], TAUTI_LOG_SPAN, TAUT_KIND_OP, "work", 100, 0,
			20 + 30 * i, 0);
		wl_comm(&w[i], "allreduce", 100, 20 + 30 * i, 60 - 30 * i, 7,
			1000);
	}
	run = wl_open(w, 2);
	g = build(run);
	assert_int_equal(g->n_steps, 2);
	assert_int_equal(g->steps[0].id, 4);
	assert_int_equal(g->n_collectives, 1);
	assert_int_equal(g->n_unmatched, 0);
	assert_int_equal(g->collectives[0].kind, TAUT_COLL_ALLREDUCE);
	assert_int_equal(g->collectives[0].n_members, 2);
	assert_int_equal(g->collectives[0].bytes, 4000);
	/* both transfer from the arrival of the late rank on */
	for (uint32_t i = 0; i < 2; i++) {
		transfer = find_op(g, i, TAUT_OP_TRANSFER, "allreduce", 0);
		assert_int_equal(g->start_ns[transfer], 50 * US);
		assert_int_equal(g->dur_ns[transfer], 30 * US);
		assert_true(g->lanes[g->lane[transfer]].is_main);
	}
	finish(g, run);
}

/* A program that only communicates has a main thread all the same. */
static void test_nothing_but_communication(void **state)
{
	struct wl w[2] = { wl_begin(0, 2), wl_begin(1, 2) };
	struct tauti_log_record *r;
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	for (int i = 0; i < 2; i++) {
		r = wl_comm(&w[i], i ? "recv" : "send", 100, 10 + 5 * i, 20,
			-1, 16);
		r->u.comm.src = 0;
		r->u.comm.dst = 1;
		wl_comm(&w[i], "barrier", 100, 60, 10, 0, 0);
	}
	run = wl_open(w, 2);
	g = build(run);
	assert_int_equal(g->n_collectives, 2);
	assert_int_equal(g->n_unmatched, 0);
	assert_int_equal(g->collectives[0].kind, TAUT_COLL_SENDRECV);
	for (uint32_t l = 0; l < g->n_lanes; l++)
		if (g->lanes[l].trace != TAUT_NONE)
			assert_true(g->lanes[l].is_main);
	finish(g, run);
}

/* Two groups of one name, whose members differ at the end of a long list. */
static void test_long_groups(void **state)
{
	struct wl w[2] = { wl_begin(0, 2), wl_begin(1, 2) };
	struct taut_run *run;
	struct taut_graph *g;
	char ranks[700];

	(void)state;
	memset(ranks, '1', sizeof ranks);
	ranks[sizeof ranks - 1] = '\0';
	for (int i = 0; i < 2; i++) {
		struct tauti_log_record *r;
		uint32_t text;

		ranks[sizeof ranks - 2] = (char)('1' + i);
		text = wl_text(&w[i], ranks);
		wl_event(&w[i], TAUTI_LOG_SPAN, TAUT_KIND_OP, "work", 100, 0,
			5, 0);
		r = wl_comm(&w[i], "allreduce", 100, 10, 20, 0, 16);
		r->u.comm.group_ranks = text;
		r->u.comm.group_size = 1;
	}
	run = wl_open(w, 2);
	g = build(run);
	for (uint32_t i = 0; i < g->n_collectives; i++)
		assert_int_equal(g->collectives[i].n_members, 1);
	finish(g, run);
}

/* Two messages, of two tags, are taken in the opposite order: their numbers
 * tell which is which. */
static void test_messages_out_of_order(void **state)
{
	static const int64_t begin[2][2] = { { 10, 14 }, { 30, 20 } };
	struct wl w[2] = { wl_begin(0, 2), wl_begin(1, 2) };
	struct tauti_log_record *r;
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < 2; k++) {
			int tag = i ? 1 - k : k; /* in the order of time */

			r = wl_comm(&w[i], i ? "recv" : "send", 100,
				begin[i][tag], 3, (int64_t)tag << 20, 16);
			r->u.comm.src = 0;
			r->u.comm.dst = 1;
		}
	run = wl_open(w, 2);
	g = build(run);
	assert_int_equal(g->n_collectives, 2);
	assert_int_equal(g->n_unmatched, 0);
	for (int k = 0; k < 2; k++)
		assert_int_equal(
			g->collective[find_op(g, 0, TAUT_OP_ARRIVE, "send", k)],
			g->collective[find_op(
				g, 1, TAUT_OP_ARRIVE, "recv", 1 - k)]);
	finish(g, run);
}

/* Rank 0 sends while it works and waits for it at last; rank 1 is late with
 * its receive. The post has no event of its own. */
static void test_requests(void **state)
{
	struct wl w[2] = { wl_begin(0, 2), wl_begin(1, 2) };
	struct tauti_log_record *r;
	struct taut_run *run;
	struct taut_graph *g;
	uint32_t work, arrive, transfer, wait;

	(void)state;
	for (int i = 0; i < 2; i++) {
		r = wl_comm(&w[i], i ? "recv" : "send", 5000, 10 + 30 * i,
			80 - 30 * i, -1, 16);
		r->correlation = 3;
		r->u.comm.src = 0;
		r->u.comm.dst = 1;
		wl_event(&w[i], TAUTI_LOG_SPAN, TAUT_KIND_OP, "work", 100, 5,
			45, 0);
		wl_event(&w[i], TAUTI_LOG_SPAN, TAUT_KIND_RUNTIME, "MPI_Wait",
			100, 60, 32, 3);
	}
	run = wl_open(w, 2);
	g = build(run);
	work = find_op(g, 0, TAUT_OP_HOST, "work", 0);
	arrive = find_op(g, 0, TAUT_OP_ARRIVE, "send", 0);
	transfer = find_op(g, 0, TAUT_OP_TRANSFER, "send", 0);
	wait = find_op(g, 0, TAUT_OP_RETURN, "MPI_Wait", 0);
	assert_true(g->lanes[g->lane[work]].is_main);
	assert_true(g->lanes[g->lane[arrive]].is_comm);
	assert_true(has_edge(g, work, arrive));
	assert_true(has_edge(g, transfer, wait));
	assert_int_equal(g->start_ns[wait] + g->dur_ns[wait],
		(92 - 5) * US);
	assert_int_equal(g->dur_ns[wait], 2 * US);
	assert_int_equal(g->n_collectives, 1);
	assert_int_equal(g->dur_ns[transfer], 50 * US); /* 40 to 90 */
	finish(g, run);
}

/* A call that posts: the communication hangs on it. */
static void test_post(void **state)
{
	struct wl w = wl_begin(0, 1);
	struct tauti_log_record *r;
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_RUNTIME, "MPI_Iallreduce", 100,
		9, 3, 8);
	r = wl_comm(&w, "allreduce", 5000, 10, 80, 0, 16);
	r->correlation = 8;
	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_OP, "work", 100, 20, 50, 0);
	run = wl_open(&w, 1);
	g = build(run);
	assert_true(has_edge(g,
		find_op(g, 0, TAUT_OP_LAUNCH, "MPI_Iallreduce", 0),
		find_op(g, 0, TAUT_OP_ARRIVE, "allreduce", 0)));
	finish(g, run);
}

/* One call that waits for two: both hold it up, the later one in fact. */
static void test_wait_for_several(void **state)
{
	static const int64_t ends[] = { 60, 90 };
	struct wl w = wl_begin(0, 1);
	struct tauti_log_record *r;
	struct taut_run *run;
	struct taut_graph *g;
	uint32_t wait;

	(void)state;
	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_OP, "work", 100, 0, 45, 0);
	for (int i = 0; i < 2; i++) {
		r = wl_comm(&w, "allreduce", 5000 + i, 10, ends[i] - 10, i, 16);
		r->correlation = 8;
	}
	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_RUNTIME, "MPI_Waitall", 100, 50,
		41, 8);
	run = wl_open(&w, 1);
	g = build(run);
	wait = find_op(g, 0, TAUT_OP_RETURN, "MPI_Waitall", 0);
	assert_int_equal(g->start_ns[wait], 90 * US);
	for (int i = 0; i < 2; i++)
		assert_true(has_edge(g, find_op(g, 0, TAUT_OP_TRANSFER,
			"allreduce", i), wait));
	finish(g, run);
}

/* Two messages of an exchange, of which one is under way at a time; the second is
 * waited for before it begins. */
static void test_turns(void **state)
{
	struct wl w = wl_begin(0, 1);
	uint32_t first, second, wait;
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_OP, "work", 100, 0, 8, 0);
	wl_sum_call(&w, 0, 0, 0, 100, 8, 1);
	wl_sum_call(&w, 0, 1, 0, 100, 10, 1);
	wl_sum_call(&w, 0, 1, 1, 100, 20, 50);
	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_OP, "update", 100, 70, 5, 0);
	wl_piece(&w, 0, 0, 0, 10, 30);
	wl_piece(&w, 0, 1, 1, 42, 26);
	wl_piece(&w, 0, 0, 2, 90, 5); /* nothing else was under way when its turn came */
	wl_sum_call(&w, 0, 0, 0, 100, 85, 1);
	run = wl_open(&w, 1);
	g = build(run);
	first = find_op(g, 0, TAUT_OP_TRANSFER, "taut_sum", 0);
	second = find_op(g, 0, TAUT_OP_ARRIVE, "taut_sum", 1);
	wait = find_op(g, 0, TAUT_OP_RETURN, "taut_sync_wait", 0);
	assert_true(has_edge(g, first, second));
	assert_int_equal(g->start_ns[second], 40 * US); /* which is when it had room */
	assert_int_equal(g->gap_ns[second], 0);
	assert_true(has_edge(g, find_op(g, 0, TAUT_OP_TRANSFER, "taut_sum", 1), wait));
	assert_int_equal(g->start_ns[wait], 68 * US);
	assert_false(has_edge(g, first, find_op(g, 0, TAUT_OP_ARRIVE, "taut_sum", 2)));
	assert_false(has_edge(g, find_op(g, 0, TAUT_OP_TRANSFER, "taut_sum", 1),
		find_op(g, 0, TAUT_OP_ARRIVE, "taut_sum", 2)));
	finish(g, run);
}

/* Chunks of a collective, and a process's own thread that did nothing: refused, as without
 * any. */
static void test_nothing_but_chunks(void **state)
{
	struct wl w = wl_begin(0, 1);
	struct taut_graph *g = NULL;
	struct taut_error err = { 0 };
	struct tauti_log_record *r;
	struct taut_run *run;
	uint32_t name;

	(void)state;
	name = wl_text(&w, "idle");
	r = wl_add(&w, TAUTI_LOG_LANE);
	r->name = name;
	r->lane = w.header.pid;
	wl_event(&w, TAUTI_LOG_CHUNK, 0, "chunk", 900, 10, 20, 1);
	run = wl_open(&w, 1);
	assert_int_equal(taut_graph_build(run, NULL, &g, &err), TAUT_EFORMAT);
	assert_non_null(strstr(err.message, "no events of a host thread"));
	taut_run_close(run);
}

/* Ranks of one clock stay together, whatever their messages seem to say. */
static void test_one_clock(void **state)
{
	struct wl w[2] = { wl_begin(0, 2), wl_begin(1, 2) };
	struct tauti_log_record *r;
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	strcpy(w[1].header.clock, w[0].header.clock);
	for (int i = 0; i < 2; i++) {
		r = wl_comm(&w[i], i ? "recv" : "send", 100, i ? 0 : 500, 20,
			-1, 16);
		r->u.comm.src = 0;
		r->u.comm.dst = 1;
	}
	run = wl_open(w, 2);
	g = build(run);
	assert_true(g->clocks[1].offset_us == 0);
	assert_true(g->clocks[1].uncertainty_us == 0);
	finish(g, run);
}

/* Four batches by one worker, two under way; the main thread waits for the
 * third, and the worker is asked for the fourth when the second was taken. */
static void test_loader(void **state)
{
	static const int64_t prepared[][2] = { { 0, 10 }, { 10, 20 },
		{ 40, 60 }, { 80, 90 } };
	static const int64_t taken[][2] = { { 38, 40 }, { 75, 80 },
		{ 95, 96 }, { 97, 98 } };
	struct wl w = wl_begin(0, 1);
	struct taut_run *run;
	struct taut_graph *g;
	uint32_t take, load;

	(void)state;
	for (uint32_t k = 0; k < 4; k++) {
		wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_LOAD, "batch", 500,
			prepared[k][0], prepared[k][1] - prepared[k][0],
			k + 1);
		wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_LOAD_WAIT, "take", 100,
			taken[k][0], taken[k][1] - taken[k][0], k + 1);
	}
	run = wl_open(&w, 1);
	g = build(run);
	load = find_op(g, 0, TAUT_OP_HOST, "batch", 2);
	take = find_op(g, 0, TAUT_OP_RETURN, "take", 2);
	assert_true(has_edge(g, load, take));
	assert_int_equal(g->gap_ns[load], 0);
	take = find_op(g, 0, TAUT_OP_RETURN, "take", 0);
	assert_true(has_edge(g, take, load));
	assert_false(has_edge(g, take, find_op(g, 0, TAUT_OP_HOST, "batch", 3)));
	finish(g, run);
}

/* Two under way, in a recording so short that what is taken in it was prepared before, and
 * what is prepared in it is taken behind: the taking of one still asks for the other. */
static void test_loader_of_a_short_recording(void **state)
{
	struct wl w = wl_begin(0, 1);
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	for (uint32_t k = 0; k < 2; k++) {
		wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_LOAD_WAIT, "take", 100,
			10 + 50 * k, 5, k + 1);
		wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_LOAD, "batch", 500,
			15 + 50 * k, 20, k + 3);
	}
	run = wl_open(&w, 1);
	g = build(run);
	for (int k = 0; k < 2; k++) {
		uint32_t load = find_op(g, 0, TAUT_OP_HOST, "batch", k);

		assert_true(has_edge(g,
			find_op(g, 0, TAUT_OP_HOST, "take", k), load));
		assert_int_equal(g->gap_ns[load], 0);
	}
	finish(g, run);
}

/* A true instant on a clock with that offset and drift from the epoch. */
static int64_t skewed(int64_t true_us, double offset_us, double drift_ppm)
{
	return true_us * US + (int64_t)(offset_us * 1e3) +
		(int64_t)(drift_ppm * 1e-3 * (double)true_us);
}

static const double offsets_us[] = { 0, 5321.25, -88000, 150.5 };
static const double drifts_ppm[] = { 0, 37, -12.5, 80 };
enum { N_CLOCKS = 4, SECONDS = 4 };

/* A comparison at a true instant that is wrong by error_us. */
static void compare(struct wl *w, int r, int64_t at_us, int64_t error_us)
{
	int64_t local = skewed(at_us, offsets_us[r], drifts_ppm[r]);
	struct tauti_log_record *record;

	wl_clock(w, 0, at_us * US - local + error_us * US, 20 * US);
	record = &w->records[w->header.reserved - 1];
	record->start_ns = record->end_ns = WL_EPOCH_NS + local;
}

static void on_clock(struct tauti_log_record *record, int r, int64_t at_us,
	int64_t dur_us)
{
	record->start_ns = WL_EPOCH_NS + skewed(at_us, offsets_us[r],
		drifts_ppm[r]);
	record->end_ns = WL_EPOCH_NS + skewed(at_us + dur_us, offsets_us[r],
		drifts_ppm[r]);
}

/* A token that runs round the ranks, 10 us on the way from each to the next;
 * the receive of a rank begins with the round and ends with the token. */
static void ring(struct wl *w, int round)
{
	int64_t at = (int64_t)round * 100000 + 1000;

	for (int r = 0; r < N_CLOCKS; r++) {
		int to = (r + 1) % N_CLOCKS;
		struct tauti_log_record *s = wl_comm(&w[r], "send", 100, 0, 0,
			-1, 8), *v = wl_comm(&w[to], "recv", 100, 0, 0, -1, 8);

		s->u.comm.src = v->u.comm.src = r;
		s->u.comm.dst = v->u.comm.dst = to;
		on_clock(s, r, at + r * 20, 5);
		on_clock(v, to, at + (to ? -500 : 30), (to ? 500 : -30) +
			r * 20 + 10);
	}
}

/* Numbers begin again with an epoch: how many are under way is not told. */
static void test_loader_of_two_epochs(void **state)
{
	static const uint32_t numbers[] = { 3, 4, 1, 2 };
	struct wl w = wl_begin(0, 1);
	struct taut_run *run;
	struct taut_graph *g;
	uint32_t load;

	(void)state;
	for (int64_t k = 0; k < 4; k++) {
		wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_LOAD, "batch", 500,
			k * 20, 15, numbers[k]);
		wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_LOAD_WAIT, "take", 100,
			k * 20 + 10, 8, numbers[k]);
	}
	run = wl_open(&w, 1);
	g = build(run);
	load = find_op(g, 0, TAUT_OP_HOST, "batch", 3);
	assert_true(has_edge(g, load, find_op(g, 0, TAUT_OP_RETURN, "take", 3)));
	for (int k = 0; k < 4; k++)
		assert_false(has_edge(g, find_op(g, 0, TAUT_OP_RETURN, "take",
			k), load));
	finish(g, run);
}

/* Four clocks that are off and drift apart, each compared with rank 0's at
 * both ends: with comparisons that are off by nothing the clocks come out;
 * with ones that are off by 15 us, within what they state, no receive ends
 * before its send, and the error does not grow. */
static void test_compared_clocks(void **state)
{
	static const int64_t error_us[] = { 0, 15 };
	static const double allowed_us[] = { 1, 15.5 };

	(void)state;
	for (int e = 0; e < 2; e++) {
		struct wl w[N_CLOCKS];
		struct taut_run *run;
		struct taut_graph *g;

		for (int r = 0; r < N_CLOCKS; r++) {
			w[r] = wl_begin(r, N_CLOCKS);
			if (!r)
				continue;
			compare(&w[r], r, 0, error_us[e] * (r % 2 ? 1 : -1));
			compare(&w[r], r, SECONDS * 1000000,
				error_us[e] * (r % 2 ? 1 : -1));
		}
		for (int round = 0; round < 10; round++)
			ring(w, round);
		run = wl_open(w, N_CLOCKS);
		g = build(run);
		for (int r = 1; r < N_CLOCKS; r++)
			for (int64_t at = 0; at <= SECONDS; at++) {
				int64_t local = skewed(at * 1000000,
					offsets_us[r], drifts_ppm[r]);
				int64_t found = taut_graph_time(g,
					(uint32_t)r, WL_EPOCH_NS + local -
					run->traces[r].base_ns) + g->origin_ns -
					WL_EPOCH_NS - at * 1000000000;

				assert_true((double)llabs(found) <=
					allowed_us[e] * 1e3);
			}
		assert_int_equal(g->n_unmatched, 0);
		for (uint32_t c = 0; c < g->n_collectives; c++) {
			const struct taut_collective *p = &g->collectives[c];
			uint32_t a = g->member_arrive[p->first_member];
			uint32_t b = g->member_arrive[p->first_member + 1];
			uint32_t s = strcmp(taut_names_text(g->names,
				g->name[a]), "send") ? b : a;
			uint32_t v = s == a ? b : a;

			assert_true(g->start_ns[s] <= g->start_ns[v + 1] +
				g->dur_ns[v + 1]);
		}
		assert_int_equal(g->n_backward, 0);
		finish(g, run);
	}
}

/* Without a comparison a ring bounds each clock on one side only; all bounds
 * together give the offsets, for the messages are as fast on all links. */
static void test_ring_alone(void **state)
{
	struct wl w[N_CLOCKS];
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	for (int r = 0; r < N_CLOCKS; r++)
		w[r] = wl_begin(r, N_CLOCKS);
	for (int r = 0; r < N_CLOCKS; r++) {
		int to = (r + 1) % N_CLOCKS;
		struct tauti_log_record *s = wl_comm(&w[r], "send", 100, 0, 0,
			-1, 8), *v = wl_comm(&w[to], "recv", 100, 0, 0, -1, 8);

		s->u.comm.src = v->u.comm.src = r;
		s->u.comm.dst = v->u.comm.dst = to;
		s->start_ns += (100000 + r * 50) * US +
			(int64_t)(offsets_us[r] * 1e3);
		s->end_ns = s->start_ns + 5 * US;
		v->end_ns += (100000 + r * 50 + 30) * US +
			(int64_t)(offsets_us[to] * 1e3);
		v->start_ns = v->end_ns - 10 * US;
	}
	run = wl_open(w, N_CLOCKS);
	g = build(run);
	for (int r = 1; r < N_CLOCKS; r++) {
		assert_true(g->clocks[r].offset_us + offsets_us[r] < 0.1);
		assert_true(g->clocks[r].offset_us + offsets_us[r] > -0.1);
		assert_true(g->clocks[r].uncertainty_us < 200);
	}
	assert_int_equal(g->n_backward, 0);
	finish(g, run);
}

/* What NCCL's plugin says of a kernel that the profiler saw too is told once:
 * one collective, of the kernel. */
static void test_nccl_beside_its_kernels(void **state)
{
	char folder[] = "/tmp/taut-nccl-XXXXXX", rank[64], json[96], log[96];
	const char *paths[] = { folder };
	struct wl w = wl_begin(0, 1);
	struct taut_run *run = NULL;
	struct taut_graph *g;
	struct tauti_log_record *r;
	uint32_t name;
	FILE *file;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(rank, sizeof rank, "%s/rank0", folder);
	snprintf(json, sizeof json, "%s/torch.json", rank);
	snprintf(log, sizeof log, "%s/nccl.tautlog", rank);
	assert_int_equal(mkdir(rank, 0700), 0);
	file = fopen(json, "w");
	fputs("{\"baseTimeNanoseconds\":1700000000000000000,\"traceEvents\":["
		"{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":"
		"\"cudaLaunchKernel\",\"pid\":100,\"tid\":100,\"ts\":1,"
		"\"dur\":2,\"args\":{\"correlation\":1}},"
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":"
		"\"ncclDevKernel_AllReduce_Sum_f32_RING_LL\",\"pid\":0,"
		"\"tid\":7,\"ts\":5,\"dur\":50,\"args\":{\"device\":0,"
		"\"stream\":7,\"correlation\":1}}]}", file);
	fclose(file);
	wl_comm(&w, "allreduce", 5000, 4, 50, 0, 16);
	name = wl_text(&w, "NCCL world");
	r = wl_add(&w, TAUTI_LOG_LANE);
	r->lane = 5000;
	r->name = name;
	wl_write(&w, log);
	assert_int_equal(taut_run_open(paths, 1, NULL, &run, NULL), TAUT_OK);
	g = build(run);
	assert_int_equal(g->n_collectives, 1);
	find_op(g, 0, TAUT_OP_TRANSFER,
		"ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0);
	finish(g, run);
	remove(log);
	remove(json);
	remove(rank);
	remove(folder);
}

/* A number that is too large to be one numbers nothing. */
static void test_large_numbers(void **state)
{
	struct wl w = wl_begin(0, 1);
	struct taut_run *run;
	struct taut_graph *g;

	(void)state;
	wl_comm(&w, "allreduce", 100, 0, 10, INT64_MAX, INT64_MAX);
	run = wl_open(&w, 1);
	g = build(run);
	assert_int_equal(g->collectives[0].seq, -1);
	assert_int_equal(g->collectives[0].bytes, -1);
	finish(g, run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_blocking_collective),
		cmocka_unit_test(test_nothing_but_communication),
		cmocka_unit_test(test_long_groups),
		cmocka_unit_test(test_messages_out_of_order),
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_post),
		cmocka_unit_test(test_wait_for_several),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_nothing_but_chunks),
		cmocka_unit_test(test_one_clock),
		cmocka_unit_test(test_loader),
		cmocka_unit_test(test_loader_of_a_short_recording),
		cmocka_unit_test(test_loader_of_two_epochs),
		cmocka_unit_test(test_compared_clocks),
		cmocka_unit_test(test_ring_alone),
		cmocka_unit_test(test_nccl_beside_its_kernels),
		cmocka_unit_test(test_large_numbers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
