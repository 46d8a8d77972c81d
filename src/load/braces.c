/* braces.c - shards-{000..099}.tar: the paths that one text stands for.
 *
 * As in a shell: a list {a,b} and a range of numbers {8..11}, filled up with zeros where
 * one of its ends is written so. Other braces mean themselves. */
#include "load/set.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIGITS = 17, MOST_BYTES = 65536 };

struct braces {
	const char *text; /* all of it, for faults */
	size_t most, n;
	taut_status (*each)(void *context, const char *path, struct taut_error *err);
	void *context;
};

struct group { /* '{' at `open` .. '}' at `close` */
	const char *open, *close;
	const char *comma; /* the first between them that is in no inner braces */
};

static taut_status expand(
	struct braces *braces, const char *text, struct taut_error *err);

/* The group that begins at open; false: it does not end. */
static bool close_group(const char *open, struct group *ret)
{
	unsigned depth = 0;

	*ret = (struct group){ .open = open };
	for (const char *at = open; *at; at++) {
		depth += *at == '{';
		if (*at == ',' && depth == 1 && !ret->comma)
			ret->comma = at;
		if (*at == '}' && --depth == 0) {
			ret->close = at;
			return true;
		}
	}
	return false;
}

/* Digits at *at, which moves behind them; -1: there are none, or too many. */
static int64_t read_digits(const char **at)
{
	const char *begin = *at;
	int64_t value = 0;

	while (**at >= '0' && **at <= '9' && *at - begin <= MOST_DIGITS)
		value = value * 10 + *(*at)++ - '0';
	return *at == begin || *at - begin > MOST_DIGITS ? -1 : value;
}

struct range {
	int64_t first, last;
	int digits;
};

static bool read_range(const struct group *group, struct range *ret)
{
	const char *from = group->open + 1, *at = from, *to;
	int wide, wide_too;

	ret->first = read_digits(&at);
	if (ret->first < 0 || at[0] != '.' || at[1] != '.')
		return false;
	wide = (int)(at - from);
	to = at += 2;
	ret->last = read_digits(&at);
	if (ret->last < 0 || at != group->close)
		return false;
	wide_too = (int)(at - to);
	ret->digits = 1;
	if ((*from == '0' && wide > 1) || (*to == '0' && wide_too > 1))
		ret->digits = wide > wide_too ? wide : wide_too;
	return true;
}

/* What is before the group, these bytes, what is behind it. */
static taut_status expand_as(struct braces *braces, const char *text,
	const struct group *group, const char *bytes, size_t n, struct taut_error *err)
{
	size_t before = (size_t)(group->open - text), behind = strlen(group->close + 1);
	char *joined = malloc(before + n + behind + 1);
	taut_status status;

	if (!joined)
		return tauti_set_no_memory(braces->text, err);
	memcpy(joined, text, before);
	memcpy(joined + before, bytes, n);
	memcpy(joined + before + n, group->close + 1, behind + 1);
	status = expand(braces, joined, err);
	free(joined);
	return status;
}

static taut_status expand_range(struct braces *braces, const char *text,
	const struct group *group, const struct range *range, struct taut_error *err)
{
	int64_t step = range->last < range->first ? -1 : 1;

	for (int64_t i = range->first;; i += step) {
		char number[MOST_DIGITS + 8];
		int n = snprintf(number, sizeof number, "%0*" PRId64,
			range->digits, i);
		taut_status status =
			expand_as(braces, text, group, number, (size_t)n, err);

		if (status || i == range->last)
			return status;
	}
}

static taut_status expand_list(struct braces *braces, const char *text,
	const struct group *group, struct taut_error *err)
{
	const char *begin = group->open + 1;
	unsigned depth = 0;

	for (const char *at = begin; at <= group->close; at++) {
		taut_status status;

		if (depth == 0 && (*at == ',' || at == group->close)) {
			status = expand_as(braces, text, group, begin,
				(size_t)(at - begin), err);
			if (status)
				return status;
			begin = at + 1;
		}
		depth += *at == '{';
		depth -= *at == '}' && depth;
	}
	return TAUT_OK;
}

static taut_status give(
	struct braces *braces, const char *path, struct taut_error *err)
{
	if (braces->n++ == braces->most)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"%s: its braces stand for more than %zu files",
			braces->text, braces->most);
	return braces->each(braces->context, path, err);
}

static taut_status expand(
	struct braces *braces, const char *text, struct taut_error *err)
{
	const char *open = text;
	struct group group;
	struct range range;

	while ((open = strchr(open, '{'))) {
		if (!close_group(open, &group))
			return taut_error_set(err, TAUT_EINVAL, -1,
				"%s: a brace is opened and not closed",
				braces->text);
		if (group.comma)
			return expand_list(braces, text, &group, err);
		if (read_range(&group, &range))
			return expand_range(braces, text, &group, &range, err);
		open++;
	}
	return give(braces, text, err);
}

taut_status tauti_braces(const char *text, size_t most,
	taut_status (*each)(void *context, const char *path, struct taut_error *err),
	void *context, struct taut_error *err)
{
	struct braces braces = { .text = text, .most = most, .each = each,
		.context = context };

	if (strlen(text) >= MOST_BYTES)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"%s: a path of more than %d bytes", text, MOST_BYTES - 1);
	return expand(&braces, text, err);
}
