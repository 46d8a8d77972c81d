/* hub.h - what run.c and hub.c ask of each other. */
#ifndef TAUT_COLL_HUB_H
#define TAUT_COLL_HUB_H

#include "coll/run.h"

/* Scratch that goes from one call to the next. */
struct tauti_block {
	struct tauti_block *next;
	size_t bytes;
	char *data; /* behind it, aligned */
};

/* The one given last of those that are large enough, and not far too large; else
 * a new one. NULL: no memory. */
TAUT_NODISCARD struct tauti_block *tauti_hub_take_block(
	struct tauti_hub *hub, size_t bytes);
void tauti_hub_give_block(struct tauti_hub *hub, struct tauti_block *block);

/* --- the queue -------------------------------------------------------------------------*/
static inline void tauti_hub_queue(struct tauti_hub *hub, struct tauti_op *op)
{
	op->next = NULL;
	if (hub->first)
		hub->last->next = op;
	else
		hub->first = op;
	hub->last = op;
}

/* Looks at all that is done, and ends everything after a failure. Nothing when it
 * is at it already. */
void tauti_hub_drain(struct tauti_hub *hub);
/* A failure; whoever drains the queue sees it. */
void tauti_hub_note(struct tauti_hub *hub, const struct taut_error *why);

/* --- what is under way -----------------------------------------------------------------*/
void tauti_hub_list(struct tauti_hub *hub, struct tauti_run *run);
void tauti_hub_unlist(struct tauti_hub *hub, struct tauti_run *run);

/* The tag of a pass `later` than the one of this tag. */
static inline uint64_t tauti_hub_later_tag(uint64_t tag, uint64_t later)
{
	uint64_t passes = ((UINT64_C(1) << TAUTI_PASS_BITS) - 1)
		<< TAUTI_MESSAGE_BITS;

	return (tag & ~passes) | ((tag + (later << TAUTI_MESSAGE_BITS)) &
		passes);
}

/* No line yet. An initializer would write all 500 bytes, for every message and
 * every look for news. */
static inline void tauti_error_clear(struct taut_error *err)
{
	err->code = TAUT_OK;
	err->offset = -1;
	err->message[0] = '\0';
}

/* --- left.c ----------------------------------------------------------------------------*/
/* Whether it can never end, as a rank has left without it. */
bool tauti_hub_dooms(struct tauti_hub *hub, const struct tauti_run *run);
/* Notes a failure when nothing is under way but such. */
void tauti_hub_look_for_left(struct tauti_hub *hub);
/* Of a failure after a rank has left: the line says so. */
void tauti_hub_explain_left(struct tauti_hub *hub, struct taut_error *why);
/* Tells the others how far this rank took part. */
void tauti_hub_leave(struct tauti_hub *hub);

/* --- late.c ----------------------------------------------------------------------------*/
/* A call that is under way with this context did not end within the limit: a
 * failure, with the rank that it waits for. */
void tauti_hub_fail_late(struct tauti_hub *hub, const void *context);

/* --- run.c -----------------------------------------------------------------------------*/
void tauti_run_settle(struct tauti_hub *hub, struct tauti_op *op);
void tauti_run_abandon(struct tauti_run *run, taut_status status);

#endif /* TAUT_COLL_HUB_H */
