/* core_pump.c - the rules: what is looked for, fetched, prepared, told, opened next.
 *
 * Each step leaves all as it should be before it calls the engine, which may call back;
 * and says whether it did something, so that the pump begins anew with the first. */
#include "load/core_state.h"

/* --- telling a batch ---------------------------------------------------------------*/

static uint32_t ticket_of(const struct tauti_supply *supply,
	const struct tauti_row *row, uint32_t place)
{
	return (uint32_t)(row - supply->rows) * supply->options.share.batch +
		place;
}

/* False: it was the fatal one. */
static bool tell_fault(struct tauti_supply *supply, const struct tauti_row *row,
	uint32_t place)
{
	uint32_t ticket = ticket_of(supply, row, place);
	bool fatal = supply->n_faults == supply->options.max_skipped;
	struct tauti_supply_fault fault = { .number = row->batch.number,
		.epoch = row->batch.epoch,
		.item = supply->places[ticket].item,
		.ticket = ticket,
		.place = place,
		.status = (taut_status)supply->places[ticket].status,
		.fatal = fatal };

	if (fatal) {
		supply->ended = true;
	} else {
		supply->n_faults++;
		supply->counts.skipped++;
	}
	supply->engine.fault(supply->context, &fault);
	return !fatal;
}

static bool is_faulty(const struct tauti_supply *supply,
	const struct tauti_row *row, uint32_t place)
{
	return supply->places[ticket_of(supply, row, place)].state ==
		TAUTI_PLACE_FAULTY;
}

/* The last good place goes into the first hole, until there is none. */
static uint32_t close_holes(
	struct tauti_supply *supply, const struct tauti_row *row)
{
	uint32_t end = row->batch.count;

	for (uint32_t place = 0; place < end; place++) {
		if (!is_faulty(supply, row, place))
			continue;
		while (end - 1 > place && is_faulty(supply, row, end - 1))
			end--;
		end--;
		if (end > place)
			supply->engine.move(supply->context, row->batch.slot,
				end, place);
	}
	return end;
}

static bool tell_faults(struct tauti_supply *supply, struct tauti_row *row)
{
	for (uint32_t i = 0; i < row->batch.count; i++)
		if (is_faulty(supply, row, i) && !tell_fault(supply, row, i))
			return false;
	row->batch.count = close_holes(supply, row);
	return true;
}

static bool tell(struct tauti_supply *supply)
{
	uint32_t index = (uint32_t)(supply->told % supply->options.depth);
	struct tauti_row *row = &supply->rows[index];
	struct tauti_supply_batch batch;

	if (supply->told == supply->opened || row->n_left)
		return false;
	if (row->n_faulty && !tell_faults(supply, row))
		return true; /* it was the end */
	batch = row->batch;
	supply->slots[batch.slot] = TAUTI_SLOT_READY;
	supply->ready[index] = batch.slot;
	supply->told++;
	supply->counts.ready++;
	supply->engine.ready(supply->context, &batch);
	return true;
}

/* --- looking and fetching ----------------------------------------------------------*/

static bool has_room(const struct tauti_supply *supply, bool far, uint64_t bytes)
{
	uint64_t most = far ? supply->options.far_bytes : supply->options.fetch_bytes;
	uint64_t held = supply->held_bytes[far];

	return !most || !held || (held <= most && bytes <= most - held);
}

void tauti_give_bytes(struct tauti_supply *supply, struct tauti_place *place)
{
	supply->held_bytes[place->far] -= place->held_bytes;
	place->held_bytes = 0;
}

static void fetch(
	struct tauti_supply *supply, uint32_t ticket, uint64_t bytes, bool keep)
{
	struct tauti_place *place = &supply->places[ticket];

	place->state = TAUTI_PLACE_FETCHING;
	place->held_bytes = bytes;
	supply->held_bytes[place->far] += bytes;
	if (supply->held_bytes[0] > supply->counts.most_fetch_bytes)
		supply->counts.most_fetch_bytes = supply->held_bytes[0];
	supply->counts.fetched_bytes += bytes;
	supply->counts.missing++;
	supply->counts.far += place->far;
	if (place->far)
		supply->counts.n_far++;
	else
		supply->counts.n_fetching++;
	supply->engine.fetch(supply->context, ticket, place->item, keep);
}

/* Looks at a place that is in no set. */
static void look(
	struct tauti_supply *supply, uint32_t ticket, uint64_t bytes, bool claim)
{
	struct tauti_place *place = &supply->places[ticket];
	bool keep = false;

	switch (supply->engine.look(
		supply->context, ticket, place->item, place->position, claim, &keep)) {
	case TAUTI_LOOK_HERE:
		place->state = TAUTI_PLACE_AT_HAND;
		tauti_marks_set(&supply->at_hand, ticket);
		supply->counts.here++;
		break;
	case TAUTI_LOOK_COMING:
		tauti_await(supply, ticket);
		supply->counts.coming++;
		break;
	default:
		if (claim) {
			fetch(supply, ticket, bytes, keep);
			break;
		}
		place->state = TAUTI_PLACE_WANTED;
		tauti_marks_set(&supply->wanted[place->far], ticket);
	}
}

static bool may_fetch(const struct tauti_supply *supply, bool far)
{
	return far ? supply->counts.n_far < supply->options.n_far :
		     supply->counts.n_fetching < supply->options.n_fetches;
}

static bool may_prepare(const struct tauti_supply *supply)
{
	return supply->counts.n_preparing < supply->options.n_workers;
}

static bool fetch_wanted(struct tauti_supply *supply, bool far)
{
	struct tauti_marks *wanted = &supply->wanted[far];
	uint32_t ticket;
	uint64_t bytes;

	if (!wanted->count || !may_fetch(supply, far))
		return false;
	ticket = tauti_marks_first(wanted, tauti_supply_rows_oldest(supply));
	bytes = supply->engine.bytes(
		supply->context, supply->places[ticket].item);
	if (!has_room(supply, far, bytes))
		return false;
	tauti_marks_clear(wanted, ticket);
	look(supply, ticket, bytes, true);
	return true;
}

/* A fetch could begin, and nothing is known that it could be. */
static bool lacks_wanted(const struct tauti_supply *supply, bool far)
{
	return (!far || supply->engine.far) && may_fetch(supply, far) &&
		!supply->wanted[far].count;
}

/* Nothing is at hand for a worker that is idle, or nothing wanted for a fetch. */
static bool look_further(struct tauti_supply *supply)
{
	bool idle[2] = { lacks_wanted(supply, false), lacks_wanted(supply, true) };
	uint64_t item, bytes = 0;
	uint32_t ticket;
	bool far;

	if (!supply->unseen.count || (!idle[0] && !idle[1] && !may_prepare(supply)))
		return false;
	ticket = tauti_marks_first(&supply->unseen, tauti_supply_rows_oldest(supply));
	item = tauti_supply_rows_item(supply, ticket);
	far = supply->engine.far && supply->engine.far(supply->context, item);
	if (idle[far])
		bytes = supply->engine.bytes(supply->context, item);
	tauti_marks_clear(&supply->unseen, ticket);
	supply->places[ticket].far = far;
	look(supply, ticket, bytes, idle[far] && has_room(supply, far, bytes));
	return true;
}

/* --- preparing, opening ------------------------------------------------------------*/

static bool prepare(struct tauti_supply *supply)
{
	const struct tauti_row *row;
	uint32_t ticket;

	if (!supply->at_hand.count || !may_prepare(supply))
		return false;
	ticket = tauti_marks_first(&supply->at_hand, tauti_supply_rows_oldest(supply));
	row = tauti_supply_rows_of(supply, ticket);
	tauti_marks_clear(&supply->at_hand, ticket);
	supply->places[ticket].state = TAUTI_PLACE_PREPARING;
	supply->counts.n_preparing++;
	supply->engine.prepare(supply->context, ticket,
		supply->places[ticket].item, row->batch.epoch, row->batch.slot,
		ticket % supply->options.share.batch);
	return true;
}

/* Looking goes on with it at once, so a batch is opened when it may be. */
static bool open_next(struct tauti_supply *supply)
{
	if (!supply->n_free || supply->opened == supply->n_batches)
		return false;
	tauti_supply_rows_open(supply);
	return true;
}

void tauti_pump(struct tauti_supply *supply)
{
	if (supply->pumping)
		return;
	supply->pumping = true;
	while (supply->running && !supply->ended &&
		(tell(supply) || prepare(supply) || fetch_wanted(supply, false) ||
			fetch_wanted(supply, true) || look_further(supply) ||
			open_next(supply)))
		;
	supply->pumping = false;
}
