/* taut/plan.h - what to change of a job: a list of decisions that taut_predict()
 * predicts and `taut run --plan` makes, and the search for the best one.
 *
 * A decision is a change in the words of taut/whatif.h, so that
 *     taut whatif RUN $(the plan's decisions)
 * is what the plan predicts. Which of the changes can be made of a running job, and
 * what they do to its numbers, is the table of taut_plan_kind().
 *
 * A plan belongs to a job: to its ranks and the gradients that it sums. A file of
 * one is JSON that a person can read and edit; docs/planning.md has its keys.
 *
 * Owner:   a plan owns all that it points to.
 * Threads: read-only once made; any thread may read.
 * Units:   nanoseconds, bytes. */
#ifndef TAUT_PLAN_H
#define TAUT_PLAN_H

#include <stdio.h>

#include <taut/whatif.h>

TAUT_BEGIN_DECLS

/* What becomes of the job's results. Each class allows those before it. */
enum taut_numerics {
	TAUT_NUMERICS_EXACT,     /* the same bits */
	TAUT_NUMERICS_REORDERED, /* the same sums in another order, or by other
	                            kernels of the same precision */
	TAUT_NUMERICS_LOSSY,     /* fewer bits somewhere */
	TAUT_NUMERICS_CLASSES
};
/* "exact", "reordered", "lossy" */
TAUT_API const char *taut_numerics_name(enum taut_numerics numerics);
/* 0: no such name. */
TAUT_API int taut_numerics_find(const char *name, enum taut_numerics *ret);

/* Frameworks, of whose jobs a change is made: bits. */
enum taut_plan_framework {
	TAUT_PLAN_PYTORCH = 1,
	TAUT_PLAN_TENSORFLOW = 2, /* with taut.tensorflow's sums */
	TAUT_PLAN_MXNET = 4,      /* with taut.mxnet's */
};

/* A row of the table: a change that a running job can be given. */
struct taut_plan_kind {
	const char *change;   /* name of the transformation: "compress" */
	const char *summary;  /* what is done to the job, one line */
	enum taut_numerics numerics;
	const char *needs;    /* what must be there for it, one line; "" */
	uint32_t frameworks;  /* enum taut_plan_framework, of each that it is made of */
};
/* The ith; NULL behind the last one. */
TAUT_API const struct taut_plan_kind *taut_plan_kind(size_t i);

/* What a plan is for. Gradients are those of one rank and step, the largest first;
 * 0 of them: not known. */
struct taut_plan_job {
	uint32_t n_ranks, n_hosts;
	uint32_t n_gradients;
	const int64_t *gradient_bytes;
	const char *framework; /* "pytorch", "tensorflow", "mxnet"; others, as "jax",
	                          have no plans; "" not known, which counts as the
	                          first */
};

struct taut_decision {
	const char *change;     /* "compress=fp16" */
	enum taut_numerics numerics;
	int64_t without_ns;     /* the step with all others and not this one; -1: not
	                           known */
};

struct taut_plan {
	struct taut_plan_job job;
	enum taut_numerics allow;
	uint32_t n_decisions;
	const struct taut_decision *decisions; /* in the order in which they are laid */
	/* As predicted; 0: not known. Memory -1: not known. */
	int64_t before_ns, after_ns, low_ns, high_ns;
	int64_t memory_before, memory_after;
	int64_t network_before, network_after; /* sent in a step, all ranks; -1 */
	/* As measured by `taut run --plan` or `taut tune`; 0: not yet. */
	int64_t measured_before_ns, measured_after_ns;
};

TAUT_API void taut_plan_destroy(struct taut_plan *plan); /* NULL is fine */

/* The plan's decisions but for this one and those that mean nothing without it, as what
 * Taut's exchange does without schedule; ret_left has room for all of the plan's. How
 * many are left. */
TAUT_API uint32_t taut_plan_without(const struct taut_plan *plan, uint32_t which,
	struct taut_decision *ret_left);

/* --- files ---------------------------------------------------------------------- */
/* name is for messages: "plan.json: decisions[2]: expected ...", and
 * "plan.json:12: expected ..." where it is no JSON. TAUT_EFORMAT: not a plan, or
 * a decision that is none of whatif's; unknown keys are refused, too. */
TAUT_API TAUT_NODISCARD taut_status taut_plan_parse(const char *text,
	size_t bytes, const char *name, struct taut_plan **ret_plan,
	struct taut_error *reterr);
TAUT_API TAUT_NODISCARD taut_status taut_plan_read(const char *path,
	struct taut_plan **ret_plan, struct taut_error *reterr);
TAUT_API TAUT_NODISCARD taut_status taut_plan_write(
	const struct taut_plan *plan, FILE *out, struct taut_error *reterr);

/* --- what a job is told ------------------------------------------------------------ */
struct taut_plan_setting { /* a variable of the job's environment */
	const char *name, *value;
};
/* What `taut run` sets for the plan's decisions. The array and its texts live in
 * arena. TAUT_EINVAL: a decision that no running job can be given, by name, or two
 * that contradict each other. */
TAUT_API TAUT_NODISCARD taut_status taut_plan_settings(
	const struct taut_plan *plan, struct taut_arena *arena,
	const struct taut_plan_setting **ret_settings, uint32_t *ret_n,
	struct taut_error *reterr);

/* --- the job of a recording ------------------------------------------------------------ */
/* Filled in from a graph; gradient_bytes lives in arena. */
TAUT_API TAUT_NODISCARD taut_status taut_plan_job_of(
	const struct taut_graph *graph, struct taut_arena *arena,
	struct taut_plan_job *ret_job, struct taut_error *reterr);

/* --- the search ------------------------------------------------------------------------ */
struct taut_plan_point { /* of the frontier */
	uint32_t n_changes;
	const char *const *changes;
	int64_t step_ns, memory_bytes, network_bytes; /* -1: not known */
};

struct taut_plan_progress {
	int64_t before_ns, best_ns;
	uint64_t n_predicted;
	double seconds;
};

struct taut_plan_options { /* zero is every field's default */
	/* Of the search; 0: 30. What each option alone gives is predicted before, and what
	 * the plan is without each decision behind it, whatever it is. */
	double budget_s;
	enum taut_numerics allow;
	int64_t memory_most;       /* of a rank; 0: no limit */
	/* Of each host, for files of the data set that Taut's loader keeps; 0: none. */
	int64_t cache_bytes;
	const char *strategy;      /* NULL: "joint" */
	uint64_t seed;
	unsigned threads;
	/* Changes that hold whatever is decided ("link=4gbit"). */
	const char *const *given;
	size_t n_given;
	/* Kinds not to decide on, by name of the change. */
	const char *const *not_these;
	size_t n_not_these;
	/* At each new best, now and then, and at each prediction before and behind the
	 * search; not 0: stop, which leaves the best that was found as it is, with
	 * decisions that may give next to nothing and of which without_ns is not
	 * known. May be NULL. */
	int (*see)(void *context, const struct taut_plan_progress *progress);
	void *context;
};

struct taut_planned {
	struct taut_plan *plan;      /* never worse than no change at all */
	uint32_t n_points;
	const struct taut_plan_point *points; /* the frontier, the fastest first */
	uint32_t n_passes;           /* what each kind alone gives */
	const struct taut_plan_pass {
		const char *name;
		int64_t step_ns;
	} *passes;
	uint64_t n_predicted;
	double seconds;
	uint32_t n_notes;            /* which decisions could not be tried, and why */
	const char *const *notes;
};
/* TAUT_EINVAL: a given change does not apply, or the recording has no steps. */
TAUT_API TAUT_NODISCARD taut_status taut_plan_search(
	const struct taut_graph *graph, const struct taut_plan_options *options,
	struct taut_planned **ret_planned, struct taut_error *reterr);
TAUT_API void taut_planned_destroy(
	struct taut_planned *planned); /* NULL is fine */

struct taut_plan_strategy_info {
	const char *name, *summary, *source;
};
/* Fills in the ith; 0 behind the last one. */
TAUT_API int taut_plan_strategy(
	size_t i, struct taut_plan_strategy_info *ret_info);

TAUT_END_DECLS
#endif /* TAUT_PLAN_H */
