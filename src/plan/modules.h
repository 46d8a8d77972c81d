/* modules.h - modules that a recording names, and what else its facts tell.
 * Owner: texts are in the caller's arena. */
#ifndef TAUT_PLAN_MODULES_H
#define TAUT_PLAN_MODULES_H

#include <stdbool.h>

#include <taut/graph.h>

enum { TAUTI_PLAN_PATTERNS = 6 }; /* at most */

/* "nn.Module: blocks.*", once each; the first is none. */
struct tauti_plan_modules {
	const char *patterns[1 + TAUTI_PLAN_PATTERNS];
	uint32_t n;
};

/* False: no memory. Those that stand in a row, blocks.0, blocks.1, which is worth making
 * again one by one. */
bool tauti_plan_modules(const struct taut_graph *graph, struct taut_arena *arena,
	struct tauti_plan_modules *modules);
/* Those of which the recording tells what compiling them gives. */
bool tauti_plan_compiled(const struct taut_graph *graph, struct taut_arena *arena,
	struct tauti_plan_modules *modules);
/* Of any rank, one whose key begins so. */
bool tauti_plan_has_fact(const struct taut_graph *graph, const char *begin);

#endif /* TAUT_PLAN_MODULES_H */
