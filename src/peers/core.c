/* core.c - see core.h. */
#include "peers/core.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "load/draw.h"

enum ask_state {
	ASK_FREE,
	ASK_ASKED,
	ASK_COMING,
	ASK_LATE,    /* ended; an answer is still to come */
	ASK_PASSING, /* ended; it is coming */
};

struct ask {
	uint64_t item, bytes;
	int64_t until_ns;
	uint32_t peer, next; /* next: of free ones */
	uint8_t state;       /* enum ask_state */
};

enum serve_state {
	SERVE_FREE,
	SERVE_QUEUED, /* MISSING, for fewer reads to be under way */
	SERVE_PARKED,
	SERVE_READING,
	SERVE_ANSWERED, /* answer() was called */
};

struct serve {
	uint64_t item, bytes;
	void *at;
	uint32_t peer; /* TAUT_NONE: lost, while it was read */
	uint32_t number, next;
	uint8_t state; /* enum serve_state */
};

struct list { /* of serves, by next */
	uint32_t first, last;
};

struct host {
	uint32_t first, n_ranks; /* in core->ranks */
	_Atomic uint32_t n_living, n_able; /* of them; and of those, to be asked */
};

enum door { NOBODY_YET, OPEN, SHUT };

enum count { ASKED, CAME, CAME_BYTES, LATE, SERVED, SERVED_BYTES, REFUSED, COUNTS };

struct tauti_peers_core {
	struct tauti_peers_core_options options;
	struct tauti_peers_calls calls;
	void *context;
	uint32_t host; /* this rank's */
	_Atomic int door; /* enum door */
	_Atomic uint64_t counts[COUNTS];

	uint32_t *host_of, *n_asks_of; /* by rank */
	struct host *hosts;
	uint32_t *ranks;    /* host by host */
	bool *gone, *late;  /* by rank; late: has asks that it did not answer in time */
	uint32_t *n_serving; /* by rank: that it has asked, and are not over */

	struct ask *asks;
	uint32_t n_asks, free_ask;
	struct serve *serves;
	uint32_t n_serves, free_serve, n_reading;
	struct list queued, parked;
};

static enum door door_of(const struct tauti_peers_core *core)
{
	return (enum door)atomic_load_explicit(&core->door, memory_order_relaxed);
}

static void count(struct tauti_peers_core *core, enum count what, uint64_t n)
{
	atomic_fetch_add_explicit(&core->counts[what], n, memory_order_relaxed);
}

/* --- life --------------------------------------------------------------------------*/

static uint32_t n_hosts_of(const struct tauti_peers_core_options *options)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < options->n_ranks; i++)
		if (options->host_of[i] >= n)
			n = options->host_of[i] + 1;
	return n;
}

/* What others may have under way here. */
static uint32_t n_serves_of(const struct tauti_peers_core_options *options)
{
	uint32_t own = options->host_of[options->rank], n = 0;

	for (uint32_t i = 0; i < options->n_ranks; i++)
		n += options->host_of[i] != own ? options->n_asks_of[i] : 0;
	return n;
}

static bool take_tables(struct tauti_peers_core *core, uint32_t n_hosts)
{
	uint32_t n = core->options.n_ranks;

	core->host_of = calloc(n, sizeof *core->host_of);
	core->n_asks_of = calloc(n, sizeof *core->n_asks_of);
	core->hosts = calloc(n_hosts, sizeof *core->hosts);
	core->ranks = calloc(n, sizeof *core->ranks);
	core->gone = calloc(n, sizeof *core->gone);
	core->late = calloc(n, sizeof *core->late);
	core->n_serving = calloc(n, sizeof *core->n_serving);
	core->asks = calloc(core->n_asks, sizeof *core->asks);
	core->serves = calloc((size_t)core->n_serves + 1, sizeof *core->serves);
	return core->host_of && core->n_asks_of && core->hosts && core->ranks &&
		core->gone && core->late && core->n_serving && core->asks && core->serves;
}

static void fill_tables(struct tauti_peers_core *core, uint32_t n_hosts)
{
	const struct tauti_peers_core_options *o = &core->options;
	uint32_t n = 0;

	memcpy(core->host_of, o->host_of, o->n_ranks * sizeof *core->host_of);
	memcpy(core->n_asks_of, o->n_asks_of, o->n_ranks * sizeof *core->n_asks_of);
	for (uint32_t h = 0; h < n_hosts; h++) {
		core->hosts[h].first = n;
		for (uint32_t i = 0; i < o->n_ranks; i++)
			if (core->host_of[i] == h)
				core->ranks[n++] = i;
		core->hosts[h].n_ranks = n - core->hosts[h].first;
		core->hosts[h].n_living = core->hosts[h].n_able = core->hosts[h].n_ranks;
	}
	for (uint32_t i = core->n_asks; i-- > 0; core->free_ask = i)
		core->asks[i].next = core->free_ask;
	for (uint32_t i = core->n_serves; i-- > 0; core->free_serve = i)
		core->serves[i].next = core->free_serve;
}

taut_status tauti_peers_core_create(const struct tauti_peers_core_options *options,
	const struct tauti_peers_calls *calls, void *context,
	struct tauti_peers_core **ret_core, struct taut_error *err)
{
	struct tauti_peers_core *core = calloc(1, sizeof *core);
	uint32_t n_hosts = n_hosts_of(options);

	if (core) {
		core->options = *options;
		core->calls = *calls;
		core->context = context;
		core->host = options->host_of[options->rank];
		core->n_asks = options->n_asks_of[options->rank];
		core->n_serves = n_serves_of(options);
		core->free_ask = core->free_serve = TAUT_NONE;
		core->queued = core->parked = (struct list){ TAUT_NONE, TAUT_NONE };
	}
	if (!core || !take_tables(core, n_hosts)) {
		tauti_peers_core_destroy(core);
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"peers: no memory for the asks of %u ranks", options->n_ranks);
	}
	fill_tables(core, n_hosts);
	*ret_core = core;
	return TAUT_OK;
}

void tauti_peers_core_destroy(struct tauti_peers_core *core)
{
	if (!core)
		return;
	free(core->host_of);
	free(core->n_asks_of);
	free(core->hosts);
	free(core->ranks);
	free(core->gone);
	free(core->late);
	free(core->n_serving);
	free(core->asks);
	free(core->serves);
	free(core);
}

uint32_t tauti_peers_core_serves(const struct tauti_peers_core *core)
{
	return core->n_serves;
}

/* --- asks --------------------------------------------------------------------------*/

enum tauti_remote_where tauti_peers_core_where(
	const struct tauti_peers_core *core, uint64_t item)
{
	uint32_t owner = tauti_split_owner(core->options.split, item);
	const struct host *host = &core->hosts[owner];

	if (owner == core->host ||
		!atomic_load_explicit(&host->n_living, memory_order_relaxed))
		return TAUTI_REMOTE_HERE;
	return door_of(core) == OPEN &&
		atomic_load_explicit(&host->n_able, memory_order_relaxed) ?
		TAUTI_REMOTE_FAR : TAUTI_REMOTE_ELSEWHERE;
}

static void set_able(struct tauti_peers_core *core, uint32_t peer, bool *what, bool is)
{
	struct host *host = &core->hosts[core->host_of[peer]];
	bool was_able = !core->gone[peer] && !core->late[peer];
	bool is_able;

	*what = is;
	is_able = !core->gone[peer] && !core->late[peer];
	atomic_fetch_add_explicit(
		&host->n_able, (uint32_t)is_able - was_able, memory_order_relaxed);
}

/* The same for all who ask, while it lives. */
static uint32_t rank_for(const struct tauti_peers_core *core, uint64_t item)
{
	const struct host *host =
		&core->hosts[tauti_split_owner(core->options.split, item)];
	uint32_t from = (uint32_t)(tauti_draw_finish(item) % host->n_ranks);

	for (uint32_t i = 0; i < host->n_ranks; i++) {
		uint32_t rank =
			core->ranks[host->first + (from + i) % host->n_ranks];

		if (!core->gone[rank] && !core->late[rank])
			return rank;
	}
	return TAUT_NONE;
}

bool tauti_peers_core_ask(struct tauti_peers_core *core, uint64_t item, uint64_t bytes,
	int64_t now_ns, uint32_t *ret_peer, uint32_t *ret_number)
{
	uint32_t number = core->free_ask, peer;

	if (number == TAUT_NONE ||
		tauti_peers_core_where(core, item) != TAUTI_REMOTE_FAR)
		return false;
	peer = rank_for(core, item);
	if (peer == TAUT_NONE)
		return false;
	core->free_ask = core->asks[number].next;
	core->asks[number] = (struct ask){ .item = item,
		.bytes = bytes,
		.until_ns = now_ns + core->options.answer_within_ns,
		.peer = peer,
		.state = ASK_ASKED };
	count(core, ASKED, 1);
	*ret_peer = peer;
	*ret_number = number;
	return true;
}

/* An ask that this peer answers now; NULL: nonsense. */
static struct ask *answered(struct tauti_peers_core *core, uint32_t peer, uint32_t number)
{
	struct ask *ask = number < core->n_asks ? &core->asks[number] : NULL;

	if (!ask || ask->peer != peer ||
		(ask->state != ASK_ASKED && ask->state != ASK_LATE))
		return NULL;
	set_able(core, peer, &core->late[peer], false);
	return ask;
}

static void free_ask(struct tauti_peers_core *core, uint32_t number)
{
	core->asks[number].state = ASK_FREE;
	core->asks[number].next = core->free_ask;
	core->free_ask = number;
}

enum tauti_peers_came tauti_peers_core_came(struct tauti_peers_core *core, uint32_t peer,
	uint32_t number, uint64_t item, uint64_t bytes)
{
	struct ask *ask = answered(core, peer, number);

	if (!ask || ask->item != item || ask->bytes != bytes)
		return TAUTI_PEERS_WRONG;
	if (ask->state == ASK_LATE) {
		ask->state = ASK_PASSING;
		return TAUTI_PEERS_PASS;
	}
	ask->state = ASK_COMING;
	return TAUTI_PEERS_TAKE;
}

void tauti_peers_core_whole(struct tauti_peers_core *core, uint32_t number)
{
	bool is_wanted = core->asks[number].state == ASK_COMING;

	if (is_wanted) {
		count(core, CAME, 1);
		count(core, CAME_BYTES, core->asks[number].bytes);
	}
	free_ask(core, number);
	if (is_wanted)
		core->calls.end(core->context, number, true);
}

bool tauti_peers_core_refused(
	struct tauti_peers_core *core, uint32_t peer, uint32_t number)
{
	const struct ask *ask = answered(core, peer, number);
	bool is_wanted;

	if (!ask)
		return false;
	is_wanted = ask->state == ASK_ASKED;
	free_ask(core, number);
	if (is_wanted)
		core->calls.end(core->context, number, false);
	return true;
}

int64_t tauti_peers_core_tick(struct tauti_peers_core *core, int64_t now_ns)
{
	int64_t next_ns = INT64_MAX;

	for (uint32_t i = 0; i < core->n_asks; i++) {
		struct ask *ask = &core->asks[i];

		if (ask->state != ASK_ASKED)
			continue;
		if (ask->until_ns <= now_ns) {
			ask->state = ASK_LATE;
			set_able(core, ask->peer, &core->late[ask->peer], true);
			count(core, LATE, 1);
			core->calls.end(core->context, i, false);
		} else if (ask->until_ns < next_ns) {
			next_ns = ask->until_ns;
		}
	}
	return next_ns;
}

/* --- serves ------------------------------------------------------------------------*/

static void append(struct tauti_peers_core *core, struct list *list, uint32_t index)
{
	core->serves[index].next = TAUT_NONE;
	if (list->first == TAUT_NONE)
		list->first = index;
	else
		core->serves[list->last].next = index;
	list->last = index;
}

static void free_serve(struct tauti_peers_core *core, uint32_t index)
{
	struct serve *serve = &core->serves[index];

	if (serve->peer != TAUT_NONE)
		core->n_serving[serve->peer]--;
	serve->state = SERVE_FREE;
	serve->next = core->free_serve;
	core->free_serve = index;
}

static void answer(struct tauti_peers_core *core, uint32_t index, const void *at)
{
	struct serve *serve = &core->serves[index];

	serve->state = SERVE_ANSWERED;
	if (at) {
		count(core, SERVED, 1);
		count(core, SERVED_BYTES, serve->bytes);
	} else {
		count(core, REFUSED, 1);
	}
	core->calls.answer(core->context, index, serve->peer, serve->number, at,
		serve->bytes);
}

static enum tauti_serve_look look(struct tauti_peers_core *core,
	const struct serve *serve, bool may_read, void **ret_at)
{
	switch (door_of(core)) {
	case NOBODY_YET:
		return TAUTI_SERVE_COMING;
	case OPEN:
		return core->calls.look(core->context, serve->item, serve->bytes,
			may_read, ret_at);
	default:
		return TAUTI_SERVE_NONE;
	}
}

/* Of one that is in no list. What cannot be read now is not claimed either, so that whoever
 * could read it does. */
static void serve(struct tauti_peers_core *core, uint32_t index)
{
	struct serve *serve = &core->serves[index];
	bool may_read = core->n_reading < core->options.n_reads;
	void *at = NULL;

	switch (look(core, serve, may_read, &at)) {
	case TAUTI_SERVE_HERE:
		answer(core, index, at);
		break;
	case TAUTI_SERVE_COMING:
		serve->state = SERVE_PARKED;
		append(core, &core->parked, index);
		break;
	case TAUTI_SERVE_MISSING:
		serve->state = may_read ? SERVE_READING : SERVE_QUEUED;
		if (!may_read) {
			append(core, &core->queued, index);
			break;
		}
		core->n_reading++;
		serve->at = at;
		core->calls.read(core->context, index, serve->item, at);
		break;
	case TAUTI_SERVE_NONE:
		answer(core, index, NULL);
		break;
	}
}

/* What is parked for this item, or for any (UINT64_MAX), anew: what is still to wait is
 * parked again, in its order. */
static void serve_parked(struct tauti_peers_core *core, uint64_t item)
{
	uint32_t index = core->parked.first, next;

	core->parked = (struct list){ TAUT_NONE, TAUT_NONE };
	for (; index != TAUT_NONE; index = next) {
		next = core->serves[index].next;
		if (item == UINT64_MAX || core->serves[index].item == item)
			serve(core, index);
		else
			append(core, &core->parked, index);
	}
}

/* As long as more may be read; once shut, all of it. */
static void serve_queued(struct tauti_peers_core *core)
{
	while (core->queued.first != TAUT_NONE &&
		(core->n_reading < core->options.n_reads || door_of(core) == SHUT)) {
		uint32_t index = core->queued.first;

		core->queued.first = core->serves[index].next;
		serve(core, index);
	}
}

bool tauti_peers_core_asked(struct tauti_peers_core *core, uint32_t peer,
	uint32_t number, uint64_t item, uint64_t bytes)
{
	const struct tauti_split *split = core->options.split;
	uint32_t index = core->free_serve;

	if (item >= split->n_items || tauti_split_owner(split, item) != core->host ||
		core->gone[peer] || core->host_of[peer] == core->host ||
		core->n_serving[peer] == core->n_asks_of[peer])
		return false;
	/* Reads of who was lost may hold its records; a peer that lives has its own. */
	core->free_serve = core->serves[index].next;
	core->n_serving[peer]++;
	core->serves[index] = (struct serve){ .item = item, .bytes = bytes,
		.peer = peer, .number = number };
	serve(core, index);
	return true;
}

void tauti_peers_core_read(struct tauti_peers_core *core, uint32_t index, bool came)
{
	struct serve *it = &core->serves[index];
	uint64_t item = it->item;

	core->n_reading--;
	if (it->peer == TAUT_NONE)
		free_serve(core, index);
	else
		answer(core, index, came ? it->at : NULL);
	serve_parked(core, item);
	serve_queued(core);
}

void tauti_peers_core_answered(struct tauti_peers_core *core, uint32_t index)
{
	free_serve(core, index);
}

uint64_t tauti_peers_core_item(const struct tauti_peers_core *core, uint32_t index)
{
	return core->serves[index].item;
}

bool tauti_peers_core_again(struct tauti_peers_core *core)
{
	if (door_of(core) == NOBODY_YET)
		return false;
	serve_parked(core, UINT64_MAX);
	return core->parked.first != TAUT_NONE;
}

bool tauti_peers_core_parked(const struct tauti_peers_core *core)
{
	return core->parked.first != TAUT_NONE && door_of(core) != NOBODY_YET;
}

uint32_t tauti_peers_core_reading(const struct tauti_peers_core *core)
{
	return core->n_reading;
}

/* --- who is there ------------------------------------------------------------------*/

static void end_asks_of(struct tauti_peers_core *core, uint32_t peer)
{
	for (uint32_t i = 0; i < core->n_asks; i++) {
		const struct ask *ask = &core->asks[i];
		bool is_wanted = ask->state == ASK_ASKED || ask->state == ASK_COMING;

		if (ask->state == ASK_FREE || ask->peer != peer)
			continue;
		free_ask(core, i);
		if (is_wanted)
			core->calls.end(core->context, i, false);
	}
}

/* Those of the peer leave the list. */
static void drop_from(struct tauti_peers_core *core, struct list *list, uint32_t peer)
{
	uint32_t index = list->first, next;

	*list = (struct list){ TAUT_NONE, TAUT_NONE };
	for (; index != TAUT_NONE; index = next) {
		next = core->serves[index].next;
		if (core->serves[index].peer == peer)
			free_serve(core, index);
		else
			append(core, list, index);
	}
}

void tauti_peers_core_lost(struct tauti_peers_core *core, uint32_t peer)
{
	if (core->gone[peer])
		return;
	set_able(core, peer, &core->gone[peer], true);
	atomic_fetch_sub_explicit(&core->hosts[core->host_of[peer]].n_living, 1,
		memory_order_relaxed);
	end_asks_of(core, peer);
	drop_from(core, &core->queued, peer);
	drop_from(core, &core->parked, peer);
	for (uint32_t i = 0; i < core->n_serves; i++) {
		struct serve *it = &core->serves[i];

		if (it->peer != peer)
			continue;
		if (it->state == SERVE_ANSWERED)
			free_serve(core, i);
		else if (it->state == SERVE_READING)
			it->peer = TAUT_NONE;
	}
}

bool tauti_peers_core_lives(const struct tauti_peers_core *core, uint32_t peer)
{
	return !core->gone[peer];
}

void tauti_peers_core_shut(struct tauti_peers_core *core)
{
	atomic_store_explicit(&core->door, SHUT, memory_order_relaxed);
	for (uint32_t i = 0; i < core->n_asks; i++) {
		struct ask *ask = &core->asks[i];

		if (ask->state != ASK_ASKED && ask->state != ASK_COMING)
			continue;
		ask->state = ask->state == ASK_ASKED ? ASK_LATE : ASK_PASSING;
		core->calls.end(core->context, i, false);
	}
	serve_parked(core, UINT64_MAX);
	serve_queued(core);
}

void tauti_peers_core_open(struct tauti_peers_core *core)
{
	atomic_store_explicit(&core->door, OPEN, memory_order_relaxed);
	serve_parked(core, UINT64_MAX);
}

void tauti_peers_core_counts(const struct tauti_peers_core *core,
	struct tauti_peers_core_counts *ret_counts)
{
	uint64_t n[COUNTS];

	for (int i = 0; i < COUNTS; i++)
		n[i] = atomic_load_explicit(&core->counts[i], memory_order_relaxed);
	*ret_counts = (struct tauti_peers_core_counts){ n[ASKED], n[CAME],
		n[CAME_BYTES], n[LATE], n[SERVED], n[SERVED_BYTES], n[REFUSED] };
}
