/* text_tables.c - the sections behind the breakdown: collectives, late ranks,
 * what removing a cause gives, the critical path, and how far to trust it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/names.h"
#include "report/number.h"
#include "report/text.h"

enum {
	COLLS_SHOWN = 8, LINKS_SHOWN = 8, LATE_SHOWN = 8, OPS_SHOWN = 10, MODULES_SHOWN = 5,
	REMOVAL_BAR = 24, PATH_BAR = 16, /* columns */
};
static const double worth_a_row = 0.005;  /* of a step */
static const double worth_a_share = 0.001; /* of a step or the path */
static const double worth_saying = 0.05;   /* of a step */
static const double worth_modules = 0.05;  /* of it, for the largest one */

static bool is_worth(const struct tauti_text *t, int64_t a_step_ns)
{
	return (double)a_step_ns >=
		worth_a_row * (double)t->step_ns;
}

static void say_more(const struct tauti_text *t, uint32_t n, const char *what)
{
	if (n)
		tauti_sheet_line(t->sheet, tauti_sheet_style(t->sheet,
			TAUTI_DIM, tauti_sheet_text(t->sheet,
			"  %u more %s in --json", n, what)));
}

/* --- collectives -----------------------------------------------------------------*/

static const char *size_of(
	const struct tauti_text *t, const struct taut_report_coll *c)
{
	char text[TAUTI_NUMBER_BYTES];

	if (c->bytes < 0 || !c->count)
		return "";
	return tauti_sheet_text(t->sheet, "%s",
		tauti_number_bytes((uint64_t)c->bytes / c->count, text));
}

static const char *bandwidth_of(
	const struct tauti_text *t, const struct taut_report_coll *c)
{
	char text[TAUTI_NUMBER_BYTES];

	if (!(c->busbw_gbs > 0) || !tauti_number_real(c->busbw_gbs,
		c->busbw_gbs < 10 ? 2 : 1, text))
		return "";
	return tauti_sheet_text(t->sheet, "%s", text);
}

static void add_coll(const struct tauti_text *t, struct tauti_table *table,
	const struct taut_report_coll *c)
{
	int64_t n = c->count ? (int64_t)c->count : 1;
	int64_t members = c->members ? (int64_t)c->members : 1;

	tauti_table_cell(table, c->name, TAUTI_PLAIN);
	tauti_table_cell(table, tauti_text_count(t, c->count), TAUTI_PLAIN);
	tauti_table_cell(table, c->group_size > 0 ? tauti_sheet_text(t->sheet,
		"%d", c->group_size) : "", TAUTI_PLAIN);
	tauti_table_cell(table, size_of(t, c), TAUTI_PLAIN);
	tauti_table_cell(table, tauti_text_ms(t, c->transfer_ns / n),
		TAUTI_PLAIN);
	tauti_table_cell(table, tauti_text_ms(t, c->wait_ns / members),
		TAUTI_PLAIN);
	tauti_table_cell(table, bandwidth_of(t, c), TAUTI_PLAIN);
	tauti_table_cell(table, c->kernel, TAUTI_DIM);
}

/* Of all the time that ranks spend in collectives, how much only waits. */
static void say_waiting(const struct tauti_text *t)
{
	const struct taut_report *r = t->report;
	int64_t ranks = r->n_ranks ? r->n_ranks : 1, wait = 0;
	int64_t move = r->coll_transfer_ns;

	for (uint32_t i = 0; i < r->n_colls; i++)
		wait += r->colls[i].wait_ns / ranks;
	if (wait + move <= 0)
		return;
	if (r->n_ranks < 2) {
		tauti_sheet_wrap(t->sheet, "  ", "Of one rank alone, waiting "
			"for the others cannot be told from transfer: it is "
			"in it.", TAUTI_PLAIN);
		return;
	}
	tauti_sheet_wrap(t->sheet, "  ", tauti_sheet_text(t->sheet,
		"Added up over its collectives, a rank moves data for %s ms a "
		"step and waits %s ms (%s %%) for the last rank to arrive.",
		tauti_text_ms_a_step(t, move), tauti_text_ms_a_step(t, wait),
		tauti_text_pct(t, wait, wait + move)),
		TAUTI_PLAIN);
}

static const char *matched(const struct tauti_text *t)
{
	const struct taut_report *r = t->report;

	if (r->n_ranks < 2)
		return tauti_sheet_text(t->sheet,
			"%s on this rank; ms, average of one",
			tauti_text_count(t, r->coll_count));
	if (r->coll_complete == r->coll_count)
		return tauti_sheet_text(t->sheet,
			"%s matched; ms, average of one", tauti_text_count(
			t, r->coll_count));
	return tauti_sheet_text(t->sheet,
		"%s matched, %s with all their ranks; ms, average of one",
		tauti_text_count(t, r->coll_count),
		tauti_text_count(t, r->coll_complete));
}

void tauti_text_collectives(const struct tauti_text *t)
{
	static const struct tauti_column heads[] = {
		{ "kind", TAUTI_LEFT, false }, { "count", TAUTI_RIGHT, false },
		{ "ranks", TAUTI_RIGHT, false }, { "size", TAUTI_RIGHT, false },
		{ "transfer", TAUTI_RIGHT, false },
		{ "waiting", TAUTI_RIGHT, false },
		{ "bus GB/s", TAUTI_RIGHT, false },
		{ "kernel", TAUTI_LEFT, true } };
	const struct taut_report *r = t->report;
	uint32_t shown = r->n_colls > COLLS_SHOWN + 1 ? COLLS_SHOWN :
		r->n_colls;
	struct tauti_table table;

	if (!r->n_colls)
		return;
	tauti_sheet_heading(t->sheet, "Collectives", matched(t));
	tauti_table_begin(&table, t->sheet, heads,
		sizeof heads / sizeof heads[0]);
	for (uint32_t i = 0; i < shown; i++)
		add_coll(t, &table, &r->colls[i]);
	tauti_table_end(&table);
	say_more(t, r->n_colls - shown, "kinds");
	say_waiting(t);
}

/* --- links -------------------------------------------------------------------------*/

static const char *speed_of(
	const struct tauti_text *t, const struct taut_report_link *l)
{
	char text[TAUTI_NUMBER_BYTES];

	if (l->network_ns <= 0 || l->bytes <= 0 || !tauti_number_real(
		(double)l->bytes / (double)l->network_ns, 2, text))
		return "";
	return tauti_sheet_text(t->sheet, "%s", text);
}

static void add_link(const struct tauti_text *t, struct tauti_table *table,
	const struct taut_report_link *l)
{
	char bytes[TAUTI_NUMBER_BYTES];
	int64_t n = (int64_t)l->chunks;

	tauti_table_cell(table, tauti_sheet_text(t->sheet, "%d", l->rank),
		TAUTI_PLAIN);
	tauti_table_cell(table, l->peer < 0 ? (l->sends ? "to ?" : "from ?") :
		tauti_sheet_text(t->sheet, l->sends ? "to %d" : "from %d",
			l->peer), TAUTI_PLAIN);
	tauti_table_cell(table, tauti_text_count(t, l->chunks), TAUTI_PLAIN);
	tauti_table_cell(table, tauti_sheet_text(t->sheet, "%s",
		tauti_number_bytes((uint64_t)(l->bytes / n), bytes)),
		TAUTI_PLAIN);
	tauti_table_cell(table, tauti_text_us(t, l->gpu_late_ns / n),
		TAUTI_PLAIN);
	tauti_table_cell(table, tauti_text_us(t, l->peer_late_ns / n),
		TAUTI_PLAIN);
	tauti_table_cell(table, tauti_text_us(t, l->network_ns / n),
		TAUTI_PLAIN);
	tauti_table_cell(table, speed_of(t, l), TAUTI_PLAIN);
}

void tauti_text_links(const struct tauti_text *t)
{
	static const struct tauti_column heads[] = {
		{ "rank", TAUTI_RIGHT, false }, { "peer", TAUTI_LEFT, false },
		{ "chunks", TAUTI_RIGHT, false }, { "size", TAUTI_RIGHT, false },
		{ "device late", TAUTI_RIGHT, false },
		{ "peer late", TAUTI_RIGHT, false },
		{ "network", TAUTI_RIGHT, false },
		{ "GB/s", TAUTI_RIGHT, false } };
	const struct taut_report *r = t->report;
	uint32_t shown = r->n_links < LINKS_SHOWN ? r->n_links : LINKS_SHOWN;
	struct tauti_table table;

	if (!shown)
		return;
	tauti_sheet_heading(t->sheet, "Chunks on the wire",
		"\xc2\xb5s, average of one");
	tauti_table_begin(&table, t->sheet, heads,
		sizeof heads / sizeof heads[0]);
	for (uint32_t i = 0; i < shown; i++)
		add_link(t, &table, &r->links[i]);
	tauti_table_end(&table);
	say_more(t, r->n_links - shown, "links");
}

/* --- memory ----------------------------------------------------------------------*/

static void add_bytes(const struct tauti_text *t, struct tauti_table *table,
	int64_t bytes)
{
	char text[TAUTI_NUMBER_BYTES];

	tauti_table_cell(table, bytes < 0 ? "" : tauti_sheet_text(t->sheet,
		"%s", tauti_number_bytes((uint64_t)bytes, text)), TAUTI_PLAIN);
}

void tauti_text_memory(const struct tauti_text *t)
{
	static const struct tauti_column heads[] = {
		{ "rank", TAUTI_RIGHT, false }, { "of", TAUTI_LEFT, false },
		{ "peak", TAUTI_RIGHT, false },
		{ "replayed", TAUTI_RIGHT, false },
		{ "there before", TAUTI_RIGHT, false },
		{ "reached in", TAUTI_LEFT, true },
		{ "module", TAUTI_LEFT, true } };
	const struct taut_report *r = t->report;
	uint32_t shown = r->n_memory < LINKS_SHOWN || t->all ? r->n_memory :
		LINKS_SHOWN;
	struct tauti_table table;

	if (!shown)
		return;
	tauti_sheet_heading(t->sheet, "Memory", "peak of the recorded steps");
	tauti_table_begin(&table, t->sheet, heads,
		sizeof heads / sizeof heads[0]);
	for (uint32_t i = 0; i < shown; i++) {
		const struct taut_report_memory *m = &r->memory[i];

		tauti_table_cell(&table, tauti_sheet_text(t->sheet, "%d",
			m->rank), TAUTI_PLAIN);
		tauti_table_cell(&table, m->device < 0 ? "host" :
			tauti_sheet_text(t->sheet, "device %d", m->device),
			TAUTI_PLAIN);
		add_bytes(t, &table, m->measured_bytes);
		add_bytes(t, &table, m->replayed_bytes);
		add_bytes(t, &table, m->device < 0 ? -1 : m->base_bytes);
		tauti_table_cell(&table, m->at_op, TAUTI_PLAIN);
		tauti_table_cell(&table, m->at_module, TAUTI_DIM);
	}
	tauti_table_end(&table);
	say_more(t, r->n_memory - shown, "ranks");
}

/* --- late ranks --------------------------------------------------------------------*/

/* Does a late rank have a cause that is worth naming? */
static bool has_cause(
	const struct tauti_text *t, const struct taut_report_late *l)
{
	return (unsigned)l->cause < TAUT_CATEGORIES &&
		(double)(l->excess_ns[l->cause] / (int64_t)t->steps) >=
		worth_a_share * (double)t->step_ns;
}

/* The first n_columns cells of the row. */
static void add_late(const struct tauti_text *t, struct tauti_table *table,
	const struct taut_report_late *l)
{
	bool known = has_cause(t, l);
	const struct tauti_cell cells[] = {
		{ tauti_sheet_text(t->sheet, "%d", l->rank), TAUTI_PLAIN },
		{ tauti_text_count(t, l->last_arrivals), TAUTI_PLAIN },
		{ tauti_text_ms_a_step(t, l->caused_ns), TAUTI_PLAIN },
		{ known ? taut_category_title(l->cause) : "", TAUTI_PLAIN },
		{ known ? tauti_sheet_text(t->sheet, "+%s",
			tauti_text_ms_a_step(t, l->excess_ns[l->cause])) : "",
			TAUTI_PLAIN },
		{ known && l->cause_op ? l->cause_op : "", TAUTI_PLAIN },
		{ known && l->cause_module ? l->cause_module : "", TAUTI_DIM },
	};

	for (size_t i = 0; i < table->n_columns; i++)
		tauti_table_cell(table, cells[i].text, cells[i].style);
}

/* Columns at the end that would be empty in every row are left out. */
static size_t late_columns(const struct tauti_text *t, uint32_t shown)
{
	size_t n = 3;

	for (uint32_t i = 0; i < shown; i++) {
		const struct taut_report_late *l = &t->report->late[i];

		if (!has_cause(t, l))
			continue;
		if (l->cause_module && *l->cause_module)
			return 7;
		n = 6;
	}
	return n;
}

void tauti_text_late(const struct tauti_text *t)
{
	static const struct tauti_column heads[] = {
		{ "rank", TAUTI_RIGHT, false },
		{ "last at", TAUTI_RIGHT, false },
		{ "others wait", TAUTI_RIGHT, false },
		{ "cause", TAUTI_LEFT, false },
		{ "above others", TAUTI_RIGHT, false },
		{ "most of it in", TAUTI_LEFT, true },
		{ "module", TAUTI_LEFT, true } };
	const struct taut_report *r = t->report;
	struct tauti_table table;
	uint32_t shown = 0;

	while (shown < r->n_late && shown < LATE_SHOWN &&
		is_worth(t, r->late[shown].caused_ns / (int64_t)t->steps))
		shown++;
	if (!shown)
		return;
	tauti_sheet_heading(t->sheet, "Ranks that the others wait for",
		"ms a step");
	tauti_table_begin(&table, t->sheet, heads, late_columns(t, shown));
	for (uint32_t i = 0; i < shown; i++)
		add_late(t, &table, &r->late[i]);
	tauti_table_end(&table);
}

/* --- what removing a cause gives -----------------------------------------------------*/

/* Removals count from the first begin to the last end of all ranks. Where that
 * is far from the step of the head, savings would seem too large. */
void tauti_text_base(const struct tauti_text *t)
{
	int64_t steady = t->report->steady_ns;

	if ((double)llabs(t->step_ns - steady) <=
		worth_saying * (double)steady)
		return;
	tauti_sheet_wrap(t->sheet, "  ", tauti_sheet_text(t->sheet,
		"From the first begin on any rank to the last end, the first "
		"step included, a step takes %s ms: savings are counted from "
		"that.", tauti_text_ms(t, t->step_ns)), TAUTI_DIM);
}

void tauti_text_removals(const struct tauti_text *t)
{
	static const struct tauti_column heads[] = {
		{ "without", TAUTI_LEFT, true }, { "saved", TAUTI_RIGHT, false },
		{ "%", TAUTI_RIGHT, false },
		{ "step left", TAUTI_RIGHT, false }, { "", TAUTI_LEFT, false } };
	const struct taut_report *r = t->report;
	struct tauti_table table;
	uint32_t shown = 0;

	for (uint32_t i = 0; i < r->n_removals; i++)
		shown += is_worth(t, r->removals[i].saved_ns);
	if (!shown)
		return;
	tauti_sheet_heading(t->sheet, "What removing one cause would give",
		"ms a step; replayed, all else as recorded");
	tauti_table_begin(&table, t->sheet, heads,
		sizeof heads / sizeof heads[0]);
	for (uint32_t i = 0; i < r->n_removals; i++) {
		const struct taut_report_removal *gone = &r->removals[i];
		int64_t before = gone->step_ns + gone->saved_ns;

		if (!is_worth(t, gone->saved_ns))
			continue;
		tauti_table_cell(&table, gone->title, TAUTI_PLAIN);
		tauti_table_cell(&table, tauti_text_ms(t, gone->saved_ns),
			TAUTI_PLAIN);
		tauti_table_cell(&table, tauti_text_pct(t, gone->saved_ns,
			before), TAUTI_PLAIN);
		tauti_table_cell(&table, tauti_text_ms(t, gone->step_ns),
			TAUTI_PLAIN);
		tauti_table_cell(&table, tauti_text_bar(t, gone->saved_ns,
			before, REMOVAL_BAR, TAUTI_GREEN), TAUTI_PLAIN);
	}
	tauti_table_end(&table);
	tauti_text_base(t);
}

/* --- critical path -------------------------------------------------------------------*/

static int64_t path_total(const struct taut_report *r)
{
	int64_t sum = 0;

	for (int c = 0; c < TAUT_CATEGORIES; c++)
		sum += r->path_ns[c];
	return sum;
}

static void say_path_categories(const struct tauti_text *t, int64_t total)
{
	const struct taut_report *r = t->report;
	const char *line = "";
	bool done[TAUT_CATEGORIES] = { false };

	for (int n = 0; n < TAUT_CATEGORIES; n++) {
		int best = -1;

		for (int c = 0; c < TAUT_CATEGORIES; c++)
			if (!done[c] && (best < 0 ||
				r->path_ns[c] > r->path_ns[best]))
				best = c;
		done[best] = true;
		if ((double)r->path_ns[best] < 0.0005 * (double)total)
			break;
		line = tauti_sheet_text(t->sheet, "%s%s%s %s %%", line,
			*line ? ", " : "", taut_category_title(
			(enum taut_category)best), tauti_text_pct(t,
			r->path_ns[best], total));
	}
	tauti_sheet_wrap(t->sheet, "  ", line, TAUTI_PLAIN);
}

static void say_shares(const struct tauti_text *t, const char *title,
	const struct taut_report_share *shares, uint32_t n, int64_t total)
{
	const struct tauti_column heads[] = {
		{ "ms", TAUTI_RIGHT, false }, { "%", TAUTI_RIGHT, false },
		{ "", TAUTI_LEFT, false }, { "count", TAUTI_RIGHT, false },
		{ "kind", TAUTI_LEFT, false }, { title, TAUTI_LEFT, true } };
	struct tauti_table table;

	tauti_table_begin(&table, t->sheet, heads,
		sizeof heads / sizeof heads[0]);
	for (uint32_t i = 0; i < n; i++) {
		const struct taut_report_share *s = &shares[i];

		tauti_table_cell(&table, tauti_text_ms_a_step(t, s->ns),
			TAUTI_PLAIN);
		tauti_table_cell(&table, tauti_text_pct(t, s->ns, total),
			TAUTI_PLAIN);
		tauti_table_cell(&table, tauti_text_bar(t, s->ns, total,
			PATH_BAR, TAUTI_PLAIN), TAUTI_PLAIN);
		tauti_table_cell(&table, tauti_text_count(t, s->count),
			TAUTI_PLAIN);
		tauti_table_cell(&table, tauti_category_column(s->category),
			TAUTI_DIM);
		tauti_table_cell(&table, s->name, TAUTI_PLAIN);
	}
	tauti_table_end(&table);
}

/* The first of n rows, at most `most`, that are worth one. */
static uint32_t count_shares(const struct taut_report_share *shares,
	uint32_t n, uint32_t most, int64_t total)
{
	uint32_t count = 0;

	while (count < n && count < most && (double)shares[count].ns >=
		worth_a_share * (double)total)
		count++;
	return count;
}

void tauti_text_path(const struct tauti_text *t)
{
	const struct taut_report *r = t->report;
	int64_t total = path_total(r);
	uint32_t ops = count_shares(r->path_ops, r->n_path_ops, OPS_SHOWN,
		total);
	uint32_t modules = count_shares(r->path_modules, r->n_path_modules,
		MODULES_SHOWN, total);

	if (total <= 0)
		return;
	tauti_sheet_heading(t->sheet, "Critical path",
		t->steps > 1 ? "ms a step; count over all steps" : "ms");
	say_path_categories(t, total);
	if (ops)
		say_shares(t, "operation", r->path_ops, ops, total);
	if (!modules || (double)r->path_modules[0].ns <
		worth_modules * (double)total)
		return;
	tauti_sheet_blank(t->sheet);
	say_shares(t, "module", r->path_modules, modules, total);
}

/* --- how far to trust it ---------------------------------------------------------------*/

static const char *real(
	const struct tauti_text *t, double value, int decimals)
{
	char text[TAUTI_NUMBER_BYTES];
	const char *number = tauti_number_real(value, decimals, text);

	return tauti_sheet_text(t->sheet, "%s", number ? number : "unknown");
}

static void say_replay(const struct tauti_text *t)
{
	const struct taut_report *r = t->report;

	tauti_sheet_wrap(t->sheet, "  replay  ", tauti_sheet_text(t->sheet,
		"every step within %s %% of the measured one; %s %% of the "
		"step time is device idle that no recorded wait explains",
		tauti_text_bound(t, r->replay_error_pct_max),
		real(t, r->unexplained_pct, 2)), TAUTI_PLAIN);
}

static void say_clock_range(const struct tauti_text *t, double low,
	double high, double drift, double uncertain)
{
	const char *known = tauti_sheet_text(t->sheet,
		"known to \xc2\xb1%s \xc2\xb5s", real(t, uncertain, 1));

	if (low == 0 && high == 0 && drift == 0)
		tauti_sheet_wrap(t->sheet, "  clocks  ", tauti_sheet_text(
			t->sheet, "of all ranks agree as recorded, %s", known),
			TAUTI_PLAIN);
	else
		tauti_sheet_wrap(t->sheet, "  clocks  ", tauti_sheet_text(
			t->sheet, "shifted by %s to %s \xc2\xb5s, drift up to "
			"%s ppm, %s", real(t, low, 1), real(t, high, 1),
			real(t, drift, 2), known), TAUTI_PLAIN);
}

static void say_clocks(const struct tauti_text *t)
{
	const struct taut_report *r = t->report;
	double low = 0, high = 0, drift = 0, uncertain = 0;
	uint64_t samples = 0;

	for (uint32_t i = 0; i < r->n_clocks; i++) {
		const struct taut_report_clock *c = &r->clocks[i];

		low = i ? fmin(low, c->offset_us) : c->offset_us;
		high = i ? fmax(high, c->offset_us) : c->offset_us;
		drift = fmax(drift, fabs(c->drift_ppm));
		uncertain = fmax(uncertain, c->uncertainty_us);
		samples += c->samples;
	}
	if (r->n_clocks > 1 && samples)
		say_clock_range(t, low, high, drift, uncertain);
	else if (r->n_clocks > 1)
		tauti_sheet_wrap(t->sheet, "  clocks  ", "as recorded: there "
			"was nothing to align them by", TAUTI_PLAIN);
}

static void say_graph(const struct tauti_text *t)
{
	const struct taut_graph *g = t->report->graph;

	if (!g)
		return;
	tauti_sheet_wrap(t->sheet, "  graph   ", tauti_sheet_text(t->sheet,
		"%s operations, %s waits between lanes",
		tauti_text_count(t, g->n_ops), tauti_text_count(t, g->n_edges)),
		TAUTI_PLAIN);
}

void tauti_text_quality(const struct tauti_text *t)
{
	tauti_sheet_heading(t->sheet, "How far to trust this", "");
	if (t->report->n_steps)
		say_replay(t);
	say_clocks(t);
	say_graph(t);
}
