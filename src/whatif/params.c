/* params.c - the words of a change: NAME[=VALUE][,KEY=VALUE]...
 *
 * A piece without '=' behind a comma goes on with the value before it where
 * that one's form is a LIST. Numbers are read here and not by the C library,
 * whose decimal point depends on the locale. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/near.h"
#include "whatif/whatif.h"

enum { MOST_NAMES = 128, NAME_BYTES = 48 };

/* --- names ------------------------------------------------------------------ */

/* len bytes of text, cut to what a message can hold. */
static const char *cut(const char *text, size_t len, char ret[NAME_BYTES])
{
	if (len > NAME_BYTES - 1)
		len = NAME_BYTES - 1;
	memcpy(ret, text, len);
	ret[len] = '\0';
	return ret;
}

static taut_status unknown_change(
	const char *text, size_t len, struct taut_error *err)
{
	const char *names[MOST_NAMES], *near;
	char name[NAME_BYTES];
	size_t n = 0;

	for (; tauti_transformations[n] && n < MOST_NAMES; n++)
		names[n] = tauti_transformations[n]->info.name;
	near = tauti_nearest(cut(text, len, name), names, n);
	if (near)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"unknown change '%s'; did you mean %s?", name, near);
	return taut_error_set(err, TAUT_EINVAL, -1,
		"unknown change '%s'; --list shows all", name);
}

static taut_status unknown_key(const struct tauti_change *c, const char *text,
	size_t len, struct taut_error *err)
{
	const struct taut_transformation_info *info = &c->is->info;
	const char *names[MOST_NAMES], *near;
	char name[NAME_BYTES];
	size_t n = 0;

	for (size_t i = 0; i < info->n_parameters && n < MOST_NAMES; i++)
		if (*info->parameters[i].name)
			names[n++] = info->parameters[i].name;
	near = tauti_nearest(cut(text, len, name), names, n);
	if (near)
		return taut_error_set(err, TAUT_EINVAL, -1, "%s: unknown "
			"parameter '%s'; did you mean %s?", info->name, name,
			near);
	return taut_error_set(err, TAUT_EINVAL, -1, "%s: unknown parameter "
		"'%s'; --list %s shows all", info->name, name, info->name);
}

static const struct tauti_transformation *find(const char *text, size_t len)
{
	for (size_t i = 0; tauti_transformations[i]; i++) {
		const char *name = tauti_transformations[i]->info.name;

		if (strlen(name) == len && !memcmp(name, text, len))
			return tauti_transformations[i];
	}
	return NULL;
}

static size_t find_key(
	const struct taut_transformation_info *info, const char *key, size_t len)
{
	size_t i = 0;

	for (; i < info->n_parameters; i++)
		if (strlen(info->parameters[i].name) == len &&
			!memcmp(info->parameters[i].name, key, len))
			break;
	return i;
}

/* --- one change ---------------------------------------------------------------- */

struct reader {
	struct tauti_change *change;
	const char **values;
	const char *at; /* what is left of the text */
	struct taut_arena *arena;
	struct taut_error *err;
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for a change");
}

/* Bytes of the value at text: up to the next comma, or, of a list, up to the
 * next piece that is KEY=VALUE. */
static size_t value_length(const char *text, bool is_list)
{
	size_t len = strcspn(text, ",");

	while (is_list && text[len] == ',') {
		size_t piece = strcspn(text + len + 1, ",");

		if (memchr(text + len + 1, '=', piece))
			break;
		len += 1 + piece;
	}
	return len;
}

static taut_status take_value(struct reader *r, size_t i)
{
	const struct taut_transformation_info *info = &r->change->is->info;
	const struct taut_parameter *p = &info->parameters[i];
	size_t len = value_length(r->at, strstr(p->form, "LIST") != NULL);

	if (r->values[i])
		return taut_error_set(r->err, TAUT_EINVAL, -1,
			"%s: %s is given twice", info->name,
			*p->name ? p->name : "the value");
	if (!len)
		return taut_error_set(r->err, TAUT_EINVAL, -1,
			"%s: %s: expected %s, found nothing", info->name,
			*p->name ? p->name : "value", p->form);
	r->values[i] = taut_arena_strndup(r->arena, r->at, len);
	r->at += len;
	return r->values[i] ? TAUT_OK : no_memory(r->err);
}

static taut_status take_key(struct reader *r)
{
	const struct taut_transformation_info *info = &r->change->is->info;
	size_t len = strcspn(r->at, ",="), i = find_key(info, r->at, len);
	char piece[NAME_BYTES];

	if (r->at[len] != '=' || !len)
		return taut_error_set(r->err, TAUT_EINVAL, -1, "%s: expected "
			"KEY=VALUE behind the comma, found '%s'", info->name,
			cut(r->at, strcspn(r->at, ","), piece));
	if (i == info->n_parameters)
		return unknown_key(r->change, r->at, len, r->err);
	r->at += len + 1;
	return take_value(r, i);
}

static taut_status fill_presets(struct reader *r)
{
	const struct taut_transformation_info *info = &r->change->is->info;

	for (size_t i = 0; i < info->n_parameters; i++) {
		const struct taut_parameter *p = &info->parameters[i];

		if (r->values[i])
			continue;
		r->values[i] = p->preset;
		if (!p->preset)
			return taut_error_set(r->err, TAUT_EINVAL, -1,
				"%s: expected %s%s%s=%s%s", info->name,
				info->name, *p->name ? ",...," : "", p->name,
				p->form, *p->name ? "" : ", found no value");
	}
	return TAUT_OK;
}

static taut_status take_main_value(struct reader *r)
{
	const struct taut_transformation_info *info = &r->change->is->info;
	size_t i = find_key(info, "", 0);

	if (i == info->n_parameters)
		return taut_error_set(r->err, TAUT_EINVAL, -1, "%s takes no "
			"value of its own; --list %s shows its parameters",
			info->name, info->name);
	return take_value(r, i);
}

taut_status tauti_change_read(const char *text, struct taut_arena *arena,
	struct tauti_change *ret_change, struct taut_error *err)
{
	size_t len = strcspn(text, ",=");
	struct tauti_change change = { find(text, len), NULL, NULL };
	struct reader r = { &change, NULL, text + len, arena, err };
	taut_status status = TAUT_OK;

	if (!change.is)
		return unknown_change(text, len, err);
	r.values = TAUT_ARENA_ARRAY(
		arena, const char *, change.is->info.n_parameters + 1);
	change.text = taut_arena_strndup(arena, text, strlen(text));
	if (!r.values || !change.text)
		return no_memory(err);
	if (*r.at == '=') {
		r.at++;
		status = take_main_value(&r);
	}
	while (!status && *r.at == ',') {
		r.at++;
		status = take_key(&r);
	}
	if (!status)
		status = fill_presets(&r);
	change.values = r.values;
	if (!status)
		*ret_change = change;
	return status;
}

/* --- values ------------------------------------------------------------------------ */

bool tauti_param_given(const struct tauti_change *c, size_t i)
{
	return *c->values[i] != '\0';
}

taut_status tauti_param_wrong(const struct tauti_change *c, size_t i,
	const char *expected, struct taut_error *err)
{
	const char *key = c->is->info.parameters[i].name;

	return taut_error_set(err, TAUT_EINVAL, -1,
		"%s: %s: expected %s, found '%.80s'", c->is->info.name,
		*key ? key : "value", expected, c->values[i]);
}

/* Digits, perhaps with a point: no sign, no exponent. False: none, or more
 * than a double tells apart. *at is behind it. */
static bool read_number(const char **at, double *ret)
{
	double value = 0, place = 1;
	int digits = 0;

	for (; isdigit((unsigned char)**at); ++*at, digits++)
		value = value * 10 + (**at - '0');
	if (**at == '.') {
		for (++*at; isdigit((unsigned char)**at); ++*at, digits++) {
			value = value * 10 + (**at - '0');
			place *= 10;
		}
	}
	*ret = value / place;
	return digits > 0 && digits <= 15;
}

taut_status tauti_param_count(const struct tauti_change *c, size_t i,
	uint32_t least, uint32_t most, uint32_t *ret, struct taut_error *err)
{
	char expected[64];
	const char *at = c->values[i];
	double value;

	snprintf(expected, sizeof expected, "a whole number from %u to %u",
		least, most);
	if (strchr(at, '.') || !read_number(&at, &value) || *at ||
		value < least || value > most)
		return tauti_param_wrong(c, i, expected, err);
	*ret = (uint32_t)value;
	return TAUT_OK;
}

/* A real in a message, without what no one wrote. */
static void put_bound(char text[32], double value)
{
	snprintf(text, 32, "%.10g", value);
	for (char *s = text; *s; s++)
		if (*s == ',')
			*s = '.';
}

taut_status tauti_param_number(const struct tauti_change *c, size_t i,
	double least, double most, double *ret, struct taut_error *err)
{
	char expected[96], low[32], high[32];
	const char *at = c->values[i];
	double value;

	put_bound(low, least);
	put_bound(high, most);
	snprintf(expected, sizeof expected, "a number from %s to %s", low,
		high);
	if (!read_number(&at, &value) || *at || value < least || value > most)
		return tauti_param_wrong(c, i, expected, err);
	*ret = value;
	return TAUT_OK;
}

struct suffix {
	const char *text;
	double times;
};

static const struct suffix rates[] = {
	{ "bit", 1 }, { "kbit", 1e3 }, { "mbit", 1e6 }, { "gbit", 1e9 },
	{ "tbit", 1e12 }, { NULL, 0 } };
static const struct suffix sizes[] = {
	{ "", 1 }, { "b", 1 }, { "kb", 1e3 }, { "mb", 1e6 }, { "gb", 1e9 },
	{ "kib", 1024 }, { "mib", 1048576 }, { "gib", 1073741824 },
	{ "tb", 1e12 }, { "tib", 1099511627776 }, { NULL, 0 } };
static const struct suffix byte_rates[] = {
	{ "b", 1 }, { "kb", 1e3 }, { "mb", 1e6 }, { "gb", 1e9 },
	{ "kib", 1024 }, { "mib", 1048576 }, { "gib", 1073741824 },
	{ "kbit", 125 }, { "mbit", 125e3 }, { "gbit", 125e6 }, { NULL, 0 } };
static const struct suffix times[] = {
	{ "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { NULL, 0 } };
static const struct suffix plain[] = { { "", 1 }, { NULL, 0 } };

static const struct {
	const struct suffix *suffixes;
	const char *expected;
} units[] = {
	[TAUTI_BITS_PER_S] = { rates, "a rate like 4gbit or 250mbit, or a "
		"factor like 2x, +25% or -10%" },
	[TAUTI_BYTES] = { sizes, "a size like 25MB or 512KiB, or a factor "
		"like 2x, +25% or -10%" },
	[TAUTI_NS] = { times, "a time like 50us or 1.5ms, or a factor like "
		"2x, +25% or -10%" },
	[TAUTI_PLAIN] = { plain, "a number, or a factor like 2x, +25% or "
		"-10%" },
	[TAUTI_BYTES_PER_S] = { byte_rates, "a rate like 500MB/s or 2GB/s, or "
		"a factor like 2x, +25% or -10%" },
};

/* What the suffix multiplies by; 0: it is none. "/s" and "ps" of rates are
 * taken as read. */
static double suffix_of(enum tauti_unit unit, const char *text)
{
	size_t len = strlen(text);

	if ((unit == TAUTI_BITS_PER_S || unit == TAUTI_BYTES_PER_S) &&
		len > 2 &&
		(!strcasecmp(text + len - 2, "/s") ||
		!strcasecmp(text + len - 2, "ps")))
		len -= 2;
	for (const struct suffix *s = units[unit].suffixes; s->text; s++)
		if (strlen(s->text) == len && !strncasecmp(s->text, text, len))
			return s->times;
	return 0;
}

taut_status tauti_param_scaled(const struct tauti_change *c, size_t i,
	enum tauti_unit unit, bool *ret_is_factor, double *ret,
	struct taut_error *err)
{
	const char *at = c->values[i];
	int sign = *at == '+' ? 1 : *at == '-' ? -1 : 0;
	double value, times_of;

	at += sign != 0;
	if (!read_number(&at, &value))
		return tauti_param_wrong(c, i, units[unit].expected, err);
	if (sign && !strcmp(at, "%") && 1 + sign * value / 100 >= 0) {
		*ret_is_factor = true;
		*ret = 1 + sign * value / 100;
		return TAUT_OK;
	}
	if (!sign && (!strcmp(at, "x") || !strcmp(at, "X"))) {
		*ret_is_factor = true;
		*ret = value;
		return TAUT_OK;
	}
	times_of = suffix_of(unit, at);
	if (sign || times_of == 0)
		return tauti_param_wrong(c, i, units[unit].expected, err);
	*ret_is_factor = false;
	*ret = value * times_of;
	return TAUT_OK;
}

/* A factor may begin with a sign. */
bool tauti_param_is_row(const struct tauti_change *c, size_t i)
{
	return *c->values[i] && strchr(c->values[i] + 1, '+');
}

/* 0: it is no size. */
static double size_of(const char *text, size_t len)
{
	char part[NAME_BYTES];
	const char *at = cut(text, len, part);
	double value;

	return len < NAME_BYTES && read_number(&at, &value) ?
		value * suffix_of(TAUTI_BYTES, at) : 0;
}

taut_status tauti_param_sizes(const struct tauti_change *c, size_t i,
	struct taut_arena *arena, double **ret_bytes, uint32_t *ret_n,
	struct taut_error *err)
{
	const char *at = c->values[i];
	double *bytes = TAUT_ARENA_ARRAY(arena, double, strlen(at) + 1);
	uint32_t n = 0;

	if (!bytes)
		return no_memory(err);
	for (;; at++) {
		size_t len = strcspn(at, "+");

		bytes[n] = size_of(at, len);
		if (!(bytes[n++] > 0))
			return tauti_param_wrong(c, i, "a size, or one of each "
				"bucket like 1MiB+4MiB", err);
		at += len;
		if (!*at)
			break;
	}
	*ret_bytes = bytes;
	*ret_n = n;
	return TAUT_OK;
}

bool tauti_param_share(const struct tauti_change *c, size_t i, double *ret)
{
	const char *at = c->values[i];
	double value;

	if (!read_number(&at, &value) || strcmp(at, "%"))
		return false;
	*ret = value / 100;
	return true;
}

taut_status tauti_param_word(const struct tauti_change *c, size_t i,
	uint32_t *ret, struct taut_error *err)
{
	const char *form = c->is->info.parameters[i].form;
	size_t len = strlen(c->values[i]);
	uint32_t n = 0;
	char expected[160];

	for (const char *word = form;; n++) {
		size_t end = strcspn(word, "|");

		if (end == len && !strncmp(word, c->values[i], len)) {
			*ret = n;
			return TAUT_OK;
		}
		if (!word[end])
			break;
		word += end + 1;
	}
	snprintf(expected, sizeof expected, "one of %s", form);
	return tauti_param_wrong(c, i, expected, err);
}
