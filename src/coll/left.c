/* left.c - ranks that have left in peace, and what cannot end without them.
 *
 * All ranks begin the same calls in the same order, so how many passes a rank had
 * begun on each channel when it left says which calls it took part in. Those had
 * ended there, and will end here, as all that they need of it is on its way. One
 * that lies beyond would wait for ever: it is not begun, or, begun before this
 * rank knew, ends once nothing else is under way. What ends then is the whole
 * communicator: no other call of it can ever come to its end.
 *
 * That rank leaves as well, then, and the others are told no more than that: each
 * finds out by itself, and what still goes on between them does. */
#include "coll/hub.h"

#include <string.h>

_Static_assert((int)TAUTI_REACHED == (int)TAUTI_CHANNELS,
	"what is reached is a number for each channel");

/* Numbers of passes wrap. */
static bool is_above(uint32_t passes, uint32_t others)
{
	return (int32_t)(passes - others) > 0;
}

static uint32_t begun_on(const struct tauti_hub *hub, uint32_t channel)
{
	return atomic_load_explicit(
		&hub->passes[channel], memory_order_acquire);
}

static bool any_left(const struct tauti_hub *hub)
{
	return atomic_load_explicit(&hub->left, memory_order_acquire);
}

/* --- what the watch says and asks, on its thread ---------------------------------------*/

void tauti_hub_left(struct tauti_hub *hub, uint32_t rank, const uint32_t *passes)
{
	bool first;

	pthread_mutex_lock(&hub->lock);
	first = !any_left(hub);
	for (uint32_t i = 0; i < TAUTI_CHANNELS; i++)
		if (first || is_above(hub->reached[i].passes, passes[i]))
			hub->reached[i] = (struct tauti_reached){
				passes[i], rank };
	if (first)
		hub->left_first = rank;
	atomic_store_explicit(&hub->left, true, memory_order_release);
	if (hub->wakeable)
		hub->engine.table->wake(hub->engine.context);
	pthread_mutex_unlock(&hub->lock);
}

enum tauti_need tauti_hub_needs(struct tauti_hub *hub)
{
	enum tauti_need need = TAUTI_NEEDS_NOTHING;

	pthread_mutex_lock(&hub->lock);
	for (uint32_t i = 0; hub->wakeable && i < TAUTI_CHANNELS; i++)
		if (is_above(hub->reached[i].passes, begun_on(hub, i)))
			need = TAUTI_NEEDS_LATER;
	/* After the passes: who begins a call lists it first. */
	if (hub->wakeable && atomic_load(&hub->n_under_way))
		need = atomic_load(&hub->waits_for_left) ? TAUTI_NEEDS_LEFT :
			TAUTI_NEEDS_NOW;
	pthread_mutex_unlock(&hub->lock);
	return need;
}

/* --- the hub's own ---------------------------------------------------------------------*/

/* With the lock. TAUT_NONE, or the rank without which it cannot end. */
static uint32_t needed_by(const struct tauti_hub *hub, const struct tauti_run *run)
{
	uint64_t pass = run->tag >> TAUTI_MESSAGE_BITS;
	const struct tauti_reached *reached =
		&hub->reached[pass >> TAUTI_PASS_BITS];
	uint32_t end = (uint32_t)pass + (uint32_t)run->plan->cut.n_passes;

	return is_above(end, reached->passes) ? reached->rank : TAUT_NONE;
}

bool tauti_hub_dooms(struct tauti_hub *hub, const struct tauti_run *run)
{
	bool dooms;

	if (!any_left(hub))
		return false;
	pthread_mutex_lock(&hub->lock);
	dooms = needed_by(hub, run) != TAUT_NONE;
	pthread_mutex_unlock(&hub->lock);
	return dooms;
}

/* One that something under way needs, or TAUT_NONE; whether all of it does. */
static uint32_t find_needed(struct tauti_hub *hub, bool *ret_all)
{
	uint32_t found = TAUT_NONE;

	*ret_all = true;
	pthread_mutex_lock(&hub->lock);
	for (const struct tauti_run *run = hub->oldest; run; run = run->newer) {
		uint32_t rank = needed_by(hub, run);

		if (rank == TAUT_NONE)
			*ret_all = false;
		else
			found = rank;
	}
	pthread_mutex_unlock(&hub->lock);
	return found;
}

static void say_settled(struct tauti_hub *hub)
{
	if (hub->told_settled || !hub->watcher.settled ||
		tauti_hub_needs(hub) != TAUTI_NEEDS_NOTHING)
		return;
	hub->told_settled = true;
	hub->watcher.settled(hub->watcher.context);
}

void tauti_hub_look_for_left(struct tauti_hub *hub)
{
	struct taut_error why;
	uint32_t rank;
	bool all;

	if (hub->failed || !any_left(hub))
		return;
	if (!hub->oldest)
		say_settled(hub);
	rank = find_needed(hub, &all);
	atomic_store(&hub->waits_for_left, rank != TAUT_NONE);
	if (rank == TAUT_NONE || !all)
		return;
	taut_error_set(&why, TAUT_EIO, -1, "rank %u has left, and what is "
		"under way on rank %u needs it", rank, hub->rank);
	hub->stranded = true;
	tauti_hub_note(hub, &why);
}

void tauti_hub_explain_left(struct tauti_hub *hub, struct taut_error *why)
{
	struct taut_error then = *why;
	uint32_t rank;

	if (!any_left(hub))
		return;
	pthread_mutex_lock(&hub->lock);
	rank = hub->left_first;
	pthread_mutex_unlock(&hub->lock);
	taut_error_set(why, then.code, then.offset,
		"rank %u has left, and then: %s", rank, then.message);
}

void tauti_hub_leave(struct tauti_hub *hub)
{
	uint32_t passes[TAUTI_CHANNELS];

	if (!hub->watcher.leave)
		return;
	for (uint32_t i = 0; i < TAUTI_CHANNELS; i++)
		passes[i] = begun_on(hub, i);
	hub->watcher.leave(hub->watcher.context, passes);
}
