/* own.h - what the files of the fine-grained space share.
 *
 *     set()   ops.c, net.c: what each operator and slot should be
 *     cost()  lay.c: brings the edit there, by what differs; an engine plays it
 *     rule()  rule.c: sets, compares should with is, sets back
 *
 * Wanted and laid are two sets of columns; wanted depends on the options alone, so
 * that a site that is set back leaves no trace. The edit's journal would grow with
 * each change: when it is long, the edit goes back to its base and is laid anew.
 *
 * Places are indices in the lane of operators. */
#ifndef TAUT_PLAN_FUSION_OWN_H
#define TAUT_PLAN_FUSION_OWN_H

#include "plan/fusion/fusion.h"

struct tauti_span32 { /* rows first .. end - 1 */
	uint32_t first, end;
};

struct tauti_slot {
	int64_t dur_ns;
	uint32_t ready; /* operator for which it waits: of a group's first; or NONE */
};

/* The present critical path, as far as it has the form
 *     lane of operators, slots, lane of operators
 * where each part may be missing, and what is on other lanes stands before or behind. */
struct tauti_path {
	bool has_form;
	uint32_t enter, leave;      /* places of the first part; enter NONE: none */
	uint32_t first_slot, last_slot; /* gradients; first_slot NONE: none */
	uint32_t back, end;         /* places of the second part; back NONE: none */
};

struct tauti_weight {
	int64_t ns;
	uint32_t site;
};

struct tauti_fusion {
	struct taut_arena *arena;
	struct tauti_space space;
	struct taut_graph *own_graph; /* of one rank; NULL: the graph had one */
	const struct taut_graph *graph;
	struct taut_edit *edit;
	uint32_t base_mark;
	const struct tauti_fusion_engine *engine;
	void *played;
	struct tauti_fused_cost cost;
	struct tauti_fusion_link link;
	int64_t sent_bytes;

	/* The input, in ids of the graph. */
	uint32_t n_ops, n_flows, n_gradients;
	struct tauti_fusion_op *ops;
	struct tauti_fusion_flow *flows;
	struct tauti_fusion_gradient *gradients;
	uint32_t *updates;
	struct tauti_span32 *out, *in; /* by operator: in out_flow, in_flow */
	uint32_t *out_flow, *in_flow;
	struct tauti_span32 *made;     /* by operator: gradients that it produces */
	uint32_t lane, first_op, n_places;
	uint32_t *operator_at;         /* by place: in the table; NONE */
	uint8_t *is_foreign;           /* by place: waits for more than its lane */
	uint8_t *is_waited;            /* by operator: by others than its lane */
	uint32_t network;              /* lane; NONE until there is one */
	uint32_t *slot_op;             /* by gradient: op of the edit */
	uint32_t before_slots;         /* op of the edit; NONE */
	int64_t *dur_ns;               /* by operator: as it is */
	int64_t *in_bytes;             /* by operator: that it reads alone */

	/* Sites: fusible flows, joins, pieces. */
	uint8_t *option;
	uint32_t *flow_site;           /* by flow; NONE */
	uint32_t *site_flow;           /* by site of an operator */
	uint32_t n_pairs;

	/* Wanted. */
	uint32_t *last;     /* by operator: the last of those it is fused with */
	int64_t *want_ns;   /* by operator */
	uint8_t *joined;    /* by gradient: with the one before */
	struct tauti_slot *want; /* by gradient */
	/* Laid. */
	int64_t *laid_ns;
	struct tauti_slot *laid;
	bool is_in_order;   /* slots stand as gradients are produced */
	/* What differs, so that it may be laid. */
	uint32_t *changed, n_changed; /* operators */
	uint8_t *is_changed;
	struct tauti_span32 slots;  /* gradients; end 0: none */
	/* What cannot be: operators before what they read, by flow. */
	uint8_t *is_bad;
	uint32_t n_bad, n_duplicates; /* of flows; of options 2 */

	/* Scratch; stamps in place of clearing. */
	uint32_t *mark, stamp;
	uint32_t *place_in, *inside, now; /* of fused operators: row in parts */
	uint32_t *reached, *component;
	struct tauti_fused_part *parts;
	struct tauti_fused_tie *ties;
	uint32_t n_parts, n_ties;
	uint32_t *wanted_order, *group_ready; /* gradients; by gradient */
	uint32_t *furthest;         /* by operator */

	/* Of the state that was played last. */
	bool is_played;     /* what is laid is */
	int64_t end_ns;
	bool has_path;
	struct tauti_path path;
	uint8_t *on_path;        /* by place */
	uint8_t *slot_on_path;   /* by gradient */
	uint8_t *by_ready;       /* by gradient: on the path from what made it ready */
	int64_t *along_ns;       /* by place: sum of gaps and durations so far */
	int64_t *new_end_ns;     /* by place: scratch of rules */
	struct tauti_weight *weights; /* by site: scratch */
};

taut_status tauti_fusion_no_memory(struct taut_error *err);

static inline uint32_t tauti_fusion_place(
	const struct tauti_fusion *f, uint32_t operator_)
{
	return f->ops[operator_].op - f->first_op;
}

/* Is this flow within a fused operator, as the options say? */
static inline uint8_t tauti_fusion_tie(const struct tauti_fusion *f, uint32_t flow)
{
	return f->flow_site[flow] == TAUT_NONE ? 0 : f->option[f->flow_site[flow]];
}

/* --- ops.c: what is fused, and what it takes then ----------------------------------- */
/* After the option of a flow's site changed. */
void tauti_fusion_regroup(struct tauti_fusion *f, uint32_t flow);

/* --- net.c: groups and their slots --------------------------------------------------- */
/* After something changed of the groups that hold these gradients. */
void tauti_fusion_regather(struct tauti_fusion *f, uint32_t first, uint32_t end);
/* Out of all hosts, in any state; of one host, out of all ranks. */
int64_t tauti_fusion_sent(const struct tauti_fusion *f);

/* --- lay.c: the edit ------------------------------------------------------------------ */
/* Slots, the waits of updates, and the mark behind them. */
taut_status tauti_fusion_lay_base(
	struct tauti_fusion *f, struct taut_error *err);
/* Do groups become ready as they are produced? */
bool tauti_fusion_in_order(const struct tauti_fusion *f,
	const struct tauti_slot *slots);
/* What is laid becomes what is wanted. */
taut_status tauti_fusion_lay(struct tauti_fusion *f, struct taut_error *err);

/* --- path.c, rule.c, alike.c ------------------------------------------------------------ */
void tauti_fusion_find_path(struct tauti_fusion *f);
uint32_t tauti_fusion_critical(void *self, uint32_t *ret_sites, uint32_t most);
enum tauti_rule tauti_fusion_rule(void *self, uint32_t site, uint8_t option);
/* Fills in space.mirror and space.coarse. */
taut_status tauti_fusion_find_images(struct tauti_fusion *f,
	const struct tauti_fusion_in *in, struct taut_error *err);
taut_status tauti_fusion_find_coarse(
	struct tauti_fusion *f, struct taut_error *err);
/* The graph of one rank that stands for all, and its ids of the input's ops. */
taut_status tauti_fusion_one_rank(struct tauti_fusion *f,
	const struct tauti_fusion_in *in, uint32_t **ret_op_of,
	struct taut_error *err);

taut_status tauti_fusion_set(void *self, uint32_t site, uint8_t option,
	struct taut_error *err);

#endif /* TAUT_PLAN_FUSION_OWN_H */
