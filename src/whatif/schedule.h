/* schedule.h - what schedule.c, pieces.c, cross.c and scheduled.c share:
 * gradients that a scheduler hands to the network. */
#ifndef TAUT_WHATIF_SCHEDULE_H
#define TAUT_WHATIF_SCHEDULE_H

#include "replay/engine.h"
#include "whatif/ddp.h"

/* What a replay of the built graph needs. In the prediction's arena. */
struct tauti_schedule {
	struct tauti_engine_options options;
	uint32_t n_teams;
	struct tauti_team *teams; /* arrive: operations of the edit */
	double piece_ns; /* of a rank's core, for each piece beside its bytes */
};

/* --- cross.c: which layer comes when --------------------------------------------- */
struct tauti_forward { /* arrays in the arena */
	const char *missing; /* why it is not known; NULL: it is */
	uint32_t *position;  /* by gradient of a step: place in forward order */
	uint32_t *use;       /* by ddp->gradients: op of the edit, of the same
	                        step, that uses its parameter first */
	uint32_t *update;    /* by ddp->gradients, where the end of the step is
	                        crossed: op of the next step that updates its
	                        parameter; TAUT_NONE in the last */
};
taut_status tauti_forward_find(struct tauti_whatif *w,
	const struct tauti_ddp *ddp, struct tauti_forward *ret_forward,
	struct taut_error *err);
/* The update of a parameter, with the copy out of its bucket, goes from the end
 * of the step to before its first use in the next one, and takes late_ns more for
 * each gradient. TAUT_EINVAL: this recording's cannot, and why. */
taut_status tauti_cross(struct tauti_whatif *w, const struct tauti_ddp *ddp,
	int64_t late_ns, struct tauti_forward *forward, struct taut_error *err);

/* --- handed.c: Taut's exchange in the place of a framework's, on hosts ------------------ */
/* Copies and launches of the framework go, and each gradient is handed over behind the
 * operation that it is ready with. */
taut_status tauti_hand_over(struct tauti_whatif *w, const struct tauti_ddp *ddp,
	struct taut_error *err);
/* What an update that is made late costs beside itself, for each gradient. */
int64_t tauti_late_ns(const struct tauti_whatif *w);
/* Of the core, for each piece that is sent and received, beside what its bytes take. */
double tauti_piece_ns(const struct tauti_whatif *w);

/* --- pieces.c ------------------------------------------------------------------------ */
/* Fills schedule's teams: the buckets of each step as tasks of these priorities
 * (by bucket of a step), in pieces on lanes of their own. update: NULL, or what
 * waits for a gradient instead of who did (tauti_forward). change: as given, for
 * messages. TAUT_EINVAL: buckets are not alike, or pieces are too many. */
taut_status tauti_pieces_lay(struct tauti_whatif *w, const char *change,
	const struct tauti_ddp *ddp, const int64_t *priorities,
	const uint32_t *update, struct tauti_schedule *schedule,
	struct taut_error *err);

/* --- scheduled.c ------------------------------------------------------------------------ */
/* The engine that carries the schedule out in a graph built from the edit; the
 * teams of that graph in arena. became: by op of the edit. TAUT_EINVAL: a later
 * change took pieces away, or added ranks to them. */
taut_status tauti_schedule_engine(const struct tauti_whatif *w,
	const struct taut_graph *built, const uint32_t *became,
	struct taut_arena *arena, struct tauti_engine **ret_engine,
	struct taut_error *err);
/* What the replay with this engine decided becomes waits of the edit, so that its
 * graph replays to the same times without one. */
taut_status tauti_schedule_keep(struct tauti_whatif *w,
	const struct taut_graph *built, const uint32_t *became,
	const struct tauti_engine *engine,
	const struct taut_timeline *timeline, struct taut_error *err);

#endif /* TAUT_WHATIF_SCHEDULE_H */
