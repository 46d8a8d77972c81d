/* text.c - the report for a terminal: what to do first, then why. */
#include "report/text.h"

#include <stdlib.h>
#include <string.h>

#include "explain/steps.h"
#include "report/label.h"
#include "report/number.h"

enum { NOTES_SHOWN = 8 };

/* --- numbers -------------------------------------------------------------------*/

const char *tauti_text_ms(const struct tauti_text *t, int64_t ns)
{
	char text[TAUTI_NUMBER_BYTES];

	return tauti_sheet_text(
		t->sheet, "%s", tauti_number_ms(ns, t->decimals, text));
}

const char *tauti_text_us(const struct tauti_text *t, int64_t ns)
{
	char text[TAUTI_NUMBER_BYTES];
	const char *number = tauti_number_real((double)ns / 1e3, 1, text);

	return number ? tauti_sheet_text(t->sheet, "%s", number) : "";
}

const char *tauti_text_ms_a_step(const struct tauti_text *t, int64_t ns)
{
	return tauti_text_ms(t, ns / (int64_t)t->steps);
}

const char *tauti_text_pct(
	const struct tauti_text *t, int64_t part, int64_t whole)
{
	char text[TAUTI_NUMBER_BYTES];

	if (whole <= 0 || !tauti_number_real(
		100.0 * (double)part / (double)whole, 1, text))
		return "";
	return tauti_sheet_text(t->sheet, "%s", text);
}

const char *tauti_text_bound(const struct tauti_text *t, double pct)
{
	char text[TAUTI_NUMBER_BYTES];
	const char *number = tauti_number_real(pct, 2, text);

	if (pct >= 0 && pct < 0.01)
		return "0.01";
	return tauti_sheet_text(t->sheet, "%s", number ? number : "unknown");
}

const char *tauti_text_count(const struct tauti_text *t, uint64_t count)
{
	char text[TAUTI_NUMBER_BYTES];

	return tauti_sheet_text(
		t->sheet, "%s", tauti_number_count(count, text));
}

const char *tauti_text_bar(const struct tauti_text *t, int64_t part,
	int64_t whole, int columns, enum tauti_style style)
{
	static const char *const eighths[] = { "", "\xe2\x96\x8f",
		"\xe2\x96\x8e", "\xe2\x96\x8d", "\xe2\x96\x8c", "\xe2\x96\x8b",
		"\xe2\x96\x8a", "\xe2\x96\x89" };
	char bar[512] = "";
	int64_t n;

	if (whole <= 0 || part <= 0 || columns <= 0)
		return "";
	if (columns > 120)
		columns = 120;
	n = (int64_t)((double)part / (double)whole * 8 * columns + 0.5);
	if (n > 8 * columns)
		n = 8 * columns;
	for (int64_t i = 0; i < n / 8; i++)
		strcat(bar, "\xe2\x96\x88");
	strcat(bar, eighths[n % 8]);
	return tauti_sheet_style(
		t->sheet, style, tauti_sheet_text(t->sheet, "%s", bar));
}

/* --- head ----------------------------------------------------------------------*/

static uint32_t count_hosts(const struct taut_report *r)
{
	uint32_t n = 0;

	for (uint32_t i = 0; r->hosts && i < r->n_ranks; i++) {
		bool seen = !*r->hosts[i];

		for (uint32_t k = 0; k < i && !seen; k++)
			seen = !strcmp(r->hosts[i], r->hosts[k]);
		n += !seen;
	}
	return n;
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* Share of compute in the steps that count, in percent. */
static const char *computes(const struct tauti_text *t)
{
	int64_t compute = 0, all = 0;

	for (uint32_t i = 0; i < t->report->n_steps; i++) {
		if (!tauti_step_counts(t->report, i))
			continue;
		compute += t->report->steps[i].ns[TAUT_CAT_COMPUTE];
		all += t->report->steps[i].measured_ns;
	}
	return tauti_text_pct(t, compute, all);
}

static void say_head(const struct tauti_text *t)
{
	const struct taut_report *r = t->report;
	uint32_t hosts = count_hosts(r);
	const char *what = tauti_sheet_text(t->sheet, "%s rank%s",
		tauti_text_count(t, r->n_ranks), plural(r->n_ranks));

	tauti_sheet_line(t->sheet, tauti_sheet_style(t->sheet, TAUTI_BOLD,
		tauti_sheet_name(t->sheet, r->run && r->run->path ?
		r->run->path : "report", t->sheet->width)));
	if (hosts > 1)
		what = tauti_sheet_text(
			t->sheet, "%s on %u hosts", what, hosts);
	if (r->n_steps)
		what = tauti_sheet_text(t->sheet, "%s, %u step%s of %s ms%s, "
			"%s %% of it computing", what, t->steps,
			plural(t->steps), tauti_text_ms(t, r->steady_ns),
			t->steps > 1 ? " (median without the first)" : "",
			computes(t));
	tauti_sheet_wrap(t->sheet, "", tauti_sheet_text(t->sheet, "%s.", what),
		TAUTI_PLAIN);
}

/* --- findings and notes ----------------------------------------------------------*/

/* What stands in front of a finding: milliseconds and percent, in columns
 * that fit all of them. */
struct savings {
	const char *ms, *pct;
	int ms_columns, pct_columns;
};

static void read_savings(const struct tauti_text *t,
	const struct taut_report_finding *f, struct savings *s)
{
	s->ms = tauti_text_ms(t, f->cost_ns);
	s->pct = tauti_text_pct(t, f->cost_ns, t->step_ns);
	if ((int)strlen(s->ms) > s->ms_columns)
		s->ms_columns = (int)strlen(s->ms);
	if ((int)strlen(s->pct) > s->pct_columns)
		s->pct_columns = (int)strlen(s->pct);
}

static void say_finding(const struct tauti_text *t,
	const struct taut_report_finding *f, struct savings *s)
{
	const char *first, *second;

	read_savings(t, f, s);
	first = tauti_sheet_text(t->sheet, "  %*s ms  %*s %%  ", s->ms_columns,
		s->ms, s->pct_columns, s->pct);
	second = tauti_sheet_text(t->sheet, "%*s", tauti_columns(first), "");
	tauti_sheet_wrap(t->sheet, first, f->text, TAUTI_PLAIN);
	if (f->evidence && *f->evidence)
		tauti_sheet_wrap(t->sheet, second, f->evidence, TAUTI_DIM);
}

static void say_findings(const struct tauti_text *t)
{
	const struct taut_report *r = t->report;
	struct savings s = { .ms_columns = 0 };

	tauti_sheet_heading(t->sheet, "What to do",
		r->n_findings ? "first: how much shorter a step would be" : "");
	if (!r->n_findings)
		tauti_sheet_line(t->sheet, "  Nothing stands out: no single "
			"cause would shorten a step by much.");
	for (uint32_t i = 0; i < r->n_findings; i++)
		read_savings(t, &r->findings[i], &s);
	for (uint32_t i = 0; i < r->n_findings; i++)
		say_finding(t, &r->findings[i], &s);
}

void tauti_text_notes(struct tauti_sheet *sheet, const char *lead,
	const char *const *notes, uint32_t n)
{
	uint32_t shown = n > NOTES_SHOWN + 1 ? NOTES_SHOWN : n;

	for (uint32_t i = 0; i < shown; i++)
		tauti_sheet_wrap(sheet, lead, notes[i], TAUTI_PLAIN);
	if (shown < n)
		tauti_sheet_line(sheet, tauti_sheet_style(sheet, TAUTI_DIM,
			tauti_sheet_text(sheet, "  %u more; --json lists all",
			n - shown)));
}

static void say_notes(const struct tauti_text *t)
{
	if (!t->report->n_notes)
		return;
	tauti_sheet_heading(t->sheet, "Notes", "");
	tauti_text_notes(t->sheet, "  - ", t->report->notes,
		t->report->n_notes);
}

/* --- the whole ---------------------------------------------------------------------*/

/* Removals are counted from one and the same step. */
int64_t tauti_text_base_step(const struct taut_report *r)
{
	return r->n_removals ? r->removals[0].step_ns +
		r->removals[0].saved_ns : r->steady_ns;
}

static int decimals_for(int64_t steady_ns)
{
	return steady_ns >= 100000000 ? 1 : steady_ns >= 10000000 ? 2 : 3;
}

int tauti_text_width(const struct taut_text_options *options)
{
	int width = options && options->width ? options->width :
		TAUTI_TEXT_WIDTH;

	return width < TAUTI_TEXT_LEAST_WIDTH ? TAUTI_TEXT_LEAST_WIDTH : width;
}

taut_status taut_report_text(const struct taut_report *report,
	const struct taut_text_options *options, FILE *out,
	struct taut_error *reterr)
{
	struct tauti_sheet sheet;
	struct tauti_text t = { report, &sheet,
		decimals_for(report->steady_ns),
		tauti_steps_of_a_rank(report),
		tauti_text_base_step(report),
		options && options->all };
	taut_status status = tauti_sheet_begin(&sheet, out, tauti_text_width(options),
		options && options->colour, reterr);

	if (status)
		return status;
	say_head(&t);
	say_findings(&t);
	tauti_text_steps(&t);
	tauti_text_collectives(&t);
	tauti_text_links(&t);
	tauti_text_memory(&t);
	tauti_text_late(&t);
	tauti_text_removals(&t);
	tauti_text_path(&t);
	tauti_text_quality(&t);
	say_notes(&t);
	return tauti_sheet_end(&sheet, reterr);
}
