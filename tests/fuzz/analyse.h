/* analyse.h - any bytes as a run, its graph and its stragglers: what the
 * headers promise of them, whatever the bytes. */
#ifndef TAUT_TESTS_FUZZ_ANALYSE_H
#define TAUT_TESTS_FUZZ_ANALYSE_H

#include <taut/stragglers.h>

#include "tests/fuzz/source.h"

static inline void analyse_check(const struct taut_stragglers *s)
{
	MUST(s->sentence && s->sentence[0] && !strchr(s->sentence, '\n'));
	MUST(s->slowdown >= 0 && s->launch_slowdown >= 0);
	for (uint32_t i = 0; i < s->n_steps; i++) {
		MUST(s->steps[i].measured_ns >= 0);
		MUST(s->steps[i].nodelay_ns >= 0);
		MUST(s->steps[i].ideal_ns >= 0);
	}
	for (int by = 0; by < TAUT_STRAGGLER_BY; by++)
		for (uint32_t i = 0; i < s->by[by].n; i++) {
			const struct taut_straggler_row *row =
				&s->by[by].rows[i];
			MUST(row->slowdown >= 0);
			MUST(!i || row[-1].slowdown >= row->slowdown);
		}
}

/* A told graph replays without a circle, as long as its times fit. */
static inline void analyse_graph(const struct taut_run *run)
{
	struct taut_graph *graph = NULL;
	struct taut_stragglers *stragglers = NULL;
	struct taut_graph_options one = { .threads = 1 };
	struct taut_straggler_options how = { .threads = 1 };
	struct taut_error err = { 0 };
	taut_status status = taut_graph_build(run, &one, &graph, &err);
	MUST(status == TAUT_OK || status == TAUT_EFORMAT);
	if (status == TAUT_OK)
		status = taut_stragglers_find(
			graph, &how, &stragglers, &err);
	MUST(status == TAUT_OK || status == TAUT_EFORMAT ||
		status == TAUT_EINVAL);
	MUST(status == TAUT_OK || err.message[0]);
	if (stragglers)
		analyse_check(stragglers);
	taut_stragglers_destroy(stragglers);
	taut_graph_destroy(graph);
}

static inline void analyse(const void *bytes, size_t len)
{
	struct taut_run *run = NULL;
	struct taut_error err = { 0 };
	taut_status status = taut_run_open_memory(
		"t", bytes, len, -1, &run, &err);
	if (status == TAUT_OK)
		analyse_graph(run);
	else
		MUST(err.message[0] && !strchr(err.message, '\n'));
	taut_run_close(run);
}

/* A table behind a header: held in pieces of 64 bytes or as usual, the outcome
 * must be the same; what is read is analysed to the end. */
static inline void analyse_table(
	const char *header, const uint8_t *data, size_t size)
{
	struct source small, usual;
	size_t head = strlen(header);
	char *text = malloc(head + size); /* no byte more: overreads show */
	if (!text)
		return;
	memcpy(text, header, head);
	memcpy(text + head, data, size);
	source_begin(&small, 64);
	source_begin(&usual, 0);
	source_read(&small, text, head + size);
	source_read(&usual, text, head + size);
	source_end(&small);
	source_end(&usual);
	source_same(&small, &usual);
	tauti_builder_fini(&small.builder);
	tauti_builder_fini(&usual.builder);
	analyse(text, head + size);
	free(text);
}

#endif /* TAUT_TESTS_FUZZ_ANALYSE_H */
