/* rows.c - rows of a table, read and written. */
#include "coll/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { FIELDS = 7, WORD_BYTES = 24 };

struct line {
	const char *name;
	uint64_t number;
	char words[FIELDS][WORD_BYTES];
};

static taut_status expected(const struct line *line, const char *what,
	const char *found, struct taut_error *reterr)
{
	return taut_error_set(reterr, TAUT_EFORMAT, -1,
		"%s:%" PRIu64 ": expected %s, found '%s'", line->name,
		line->number, what, found);
}

/* --- words -----------------------------------------------------------------------------*/

/* 0 <= least <= *ret_value <= most. */
static taut_status read_number(const struct line *line, int word,
	const char *what, uint64_t least, uint64_t most, uint64_t *ret_value,
	struct taut_error *reterr)
{
	const char *text = line->words[word];
	uint64_t value = 0;

	for (const char *at = text; *at; at++) {
		uint64_t digit = (uint64_t)(*at - '0');

		if (*at < '0' || *at > '9' || value > (most - digit) / 10)
			return expected(line, what, text, reterr);
		value = value * 10 + digit;
	}
	if (value < least || value > most)
		return expected(line, what, text, reterr);
	*ret_value = value;
	return TAUT_OK;
}

/* Or '*', which is 0. */
static taut_status read_how_many(const struct line *line, int word,
	const char *what, uint32_t *ret_value, struct taut_error *reterr)
{
	uint64_t value = 0;
	taut_status status = TAUT_OK;

	if (strcmp(line->words[word], "*") != 0)
		status = read_number(line, word, what, 1, TAUT_COLL_RANKS,
			&value, reterr);
	*ret_value = (uint32_t)value;
	return status;
}

static taut_status read_verb(const struct line *line,
	enum taut_coll_verb *ret_verb, struct taut_error *reterr)
{
	for (int i = 0; i < TAUT_VERBS; i++) {
		if (strcmp(line->words[0],
			taut_coll_verb_name((enum taut_coll_verb)i)) != 0)
			continue;
		*ret_verb = (enum taut_coll_verb)i;
		return TAUT_OK;
	}
	return expected(line, "allreduce, reduce_scatter, allgather or "
		"broadcast", line->words[0], reterr);
}

static taut_status read_way(const struct line *line, enum taut_coll_verb verb,
	enum taut_coll_way *ret_way, struct taut_error *reterr)
{
	for (int i = 0; i < TAUT_WAYS; i++) {
		enum taut_coll_way way = (enum taut_coll_way)i;

		if (way == TAUT_WAY_AUTO || !taut_coll_has(verb, way) ||
			strcmp(line->words[4], taut_coll_way_name(way)) != 0)
			continue;
		*ret_way = way;
		return TAUT_OK;
	}
	return expected(line, "a way that the verb has", line->words[4], reterr);
}

static taut_status read_row(const struct line *line,
	struct taut_coll_choice *row, struct taut_error *reterr)
{
	uint64_t passes = 0;
	taut_status status = read_verb(line, &row->verb, reterr);

	if (!status)
		status = read_how_many(line, 1, "ranks: * or 1 to 2048",
			&row->n_ranks, reterr);
	if (!status)
		status = read_how_many(line, 2, "hosts: * or 1 to 2048",
			&row->n_hosts, reterr);
	if (!status)
		status = read_number(line, 3, "bytes from which it holds", 0,
			INT64_MAX, &row->from_bytes, reterr);
	if (!status)
		status = read_way(line, row->verb, &row->way, reterr);
	if (!status)
		status = read_number(line, 5, "bytes of a pass, or 0: all", 0,
			INT64_MAX, &row->pass_bytes, reterr);
	if (!status)
		status = read_number(line, 6, "passes at once: 1 to 64", 1,
			TAUTI_PASSES_AT_ONCE, &passes, reterr);
	row->passes_at_once = (uint32_t)passes;
	return status;
}

/* --- lines -----------------------------------------------------------------------------*/

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Up to the comment; what is too long for a word is cut, and then is none. */
static int split(struct line *line, const char *at, const char *end)
{
	int n = 0;

	for (;; n++) {
		size_t length = 0;

		while (at < end && is_space(*at))
			at++;
		if (at == end || *at == '#')
			return n;
		for (; at < end && !is_space(*at) && *at != '#'; at++)
			if (n < FIELDS && length < WORD_BYTES - 1)
				line->words[n][length++] = *at ? *at : '?';
		if (n < FIELDS)
			line->words[n][length] = '\0';
	}
}

static taut_status add_line(struct line *line, const char *at, const char *end,
	tauti_rows *rows, struct taut_error *reterr)
{
	struct taut_coll_choice row = { .n_ranks = 0 };
	int n = split(line, at, end);
	taut_status status;

	if (!n)
		return TAUT_OK;
	if (n != FIELDS)
		return taut_error_set(reterr, TAUT_EFORMAT, -1, "%s:%" PRIu64
			": expected 7 words (verb, ranks, hosts, from_bytes, "
			"way, pass_bytes, passes_at_once), found %d",
			line->name, line->number, n);
	if (rows->count >= TAUTI_TABLE_ROWS)
		return taut_error_set(reterr, TAUT_EFORMAT, -1,
			"%s:%" PRIu64 ": expected at most %d rows", line->name,
			line->number, TAUTI_TABLE_ROWS);
	status = read_row(line, &row, reterr);
	if (!status && !taut_vec_push(rows, row))
		status = taut_error_set(reterr, TAUT_ENOMEM, -1,
			"%s: out of memory", line->name);
	return status;
}

taut_status tauti_rows_parse(const char *text, size_t bytes, const char *name,
	tauti_rows *rows, struct taut_error *reterr)
{
	struct line line = { .name = name };
	taut_status status = TAUT_OK;
	size_t at = 0;

	while (at < bytes && !status) {
		const char *end = memchr(text + at, '\n', bytes - at);
		size_t length = end ? (size_t)(end - (text + at)) : bytes - at;

		line.number++;
		status = add_line(&line, text + at, text + at + length, rows,
			reterr);
		at += length + 1;
	}
	return status;
}

/* --- files -----------------------------------------------------------------------------*/

/* More than all rows of a file need. */
enum { MOST_BYTES = TAUTI_TABLE_ROWS * TAUTI_TABLE_ROW_BYTES };

taut_status tauti_rows_read(
	const char *path, tauti_rows *rows, struct taut_error *reterr)
{
	FILE *file = fopen(path, "rb");
	char *text = malloc(MOST_BYTES);
	size_t bytes = file && text ? fread(text, 1, MOST_BYTES, file) : 0;
	taut_status status;

	if (!text)
		status = taut_error_set(reterr, TAUT_ENOMEM, -1,
			"%s: out of memory", path);
	else if (!file || ferror(file))
		status = taut_error_set(reterr, TAUT_EIO, -1, "%s: %s", path,
			strerror(errno));
	else if (bytes == MOST_BYTES)
		status = taut_error_set(reterr, TAUT_EFORMAT, -1, "%s: expected "
			"a table of collectives of less than %d bytes", path,
			MOST_BYTES);
	else
		status = tauti_rows_parse(text, bytes, path, rows, reterr);
	free(text);
	if (file)
		fclose(file);
	return status;
}

static void number_text(uint32_t value, char *text, size_t bytes)
{
	if (value)
		snprintf(text, bytes, "%" PRIu32, value);
	else
		snprintf(text, bytes, "*");
}

size_t tauti_row_text(const struct taut_coll_choice *row, char *text)
{
	char ranks[WORD_BYTES], hosts[WORD_BYTES];

	number_text(row->n_ranks, ranks, sizeof ranks);
	number_text(row->n_hosts, hosts, sizeof hosts);
	return (size_t)snprintf(text, TAUTI_TABLE_ROW_BYTES,
		"%-14s %4s %4s %12" PRIu64 " %-9s %12" PRIu64 " %3" PRIu32 "\n",
		taut_coll_verb_name(row->verb), ranks, hosts, row->from_bytes,
		taut_coll_way_name(row->way), row->pass_bytes,
		row->passes_at_once);
}

uint64_t tauti_rows_hash(const struct taut_coll_choice *rows, size_t n_rows)
{
	uint64_t hash = TAUTI_HASH_A;

	for (size_t i = 0; i < n_rows; i++) {
		const struct taut_coll_choice *row = &rows[i];
		const uint64_t words[] = { row->verb, row->n_ranks,
			row->n_hosts, row->from_bytes, row->way,
			row->pass_bytes, row->passes_at_once };

		for (size_t k = 0; k < sizeof words / sizeof *words; k++)
			hash = tauti_hash_mix(
				hash ^ TAUTI_HASH_B, words[k] ^ TAUTI_HASH_C);
	}
	return hash;
}
