/* file.c - files, by threads that wait in pread().
 *
 * A read from the page cache costs a copy, which threads do side by side; one from a disk
 * costs waiting, which many threads do at once. */
#include "load/store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/turns.h"
#include "load/stores/descriptors.h"

enum {
	MAX_THREADS = 64,
	DEFAULT_THREADS = 8,
	DIRECT_ALIGN = 4096, /* no device in use wants more */
	BOUNCE_BYTES = 1 << 20,
};

struct file_store {
	struct tauti_descriptors *descriptors;
	int flags;
	bool is_cold;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct tauti_store_read *first, *last; /* that wait for a thread */
	uint32_t n_idle;
	bool is_stopped, is_ending;
	uint32_t n_threads;
	pthread_t threads[MAX_THREADS];
};

/* --- one read ----------------------------------------------------------------------------*/
static ssize_t read_some(int fd, void *into, size_t bytes, uint64_t offset)
{
	ssize_t n;

	do
		n = pread(fd, into, bytes, (off_t)offset);
	while (n < 0 && errno == EINTR);
	return n;
}

static taut_status read_plain(struct tauti_store_read *read)
{
	while (read->got < read->bytes) {
		ssize_t n = read_some(read->fd, (char *)read->into + read->got,
			read->bytes - read->got, read->offset + read->got);

		if (n < 0)
			return tauti_store_refused(read, "cannot read", errno);
		if (n == 0)
			return tauti_store_ended(read);
		read->got += (uint64_t)n;
	}
	return TAUT_OK;
}

/* Whole blocks into the bounce; what was asked for out of it. */
static taut_status read_direct(struct tauti_store_read *read, char *bounce)
{
	while (read->got < read->bytes) {
		uint64_t at = read->offset + read->got;
		uint64_t skip = at % DIRECT_ALIGN, left = read->bytes - read->got;
		uint64_t bytes = (skip + left + DIRECT_ALIGN - 1) /
			DIRECT_ALIGN * DIRECT_ALIGN;
		ssize_t n = read_some(read->fd, bounce,
			bytes < BOUNCE_BYTES ? bytes : BOUNCE_BYTES, at - skip);

		if (n < 0)
			return tauti_store_refused(read, "cannot read", errno);
		if ((uint64_t)n <= skip)
			return tauti_store_ended(read);
		bytes = (uint64_t)n - skip < left ? (uint64_t)n - skip : left;
		memcpy((char *)read->into + read->got, bounce + skip, bytes);
		read->got += bytes;
	}
	return TAUT_OK;
}

static taut_status carry_out(
	struct file_store *store, struct tauti_store_read *read, char *bounce)
{
	taut_status status;

	read->got = 0;
	read->fd = read->whole ? tauti_descriptor_open(read->path, store->flags) :
		tauti_descriptors_take(store->descriptors, read->file, read->path);
	if (read->fd < 0)
		return tauti_store_refused(read,
			store->flags ? "cannot open, past the page cache, for" :
				"cannot open for", -read->fd);
	status = bounce ? read_direct(read, bounce) : read_plain(read);
	if (store->is_cold) /* partly used pages too */
		posix_fadvise(read->fd, (off_t)(read->offset & ~UINT64_C(4095)),
			(off_t)(read->bytes + 8191), POSIX_FADV_DONTNEED);
	if (read->whole)
		close(read->fd);
	else
		tauti_descriptors_give(store->descriptors, read->file, read->fd);
	return status;
}

/* --- threads -----------------------------------------------------------------------------*/
/* Who takes one wakes the next where there are more: so no more of them than are wanted,
 * for reads of what is in memory hardly wait, and whoever began many has woken one.
 * NULL: the store ends. */
static struct tauti_store_read *next_read(struct file_store *store)
{
	struct tauti_store_read *read;

	pthread_mutex_lock(&store->lock);
	store->n_idle++;
	while (!store->first && !store->is_ending)
		pthread_cond_wait(&store->wake, &store->lock);
	store->n_idle--;
	read = store->first;
	if (read)
		store->first = read->next;
	if (store->first && store->n_idle)
		pthread_cond_signal(&store->wake);
	pthread_mutex_unlock(&store->lock);
	return read;
}

static void *run(void *context)
{
	struct file_store *store = context;
	struct tauti_store_read *read;
	char *bounce = NULL;

	tauti_wake_behind();
	/* Without room for it reads end with what the system says of the first. */
	if (store->flags &&
		posix_memalign((void **)&bounce, DIRECT_ALIGN, BOUNCE_BYTES))
		bounce = NULL;
	while ((read = next_read(store)))
		read->done(read, carry_out(store, read, bounce));
	free(bounce);
	return NULL;
}

static void append(struct file_store *store, struct tauti_store_read *reads)
{
	struct tauti_store_read *last = reads;

	while (last->next)
		last = last->next;
	if (store->first)
		store->last->next = reads;
	else
		store->first = reads;
	store->last = last;
	if (store->n_idle)
		pthread_cond_signal(&store->wake);
}

static void begin(void *context, struct tauti_store_read *reads)
{
	struct file_store *store = context;
	bool is_stopped;

	if (!reads)
		return;
	pthread_mutex_lock(&store->lock);
	is_stopped = store->is_stopped;
	if (!is_stopped)
		append(store, reads);
	pthread_mutex_unlock(&store->lock);
	if (is_stopped)
		tauti_store_end_stopped(reads);
}

static void stop(void *context)
{
	struct file_store *store = context;
	struct tauti_store_read *reads;

	pthread_mutex_lock(&store->lock);
	store->is_stopped = true;
	reads = store->first;
	store->first = NULL;
	pthread_mutex_unlock(&store->lock);
	tauti_store_end_stopped(reads);
}

static void destroy(void *context)
{
	struct file_store *store = context;

	pthread_mutex_lock(&store->lock);
	store->is_ending = true;
	pthread_cond_broadcast(&store->wake);
	pthread_mutex_unlock(&store->lock);
	for (uint32_t i = 0; i < store->n_threads; i++)
		pthread_join(store->threads[i], NULL);
	tauti_descriptors_destroy(store->descriptors);
	pthread_cond_destroy(&store->wake);
	pthread_mutex_destroy(&store->lock);
	free(store);
}

/* One thread is enough, but for speed. */
static taut_status start(struct file_store *store, uint32_t n, struct taut_error *err)
{
	int code = 0;

	while (store->n_threads < n && !code) {
		code = pthread_create(&store->threads[store->n_threads], NULL,
			run, store);
		if (!code)
			store->n_threads++;
	}
	if (store->n_threads)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EIO, -1,
		"no thread for the store: %s", strerror(code));
}

static taut_status create(const struct tauti_store_options *options,
	void **ret_store, struct taut_error *err)
{
	struct file_store *store;
	uint32_t n = options->n_threads ? options->n_threads : DEFAULT_THREADS;
	taut_status status;

	if (n > MAX_THREADS)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"%u threads for the store, at most %d", n, MAX_THREADS);
	store = calloc(1, sizeof *store);
	if (!store)
		return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for a store");
	store->flags = options->direct ? O_DIRECT : 0;
	store->is_cold = options->cold;
	store->descriptors = tauti_descriptors_create(options->n_files, store->flags);
	if (!store->descriptors) {
		free(store);
		return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for a store");
	}
	pthread_mutex_init(&store->lock, NULL);
	pthread_cond_init(&store->wake, NULL);
	status = start(store, n, err);
	if (status != TAUT_OK)
		destroy(store);
	else
		*ret_store = store;
	return status;
}

const struct tauti_store_table tauti_store_file = {
	.name = "file",
	.create = create,
	.begin = begin,
	.stop = stop,
	.destroy = destroy,
};
