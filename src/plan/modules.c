/* modules.c - see modules.h. */
#include "plan/modules.h"

#include <ctype.h>
#include <string.h>

static const char prefix[] = "nn.Module: ";
static const char compiled[] = "compile.";

/* Once each. False: it is NULL, for want of memory. */
static bool add(struct tauti_plan_modules *found, const char *pattern)
{
	uint32_t k = 1;

	while (pattern && k < found->n && strcmp(found->patterns[k], pattern))
		k++;
	if (pattern && k == found->n && k <= TAUTI_PLAN_PATTERNS)
		found->patterns[found->n++] = pattern;
	return pattern != NULL;
}

/* Bytes of the name before its number; 0: it is none of a row. */
static size_t row_of(const char *name)
{
	size_t n = strlen(name), digits = 0;

	if (strncmp(name, prefix, sizeof prefix - 1))
		return 0;
	while (digits < n && isdigit((unsigned char)name[n - 1 - digits]))
		digits++;
	return digits && n > digits + sizeof prefix &&
		name[n - 1 - digits] == '.' ? n - digits : 0;
}

/* A call of a module is no operation of the graph, but an event of its trace. */
bool tauti_plan_modules(const struct taut_graph *graph, struct taut_arena *arena,
	struct tauti_plan_modules *modules)
{
	for (uint32_t r = 0; r < graph->run->n_traces; r++) {
		const struct taut_names *names = graph->run->traces[r].names;

		for (uint32_t i = 0; i < taut_names_count(names); i++) {
			const char *name = taut_names_text(names, i);
			size_t n = row_of(name);

			if (n && !add(modules, taut_arena_printf(
				arena, "%.*s*", (int)n, name)))
				return false;
		}
	}
	return true;
}

bool tauti_plan_compiled(const struct taut_graph *graph, struct taut_arena *arena,
	struct tauti_plan_modules *modules)
{
	for (uint32_t r = 0; r < graph->run->n_traces; r++)
		for (size_t i = 0; i < graph->run->traces[r].n_facts; i++) {
			const char *key = graph->run->traces[r].facts[i].key;

			if (!strncmp(key, compiled, sizeof compiled - 1) &&
				!add(modules, taut_arena_printf(arena, "%s%s",
				prefix, key + sizeof compiled - 1)))
				return false;
		}
	return true;
}

bool tauti_plan_has_fact(const struct taut_graph *graph, const char *begin)
{
	for (uint32_t r = 0; r < graph->run->n_traces; r++)
		for (size_t i = 0; i < graph->run->traces[r].n_facts; i++)
			if (!strncmp(graph->run->traces[r].facts[i].key, begin,
				strlen(begin)))
				return true;
	return false;
}
