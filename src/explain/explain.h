/* explain.h - what the files of this room share.
 *
 * explain.c runs them in this order; each fills its part of the report:
 *   tauti_facts_find    per rank: streams, data waits, modules
 *   tauti_stalls_find   how long host slices usually take
 *   tauti_steps_split   step times and their categories, device spans
 *   tauti_colls_sum     collectives: transfer, waits, last arrivals
 *   tauti_wire_sum      chunks by link: device, peer or network late
 *   tauti_memory_peaks  peaks of memory, measured and replayed
 *   tauti_path_walk     the critical path and its tables
 *   tauti_late_find     who is late, and why
 *   tauti_removals_run  replays with one cause taken away
 *   tauti_findings_say  sentences
 *
 * Units: nanoseconds on the graph's clock. */
#ifndef TAUT_EXPLAIN_INTERNAL_H
#define TAUT_EXPLAIN_INTERNAL_H

#include <stdbool.h>

#include <taut/report.h>

struct tauti_range {
	int64_t start, end;
};

/* What is known of one rank before anything is counted. */
struct tauti_facts {
	uint32_t trace;
	bool has_device;      /* else its host threads are the device */
	bool has_operators;   /* else what a host does between the events is
	                         all that is known of its computing */
	uint32_t main_lane;   /* graph lane */
	uint32_t first_lane, end_lane; /* graph lanes of the rank */
	uint32_t first_step, end_step; /* graph steps of the rank */
	struct tauti_range *data; /* the host waits for a batch; by start */
	uint32_t n_data;
	uint32_t *module_of; /* by trace row: name of its module in the graph's
	                        names, 0 none; NULL when nothing names one */
};

struct tauti_explain {
	const struct taut_graph *g;
	struct taut_report *report;
	struct taut_arena *arena;
	struct taut_timeline base; /* the unchanged replay; removals use it up */
	int64_t step_ns;           /* tauti_step_time() of it */
	struct tauti_facts *facts; /* by trace */
	uint32_t *launch_of;       /* by op: the OP_LAUNCH that put it there */
	uint8_t *op_category;      /* by op: enum taut_category of its time */
	int64_t *usual_ns;         /* by name: usual length of its host slices */
	const char **module_names; /* texts of module_of ids */
	uint32_t n_modules;
	unsigned threads;
};

static inline int64_t tauti_end(const struct taut_graph *g, uint32_t op)
{
	return g->start_ns[op] + g->dur_ns[op];
}

static inline uint32_t tauti_rank_of(const struct taut_graph *g, uint32_t op)
{
	return g->lanes[g->lane[op]].trace;
}

static inline bool tauti_is_device_op(uint8_t kind)
{
	return kind == TAUT_OP_KERNEL || kind == TAUT_OP_COPY ||
		kind == TAUT_OP_ARRIVE || kind == TAUT_OP_TRANSFER;
}

static inline bool tauti_is_host_op(uint8_t kind)
{
	return kind == TAUT_OP_HOST || kind == TAUT_OP_LAUNCH ||
		kind == TAUT_OP_RETURN;
}

/* The part of device work's start that no known wait explains. Work whose
 * launch was before the recording still waits for what runs before it on its
 * stream; a worker thread whose call is not known just had none. */
static inline int64_t tauti_unexplained(const struct tauti_explain *x,
	uint32_t op)
{
	const struct taut_graph *g = x->g;

	if (!tauti_is_device_op(g->kind[op]) || g->gap_ns[op] <= 0)
		return 0;
	if (x->launch_of[op] != TAUT_NONE)
		return g->gap_ns[op];
	return op > g->lane_begin[g->lane[op]] &&
		g->lanes[g->lane[op]].kind == TAUT_LANE_STREAM ?
		g->gap_ns[op] : 0;
}

/* The op before op on its lane, TAUT_NONE for the first. */
static inline uint32_t tauti_before(const struct taut_graph *g, uint32_t op)
{
	return op > g->lane_begin[g->lane[op]] ? op - 1 : TAUT_NONE;
}

/* Lost input, then what could not be made to fit. false: no memory. */
bool tauti_notes(const struct taut_graph *graph, struct taut_arena *arena,
	const char *const **ret_notes, uint32_t *ret_n);

taut_status tauti_facts_find(struct tauti_explain *x, struct taut_error *err);
void tauti_facts_free(struct tauti_explain *x);
/* Is instant `at` of this rank inside a wait for a batch? */
bool tauti_in_data(const struct tauti_facts *f, int64_t at);
/* Where in the model op belongs; "" when not known. */
const char *tauti_module(const struct tauti_explain *x, uint32_t op);
uint32_t tauti_module_id(const struct tauti_explain *x, uint32_t op); /* 0 */

/* Usual lengths; needs op_category. */
taut_status tauti_stalls_find(struct tauti_explain *x, struct taut_error *err);
/* Did the host stand still in op? Then *ret_usual is what its like takes. */
bool tauti_is_stall(const struct tauti_explain *x, uint32_t op,
	int64_t *ret_usual);

taut_status tauti_steps_split(struct tauti_explain *x, struct taut_error *err);
taut_status tauti_colls_sum(struct tauti_explain *x, struct taut_error *err);
taut_status tauti_wire_sum(struct tauti_explain *x, struct taut_error *err);
taut_status tauti_memory_peaks(
	struct tauti_explain *x, struct taut_error *err);
taut_status tauti_path_walk(struct tauti_explain *x, struct taut_error *err);
taut_status tauti_late_find(struct tauti_explain *x, struct taut_error *err);
taut_status tauti_removals_run(
	struct tauti_explain *x, struct taut_error *err);
taut_status tauti_findings_say(
	struct tauti_explain *x, struct taut_error *err);

/* Which ranks are named as late: report->late[0 .. this). */
uint32_t tauti_late_count(const struct taut_report *report);

/* What a step takes on a timeline: of each rank the time from the begin of its
 * first step to the end of its last, work that they put on a device included,
 * per step; of the ranks the longest. Ranks with skip[trace] set do not count;
 * skip may be NULL. The figure that removals are compared by. */
int64_t tauti_step_time(const struct tauti_explain *x, const int64_t *start,
	const int64_t *end, const uint8_t *skip);
/* The op whose end is the end of a rank's steps; TAUT_NONE: none. */
uint32_t tauti_final_op(const struct tauti_explain *x, uint32_t trace,
	const int64_t *end);

taut_status tauti_explain_no_memory(struct taut_error *err);

#endif /* TAUT_EXPLAIN_INTERNAL_H */
