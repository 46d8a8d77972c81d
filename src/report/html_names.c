/* html_names.c - one dictionary of the names of all ranks for the page. */
#include "report/html.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

typedef TAUT_VEC(uint64_t) uses_vec; /* by id: events with that name */

static uint32_t use(struct taut_names *names, uses_vec *uses, const char *text,
	size_t len, uint64_t count)
{
	uint32_t id = taut_names_add(names, text, len);

	if (id == TAUT_NONE)
		return id;
	while (uses->count <= id) {
		if (!taut_vec_push(uses, 0))
			return TAUT_NONE;
	}
	uses->data[id] += count;
	return id;
}

/* In: how often each id of the trace occurs. Out: its id in names. */
static bool use_counted(struct taut_names *names, uses_vec *uses,
	const struct taut_trace *trace, uint32_t *ids)
{
	uint32_t n = taut_names_count(trace->names);

	for (uint32_t i = 0; i < n; i++) {
		if (!ids[i]) {
			ids[i] = TAUT_NONE;
			continue;
		}
		ids[i] = use(names, uses, taut_names_text(trace->names, i),
			taut_names_length(trace->names, i), ids[i]);
		if (ids[i] == TAUT_NONE)
			return false;
	}
	return true;
}

static uint32_t *use_trace(struct taut_names *names, uses_vec *uses,
	const struct taut_trace *trace)
{
	uint32_t n = taut_names_count(trace->names);
	uint32_t *ids = calloc(n ? n : 1, sizeof *ids);

	if (!ids)
		return NULL;
	for (size_t i = 0; i < trace->n_events; i++)
		ids[trace->name[i]]++;
	if (!use_counted(names, uses, trace, ids)) {
		free(ids);
		return NULL;
	}
	return ids;
}

static bool use_text(struct taut_names *names, uses_vec *uses, const char *text)
{
	return use(names, uses, text ? text : "", text ? strlen(text) : 0, 1) !=
		TAUT_NONE;
}

static bool use_tables(struct taut_names *names, uses_vec *uses,
	const struct taut_report *report)
{
	const struct taut_graph *g = report->graph;

	if (!use_text(names, uses, ""))
		return false;
	for (uint32_t i = 0; i < report->n_path; i++) {
		if (!use_text(names, uses, report->path[i].name) ||
			!use_text(names, uses, report->path[i].module))
			return false;
	}
	for (uint32_t i = 0; i < g->n_collectives; i++) {
		const struct taut_collective *c = &g->collectives[i];

		if (!use_text(
			    names, uses, taut_names_text(g->names, c->name)) ||
			!use_text(names, uses,
				taut_names_text(g->names, c->group)))
			return false;
	}
	return true;
}

struct ranked {
	uint64_t uses;
	uint32_t id;
};

static int most_used_first(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->uses != y->uses)
		return x->uses < y->uses ? 1 : -1;
	return (x->id > y->id) - (x->id < y->id);
}

static bool rank_names(struct tauti_page_names *names, const uses_vec *uses)
{
	uint32_t n = (uint32_t)uses->count;
	struct ranked *rows = calloc(n ? n : 1, sizeof *rows);

	names->n = n;
	names->place = calloc(n ? n : 1, sizeof *names->place);
	names->id = calloc(n ? n : 1, sizeof *names->id);
	if (!rows || !names->place || !names->id) {
		free(rows);
		return false;
	}
	for (uint32_t i = 0; i < n; i++)
		rows[i] = (struct ranked){ uses->data[i], i };
	qsort(rows, n, sizeof *rows, most_used_first);
	for (uint32_t i = 0; i < n; i++) {
		names->place[rows[i].id] = i;
		names->id[i] = rows[i].id;
	}
	free(rows);
	return true;
}

static bool fill(struct tauti_page_names *names, uses_vec *uses,
	const struct taut_report *report)
{
	const struct taut_run *run = report->run;

	names->names = taut_names_create();
	names->of_trace = calloc(
		run->n_traces ? run->n_traces : 1, sizeof *names->of_trace);
	if (!names->names || !names->of_trace)
		return false;
	for (uint32_t t = 0; t < run->n_traces; t++) {
		names->of_trace[t] = use_trace(
			names->names, uses, &run->traces[t]);
		if (!names->of_trace[t])
			return false;
	}
	return use_tables(names->names, uses, report) &&
		rank_names(names, uses);
}

taut_status tauti_page_names_init(struct tauti_page_names *names,
	const struct taut_report *report, struct taut_error *err)
{
	uses_vec uses = { 0 };
	bool filled = fill(names, &uses, report);

	taut_vec_free(&uses);
	if (!filled)
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"no memory for the names of the page");
	return TAUT_OK;
}

void tauti_page_names_fini(struct tauti_page_names *names, uint32_t n_traces)
{
	for (uint32_t t = 0; names->of_trace && t < n_traces; t++)
		free(names->of_trace[t]);
	free(names->of_trace);
	free(names->place);
	free(names->id);
	taut_names_destroy(names->names);
}

uint32_t tauti_page_name(const struct tauti_page_names *names, const char *text)
{
	uint32_t id = taut_names_find(
		names->names, text ? text : "", text ? strlen(text) : 0);

	return id == TAUT_NONE ? 0 : names->place[id];
}
