/* diff.h - two recordings of a job: by how much does a step differ, and what of
 * it is whose doing.
 *
 * Durations are carried from one to the other, kind by kind, and the first
 * recording is replayed with them: computation as in B, then transfers too,
 * then the host. Each row of the waterfall is the step that is then left, so the
 * rows add up to the difference; what is left over at the end (another order,
 * other waits, kinds of which A has nothing) is the last row.
 *
 * Operations are matched by name, transfers by kind of collective; of each the
 * time a step is carried over, rank by rank where both recordings have the same
 * ranks, else as the mean over the ranks. Those that only one of them has are
 * matched by their sum, so that a kind takes what it takes in B whatever its
 * operations are called there. */
#ifndef TAUT_EXPLAIN_DIFF_H
#define TAUT_EXPLAIN_DIFF_H

#include "explain/compare.h"

enum tauti_diff_kind {
	TAUTI_DIFF_COMPUTE,  /* kernels; without a device, operators */
	TAUTI_DIFF_TRANSFER, /* collectives after their last arrival */
	TAUTI_DIFF_HOST,     /* host threads beside that, loaders among them */
	TAUTI_DIFF_COPY,
	TAUTI_DIFF_KINDS
};

struct tauti_diff_step {
	const char *id, *title; /* "compute", "computation as in B" */
	int64_t step_ns;   /* with this and all rows before it as in B */
	int64_t change_ns; /* against the row before */
};

struct tauti_diff_op { /* mean over ranks, a step */
	const char *name;
	enum tauti_diff_kind kind;
	double count_a, count_b;
	int64_t a_ns, b_ns; /* busy, whether or not somebody waits for it */
};

struct tauti_diff_coll { /* by kind; of one rank, mean over them, a step */
	const char *name;
	double count_a, count_b;
	int64_t bytes_a, bytes_b;       /* -1 not known */
	int64_t transfer_a_ns, transfer_b_ns;
	int64_t wait_a_ns, wait_b_ns;
};

struct tauti_diff {
	const struct taut_report *a, *b;
	struct tauti_compare path; /* critical paths */
	int same_ranks;
	int a_marked, b_marked; /* some rank marks its steps; else a recording is
	                           one step, whatever it is of */
	uint32_t n_steps;  /* rows of the waterfall; the last is the rest */
	struct tauti_diff_step steps[TAUTI_DIFF_KINDS + 1];
	uint32_t n_ops;    /* largest difference first */
	const struct tauti_diff_op *ops;
	uint32_t n_colls;
	const struct tauti_diff_coll *colls;
};

/* Borrows from both reports; tables live in arena. TAUT_ENOMEM; TAUT_EINVAL: a
 * report has no steps. */
taut_status tauti_diff(const struct taut_report *a, const struct taut_report *b,
	struct taut_arena *arena, struct tauti_diff *ret_diff,
	struct taut_error *reterr);

#endif /* TAUT_EXPLAIN_DIFF_H */
