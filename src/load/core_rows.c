/* core_rows.c - batches, slots and places: where they stand, and who waits for what. */
#include "load/core_state.h"

#include <stdlib.h>
#include <string.h>

#include "load/draw.h"

/* --- life --------------------------------------------------------------------------*/

static uint32_t n_places(const struct tauti_supply *supply)
{
	return supply->options.depth * supply->options.share.batch;
}

static uint32_t chains_for(uint32_t n)
{
	uint32_t chains = 64;

	while (chains < n && chains < UINT32_C(1) << 31)
		chains *= 2;
	return chains;
}

bool tauti_supply_rows_init(struct tauti_supply *supply)
{
	uint32_t depth = supply->options.depth, n = n_places(supply);

	supply->n_chains = chains_for(n);
	supply->rows = calloc(depth, sizeof *supply->rows);
	supply->places = calloc(n, sizeof *supply->places);
	supply->chains = calloc(supply->n_chains, sizeof *supply->chains);
	supply->slots = calloc(depth, sizeof *supply->slots);
	supply->free_slots = calloc(depth, sizeof *supply->free_slots);
	supply->ready = calloc(depth, sizeof *supply->ready);
	return supply->rows && supply->places && supply->chains &&
		supply->slots && supply->free_slots && supply->ready &&
		tauti_marks_init(&supply->unseen, n) &&
		tauti_marks_init(&supply->wanted[0], n) &&
		tauti_marks_init(&supply->wanted[1], n) &&
		tauti_marks_init(&supply->at_hand, n);
}

void tauti_supply_rows_fini(struct tauti_supply *supply)
{
	tauti_marks_fini(&supply->unseen);
	tauti_marks_fini(&supply->wanted[0]);
	tauti_marks_fini(&supply->wanted[1]);
	tauti_marks_fini(&supply->at_hand);
	free(supply->rows);
	free(supply->places);
	free(supply->chains);
	free(supply->slots);
	free(supply->free_slots);
	free(supply->ready);
}

void tauti_supply_rows_reset(struct tauti_supply *supply)
{
	supply->opened = supply->told = supply->taken = 0;
	supply->n_faults = 0;
	supply->held_bytes[0] = supply->held_bytes[1] = 0;
	supply->ended = false;
	supply->counts.n_awaited = 0;
	memset(supply->places, 0, n_places(supply) * sizeof *supply->places);
	memset(supply->chains, 0xff, supply->n_chains * sizeof *supply->chains);
	tauti_marks_empty(&supply->unseen);
	tauti_marks_empty(&supply->wanted[0]);
	tauti_marks_empty(&supply->wanted[1]);
	tauti_marks_empty(&supply->at_hand);
	supply->n_free = 0;
	for (uint32_t slot = supply->options.depth; slot-- > 0;) {
		if (supply->slots[slot] == TAUTI_SLOT_TAKEN)
			continue;
		supply->slots[slot] = TAUTI_SLOT_FREE;
		supply->free_slots[supply->n_free++] = slot;
	}
}

/* --- which batches there are -------------------------------------------------------*/

void tauti_supply_rows_plan(struct tauti_supply *supply)
{
	uint64_t n_epochs = supply->options.n_epochs, later;

	supply->list = NULL;
	supply->first = supply->full = supply->options.share;
	supply->full.first_position = 0;
	supply->n_first = tauti_share_batches(&supply->first);
	supply->n_full = tauti_share_batches(&supply->full);
	supply->n_batches = UINT64_MAX;
	if (n_epochs && !__builtin_mul_overflow(
		n_epochs - 1, supply->n_full, &later) &&
		later < UINT64_MAX - supply->n_first)
		supply->n_batches = supply->n_first + later;
}

void tauti_supply_rows_follow(
	struct tauti_supply *supply, const uint64_t *list, uint64_t n_items)
{
	supply->list = list;
	supply->first = supply->full = (struct tauti_share){ .n_items = n_items,
		.n_ranks = 1, .batch = supply->options.share.batch };
	supply->n_first = supply->n_full = supply->n_batches =
		tauti_share_batches(&supply->full);
}

const struct tauti_share *tauti_supply_rows_find(const struct tauti_supply *supply,
	uint64_t number, uint64_t *ret_epoch, uint64_t *ret_in_epoch)
{
	uint64_t later = number - supply->n_first;

	*ret_epoch = supply->options.first_epoch;
	*ret_in_epoch = number;
	if (number < supply->n_first)
		return &supply->first;
	*ret_epoch += 1 + later / supply->n_full;
	*ret_in_epoch = later % supply->n_full;
	return &supply->full;
}

static uint64_t position_in_all(
	const struct tauti_share *share, uint64_t epoch, uint64_t position)
{
	uint64_t all;

	if (__builtin_mul_overflow(epoch, share->n_items, &all) ||
		__builtin_add_overflow(all, position, &all))
		return UINT64_MAX;
	return all;
}

/* The first of what is left, whichever rank's. */
static uint64_t next_position(
	const struct tauti_share *share, const struct tauti_supply_batch *batch)
{
	return position_in_all(share, batch->epoch, batch->last ? share->n_items :
		tauti_share_consumed(share, batch->in_epoch + 1));
}

void tauti_supply_rows_open(struct tauti_supply *supply)
{
	uint32_t index = (uint32_t)(supply->opened % supply->options.depth);
	uint32_t ticket = index * supply->options.share.batch;
	struct tauti_row *row = &supply->rows[index];
	const struct tauti_share *share;

	*row = (struct tauti_row){ .batch = { .number = supply->opened++ } };
	share = tauti_supply_rows_find(supply, row->batch.number, &row->batch.epoch,
		&row->batch.in_epoch);
	row->batch.last = row->batch.in_epoch + 1 ==
		(share == &supply->first ? supply->n_first : supply->n_full);
	row->batch.count = tauti_share_count(share, row->batch.in_epoch);
	row->batch.next_position = next_position(share, &row->batch);
	row->batch.slot = supply->free_slots[--supply->n_free];
	row->n_left = row->batch.count;
	supply->slots[row->batch.slot] = TAUTI_SLOT_OPEN;
	for (uint32_t i = 0; i < row->batch.count; i++) {
		supply->places[ticket + i] = (struct tauti_place){
			.state = TAUTI_PLACE_UNSEEN };
		tauti_marks_set(&supply->unseen, ticket + i);
	}
	for (uint32_t i = row->batch.count; i < supply->options.share.batch; i++)
		supply->places[ticket + i].state = TAUTI_PLACE_NONE;
}

struct tauti_row *tauti_supply_rows_of(struct tauti_supply *supply, uint32_t ticket)
{
	return &supply->rows[ticket / supply->options.share.batch];
}

uint32_t tauti_supply_rows_oldest(const struct tauti_supply *supply)
{
	return (uint32_t)(supply->told % supply->options.depth) *
		supply->options.share.batch;
}

uint64_t tauti_supply_rows_item(struct tauti_supply *supply, uint32_t ticket)
{
	struct tauti_place *place = &supply->places[ticket];
	const struct tauti_share *share;
	uint64_t epoch, in_epoch, position;

	if (place->dealt)
		return place->item;
	share = tauti_supply_rows_find(supply,
		tauti_supply_rows_of(supply, ticket)->batch.number, &epoch, &in_epoch);
	position = tauti_share_position(
		share, in_epoch, ticket % supply->options.share.batch);
	place->item = supply->list ? supply->list[position] :
		tauti_deal_item(&supply->options.deal, epoch, position);
	place->position = position_in_all(share, epoch, position);
	place->dealt = true;
	return place->item;
}

/* --- who waits for an item ---------------------------------------------------------*/

static uint32_t *chain_of(struct tauti_supply *supply, uint64_t item)
{
	return &supply->chains[tauti_draw_finish(item) & (supply->n_chains - 1)];
}

void tauti_await(struct tauti_supply *supply, uint32_t ticket)
{
	struct tauti_place *place = &supply->places[ticket];
	uint32_t *chain = chain_of(supply, place->item);

	place->state = TAUTI_PLACE_AWAITED;
	place->previous = TAUT_NONE;
	place->next = *chain;
	if (*chain != TAUT_NONE)
		supply->places[*chain].previous = ticket;
	*chain = ticket;
	supply->counts.n_awaited++;
}

static void leave_chain(struct tauti_supply *supply, uint32_t ticket)
{
	const struct tauti_place *place = &supply->places[ticket];

	if (place->next != TAUT_NONE)
		supply->places[place->next].previous = place->previous;
	if (place->previous != TAUT_NONE)
		supply->places[place->previous].next = place->next;
	else
		*chain_of(supply, place->item) = place->next;
	supply->counts.n_awaited--;
}

void tauti_awake(struct tauti_supply *supply, uint64_t item)
{
	uint32_t ticket = *chain_of(supply, item), next;

	for (; ticket != TAUT_NONE; ticket = next) {
		next = supply->places[ticket].next;
		if (supply->places[ticket].item != item)
			continue;
		leave_chain(supply, ticket);
		supply->places[ticket].state = TAUTI_PLACE_UNSEEN;
		tauti_marks_set(&supply->unseen, ticket);
	}
}
