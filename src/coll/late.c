/* late.c - a call that is not over in time, and for whom it waits.
 *
 * That a rank is there the watch sees; that it comes to a call nobody can promise:
 * it may compute for an hour. Who sets a limit says how long that is. */
#include "coll/hub.h"

#include <inttypes.h>

static const struct tauti_run *find(
	const struct tauti_hub *hub, const void *context)
{
	const struct tauti_run *run = hub->oldest;

	while (run && run->context != context)
		run = run->newer;
	return run;
}

static bool receives(const struct tauti_op *op)
{
	return op->step->kind == TAUT_STEP_RECV ||
		op->step->kind == TAUT_STEP_RECV_REDUCE ||
		(op->step->kind == TAUTI_STEP_FLAT &&
			op->slot->flat.peer != TAUT_NONE);
}

static uint32_t peer_of(const struct tauti_op *op)
{
	return op->step->kind == TAUTI_STEP_FLAT && receives(op) ?
		op->slot->flat.peer :
		op->slot->program->peers[op->step->first_peer];
}

/* The first step that the engine has; a receive before a send, which may wait for
 * who waits itself. NULL: there is none. */
static const struct tauti_op *find_held(const struct tauti_run *run)
{
	const struct tauti_op *found = NULL;

	for (uint32_t i = 0; i < run->plan->n_slots; i++) {
		const struct tauti_slot *slot = &run->slots[i];

		for (uint32_t k = 0; slot->program &&
			k < slot->program->n_steps; k++) {
			const struct tauti_op *op = &slot->ops[k];

			if (op->held && receives(op))
				return op;
			if (op->held && !found)
				found = op;
		}
	}
	return found;
}

static void say(const struct tauti_hub *hub, const char *what,
	const struct tauti_op *op, struct taut_error *why)
{
	double within_s = (double)hub->call_within_ns / 1e9;
	uint32_t peer = op ? peer_of(op) : 0;

	if (!op)
		taut_error_set(why, TAUT_EIO, -1, "rank %" PRIu32 ": %s was not "
			"over within %.3g s", hub->rank, what, within_s);
	else if (receives(op))
		taut_error_set(why, TAUT_EIO, -1, "rank %" PRIu32 ": %s: what "
			"rank %" PRIu32 " sends did not come within %.3g s",
			hub->rank, what, peer, within_s);
	else
		taut_error_set(why, TAUT_EIO, -1, "rank %" PRIu32 ": %s: rank "
			"%" PRIu32 " or another did not take what is sent "
			"within %.3g s", hub->rank, what, peer, within_s);
}

void tauti_hub_fail_late(struct tauti_hub *hub, const void *context)
{
	const struct tauti_run *run = find(hub, context);
	const char *what = "a call";
	struct taut_error why;

	if (run)
		what = run->call.output == &run->barrier ? "a barrier" :
			taut_coll_verb_name(run->call.verb);
	say(hub, what, run ? find_held(run) : NULL, &why);
	tauti_hub_fail(hub, &why);
}
