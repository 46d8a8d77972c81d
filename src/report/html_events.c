/* html_events.c - the events, the critical path and the collectives as
 * columns of numbers.
 *
 * A rank's blob, for its n rows in the order of the trace, lane by lane:
 *   n bytes  enum taut_kind | HAS_CORRELATION | IS_MEMBER | the flags
 *   n uint   name (number in the page)
 *   n uint   start, from the row before on the lane, in units; the first row
 *            of a lane: from the earliest row of the rank
 *   n uint   duration in units
 *   int      correlation, from the row with one before; rows that have one
 *   uint     collective      } of rows that are members; times on the
 *   int      arrival - start } graph's clock, in ns
 *   uint     waiting         }
 *   uint     moving          } */
#include "report/html.h"

#include <stdlib.h>

enum {
	HAS_CORRELATION = 0x20,
	IS_MEMBER = 0x10,
	FLAGS_SHIFT = 6,
};

struct coder {
	const struct tauti_page *page;
	const struct taut_trace *trace;
	uint32_t index; /* in run->traces */
	struct tauti_page_rank *rank;
	struct tauti_blob *blob;
};

static bool is_device(uint8_t kind)
{
	return kind == TAUT_KIND_KERNEL || kind == TAUT_KIND_MEMCPY ||
		kind == TAUT_KIND_MEMSET;
}

/* Members are never left out: the next one, at most, is this row. */
static bool is_member(const struct coder *c, uint32_t *at, uint32_t row)
{
	const struct tauti_members *m = &c->page->members;
	uint32_t end = m->begin[c->index + 1];

	while (*at < end && m->data[*at].row < row)
		++*at;
	return *at < end && m->data[*at].row == row;
}

static bool keeps(const struct coder *c, uint32_t *at, uint32_t row)
{
	uint8_t kind = c->trace->kind[row];
	int64_t least = is_device(kind) ? c->page->device_min_ns :
		c->page->min_ns;

	return c->trace->dur_ns[row] >= least || kind == TAUT_KIND_STEP ||
		is_member(c, at, row);
}

static uint32_t first_member(const struct coder *c)
{
	return c->page->members.begin[c->index];
}

/* Marks the rows that are kept; counts them by lane. NULL: no memory. */
static uint8_t *choose_rows(struct coder *c)
{
	const struct taut_trace *t = c->trace;
	uint8_t *kept = calloc(t->n_events ? t->n_events : 1, 1);
	uint32_t at = first_member(c);

	if (!kept)
		return NULL;
	for (uint32_t i = 0; i < t->n_events; i++) {
		kept[i] = keeps(c, &at, i);
		if (kept[i])
			c->rank->lane_rows[t->lane[i]]++;
		else if (is_device(t->kind[i]))
			c->rank->hidden_device++;
		else
			c->rank->hidden++;
	}
	return kept;
}

static void code_kinds(struct coder *c, const uint8_t *kept)
{
	const struct taut_trace *t = c->trace;
	uint32_t at = first_member(c);

	for (uint32_t i = 0; i < t->n_events; i++) {
		uint8_t bits = (uint8_t)(t->flags[i] << FLAGS_SHIFT);

		if (!kept[i])
			continue;
		if (t->correlation[i])
			bits |= HAS_CORRELATION;
		if (is_member(c, &at, i))
			bits |= IS_MEMBER;
		tauti_blob_byte(c->blob, t->kind[i] | bits);
	}
}

static void code_names(struct coder *c, const uint8_t *kept)
{
	const struct tauti_page_names *names = &c->page->names;
	const uint32_t *of_trace = names->of_trace[c->index];

	for (uint32_t i = 0; i < c->trace->n_events; i++) {
		if (kept[i])
			tauti_blob_uint(c->blob,
				names->place[of_trace[c->trace->name[i]]]);
	}
}

static void code_times(struct coder *c, const uint8_t *kept)
{
	const struct taut_trace *t = c->trace;
	const int64_t unit = c->rank->unit_ns;
	uint32_t lane = TAUT_NONE;
	int64_t before = 0;

	for (uint32_t i = 0; i < t->n_events; i++) {
		if (!kept[i])
			continue;
		if (t->lane[i] != lane) {
			lane = t->lane[i];
			before = c->rank->first_ns;
		}
		tauti_blob_uint(c->blob,
			(uint64_t)(t->start_ns[i] - before) / (uint64_t)unit);
		before = t->start_ns[i];
	}
	for (uint32_t i = 0; i < t->n_events; i++) {
		if (kept[i])
			tauti_blob_uint(
				c->blob, (uint64_t)(t->dur_ns[i] / unit));
	}
}

static void code_correlations(struct coder *c, const uint8_t *kept)
{
	uint32_t before = 0;

	for (uint32_t i = 0; i < c->trace->n_events; i++) {
		uint32_t correlation = c->trace->correlation[i];

		if (!kept[i] || !correlation)
			continue;
		tauti_blob_int(c->blob, (int64_t)correlation - before);
		before = correlation;
	}
}

static uint64_t span(int64_t from, int64_t to)
{
	return to > from ? (uint64_t)(to - from) : 0;
}

/* A row that stands for two collectives is shown as the first of them. */
static bool repeats(const struct coder *c, uint32_t member)
{
	const struct tauti_member *m = &c->page->members.data[member];

	return member > first_member(c) && m[-1].row == m->row;
}

static void code_members(struct coder *c)
{
	const struct taut_graph *graph = c->page->report->graph;
	const struct tauti_members *all = &c->page->members;

	for (int column = 0; column < 4; column++) {
		for (uint32_t i = first_member(c); i < all->begin[c->index + 1];
			i++) {
			const struct tauti_member *m = &all->data[i];

			if (m->row == TAUT_NONE || repeats(c, i))
				continue;
			if (column == 0)
				tauti_blob_uint(c->blob, m->collective);
			else if (column == 1)
				tauti_blob_int(c->blob,
					m->arrive -
						taut_graph_time(graph, c->index,
							c->trace->start_ns
								[m->row]));
			else if (column == 2)
				tauti_blob_uint(
					c->blob, span(m->arrive, m->begin));
			else
				tauti_blob_uint(
					c->blob, span(m->begin, m->end));
		}
	}
}

/* Old recordings are in whole microseconds: three digits less a time. */
static void find_unit(struct coder *c)
{
	const struct taut_trace *t = c->trace;
	int64_t first = t->n_events ? t->start_ns[0] : 0;
	int64_t unit = 1000;

	for (size_t i = 0; i < t->n_events; i++) {
		if (t->start_ns[i] < first)
			first = t->start_ns[i];
	}
	for (size_t i = 0; i < t->n_events && unit > 1; i++) {
		if ((t->start_ns[i] - first) % 1000 || t->dur_ns[i] % 1000)
			unit = 1;
	}
	c->rank->unit_ns = unit;
	c->rank->first_ns = first;
}

static taut_status code_rank(
	void *context, size_t index, struct taut_error *err)
{
	struct tauti_page *page = context;
	struct coder c = { page, &page->report->run->traces[index],
		(uint32_t)index, &page->ranks[index],
		&page->ranks[index].blob };
	uint32_t n_lanes = c.trace->n_lanes;
	uint8_t *kept;

	c.rank->lane_rows = calloc(
		n_lanes ? n_lanes : 1, sizeof *c.rank->lane_rows);
	kept = c.rank->lane_rows ? choose_rows(&c) : NULL;
	if (!kept)
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"no memory for the events of rank %d", c.trace->rank);
	find_unit(&c);
	code_kinds(&c, kept);
	code_names(&c, kept);
	code_times(&c, kept);
	code_correlations(&c, kept);
	code_members(&c);
	free(kept);
	return tauti_blob_pack(c.blob, err);
}

/* --- what a full page leaves out: durations by size, 32 to a power of two --- */
enum { FINE = 5, SIZES = 58 << FINE };

static int size_of(int64_t dur_ns)
{
	int shift = 63 - FINE - __builtin_clzll((uint64_t)dur_ns | 1 << FINE);
	int size = (shift << FINE) + (int)(dur_ns >> shift);

	return size < SIZES ? size : SIZES - 1;
}

static int64_t shortest_of(int size)
{
	int shift = size < 2 << FINE ? 0 : (size >> FINE) - 1;

	return (int64_t)(size - (shift << FINE)) << shift;
}

/* Longer ones first while there is room. 0: there is room for all. */
static int64_t choose_least(const uint64_t by_size[SIZES], uint64_t room)
{
	int size = SIZES - 1;
	uint64_t n = 0;

	for (; size >= 0 && n + by_size[size] <= room; size--)
		n += by_size[size];
	return size >= 0 ? shortest_of(size + 1) : 0;
}

static void choose_min_ns(
	struct tauti_page *page, const struct taut_run *run, uint64_t most)
{
	uint64_t host[SIZES] = { 0 }, device[SIZES] = { 0 }, n_device = 0;

	for (uint32_t t = 0; t < run->n_traces; t++) {
		const struct taut_trace *trace = &run->traces[t];

		for (size_t i = 0; i < trace->n_events; i++) {
			bool on_device = is_device(trace->kind[i]);

			(on_device ? device : host)[size_of(trace->dur_ns[i])]++;
			n_device += on_device;
		}
	}
	page->min_ns = choose_least(host,
		n_device < most - most / 10 ? most - n_device : most / 10);
	page->device_min_ns = choose_least(device, most);
}

/* Names in the order of their numbers, each ended by a zero byte. */
static void code_dictionary(struct tauti_page *page)
{
	const struct tauti_page_names *names = &page->names;

	for (uint32_t i = 0; i < names->n; i++)
		tauti_blob_bytes(&page->name_blob,
			taut_names_text(names->names, names->id[i]),
			taut_names_length(names->names, names->id[i]) + 1);
}

/* Row by row: rank index, lane, category, name, module, start from the start
 * before, duration. */
static void code_path(struct tauti_page *page)
{
	const struct taut_report *report = page->report;
	const struct taut_graph *g = report->graph;
	struct tauti_blob *blob = &page->path_blob;
	int64_t before = 0;

	for (uint32_t i = 0; i < report->n_path; i++) {
		const struct taut_report_segment *s = &report->path[i];
		const struct taut_graph_lane *lane = &g->lanes[g->lane[s->op]];

		tauti_blob_int(blob,
			lane->trace == TAUT_NONE ? -1 : (int64_t)lane->trace);
		tauti_blob_uint(
			blob, lane->trace == TAUT_NONE ? 0 : lane->trace_lane);
		tauti_blob_uint(blob, s->category);
		tauti_blob_uint(blob, tauti_page_name(&page->names, s->name));
		tauti_blob_uint(blob, tauti_page_name(&page->names, s->module));
		tauti_blob_int(blob, s->start_ns - before);
		tauti_blob_uint(blob, span(0, s->dur_ns));
		before = s->start_ns;
	}
}

/* Row by row: kind, name, group, size, bytes, sequence; -1 is not known. */
static void code_collectives(struct tauti_page *page)
{
	const struct taut_graph *g = page->report->graph;
	struct tauti_blob *blob = &page->coll_blob;

	for (uint32_t i = 0; i < g->n_collectives; i++) {
		const struct taut_collective *c = &g->collectives[i];

		tauti_blob_uint(blob, c->kind);
		tauti_blob_uint(blob,
			tauti_page_name(&page->names,
				taut_names_text(g->names, c->name)));
		tauti_blob_uint(blob,
			tauti_page_name(&page->names,
				taut_names_text(g->names, c->group)));
		tauti_blob_int(blob, c->group_size);
		tauti_blob_int(blob, c->bytes);
		tauti_blob_int(blob, c->seq);
	}
}

taut_status tauti_page_init(struct tauti_page *page,
	const struct taut_report *report, uint64_t most, struct taut_error *err)
{
	uint32_t n = report->run->n_traces;
	taut_status status;

	*page = (struct tauti_page){ .report = report };
	page->ranks = calloc(n ? n : 1, sizeof *page->ranks);
	if (!page->ranks)
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"no memory for %u ranks of the page", n);
	choose_min_ns(page, report->run, most);
	status = tauti_page_names_init(&page->names, report, err);
	if (!status)
		status = tauti_members_find(report->graph, &page->members, err);
	if (!status)
		status = taut_parallel_for(n, 0, code_rank, page, err);
	if (status)
		return status;
	code_dictionary(page);
	code_path(page);
	code_collectives(page);
	status = tauti_blob_pack(&page->name_blob, err);
	if (!status)
		status = tauti_blob_pack(&page->path_blob, err);
	return status ? status : tauti_blob_pack(&page->coll_blob, err);
}

void tauti_page_fini(struct tauti_page *page)
{
	uint32_t n = page->report->run->n_traces;

	for (uint32_t i = 0; page->ranks && i < n; i++) {
		free(page->ranks[i].lane_rows);
		tauti_blob_free(&page->ranks[i].blob);
	}
	free(page->ranks);
	tauti_blob_free(&page->name_blob);
	tauti_blob_free(&page->path_blob);
	tauti_blob_free(&page->coll_blob);
	tauti_members_free(&page->members);
	tauti_page_names_fini(&page->names, n);
}
