/* embeddings.c - what two ranks tell of lookups, a line each: the rank, 0 or 1, then the
 * fact's key, '=', and its value. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "whatif/rows.h"

enum { RANKS = 2, MOST_FACTS = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void broken(const char *what)
{
	fprintf(stderr, "broken: %s\n", what);
	abort();
}

/* Of each rank; into text, which is cut into them. */
static void cut(char *text, struct taut_fact facts[RANKS][MOST_FACTS],
	struct taut_trace traces[RANKS])
{
	char *rest = NULL;

	for (char *line = strtok_r(text, "\n", &rest); line;
		line = strtok_r(NULL, "\n", &rest)) {
		char *value = strchr(line, '=');
		int rank = line[0] == '1';
		size_t *n = &traces[rank].n_facts;

		if (!value || *n == MOST_FACTS)
			continue;
		*value = '\0';
		facts[rank][(*n)++] = (struct taut_fact) { line + 1, value + 1 };
	}
}

static void check(const struct tauti_embedding *e)
{
	if (!e->rows || !e->row_bytes || e->looked_up > e->rows ||
		e->row_bytes > INT64_MAX / e->rows)
		broken("rows that cannot be");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct taut_arena *arena = taut_arena_create();
	char *text = arena ? taut_arena_strndup(
		arena, (const char *)data, size) : NULL;
	static struct taut_fact facts[RANKS][MOST_FACTS];
	struct taut_trace traces[RANKS] = { { .facts = facts[0] },
		{ .facts = facts[1] } };
	const struct taut_run run = { .n_traces = RANKS, .traces = traces };
	struct tauti_embedding *list;
	struct taut_error err = { .message = "" };
	uint32_t n;
	taut_status status;

	if (text)
		cut(text, facts, traces);
	status = text ? tauti_embeddings(&run, arena, &list, &n, &err) :
		TAUT_ENOMEM;
	if (status == TAUT_EINVAL && (strncmp(err.message, "rows: fact ", 11) ||
		strchr(err.message, '\n')))
		broken("a refusal does not name the fact in one line");
	for (uint32_t i = 0; !status && i < n; i++)
		check(&list[i]);
	taut_arena_destroy(arena);
	return 0;
}
