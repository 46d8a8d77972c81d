/* log.c - any bytes as an event log, and what it tells as a graph: kinds,
 * times and correlations that no recorder would write must not break it. */
#include "tests/fuzz/any_trace.h"

#include <taut/graph.h>
#include <taut/replay.h>

/* Times whose sum is too large for a clock are refused in words. */
static void replay(const struct taut_graph *g)
{
	struct taut_timeline t;
	struct taut_error err;
	taut_status status = taut_timeline_init(&t, g, &err);

	if (status != TAUT_OK) {
		MUST(status == TAUT_EINVAL && err.message[0]);
		return;
	}
	MUST(taut_replay(g, NULL, &t, &err) == TAUT_OK);
	for (uint32_t i = 0; i < g->n_ops; i++)
		MUST(t.start_ns[i] == g->start_ns[i]);
	taut_timeline_fini(&t);
}

static void build(const uint8_t *data, size_t size)
{
	struct taut_run *run = NULL;
	struct taut_graph *g = NULL;
	struct taut_error err;

	if (taut_run_open_memory("t", data, size, 0, &run, &err) != TAUT_OK)
		return;
	if (taut_graph_build(run, NULL, &g, &err) == TAUT_OK)
		replay(g);
	taut_graph_destroy(g);
	taut_run_close(run);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct outcome o;

	read_all(&tauti_format_log, data, size, 0, &o);
	if (o.status != TAUT_OK || o.trace.n_events > 0)
		check_outcome(&o);
	tauti_builder_fini(&o.builder);
	if (size >= 8 && !memcmp(data, "TAUTLOG1", 8))
		build(data, size);
	return 0;
}
