/* Made-up jobs over hosts: the loaders' mechanism and that of the peers, caches that the ranks
 * of a host share, a network that delays and cuts off, processes that die at any moment. All
 * of it from a seed, on a virtual clock. What is checked: every rank that lives delivers each
 * item of its share once in each epoch, whoever died; and where nobody did, the set is read
 * from storage once, by all hosts together. */
#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "load/cache_words.h"
#include "load/core.h"
#include "load/draw.h"
#include "peers/core.h"

enum {
	WORLDS = 4000,
	HOSTS = 4, RANKS = 8, ITEMS = 64, EPOCHS = 3,
	DEPTH = 4, BATCH = 5, TICKETS = DEPTH * BATCH, ASKS = 12, SERVES = RANKS * ASKS,
	POLL = 20, /* between two looks at what others bring */
};

enum what {
	OPEN, FETCHED, PREPARED, TAKE, RELEASE, NEWS, /* a loader's */
	ASK, HEAD, BODY, NONE, /* arrives: number, item */
	CUT,                   /* the connection to a peer ended */
	READ, ANSWERED, AGAIN, TICK,
	DEATH,
};

struct event {
	int64_t at;
	uint64_t id; /* breaks ties */
	enum what what;
	uint32_t rank, peer, number;
	uint64_t item, serve_id;
};

struct process {
	struct world *world;
	uint32_t rank, host;
	struct tauti_supply *supply;
	struct tauti_peers_core *core;
	struct tauti_cache_words words;
	bool is_whole; /* all bytes of an answer are there */
	bool is_dead, is_over, waits, has_news, has_again, has_tick;
	uint64_t n_ready;
	uint32_t n_asks;
	uint64_t items[TICKETS];     /* by ticket */
	bool kept[TICKETS];
	uint32_t ticket_of[ASKS];    /* by ask's number; TAUT_NONE */
	uint64_t serve_items[SERVES], serve_ids[SERVES];
	bool cut[RANKS];             /* the connection to that rank is gone */
	int64_t arrives[RANKS];      /* what was sent last to that rank */
	uint64_t slots[DEPTH][BATCH];
	uint32_t counts[DEPTH];
	uint64_t epochs[DEPTH];
	uint32_t order[DEPTH], first_ready;
	uint32_t seen[EPOCHS][ITEMS];
};

struct world {
	uint64_t seed;
	struct tauti_draw draw;
	uint32_t n_hosts, n_ranks, n_items, batch;
	uint64_t bytes[ITEMS];
	uint32_t host_of[RANKS], n_asks_of[RANKS];
	struct tauti_split split;
	struct tauti_cache_words caches[HOSTS];
	struct process ranks[RANKS];
	struct tauti_deal deal;
	uint32_t n_epochs;
	int64_t wire_ns, read_ns, prepare_ns;
	bool some_die, fits, bad_reads, slow_answers, leave;
	int64_t now;
	uint64_t n_events, n_serve_ids;
	TAUT_VEC(struct event) events; /* a heap */
	uint32_t reads[ITEMS];
	uint64_t n_came, n_none, n_late, n_deaths, n_passed, n_reads, n_fallbacks;
};

#define CHECK(w, what, ...) \
	do { \
		if (!(what)) { \
			print_error("seed %llu, %lld: ", (unsigned long long)(w)->seed, \
				(long long)(w)->now); \
			fail_msg(__VA_ARGS__); \
		} \
	} while (0)

static uint64_t pick(struct world *w, uint64_t n)
{
	return tauti_draw_below(&w->draw, n);
}

/* --- events ------------------------------------------------------------------------*/

static bool is_before(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->id < b->id;
}

static void push(struct world *w, struct event event)
{
	size_t i = w->events.count;

	event.id = w->n_events++;
	if (!taut_vec_push(&w->events, event))
		abort();
	for (; i && is_before(&event, &w->events.data[(i - 1) / 2]); i = (i - 1) / 2)
		w->events.data[i] = w->events.data[(i - 1) / 2];
	w->events.data[i] = event;
}

static struct event pop(struct world *w)
{
	struct event *heap = w->events.data, first = heap[0], last;
	size_t n = --w->events.count, i = 0, child;

	for (last = heap[n]; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && is_before(&heap[child + 1], &heap[child]))
			child++;
		if (!is_before(&heap[child], &last))
			break;
		heap[i] = heap[child];
	}
	heap[i] = last;
	return first;
}

static void soon(struct process *p, int64_t most, enum what what, uint32_t number)
{
	struct world *w = p->world;

	push(w, (struct event){ .at = w->now + 1 + (int64_t)pick(w, (uint64_t)most),
		.what = what, .rank = p->rank, .number = number });
}

/* In the order in which it was sent; when it arrives. */
static int64_t send_to(struct process *p, uint32_t to, enum what what, uint32_t number,
	uint64_t item)
{
	struct world *w = p->world;
	int64_t at = w->now + 1 + (int64_t)pick(w, (uint64_t)w->wire_ns);

	if (p->arrives[to] >= at)
		at = p->arrives[to];
	p->arrives[to] = at;
	push(w, (struct event){ .at = at, .what = what, .rank = to, .peer = p->rank,
		.number = number, .item = item });
	return at;
}

/* --- a peer's calls ------------------------------------------------------------------*/

static void read_storage(struct process *p, uint64_t item, enum what what, uint32_t number)
{
	p->world->reads[item]++;
	p->world->n_reads++;
	soon(p, p->world->read_ns, what, number);
}

static void end(void *context, uint32_t number, bool came)
{
	struct process *p = context;
	uint32_t ticket = p->ticket_of[number];

	CHECK(p->world, ticket != TAUT_NONE, "ask %u ends twice", number);
	CHECK(p->world, came == p->is_whole, "ask %u came, and is not there", number);
	p->ticket_of[number] = TAUT_NONE;
	if (came) {
		p->world->n_came++;
		soon(p, 1, FETCHED, ticket);
		return;
	}
	p->world->n_fallbacks++;
	read_storage(p, p->items[ticket], FETCHED, ticket);
}

static enum tauti_serve_look serve_look(void *context, uint64_t item, uint64_t bytes,
	bool claim, void **ret_at)
{
	struct process *p = context;
	uint64_t place;

	CHECK(p->world, bytes == p->world->bytes[item], "another length");
	if (!claim && tauti_cache_words_state(&p->words, (uint32_t)item) !=
		TAUTI_WORD_HERE)
		return TAUTI_SERVE_MISSING;
	switch (tauti_cache_words_look(&p->words, (uint32_t)item, bytes, &place)) {
	case TAUTI_CACHE_HERE:
		*ret_at = &p->world->bytes[item];
		return TAUTI_SERVE_HERE;
	case TAUTI_CACHE_COMING:
		if (!p->has_again)
			soon(p, POLL, AGAIN, 0);
		p->has_again = true;
		return TAUTI_SERVE_COMING;
	default:
		*ret_at = &p->world->bytes[item];
		return place == UINT64_MAX ? TAUTI_SERVE_NONE : TAUTI_SERVE_MISSING;
	}
}

static void serve_read(void *context, uint32_t serve, uint64_t item, void *at)
{
	struct process *p = context;

	CHECK(p->world, at == &p->world->bytes[item], "room of another item");
	p->serve_items[serve] = item;
	read_storage(p, item, READ, serve);
}

static void serve_answer(void *context, uint32_t serve, uint32_t peer, uint32_t number,
	const void *at, uint64_t bytes)
{
	struct process *p = context;
	struct world *w = p->world;
	uint64_t item = tauti_peers_core_item(p->core, serve);
	int64_t gone;

	CHECK(w, !p->cut[peer], "an answer to who is gone");
	CHECK(w, !at || (at == &w->bytes[item] && bytes == w->bytes[item] &&
		tauti_cache_words_state(&p->words, (uint32_t)item) == TAUTI_WORD_HERE),
		"the answer is not what was asked");
	p->serve_ids[serve] = ++w->n_serve_ids;
	/* Gone at the latest when it is all there. */
	gone = send_to(p, peer, at ? HEAD : NONE, number, item);
	if (at)
		gone = send_to(p, peer, BODY, number, item);
	push(w, (struct event){ .at = gone, .what = ANSWERED, .rank = p->rank,
		.peer = peer, .number = serve, .serve_id = p->serve_ids[serve] });
}

static const struct tauti_peers_calls calls = { end, serve_look, serve_read, serve_answer };

static void tick_later(struct process *p, int64_t at)
{
	if (p->has_tick || at == INT64_MAX)
		return;
	p->has_tick = true;
	push(p->world, (struct event){ .at = at, .what = TICK, .rank = p->rank });
}

/* --- a loader's engine ---------------------------------------------------------------*/

static uint64_t item_bytes(void *context, uint64_t item)
{
	return ((struct process *)context)->world->bytes[item];
}

static bool item_far(void *context, uint64_t item)
{
	return tauti_peers_core_where(((struct process *)context)->core, item) ==
		TAUTI_REMOTE_FAR;
}

static enum tauti_look look(void *context, uint32_t ticket, uint64_t item,
	uint64_t position, bool claim, bool *ret_keep)
{
	struct process *p = context;
	uint64_t place;

	(void)position;
	p->items[ticket] = item;
	if ((!claim || tauti_peers_core_where(p->core, item) != TAUTI_REMOTE_HERE) &&
		tauti_cache_words_state(&p->words, (uint32_t)item) != TAUTI_WORD_HERE)
		return TAUTI_LOOK_MISSING;
	switch (tauti_cache_words_look(
		&p->words, (uint32_t)item, p->world->bytes[item], &place)) {
	case TAUTI_CACHE_HERE:
		return TAUTI_LOOK_HERE;
	case TAUTI_CACHE_COMING:
		if (!p->has_news)
			soon(p, POLL, NEWS, 0);
		p->has_news = true;
		return TAUTI_LOOK_COMING;
	default:
		*ret_keep = place != UINT64_MAX;
		return TAUTI_LOOK_MISSING;
	}
}

static void fetch(void *context, uint32_t ticket, uint64_t item, bool keep)
{
	struct process *p = context;
	struct world *w = p->world;
	uint32_t peer, number;

	p->kept[ticket] = keep;
	if (keep || !tauti_peers_core_ask(p->core, item, w->bytes[item], w->now, &peer,
		&number)) {
		read_storage(p, item, FETCHED, ticket);
		return;
	}
	CHECK(w, w->host_of[peer] == tauti_split_owner(&w->split, item) &&
		w->host_of[peer] != p->host && !p->cut[peer], "asks rank %u", peer);
	CHECK(w, number < p->n_asks && p->ticket_of[number] == TAUT_NONE,
		"ask %u is under way", number);
	p->ticket_of[number] = ticket;
	send_to(p, peer, ASK, number, item);
	tick_later(p, w->now + (w->slow_answers ? 60 : 1 << 20));
}

static void prepare(void *context, uint32_t ticket, uint64_t item, uint64_t epoch,
	uint32_t slot, uint32_t place)
{
	struct process *p = context;

	CHECK(p->world, p->items[ticket] == item, "another item");
	p->slots[slot][place] = item;
	p->epochs[slot] = epoch;
	soon(p, p->world->prepare_ns, PREPARED, ticket);
}

static void move(void *context, uint32_t slot, uint32_t from, uint32_t to)
{
	(void)context, (void)slot, (void)from, (void)to;
	fail_msg("nothing is skipped");
}

static void fault(void *context, const struct tauti_supply_fault *fault)
{
	(void)context, (void)fault;
	fail_msg("nothing is at fault");
}

static void ready(void *context, const struct tauti_supply_batch *batch)
{
	struct process *p = context;

	p->counts[batch->slot] = batch->count;
	p->order[(p->first_ready + p->n_ready++) % DEPTH] = batch->slot;
	if (p->waits)
		soon(p, 5, TAKE, 0);
	p->waits = false;
}

static const struct tauti_supply_engine engine = { .bytes = item_bytes, .far = item_far,
	.look = look, .fetch = fetch, .prepare = prepare, .move = move, .fault = fault,
	.ready = ready };

/* --- what happens ----------------------------------------------------------------------*/

/* Others see it once they have all that it sent before, or a part of that. */
static void cut_off(struct process *p, bool in_peace)
{
	struct world *w = p->world;

	for (uint32_t i = 0; i < w->n_ranks; i++) {
		int64_t at = w->now + 1 + (int64_t)pick(w, 200);

		if (w->host_of[i] == p->host)
			continue;
		if (in_peace && at < p->arrives[i])
			at = p->arrives[i];
		push(w, (struct event){ .at = at, .what = CUT, .rank = i, .peer = p->rank });
	}
}

static void take(struct process *p)
{
	struct world *w = p->world;
	uint32_t slot;

	if (!p->n_ready) {
		p->waits = true;
		return;
	}
	assert_int_equal(tauti_supply_took(p->supply, &slot, NULL), TAUT_OK);
	CHECK(w, slot == p->order[p->first_ready], "another slot");
	p->first_ready = (p->first_ready + 1) % DEPTH;
	p->n_ready--;
	for (uint32_t i = 0; i < p->counts[slot]; i++)
		p->seen[p->epochs[slot]][p->slots[slot][i]]++;
	soon(p, 30, RELEASE, slot);
	if (!tauti_supply_over(p->supply) || p->n_ready) {
		soon(p, 30, TAKE, 0);
		return;
	}
	p->is_over = true;
	if (!w->leave)
		return;
	tauti_peers_core_shut(p->core);
	cut_off(p, true);
}

static void fetched(struct process *p, uint32_t ticket)
{
	if (p->kept[ticket])
		assert_true(tauti_cache_words_fill(
			&p->words, (uint32_t)p->items[ticket]));
	assert_int_equal(
		tauti_supply_fetched(p->supply, ticket, TAUT_OK, NULL), TAUT_OK);
}

struct awaited {
	uint64_t items[TICKETS];
	uint32_t n;
};

static void add_awaited(void *context, uint64_t item)
{
	struct awaited *list = context;

	list->items[list->n++] = item;
}

static void look_again(struct process *p)
{
	struct awaited list = { .n = 0 };

	p->has_news = false;
	tauti_supply_awaited(p->supply, add_awaited, &list);
	for (uint32_t i = 0; i < list.n; i++)
		tauti_supply_again(p->supply, list.items[i]);
}

static void read_done(struct process *p, uint32_t serve)
{
	struct world *w = p->world;
	uint32_t item = (uint32_t)p->serve_items[serve];
	bool came = !w->bad_reads || pick(w, 4);

	if (came)
		assert_true(tauti_cache_words_fill(&p->words, item));
	else
		assert_true(tauti_cache_words_drop(&p->words, item));
	tauti_peers_core_read(p->core, serve, came);
}

static void arrive(struct process *p, const struct event *e)
{
	struct world *w = p->world;
	enum tauti_peers_came came;

	if (p->cut[e->peer]) /* its connection was gone before */
		return;
	switch (e->what) {
	case ASK:
		CHECK(w, tauti_peers_core_asked(p->core, e->peer, e->number, e->item,
			w->bytes[e->item]), "an ask is nonsense");
		break;
	case HEAD:
		came = tauti_peers_core_came(
			p->core, e->peer, e->number, e->item, w->bytes[e->item]);
		CHECK(w, came != TAUTI_PEERS_WRONG, "an answer is nonsense");
		CHECK(w, (came == TAUTI_PEERS_TAKE) ==
			(p->ticket_of[e->number] != TAUT_NONE), "taken and not wanted");
		w->n_passed += came == TAUTI_PEERS_PASS;
		break;
	case BODY:
		p->is_whole = true;
		tauti_peers_core_whole(p->core, e->number);
		p->is_whole = false;
		break;
	default:
		w->n_none++;
		CHECK(w, tauti_peers_core_refused(p->core, e->peer, e->number),
			"a refusal is nonsense");
	}
}

static void lose(struct process *p, uint32_t peer)
{
	if (p->cut[peer])
		return;
	p->cut[peer] = true;
	tauti_peers_core_lost(p->core, peer);
}

static void die(struct process *p)
{
	if (p->is_over)
		return;
	p->is_dead = true;
	p->world->n_deaths++;
	cut_off(p, false);
}

static void happen(struct world *w, const struct event *e)
{
	struct process *p = &w->ranks[e->rank];

	if (p->is_dead)
		return;
	switch (e->what) {
	case OPEN:
		tauti_peers_core_open(p->core);
		tauti_supply_start(p->supply);
		soon(p, 10, TAKE, 0);
		break;
	case FETCHED:
		fetched(p, e->number);
		break;
	case PREPARED:
		assert_int_equal(tauti_supply_prepared(
			p->supply, e->number, TAUT_OK, NULL), TAUT_OK);
		break;
	case TAKE:
		take(p);
		break;
	case RELEASE:
		assert_int_equal(
			tauti_supply_release(p->supply, e->number, NULL), TAUT_OK);
		break;
	case NEWS:
		look_again(p);
		break;
	case CUT:
		lose(p, e->peer);
		break;
	case READ:
		read_done(p, e->number);
		break;
	case ANSWERED: /* but not of a peer that is lost, whose record is another's by now */
		if (p->serve_ids[e->number] == e->serve_id && !p->cut[e->peer])
			tauti_peers_core_answered(p->core, e->number);
		break;
	case AGAIN:
		p->has_again = tauti_peers_core_again(p->core);
		if (p->has_again)
			soon(p, POLL, AGAIN, 0);
		break;
	case TICK:
		p->has_tick = false;
		tick_later(p, tauti_peers_core_tick(p->core, w->now));
		break;
	case DEATH:
		die(p);
		break;
	default:
		arrive(p, e);
	}
}

/* --- a world ---------------------------------------------------------------------------*/

static bool seat_lives(void *state, uint32_t seat, uint32_t generation)
{
	const struct process *p = state;

	(void)generation;
	return !p->world->ranks[seat].is_dead;
}

static uint64_t bytes_of(void *context, uint64_t item)
{
	return ((struct world *)context)->bytes[item];
}

static uint64_t share_of(const struct world *w, uint32_t host)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < w->n_items; i++)
		if (tauti_split_owner(&w->split, i) == host)
			bytes += (w->bytes[i] + 63) / 64 * 64;
	return bytes;
}

static void make_host(struct world *w, uint32_t host)
{
	uint64_t share = share_of(w, host);

	assert_int_equal(tauti_cache_words_init(&w->caches[host], w->n_items,
		w->fits ? share : pick(w, share + 1), NULL), TAUT_OK);
}

static void make_supply(struct process *p)
{
	struct world *w = p->world;
	const struct tauti_supply_options options = { .deal = w->deal,
		.share = { .n_items = w->n_items, .n_ranks = w->n_ranks,
			.rank = p->rank, .batch = w->batch },
		.n_epochs = w->n_epochs,
		.depth = 2 + (uint32_t)pick(w, DEPTH - 1),
		.n_fetches = 1 + (uint32_t)pick(w, 4),
		.n_far = 1 + (uint32_t)pick(w, 6),
		.fetch_bytes = 200 + pick(w, 2000),
		.far_bytes = 200 + pick(w, 2000),
		.n_workers = 1 + (uint32_t)pick(w, 2) };

	assert_int_equal(tauti_supply_create(
		&options, &engine, p, &p->supply, NULL), TAUT_OK);
}

static void make_process(struct world *w, uint32_t rank)
{
	struct process *p = &w->ranks[rank];
	const struct tauti_peers_core_options options = { .rank = rank,
		.n_ranks = w->n_ranks,
		.host_of = w->host_of,
		.n_asks_of = w->n_asks_of,
		.n_reads = 1 + (uint32_t)pick(w, 3),
		.answer_within_ns = w->slow_answers ? 60 : 1 << 20,
		.split = &w->split };

	p->world = w;
	p->rank = rank;
	p->host = w->host_of[rank];
	p->n_asks = w->n_asks_of[rank];
	memset(p->ticket_of, 0xff, sizeof p->ticket_of);
	p->words = w->caches[p->host];
	p->words.seat = rank;
	p->words.generation = 1;
	p->words.state = p;
	p->words.lives = seat_lives;
	assert_int_equal(tauti_peers_core_create(
		&options, &calls, p, &p->core, NULL), TAUT_OK);
	assert_in_range(tauti_peers_core_serves(p->core), 0, SERVES);
	make_supply(p);
}

static void make(struct world *w, uint64_t seed, bool some_die)
{
	uint64_t weights[HOSTS];

	memset(w, 0, sizeof *w);
	w->seed = seed;
	w->draw = tauti_draw_begin(seed, 0, 0);
	w->some_die = some_die;
	w->n_hosts = 2 + (uint32_t)pick(w, HOSTS - 1);
	w->n_items = 10 + (uint32_t)pick(w, ITEMS - 9);
	w->batch = 1 + (uint32_t)pick(w, BATCH);
	w->n_epochs = 2 + (uint32_t)pick(w, EPOCHS - 1);
	w->deal = (struct tauti_deal){ w->n_items, seed, pick(w, 4) != 0 };
	w->fits = !some_die || pick(w, 2);
	w->bad_reads = some_die && pick(w, 4) == 0;
	w->slow_answers = some_die && pick(w, 4) == 0;
	w->leave = some_die && pick(w, 2);
	w->wire_ns = 1 + (int64_t)pick(w, 50);
	w->read_ns = 1 + (int64_t)pick(w, 100);
	w->prepare_ns = 1 + (int64_t)pick(w, 20);
	for (uint32_t i = 0; i < w->n_items; i++)
		w->bytes[i] = 1 + pick(w, 1000);
	for (uint32_t h = 0; h < w->n_hosts; h++) {
		weights[h] = 1 + pick(w, 3);
		for (uint64_t k = 1 + pick(w, RANKS / w->n_hosts); k > 0; k--)
			w->host_of[w->n_ranks++] = h;
	}
	for (uint32_t i = 0; i < w->n_ranks; i++)
		w->n_asks_of[i] = some_die ? 1 + (uint32_t)pick(w, ASKS) : ASKS;
	assert_int_equal(tauti_split_init(&w->split, w->n_items, bytes_of, w, weights,
		w->n_hosts, NULL), TAUT_OK);
	for (uint32_t h = 0; h < w->n_hosts; h++)
		make_host(w, h);
	for (uint32_t i = 0; i < w->n_ranks; i++)
		make_process(w, i);
}

/* All of a host, or one of its processes. */
static void plan_deaths(struct world *w)
{
	uint64_t n = 1 + pick(w, w->n_hosts - 1);
	int64_t until = 1 + (int64_t)(w->n_items * w->n_epochs * 4);

	for (uint64_t i = 0; w->some_die && i < n; i++) {
		uint32_t rank = (uint32_t)pick(w, w->n_ranks);
		bool all = pick(w, 2);
		int64_t at = (int64_t)pick(w, (uint64_t)until);

		for (uint32_t k = 0; k < w->n_ranks; k++)
			if (k == rank || (all && w->host_of[k] == w->host_of[rank]))
				push(w, (struct event){
					.at = at, .what = DEATH, .rank = k });
	}
}

static void check_rank(const struct world *w, const struct process *p)
{
	const struct tauti_share share = { .n_items = w->n_items, .n_ranks = w->n_ranks,
		.rank = p->rank, .batch = w->batch };

	for (uint64_t e = 0; e < w->n_epochs; e++) {
		uint32_t due[ITEMS] = { 0 };

		for (uint64_t b = 0; b < tauti_share_batches(&share); b++)
			for (uint32_t i = 0; i < tauti_share_count(&share, b); i++)
				due[tauti_deal_item(&w->deal, e,
					tauti_share_position(&share, b, i))]++;
		for (uint32_t i = 0; i < w->n_items; i++)
			CHECK(w, p->is_dead ? p->seen[e][i] <= due[i] :
					      p->seen[e][i] == due[i],
				"rank %u: item %u came %u times in epoch %u", p->rank,
				i, p->seen[e][i], (unsigned)e);
	}
}

static void check_end(const struct world *w)
{
	for (uint32_t i = 0; i < w->n_ranks; i++) {
		const struct process *p = &w->ranks[i];

		CHECK(w, p->is_dead || p->is_over, "rank %u waits for ever", i);
		check_rank(w, p);
		for (uint32_t k = 0; k < p->n_asks; k++)
			CHECK(w, p->is_dead || p->ticket_of[k] == TAUT_NONE,
				"rank %u: ask %u has no end", i, k);
	}
	for (uint32_t i = 0; i < w->n_items && !w->some_die; i++)
		CHECK(w, w->reads[i] == 1, "item %u was read %u times", i, w->reads[i]);
}

static void play(struct world *w)
{
	plan_deaths(w);
	for (uint32_t i = 0; i < w->n_ranks; i++) {
		soon(&w->ranks[i], w->slow_answers ? 200 : 100, OPEN, 0);
	}
	while (w->events.count) {
		struct event e = pop(w);

		w->now = e.at;
		happen(w, &e);
	}
	check_end(w);
}

static void finish(struct world *w)
{
	for (uint32_t i = 0; i < w->n_ranks; i++) {
		struct tauti_peers_core_counts counts;

		tauti_peers_core_counts(w->ranks[i].core, &counts);
		w->n_late += counts.late;
		tauti_supply_destroy(w->ranks[i].supply);
		tauti_peers_core_destroy(w->ranks[i].core);
	}
	for (uint32_t h = 0; h < w->n_hosts; h++)
		tauti_cache_words_fini(&w->caches[h]);
	tauti_split_fini(&w->split);
	taut_vec_free(&w->events);
}

static struct world world;

/* Nobody dies: the set is read once, by all hosts together, in all epochs. */
static void read_once(void **state)
{
	uint64_t n_came = 0;

	(void)state;
	for (uint64_t seed = 0; seed < WORLDS / 5; seed++) {
		make(&world, seed, false);
		play(&world);
		assert_int_equal(world.n_reads, world.n_items);
		n_came += world.n_came;
		finish(&world);
	}
	assert_true(n_came > WORLDS);
}

/* Deaths at any moment, caches too small, reads that fail, answers too late. */
static void deaths(void **state)
{
	uint64_t n[6] = { 0 };

	(void)state;
	for (uint64_t seed = 0; seed < WORLDS; seed++) {
		make(&world, seed, true);
		play(&world);
		finish(&world);
		n[0] += world.n_deaths;
		n[1] += world.n_came;
		n[2] += world.n_none;
		n[3] += world.n_late;
		n[4] += world.n_passed;
		n[5] += world.n_fallbacks;
	}
	/* That it was seen. */
	assert_true(n[0] > WORLDS);
	for (int i = 1; i < 6; i++)
		assert_true(n[i] > WORLDS / 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_once),
		cmocka_unit_test(deaths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
