/* sweep.c - see sweep.h. */
#include "whatif/sweep.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NUMBER_BYTES = 32 };

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory for a sweep");
}

/* --- numbers with a unit ---------------------------------------------------------- */

/* Digits and perhaps a point, then letters; false: something else. */
static bool read_number(const char *text, double *ret, const char **ret_unit)
{
	double value = 0, place = 0;
	int digits = 0;

	for (; isdigit((unsigned char)*text) || (*text == '.' && place == 0);
		text++) {
		if (*text == '.') {
			place = 1;
			continue;
		}
		value = value * 10 + (*text - '0');
		if (place > 0)
			place *= 10;
		digits++;
	}
	*ret = place > 0 ? value / place : value;
	*ret_unit = text;
	return digits > 0 && digits < 16;
}

/* What a unit is worth, so that 500mbit is less than 1gbit; 0: unknown. Rates,
 * sizes and times do not mix in one sweep. */
static double worth(const char *unit)
{
	static const struct {
		const char *text;
		double worth;
	} units[] = { { "", 1 }, { "x", 1 }, { "%", 1 }, { "bit", 1 },
		{ "kbit", 1e3 }, { "mbit", 1e6 }, { "gbit", 1e9 },
		{ "tbit", 1e12 }, { "b", 1 }, { "kb", 1e3 }, { "mb", 1e6 },
		{ "gb", 1e9 }, { "kib", 1024 }, { "mib", 1048576 },
		{ "gib", 1073741824 }, { "tb", 1e12 },
		{ "tib", 1099511627776 }, { "ns", 1 }, { "us", 1e3 },
		{ "ms", 1e6 }, { "s", 1e9 } };
	size_t len = strlen(unit);

	if (len > 2 && (!strcasecmp(unit + len - 2, "/s") ||
		!strcasecmp(unit + len - 2, "ps")))
		len -= 2;
	for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
		if (strlen(units[i].text) == len &&
			!strncasecmp(units[i].text, unit, len))
			return units[i].worth;
	return 0;
}

static bool number_of(const char *value, double *ret)
{
	int sign = *value == '-' ? -1 : 1;
	const char *unit;
	double number;

	value += *value == '-' || *value == '+';
	if (!read_number(value, &number, &unit) || worth(unit) == 0)
		return false;
	*ret = sign * number * worth(unit);
	return true;
}

static void find_numbers(struct tauti_sweep *s)
{
	bool rises = true, falls = true;

	s->numeric = s->n_points > 1;
	for (uint32_t i = 0; i < s->n_points; i++) {
		if (!number_of(s->points[i].value, &s->points[i].x))
			s->numeric = false;
		if (i) {
			rises &= s->points[i].x > s->points[i - 1].x;
			falls &= s->points[i].x < s->points[i - 1].x;
		}
	}
	s->numeric = s->numeric && (rises || falls);
}

/* --- values ---------------------------------------------------------------------------- */

static taut_status add(struct tauti_sweep *s, const char *text, size_t prefix,
	const char *value, size_t len, struct taut_arena *arena,
	struct taut_error *err)
{
	struct tauti_sweep_point *p = &s->points[s->n_points];

	if (!len)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"--sweep: expected a value behind each comma in '%s'",
			text);
	p->value = taut_arena_strndup(arena, value, len);
	p->change = p->value ? taut_arena_printf(arena, "%.*s%s", (int)prefix,
		text, p->value) : NULL;
	p->memory_after = -1;
	if (!p->change)
		return no_memory(err);
	s->n_points++;
	return TAUT_OK;
}

static taut_status add_list(struct tauti_sweep *s, const char *text,
	size_t prefix, struct taut_arena *arena, struct taut_error *err)
{
	const char *at = text + prefix;
	taut_status status = TAUT_OK;
	size_t n = 1;

	for (const char *c = at; *c; c++)
		n += *c == ',';
	if (n > TAUTI_SWEEP_MOST)
		return taut_error_set(err, TAUT_EINVAL, -1, "--sweep: expected "
			"at most %d values, found %zu", TAUTI_SWEEP_MOST, n);
	s->points = TAUT_ARENA_ARRAY(arena, struct tauti_sweep_point, n);
	if (!s->points)
		return no_memory(err);
	for (; !status; at++) {
		size_t len = strcspn(at, ",");

		status = add(s, text, prefix, at, len, arena, err);
		at += len;
		if (!*at)
			break;
	}
	return status;
}

struct range {
	double from, to;
	const char *unit;
	size_t unit_length;
	uint32_t n;
	bool by_factor, whole;
};

/* A..B:N or A..B:xN; B's unit is that of both unless A has one. */
static bool read_range(const char *text, struct range *r)
{
	const char *dots = strstr(text, ".."), *colon, *unit;
	double n;

	/* "1..4" must not be read as 1. and .4 */
	char first[NUMBER_BYTES];
	size_t len = (size_t)(dots - text);

	if (!len || len >= sizeof first)
		return false;
	memcpy(first, text, len);
	first[len] = '\0';
	if (!read_number(first, &r->from, &unit) ||
		!read_number(dots + 2, &r->to, &r->unit))
		return false;
	colon = strchr(dots, ':');
	if (!colon)
		return false;
	r->unit_length = (size_t)(colon - r->unit);
	if (*unit && (strlen(unit) != r->unit_length ||
		strncasecmp(unit, r->unit, r->unit_length)))
		return false;
	r->by_factor = colon[1] == 'x';
	r->whole = !r->unit_length && !strchr(first, '.') &&
		!memchr(dots + 2, '.', (size_t)(colon - dots - 2));
	if (!read_number(colon + 1 + r->by_factor, &n, &unit) || *unit ||
		n < 2 || n > TAUTI_SWEEP_MOST)
		return false;
	r->n = (uint32_t)n;
	return !r->by_factor || (r->from > 0 && r->to > 0);
}

static double at_point(const struct range *r, uint32_t i)
{
	double part = (double)i / (r->n - 1);
	double value = r->by_factor ? r->from * pow(r->to / r->from, part) :
		r->from + (r->to - r->from) * part;

	return r->whole ? floor(value + 0.5) : value;
}

/* Four digits and all before the point, in every locale, without an exponent. */
static void put_number(char text[NUMBER_BYTES], double value)
{
	int digits = value >= 1e3 ? 0 : value >= 1 ?
		3 - (int)floor(log10(value)) : 4;
	char *end;

	snprintf(text, NUMBER_BYTES, "%.*f", digits, value);
	for (char *s = text; *s; s++)
		if (*s == ',')
			*s = '.';
	if (!strchr(text, '.'))
		return;
	end = text + strlen(text);
	while (end[-1] == '0')
		*--end = '\0';
	if (end[-1] == '.')
		end[-1] = '\0';
}

static taut_status add_range(struct tauti_sweep *s, const char *text,
	size_t prefix, struct taut_arena *arena, struct taut_error *err)
{
	struct range r;
	taut_status status = TAUT_OK;

	if (!read_range(text + prefix, &r))
		return taut_error_set(err, TAUT_EINVAL, -1, "--sweep: expected "
			"NAME=A..B:N, or :xN for equal factors, with N from 2 "
			"to %d, found '%.100s'", TAUTI_SWEEP_MOST, text);
	s->points = TAUT_ARENA_ARRAY(arena, struct tauti_sweep_point, r.n);
	if (!s->points)
		return no_memory(err);
	for (uint32_t i = 0; !status && i < r.n; i++) {
		char number[NUMBER_BYTES], value[2 * NUMBER_BYTES];

		put_number(number, at_point(&r, i));
		snprintf(value, sizeof value, "%s%.*s", number,
			(int)(r.unit_length < 16 ? r.unit_length : 16),
			r.unit);
		if (s->n_points && !strcmp(value,
			s->points[s->n_points - 1].value))
			continue; /* whole numbers closer than one */
		status = add(s, text, prefix, value, strlen(value), arena, err);
	}
	return status;
}

taut_status tauti_sweep_read(const char *text, struct taut_arena *arena,
	struct tauti_sweep *ret_sweep, struct taut_error *err)
{
	const char *equals = strrchr(text, '=');
	struct tauti_sweep s = { .name = NULL };
	size_t prefix;
	taut_status status;

	if (!equals || equals == text || !equals[1])
		return taut_error_set(err, TAUT_EINVAL, -1, "--sweep: expected "
			"NAME=VALUE,VALUE,... or NAME=A..B:N, found '%.100s'",
			text);
	prefix = (size_t)(equals - text) + 1;
	s.name = taut_arena_strndup(arena, text, prefix - 1);
	if (!s.name)
		return no_memory(err);
	status = strstr(equals, "..") ?
		add_range(&s, text, prefix, arena, err) :
		add_list(&s, text, prefix, arena, err);
	if (status)
		return status;
	find_numbers(&s);
	*ret_sweep = s;
	return TAUT_OK;
}

/* --- predictions ------------------------------------------------------------------------ */

struct run {
	struct tauti_sweep *sweep;
	const struct taut_graph *graph;
	const char *const *changes;
	size_t n_changes;
	struct taut_whatif_options options; /* of one prediction */
};

static taut_status predict_point(
	void *context, size_t i, struct taut_error *err)
{
	const struct run *run = context;
	struct tauti_sweep_point *p = &run->sweep->points[i];
	const char **all = calloc(run->n_changes + 1, sizeof *all);
	struct taut_prediction *prediction;
	taut_status status;

	if (!all)
		return no_memory(err);
	if (run->n_changes)
		memcpy(all, run->changes, run->n_changes * sizeof *all);
	all[run->n_changes] = p->change;
	status = taut_predict(run->graph, all, run->n_changes + 1,
		&run->options, &prediction, err);
	free(all);
	if (status)
		return status;
	p->before_ns = prediction->before_ns;
	p->after_ns = prediction->after_ns;
	p->low_ns = prediction->low_ns;
	p->high_ns = prediction->high_ns;
	p->samples_factor = prediction->samples_factor;
	p->memory_after = prediction->memory_after;
	taut_prediction_destroy(prediction);
	return TAUT_OK;
}

taut_status tauti_sweep_run(struct tauti_sweep *sweep,
	const struct taut_graph *graph, const char *const *changes, size_t n,
	const struct taut_whatif_options *options, struct taut_error *err)
{
	struct run run = { sweep, graph, changes, n, *options };

	run.options.threads = 1;
	run.options.no_graph = 1;
	return taut_parallel_for(sweep->n_points, options->threads,
		predict_point, &run, err);
}
