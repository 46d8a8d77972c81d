/* steady.h - the one figure by which a job is judged: its usual step. */
#ifndef TAUT_REPLAY_STEADY_H
#define TAUT_REPLAY_STEADY_H

#include <taut/graph.h>

/* The median of took_ns (by step of the graph; overwritten) over all steps but
 * each rank's first, where it has more. -1: there are no steps. */
int64_t tauti_steady(const struct taut_graph *graph, int64_t *took_ns);

#endif /* TAUT_REPLAY_STEADY_H */
