/* shm.c - the engine of ranks that share memory: its table, its life. */
#include "coll/engines/shm.h"

#include <stdlib.h>

enum {
	/* About what it costs to be woken: who looks for so long in vain loses no
	 * more than who sleeps at once. */
	SPIN_NS = 50000,
	/* Where ranks share cores, the next one is often the one that sends. */
	YIELDS = 16,
	LOOKS = 8,        /* for what flats wait for, at a time */
	DRAIN_EVERY = 32, /* times: what else there is */
};

/* --- moving on -----------------------------------------------------------------------*/

taut_status tauti_shm_break(struct tauti_shm *it, taut_status status,
	uint32_t peer, const char *what, struct taut_error *err)
{
	if (it->broken.code == TAUT_OK) {
		taut_error_set(&it->broken, status, -1,
			"shared memory: rank %u %s", it->peers[peer].rank, what);
		tauti_shm_end_asked(it, status);
		tauti_shm_end_queue(it, status);
		tauti_shm_end_flats(it, status);
	}
	if (err)
		*err = it->broken;
	return it->broken.code;
}

/* Whether that was all there is to do. A message that a flat will take stays in its
 * FIFO meanwhile: what is drained is copied. Now and then all is drained all the
 * same, as behind that message may be what another rank needs room for. */
static bool look_for_flats(struct tauti_shm *it)
{
	for (int i = 0; i < LOOKS && it->flats; i++)
		tauti_shm_advance_flats(it);
	return it->asked.n == 0 && !it->n_queued &&
		++it->n_looks % DRAIN_EVERY != 0;
}

static taut_status move_on(struct tauti_shm *it, struct taut_error *err)
{
	taut_status status = tauti_shm_drain(it, err);

	if (status == TAUT_OK && it->n_queued)
		status = tauti_shm_flush(it);
	if (status == TAUT_OK && it->flats)
		tauti_shm_advance_flats(it);
	return status;
}

static taut_status progress(void *engine, struct taut_error *err)
{
	struct tauti_shm *it = engine;
	taut_status status = it->broken.code;

	if (status == TAUT_OK && !(it->flats && look_for_flats(it)))
		status = move_on(it, err);
	if (it->broken.code == TAUT_OK)
		return status;
	if (err)
		*err = it->broken;
	return it->broken.code;
}

/* --- life --------------------------------------------------------------------------*/

static void destroy(void *engine)
{
	struct tauti_shm *it = engine;

	if (!it)
		return;
	if (it->broken.code == TAUT_OK) {
		taut_error_set(&it->broken, TAUT_EIO, -1,
			"shared memory: the engine was destroyed");
		tauti_shm_end_asked(it, TAUT_EIO);
		tauti_shm_end_queue(it, TAUT_EIO);
		tauti_shm_end_flats(it, TAUT_EIO);
	}
	tauti_shm_free_nodes(it);
	tauti_shm_free_flats(it);
	tauti_shm_map_destroy(&it->map);
	free(it->peers);
	free(it->number_of);
	free(it->others);
	free(it->going);
	free(it);
}

const struct taut_coll_engine tauti_shm_table = {
	.name = "shm",
	.max_message_bytes = TAUTI_SHM_SLOT_BYTES,
	.send = tauti_shm_send,
	.recv = tauti_shm_recv,
	.recv_reduce = tauti_shm_recv_reduce,
	.flat = tauti_shm_flat,
	.progress = progress,
	.wait = tauti_shm_wait,
	.wake = tauti_shm_wake,
	.arrived = tauti_shm_arrived,
	.destroy = destroy,
};

static void find_peer(struct tauti_shm *it, uint32_t i, uint32_t rank)
{
	const struct tauti_shm_layout *layout = &it->map.layout;
	void *base = it->map.base;
	uint32_t me = it->map.index;

	it->number_of[rank] = i;
	it->peers[i] = (struct tauti_shm_peer){
		.out = { .lines = tauti_shm_fifo(layout, base, me, i),
			.taken = tauti_shm_taken(layout, base, i, me) },
		.in = { .lines = tauti_shm_fifo(layout, base, i, me),
			.taken = tauti_shm_taken(layout, base, me, i) },
		.bell = tauti_shm_bell(layout, base, i),
		.readers = tauti_shm_readers(layout, base, i),
		.slots = tauti_shm_slots(layout, base, i),
		.rank = rank,
	};
	it->peers[i].end = &it->peers[i].first;
}

static void find_own(struct tauti_shm *it, const uint32_t *rank_of)
{
	const struct tauti_shm_layout *layout = &it->map.layout;
	uint32_t me = it->map.index;

	for (uint32_t i = 1; i < it->n_peers; i++)
		it->others[i - 1] = rank_of[(me + i) % it->n_peers];
	it->bell = tauti_shm_bell(layout, it->map.base, me);
	it->readers = tauti_shm_readers(layout, it->map.base, me);
	it->slots = tauti_shm_slots(layout, it->map.base, me);
	it->n_free = layout->n_slots;
	it->most_unread = layout->n_slots;
	if (it->n_peers > 2) {
		it->most_unread = (layout->n_slots + 1) / 2;
		it->n_apart = layout->n_slots / 2;
		if (it->n_apart > it->n_peers - 2)
			it->n_apart = it->n_peers - 2;
	}
	for (uint32_t i = 0; i < layout->n_slots; i++)
		it->free[i] = i;
}

taut_status tauti_shm_engine_create(const struct tauti_shm_map *map,
	uint32_t n_world, const uint32_t *rank_of,
	struct tauti_shm **ret_engine, struct taut_error *reterr)
{
	struct tauti_shm_map owned = *map;
	/* The bell stands on lines of its own here too. */
	struct tauti_shm *it = aligned_alloc(TAUTI_SHM_APART, sizeof *it);

	if (!it)
		goto no_memory;
	*it = (struct tauti_shm){ .map = owned, .bell = &it->alone,
		.n_world = n_world, .rank = rank_of[owned.index],
		.n_peers = owned.base ? owned.layout.n_ranks : 0,
		.spin_ns = owned.spins ? SPIN_NS : 0, .n_yields = YIELDS };
	it->flats_end = &it->flats;
	it->peers = calloc(it->n_peers + 1, sizeof it->peers[0]);
	it->number_of = calloc(n_world, sizeof it->number_of[0]);
	it->others = calloc(it->n_peers + 1, sizeof it->others[0]);
	it->going = calloc(it->n_peers + 1, sizeof it->going[0]);
	if (!it->peers || !it->number_of || !it->others || !it->going)
		goto no_tables;
	for (uint32_t i = 0; i < n_world; i++)
		it->number_of[i] = TAUT_NONE;
	for (uint32_t i = 0; i < it->n_peers; i++)
		find_peer(it, i, rank_of[i]);
	if (owned.base)
		find_own(it, rank_of);
	*ret_engine = it;
	return TAUT_OK;

no_tables:
	free(it->peers);
	free(it->number_of);
	free(it->others);
	free(it->going);
	free(it);
no_memory:
	tauti_shm_map_destroy(&owned);
	return taut_error_set(reterr, TAUT_ENOMEM, -1, "out of memory");
}

/* The ranks of this one's host, by their numbers in it. */
static uint32_t *ranks_here(const struct tauti_shm_world *world)
{
	uint32_t n = 0, *ranks = calloc(world->n_ranks, sizeof ranks[0]);

	for (uint32_t i = 0; ranks && i < world->n_ranks; i++)
		if (world->host_of[i] == world->host_of[world->rank])
			ranks[n++] = i;
	return ranks;
}

taut_status tauti_shm_create_by(const struct tauti_shm_world *world,
	struct tauti_engine *ret_engine, struct taut_error *reterr)
{
	struct tauti_shm_map map = { 0 };
	struct tauti_shm *it;
	uint32_t *rank_of;
	taut_status status = tauti_shm_map_create(world, &map, reterr);

	if (status != TAUT_OK)
		return status;
	rank_of = ranks_here(world);
	if (!rank_of) {
		tauti_shm_map_destroy(&map);
		return taut_error_set(reterr, TAUT_ENOMEM, -1, "out of memory");
	}
	status = tauti_shm_engine_create(
		&map, world->n_ranks, rank_of, &it, reterr);
	free(rank_of);
	if (status == TAUT_OK)
		*ret_engine = (struct tauti_engine){ &tauti_shm_table, it };
	return status;
}

static taut_status gather(void *context, const void *mine, size_t bytes,
	void *ret_all, struct taut_error *reterr)
{
	return tauti_meet_gather(context, mine, bytes, ret_all, reterr);
}

taut_status tauti_shm_create(struct tauti_meet *meet, uint32_t rank,
	uint32_t n_ranks, const uint32_t *host_of, bool spins,
	struct tauti_engine *ret_engine, struct taut_error *reterr)
{
	const struct tauti_shm_world world = { rank, n_ranks, host_of, gather,
		meet, spins };

	return tauti_shm_create_by(&world, ret_engine, reterr);
}
