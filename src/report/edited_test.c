/* edited_test.c - a changed and replayed graph is explained and rendered like
 * a recorded one: nothing that a recording always has is taken for granted. */
#include <stdlib.h>
#include <string.h>

#include <taut/edit.h>
#include <taut/replay.h>
#include <taut/report.h>

#include "tests/support/alloc_fail.h"
#include "tests/support/unit.h"

#define OK(call) assert_int_equal((call), TAUT_OK)

static uint32_t pick(uint64_t *seed, uint32_t n)
{
	uint64_t x = *seed += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((x ^ (x >> 31)) % n);
}

typedef taut_status (*render_fn)(const struct taut_report *report, FILE *out,
	struct taut_error *reterr);

static char *print(const struct taut_report *report, render_fn render)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	OK(render(report, out, NULL));
	fclose(out);
	assert_true(len > 0);
	return text;
}

static taut_status text_of(const struct taut_report *report, FILE *out,
	struct taut_error *reterr)
{
	return taut_report_text(report, NULL, out, reterr);
}

static char *json_of(const struct taut_graph *graph)
{
	struct taut_report *report;
	char *text;

	OK(taut_explain(graph, NULL, &report, NULL));
	text = print(report, taut_report_json);
	taut_report_destroy(report);
	return text;
}

static void render_all(const struct taut_graph *graph)
{
	static const render_fn all[] = { text_of, taut_report_json,
		taut_report_html, taut_report_perfetto };
	struct taut_report *report;

	OK(taut_explain(graph, NULL, &report, NULL));
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		free(print(report, all[i]));
	taut_report_destroy(report);
}

static int64_t row_end(const struct taut_trace *t, uint32_t row)
{
	return t->start_ns[row] + t->dur_ns[row];
}

static int is_near(int64_t a, int64_t b)
{
	return a - b <= 1 && b - a <= 1; /* a clock that drifts rounds */
}

/* A new op has an event of its own. */
static void check_new(const struct taut_graph *g, uint32_t op)
{
	uint32_t rank = g->lanes[g->lane[op]].trace, row = g->event[op];
	uint32_t last = op + (g->kind[op] == TAUT_OP_ARRIVE);
	int64_t end = g->start_ns[last] + g->dur_ns[last];
	const struct taut_trace *t;

	if (rank == TAUT_NONE || g->kind[op] == TAUT_OP_TRANSFER ||
		end == g->start_ns[op])
		return;
	assert_int_not_equal(row, TAUT_NONE);
	assert_int_equal(g->event[last], row);
	t = &g->run->traces[rank];
	assert_string_equal(taut_trace_name(t, row),
		taut_names_text(g->names, g->name[op]));
	assert_true(is_near(taut_graph_time(g, rank, t->start_ns[row]),
		g->start_ns[op]));
	assert_true(is_near(taut_graph_time(g, rank, row_end(t, row)), end));
	assert_int_equal(t->lane[row], g->lanes[g->lane[op]].trace_lane);
}

/* Events follow their operations: one that was an operation still is, and all
 * are in order. Returns how many were compared. */
static uint32_t check_events(
	const struct taut_graph *below, const struct taut_graph *g,
	const struct taut_edit *edit, const uint32_t *op_of, uint32_t but)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < taut_edit_ops(edit); i++) {
		uint32_t op = op_of[i], rank, was, row;
		const struct taut_trace *t, *from;
		struct taut_op is;

		if (!taut_edit_op(edit, i, &is))
			continue;
		rank = taut_edit_lane(edit, is.lane).trace;
		if (i >= below->n_ops && rank != TAUT_NONE &&
			taut_edit_rank_like(edit, rank) == rank)
			check_new(g, op);
		if (is.event == TAUT_NONE ||
			i == but || i != is.like || !is.dur_ns || !below->dur_ns[is.like])
			continue;
		row = g->event[op];
		was = below->lanes[below->lane[is.like]].trace;
		rank = g->lanes[g->lane[op]].trace;
		from = &below->run->traces[was];
		t = &g->run->traces[rank];
		assert_string_equal(taut_trace_name(t, row),
			taut_trace_name(from, is.event));
		if (taut_graph_time(below, was, from->start_ns[is.event]) !=
			below->start_ns[is.like] || taut_graph_time(below, was,
			row_end(from, is.event)) != below->start_ns[is.like] +
			below->dur_ns[is.like])
			continue;
		assert_true(is_near(taut_graph_time(g, rank, t->start_ns[row]),
			g->start_ns[op]));
		assert_true(is_near(taut_graph_time(g, rank, row_end(t, row)),
			g->start_ns[op] + g->dur_ns[op]));
		n++;
	}
	for (uint32_t r = 0; r < g->run->n_traces; r++) {
		const struct taut_trace *t = &g->run->traces[r];

		for (uint32_t l = 0; l < t->n_lanes; l++)
			for (uint32_t i = t->lane_begin[l] + 1;
				i < t->lane_begin[l + 1]; i++)
				assert_true(t->start_ns[i - 1] <=
					t->start_ns[i]);
		for (uint32_t k = 0; k < t->n_comms; k++)
			assert_int_equal(t->args[t->comms[k].event], k);
		for (uint32_t k = 0; k < t->n_copies; k++)
			assert_int_equal(t->args[t->copies[k].event], k);
	}
	return n;
}

/* NULL: operations of the changed graph wait for each other in a circle. */
static struct taut_graph *settled_but(
	const struct taut_edit *edit, uint32_t but)
{
	uint32_t *op_of = malloc(taut_edit_ops(edit) * sizeof *op_of);
	struct taut_timeline timeline, again;
	struct taut_graph *graph;

	OK(taut_edit_build(edit, &graph, op_of, NULL, NULL));
	OK(taut_timeline_init(&timeline, graph, NULL));
	if (taut_replay(graph, NULL, &timeline, NULL)) {
		taut_timeline_fini(&timeline);
		taut_graph_destroy(graph);
		free(op_of);
		return NULL;
	}
	taut_graph_settle(graph, timeline.start_ns, timeline.end_ns);
	OK(taut_timeline_init(&again, graph, NULL));
	OK(taut_replay(graph, NULL, &again, NULL));
	assert_memory_equal(again.start_ns, timeline.start_ns,
		graph->n_ops * sizeof(int64_t));
	assert_memory_equal(again.start_ns, graph->start_ns,
		graph->n_ops * sizeof(int64_t));
	for (uint32_t c = 0; c < graph->n_collectives; c++) {
		uint32_t join = graph->collectives[c].join_op;

		assert_int_equal(graph->collective[join], c);
		assert_true(!c || graph->start_ns[join] >= graph->start_ns[
			graph->collectives[c - 1].join_op]);
	}
	taut_timeline_fini(&again);
	taut_timeline_fini(&timeline);
	OK(taut_graph_retrace(graph, NULL));
	assert_true(check_events(taut_edit_below(edit), graph, edit, op_of,
		but) > 1000);
	free(op_of);
	return graph;
}

static struct taut_graph *settled(const struct taut_edit *edit)
{
	return settled_but(edit, TAUT_NONE);
}

struct recorded {
	struct taut_run *run;
	struct taut_graph *graph;
	struct taut_edit *edit;
};

static struct recorded open_run(const char *path)
{
	struct recorded r;

	OK(taut_run_open(&path, 1, NULL, &r.run, NULL));
	OK(taut_graph_build(r.run, NULL, &r.graph, NULL));
	OK(taut_edit_create(r.graph, &r.edit, NULL));
	return r;
}

static void close_run(struct recorded *r)
{
	taut_edit_destroy(r->edit);
	taut_graph_destroy(r->graph);
	taut_run_close(r->run);
}

static void test_unchanged(void **state)
{
	static const char *const paths[] = { "examples/ddp-gloo-2host",
		"examples/ddp-gloo-late-rank" };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct recorded r = open_run(paths[i]);
		struct taut_graph *graph = settled(r.edit);
		char *want = json_of(r.graph), *got = json_of(graph);

		assert_string_equal(got, want);
		for (uint32_t t = 0; t < graph->run->n_traces; t++) {
			const struct taut_trace *is = &graph->run->traces[t];
			const struct taut_trace *was = &r.run->traces[t];

			assert_ptr_not_equal(is->start_ns, was->start_ns);
			assert_memory_equal(is->start_ns, was->start_ns,
				was->n_events * sizeof(int64_t));
			assert_memory_equal(is->dur_ns, was->dur_ns,
				was->n_events * sizeof(int64_t));
		}
		free(want);
		free(got);
		taut_graph_destroy(graph);
		close_run(&r);
	}
}

static void test_more_ranks(void **state)
{
	struct recorded r = open_run("examples/ddp-gloo-2host");
	uint32_t copy, n = r.graph->run->n_traces;
	uint8_t *alone = calloc(r.graph->n_collectives, 1);
	struct taut_graph *graph;
	char *json;

	(void)state;
	OK(taut_edit_copy_rank(r.edit, 0, NULL, &copy, NULL, NULL));
	OK(taut_edit_copy_rank(r.edit, copy, NULL, &copy, NULL, NULL));
	OK(taut_edit_copy_rank(r.edit, 1, alone, &copy, NULL, NULL));
	graph = settled(r.edit);
	assert_int_equal(graph->run->n_traces, n + 3);
	assert_int_equal(graph->run->traces[n + 2].rank, (int)n + 2);
	assert_string_not_equal(graph->run->traces[n].host,
		graph->run->traces[n + 1].host);
	assert_int_equal(graph->collectives[0].n_members, n + 2);
	assert_int_equal(graph->run->traces[0].world_size,
		r.run->traces[0].world_size + 3);
	json = json_of(graph);
	assert_non_null(strstr(json, "copy 2"));
	free(json);
	render_all(graph);
	taut_graph_destroy(graph);
	OK(taut_edit_remove_rank(r.edit, 0, NULL));
	graph = settled(r.edit);
	assert_int_equal(graph->run->n_traces, n + 2);
	render_all(graph);
	taut_graph_destroy(graph);
	free(alone);
	close_run(&r);
}

/* One bucket more behind each arrival's place, or one less. */
static void change_collectives(struct recorded *r, uint64_t *seed)
{
	uint32_t coll = pick(seed, r->graph->n_collectives);
	const struct taut_collective *is = &r->graph->collectives[coll];
	struct taut_member members[8];
	struct taut_collective now;
	uint32_t id;

	if (!taut_edit_collective(r->edit, coll, &now))
		return;
	if (pick(seed, 2)) {
		OK(taut_edit_remove_collective(r->edit, coll, NULL));
		return;
	}
	for (uint32_t m = 0; m < is->n_members; m++) {
		uint32_t op = r->graph->member_arrive[is->first_member + m] + 1;
		struct taut_op at;

		assert_true(taut_edit_op(r->edit, op, &at));
		members[m] = (struct taut_member) { at.lane, op, 100000, 0 };
	}
	OK(taut_edit_add_collective(r->edit, &now, members, is->n_members, &id,
		NULL, NULL));
}

static void change_ops(struct recorded *r, uint64_t *seed)
{
	uint32_t op = pick(seed, taut_edit_ops(r->edit)), id;
	struct taut_op is;

	if (!taut_edit_op(r->edit, op, &is))
		return;
	switch (pick(seed, 4)) {
	case 0:
		(void)!taut_edit_remove(r->edit, op, NULL);
		break;
	case 1:
		(void)!taut_edit_cut(r->edit, op, NULL);
		break;
	case 2:
		is.kind = TAUT_OP_HOST;
		(void)!taut_edit_insert(r->edit, op, &is, NULL, &id, NULL);
		break;
	default:
		(void)!taut_edit_set_dur(r->edit, op, pick(seed, 1000000), NULL);
	}
}

static void test_anything(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= 6; i++) {
		uint64_t seed = i * 1000003;
		struct recorded r = open_run("examples/ddp-gloo-2host");
		struct taut_graph *graph;
		uint32_t copy;

		if (pick(&seed, 2))
			OK(taut_edit_copy_rank(r.edit, 1, NULL, &copy, NULL,
				NULL));
		for (uint32_t k = 0; k < 10; k++)
			change_collectives(&r, &seed);
		for (uint32_t k = 0; k < (300u << 2 * (i % 3)); k++)
			change_ops(&r, &seed);
		graph = settled(r.edit);
		assert_non_null(graph);
		render_all(graph);
		taut_graph_destroy(graph);
		close_run(&r);
	}
}

/* Two ops at most that are out of order leave the others' events alone. */
static void test_moved(void **state)
{
	struct recorded r = open_run("examples/ddp-gloo-2host");
	uint32_t lane = r.graph->lane[r.graph->steps[0].begin_op];
	uint32_t other = r.graph->lane[r.graph->steps[
		r.graph->n_steps - 1].begin_op];
	uint32_t late = r.graph->lane_begin[lane + 1] - 40, copy;
	uint32_t mark = taut_edit_mark(r.edit);
	struct taut_graph *graph;
	struct taut_op op;

	(void)state;
	while (r.graph->kind[late] != TAUT_OP_HOST || !r.graph->event[late])
		late--;
	OK(taut_edit_move(r.edit, late, TAUT_NONE, lane, NULL));
	graph = settled_but(r.edit, late);
	render_all(graph);
	taut_graph_destroy(graph);
	taut_edit_undo(r.edit, mark);
	assert_int_equal(r.graph->lanes[other].trace, 1);
	OK(taut_edit_move(r.edit, late, TAUT_NONE, other, NULL));
	assert_true(taut_edit_op(r.edit, late, &op));
	assert_int_equal(op.event, TAUT_NONE);
	graph = settled(r.edit);
	taut_graph_destroy(graph);
	taut_edit_undo(r.edit, mark);
	/* A copy of it, on a rank that is a copy, is not the one that counts. */
	assert_true(taut_edit_op(r.edit, late, &op));
	OK(taut_edit_insert(r.edit, late, &op, NULL, &copy, NULL));
	OK(taut_edit_copy_rank(r.edit, 0, NULL, &copy, NULL, NULL));
	graph = settled(r.edit);
	taut_graph_destroy(graph);
	close_run(&r);
}

static void test_removed_events(void **state)
{
	struct recorded r = open_run("examples/ddp-gloo-2host");
	const struct taut_collective *coll = &r.graph->collectives[1];
	struct taut_graph *graph;

	(void)state;
	OK(taut_edit_remove_collective(r.edit, 1, NULL));
	graph = settled(r.edit);
	for (uint32_t i = 0; i < coll->n_members; i++) {
		uint32_t op = r.graph->member_arrive[coll->first_member + i];
		uint32_t rank = r.graph->lanes[r.graph->lane[op]].trace;
		uint32_t row = r.graph->event[op];

		assert_true(r.run->traces[rank].dur_ns[row] > 0);
		assert_int_equal(graph->run->traces[rank].dur_ns[row], 0);
	}
	taut_graph_destroy(graph);
	close_run(&r);
}

static void test_events_without_memory(void **state)
{
	struct recorded r = open_run("examples/ddp-gloo-2host");
	struct taut_graph *graph;
	uint32_t op = r.graph->steps[0].begin_op, *event;
	const struct taut_run *run;
	taut_status status;
	struct taut_op is;

	(void)state;
	assert_true(taut_edit_op(r.edit, op, &is));
	is.kind = TAUT_OP_HOST;
	is.dur_ns = 5000;
	OK(taut_edit_insert(r.edit, op, &is, "new", &op, NULL));
	OK(taut_edit_build(r.edit, &graph, NULL, NULL, NULL));
	event = malloc(graph->n_ops * sizeof *event);
	memcpy(event, graph->event, graph->n_ops * sizeof *event);
	run = graph->run;
	for (long n = 0;; n++) {
		alloc_fail_after(n);
		status = taut_graph_retrace(graph, NULL);
		alloc_fail_never();
		if (!status)
			break;
		assert_int_equal(status, TAUT_ENOMEM);
		assert_ptr_equal(graph->run, run);
		assert_memory_equal(graph->event, event,
			graph->n_ops * sizeof *event);
	}
	assert_ptr_not_equal(graph->run, run);
	assert_memory_not_equal(graph->event, event,
		graph->n_ops * sizeof *event);
	assert_int_equal(taut_graph_retrace(graph, NULL), TAUT_EINVAL);
	free(event);
	taut_graph_destroy(graph);
	close_run(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unchanged),
		cmocka_unit_test(test_more_ranks),
		cmocka_unit_test(test_anything),
		cmocka_unit_test(test_moved),
		cmocka_unit_test(test_removed_events),
		cmocka_unit_test(test_events_without_memory),
	};

	return cmocka_run_group_tests_name(
		"reports of changed graphs", tests, NULL, NULL);
}
