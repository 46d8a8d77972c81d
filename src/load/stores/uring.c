/* uring.c - files, by io_uring: many reads are in the kernel at a time, and a list of them
 * is one system call.
 *
 * A file that is read once is opened, read and closed by one chain of requests, in a place
 * of the ring's own table of files: it never has a descriptor. Reads of other files are one
 * request, on a descriptor that is kept.
 *
 * Who begins submits, under a lock; one thread takes what is complete, submits what waited
 * for its place, and ends reads. A page that the system has cached is copied inside the
 * submission. */
#include "load/store.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "load/stores/descriptors.h"

enum {
	DEFAULT_DEPTH = 64,
	MAX_DEPTH = 4096,
	CHAIN = 3, /* requests of one read at most */
	MOST_BYTES = 1 << 30, /* of one request */
};

/* In the low bits of a request's number, which is its read's address. */
enum part { PART_OPEN, PART_READ, PART_CLOSE, PARTS };

_Static_assert(_Alignof(struct tauti_store_read) > PARTS, "low bits are free");

struct uring_store {
	struct io_uring ring;
	struct tauti_descriptors *descriptors;
	pthread_mutex_t lock; /* of all below, and of submissions */
	pthread_cond_t calm;  /* every place is free */
	struct tauti_store_read *first, *last; /* that wait for a place */
	uint32_t *free; /* places of the ring's table */
	uint32_t n_free, depth;
	bool is_stopped;
	pthread_t thread;
};

/* --- submission. The lock is held. --------------------------------------------------------*/
static void *name_of(struct tauti_store_read *read, enum part part)
{
	return (char *)read + part;
}

static struct io_uring_sqe *request(struct uring_store *store)
{
	/* There are as many as depth chains need, and each is submitted at once. */
	return io_uring_get_sqe(&store->ring);
}

static void add_read(struct uring_store *store, struct tauti_store_read *read, int fd,
	unsigned flags)
{
	struct io_uring_sqe *sqe = request(store);
	uint64_t left = read->bytes - read->got;

	io_uring_prep_read(sqe, fd, (char *)read->into + read->got,
		left < MOST_BYTES ? (unsigned)left : (unsigned)MOST_BYTES,
		read->offset + read->got);
	io_uring_sqe_set_flags(sqe, flags);
	io_uring_sqe_set_data(sqe, name_of(read, PART_READ));
}

/* The close is of a hard link, so that it follows a read that failed. */
static void add_chain(struct uring_store *store, struct tauti_store_read *read)
{
	struct io_uring_sqe *sqe = request(store);

	io_uring_prep_openat_direct(sqe, AT_FDCWD, read->path, O_RDONLY | O_NOCTTY, 0,
		read->slot);
	io_uring_sqe_set_flags(sqe, IOSQE_IO_LINK);
	io_uring_sqe_set_data(sqe, name_of(read, PART_OPEN));
	add_read(store, read, (int)read->slot, IOSQE_FIXED_FILE | IOSQE_IO_HARDLINK);
	sqe = request(store);
	io_uring_prep_close_direct(sqe, read->slot);
	io_uring_sqe_set_data(sqe, name_of(read, PART_CLOSE));
}

static void add(struct uring_store *store, struct tauti_store_read *read)
{
	read->result = 0;
	read->steps = read->whole ? CHAIN : 1;
	if (read->whole)
		add_chain(store, read);
	else
		add_read(store, read, read->fd, 0);
}

static void submit(struct uring_store *store)
{
	while (io_uring_sq_ready(&store->ring))
		if (io_uring_submit(&store->ring) < 0)
			sched_yield(); /* the kernel is out of something */
}

/* Reads that wait, into places that are free. Those whose file cannot be opened are
 * returned, to be ended without the lock. */
static struct tauti_store_read *fill(struct uring_store *store)
{
	struct tauti_store_read *failed = NULL;

	while (store->first && store->n_free) {
		struct tauti_store_read *read = store->first;

		store->first = read->next;
		read->got = 0;
		read->fd = read->whole ? 0 : tauti_descriptors_take(
			store->descriptors, read->file, read->path);
		if (read->fd < 0) {
			read->next = failed;
			failed = read;
			continue;
		}
		read->slot = store->free[--store->n_free];
		add(store, read);
	}
	submit(store);
	return failed;
}

/* --- ends ---------------------------------------------------------------------------------*/
static void end_failed(struct tauti_store_read *reads)
{
	while (reads) {
		struct tauti_store_read *read = reads;

		reads = read->next;
		read->done(read, tauti_store_refused(
			read, "cannot open for", -read->fd));
	}
}

/* TAUT_EAGAIN: it goes on. */
static taut_status outcome(struct tauti_store_read *read)
{
	if (read->fd < 0)
		return tauti_store_refused(read, "cannot open for", -read->fd);
	if (read->result == -EINTR || read->result == -EAGAIN)
		return TAUT_EAGAIN;
	if (read->result < 0)
		return tauti_store_refused(read, "cannot read", -read->result);
	read->got += (uint64_t)read->result;
	if (read->got == read->bytes)
		return TAUT_OK;
	return read->result ? TAUT_EAGAIN : tauti_store_ended(read);
}

/* True: it was the last. Under the lock, which orders this after the submission, as far as
 * the language knows. */
static bool note_part(struct uring_store *store, struct tauti_store_read *read,
	enum part part, int result)
{
	bool is_last;

	pthread_mutex_lock(&store->lock);
	is_last = --read->steps == 0;
	if (part == PART_READ)
		read->result = result;
	else if (part == PART_OPEN && result < 0)
		read->fd = result;
	pthread_mutex_unlock(&store->lock);
	return is_last;
}

/* A read whose requests are all complete: ended, or submitted again for the rest. */
static void settle(struct uring_store *store, struct tauti_store_read *read)
{
	taut_status status = outcome(read);
	struct tauti_store_read *failed;

	pthread_mutex_lock(&store->lock);
	if (status == TAUT_EAGAIN) {
		add(store, read);
		submit(store);
		pthread_mutex_unlock(&store->lock);
		return;
	}
	store->free[store->n_free++] = read->slot;
	failed = fill(store);
	if (store->n_free == store->depth)
		pthread_cond_signal(&store->calm);
	pthread_mutex_unlock(&store->lock);
	if (!read->whole)
		tauti_descriptors_give(store->descriptors, read->file, read->fd);
	read->done(read, status);
	end_failed(failed);
}

static void *run(void *context)
{
	struct uring_store *store = context;
	struct io_uring_cqe *cqe;

	for (;;) {
		uintptr_t name;
		int result;

		if (io_uring_wait_cqe(&store->ring, &cqe))
			continue; /* interrupted */
		name = (uintptr_t)io_uring_cqe_get_data(cqe);
		result = cqe->res;
		io_uring_cqe_seen(&store->ring, cqe);
		if (!name)
			return NULL;
		struct tauti_store_read *read = (struct tauti_store_read *)(
			name & ~(uintptr_t)PARTS);

		if (note_part(store, read, (enum part)(name & PARTS), result))
			settle(store, read);
	}
}

/* --- calls --------------------------------------------------------------------------------*/
static void begin(void *context, struct tauti_store_read *reads)
{
	struct uring_store *store = context;
	struct tauti_store_read *last = reads, *failed = NULL;
	bool is_stopped;

	if (!reads)
		return;
	while (last->next)
		last = last->next;
	pthread_mutex_lock(&store->lock);
	is_stopped = store->is_stopped;
	if (!is_stopped) {
		if (store->first)
			store->last->next = reads;
		else
			store->first = reads;
		store->last = last;
		failed = fill(store);
	}
	pthread_mutex_unlock(&store->lock);
	end_failed(failed);
	if (is_stopped)
		tauti_store_end_stopped(reads);
}

static void stop(void *context)
{
	struct uring_store *store = context;
	struct tauti_store_read *reads;

	pthread_mutex_lock(&store->lock);
	store->is_stopped = true;
	reads = store->first;
	store->first = NULL;
	pthread_mutex_unlock(&store->lock);
	tauti_store_end_stopped(reads);
}

static void release(struct uring_store *store)
{
	tauti_descriptors_destroy(store->descriptors);
	pthread_cond_destroy(&store->calm);
	pthread_mutex_destroy(&store->lock);
	free(store->free);
	free(store);
}

/* After the last read the thread gets a request without a name. */
static void destroy(void *context)
{
	struct uring_store *store = context;
	struct io_uring_sqe *sqe;

	pthread_mutex_lock(&store->lock);
	while (store->n_free < store->depth)
		pthread_cond_wait(&store->calm, &store->lock);
	sqe = request(store);
	io_uring_prep_nop(sqe);
	io_uring_sqe_set_data(sqe, NULL);
	submit(store);
	pthread_mutex_unlock(&store->lock);
	pthread_join(store->thread, NULL);
	io_uring_queue_exit(&store->ring);
	release(store);
}

/* --- made ---------------------------------------------------------------------------------*/
static taut_status check(
	const struct tauti_store_options *options, struct taut_error *err)
{
	if (options->depth > MAX_DEPTH)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"%u reads at a time, at most %d", options->depth, MAX_DEPTH);
	if (options->direct || options->cold)
		return taut_error_set(err, TAUT_EAGAIN, -1,
			"it reads through the page cache alone");
	return TAUT_OK;
}

static taut_status open_ring(struct uring_store *store, struct taut_error *err)
{
	int code = io_uring_queue_init(
		(store->depth + 1) * CHAIN, &store->ring, IORING_SETUP_CLAMP);

	if (code)
		return taut_error_set(err, TAUT_EAGAIN, -1,
			"the kernel refuses io_uring: %s", strerror(-code));
	code = io_uring_register_files_sparse(&store->ring, store->depth);
	if (!code)
		code = pthread_create(&store->thread, NULL, run, store);
	if (!code)
		return TAUT_OK;
	io_uring_queue_exit(&store->ring);
	return taut_error_set(err, TAUT_EAGAIN, -1,
		"a table of files or a thread (Linux 5.19): %s",
		strerror(code < 0 ? -code : code));
}

static struct uring_store *make(const struct tauti_store_options *options)
{
	struct uring_store *store = calloc(1, sizeof *store);

	if (!store)
		return NULL;
	store->depth = options->depth ? options->depth : DEFAULT_DEPTH;
	store->free = calloc(store->depth, sizeof *store->free);
	store->descriptors = tauti_descriptors_create(options->n_files, 0);
	pthread_mutex_init(&store->lock, NULL);
	pthread_cond_init(&store->calm, NULL);
	if (!store->free || !store->descriptors) {
		release(store);
		return NULL;
	}
	while (store->n_free < store->depth) {
		store->free[store->n_free] = store->n_free;
		store->n_free++;
	}
	return store;
}

static taut_status create(const struct tauti_store_options *options,
	void **ret_store, struct taut_error *err)
{
	taut_status status = check(options, err);
	struct uring_store *store;

	if (status != TAUT_OK)
		return status;
	store = make(options);
	if (!store)
		return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for a store");
	status = open_ring(store, err);
	if (status != TAUT_OK)
		release(store);
	else
		*ret_store = store;
	return status;
}

const struct tauti_store_table tauti_store_uring = {
	.name = "uring",
	.create = create,
	.begin = begin,
	.stop = stop,
	.destroy = destroy,
	.instead = "file",
};
