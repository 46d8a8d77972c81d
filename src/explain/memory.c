/* memory.c - peaks of memory: as the allocator counted them, and as a replay of
 * the blocks gives them. */
#include <stdlib.h>

#include <taut/memory.h>

#include "explain/explain.h"

static uint32_t known_ranks(const struct taut_memory *memory, uint32_t n)
{
	uint32_t known = 0;

	for (uint32_t i = 0; i < n; i++)
		known += memory->ranks[i].peak_bytes >= 0;
	return known;
}

static void say(const struct tauti_explain *x, const struct taut_memory *memory,
	uint32_t trace, const struct taut_memory_peak *peak,
	struct taut_report_memory *out)
{
	const struct taut_memory_rank *r = &memory->ranks[trace];
	const struct taut_graph *g = x->g;

	*out = (struct taut_report_memory) {
		.rank = x->report->ranks[trace], .device = r->device,
		.measured_bytes = r->peak_bytes,
		.replayed_bytes = peak->bytes, .base_bytes = r->base_bytes,
		.events = r->n_events, .at_op = "", .at_module = "",
	};
	if (peak->op == TAUT_NONE)
		return;
	out->at_op = taut_names_text(g->names, g->name[peak->op]);
	out->at_module = tauti_module(x, peak->op);
}

static bool fill(struct tauti_explain *x, const struct taut_memory *memory,
	const struct taut_memory_peak *peaks)
{
	uint32_t n = x->g->run->n_traces, known = known_ranks(memory, n);
	struct taut_report_memory *out = TAUT_ARENA_ARRAY(x->arena,
		struct taut_report_memory, known + 1);

	if (!out)
		return false;
	x->report->memory = out;
	x->report->n_memory = known;
	for (uint32_t i = 0; i < n; i++)
		if (memory->ranks[i].peak_bytes >= 0)
			say(x, memory, i, &peaks[i], out++);
	return true;
}

static bool any_recorded(const struct taut_run *run)
{
	for (uint32_t i = 0; i < run->n_traces; i++)
		if (run->traces[i].n_memory)
			return true;
	return false;
}

taut_status tauti_memory_peaks(struct tauti_explain *x, struct taut_error *err)
{
	struct taut_memory *memory = NULL;
	struct taut_memory_peak *peaks;
	taut_status status;

	if (!any_recorded(x->g->run))
		return TAUT_OK;
	peaks = malloc((x->g->run->n_traces + 1) * sizeof *peaks);
	status = peaks ? taut_memory_create(x->g, &memory, err) :
		tauti_explain_no_memory(err);
	if (!status)
		status = taut_memory_peaks(memory, x->base.start_ns,
			x->base.end_ns, NULL, peaks, err);
	if (!status && !fill(x, memory, peaks))
		status = tauti_explain_no_memory(err);
	taut_memory_destroy(memory);
	free(peaks);
	return status;
}
