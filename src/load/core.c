/* core.c - what the caller says and asks; life. */
#include "load/core_state.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* --- defaults ----------------------------------------------------------------------*/

uint64_t tauti_supply_fetch_bytes(
	double mean_bytes, uint32_t n_fetches, uint32_t n_workers)
{
	const double least = 1 << 20, most = 64 << 20;
	double bytes = mean_bytes * ((double)n_fetches + n_workers);

	return (uint64_t)fmin(fmax(bytes, least), most);
}

/* --- life --------------------------------------------------------------------------*/

static taut_status check_limits(uint32_t depth, uint32_t n_fetches,
	uint32_t n_workers, struct taut_error *reterr)
{
	if (depth && n_fetches && n_workers)
		return TAUT_OK;
	return taut_error_set(reterr, TAUT_EINVAL, -1, "loader: depth %" PRIu32
		", %" PRIu32 " fetches, %" PRIu32 " workers, expected at least "
		"1 of each", depth, n_fetches, n_workers);
}

static taut_status check_options(
	const struct tauti_supply_options *options, struct taut_error *reterr)
{
	const struct tauti_share *share = &options->share;
	struct tauti_share full = *share;
	taut_status status = tauti_share_check(share, reterr);

	if (!status)
		status = check_limits(options->depth, options->n_fetches,
			options->n_workers, reterr);
	if (status)
		return status;
	if (share->n_items != options->deal.n_items)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "loader: a share "
			"of %" PRIu64 " items, but %" PRIu64 " are dealt",
			share->n_items, options->deal.n_items);
	full.first_position = 0;
	if (!tauti_share_batches(&full))
		return taut_error_set(reterr, TAUT_EINVAL, -1, "loader: %" PRIu64
			" items are no batch of %" PRIu32 " on each of %" PRIu32
			" ranks", share->n_items, share->batch, share->n_ranks);
	if ((uint64_t)options->depth * share->batch >= TAUT_NONE)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "loader: %" PRIu32
			" slots of %" PRIu32 " items, expected fewer than 2^32 "
			"- 1 together", options->depth, share->batch);
	return TAUT_OK;
}

taut_status tauti_supply_create(const struct tauti_supply_options *options,
	const struct tauti_supply_engine *engine, void *context,
	struct tauti_supply **ret_supply, struct taut_error *reterr)
{
	taut_status status = check_options(options, reterr);
	struct tauti_supply *supply;

	if (status)
		return status;
	if (!engine->bytes || !engine->look || !engine->fetch ||
		!engine->prepare || !engine->move || !engine->fault ||
		!engine->ready)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"loader: the engine lacks one of its functions");
	if (engine->far && !options->n_far)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"loader: no fetch from afar, expected at least 1");
	supply = calloc(1, sizeof *supply);
	if (supply)
		supply->options = *options;
	if (!supply || !tauti_supply_rows_init(supply)) {
		tauti_supply_destroy(supply);
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "loader: out of "
			"memory for %" PRIu32 " slots of %" PRIu32 " items",
			options->depth, options->share.batch);
	}
	supply->engine = *engine;
	supply->context = context;
	tauti_supply_rows_plan(supply);
	tauti_supply_rows_reset(supply);
	*ret_supply = supply;
	return TAUT_OK;
}

void tauti_supply_destroy(struct tauti_supply *supply)
{
	if (!supply)
		return;
	tauti_supply_rows_fini(supply);
	free(supply);
}

void tauti_supply_start(struct tauti_supply *supply)
{
	supply->running = true;
	tauti_pump(supply);
}

void tauti_supply_stop(struct tauti_supply *supply)
{
	supply->running = false;
}

uint32_t tauti_supply_under_way(const struct tauti_supply *supply)
{
	return supply->counts.n_fetching + supply->counts.n_far +
		supply->counts.n_preparing;
}

static taut_status check_calm(
	const struct tauti_supply *supply, struct taut_error *reterr)
{
	if (!supply->running && !supply->pumping && !tauti_supply_under_way(supply))
		return TAUT_OK;
	return taut_error_set(reterr, TAUT_EAGAIN, -1, "loader: it goes "
		"elsewhere once it is stopped and nothing is under way");
}

taut_status tauti_supply_seek(struct tauti_supply *supply, uint64_t epoch,
	uint64_t position, uint64_t n_epochs, struct taut_error *reterr)
{
	uint64_t n_items = supply->options.share.n_items;
	taut_status status = check_calm(supply, reterr);

	if (status)
		return status;
	if (position > n_items)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "loader: position "
			"%" PRIu64 " of an epoch of %" PRIu64 " items",
			position, n_items);
	supply->options.first_epoch = epoch;
	supply->options.share.first_position = position;
	supply->options.n_epochs = n_epochs;
	tauti_supply_rows_plan(supply);
	tauti_supply_rows_reset(supply);
	return TAUT_OK;
}

taut_status tauti_supply_follow(struct tauti_supply *supply, uint64_t epoch,
	const uint64_t *list, uint64_t n_items, struct taut_error *reterr)
{
	taut_status status = check_calm(supply, reterr);

	if (status)
		return status;
	if (!n_items || n_items > TAUTI_ITEMS_MOST)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "loader: a list of "
			"%" PRIu64 " items, expected 1 to 2^62", n_items);
	supply->options.first_epoch = epoch;
	tauti_supply_rows_follow(supply, list, n_items);
	tauti_supply_rows_reset(supply);
	return TAUT_OK;
}

taut_status tauti_supply_tune(struct tauti_supply *supply, uint32_t n_fetches,
	uint64_t fetch_bytes, uint32_t n_workers, struct taut_error *reterr)
{
	taut_status status = check_limits(
		supply->options.depth, n_fetches, n_workers, reterr);

	if (status)
		return status;
	supply->options.n_fetches = n_fetches;
	supply->options.fetch_bytes = fetch_bytes;
	supply->options.n_workers = n_workers;
	tauti_pump(supply);
	return TAUT_OK;
}

/* --- what happened -----------------------------------------------------------------*/

static bool is_in(const struct tauti_supply *supply, uint32_t ticket,
	enum tauti_place_state state)
{
	return ticket < supply->unseen.n &&
		supply->places[ticket].state == state;
}

static taut_status not_under_way(uint32_t ticket, struct taut_error *reterr)
{
	return taut_error_set(reterr, TAUT_EINVAL, -1, "loader: ticket %" PRIu32
		" is done, but was not under way", ticket);
}

static void blame(
	struct tauti_supply *supply, uint32_t ticket, taut_status status)
{
	struct tauti_place *place = &supply->places[ticket];
	struct tauti_row *row = tauti_supply_rows_of(supply, ticket);

	place->state = TAUTI_PLACE_FAULTY;
	place->status = (int16_t)status;
	row->n_left--;
	row->n_faulty++;
	tauti_give_bytes(supply, place);
}

taut_status tauti_supply_fetched(struct tauti_supply *supply, uint32_t ticket,
	taut_status status, struct taut_error *reterr)
{
	if (!is_in(supply, ticket, TAUTI_PLACE_FETCHING))
		return not_under_way(ticket, reterr);
	if (supply->places[ticket].far)
		supply->counts.n_far--;
	else
		supply->counts.n_fetching--;
	if (status) {
		blame(supply, ticket, status);
	} else {
		supply->places[ticket].state = TAUTI_PLACE_AT_HAND;
		tauti_marks_set(&supply->at_hand, ticket);
	}
	tauti_awake(supply, supply->places[ticket].item);
	tauti_pump(supply);
	return TAUT_OK;
}

taut_status tauti_supply_prepared(struct tauti_supply *supply, uint32_t ticket,
	taut_status status, struct taut_error *reterr)
{
	if (!is_in(supply, ticket, TAUTI_PLACE_PREPARING))
		return not_under_way(ticket, reterr);
	supply->counts.n_preparing--;
	if (status == TAUT_EAGAIN) {
		supply->places[ticket].state = TAUTI_PLACE_UNSEEN;
		tauti_marks_set(&supply->unseen, ticket);
		tauti_give_bytes(supply, &supply->places[ticket]);
	} else if (status) {
		blame(supply, ticket, status);
	} else {
		supply->counts.prepared++;
		supply->places[ticket].state = TAUTI_PLACE_PREPARED;
		tauti_supply_rows_of(supply, ticket)->n_left--;
		tauti_give_bytes(supply, &supply->places[ticket]);
	}
	tauti_pump(supply);
	return TAUT_OK;
}

void tauti_supply_again(struct tauti_supply *supply, uint64_t item)
{
	tauti_awake(supply, item);
	tauti_pump(supply);
}

taut_status tauti_supply_took(
	struct tauti_supply *supply, uint32_t *ret_slot, struct taut_error *reterr)
{
	uint32_t slot;

	if (supply->taken == supply->told)
		return taut_error_set(reterr, TAUT_EINVAL, -1,
			"loader: no batch is ready to be taken");
	slot = supply->ready[supply->taken++ % supply->options.depth];
	supply->slots[slot] = TAUTI_SLOT_TAKEN;
	supply->counts.taken++;
	if (ret_slot)
		*ret_slot = slot;
	return TAUT_OK;
}

taut_status tauti_supply_release(
	struct tauti_supply *supply, uint32_t slot, struct taut_error *reterr)
{
	if (slot >= supply->options.depth ||
		supply->slots[slot] != TAUTI_SLOT_TAKEN)
		return taut_error_set(reterr, TAUT_EINVAL, -1, "loader: slot %"
			PRIu32 " is given back, but was not with the user", slot);
	supply->slots[slot] = TAUTI_SLOT_FREE;
	supply->free_slots[supply->n_free++] = slot;
	tauti_pump(supply);
	return TAUT_OK;
}

/* --- how it stands -----------------------------------------------------------------*/

void tauti_supply_state(const struct tauti_supply *supply, uint64_t *ret_epoch,
	uint64_t *ret_position)
{
	uint64_t in_epoch;
	const struct tauti_share *share = tauti_supply_rows_find(
		supply, supply->taken, ret_epoch, &in_epoch);

	*ret_position = tauti_share_consumed(share, in_epoch);
}

bool tauti_supply_over(const struct tauti_supply *supply)
{
	return supply->ended || supply->told == supply->n_batches;
}

void tauti_supply_awaited(const struct tauti_supply *supply,
	void (*visit)(void *context, uint64_t item), void *context)
{
	for (uint32_t ticket = 0; ticket < supply->unseen.n; ticket++)
		if (supply->places[ticket].state == TAUTI_PLACE_AWAITED)
			visit(context, supply->places[ticket].item);
}

void tauti_supply_counts(const struct tauti_supply *supply,
	struct tauti_supply_counts *ret_counts)
{
	*ret_counts = supply->counts;
	ret_counts->n_open = (uint32_t)(supply->opened - supply->told);
	ret_counts->n_free = supply->n_free;
}
