/* lanes.h - what the page and the files ask of a rank: the names of its
 * lanes, its collectives.
 * Owner:   tauti_members_find() gives arrays of its own; free with _free.
 * Threads: read-only once made.
 * Units:   nanoseconds on the graph's clock. */
#ifndef TAUT_REPORT_LANES_H
#define TAUT_REPORT_LANES_H

#include <taut/graph.h>

/* "stream 7", "thread 2590092 (python)"; cut to size. */
void tauti_lane_title(const struct taut_trace *trace, uint32_t lane,
	char *ret_title, size_t size);

/* One rank's part in one collective. */
struct tauti_member {
	uint32_t row;        /* of the trace: kernel or operator */
	uint32_t collective; /* in the graph */
	uint32_t last;       /* index in run->traces of the last arrival */
	int64_t arrive, begin, end; /* waits in arrive..begin, then moves */
};

struct tauti_members {
	struct tauti_member *data; /* by (trace, row) */
	uint32_t *begin;           /* n_traces + 1 */
};

taut_status tauti_members_find(const struct taut_graph *graph,
	struct tauti_members *ret_members, struct taut_error *reterr);
void tauti_members_free(struct tauti_members *members);

/* What the innermost event that is open at row and tells of a communication
 * tells; NULL: none does. */
const struct taut_comm_args *tauti_comm_around(
	const struct taut_trace *trace, uint32_t row);

enum tauti_side { TAUTI_SIDE_NONE, TAUTI_SIDE_SEND, TAUTI_SIDE_RECV };

/* What the trace's rank does in a communication of two, by the ranks that it tells. */
enum tauti_side tauti_side_of(
	const struct taut_trace *trace, const struct taut_comm_args *args);

#endif /* TAUT_REPORT_LANES_H */
