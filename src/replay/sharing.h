/* sharing.h - what the files that replay shared resources have in common.
 *
 *   sharing.c  the loop: operations start, flows begin and are done
 *   check.c    is a taut_sharing what the header says?
 *   rates.c    max-min rates of the flows that are under way
 *   cores.c    how far operations on a core get while flows slow it
 *   dispatch.c what a mechanism is told, and starts
 *   measure.c  the other way round
 *
 * All that happens, happens at a whole nanosecond. At one nanosecond, first
 * operations end and flows change, then operations start; rates are found
 * anew when the clock is about to move on, once for all that changed.
 *
 * Threads: one replay, one struct share. */
#ifndef TAUT_REPLAY_SHARING_H
#define TAUT_REPLAY_SHARING_H

#include <math.h>

#include "base/vec.h"
#include "core.h"
#include "due.h"

enum flow_stage {
	FLOW_IDLE,
	FLOW_LATENT, /* the first of its ops has started */
	FLOW_MOVING,
	FLOW_DONE
};

struct flow {
	double left;      /* of its amount at at_ns; measuring: minus what it
	                     has moved */
	double rate, next_rate;
	int64_t at_ns;    /* LATENT: end of the latency; DONE: when it was */
	uint32_t waiting; /* op that waits for it to be done: the last of a
	                     chain through end_ns[]; or TAUT_NONE */
	uint64_t seen;    /* the search that came by last */
	uint8_t stage;
};

/* A use of a flow that is moving, in the ring of its resource. */
struct link {
	uint32_t next, before; /* uses; TAUT_NONE at the ends */
};

struct resource {
	uint32_t first;        /* use; TAUT_NONE: nothing moves */
	uint32_t core;         /* index in cores, or TAUT_NONE */
	uint64_t seen;
	bool dirty, full;
	/* while rates are found */
	double open_weight;    /* of flows that have no rate yet */
	double free;
	double load;           /* sum of rate * weight */
};

/* From at_ns on a core has its own time `own`, which runs at `speed`. */
struct beat {
	int64_t at_ns;
	double own, speed;
};

struct busy {          /* an op on a core: it ends when own time is this */
	double own_end;
	uint32_t op;
};

struct vcore {
	TAUT_VEC(struct beat) beats; /* by time; the first is also what was
	                                before it */
	struct busy *busy;     /* binary heap by (own_end, op) */
	uint32_t n_busy;       /* at most one a lane */
	uint32_t resource;
};

struct tauti_measure;

struct share {
	struct core core;
	const struct taut_graph *graph;
	const struct taut_sharing *is;
	struct tauti_measure *measure; /* NULL: amounts and durations are given */
	struct taut_dispatch *dispatch; /* NULL: nothing is held */
	const uint32_t *flow_of;  /* by op: is->flow_of, or TAUTI_TOLD */
	struct flow *flows;
	struct resource *resources;
	struct link *links;       /* by use, as flow_of_use */
	uint32_t *flow_of_use;
	uint32_t *core_of_lane;   /* index in cores; TAUT_NONE */
	struct vcore *cores;
	uint32_t n_cores;
	struct due due;           /* ids: flows, then cores, then what a
	                             mechanism is to be told */
	uint32_t *dirty, n_dirty; /* resources whose flows have changed */
	uint32_t *found_flows, n_found_flows;
	uint32_t *found_resources, n_found_resources;
	uint64_t search;
	int64_t clock_ns;
	bool stop; /* no memory, or a mechanism failed */
	struct taut_arena *arena;
};

/* What measure.c wants, and what it gets. */
struct tauti_measure {
	const int64_t *end_ns;  /* by op: as recorded */
	int64_t *flow_end_ns;   /* by flow: the earliest end of its ops */
	double *amount;         /* by flow */
	int64_t *latency_ns;    /* by flow */
	int64_t *dur_ns;        /* by op */
	struct ready aims;      /* ops on cores, by when it is found out how
	                           long they are */
};

/* In share.flow_of: an op of which a mechanism is told. So that a replay without
 * one asks nothing more of any op. */
#define TAUTI_TOLD (TAUT_NONE - 1)

/* A call that was asked for. */
struct call {
	int64_t at_ns;
	uint64_t asked; /* how many were before it */
	uint64_t what;
	uint32_t cause; /* op, or TAUT_NONE */
};

struct taut_dispatch {
	const struct taut_dispatcher *is;
	const int64_t *gap_ns;     /* by op, also of what is held */
	struct share *share;
	struct ready ended, ready; /* not told yet; of what ended also ends that
	                              are known but to come */
	uint8_t *stage;            /* by op: of those that are held */
	TAUT_VEC(struct call) calls; /* binary heap by (at_ns, asked) */
	uint64_t asked;
	uint32_t cause;            /* of what is released now */
	uint32_t n_held;           /* told ready and not released */
	uint32_t n_idle;           /* calls in a row that nothing came of */
	taut_status status;        /* of the first that failed */
	struct taut_error *err;
};

/* The first whole nanosecond that is not before at_ns + wait_ns: what ends
 * later than a change must not be taken for ended at it. Sums of fractions are
 * off by a little: a millionth does not count. What is beyond all other times
 * is cut. */
static inline int64_t tauti_after(int64_t at_ns, double wait_ns)
{
	const double far_ns = 2305843009213693952.0; /* 2^61 */
	double whole = ceil(wait_ns - 1e-6);
	return at_ns + (int64_t)(whole < far_ns ? whole : far_ns);
}

/* --- check.c: TAUT_EINVAL says what is wrong. amounts 0: they are not read. */
taut_status tauti_sharing_check(const struct taut_graph *graph,
	const struct taut_sharing *sharing, const int64_t *dur_ns,
	bool amounts, struct taut_error *err);

/* --- sharing.c. edit->sharing is not NULL and the rest is checked. measure may
 * be NULL. TAUT_ENOMEM, TAUT_EINVAL, TAUT_EMATCH: as taut_replay(). */
taut_status tauti_replay_shared(const struct taut_graph *graph,
	const struct taut_replay_edit *edit, struct taut_timeline *timeline,
	struct tauti_measure *measure, struct taut_error *reterr);

/* --- dispatch.c */
/* With s->is and s->arena; dispatch is all zero. edit gets gaps of its own, for
 * that of a held op comes behind its release. */
taut_status tauti_dispatch_init(struct share *s, struct taut_dispatch *dispatch,
	struct taut_replay_edit *edit, struct taut_error *err);
void tauti_dispatch_fini(struct taut_dispatch *dispatch);
/* An op that is told is about to start: true, it is held and is not to start
 * now. */
bool tauti_dispatch_hold(struct share *s, uint32_t op);
/* The end of an op that may be to be told is known. */
void tauti_dispatch_ended(struct share *s, uint32_t op);
/* Tells one thing that is to be told at the clock; where that fails, the replay
 * is to stop. */
void tauti_dispatch_tell(struct share *s);
/* After all: is something held for ever? TAUT_EMATCH. */
taut_status tauti_dispatch_check(const struct share *s, struct taut_error *err);
/* Nothing is shared, but a mechanism starts operations. */
taut_status tauti_replay_dispatched(const struct taut_graph *graph,
	const struct taut_replay_edit *edit, struct taut_timeline *timeline,
	struct taut_error *reterr);

/* --- rates.c */
/* Flow f begins, or ends, to move at the clock. */
void tauti_flow_join(struct share *s, uint32_t f);
void tauti_flow_leave(struct share *s, uint32_t f);
/* Rates and speeds from the clock on, after such changes. */
void tauti_rates_settle(struct share *s);
/* What has moved until the clock is taken off left. */
void tauti_flow_count(struct share *s, struct flow *flow);

/* --- cores.c */
taut_status tauti_cores_init(struct share *s, struct taut_error *err);
void tauti_cores_fini(struct share *s);
/* Runs at this speed from the clock on. */
void tauti_core_speed(struct share *s, uint32_t c, double speed);
double tauti_core_own(const struct vcore *core, int64_t at_ns);
/* op has started and takes dur_ns of the core's own time. Its end where that is
 * not after the clock; else INT64_MAX, and it will be due. */
int64_t tauti_core_put(struct share *s, uint32_t c, uint32_t op,
	int64_t dur_ns);
/* The op that is due now. */
uint32_t tauti_core_take(struct share *s, uint32_t c);

#endif /* TAUT_REPLAY_SHARING_H */
