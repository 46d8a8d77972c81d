/* taut/whatif.h - what would it give: a recorded job with changes, replayed.
 *
 * A change is one transformation with its parameters, written as
 *     NAME[=VALUE][,KEY=VALUE]...        link=4gbit   slow=2,factor=1.3
 * Changes are laid over each other in the order in which they are given.
 * A piece without '=' goes on with the value before it where that is a LIST.
 * taut_transformation() is the table that the command's --list prints.
 *
 * Owner:   a prediction owns the changed graph, and borrows from the one below
 *          and its run.
 * Threads: any number of predictions may be made of one graph side by side.
 * Units:   nanoseconds, bytes. */
#ifndef TAUT_WHATIF_H
#define TAUT_WHATIF_H

#include <taut/cost.h>
#include <taut/edit.h>

TAUT_BEGIN_DECLS

struct taut_parameter {
	const char *name;   /* "" is the value itself: NAME=VALUE */
	const char *form;   /* "RATE", "N", "PERCENT", "LIST", "fp16|bf16" */
	const char *preset; /* value where none is given; "": may be left out;
	                       NULL: must be given */
	const char *help;
};

struct taut_transformation_info {
	const char *name;       /* "link" */
	const char *group;      /* "network", "compute", "data", "memory", "job" */
	const char *summary;    /* one line */
	const char *assumption; /* what must hold for the prediction to hold */
	const char *source;     /* where the model is from */
	const struct taut_parameter *parameters;
	size_t n_parameters;
};
/* The ith in the order of the help; NULL behind the last one. */
TAUT_API const struct taut_transformation_info *taut_transformation(size_t i);

struct taut_whatif_options { /* zero is every field's default */
	unsigned threads;
	int no_graph;    /* times alone: no changed graph */
	/* Within so much of the step is that of another run of the same job, with
	 * 95 %: known from runs of it; 0: 0.015, below 0: nothing. */
	double runs_differ;
};

struct taut_prediction {
	/* The median steady step, as a report has it (taut_steady_step()): the
	 * recording's, and the changed one with the interval in which it is
	 * expected with 95 %: uncertain costs one at a time at both ends of their
	 * range, and the scatter of the steps, added as variances. */
	int64_t before_ns, after_ns, low_ns, high_ns;
	/* The recording's own step, and what recording cost for each event of a
	 * host thread: where the recording tells (recorder_ns > 0), it is taken
	 * off before and after, for what is predicted is not recorded. */
	int64_t recorded_ns;
	double recorder_ns;
	double samples_factor; /* samples a step after / before: 2 for batch=2x */
	/* Peak memory of the rank that needs most; -1 not known. */
	int64_t memory_before, memory_after;
	uint32_t n_memory;     /* 0: not known */
	const struct taut_memory_told { /* of each rank of the changed job */
		int32_t rank;
		int64_t before; /* of the one that it is, or is a copy of;
		                   -1: not known */
		int64_t after;
	} *memory;
	uint32_t n_notes;      /* assumptions taken on the way, one line each */
	const char *const *notes;
	uint32_t n_uncertain;  /* what the interval is made of */
	const struct taut_uncertain {
		const char *name;
		int64_t low_ns, high_ns; /* the step at its ends */
	} *uncertain;
	/* The changed job with its replayed times (taut_graph_settle()): explain
	 * and render it as if it had been recorded. NULL with no_graph. */
	const struct taut_graph *graph;
};

/* TAUT_EINVAL: a change is none of the table or a value is not of its form
 * (the line names the nearest or the form), or it does not apply to this
 * recording (the line says what is missing). */
TAUT_API TAUT_NODISCARD taut_status taut_predict(
	const struct taut_graph *graph, const char *const *changes,
	size_t n_changes, const struct taut_whatif_options *options,
	struct taut_prediction **ret_prediction, struct taut_error *reterr);
TAUT_API void taut_prediction_destroy(struct taut_prediction *prediction);

/* The step alone, of many stacks of changes: what only the recording says is found
 * once, and no graph is kept. The same numbers as taut_predict() gives. All or none:
 * the error is that of the first stack that has one. */
struct taut_stack {
	const char *const *changes;
	size_t n;
};
TAUT_API TAUT_NODISCARD taut_status taut_predict_steps(
	const struct taut_graph *graph, const struct taut_stack *stacks,
	size_t n_stacks, const struct taut_whatif_options *options,
	int64_t *ret_before_ns, int64_t *ret_after_ns,
	struct taut_error *reterr);

/* The same for stacks that are not known beforehand, as of a search. A predictor
 * borrows from the graph; one thread at a time. */
struct taut_predictor;
struct taut_predicted {
	int64_t step_ns;
	int64_t memory_bytes;  /* peak of the rank that needs most; -1: not known */
	int64_t network_bytes; /* moved between ranks in a step, all of them; -1 */
};
TAUT_API TAUT_NODISCARD taut_status taut_predictor_create(
	const struct taut_graph *graph, struct taut_predictor **ret_predictor,
	struct taut_error *reterr);
TAUT_API void taut_predictor_destroy(
	struct taut_predictor *predictor); /* NULL is fine */
/* TAUT_EINVAL as of taut_predict(). No changes: the job as it is. */
TAUT_API TAUT_NODISCARD taut_status taut_predictor_predict(
	struct taut_predictor *predictor, const char *const *changes,
	size_t n_changes, struct taut_predicted *ret_predicted,
	struct taut_error *reterr);

TAUT_END_DECLS
#endif /* TAUT_WHATIF_H */
