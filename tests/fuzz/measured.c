/* measured.c - what a rank of taut run writes of its steps. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/measured.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void broken(const char *what)
{
	fprintf(stderr, "broken: %s\n", what);
	abort();
}

static void check(const struct measured *m)
{
	if (m->n_ranks != 1 || m->mean_ns < 0 || m->median_ns < 0 || m->error_ns < 0 ||
		m->memory_bytes < -1 || (!m->n_steps && m->mean_ns))
		broken("no numbers of one rank");
	for (uint32_t i = 0; i < m->n_missed; i++)
		if (!strstr(m->missed[i], ": "))
			broken("a decision without a reason");
	if (measured_is_better(m, m, 0))
		broken("better than itself");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct taut_arena *arena = taut_arena_create();
	struct taut_error err = { .message = "" };
	struct measured m;
	taut_status status;

	if (!arena)
		return 0;
	status = measured_parse(
		(const char *)data, size, "input", arena, &m, &err);
	if (status == TAUT_EFORMAT && strncmp(err.message, "input:", 6))
		broken("a refusal does not name the file");
	if (!status)
		check(&m);
	taut_arena_destroy(arena);
	return 0;
}
