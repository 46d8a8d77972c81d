/* predict.h - what predict.c, many.c, scenario.c and doubt.c share. */
#ifndef TAUT_WHATIF_PREDICT_H
#define TAUT_WHATIF_PREDICT_H

#include "whatif/recorder.h"
#include "whatif/whatif.h"

struct tauti_predictor {
	struct tauti_whatif w;
	const struct tauti_change *changes;
	size_t n_changes;
	const struct taut_costs *central; /* as measured */
	struct tauti_recorder recorder; /* what is taken off of them */
	uint32_t start; /* mark of the edit */
	bool no_graph;  /* nobody looks at the built one: it may still need what
	                   ran it */
};

/* What only the recording says, found once for all that is predicted of it. */
struct tauti_prepared {
	const struct taut_graph *graph;
	struct tauti_job *job;
	struct taut_costs *costs;
	struct tauti_recorder recorder;
	struct taut_memory *memory; /* NULL: no allocations recorded */
	int64_t recorded_ns; /* the median steady step */
	int64_t faults_ns;   /* of page faults, which the recording spared a step;
	                        negative: which it gave it */
	int64_t before_ns;   /* the same of the job that nobody records */
};
/* On failure there is nothing to fini. TAUT_EINVAL: there are no steps. */
taut_status tauti_prepared_init(struct tauti_prepared *ready,
	const struct taut_graph *graph, struct taut_error *err);
void tauti_prepared_fini(struct tauti_prepared *ready);

/* Read, and sorted into the order in which they are laid; in arena. */
taut_status tauti_changes_read(const char *const *texts, size_t n,
	struct taut_arena *arena, struct tauti_change **ret_changes,
	struct taut_error *err);

/* One way in which it may turn out. */
struct tauti_scenario {
	enum tauti_doubt doubt;
	int side;
	uint32_t change; /* of MODEL */
};

struct tauti_outcome {
	int64_t step_ns;
	bool network_changed; /* any transfer is another than recorded */
	double moved_bytes;   /* between ranks, by all transfers; -1: some do not
	                         tell */
	struct taut_graph *graph; /* the caller's */
	uint32_t *op_of; /* by op of the edit: of graph; NULL where the
	                    predictor has no memory */
	struct taut_timeline timeline;
};

/* An edit of its own over what others may share; the changes are not laid yet.
 * The notes of a run live until fini. On failure there is nothing to fini. */
taut_status tauti_predictor_init(struct tauti_predictor *p,
	const struct taut_graph *graph, const struct tauti_job *job,
	const struct taut_costs *costs, const struct tauti_recorder *recorder,
	const struct tauti_change *changes, size_t n_changes,
	struct taut_error *err);
void tauti_predictor_fini(struct tauti_predictor *p);
/* It is to know of memory, too, where the recording does. */
taut_status tauti_predictor_remember(struct tauti_predictor *p,
	const struct tauti_prepared *ready, struct taut_error *err);

/* The changes alone, which the edit holds until the next run. TAUT_EINVAL: one cannot be
 * made of this job. */
taut_status tauti_predictor_lay(struct tauti_predictor *p, struct taut_error *err);

/* TAUT_EINVAL: two of them are not predicted together. */
taut_status tauti_stack_check(const struct tauti_change *changes, size_t n,
	struct taut_error *err);
/* Into the order in which they are laid (stack.c). */
void tauti_stack_sort(struct tauti_change *changes, size_t n);

/* Changes, built graph, sharing, replay, step. On failure there is nothing to
 * fini. */
taut_status tauti_scenario_run(struct tauti_predictor *p,
	const struct tauti_scenario *scenario, struct tauti_outcome *ret,
	struct taut_error *err);
void tauti_outcome_fini(struct tauti_outcome *outcome);

/* The costs were the drag, or the latencies, off by so many standard errors:
 * transfers and durations are measured anew from the recorded times, so that
 * the unchanged job still takes what it took. The arrays of those are its own;
 * the rest is borrowed from costs. */
taut_status tauti_costs_vary(const struct taut_costs *costs, double drag_errors,
	double latency_errors, struct taut_costs *ret_costs,
	struct taut_error *err);
void tauti_costs_unvary(struct taut_costs *costs);

/* The recording's blocks; NULL where no allocations were recorded. */
taut_status tauti_memory_prepare(const struct taut_graph *graph,
	struct taut_memory **ret_memory, struct taut_error *err);
/* What out says of memory: as recorded, and of the outcome, whose changes the
 * edit still holds. Ranks by themselves are in arena. */
taut_status tauti_memory_predict(const struct tauti_predictor *p,
	const struct tauti_outcome *outcome, struct taut_arena *arena,
	struct taut_prediction *out, struct taut_error *err);

/* Half the width of the 95 % interval that the scatter of the steps leaves of
 * a median measured anew; -1: too few steps to tell. */
taut_status tauti_scatter(const struct taut_graph *graph,
	const int64_t *start_ns, const int64_t *end_ns, int64_t *ret_half_ns,
	struct taut_error *err);

#endif /* TAUT_WHATIF_PREDICT_H */
