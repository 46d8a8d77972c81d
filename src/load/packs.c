/* packs.c - see packs.h. */
#include "load/packs.h"

#include <stdalign.h>
#include <sys/mman.h>

struct tauti_pack { /* at the beginning of what was mapped */
	size_t bytes, used; /* with this header */
	size_t n_held;      /* pieces; and one more while it is open */
	alignas(16) unsigned char data[];
};

void tauti_packs_init(struct tauti_packs *packs)
{
	packs->open = NULL;
	packs->bytes = 0;
	pthread_mutex_init(&packs->lock, NULL);
}

/* Under the lock. */
static void let_go(struct tauti_packs *packs, struct tauti_pack *pack)
{
	if (--pack->n_held)
		return;
	packs->bytes -= pack->bytes;
	munmap(pack, pack->bytes);
}

void tauti_packs_fini(struct tauti_packs *packs)
{
	if (packs->open)
		let_go(packs, packs->open);
	packs->open = NULL;
	pthread_mutex_destroy(&packs->lock);
}

/* Of `room`, with the header. */
static struct tauti_pack *map_pack(struct tauti_packs *packs, size_t room)
{
	struct tauti_pack *pack = mmap(NULL, room, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pack == MAP_FAILED)
		return NULL;
	pack->bytes = room;
	pack->used = sizeof *pack;
	packs->bytes += room;
	return pack;
}

/* The one to cut from; a piece that would fill most of one has its own. */
static struct tauti_pack *pack_for(struct tauti_packs *packs, size_t bytes)
{
	struct tauti_pack *pack = packs->open;

	if (bytes > TAUTI_PACK_BYTES / 2)
		return map_pack(packs, sizeof *pack + bytes);
	if (pack && bytes <= pack->bytes - pack->used)
		return pack;
	pack = map_pack(packs, TAUTI_PACK_BYTES);
	if (!pack)
		return NULL;
	if (packs->open)
		let_go(packs, packs->open);
	pack->n_held = 1;
	return packs->open = pack;
}

void *tauti_packs_take(
	struct tauti_packs *packs, size_t bytes, struct tauti_pack **ret_pack)
{
	struct tauti_pack *pack;
	void *piece = NULL;

	if (bytes > SIZE_MAX / 2)
		return NULL;
	bytes = (bytes + 15) & ~(size_t)15;
	pthread_mutex_lock(&packs->lock);
	pack = pack_for(packs, bytes);
	if (pack) {
		piece = (unsigned char *)pack + pack->used;
		pack->used += bytes;
		pack->n_held++;
		*ret_pack = pack;
	}
	pthread_mutex_unlock(&packs->lock);
	return piece;
}

void tauti_packs_give(struct tauti_packs *packs, struct tauti_pack *pack)
{
	pthread_mutex_lock(&packs->lock);
	let_go(packs, pack);
	pthread_mutex_unlock(&packs->lock);
}
