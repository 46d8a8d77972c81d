/* core_state.h - what the files of the mechanism share; see core.h.
 *
 *     core.c       what the caller says and asks; life
 *     core_pump.c  the rules: what is looked for, fetched, prepared, told, opened next
 *     core_rows.c  batches, slots and places: where they stand, and who waits for what
 *
 * A call notes what happened and runs the pump, which does one step after the other until
 * there is none; a call from within a callback leaves that to the pump that is running.
 * What is to be done follows from the state.
 *
 * Open batches have numbers told .. opened - 1, at most depth. Batch b has row b % depth,
 * and place i of it ticket row * batch + i: so tickets in a circle from the oldest row on
 * are in the order (batch, place). */
#ifndef TAUT_LOAD_CORE_STATE_H
#define TAUT_LOAD_CORE_STATE_H

#include "load/core.h"
#include "load/marks.h"

enum tauti_place_state {
	TAUTI_PLACE_NONE,      /* its row has no such place, or none at all */
	TAUTI_PLACE_UNSEEN,    /* in unseen: to be looked at */
	TAUTI_PLACE_WANTED,    /* in wanted: MISSING, its fetch has not begun */
	TAUTI_PLACE_AWAITED,   /* COMING, in a chain by its item */
	TAUTI_PLACE_FETCHING,
	TAUTI_PLACE_AT_HAND,   /* in at_hand */
	TAUTI_PLACE_PREPARING,
	TAUTI_PLACE_PREPARED,
	TAUTI_PLACE_FAULTY,
};

struct tauti_place {
	uint64_t item, position;
	uint64_t held_bytes; /* in supply.held_bytes */
	uint32_t next, previous; /* AWAITED: in its chain, or TAUT_NONE */
	int16_t status; /* FAULTY */
	uint8_t state;
	bool dealt; /* item and position are set */
	bool far;   /* WANTED, FETCHING, or has held_bytes: which limits are its */
};

struct tauti_row {
	struct tauti_supply_batch batch; /* count: places */
	uint32_t n_left;   /* neither prepared nor faulty */
	uint32_t n_faulty;
};

enum tauti_slot_state {
	TAUTI_SLOT_FREE,
	TAUTI_SLOT_OPEN,
	TAUTI_SLOT_READY,
	TAUTI_SLOT_TAKEN,
};

struct tauti_supply {
	struct tauti_supply_options options;
	struct tauti_supply_engine engine;
	void *context;

	/* Which batches there are. */
	const uint64_t *list; /* positions are of it; NULL: of the deal */
	struct tauti_share first, full; /* of the first epoch, of later ones */
	uint64_t n_first, n_full;       /* their batches */
	uint64_t n_batches;             /* of all epochs; UINT64_MAX: no end */

	uint64_t opened, told, taken; /* batches */
	uint64_t n_faults; /* left out, since creation or seek */
	bool running, pumping, ended;

	struct tauti_row *rows;      /* depth */
	struct tauti_place *places;  /* by ticket */
	struct tauti_marks unseen, wanted[2], at_hand; /* tickets; wanted by far */
	uint32_t *chains; /* first ticket of those AWAITED with such a hash */
	uint32_t n_chains; /* a power of two */

	uint8_t *slots;   /* depth: enum tauti_slot_state */
	uint32_t *free_slots, n_free;
	uint32_t *ready;  /* slots of batches taken .. told - 1, by number % depth */

	uint64_t held_bytes[2]; /* by far */
	struct tauti_supply_counts counts;
};

/* --- core_rows.c -------------------------------------------------------------------*/
TAUT_NODISCARD bool tauti_supply_rows_init(struct tauti_supply *supply);
void tauti_supply_rows_fini(struct tauti_supply *supply);
/* No batch is open or ready; slots that are taken stay so. */
void tauti_supply_rows_reset(struct tauti_supply *supply);
/* Goes to the beginning of these epochs. options.share and first_epoch say where. */
void tauti_supply_rows_plan(struct tauti_supply *supply);
/* Of options.first_epoch alone: these items. */
void tauti_supply_rows_follow(
	struct tauti_supply *supply, const uint64_t *list, uint64_t n_items);
/* The epoch and batch in it that a number stands for. */
const struct tauti_share *tauti_supply_rows_find(const struct tauti_supply *supply,
	uint64_t number, uint64_t *ret_epoch, uint64_t *ret_in_epoch);
/* Gives a free slot to the next batch; all its places are UNSEEN. */
void tauti_supply_rows_open(struct tauti_supply *supply);
struct tauti_row *tauti_supply_rows_of(struct tauti_supply *supply, uint32_t ticket);
/* Where the circle of tickets begins. */
uint32_t tauti_supply_rows_oldest(const struct tauti_supply *supply);
/* The place's item, dealt at its first use. */
uint64_t tauti_supply_rows_item(struct tauti_supply *supply, uint32_t ticket);

void tauti_await(struct tauti_supply *supply, uint32_t ticket);
/* All that wait for the item are UNSEEN again. */
void tauti_awake(struct tauti_supply *supply, uint64_t item);

/* --- core_pump.c -------------------------------------------------------------------*/
void tauti_pump(struct tauti_supply *supply);
/* Of a place whose fetch or preparation is over, or never comes. */
void tauti_give_bytes(struct tauti_supply *supply, struct tauti_place *place);

#endif /* TAUT_LOAD_CORE_STATE_H */
