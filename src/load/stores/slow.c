/* slow.c - another store, as if it were slower.
 *
 * What was read is held back until the time at which a storage of that rate and latency
 * would have ended it. Reads are begun at once, so that it is as fast as it says unless the
 * store below is slower. */
#include "load/store.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "load/stores/slow.h"

struct slow_store {
	struct tauti_store inner;
	struct taut_clock clock;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct tauti_slow slow;
	struct tauti_store_read *held; /* read and not due; by due_ns */
	bool is_stopped, is_ending;
	pthread_t thread;
};

static void end(struct tauti_store_read *read, taut_status status)
{
	read->done = read->outer_done;
	read->done(read, status);
}

static void end_list(struct tauti_store_read *reads)
{
	while (reads) {
		struct tauti_store_read *read = reads;

		reads = read->next;
		end(read, TAUT_OK);
	}
}

/* --- the thread that lets go ---------------------------------------------------------------*/
/* Those that are due, taken off the list. */
static struct tauti_store_read *take_due(struct slow_store *store, int64_t now_ns)
{
	struct tauti_store_read *due = store->held, **at = &store->held;

	while (*at && (store->is_stopped || (*at)->due_ns <= now_ns))
		at = &(*at)->next;
	if (at == &store->held)
		return NULL;
	store->held = *at;
	*at = NULL;
	return due;
}

/* Sleeps on the machine's clock for as long as the store's has to go; looks at it again
 * whenever something is begun or read. */
static void sleep_until_due(struct slow_store *store, int64_t now_ns)
{
	struct timespec until;
	int64_t until_ns;

	if (!store->held) {
		pthread_cond_wait(&store->wake, &store->lock);
		return;
	}
	until_ns = tauti_now_ns() + (store->held->due_ns - now_ns);
	until.tv_sec = until_ns / 1000000000;
	until.tv_nsec = until_ns % 1000000000;
	pthread_cond_timedwait(&store->wake, &store->lock, &until);
}

static void *run(void *context)
{
	struct slow_store *store = context;

	pthread_mutex_lock(&store->lock);
	while (!store->is_ending || store->held) {
		int64_t now_ns = store->clock.now_ns(store->clock.state);
		struct tauti_store_read *due = take_due(store, now_ns);

		if (!due) {
			sleep_until_due(store, now_ns);
			continue;
		}
		pthread_mutex_unlock(&store->lock);
		end_list(due);
		pthread_mutex_lock(&store->lock);
	}
	pthread_mutex_unlock(&store->lock);
	return NULL;
}

/* --- reads --------------------------------------------------------------------------------*/
static void inner_done(struct tauti_store_read *read, taut_status status)
{
	struct slow_store *store = read->outer;
	struct tauti_store_read **at;
	bool is_held;

	if (status != TAUT_OK) {
		end(read, status);
		return;
	}
	pthread_mutex_lock(&store->lock);
	is_held = !store->is_stopped && (store->held || read->due_ns >
		store->clock.now_ns(store->clock.state));
	if (is_held) {
		for (at = &store->held; *at && (*at)->due_ns <= read->due_ns;)
			at = &(*at)->next;
		read->next = *at;
		*at = read;
		pthread_cond_signal(&store->wake);
	}
	pthread_mutex_unlock(&store->lock);
	if (!is_held)
		end(read, TAUT_OK);
}

static void begin(void *context, struct tauti_store_read *reads)
{
	struct slow_store *store = context;

	pthread_mutex_lock(&store->lock);
	for (struct tauti_store_read *read = reads; read; read = read->next) {
		read->due_ns = tauti_slow_due(&store->slow,
			store->clock.now_ns(store->clock.state), read->bytes);
		read->outer_done = read->done;
		read->outer = store;
		read->done = inner_done;
	}
	pthread_cond_signal(&store->wake);
	pthread_mutex_unlock(&store->lock);
	tauti_store_begin(&store->inner, reads);
}

static void stop(void *context)
{
	struct slow_store *store = context;

	pthread_mutex_lock(&store->lock);
	store->is_stopped = true;
	pthread_cond_signal(&store->wake);
	pthread_mutex_unlock(&store->lock);
	tauti_store_stop(&store->inner);
}

static void destroy(void *context)
{
	struct slow_store *store = context;

	/* Its threads may still end reads here. */
	tauti_store_close(&store->inner);
	pthread_mutex_lock(&store->lock);
	store->is_ending = true;
	pthread_cond_signal(&store->wake);
	pthread_mutex_unlock(&store->lock);
	pthread_join(store->thread, NULL);
	pthread_cond_destroy(&store->wake);
	pthread_mutex_destroy(&store->lock);
	free(store);
}

/* --- made -----------------------------------------------------------------------------------*/
static void init_locks(struct slow_store *store)
{
	pthread_condattr_t attributes;

	pthread_mutex_init(&store->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&store->wake, &attributes);
	pthread_condattr_destroy(&attributes);
}

static taut_status check(
	const struct tauti_store_options *options, struct taut_error *err)
{
	if (options->inner && strcmp(options->inner, "slow") == 0)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"a slow store is not below another one");
	if (options->latency_ns < 0)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"a latency of %lld ns, at least 0",
			(long long)options->latency_ns);
	return TAUT_OK;
}

static taut_status start(struct slow_store *store, struct taut_error *err)
{
	int code;

	init_locks(store);
	code = pthread_create(&store->thread, NULL, run, store);
	if (!code)
		return TAUT_OK;
	tauti_store_close(&store->inner);
	pthread_cond_destroy(&store->wake);
	pthread_mutex_destroy(&store->lock);
	return taut_error_set(err, TAUT_EIO, -1, "no thread for the store: %s",
		strerror(code));
}

static taut_status create(const struct tauti_store_options *options,
	void **ret_store, struct taut_error *err)
{
	taut_status status = check(options, err);
	struct slow_store *store;

	if (status != TAUT_OK)
		return status;
	store = calloc(1, sizeof *store);
	if (!store)
		return taut_error_set(err, TAUT_ENOMEM, -1, "no memory for a store");
	store->slow.rate_bytes_s = options->rate_bytes_s;
	store->slow.latency_ns = options->latency_ns;
	store->clock = options->clock.now_ns ? options->clock : taut_clock_monotonic();
	status = tauti_store_open(options->inner, options, &store->inner, err);
	if (status == TAUT_OK)
		status = start(store, err);
	if (status != TAUT_OK)
		free(store);
	else
		*ret_store = store;
	return status;
}

const struct tauti_store_table tauti_store_slow = {
	.name = "slow",
	.create = create,
	.begin = begin,
	.stop = stop,
	.destroy = destroy,
};
