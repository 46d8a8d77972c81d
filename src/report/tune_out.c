/* tune_out.c - see tune_out.h. */
#include "report/tune_out.h"

#include <inttypes.h>

#include "report/fields.h"
#include "report/sheet.h"

enum { SHOWN = 10 };

static const char *bytes_text(struct tauti_sheet *sheet, uint64_t bytes)
{
	if (!bytes)
		return "whole";
	if (bytes % (1 << 20) == 0)
		return tauti_sheet_text(sheet, "%" PRIu64 "M", bytes >> 20);
	if (bytes % (1 << 10) == 0)
		return tauti_sheet_text(sheet, "%" PRIu64 "K", bytes >> 10);
	return tauti_sheet_text(sheet, "%" PRIu64, bytes);
}

static void put_setting(struct tauti_table *table,
	const struct taut_setting *s, double ns, double before_ns)
{
	struct tauti_sheet *sheet = table->sheet;

	tauti_table_cell(table, tauti_sheet_text(sheet, "%.1f", ns / 1e6),
		TAUTI_PLAIN);
	tauti_table_cell(table, tauti_sheet_text(
		sheet, "%.3f", ns > 0 ? before_ns / ns : 0), TAUTI_PLAIN);
	tauti_table_cell(table, bytes_text(sheet, s->piece_bytes), TAUTI_PLAIN);
	tauti_table_cell(table, bytes_text(sheet, s->credit_bytes), TAUTI_PLAIN);
	tauti_table_cell(table, bytes_text(sheet, s->fuse_bytes), TAUTI_PLAIN);
	tauti_table_cell(table, taut_coll_way_name(s->way), TAUTI_PLAIN);
}

static void put_head(struct tauti_sheet *sheet,
	const struct tauti_tune_view *v)
{
	const char *text = v->path;
	double best = v->after_ns[v->order[0]];

	for (size_t i = 0; i < v->n_changes; i++)
		text = tauti_sheet_text(sheet, "%s %s", text, v->changes[i]);
	tauti_sheet_wrap(sheet, "", text, TAUTI_BOLD);
	tauti_sheet_wrap(sheet, "", tauti_sheet_text(sheet, "A step of %.1f ms "
		"would take %.1f ms with the best of %" PRIu32 " settings "
		"(%" PRIu32 " that differ here), each replayed.",
		(double)v->before_ns / 1e6, best / 1e6,
		taut_settings_points(v->settings), v->n_replayed), TAUTI_PLAIN);
	tauti_sheet_heading(sheet, "The best settings", "ms a step; times as "
		"fast as recorded");
}

taut_status tauti_tune_text(const struct tauti_tune_view *view,
	const struct taut_text_options *options, FILE *out,
	struct taut_error *reterr)
{
	static const struct tauti_column columns[] = {
		{ "ms", TAUTI_RIGHT, false }, { "x", TAUTI_RIGHT, false },
		{ "piece", TAUTI_RIGHT, false },
		{ "credit", TAUTI_RIGHT, false },
		{ "fuse", TAUTI_RIGHT, false }, { "way", TAUTI_LEFT, false },
	};
	uint32_t n = taut_settings_points(view->settings);
	struct tauti_sheet sheet;
	struct tauti_table table;
	taut_status status = tauti_sheet_begin(
		&sheet, out, options->width, options->colour, reterr);

	if (status)
		return status;
	put_head(&sheet, view);
	tauti_table_begin(&table, &sheet, columns,
		sizeof columns / sizeof *columns);
	for (uint32_t i = 0; i < n && i < SHOWN; i++) {
		struct taut_setting s = taut_settings_at(
			view->settings, view->order[i]);

		put_setting(&table, &s, view->after_ns[view->order[i]],
			(double)view->before_ns);
	}
	tauti_table_end(&table);
	return tauti_sheet_end(&sheet, reterr);
}

taut_status tauti_tune_json(const struct tauti_tune_view *view, FILE *out,
	struct taut_error *reterr)
{
	uint32_t n = taut_settings_points(view->settings);
	struct tauti_put put;

	tauti_put_begin(&put, out);
	tauti_put_text(&put, "{\"version\":");
	tauti_put_string(&put, taut_version());
	tauti_field_text(&put, "run", view->path);
	tauti_field_texts(&put, "changes", view->changes, view->n_changes);
	tauti_field_ms(&put, "before_ms", view->before_ns);
	tauti_field_integer(&put, "replayed", view->n_replayed);
	tauti_field_section(&put, "settings", "[");
	for (uint32_t i = 0; i < n; i++) {
		uint32_t point = view->order[i];
		struct taut_setting s = taut_settings_at(view->settings, point);

		tauti_field_row_text(&put, i, "way", taut_coll_way_name(s.way));
		tauti_field_integer(&put, "point", point);
		tauti_field_integer(
			&put, "piece_bytes", (int64_t)s.piece_bytes);
		tauti_field_integer(
			&put, "credit_bytes", (int64_t)s.credit_bytes);
		tauti_field_integer(&put, "fuse_bytes", (int64_t)s.fuse_bytes);
		tauti_field_ms(
			&put, "after_ms", (int64_t)view->after_ns[point]);
		tauti_put_char(&put, '}');
	}
	tauti_put_text(&put, "]}\n");
	return tauti_put_end(&put, reterr);
}
