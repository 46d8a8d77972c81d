/* shm_map.c - the memory that the ranks of a host share.
 *
 * The first rank of a host makes a file without a place on a disk, under a name
 * that nobody can guess, and tells it to the others, as all ranks of all hosts
 * tell each other something. Each maps it, and has the kernel set aside the pages
 * of its own part, as a page that is not to be had later ends the process. When
 * all have, or one could not, the name goes. */
#include "coll/engines/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
	NAME_BYTES = 40, /* more than the prefix and two for each random byte */
	PREPARED_BYTES = 64 << 20, /* pages are looked up before they are used */
};

/* What each rank says before and after it has mapped. */
struct hello {
	int32_t error; /* errno of the rank that makes the file */
	uint32_t n_slots;
	char name[NAME_BYTES];
};

struct ready {
	int32_t error;    /* errno */
	uint32_t ordered; /* takes part in the ordering from outside */
};

struct making {
	const struct tauti_shm_world *world;
	uint32_t first, n_here; /* first rank of the host; ranks in it */
	int fd;                 /* < 0: none */
	struct hello *hellos;   /* by rank */
	struct ready *readies;
	struct tauti_shm_map map;
};

static bool is_here(const struct making *it, uint32_t rank)
{
	return it->world->host_of[rank] == it->world->host_of[it->world->rank];
}

static bool is_first(const struct making *it)
{
	return it->first == it->world->rank;
}

static void count_here(struct making *it)
{
	it->first = it->world->rank;
	for (uint32_t i = it->world->n_ranks; i-- > 0;) {
		if (!is_here(it, i))
			continue;
		it->first = i;
		it->n_here++;
		it->map.index += i < it->world->rank;
	}
}

/* --- the file ------------------------------------------------------------------------*/

static int name_it(char *name)
{
	unsigned char bytes[TAUTI_SHM_RANDOM_BYTES];
	int at = snprintf(name, NAME_BYTES, TAUTI_SHM_PREFIX);

	if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
		return EIO;
	for (int i = 0; i < TAUTI_SHM_RANDOM_BYTES; i++)
		at += snprintf(name + at, (size_t)(NAME_BYTES - at), "%02x",
			bytes[i]);
	return 0;
}

/* As many as there are, but not more than half of what is free. */
static uint32_t slots_for(int fd, uint32_t n_here)
{
	struct statvfs at;
	uint32_t n = TAUTI_SHM_MOST_SLOTS;

	if (fstatvfs(fd, &at) != 0)
		return n;
	while (n > TAUTI_SHM_LEAST_SLOTS &&
		tauti_shm_lay(n_here, n, TAUTI_SHM_SLOT_BYTES).total_bytes >
			(uint64_t)at.f_bavail * at.f_frsize / 2)
		n /= 2;
	return n;
}

/* Whether a file may not have so many bytes (ulimit -f): who tries is killed. */
static bool is_limited(uint64_t bytes)
{
	struct rlimit most;

	return getrlimit(RLIMIT_FSIZE, &most) == 0 &&
		most.rlim_cur != RLIM_INFINITY && bytes > most.rlim_cur;
}

/* The first rank's work; errno. */
static int make_file(struct making *it, struct hello *mine)
{
	struct tauti_shm_layout layout;
	int error = name_it(mine->name);

	if (error)
		return error;
	tauti_shm_remove_stale();
	it->fd = shm_open(mine->name, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (it->fd < 0)
		return errno;
	(void)flock(it->fd, LOCK_SH | LOCK_NB); /* see shm_stale.c */
	mine->n_slots = slots_for(it->fd, it->n_here);
	layout = tauti_shm_lay(it->n_here, mine->n_slots, TAUTI_SHM_SLOT_BYTES);
	if (is_limited(layout.total_bytes))
		return EFBIG;
	return ftruncate(it->fd, (off_t)layout.total_bytes) ? errno : 0;
}

/* Another rank's; errno. */
static int open_file(struct making *it, const char *name)
{
	struct stat at;

	it->fd = shm_open(name, O_RDWR, 0);
	if (it->fd < 0)
		return errno;
	if (fstat(it->fd, &at) != 0)
		return errno;
	return at.st_uid == geteuid() && (uint64_t)at.st_size ==
		it->map.layout.total_bytes ? 0 : EPERM;
}

static int set_aside(struct making *it)
{
	off_t bytes = (off_t)it->map.layout.part_bytes;
	int error;

	if (is_limited((uint64_t)(it->map.index + 1) * it->map.layout.part_bytes))
		return EFBIG;
	do
		error = posix_fallocate(it->fd, it->map.index * bytes, bytes);
	while (error == EINTR);
	return error;
}

static int map_file(struct making *it)
{
	size_t bytes = it->map.layout.total_bytes;
	int error = set_aside(it);
	void *base;

	if (error)
		return error;
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, it->fd, 0);
	if (base == MAP_FAILED)
		return errno;
	it->map.base = base;
	return 0;
}

/* --- what the others say ------------------------------------------------------------*/

static taut_status faulty(uint32_t rank, int error, struct taut_error *err)
{
	return taut_error_set(err, TAUT_EIO, -1,
		"shared memory of rank %u: %s: %s", rank,
		error == ENOSPC ? "/dev/shm is full" : "/dev/shm",
		strerror(error));
}

static taut_status greet(struct making *it, struct taut_error *err)
{
	struct hello mine = { 0 }, *first = &it->hellos[it->first];
	taut_status status;

	if (is_first(it) && it->n_here > 1)
		mine.error = make_file(it, &mine);
	/* The others wait for what this says, also when it is bad. */
	*first = mine;
	status = it->world->gather(it->world->context, &mine, sizeof mine,
		it->hellos, err);
	if (is_first(it))
		memcpy(first->name, mine.name, sizeof mine.name);
	if (status != TAUT_OK)
		return status;
	for (uint32_t i = 0; i < it->world->n_ranks; i++)
		if (it->hellos[i].error)
			return faulty(i, it->hellos[i].error, err);
	if (it->n_here > 1 && (first->name[NAME_BYTES - 1] ||
			!tauti_shm_is_name(first->name) || first->n_slots == 0 ||
			first->n_slots > TAUTI_SHM_MOST_SLOTS))
		return taut_error_set(err, TAUT_EFORMAT, -1, "shared memory: "
			"rank %u tells a place that is none", it->first);
	return TAUT_OK;
}

static taut_status join(struct making *it, struct taut_error *err)
{
	const struct hello *first = &it->hellos[it->first];
	struct ready mine = { .ordered = tauti_shm_order_from_outside() };
	taut_status status;

	if (it->n_here > 1) {
		it->map.layout = tauti_shm_lay(it->n_here, first->n_slots,
			TAUTI_SHM_SLOT_BYTES);
		if (!is_first(it))
			mine.error = open_file(it, first->name);
		if (!mine.error)
			mine.error = map_file(it);
	}
	status = it->world->gather(it->world->context, &mine, sizeof mine,
		it->readies, err);
	for (uint32_t i = 0; status == TAUT_OK && i < it->world->n_ranks; i++) {
		if (it->readies[i].error)
			status = faulty(i, it->readies[i].error, err);
		if (is_here(it, i) && !it->readies[i].ordered)
			it->map.fenced = true;
	}
	return status;
}

/* --- all of it ------------------------------------------------------------------------*/

static taut_status make(struct making *it, struct taut_error *err)
{
	taut_status status;

	it->hellos = calloc(it->world->n_ranks, sizeof it->hellos[0]);
	it->readies = calloc(it->world->n_ranks, sizeof it->readies[0]);
	if (!it->hellos || !it->readies)
		return taut_error_set(err, TAUT_ENOMEM, -1, "out of memory");
	status = greet(it, err);
	if (status == TAUT_OK)
		status = join(it, err);
	if (is_first(it) && it->fd >= 0)
		shm_unlink(it->hellos[it->first].name);
	it->map.spins = it->world->spins;
	return status;
}

taut_status tauti_shm_map_create(const struct tauti_shm_world *world,
	struct tauti_shm_map *ret_map, struct taut_error *reterr)
{
	struct making it = { .world = world, .fd = -1 };
	taut_status status;

	count_here(&it);
	status = make(&it, reterr);
	if (it.fd >= 0)
		close(it.fd);
	free(it.hellos);
	free(it.readies);
	if (status != TAUT_OK) {
		tauti_shm_map_destroy(&it.map);
		return status;
	}
#ifdef MADV_POPULATE_WRITE
	/* Only saves time, and old kernels do not know it. */
	if (it.map.base && it.map.layout.total_bytes <= PREPARED_BYTES)
		(void)madvise(it.map.base, it.map.layout.total_bytes,
			MADV_POPULATE_WRITE);
#endif
	*ret_map = it.map;
	return TAUT_OK;
}

void tauti_shm_map_destroy(struct tauti_shm_map *map)
{
	if (map->base)
		munmap(map->base, map->layout.total_bytes);
	map->base = NULL;
}
