/* opwork.h - sizes as text, and what names mean.
 * Threads: pure functions. */
#ifndef TAUT_REPLAY_COST_OPWORK_H
#define TAUT_REPLAY_COST_OPWORK_H

#include "cost.h"

/* --- sizes.c: the tensors of "[[24, 3, 32, 32], [32, 3, 3, 3], []]" -------------*/
#define TAUTI_MOST_SIZES 64

struct tauti_size {
	uint32_t argument; /* of the operator, from 0 */
	uint32_t n_dims;   /* what is told of it; may be above TAUT_MOST_DIMS */
	int64_t dim[TAUT_MOST_DIMS];
	double elements;
};
struct tauti_sizes {
	uint32_t n;
	struct tauti_size all[TAUTI_MOST_SIZES]; /* of arguments that have any */
};
/* Lists of tensors are several of one argument. false: it does not read so. */
bool tauti_sizes_read(const char *text, struct tauti_sizes *ret_sizes);
/* The first of an argument; NULL: it is no tensor, or a number alone. */
const struct tauti_size *tauti_size_of(
	const struct tauti_sizes *sizes, uint32_t argument);

/* --- opname.c ---------------------------------------------------------------------*/
enum tauti_form { /* where its signature has what */
	TAUTI_FORM_NONE,
	TAUTI_FORM_MM,       /* a, b */
	TAUTI_FORM_ADDMM,    /* added, a, b */
	TAUTI_FORM_LINEAR,   /* a, weights [N, K] */
	TAUTI_FORM_CONV,     /* input, weights */
	TAUTI_FORM_CONV_BACKWARD, /* gradient, input, weights */
	TAUTI_FORM_CONV_BACKWARD_OLD, /* input, gradient, weights */
	TAUTI_FORM_CONV_BACKWARD_INPUT, /* -, gradient, weights */
	TAUTI_FORM_ATTENTION,     /* queries, keys: [batch, heads, L, D] */
	TAUTI_FORM_ATTENTION_LATE,  /* [batch, L, heads, D] */
	TAUTI_FORM_ATTENTION_BACKWARD, /* gradient, queries, keys */
	TAUTI_FORM_ATTENTION_LATE_BACKWARD,
	TAUTI_FORM_RECURRENT, /* input, weights in arguments 1 and 2 */
	TAUTI_FORM_RECURRENT_BACKWARD,
	TAUTI_FORM_EACH,     /* output of the dimensions of all inputs */
	TAUTI_FORM_SUM,      /* output small */
	TAUTI_FORM_WRITE,    /* nothing is read */
	TAUTI_FORM_COPY,     /* to, from */
	TAUTI_FORM_JOIN,     /* output is all inputs together */
	TAUTI_FORM_LOOKUP,   /* table, indices */
	TAUTI_FORM_GATHER,   /* table, indices: a number for each */
	TAUTI_FORM_LOOKUP_BACKWARD, /* gradient, indices */
};
struct tauti_opname {
	enum taut_opwork_kind kind;
	enum tauti_form form;
	double flops; /* by element, of those one by one */
};
struct tauti_opname tauti_opname_of(const char *name);

/* --- roofline.c -------------------------------------------------------------------*/
/* As taut_roofline_fit(); what the samples do not tell, or tell badly, is as of
 * `near`; NULL: of nothing. */
taut_status tauti_roofline_fit_near(const struct taut_opwork_time *samples,
	uint32_t n, int form, const struct taut_roofline *near,
	struct taut_roofline *ret_roofline, struct taut_error *err);

/* --- opfit.c ----------------------------------------------------------------------*/
/* Fits, and the fit of each row, from rows with their times. TAUT_ENOMEM. */
taut_status tauti_opworks_fit(struct taut_rooflines *r, struct taut_error *err);

#endif /* TAUT_REPLAY_COST_OPWORK_H */
