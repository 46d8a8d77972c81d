/* bench_out.c - see bench.h: the table, in the form of those who measure
 * collectives, and the same as JSON. */
#include <string.h>

#include "cli/bench.h"
#include "coll/table.h"
#include "report/put.h"

double bench_bus_factor(enum taut_coll_verb verb, uint32_t n_ranks)
{
	double n = n_ranks;

	switch (verb) {
	case TAUT_ALLREDUCE:
		return 2 * (n - 1) / n;
	case TAUT_REDUCE_SCATTER:
	case TAUT_ALLGATHER:
		return (n - 1) / n;
	default:
		return 1;
	}
}

/* Bytes a nanosecond are GB a second. */
static double algbw(const struct bench_row *row)
{
	return row->median_ns > 0 ? (double)row->bytes / row->median_ns : 0;
}

/* "4M" where that is exact. */
static const char *short_bytes(uint64_t bytes, char text[24])
{
	static const char units[] = " KMG";
	size_t unit = 0;

	while (bytes && bytes % 1024 == 0 && unit < 3) {
		bytes /= 1024;
		unit++;
	}
	snprintf(text, 24, unit ? "%llu%c" : "%llu",
		(unsigned long long)bytes, units[unit]);
	return text;
}

/* "ring/1M/2": by which way, in passes of how much, how many at once. */
static const char *way_text(
	const struct taut_coll_choice *choice, uint64_t bytes, char text[64])
{
	char pass[24];
	const char *name = taut_coll_way_name(choice->way);

	if (!choice->pass_bytes || choice->pass_bytes >= bytes)
		snprintf(text, 64, "%s", name);
	else
		snprintf(text, 64, "%s/%s/%u", name,
			short_bytes(choice->pass_bytes, pass),
			choice->passes_at_once);
	return text;
}

static const char *reduction_text(const struct bench_plan *plan)
{
	return plan->verb == TAUT_ALLREDUCE ||
			plan->verb == TAUT_REDUCE_SCATTER ?
		taut_reduction_name(plan->reduction) : "none";
}

/* --- text ----------------------------------------------------------------------------*/

static void put_head(const struct bench_plan *plan,
	const struct bench_result *result, FILE *out)
{
	fprintf(out, "# taut %s bench %s: %u ranks on %u host%s, engine %s, "
		"%s\n# Times are of the slowest rank; busbw is algbw x %.4g.\n",
		taut_version(), taut_coll_verb_name(plan->verb),
		result->n_ranks, result->n_hosts,
		result->n_hosts == 1 ? "" : "s", result->engine,
		plan->in_place ? "in place" : "out of place",
		bench_bus_factor(plan->verb, result->n_ranks));
	fprintf(out, "#%11s %12s %9s %8s %18s %11s %11s %11s %8s %8s %7s\n",
		"size", "count", "type", "redop", "way", "time", "min", "p90",
		"algbw", "busbw", "wrong");
	fprintf(out, "#%11s %12s %9s %8s %18s %11s %11s %11s %8s %8s\n",
		"(B)", "(elements)", "", "", "", "(us)", "(us)", "(us)",
		"(GB/s)", "(GB/s)");
}

static void put_row(const struct bench_plan *plan,
	const struct bench_result *result, const struct bench_row *row,
	FILE *out)
{
	double bus = algbw(row) *
		bench_bus_factor(plan->verb, result->n_ranks);
	char way[64], wrong[24] = "N/A";

	if (plan->check)
		snprintf(wrong, sizeof wrong, "%llu",
			(unsigned long long)row->wrong);
	fprintf(out, "%12llu %12llu %9s %8s %18s %11.2f %11.2f %11.2f %8.3f "
		"%8.3f %7s\n", (unsigned long long)row->bytes,
		(unsigned long long)row->count, taut_type_name(plan->type),
		reduction_text(plan),
		way_text(&row->choice, row->bytes, way), row->median_ns / 1e3,
		row->least_ns / 1e3, row->p90_ns / 1e3, algbw(row), bus,
		wrong);
}

taut_status bench_text(const struct bench_plan *plan,
	const struct bench_result *result, FILE *out, struct taut_error *err)
{
	put_head(plan, result, out);
	for (size_t i = 0; i < result->n_rows; i++)
		put_row(plan, result, &result->rows[i], out);
	if (!ferror(out))
		return TAUT_OK;
	return taut_error_set(err, TAUT_EIO, -1, "cannot write");
}

/* --- JSON ------------------------------------------------------------------------------*/

static void put_number(
	struct tauti_put *put, const char *key, uint64_t value)
{
	tauti_put_key(put, key);
	tauti_put_int(put, (int64_t)value);
	tauti_put_char(put, ',');
}

static void put_name(struct tauti_put *put, const char *key, const char *text)
{
	tauti_put_key(put, key);
	tauti_put_string(put, text);
	tauti_put_char(put, ',');
}

static void put_real(struct tauti_put *put, const char *key, double value)
{
	tauti_put_key(put, key);
	tauti_put_real(put, value);
	tauti_put_char(put, ',');
}

static void put_json_row(struct tauti_put *put, const struct bench_plan *plan,
	const struct bench_result *result, const struct bench_row *row)
{
	put_number(put, "bytes", row->bytes);
	put_number(put, "count", row->count);
	put_name(put, "way", taut_coll_way_name(row->choice.way));
	put_number(put, "pass_bytes", row->choice.pass_bytes);
	put_number(put, "passes_at_once", row->choice.passes_at_once);
	put_number(put, "samples", row->samples);
	put_number(put, "calls_a_sample", row->batch);
	put_real(put, "time_us", row->median_ns / 1e3);
	put_real(put, "least_us", row->least_ns / 1e3);
	put_real(put, "p90_us", row->p90_ns / 1e3);
	put_real(put, "algbw_gb_per_s", algbw(row));
	put_real(put, "busbw_gb_per_s", algbw(row) *
		bench_bus_factor(plan->verb, result->n_ranks));
	tauti_put_key(put, "wrong");
	if (plan->check)
		tauti_put_int(put, (int64_t)row->wrong);
	else
		tauti_put_text(put, "null");
}

static void put_json_choice(
	struct tauti_put *put, const struct taut_coll_choice *choice)
{
	put_name(put, "verb", taut_coll_verb_name(choice->verb));
	put_number(put, "ranks", choice->n_ranks);
	put_number(put, "hosts", choice->n_hosts);
	put_number(put, "from_bytes", choice->from_bytes);
	put_name(put, "way", taut_coll_way_name(choice->way));
	put_number(put, "pass_bytes", choice->pass_bytes);
	tauti_put_key(put, "passes_at_once");
	tauti_put_int(put, choice->passes_at_once);
}

taut_status bench_json(const struct bench_plan *plan,
	const struct bench_result *result, FILE *out, struct taut_error *err)
{
	struct tauti_put put;

	tauti_put_begin(&put, out);
	tauti_put_char(&put, '{');
	put_name(&put, "version", taut_version());
	put_name(&put, "verb", taut_coll_verb_name(plan->verb));
	put_name(&put, "engine", result->engine);
	put_number(&put, "ranks", result->n_ranks);
	put_number(&put, "hosts", result->n_hosts);
	put_name(&put, "type", taut_type_name(plan->type));
	put_name(&put, "reduction", reduction_text(plan));
	tauti_put_key(&put, "in_place");
	tauti_put_text(&put, plan->in_place ? "true," : "false,");
	tauti_put_text(&put, "\"rows\":[");
	for (size_t i = 0; i < result->n_rows; i++) {
		tauti_put_text(&put, i ? ",\n{" : "\n{");
		put_json_row(&put, plan, result, &result->rows[i]);
		tauti_put_char(&put, '}');
	}
	tauti_put_text(&put, "],\n\"choices\":[");
	for (size_t i = 0; i < result->n_choices; i++) {
		tauti_put_text(&put, i ? ",\n{" : "\n{");
		put_json_choice(&put, &result->choices[i]);
		tauti_put_char(&put, '}');
	}
	tauti_put_text(&put, "]}\n");
	return tauti_put_end(&put, err);
}

/* --- the table of choices ---------------------------------------------------------------*/

taut_status bench_write_table(const struct bench_result *result, FILE *out,
	struct taut_error *err)
{
	char text[TAUTI_TABLE_ROW_BYTES];

	fprintf(out, "# Measured by taut %s bench --tune over %s: for "
		"$TAUT_COLL_TABLE.\n", taut_version(), result->engine);
	for (size_t i = 0; i < result->n_rows; i++) {
		const struct bench_row *row = &result->rows[i];

		fprintf(out, "# %12llu B %12.2f us  %s\n",
			(unsigned long long)row->bytes, row->median_ns / 1e3,
			way_text(&row->choice, row->bytes, text));
	}
	fprintf(out, "# verb ranks hosts from_bytes way pass_bytes "
		"passes_at_once\n");
	for (size_t i = 0; i < result->n_choices; i++) {
		tauti_row_text(&result->choices[i], text);
		fputs(text, out);
	}
	if (!ferror(out))
		return TAUT_OK;
	return taut_error_set(err, TAUT_EIO, -1, "cannot write");
}
