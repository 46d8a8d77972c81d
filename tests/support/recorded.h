/* recorded.h - graphs of small recordings written by hand, for tests of the graph. */
#ifndef TAUT_TESTS_RECORDED_H
#define TAUT_TESTS_RECORDED_H

#include <stdbool.h>
#include <string.h>

#include <taut/graph.h>
#include <taut/replay.h>

#include "tests/support/write_trace.h"

static inline struct taut_graph *build(const struct taut_run *run)
{
	struct taut_graph *g = NULL;
	struct taut_error err = { 0 };

	if (taut_graph_build(run, NULL, &g, &err))
		fail_msg("%s", err.message);
	return g;
}

/* The graph must give back the recording: every start and every end. */
static inline void replays_exactly(const struct taut_graph *g)
{
	const struct taut_replay_edit unordered = { .unordered = 1 };
	struct taut_timeline t = { 0 }, ahead = { 0 };
	struct taut_error err = { 0 };
	size_t n = g->n_ops;

	assert_int_equal(taut_timeline_init(&t, g, &err), TAUT_OK);
	assert_int_equal(taut_timeline_init(&ahead, g, &err), TAUT_OK);
	if (taut_replay(g, NULL, &t, &err) ||
		taut_replay(g, &unordered, &ahead, &err))
		fail_msg("%s", err.message);
	assert_memory_equal(t.start_ns, ahead.start_ns, n * sizeof *t.start_ns);
	assert_memory_equal(t.end_ns, ahead.end_ns, n * sizeof *t.end_ns);
	assert_memory_equal(t.decided_by, ahead.decided_by,
		n * sizeof *t.decided_by);
	assert_int_equal(t.makespan_ns, ahead.makespan_ns);
	taut_timeline_fini(&ahead);
	for (uint32_t i = 0; i < g->n_ops; i++) {
		if (t.start_ns[i] != g->start_ns[i])
			fail_msg("op %u (%s): replayed %lld, recorded %lld", i,
				taut_names_text(g->names, g->name[i]),
				(long long)t.start_ns[i],
				(long long)g->start_ns[i]);
	}
	taut_timeline_fini(&t);
}

/* How every test ends. */
static inline void finish(struct taut_graph *g, struct taut_run *run, struct wt *w)
{
	replays_exactly(g);
	taut_graph_destroy(g);
	taut_run_close(run);
	wt_end(w);
}

static inline uint32_t find_op(const struct taut_graph *g, enum taut_op_kind kind,
	const char *name, int skip)
{
	for (uint32_t i = 0; i < g->n_ops; i++)
		if (g->kind[i] == kind && !strcmp(name,
			taut_names_text(g->names, g->name[i])) && !skip--)
			return i;
	return TAUT_NONE;
}

static inline bool has_edge(const struct taut_graph *g, uint32_t from, uint32_t to,
	enum taut_edge_kind kind)
{
	assert_true(from < g->n_ops && to < g->n_ops);
	for (uint32_t e = g->edge_begin[from]; e < g->edge_begin[from + 1]; e++)
		if (g->edge_to[e] == to &&
			(g->edge_kind[e] & ~TAUT_EDGE_FROM_START) == kind)
			return true;
	return false;
}

static inline void step(struct wt *w, int id, double ts, double dur)
{
	char name[32];

	snprintf(name, sizeof name, "ProfilerStep#%d", id);
	wt_event(w, "user_annotation", name, 1, 10, ts, dur, "");
}

static inline void collective(struct wt *w, const char *name, const char *group,
	const char *ranks, int size, double ts, double dur, int stream, int corr,
	const char *more)
{
	char args[512];

	snprintf(args, sizeof args, "\"correlation\":%d", corr);
	wt_event(w, "cuda_runtime", "cudaLaunchKernel", 1, 10, ts - 6, 4, args);
	snprintf(args, sizeof args, "\"device\":0,\"stream\":%d,"
		"\"correlation\":%d,\"Collective name\":\"%s\","
		"\"Process Group Name\":\"%s\",\"Process Group Ranks\":"
		"\"%s\",\"Group size\":%d,\"dtype\":\"Float\","
		"\"In msg nelems\":1000%s", stream, corr, name, group, ranks,
		size, more);
	wt_event(w, "kernel", strcmp(name, "send") && strcmp(name, "recv") ?
		"ncclDevKernel_AllReduce_Sum_f32" : "ncclDevKernel_SendRecv", 0,
		stream, ts, dur, args);
}

#endif /* TAUT_TESTS_RECORDED_H */
