/* descriptors.c - a table of open files, of which the one unused for longest goes.
 *
 * Places are chained by the hash of the file's number. Two threads that miss the same
 * file both open it, and the later one closes its own. */
#include "load/stores/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/hash.h"

struct place {
	uint64_t file, used; /* used: when it was taken last */
	uint32_t next; /* of the chain */
	uint32_t holders;
	int fd; /* -1: free */
};

struct tauti_descriptors {
	pthread_mutex_t lock;
	int flags;
	uint32_t n, mask;
	uint64_t now; /* counts takings */
	uint32_t *chains; /* mask + 1 */
	struct place *places;
};

static uint32_t default_count(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur > 1024)
		return 512;
	return limit.rlim_cur > 16 ? (uint32_t)limit.rlim_cur / 2 : 8;
}

struct tauti_descriptors *tauti_descriptors_create(uint32_t n, int flags)
{
	struct tauti_descriptors *d = calloc(1, sizeof *d);

	if (!d)
		return NULL;
	d->flags = flags;
	d->n = n ? n : default_count();
	for (d->mask = 1; d->mask < d->n; d->mask = d->mask * 2 + 1)
		;
	d->chains = malloc((d->mask + 1) * sizeof *d->chains);
	d->places = calloc(d->n, sizeof *d->places);
	if (!d->chains || !d->places || pthread_mutex_init(&d->lock, NULL)) {
		free(d->chains);
		free(d->places);
		free(d);
		return NULL;
	}
	for (uint32_t i = 0; i <= d->mask; i++)
		d->chains[i] = TAUT_NONE;
	for (uint32_t i = 0; i < d->n; i++)
		d->places[i].fd = -1;
	return d;
}

void tauti_descriptors_destroy(struct tauti_descriptors *d)
{
	if (!d)
		return;
	for (uint32_t i = 0; i < d->n; i++)
		if (d->places[i].fd >= 0)
			close(d->places[i].fd);
	pthread_mutex_destroy(&d->lock);
	free(d->chains);
	free(d->places);
	free(d);
}

static uint32_t *chain_of(struct tauti_descriptors *d, uint64_t file)
{
	return &d->chains[tauti_hash_mix(file ^ TAUTI_HASH_A, TAUTI_HASH_B) & d->mask];
}

static struct place *find(struct tauti_descriptors *d, uint64_t file)
{
	for (uint32_t i = *chain_of(d, file); i != TAUT_NONE; i = d->places[i].next)
		if (d->places[i].file == file)
			return &d->places[i];
	return NULL;
}

static void unlink_place(struct tauti_descriptors *d, struct place *place)
{
	uint32_t *at = chain_of(d, place->file), i = (uint32_t)(place - d->places);

	while (*at != i)
		at = &d->places[*at].next;
	*at = place->next;
}

/* A free place, or the one whose file nobody holds and that was used least lately; NULL:
 * all are held. */
static struct place *make_room(struct tauti_descriptors *d, int *ret_close)
{
	struct place *best = NULL;

	*ret_close = -1;
	for (uint32_t i = 0; i < d->n; i++) {
		struct place *place = &d->places[i];

		if (place->fd < 0)
			return place;
		if (!place->holders && (!best || place->used < best->used))
			best = place;
	}
	if (best) {
		unlink_place(d, best);
		*ret_close = best->fd;
	}
	return best;
}

static struct place *hold(struct tauti_descriptors *d, struct place *place)
{
	place->holders++;
	place->used = ++d->now;
	return place;
}

/* Of a file that was opened meanwhile. What is returned is held; another descriptor may
 * be left over to be closed. */
static int keep(struct tauti_descriptors *d, uint64_t file, int fd, int *ret_close)
{
	struct place *place = find(d, file);

	*ret_close = -1;
	if (place) {
		*ret_close = fd;
		return hold(d, place)->fd;
	}
	place = make_room(d, ret_close);
	if (place) {
		uint32_t *chain = chain_of(d, file);

		*place = (struct place){ .file = file, .fd = fd, .next = *chain };
		*chain = (uint32_t)(place - d->places);
		hold(d, place);
	}
	return fd; /* without a place: closed when it is given back */
}

int tauti_descriptor_open(const char *path, int flags)
{
	int fd;

	do
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | flags);
	while (fd < 0 && errno == EINTR);
	return fd < 0 ? -errno : fd;
}

int tauti_descriptors_take(
	struct tauti_descriptors *d, uint64_t file, const char *path)
{
	struct place *place;
	int fd = -1, extra = -1;

	pthread_mutex_lock(&d->lock);
	place = find(d, file);
	if (place)
		fd = hold(d, place)->fd;
	pthread_mutex_unlock(&d->lock);
	if (fd >= 0)
		return fd;
	fd = tauti_descriptor_open(path, d->flags);
	if (fd < 0)
		return fd;
	pthread_mutex_lock(&d->lock);
	fd = keep(d, file, fd, &extra);
	pthread_mutex_unlock(&d->lock);
	if (extra >= 0)
		close(extra);
	return fd;
}

void tauti_descriptors_give(struct tauti_descriptors *d, uint64_t file, int fd)
{
	struct place *place;
	bool is_kept;

	pthread_mutex_lock(&d->lock);
	place = find(d, file);
	is_kept = place && place->fd == fd;
	if (is_kept)
		place->holders--;
	pthread_mutex_unlock(&d->lock);
	if (!is_kept)
		close(fd);
}
