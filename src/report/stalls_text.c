/* stalls_text.c - what taut stalls prints. */
#include "report/number.h"
#include "report/sheet.h"
#include "report/stalls_out.h"
#include "report/text.h"

struct page {
	struct tauti_sheet *sheet;
	const struct tauti_stalls_view *v;
};

static const double not_cold = 0.9, not_cached = 0.1; /* shares that are told */
static const double many_faults = 0.03;

/* --- numbers ------------------------------------------------------------------------- */

static const char *real(const struct page *g, double value, int decimals)
{
	char text[TAUTI_NUMBER_BYTES];
	const char *number = tauti_number_real(value, decimals, text);

	return tauti_sheet_text(g->sheet, "%s", number ? number : "unknown");
}

/* Four digits or so, whatever it is. */
static const char *rate(const struct page *g, double value)
{
	return real(g, value, value >= 1000 ? 0 : value >= 100 ? 1 : value >= 10 ? 2 : 3);
}

static const char *bytes(const struct page *g, double value)
{
	char text[TAUTI_NUMBER_BYTES];

	return tauti_sheet_text(g->sheet, "%s", tauti_number_bytes(
		value > 0 ? (uint64_t)value : 0, text));
}

static const char *count(const struct page *g, uint64_t value)
{
	char text[TAUTI_NUMBER_BYTES];

	return tauti_sheet_text(g->sheet, "%s", tauti_number_count(value, text));
}

static const char *seconds(const struct page *g, int64_t ns)
{
	double s = (double)ns / 1e9;

	return real(g, s, s >= 1000 ? 0 : s >= 100 ? 1 : s >= 10 ? 2 : 3);
}

static const char *pct(const struct page *g, double share)
{
	return real(g, share * 100, 1);
}

static void wrap(const struct page *g, const char *text)
{
	tauti_sheet_wrap(g->sheet, "", text, TAUTI_PLAIN);
}

/* --- what was run -------------------------------------------------------------------- */

static void say_job(const struct page *g)
{
	const struct taut_stalls_result *r = &g->v->result;
	const char *hosts = r->n_hosts > 1 ?
		tauti_sheet_text(g->sheet, " on %u hosts", r->n_hosts) : "";
	const char *items = r->n_items < 0 ? "items that are not counted" :
		tauti_sheet_text(g->sheet, "%s items", count(g, (uint64_t)r->n_items));

	tauti_sheet_wrap(g->sheet, "", g->v->command, TAUTI_BOLD);
	wrap(g, tauti_sheet_text(g->sheet, "%u rank%s%s%s; loader: %s, %u worker%s and %u "
		"batches ahead in each rank; batches of %u; %s%s.", r->n_ranks,
		r->n_ranks == 1 ? "" : "s", hosts,
		r->on_device ? ", computing on devices" : "", r->loader, r->n_workers,
		r->n_workers == 1 ? "" : "s", r->depth, r->batch, items,
		r->mean_bytes > 0 ? tauti_sheet_text(g->sheet, " of %s on average",
			bytes(g, r->mean_bytes)) : ""));
}

static const char *from_storage(const struct page *g, const char *when, double share)
{
	return share < 0 ? tauti_sheet_text(g->sheet, "; what came from storage %s the "
		"system does not tell", when) : tauti_sheet_text(g->sheet,
		"; %s %% of the bytes read %s came from storage", pct(g, share), when);
}

static void say_cold(const struct page *g)
{
	const struct taut_stalls_result *r = &g->v->result;

	if (g->v->forgotten)
		wrap(g, tauti_sheet_text(g->sheet, "Cold: %s times the system was told to "
			"forget a file or a part of it, %s in all (posix_fadvise)%s%s.",
			count(g, g->v->forgotten), bytes(g, (double)g->v->forgotten_bytes),
			from_storage(g, "cold", r->cold_share),
			from_storage(g, "cached", r->cached_share)));
	if (r->rate[TAUT_STALLS_COLD].n_rounds && r->cold_share >= 0 &&
		r->cold_share < not_cold)
		tauti_sheet_wrap(g->sheet, "", "What was to be cold was not: files that "
			"are mapped, or that lie in memory or in a cache of their own, are "
			"not forgotten. The stalls of cold items are larger than said here.",
			TAUTI_RED);
	if (r->cached_share > not_cached)
		tauti_sheet_wrap(g->sheet, "", "What was to be cached was not: the items of "
			"a phase do not fit in memory, or are read past the page cache.",
			TAUTI_RED);
	for (size_t i = 0; i < g->v->n_notes; i++)
		tauti_sheet_wrap(g->sheet, "", g->v->notes[i], TAUTI_YELLOW);
}

/* --- what was measured --------------------------------------------------------------- */

static const struct {
	enum taut_stalls_phase phase;
	const char *what;
} phases[] = {
	{ TAUT_STALLS_PLACE, "batches that are there: the job alone" },
	{ TAUT_STALLS_HALF, "the same, half of each batch" },
	{ TAUT_STALLS_CACHED, "items in the page cache" },
	{ TAUT_STALLS_PART, "half of the items in storage" },
	{ TAUT_STALLS_COLD, "items in storage" },
};

static void put_value(const struct page *g, struct tauti_table *table,
	const struct taut_stalls_value *value, double factor)
{
	const char *(*text)(const struct page *, double) = factor == 1 ? rate : pct;

	tauti_table_cell(table, text(g, value->value), TAUTI_PLAIN);
	tauti_table_cell(table, value->n_rounds > 1 ? text(g, value->low) : "",
		TAUTI_PLAIN);
	tauti_table_cell(table, value->n_rounds > 1 ? text(g, value->high) : "",
		TAUTI_PLAIN);
	tauti_table_cell(table, count(g, value->n_rounds), TAUTI_PLAIN);
}

/* What low and high are, behind what the numbers are. */
static const char *with_interval(const struct page *g, const char *what)
{
	uint32_t n = g->v->result.n_runs;

	return n > 1 ? tauti_sheet_text(g->sheet,
		"%s; low and high: 95 %%, over %u runs", what, n) :
		tauti_sheet_text(g->sheet, "%s; low and high: 95 %%", what);
}

static void say_rates(const struct page *g)
{
	static const struct tauti_column heads[] = {
		{ "samples/s", TAUTI_RIGHT, false }, { "low", TAUTI_RIGHT, false },
		{ "high", TAUTI_RIGHT, false }, { "rounds", TAUTI_RIGHT, false },
		{ "with", TAUTI_LEFT, false } };
	struct tauti_table table;

	tauti_sheet_heading(
		g->sheet, "How fast the job is", with_interval(g, "all ranks"));
	tauti_table_begin(&table, g->sheet, heads, 5);
	for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++) {
		const struct taut_stalls_value *value =
			&g->v->result.rate[phases[i].phase];

		if (!value->n_rounds)
			continue;
		put_value(g, &table, value, 1);
		tauti_table_cell(&table, phases[i].what, TAUTI_PLAIN);
	}
	tauti_table_end(&table);
}

static void say_stalls(const struct page *g)
{
	static const struct tauti_column heads[] = {
		{ "%", TAUTI_RIGHT, false }, { "low", TAUTI_RIGHT, false },
		{ "high", TAUTI_RIGHT, false }, { "rounds", TAUTI_RIGHT, false },
		{ "waiting for", TAUTI_LEFT, false } };
	const struct taut_stalls_result *r = &g->v->result;
	const struct {
		const struct taut_stalls_value *value;
		const char *what;
	} rows[] = {
		{ &r->fetch_stall, "storage, first epoch" },
		{ &r->prepare_stall, "preparation, first epoch" },
		{ &r->cached_stall, "preparation, items in the page cache" },
	};
	struct tauti_table table;

	tauti_sheet_heading(
		g->sheet, "What it waits for", with_interval(g, "share of its time"));
	tauti_table_begin(&table, g->sheet, heads, 5);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		if (!rows[i].value->n_rounds)
			continue;
		put_value(g, &table, rows[i].value, 100);
		tauti_table_cell(&table, rows[i].what, TAUTI_PLAIN);
	}
	tauti_table_end(&table);
}

static void put_faults(const struct page *g, struct tauti_table *table, double share,
	double faults, const char *what)
{
	if (share < 0)
		return;
	tauti_table_cell(table, pct(g, share), TAUTI_PLAIN);
	tauti_table_cell(table, count(g, (uint64_t)(faults + 0.5)), TAUTI_PLAIN);
	tauti_table_cell(table, what, TAUTI_PLAIN);
}

static void say_faults(const struct page *g)
{
	static const struct tauti_column heads[] = {
		{ "%", TAUTI_RIGHT, false }, { "faults", TAUTI_RIGHT, false },
		{ "of", TAUTI_LEFT, false } };
	const struct taut_stalls_faults *f = &g->v->result.faults;
	struct tauti_table table;

	if (f->step_share < many_faults && f->item_share < many_faults)
		return;
	tauti_sheet_heading(g->sheet, "Page faults",
		"memory given back and asked for again; share of processor time");
	tauti_table_begin(&table, g->sheet, heads, 3);
	put_faults(g, &table, f->step_share, f->step, "a step of the job alone");
	put_faults(g, &table, f->item_share, f->item,
		"an item, of the workers, in the page cache");
	tauti_table_end(&table);
	wrap(g, tauti_sheet_text(g->sheet, "Each takes %s us. 'taut run --heap keep' spares "
		"those that come of the C library's malloc; shared memory in which workers "
		"hand tensors over has its own.",
		real(g, f->fault_ns / 1e3, 1)));
}

static void say_storage(const struct page *g)
{
	static const struct tauti_column heads[] = {
		{ "threads", TAUTI_RIGHT, false }, { "MB/s", TAUTI_RIGHT, false },
		{ "reads/s", TAUTI_RIGHT, false } };
	const struct taut_stalls_storage *s = &g->v->storage;
	struct tauti_table table;

	if (!g->v->has_storage)
		return;
	tauti_sheet_heading(g->sheet, "Storage", s->n_points ?
		"the job's own files, read again, cold" : "as you have said");
	if (!s->n_points) {
		wrap(g, tauti_sheet_text(g->sheet, "%s a second.",
			bytes(g, s->rate_bytes_s)));
		return;
	}
	wrap(g, tauti_sheet_text(g->sheet, "%s a second, and %s ms a read beside its bytes; "
		"%u reads at a time%s%s. That is %s %% off where it was measured, on average.",
		bytes(g, s->rate_bytes_s), real(g, (double)s->latency_ns / 1e6, 3),
		s->n_served, s->n_served >= s->points[s->n_points - 1].n_threads ?
		", or more: more were not tried" : "", s->burst_bytes ?
		tauti_sheet_text(g->sheet, "; %s at once after it was idle",
			bytes(g, (double)s->burst_bytes)) : "", pct(g, s->error)));
	tauti_table_begin(&table, g->sheet, heads, 3);
	for (uint32_t i = 0; i < s->n_points; i++) {
		tauti_table_cell(&table, count(g, s->points[i].n_threads), TAUTI_PLAIN);
		tauti_table_cell(&table, rate(g, s->points[i].bytes_s / 1e6), TAUTI_PLAIN);
		tauti_table_cell(&table, rate(g, s->points[i].reads_s), TAUTI_PLAIN);
	}
	tauti_table_end(&table);
}

/* --- what is predicted ----------------------------------------------------------------- */

static const char *signed_pct(const struct page *g, double share)
{
	return tauti_sheet_text(g->sheet, "%s%s %%", share > 0 ? "+" : "", pct(g, share));
}

static void say_model(const struct page *g)
{
	const struct taut_stalls_model *m = &g->v->model;
	bool has_part = g->v->result.rate[TAUT_STALLS_PART].n_rounds > 0;
	bool has_cold = g->v->result.rate[TAUT_STALLS_COLD].n_rounds > 0;

	tauti_sheet_heading(g->sheet, "Predictions", "played on a virtual clock");
	wrap(g, tauti_sheet_text(g->sheet, "The model's step was %s of the measured one where "
		"items were cached%s%s%s%s.", signed_pct(g, m->error[0]),
		has_cold ? ", " : "", has_cold ? tauti_sheet_text(g->sheet,
			"%s where they were in storage", signed_pct(g, m->error[1])) : "",
		has_part ? ", " : "", has_part ? tauti_sheet_text(g->sheet, "and %s where "
			"half of them were, which it was not made from",
			signed_pct(g, m->error[2])) : ""));
	wrap(g, tauti_sheet_text(g->sheet, "Here, %s of items and %s of memory for the page "
		"cache: the first epoch takes %s s, a later one %s s, of which %s s are "
		"waits for storage and %s s for preparation; it reads %s.",
		bytes(g, (double)g->v->set_bytes), bytes(g, (double)g->v->page_cache_bytes),
		seconds(g, g->v->now.first_ns), seconds(g, g->v->now.later_ns),
		seconds(g, g->v->now.fetch_ns), seconds(g, g->v->now.prepare_ns),
		bytes(g, (double)g->v->now.read_bytes)));
}

static const char *cache_text(const struct page *g, const struct tauti_stalls_row *row)
{
	const char *how = row->change.cache == TAUT_FEED_KEEP ? "kept for good" :
		row->change.cache == TAUT_FEED_LINUX ? "page cache" :
		tauti_stalls_cache_name(row->change.cache);

	return tauti_sheet_text(g->sheet, "%s %% of the items, %s",
		real(g, row->cache_share * 100, 0), how);
}

static const char *row_text(const struct page *g, const struct tauti_stalls_row *row)
{
	const struct taut_stalls_change *c = &row->change;

	switch (row->table) {
	case TAUTI_STALLS_CACHE:
		return cache_text(g, row);
	case TAUTI_STALLS_WORKERS:
		return tauti_sheet_text(g->sheet, "%u workers", c->workers);
	case TAUTI_STALLS_CORES:
		return tauti_sheet_text(g->sheet, "%s cores%s", real(g, c->cores, 0),
			c->workers ? tauti_sheet_text(
				g->sheet, ", %u workers", c->workers) : "");
	case TAUTI_STALLS_RATE:
		return tauti_sheet_text(g->sheet, "storage x %s", real(g, c->rate, 2));
	case TAUTI_STALLS_BATCH:
		return tauti_sheet_text(g->sheet, "batches of %u", c->batch);
	case TAUTI_STALLS_JOBS:
		return tauti_sheet_text(g->sheet, "%u jobs like it at once%s", c->jobs,
			c->share ? ", Taut's loader, each item prepared once" : "");
	case TAUTI_STALLS_ASKED:
	case TAUTI_STALLS_TABLES:
		break;
	}
	return tauti_sheet_name(g->sheet, row->what ? row->what : "", 60);
}

static void put_row(const struct page *g, struct tauti_table *table,
	const struct tauti_stalls_row *row)
{
	const struct taut_stalls_epoch *e = &row->epoch;
	int64_t now_ns = g->v->now.later_ns;
	double times = e->later_ns > 0 ? (double)now_ns / (double)e->later_ns : 1;

	if (row->why_not) {
		for (int i = 0; i < 5; i++)
			tauti_table_cell(table, "", TAUTI_PLAIN);
		tauti_table_cell(table, tauti_sheet_text(g->sheet, "%s: %s",
			row_text(g, row), row->why_not), TAUTI_DIM);
		return;
	}
	tauti_table_cell(table, seconds(g, e->first_ns), TAUTI_PLAIN);
	tauti_table_cell(table, seconds(g, e->later_ns), TAUTI_PLAIN);
	tauti_table_cell(table, real(g, times, 2), times > 1.01 ? TAUTI_GREEN :
		times < 0.99 ? TAUTI_RED : TAUTI_PLAIN);
	tauti_table_cell(table, pct(g, e->later_ns > 0 ? (double)e->fetch_ns /
		(double)e->later_ns : 0), TAUTI_PLAIN);
	tauti_table_cell(table, pct(g, e->later_ns > 0 ? (double)e->prepare_ns /
		(double)e->later_ns : 0), TAUTI_PLAIN);
	tauti_table_cell(table, row_text(g, row), TAUTI_PLAIN);
}

static void say_table(const struct page *g, enum tauti_stalls_table which,
	const char *title)
{
	static const struct tauti_column heads[] = {
		{ "first s", TAUTI_RIGHT, false }, { "later s", TAUTI_RIGHT, false },
		{ "x", TAUTI_RIGHT, false }, { "% storage", TAUTI_RIGHT, false },
		{ "% prepare", TAUTI_RIGHT, false }, { "with", TAUTI_LEFT, false } };
	struct tauti_table table;
	size_t n = 0;

	for (size_t i = 0; i < g->v->n_rows; i++)
		n += g->v->rows[i].table == which;
	if (!n)
		return;
	tauti_sheet_heading(g->sheet, title,
		"epochs; times as fast as now; waits of a later one");
	tauti_table_begin(&table, g->sheet, heads, 6);
	for (size_t i = 0; i < g->v->n_rows; i++)
		if (g->v->rows[i].table == which)
			put_row(g, &table, &g->v->rows[i]);
	tauti_table_end(&table);
}

static void say_tables(const struct page *g)
{
	static const char *const titles[TAUTI_STALLS_TABLES] = {
		[TAUTI_STALLS_ASKED] = "As asked", [TAUTI_STALLS_CACHE] = "By cache",
		[TAUTI_STALLS_WORKERS] = "By workers of a rank",
		[TAUTI_STALLS_CORES] = "By cores of a host",
		[TAUTI_STALLS_RATE] = "By storage", [TAUTI_STALLS_BATCH] = "By batch",
		[TAUTI_STALLS_JOBS] = "By jobs on a host" };

	for (int table = 0; table < TAUTI_STALLS_TABLES; table++)
		say_table(g, (enum tauti_stalls_table)table, titles[table]);
}

/* --- what to buy ------------------------------------------------------------------------- */

static const char *needs_text(const struct page *g)
{
	const struct taut_stalls_needs *n = &g->v->needs;
	const char *cache = n->cache_share > 0 ? tauti_sheet_text(g->sheet, "%s %% of the "
		"items kept for good", real(g, n->cache_share * 100, 1)) :
		"no cache at all";
	const char *fast = n->rate > 0 ? tauti_sheet_text(g->sheet,
		", or storage x %s with the cache as it is", real(g, n->rate, 2)) : "";
	const char *cores = n->cores ? tauti_sheet_text(g->sheet, "%u core%s of the host "
		"with a worker for each", n->cores, n->cores == 1 ? "" : "s") :
		"more cores than were tried";
	const char *workers = n->workers ? tauti_sheet_text(g->sheet, ", or %u worker%s a "
		"rank on today's", n->workers, n->workers == 1 ? "" : "s") : "";

	return tauti_sheet_text(g->sheet, "To lose nothing to storage it needs %s%s. To lose "
		"nothing to preparation, with all items in memory, it needs %s%s.", cache,
		fast, cores, workers);
}

static void say_advice(const struct page *g)
{
	static const struct tauti_column heads[] = {
		{ "x", TAUTI_RIGHT, false }, { "later s", TAUTI_RIGHT, false },
		{ "with", TAUTI_LEFT, true } };
	struct tauti_table table;

	tauti_sheet_heading(g->sheet, "What helps next", "the most first");
	wrap(g, needs_text(g));
	if (!g->v->n_advice) {
		wrap(g, "Nothing that was tried makes an epoch 1 % shorter.");
		return;
	}
	tauti_table_begin(&table, g->sheet, heads, 3);
	for (size_t i = 0; i < g->v->n_advice; i++) {
		tauti_table_cell(&table, real(g, g->v->advice[i].gain, 2), TAUTI_GREEN);
		tauti_table_cell(&table, seconds(g, g->v->advice[i].epoch.later_ns),
			TAUTI_PLAIN);
		tauti_table_cell(&table, g->v->advice[i].what, TAUTI_PLAIN);
	}
	tauti_table_end(&table);
}

taut_status tauti_stalls_text(const struct tauti_stalls_view *view,
	const struct taut_text_options *options, FILE *out, struct taut_error *reterr)
{
	struct tauti_sheet sheet;
	struct page g = { &sheet, view };
	taut_status status = tauti_sheet_begin(&sheet, out, tauti_text_width(options),
		options && options->colour, reterr);

	if (status)
		return status;
	say_job(&g);
	say_cold(&g);
	say_rates(&g);
	say_stalls(&g);
	say_faults(&g);
	say_storage(&g);
	if (view->has_model) {
		say_model(&g);
		say_tables(&g);
		say_advice(&g);
	}
	return tauti_sheet_end(&sheet, reterr);
}
