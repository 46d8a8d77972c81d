/* core_world.h - a made-up world for tests of the mechanism of a loader: jobs of several
 * ranks on one host, a cache that they share or none, fetches and preparations of any
 * duration, items at fault, users who take and give back when they like, processes that
 * die. All of it from a seed, on a virtual clock; what each supply does is compared with
 * what a book of its own says.
 *
 * A job goes through its epochs in segments: all ranks take so many batches and stop;
 * then another number of ranks, with other batches, workers and limits, goes on from the
 * state that they tell. A segment in which a process died is done again.
 * Threads: one. Faults end the test with the seed. */
#ifndef TAUT_LOAD_CORE_WORLD_H
#define TAUT_LOAD_CORE_WORLD_H

#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "load/core.h"
#include "load/draw.h"

enum {
	WORLD_JOBS = 2,
	WORLD_RANKS = 4,
	WORLD_EPOCHS = 3,
	WORLD_ITEMS = 80,
	WORLD_DEPTH = 6,
	WORLD_BATCH = 8,
	WORLD_TICKETS = WORLD_DEPTH * WORLD_BATCH,
};

/* What is the matter with an item. */
enum world_fault { WORLD_GOOD, WORLD_UNREADABLE, WORLD_LOST, WORLD_BROKEN };

/* A word of the cache. */
enum world_word { WORLD_ABSENT, WORLD_FILLING, WORLD_KEPT, WORLD_NEVER };

/* A ticket, as the engine sees it. */
enum world_place {
	WORLD_UNSEEN, WORLD_WANTED, WORLD_AWAITED, WORLD_FETCHING,
	WORLD_AT_HAND, WORLD_PREPARING, WORLD_PREPARED, WORLD_FAULTY,
};

enum world_what {
	WORLD_FETCHED, WORLD_DONE, /* number: ticket */
	WORLD_USER,                /* is ready for the next batch */
	WORLD_WAKE,                /* is told that there is one */
	WORLD_RELEASE,             /* number: slot */
	WORLD_NEWS,                /* number: item */
	WORLD_CRASH,
	WORLD_STALL,  /* the supply is stopped for a while, number 0: goes on */
};

struct world_event {
	int64_t at_ns;
	uint64_t id; /* breaks ties */
	enum world_what what;
	struct world_process *process;
	uint32_t life; /* of the process: an event of an earlier one is nothing */
	uint64_t number;
};

struct world_batch { /* as the book has it */
	uint64_t epoch, in_epoch;
	uint32_t count;
	bool last;
	uint64_t items[WORLD_BATCH], positions[WORLD_BATCH];
	uint32_t n_own; /* those after it are repeated by PAD */
};

struct world_process {
	struct world *world;
	struct world_job *job;
	struct tauti_supply_options options;
	struct tauti_supply *supply;
	uint32_t life;
	bool dead, over; /* over: took what it was to take, and is idle */
	TAUT_VEC(struct world_batch) book;
	uint64_t told, taken, target; /* batches */
	uint64_t skipped;
	bool fatal, stopped, stalled, wants; /* wants: the user waits for a batch */
	enum world_place places[WORLD_TICKETS];
	uint64_t items[WORLD_TICKETS], held[WORLD_TICKETS];
	uint64_t n_settled; /* HERE, or MISSING that was claimed */
	uint32_t n_fetching, n_preparing;
	uint64_t held_bytes;
	uint64_t slots[WORLD_DEPTH][WORLD_BATCH]; /* item + 1 */
	uint32_t ready[WORLD_DEPTH], counts[WORLD_DEPTH]; /* by number, by slot */
	bool lent[WORLD_DEPTH];
	uint64_t n_waiting; /* batches that are ready, and not taken */
};

struct world_job {
	struct world *world;
	struct tauti_deal deal;
	enum tauti_tail tail;
	uint64_t epoch, position, end_epoch; /* of the segment's beginning */
	uint64_t max_skipped;
	uint32_t n_ranks;
	struct world_process ranks[WORLD_RANKS];
	bool crashed, failed, over; /* crashed, failed: in this segment */
	uint32_t n_over; /* ranks, dead ones too */
	/* By epoch and item: in segments that are over; in this one. */
	uint32_t seen[WORLD_EPOCHS + 1][WORLD_ITEMS];
	uint32_t now[WORLD_EPOCHS + 1][WORLD_ITEMS];
	/* What the last share of each epoch pads or drops. */
	struct tauti_share last[WORLD_EPOCHS + 1];
};

struct world {
	uint64_t seed;
	struct tauti_draw draw;
	uint64_t n_items;
	uint64_t bytes[WORLD_ITEMS];
	enum world_fault faults[WORLD_ITEMS];
	bool cached, inlined, crashes, resumes, stalls, one_size;
	bool fades; /* what is at hand may be gone when it is to be prepared */
	uint64_t cache_bytes, kept_bytes;
	enum world_word words[WORLD_ITEMS];
	struct world_process *filler[WORLD_ITEMS];
	int64_t fetch_ns, prepare_ns, consume_ns, release_ns, news_ns;
	uint32_t n_jobs;
	struct world_job jobs[WORLD_JOBS];

	int64_t now_ns;
	uint64_t n_events;
	TAUT_VEC(struct world_event) events; /* a heap */
	/* What was seen, for the test to know that it was. */
	uint64_t n_batches, n_hits, n_misses, n_coming, n_skipped, n_fatal;
	uint64_t n_crashes, n_resumes, n_refetched, n_faded;
};

#define WORLD_CHECK(world, what, ...) \
	do { \
		if (!(what)) { \
			print_error("seed %llu, %lld ns: ", \
				(unsigned long long)(world)->seed, \
				(long long)(world)->now_ns); \
			fail_msg(__VA_ARGS__); \
		} \
	} while (0)

#define WORLD_OK(world, call) WORLD_CHECK(world, (call) == TAUT_OK, #call)

/* --- chance, and the heap of events ------------------------------------------------*/

static inline uint64_t world_pick(struct world *world, uint64_t n)
{
	return tauti_draw_below(&world->draw, n);
}

static inline int64_t world_delay(struct world *world, int64_t most_ns)
{
	return most_ns ? (int64_t)world_pick(world, (uint64_t)most_ns + 1) : 0;
}

static inline bool world_is_before(
	const struct world_event *a, const struct world_event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->id < b->id;
}

static inline void world_push(struct world_process *process, int64_t delay_ns,
	enum world_what what, uint64_t number)
{
	struct world *world = process->world;
	struct world_event event = { world->now_ns + delay_ns,
		world->n_events++, what, process, process->life, number };
	size_t i = world->events.count;

	if (!taut_vec_push(&world->events, event))
		abort();
	for (; i && world_is_before(&event, &world->events.data[(i - 1) / 2]);
		i = (i - 1) / 2)
		world->events.data[i] = world->events.data[(i - 1) / 2];
	world->events.data[i] = event;
}

static inline struct world_event world_pop(struct world *world)
{
	struct world_event *heap = world->events.data, first = heap[0];
	size_t n = --world->events.count, i = 0, child;
	struct world_event last = heap[n];

	for (; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n &&
			world_is_before(&heap[child + 1], &heap[child]))
			child++;
		if (!world_is_before(&heap[child], &last))
			break;
		heap[i] = heap[child];
	}
	heap[i] = last;
	return first;
}

/* --- the book ----------------------------------------------------------------------*/

static inline void world_write_place(const struct tauti_supply_options *options,
	const struct tauti_share *share, struct world_batch *it, uint32_t i)
{
	uint64_t position = tauti_share_position(share, it->in_epoch, i);

	it->items[i] = tauti_deal_item(&options->deal, it->epoch, position);
	it->positions[i] = it->epoch * share->n_items + position;
	it->n_own += share->first_position + (it->in_epoch * share->batch + i) *
		share->n_ranks + share->rank < share->n_items;
}

/* Written down by going through the epochs, one position after the other. */
static inline void world_write_book(struct world_process *process)
{
	const struct tauti_supply_options *options = &process->options;
	struct tauti_share share = options->share;

	taut_vec_clear(&process->book);
	for (uint64_t e = 0; e < options->n_epochs; e++) {
		uint64_t n = tauti_share_batches(&share);

		for (uint64_t b = 0; b < n; b++) {
			struct world_batch it = { options->first_epoch + e, b,
				tauti_share_count(&share, b), b + 1 == n,
				.n_own = 0 };

			for (uint32_t i = 0; i < it.count; i++)
				world_write_place(options, &share, &it, i);
			if (!taut_vec_push(&process->book, it))
				abort();
		}
		share.first_position = 0;
	}
}

static inline const struct world_batch *world_batch_of(
	const struct world_process *process, uint32_t ticket)
{
	uint32_t batch = process->options.share.batch;
	uint32_t depth = process->options.depth, row = ticket / batch;
	uint64_t ahead = (row + depth - process->told % depth) % depth;

	WORLD_CHECK(process->world, process->told + ahead < process->book.count,
		"ticket %u is of no batch", ticket);
	return &process->book.data[process->told + ahead];
}

static inline uint64_t world_n_open(const struct world_process *process)
{
	struct tauti_supply_counts counts;

	tauti_supply_counts(process->supply, &counts);
	return counts.n_open;
}

/* The first ticket, in the order (batch, place), in this state; TAUT_NONE. */
static inline uint32_t world_first(
	const struct world_process *process, enum world_place state)
{
	uint32_t batch = process->options.share.batch;
	uint64_t end = process->told + world_n_open(process);

	for (uint64_t number = process->told; number < end; number++)
		for (uint32_t i = 0; i < process->book.data[number].count; i++) {
			uint32_t ticket = (uint32_t)(number %
				process->options.depth) * batch + i;

			if (process->places[ticket] == state)
				return ticket;
		}
	return TAUT_NONE;
}

static inline bool world_has_room(
	const struct world_process *process, uint64_t bytes)
{
	uint64_t most = process->options.fetch_bytes;

	return !most || !process->held_bytes ||
		process->held_bytes + bytes <= most;
}

/* --- the cache ---------------------------------------------------------------------*/

/* Who waits for the item learns that its word has changed; this process knows. */
static inline void world_tell_others(
	struct world *world, uint64_t item, const struct world_process *but)
{
	for (uint32_t j = 0; j < world->n_jobs; j++)
		for (uint32_t r = 0; r < world->jobs[j].n_ranks; r++) {
			struct world_process *it = &world->jobs[j].ranks[r];
			bool waits = false;

			for (uint32_t t = 0; t < WORLD_TICKETS; t++)
				waits |= it->places[t] == WORLD_AWAITED &&
					it->items[t] == item;
			if (waits && it != but && !it->dead && !it->over)
				world_push(it, world_delay(world, world->news_ns),
					WORLD_NEWS, item);
		}
}

static inline enum tauti_look world_find(struct world_process *process,
	uint64_t item, bool claim, bool *ret_keep)
{
	struct world *world = process->world;
	uint64_t bytes = world->bytes[item];

	if (!world->cached)
		return TAUTI_LOOK_MISSING;
	if (world->words[item] == WORLD_KEPT)
		return TAUTI_LOOK_HERE;
	if (world->words[item] == WORLD_FILLING)
		return TAUTI_LOOK_COMING;
	if (!claim || world->words[item] == WORLD_NEVER)
		return TAUTI_LOOK_MISSING;
	if (world->kept_bytes + bytes > world->cache_bytes) {
		world->words[item] = WORLD_NEVER;
		return TAUTI_LOOK_MISSING;
	}
	world->kept_bytes += bytes;
	world->words[item] = WORLD_FILLING;
	world->filler[item] = process;
	*ret_keep = true;
	return TAUTI_LOOK_MISSING;
}

/* This process has brought it, or failed. */
static inline void world_fill(
	struct world_process *process, uint64_t item, bool good)
{
	struct world *world = process->world;

	if (world->words[item] != WORLD_FILLING ||
		world->filler[item] != process)
		return;
	world->words[item] = good ? WORLD_KEPT : WORLD_ABSENT;
	world->filler[item] = NULL;
	if (!good)
		world->kept_bytes -= world->bytes[item];
	world_tell_others(world, item, process);
}

/* --- the engine --------------------------------------------------------------------*/

static inline uint64_t world_bytes(void *context, uint64_t item)
{
	struct world_process *process = context;

	WORLD_CHECK(process->world, item < process->world->n_items, "no item");
	return process->world->bytes[item];
}

static inline void world_begins(struct world_process *process, const char *what)
{
	WORLD_CHECK(process->world, !process->dead && !process->over &&
		!process->stopped && !process->stalled && !process->fatal,
		"%s after its end", what);
}

static inline enum tauti_look world_look(void *context, uint32_t ticket,
	uint64_t item, uint64_t position, bool claim, bool *ret_keep)
{
	struct world_process *process = context;
	struct world *world = process->world;
	enum world_place was = process->places[ticket];
	uint32_t batch = process->options.share.batch;
	enum tauti_look found;

	world_begins(process, "a look");
	WORLD_CHECK(world, world_batch_of(process, ticket)->items[
		ticket % batch] == item, "ticket %u is of another item", ticket);
	WORLD_CHECK(world, world_batch_of(process, ticket)->positions[
		ticket % batch] == position, "ticket %u stands elsewhere", ticket);
	WORLD_CHECK(world, was == WORLD_UNSEEN ||
		(was == WORLD_WANTED && claim), "a look too many");
	WORLD_CHECK(world, !claim ||
		(process->n_fetching < process->options.n_fetches &&
			world_has_room(process, world->bytes[item])),
		"a claim that cannot be fetched");
	WORLD_CHECK(world, was != WORLD_WANTED ||
		world_first(process, WORLD_WANTED) == ticket,
		"ticket %u is before its turn", ticket);
	process->items[ticket] = item;
	found = world_find(process, item, claim, ret_keep);
	process->n_settled += found == TAUTI_LOOK_HERE ||
		(found == TAUTI_LOOK_MISSING && claim);
	world->n_hits += found == TAUTI_LOOK_HERE;
	world->n_coming += found == TAUTI_LOOK_COMING;
	process->places[ticket] = found == TAUTI_LOOK_HERE ? WORLD_AT_HAND :
		found == TAUTI_LOOK_COMING ? WORLD_AWAITED : WORLD_WANTED;
	return found;
}

/* Those that wait for it here are to be looked at again. */
static inline void world_awake(struct world_process *process, uint64_t item)
{
	for (uint32_t t = 0; t < WORLD_TICKETS; t++)
		if (process->places[t] == WORLD_AWAITED &&
			process->items[t] == item)
			process->places[t] = WORLD_UNSEEN;
}

static inline void world_fetched(struct world_process *process, uint32_t ticket)
{
	struct world *world = process->world;
	uint64_t item = process->items[ticket];
	bool good = world->faults[item] != WORLD_UNREADABLE &&
		world->faults[item] != WORLD_LOST;

	process->n_fetching--;
	world_fill(process, item, good);
	world_awake(process, item);
	process->places[ticket] = good ? WORLD_AT_HAND : WORLD_FAULTY;
	if (!good) {
		process->held_bytes -= process->held[ticket];
		process->held[ticket] = 0;
	}
	WORLD_OK(world, tauti_supply_fetched(process->supply, ticket,
		good ? TAUT_OK : TAUT_EIO, NULL));
}

static inline void world_fetch(
	void *context, uint32_t ticket, uint64_t item, bool keep)
{
	struct world_process *process = context;
	struct world *world = process->world;
	int64_t fetch_ns = world->one_size ? world->fetch_ns :
		world_delay(world, world->fetch_ns);

	world_begins(process, "a fetch");
	WORLD_CHECK(world, process->places[ticket] == WORLD_WANTED &&
		process->items[ticket] == item, "ticket %u is not wanted", ticket);
	WORLD_CHECK(world, keep == (world->filler[item] == process &&
		world->words[item] == WORLD_FILLING) || !world->cached,
		"keeps what is not claimed");
	world->n_misses++;
	process->places[ticket] = WORLD_FETCHING;
	process->held[ticket] = world->bytes[item];
	process->held_bytes += world->bytes[item];
	process->n_fetching++;
	if (world->faults[item] == WORLD_LOST)
		fetch_ns = 100 * (1 + world->fetch_ns);
	if (world->inlined && !fetch_ns)
		world_fetched(process, ticket);
	else
		world_push(process, fetch_ns, WORLD_FETCHED, ticket);
}

static inline void world_prepared(struct world_process *process, uint32_t ticket)
{
	struct world *world = process->world;
	bool good = world->faults[process->items[ticket]] != WORLD_BROKEN;
	bool gone = world->fades && world_pick(world, 4) == 0;

	process->n_preparing--;
	process->held_bytes -= process->held[ticket];
	process->held[ticket] = 0;
	process->places[ticket] = gone ? WORLD_UNSEEN :
		good ? WORLD_PREPARED : WORLD_FAULTY;
	process->n_settled -= gone;
	world->n_faded += gone;
	WORLD_OK(world, tauti_supply_prepared(process->supply, ticket,
		gone ? TAUT_EAGAIN : good ? TAUT_OK : TAUT_EFORMAT, NULL));
}

static inline void world_prepare(void *context, uint32_t ticket, uint64_t item,
	uint64_t epoch, uint32_t slot, uint32_t place)
{
	struct world_process *process = context;
	struct world *world = process->world;
	int64_t prepare_ns = world->one_size ? world->prepare_ns :
		world_delay(world, world->prepare_ns);

	world_begins(process, "a preparation");
	WORLD_CHECK(world, world_first(process, WORLD_AT_HAND) == ticket,
		"ticket %u is prepared before its turn", ticket);
	WORLD_CHECK(world, process->items[ticket] == item &&
		place == ticket % process->options.share.batch &&
		epoch == world_batch_of(process, ticket)->epoch,
		"ticket %u is prepared as another item", ticket);
	WORLD_CHECK(world, slot < process->options.depth &&
		!process->lent[slot], "slot %u is with the user", slot);
	process->slots[slot][place] = item + 1;
	process->places[ticket] = WORLD_PREPARING;
	process->n_preparing++;
	if (world->inlined && !prepare_ns)
		world_prepared(process, ticket);
	else
		world_push(process, prepare_ns, WORLD_DONE, ticket);
}

static inline void world_move(
	void *context, uint32_t slot, uint32_t from, uint32_t to)
{
	struct world_process *process = context;

	WORLD_CHECK(process->world, from > to && !process->lent[slot],
		"place %u moves to %u", from, to);
	process->slots[slot][to] = process->slots[slot][from];
}

static inline bool world_is_faulty(const struct world *world, uint64_t item)
{
	return world->faults[item] != WORLD_GOOD;
}

/* The next place at fault in the book's order. */
static inline void world_fault(
	void *context, const struct tauti_supply_fault *fault)
{
	struct world_process *process = context;
	struct world *world = process->world;
	const struct world_batch *it;
	uint64_t before = 0;

	WORLD_CHECK(world, !process->dead && !process->over && !process->fatal &&
		fault->number == process->told, "a fault of another batch");
	it = &process->book.data[process->told];
	WORLD_CHECK(world, fault->place < it->count && fault->epoch == it->epoch &&
		fault->item == it->items[fault->place] &&
		world_is_faulty(world, fault->item) &&
		process->places[fault->ticket] == WORLD_FAULTY &&
		fault->status == (world->faults[fault->item] == WORLD_BROKEN ?
			TAUT_EFORMAT : TAUT_EIO), "a wrong fault");
	for (uint64_t b = 0; b <= process->told; b++)
		for (uint32_t i = 0; i < (b < process->told ?
			process->book.data[b].count : fault->place); i++)
			before += world_is_faulty(world,
				process->book.data[b].items[i]);
	WORLD_CHECK(world, before == process->skipped &&
		fault->fatal == (before == process->options.max_skipped),
		"fault %llu is out of order", (unsigned long long)before);
	process->skipped += !fault->fatal;
	process->fatal = fault->fatal;
	world->n_skipped += !fault->fatal;
	world->n_fatal += fault->fatal;
}

/* What the slot must hold: holes are filled from the end, one after the other. */
static inline uint32_t world_expect(const struct world *world,
	const struct world_batch *it, uint64_t items[WORLD_BATCH])
{
	uint32_t n = it->count;

	memcpy(items, it->items, n * sizeof *items);
	for (uint32_t i = 0; i < n;) {
		if (!world_is_faulty(world, items[i]))
			i++;
		else if (world_is_faulty(world, items[n - 1]))
			n--;
		else
			items[i] = items[--n];
	}
	return n;
}

/* Above all that this batch asked for, and not above what a later one will. */
static inline void world_check_next(const struct world_process *process,
	const struct tauti_supply_batch *batch)
{
	for (uint64_t b = process->told; b < process->book.count; b++)
		for (uint32_t i = 0; i < process->book.data[b].n_own; i++)
			WORLD_CHECK(process->world, (b == process->told) ==
				(process->book.data[b].positions[i] <
					batch->next_position),
				"batch %llu is told, %llu is next",
				(unsigned long long)batch->number,
				(unsigned long long)batch->next_position);
}

static inline void world_take(struct world_process *process);

static inline void world_ready(
	void *context, const struct tauti_supply_batch *batch)
{
	struct world_process *process = context;
	struct world *world = process->world;
	uint64_t number = process->told, items[WORLD_BATCH];
	const struct world_batch *it = &process->book.data[number];
	uint32_t size = process->options.share.batch;

	world_begins(process, "a batch");
	WORLD_CHECK(world, batch->number == number &&
		number < process->book.count && batch->epoch == it->epoch &&
		batch->in_epoch == it->in_epoch && batch->last == it->last,
		"batch %llu is told, not %llu",
		(unsigned long long)batch->number, (unsigned long long)number);
	WORLD_CHECK(world, batch->slot < process->options.depth &&
		!process->lent[batch->slot], "its slot is with the user");
	world_check_next(process, batch);
	WORLD_CHECK(world, batch->count == world_expect(world, it, items),
		"batch %llu has %u items", (unsigned long long)number, batch->count);
	for (uint32_t i = 0; i < batch->count; i++)
		WORLD_CHECK(world, process->slots[batch->slot][i] ==
			items[i] + 1, "place %u has another item", i);
	for (uint32_t i = 0; i < it->count; i++) {
		enum world_place *place = &process->places[
			number % process->options.depth * size + i];

		WORLD_CHECK(world, *place == (world_is_faulty(world,
			it->items[i]) ? WORLD_FAULTY : WORLD_PREPARED),
			"place %u of %llu is not done", i,
			(unsigned long long)number);
		*place = WORLD_UNSEEN;
	}
	process->ready[number % process->options.depth] = batch->slot;
	process->counts[batch->slot] = batch->count;
	process->told++;
	process->n_waiting++;
	world->n_batches++;
	if (process->wants && world->inlined)
		world_take(process);
	else
		world_push(process, 0, WORLD_WAKE, 0);
}

/* --- the user ----------------------------------------------------------------------*/

static inline void world_check_state(struct world_process *process)
{
	uint64_t epoch, position, b = process->taken;
	struct tauti_share share = process->options.share;

	tauti_supply_state(process->supply, &epoch, &position);
	if (b < process->book.count &&
		process->book.data[b].epoch != process->options.first_epoch)
		share.first_position = 0;
	if (b < process->book.count)
		WORLD_CHECK(process->world,
			epoch == process->book.data[b].epoch &&
			position == share.first_position +
			process->book.data[b].in_epoch * share.batch *
			share.n_ranks, "batch %llu is taken, the state is another",
			(unsigned long long)b);
	else
		WORLD_CHECK(process->world, position == 0 && epoch ==
			process->options.first_epoch + process->options.n_epochs,
			"all is taken, the state is another");
}

static inline void world_stop(struct world_process *process)
{
	process->stopped = true;
	tauti_supply_stop(process->supply);
}

static inline void world_take(struct world_process *process)
{
	struct world *world = process->world;
	uint32_t slot;
	const struct world_batch *it = &process->book.data[process->taken];

	WORLD_OK(world, tauti_supply_took(process->supply, &slot, NULL));
	WORLD_CHECK(world, slot == process->ready[
		process->taken % process->options.depth], "another slot");
	process->wants = false;
	process->n_waiting--;
	process->taken++;
	process->lent[slot] = true;
	for (uint32_t i = 0; i < process->counts[slot]; i++)
		process->job->now[it->epoch][process->slots[slot][i] - 1]++;
	world_check_state(process);
	world_push(process, world_delay(world, world->release_ns) +
		(world->one_size ? world->consume_ns : 0), WORLD_RELEASE, slot);
	if (process->taken == process->target)
		world_stop(process);
	else
		world_push(process, world->one_size ? world->consume_ns :
			world_delay(world, world->consume_ns), WORLD_USER, 0);
}

static inline void world_release(struct world_process *process, uint32_t slot)
{
	for (uint32_t i = 0; i < process->counts[slot]; i++)
		WORLD_CHECK(process->world, process->slots[slot][i] > 0,
			"a slot was changed");
	process->lent[slot] = false;
	WORLD_OK(process->world,
		tauti_supply_release(process->supply, slot, NULL));
}

#endif /* TAUT_LOAD_CORE_WORLD_H */
