/* loader.c - life of a loader: options, memory, threads. */
#include "load/loader.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/hash.h"
#include "base/now.h"

enum {
	MAX_DEPTH = 1024,
	MAX_BATCH = 1 << 20,
	MAX_READS = 4096, /* and as many of other hosts */
	MAX_WORKERS = 1024,
	STORE_THREADS = 16,
	SLOT_ALIGN = 64,
};

static uint64_t align_up(uint64_t bytes)
{
	return (bytes + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
}

/* --- options -----------------------------------------------------------------------------*/
static void put_defaults(
	struct taut_load_options *o, const struct taut_set *set)
{
	double mean = (double)taut_set_bytes(set) / (double)taut_set_count(set);

	if (!o->batch)
		o->batch = 32;
	if (!o->n_ranks)
		o->n_ranks = 1;
	if (!o->n_workers)
		o->n_workers = taut_cores();
	if (!o->depth)
		o->depth = TAUTI_SUPPLY_DEPTH;
	if (!o->n_reads)
		o->n_reads = 64;
	if (!o->n_remote)
		o->n_remote = 64;
	if (!o->read_bytes)
		o->read_bytes = tauti_supply_fetch_bytes(
			mean, o->n_reads, o->n_workers);
}

static taut_status check_range(const char *what, uint64_t value, uint64_t least,
	uint64_t most, struct taut_error *err)
{
	if (value >= least && value <= most)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EINVAL, -1,
		"loader: %s is %llu, expected %llu to %llu", what,
		(unsigned long long)value, (unsigned long long)least,
		(unsigned long long)most);
}

static taut_status check_options(
	const struct taut_load_options *o, struct taut_error *err)
{
	taut_status status = check_range("batch", o->batch, 1, MAX_BATCH, err);

	if (status == TAUT_OK)
		status = check_range("depth", o->depth, 2, MAX_DEPTH, err);
	if (status == TAUT_OK)
		status = check_range("n_reads", o->n_reads, 1, MAX_READS, err);
	if (status == TAUT_OK)
		status = check_range("n_remote", o->n_remote, 1, MAX_READS, err);
	if (status == TAUT_OK)
		status = check_range("n_workers", o->n_workers, 1, MAX_WORKERS, err);
	if (status == TAUT_OK)
		status = check_range("tail", o->tail, 0, TAUT_LOAD_PAD, err);
	if (status == TAUT_OK)
		status = check_range("share_patience_ns",
			(uint64_t)o->share_patience_ns, 0, INT64_MAX, err);
	return status;
}

/* What another version of the header has, and this one does not, is not read. */
static void copy_options(struct taut_load *load, const struct taut_load_options *given)
{
	size_t bytes = given->size ? given->size : sizeof *given;

	if (bytes > sizeof load->options)
		bytes = sizeof load->options;
	memcpy(&load->options, given, bytes);
	put_defaults(&load->options, load->set);
	if (load->options.prepare)
		load->prepare = *load->options.prepare;
	load->options.prepare = &load->prepare;
}

static taut_status plan(struct taut_load *load, struct taut_error *err)
{
	const struct taut_load_options *o = &load->options;
	taut_status status;

	load->share = (struct tauti_share){
		.n_items = taut_set_count(load->set),
		.n_ranks = o->n_ranks,
		.rank = o->rank,
		.batch = o->batch,
		.tail = (enum tauti_tail)o->tail,
	};
	status = tauti_share_check(&load->share, err);
	if (status != TAUT_OK)
		return status;
	load->n_batches = tauti_share_batches(&load->share);
	if (load->n_batches)
		return TAUT_OK;
	return taut_error_set(err, TAUT_EINVAL, -1,
		"loader: %llu items do not fill one batch of %u on %u ranks, and the "
		"tail is dropped", (unsigned long long)load->share.n_items,
		o->batch, o->n_ranks);
}

static taut_status take_options(struct taut_load *load,
	const struct taut_load_options *given, struct taut_error *err)
{
	taut_status status;

	copy_options(load, given);
	status = check_options(&load->options, err);
	if (status == TAUT_OK)
		status = taut_prepare_check(&load->prepare, err);
	if (status == TAUT_OK)
		status = plan(load, err);
	if (status == TAUT_OK)
		status = tauti_load_first(load, err);
	if (status == TAUT_OK)
		status = taut_prepare_shape(&load->prepare, &load->shape, err);
	return status;
}

/* --- memory ------------------------------------------------------------------------------*/
static taut_status no_memory(struct taut_error *err, const char *what)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "loader: no memory for %s", what);
}

/* What a slot has beside its data. */
static uint32_t columns_of(const struct taut_load *load)
{
	return load->shape.varies ? 3 : 2;
}

static void lay_columns(const struct taut_load *load, char *at, uint64_t column,
	struct taut_batch *batch)
{
	batch->labels = (int64_t *)(void *)at;
	batch->items = (uint64_t *)(void *)(at + column);
	if (load->shape.varies)
		batch->lengths = (int64_t *)(void *)(at + 2 * column);
}

/* All slots' data, then their columns. Untouched pages cost nothing. */
static taut_status map_slots(struct taut_load *load, struct taut_error *err)
{
	const struct taut_load_options *o = &load->options;
	uint64_t data = align_up(o->batch * load->shape.bytes);
	uint64_t column = align_up(o->batch * sizeof(int64_t));
	char *at;

	load->memory_bytes = o->depth * (data + columns_of(load) * column);
	load->memory = mmap(NULL, load->memory_bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (load->memory == MAP_FAILED) {
		load->memory = NULL;
		return taut_error_set(err, TAUT_ENOMEM, -1,
			"loader: no memory for %u batches of %llu bytes", o->depth,
			(unsigned long long)data);
	}
	madvise(load->memory, load->memory_bytes, MADV_HUGEPAGE); /* where it can */
	at = load->memory;
	for (uint32_t i = 0; i < o->depth; i++, at += data) {
		load->slots[i].load = load;
		load->slots[i].batch.data = at;
		load->slots[i].batch.sample_bytes = load->shape.bytes;
	}
	for (uint32_t i = 0; i < o->depth; i++, at += columns_of(load) * column)
		lay_columns(load, at, column, &load->slots[i].batch);
	return TAUT_OK;
}

static taut_status take_tables(struct taut_load *load, struct taut_error *err)
{
	const struct taut_load_options *o = &load->options;
	size_t n_tickets = (size_t)o->depth * o->batch;
	uint32_t n_reads = o->n_reads + (o->remote ? o->n_remote : 0);

	load->slots = calloc(o->depth, sizeof *load->slots);
	load->ready = calloc(o->depth, sizeof *load->ready);
	load->tickets = calloc(n_tickets, sizeof *load->tickets);
	load->awaited = calloc(n_tickets, sizeof *load->awaited);
	load->reads = calloc(n_reads, sizeof *load->reads);
	load->workers = calloc(o->n_workers, sizeof *load->workers);
	load->rooms = tauti_rooms_create(
		(o->read_bytes + o->read_bytes / 4) * (o->remote ? 2 : 1));
	if (!load->slots || !load->ready || !load->tickets || !load->awaited ||
		!load->reads || !load->workers || !load->rooms)
		return no_memory(err, "its tables");
	for (uint32_t i = 0; i < n_reads; i++) {
		load->reads[i].next = load->free_reads;
		load->free_reads = &load->reads[i];
	}
	load->first_work = TAUT_NONE;
	return map_slots(load, err);
}

/* --- what works --------------------------------------------------------------------------*/
static taut_status open_cache(struct taut_load *load, struct taut_error *err)
{
	uint64_t name = taut_set_fingerprint(load->set);

	if (!load->options.cache_bytes)
		return TAUT_OK;
	if (load->share.n_items > TAUTI_CACHE_MOST_ITEMS)
		return taut_error_set(err, TAUT_EINVAL, -1,
			"loader: %llu items, a cache has at most %u",
			(unsigned long long)load->share.n_items,
			TAUTI_CACHE_MOST_ITEMS);
	return tauti_cache_open(&(struct tauti_cache_options){
		.fingerprint = tauti_hash_mix(name ^ TAUTI_HASH_A,
			load->options.cache_name ^ TAUTI_HASH_B),
		.n_items = (uint32_t)load->share.n_items,
		.bytes = load->options.cache_bytes,
	}, &load->cache, err);
}

static taut_status open_store(struct taut_load *load, struct taut_error *err)
{
	const struct taut_load_options *o = &load->options;
	struct tauti_store_options options = {
		.n_threads = o->n_reads < STORE_THREADS ? o->n_reads : STORE_THREADS,
		.depth = o->n_reads,
		.direct = o->direct,
		.cold = o->cold,
		.rate_bytes_s = o->slow_bytes_s,
		.latency_ns = o->slow_ns,
	};

	return tauti_store_open(o->store, &options, &load->store, err);
}

static taut_status make_supply(struct taut_load *load, struct taut_error *err)
{
	const struct taut_load_options *o = &load->options;
	struct tauti_supply_options options = {
		.deal = { load->share.n_items, o->seed, o->shuffle },
		.share = load->share,
		.depth = o->depth,
		.n_fetches = o->n_reads,
		.fetch_bytes = o->read_bytes,
		.n_far = o->n_remote,
		.far_bytes = o->read_bytes,
		.n_workers = o->n_workers,
		.max_skipped = o->max_skipped,
	};
	struct tauti_supply_engine engine = tauti_load_engine;

	if (!o->remote)
		engine.far = NULL;
	return tauti_supply_create(&options, &engine, load, &load->supply, err);
}

static taut_status make_packed(const struct taut_load *load,
	struct tauti_load_worker *worker, struct taut_error *err)
{
	if (!load->options.share_bytes || !load->shape.varies)
		return TAUT_OK;
	worker->packed = malloc(tauti_load_shared_bytes(load));
	return worker->packed ? TAUT_OK : no_memory(err, "a sample");
}

static taut_status make_workers(struct taut_load *load, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	for (uint32_t i = 0; i < load->options.n_workers && status == TAUT_OK; i++) {
		load->workers[i].load = load;
		status = tauti_maker_create(
			&load->prepare, &load->workers[i].maker, err);
		if (status == TAUT_OK)
			status = make_packed(load, &load->workers[i], err);
	}
	return status;
}

static void init_locks(struct taut_load *load)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_mutex_init(&load->lock, NULL);
	pthread_cond_init(&load->work, NULL);
	pthread_cond_init(&load->news, &attributes);
	pthread_cond_init(&load->watch, NULL);
	pthread_cond_init(&load->calm, NULL);
	pthread_condattr_destroy(&attributes);
}

/* --- life --------------------------------------------------------------------------------*/
void tauti_load_let_go(struct taut_load *load)
{
	if (atomic_fetch_sub_explicit(&load->holders, 1, memory_order_acq_rel) != 1)
		return;
	if (load->memory)
		munmap(load->memory, load->memory_bytes);
	free(load->slots);
	pthread_mutex_destroy(&load->lock);
	pthread_cond_destroy(&load->work);
	pthread_cond_destroy(&load->news);
	pthread_cond_destroy(&load->watch);
	pthread_cond_destroy(&load->calm);
	tauti_origin_fini(&load->origin);
	free(load);
}

taut_status tauti_load_refuse_copy(
	const struct taut_load *load, struct taut_error *reterr)
{
	if (!tauti_origin_is_copy(&load->origin))
		return TAUT_OK;
	return taut_error_set(reterr, TAUT_EIO, -1, "loader: made before fork(), and "
		"its threads are the parent's: make one in this process");
}

/* What was claimed of the cache, and never begun. */
static void drop_reads(struct taut_load *load)
{
	for (struct tauti_store_read *read = load->to_begin; read; read = read->next) {
		struct tauti_load_read *mine = (struct tauti_load_read *)read;

		if (mine->kept)
			tauti_cache_drop(load->cache,
				(uint32_t)load->tickets[mine->ticket].item);
	}
	load->to_begin = NULL;
}

void tauti_load_forget_tickets(struct taut_load *load)
{
	size_t n = load->tickets ?
		(size_t)load->options.depth * load->options.batch : 0;

	for (size_t i = 0; i < n; i++) {
		struct tauti_load_ticket *t = &load->tickets[i];

		tauti_rooms_give(load->rooms, t->room);
		t->room = NULL;
		free(t->why);
		t->why = NULL;
		tauti_load_share_drop(load, (uint32_t)i);
		t->is_under_way = false;
	}
	load->first_work = TAUT_NONE;
}

/* Everything but the struct and the slots. Nothing works any more. */
static void free_works(struct taut_load *load)
{
	tauti_load_remote_close(load);
	tauti_store_close(&load->store); /* its reads end here */
	drop_reads(load);
	tauti_load_forget_tickets(load);
	tauti_load_share_close(load);
	tauti_cache_close(load->cache);
	for (uint32_t i = 0; load->workers && i < load->options.n_workers; i++) {
		tauti_maker_destroy(load->workers[i].maker);
		free(load->workers[i].packed);
	}
	tauti_supply_destroy(load->supply);
	tauti_rooms_destroy(load->rooms);
	free(load->workers);
	free(load->reads);
	free(load->serves);
	free(load->awaited);
	free(load->tickets);
	free(load->ready);
	free(load->skips);
	free(load->list);
}

void taut_load_destroy(struct taut_load *load)
{
	if (!load || tauti_origin_is_copy(&load->origin))
		return;
	pthread_mutex_lock(&load->lock);
	load->is_closed = true;
	pthread_cond_broadcast(&load->work);
	pthread_cond_broadcast(&load->watch);
	while (load->is_beginning)
		pthread_cond_wait(&load->calm, &load->lock);
	pthread_mutex_unlock(&load->lock);
	if (load->store.table)
		tauti_store_stop(&load->store);
	tauti_load_join_threads(load);
	free_works(load);
	tauti_load_let_go(load);
}

static taut_status make(struct taut_load *load,
	const struct taut_load_options *options, struct taut_error *err)
{
	taut_status status = take_options(load, options, err);

	if (status == TAUT_OK)
		status = take_tables(load, err);
	if (status == TAUT_OK)
		status = make_supply(load, err);
	if (status == TAUT_OK)
		status = make_workers(load, err);
	if (status == TAUT_OK)
		status = open_cache(load, err);
	if (status == TAUT_OK)
		status = tauti_load_share_open(load, err);
	if (status == TAUT_OK)
		status = open_store(load, err);
	if (status == TAUT_OK)
		status = tauti_load_remote_open(load, err);
	if (status == TAUT_OK)
		status = tauti_load_start_threads(load, err);
	return status;
}

taut_status taut_load_create(const struct taut_set *set,
	const struct taut_load_options *options, struct taut_load **ret_load,
	struct taut_error *reterr)
{
	struct taut_load *load = calloc(1, sizeof *load);
	taut_status status;

	if (!load)
		return no_memory(reterr, "it");
	load->set = set;
	load->set_is_whole = taut_set_whole(set);
	atomic_init(&load->holders, 1);
	tauti_origin_init(&load->origin);
	init_locks(load);
	status = make(load, options ? options : &(struct taut_load_options){ 0 },
		reterr);
	if (status != TAUT_OK) {
		taut_load_destroy(load);
		return status;
	}
	pthread_mutex_lock(&load->lock);
	load->marked_ns = tauti_now_ns();
	load->is_unsaid = load->options.wait;
	if (!load->is_unsaid)
		tauti_supply_start(load->supply);
	tauti_load_settle(load);
	pthread_mutex_unlock(&load->lock);
	*ret_load = load;
	return TAUT_OK;
}
