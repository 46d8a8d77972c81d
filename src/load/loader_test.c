/* A loader beside the order that it is to keep, with every option that must not matter; its
 * state, its faults, and its ends. */
#include "load/loader_world.h"

#include <pthread.h>
#include <sys/wait.h>

#include "base/now.h"
#include "load/draw.h"
#include "tests/support/alloc_fail.h"

/* --- the order -----------------------------------------------------------------------------*/
/* One epoch of one rank, item by item as order.h has it. */
static void check_epoch(const struct world *w, struct taut_load *load,
	const struct taut_load_options *o, uint64_t epoch, uint64_t first_position)
{
	struct tauti_deal deal = { w->n_items, o->seed, o->shuffle };
	struct tauti_share share = {
		.n_items = w->n_items,
		.first_position = first_position,
		.n_ranks = o->n_ranks ? o->n_ranks : 1,
		.rank = o->rank,
		.batch = o->batch ? o->batch : 32,
		.tail = (enum tauti_tail)o->tail,
	};
	struct taut_batch *batch;
	uint64_t b = 0;

	while ((batch = next_batch(load))) {
		assert_int_equal(batch->epoch, epoch);
		assert_int_equal(batch->number, b);
		assert_int_equal(batch->count, tauti_share_count(&share, b));
		assert_int_equal(batch->n_skipped, 0);
		for (uint32_t i = 0; i < batch->count; i++)
			assert_int_equal(batch->items[i], tauti_deal_item(&deal, epoch,
				tauti_share_position(&share, b, i)));
		check_samples(w, batch);
		taut_batch_release(batch);
		b++;
	}
	assert_int_equal(b, tauti_share_batches(&share));
}

static void check_order(const struct world *w, const struct taut_load_options *o)
{
	struct taut_load *load = make_loader(w, *o);

	for (uint64_t epoch = 0; epoch < 3; epoch++)
		check_epoch(w, load, o, epoch, 0);
	taut_load_destroy(load);
}

static void test_order(void **state)
{
	static const char *const stores[] = { NULL, "uring", "null", "slow" };
	struct tauti_draw draw = tauti_draw_begin(1, 0, 0);
	struct world w;

	(void)state;
	world_init(&w, 101, NULL);
	for (int turn = 0; turn < 120; turn++) {
		struct taut_load_options o = {
			.batch = 1 + (uint32_t)tauti_draw_below(&draw, 20),
			.n_ranks = 1 + (uint32_t)tauti_draw_below(&draw, 4),
			.seed = tauti_draw_u64(&draw),
			.shuffle = turn % 4 != 0,
			.tail = (enum taut_load_tail)(turn % 3),
			.n_workers = 1 + (uint32_t)tauti_draw_below(&draw, 6),
			.depth = 2 + (uint32_t)tauti_draw_below(&draw, 4),
			.n_reads = 1 + (uint32_t)tauti_draw_below(&draw, 9),
			.read_bytes = 1 + tauti_draw_below(&draw, 2000),
			.store = stores[tauti_draw_below(&draw, 4)],
			.slow_ns = 20000,
		};

		o.rank = (uint32_t)tauti_draw_below(&draw, o.n_ranks);
		check_order(&w, &o);
	}
	world_fini(&w);
}

/* One epoch of a list, of which every item is known. */
static void check_list(const struct world *w, struct taut_load *load, uint64_t epoch,
	const uint64_t *items, uint64_t n_items, uint32_t batch_size)
{
	struct taut_batch *batch;
	uint64_t n = 0;

	while ((batch = next_batch(load))) {
		uint64_t left = n_items - n;

		assert_int_equal(batch->epoch, epoch);
		assert_int_equal(batch->number, n / batch_size);
		assert_int_equal(
			batch->count, left < batch_size ? left : batch_size);
		for (uint32_t i = 0; i < batch->count; i++)
			assert_int_equal(batch->items[i], items[n + i]);
		n += batch->count;
		check_samples(w, batch);
		taut_batch_release(batch);
	}
	assert_int_equal(n, n_items);
}

#define NOTHING "loader: nothing to go through: expected a list, or a seek"

static void expect_no_batch(struct taut_load *load, const char *why)
{
	struct taut_error err = { .offset = -1 };
	struct taut_batch *batch;

	assert_int_equal(taut_load_next(load, -1, &batch, &err), TAUT_EINVAL);
	assert_string_equal(err.message, why);
}

/* Lists of any length, items any number of times, one after the other and left in their
 * middle; then the order of the seed again. */
static void test_list(void **state)
{
	struct tauti_draw draw = tauti_draw_begin(2, 0, 0);
	struct world w;

	(void)state;
	world_init(&w, 40, NULL);
	for (int turn = 0; turn < 30; turn++) {
		struct taut_load_options o = { .batch = 1 + turn % 9, .n_ranks = 3,
			.rank = 1, .seed = 5, .shuffle = true,
			.tail = (enum taut_load_tail)(turn % 3),
			.cache_bytes = turn % 2 ? 1000 : 0 };
		struct taut_load *load = make_loader(&w, o);
		uint64_t items[100], n = 1;

		for (uint64_t epoch = 7; epoch < 10; epoch++) {
			n = 1 + tauti_draw_below(&draw, 100);
			for (uint64_t i = 0; i < n; i++)
				items[i] = tauti_draw_below(&draw, 40);
			assert_int_equal(taut_load_follow(
				load, epoch, items, n, NULL), TAUT_OK);
			if (epoch == 8) /* goes on with the next one */
				taut_batch_release(next_batch(load));
			else
				check_list(&w, load, epoch, items, n, o.batch);
		}
		expect_no_batch(load, NOTHING);
		assert_int_equal(
			taut_load_state(load, NULL, NULL), TAUT_EINVAL);
		assert_int_equal(taut_load_seek(load, 9, NULL), TAUT_OK);
		check_epoch(&w, load, &o, 9, 0);
		taut_load_destroy(load);
	}
	world_fini(&w);
}

/* Who says where to begin has no read made before. */
static void test_wait(void **state)
{
	struct taut_load_options o = { .batch = 4, .wait = true };
	uint64_t items[] = { 3, 1, 1 };
	struct taut_load_counts counts;
	struct taut_load *load;
	struct world w;

	(void)state;
	world_init(&w, 40, NULL);
	load = make_loader(&w, o);
	expect_no_batch(load, NOTHING);
	assert_int_equal(taut_load_follow(load, 0, items, 3, NULL), TAUT_OK);
	check_list(&w, load, 0, items, 3, 4);
	taut_load_counts(load, &counts);
	assert_int_equal(counts.reads, 3);
	taut_load_destroy(load);
	load = make_loader(&w, o);
	assert_int_equal(taut_load_seek(load, 0, NULL), TAUT_OK);
	check_epoch(&w, load, &o, 0, 0);
	taut_load_destroy(load);
	world_fini(&w);
}

static void test_list_refused(void **state)
{
	struct taut_error err = { .offset = -1 };
	uint64_t items[] = { 3, 40 };
	struct taut_load *load;
	struct world w;

	(void)state;
	world_init(&w, 40, NULL);
	load = make_loader(&w, (struct taut_load_options){ .batch = 8 });
	assert_int_equal(
		taut_load_follow(load, 0, items, 2, &err), TAUT_EINVAL);
	assert_string_equal(
		err.message, "loader: item 40 in the list, expected one below 40");
	assert_int_equal(taut_load_follow(load, 0, NULL, 0, NULL), TAUT_EINVAL);
	alloc_fail_after(0);
	assert_int_equal(taut_load_follow(load, 0, items, 1, NULL), TAUT_ENOMEM);
	alloc_fail_never();
	/* It is where it was. */
	check_epoch(&w, load, &(struct taut_load_options){ .batch = 8 }, 0, 0);
	taut_load_destroy(load);
	load = make_loader(&w, (struct taut_load_options){
		.batch = 8, .share_bytes = 1 << 16 });
	assert_int_equal(taut_load_follow(load, 0, items, 1, NULL), TAUT_EINVAL);
	taut_load_destroy(load);
	world_fini(&w);
}

/* --- where it is -----------------------------------------------------------------------------*/
static void count_items(const struct taut_batch *batch, uint32_t *times)
{
	for (uint32_t i = 0; i < batch->count; i++)
		times[batch->items[i]]++;
}

static void take(struct taut_load *load, uint64_t n, uint32_t *times)
{
	while (n--) {
		struct taut_batch *batch = next_batch(load);

		assert_non_null(batch);
		count_items(batch, times);
		taut_batch_release(batch);
	}
}

static struct taut_load_state state_of(struct taut_load *load)
{
	struct taut_load_state state;

	assert_int_equal(taut_load_state(load, &state, NULL), TAUT_OK);
	return state;
}

/* All ranks take n batches, then as many others as there are ranks go on with another
 * batch: the epoch is whole. */
static void stop_and_go_on(const struct world *w, struct tauti_draw *draw)
{
	struct taut_load_options o = {
		.batch = 1 + (uint32_t)tauti_draw_below(draw, 9),
		.n_ranks = 1 + (uint32_t)tauti_draw_below(draw, 3),
		.seed = tauti_draw_u64(draw),
		.shuffle = true,
	};
	struct taut_load_options other = {
		.batch = 1 + (uint32_t)tauti_draw_below(draw, 9),
		.n_ranks = 1 + (uint32_t)tauti_draw_below(draw, 3),
		.seed = o.seed,
		.shuffle = true,
	};
	uint32_t times[128] = { 0 };
	struct taut_load_state state = { 0 };
	uint64_t n = UINT64_MAX;

	for (o.rank = 0; o.rank < o.n_ranks; o.rank++) {
		struct taut_load *load = make_loader(w, o);

		if (n == UINT64_MAX)
			n = tauti_draw_below(draw, taut_load_batches(load));
		take(load, n, times);
		assert_true(o.rank == 0 ||
			state_of(load).position == state.position);
		state = state_of(load);
		taut_load_destroy(load);
	}
	for (other.rank = 0; other.rank < other.n_ranks; other.rank++) {
		struct taut_load *load = make_loader(w, other);
		struct taut_batch *batch;

		assert_int_equal(taut_load_resume(load, &state, NULL), TAUT_OK);
		while ((batch = next_batch(load))) {
			assert_int_equal(batch->epoch, 0);
			count_items(batch, times);
			taut_batch_release(batch);
		}
		assert_int_equal(state_of(load).epoch, 1);
		assert_int_equal(state_of(load).position, 0);
		check_epoch(w, load, &other, 1, 0);
		taut_load_destroy(load);
	}
	for (uint32_t i = 0; i < w->n_items; i++)
		assert_int_equal(times[i], 1);
}

static void test_resume(void **state)
{
	struct tauti_draw draw = tauti_draw_begin(2, 0, 0);
	struct world w;

	(void)state;
	world_init(&w, 97, NULL);
	for (int turn = 0; turn < 60; turn++)
		stop_and_go_on(&w, &draw);
	world_fini(&w);
}

/* Nothing that was made ahead counts; seeking to where it is keeps what was made. */
static void test_seek(void **state)
{
	struct taut_load_options o = { .batch = 5, .seed = 3, .shuffle = true };
	uint32_t times[128] = { 0 };
	struct taut_load_counts counts;
	struct taut_batch *held;
	struct taut_load *load;
	struct world w;
	uint64_t reads;

	(void)state;
	world_init(&w, 64, NULL);
	load = make_loader(&w, o);
	usleep(20000);
	assert_int_equal(state_of(load).position, 0);
	take(load, 3, times);
	assert_int_equal(state_of(load).position, 15);
	held = next_batch(load);
	usleep(20000); /* others are ready, and are to be forgotten */
	for (uint64_t epoch = 7; epoch < 22; epoch += 3) {
		assert_int_equal(taut_load_seek(load, epoch, NULL), TAUT_OK);
		check_epoch(&w, load, &o, epoch, 0);
	}
	usleep(50000);
	taut_load_counts(load, &counts);
	reads = counts.reads;
	assert_int_equal(taut_load_seek(load, 20, NULL), TAUT_OK);
	usleep(20000);
	taut_load_counts(load, &counts);
	assert_int_equal(counts.reads, reads);
	check_samples(&w, held); /* it was the job's all the time */
	taut_batch_release(held);
	check_epoch(&w, load, &o, 20, 0);
	taut_load_destroy(load);
	world_fini(&w);
}

static void test_other_set(void **state)
{
	struct taut_load_state was;
	struct taut_error err;
	struct taut_load *load;
	struct world w;

	(void)state;
	world_init(&w, 10, NULL);
	load = make_loader(&w, (struct taut_load_options){ .seed = 4 });
	was = state_of(load);
	assert_int_equal(was.n_items, 10);
	assert_int_equal(was.seed, 4);
	was.n_items = 11;
	assert_int_equal(taut_load_resume(load, &was, &err), TAUT_EMATCH);
	assert_string_equal(err.message,
		"loader: the state is of another set (11 items, 10 here)");
	was.n_items = 10;
	was.seed = 5;
	assert_int_equal(taut_load_resume(load, &was, &err), TAUT_EMATCH);
	assert_string_equal(
		err.message, "loader: the state is of seed 5, expected 4");
	was.seed = 4;
	was.position = 11;
	assert_int_equal(taut_load_resume(load, &was, &err), TAUT_EINVAL);
	/* Nothing is left but the end of the epoch. */
	was.position = 10;
	assert_int_equal(taut_load_resume(load, &was, &err), TAUT_OK);
	assert_null(next_batch(load));
	check_epoch(&w, load, &(struct taut_load_options){ .seed = 4 }, 1, 0);
	taut_load_destroy(load);
	world_fini(&w);
}

/* --- faults -----------------------------------------------------------------------------------*/
static const uint32_t broken[] = { 7, 20, 33, TAUT_NONE };

static bool is_broken(uint64_t item)
{
	return item == 7 || item == 20 || item == 33;
}

static void test_skip(void **state)
{
	struct taut_load_options o = {
		.batch = 8, .seed = 5, .shuffle = true, .max_skipped = 6
	};
	struct taut_load_counts counts;
	struct taut_load *load;
	struct world w;

	(void)state;
	world_init(&w, 40, broken);
	load = make_loader(&w, o);
	for (uint64_t epoch = 0; epoch < 2; epoch++) {
		struct taut_batch *batch;
		uint32_t times[40] = { 0 }, n_skipped = 0;

		while ((batch = next_batch(load))) {
			assert_int_equal(batch->count + batch->n_skipped, 8);
			n_skipped += batch->n_skipped;
			count_items(batch, times);
			check_samples(&w, batch);
			taut_batch_release(batch);
		}
		assert_int_equal(n_skipped, 3);
		for (uint32_t i = 0; i < 40; i++)
			assert_int_equal(times[i], !is_broken(i));
	}
	taut_load_counts(load, &counts);
	assert_true(counts.skipped >= 6);
	for (uint64_t n = 0; n < 6; n++) {
		struct taut_error why;
		uint64_t item;

		assert_true(taut_load_skipped(load, n, &item, &why));
		assert_true(is_broken(item));
		assert_int_equal(why.code, TAUT_EFORMAT);
		assert_non_null(strstr(why.message, w.folder));
	}
	assert_false(taut_load_skipped(load, counts.skipped, &(uint64_t){ 0 }, NULL));
	taut_load_destroy(load);
	world_fini(&w);
}

/* The first in the order of batches, however many workers there are; what was before it is
 * given; the loader goes on elsewhere. */
static void test_fatal(void **state)
{
	struct taut_load_options o = { .batch = 6, .n_workers = 6, .depth = 6 };
	struct world w;

	(void)state;
	world_init(&w, 40, broken);
	for (int turn = 0; turn < 30; turn++) {
		struct taut_load *load = make_loader(&w, o);
		struct taut_load_state there = state_of(load);
		struct taut_batch *batch;
		uint32_t times[40] = { 0 };
		struct taut_error err;

		take(load, 1, times);
		for (int again = 0; again < 2; again++) {
			assert_int_equal(taut_load_next(load, -1, &batch, &err),
				TAUT_EFORMAT);
			assert_non_null(strstr(err.message, "/00007.png"));
		}
		there.position = 8;
		assert_int_equal(taut_load_resume(load, &there, NULL), TAUT_OK);
		take(load, 2, times);
		assert_int_equal(taut_load_next(load, -1, &batch, &err), TAUT_EFORMAT);
		assert_non_null(strstr(err.message, "/00020.png"));
		taut_load_destroy(load);
	}
	world_fini(&w);
}

static void test_vanished(void **state)
{
	char path[128], line[256];
	struct taut_batch *batch;
	struct taut_load *load;
	struct taut_error err;
	struct world w;

	(void)state;
	world_init(&w, 5, NULL);
	item_path(&w, 3, path, sizeof path);
	assert_int_equal(unlink(path), 0);
	load = make_loader(&w, (struct taut_load_options){ 0 });
	assert_int_equal(taut_load_next(load, -1, &batch, &err), TAUT_EIO);
	snprintf(line, sizeof line, "%s: cannot open for %d bytes at 0: No such file or "
		"directory", path, ITEM_BYTES);
	assert_string_equal(err.message, line);
	taut_load_destroy(load);
	write_item(&w, 3, ITEM_BYTES);
	world_fini(&w);
}

/* --- holding and ends ---------------------------------------------------------------------------*/
static void *release_later(void *batch)
{
	usleep(20000);
	taut_batch_release(batch);
	return NULL;
}

static void test_hold(void **state)
{
	struct taut_batch *held[3], *batch;
	struct taut_load *load;
	struct taut_error err;
	pthread_t thread;
	struct world w;

	(void)state;
	world_init(&w, 40, NULL);
	load = make_loader(&w, (struct taut_load_options){ .batch = 4, .depth = 3 });
	for (uint32_t i = 0; i < 3; i++) {
		held[i] = next_batch(load);
		assert_int_equal(held[i]->n_held, i + 1);
	}
	assert_int_equal(taut_load_next(load, -1, &batch, &err), TAUT_EINVAL);
	assert_string_equal(err.message, "loader: all 3 batches are held: none can come "
		"before one is released");
	assert_int_equal(taut_load_next(load, 1000000, &batch, &err), TAUT_EAGAIN);
	taut_batch_hold(held[1]);
	taut_batch_release(held[1]);
	assert_int_equal(taut_load_next(load, 0, &batch, &err), TAUT_EAGAIN);
	/* Another thread's release wakes the one that waits. */
	assert_int_equal(pthread_create(&thread, NULL, release_later, held[1]), 0);
	assert_int_equal(taut_load_next(load, INT64_C(60000000000), &batch, &err),
		TAUT_OK);
	assert_int_equal(batch->number, 3);
	pthread_join(thread, NULL);
	/* What is held outlives the loader. */
	taut_load_destroy(load);
	check_samples(&w, held[0]);
	check_samples(&w, held[2]);
	check_samples(&w, batch);
	taut_batch_release(held[2]);
	taut_batch_release(batch);
	assert_int_equal(held[0]->items[3], 3);
	taut_batch_release(held[0]);
	taut_batch_release(NULL);
	world_fini(&w);
}

/* Destroyed at any moment; with reads that take longer than anything else. */
static void test_destroy(void **state)
{
	static const char *const stores[] = { "file", "uring", "null", "slow" };
	struct tauti_draw draw = tauti_draw_begin(6, 0, 0);
	struct world w;

	(void)state;
	world_init(&w, 60, NULL);
	taut_load_destroy(NULL);
	for (int turn = 0; turn < 200; turn++) {
		struct taut_load_options o = {
			.batch = 7,
			.shuffle = true,
			.store = stores[turn % 4],
			.slow_ns = turn % 8 == 3 ? INT64_C(30000000000) : 100000,
			.cache_bytes = turn % 3 == 0 ? 1 << 20 : 0,
			.cache_name = (uint64_t)getpid(),
		};
		struct taut_load *load = make_loader(&w, o);
		struct taut_batch *batch = NULL;
		int64_t from_ns;
		taut_status status = taut_load_next(load,
			(int64_t)tauti_draw_below(&draw, 300000), &batch, NULL);

		assert_true(status == TAUT_OK || status == TAUT_EAGAIN);
		from_ns = tauti_now_ns();
		taut_load_destroy(load);
		assert_true(tauti_now_ns() - from_ns < INT64_C(20000000000));
		taut_batch_release(batch);
	}
	world_fini(&w);
}

/* A child has no threads of its parent's, and is told so; the parent goes on. */
static void test_fork(void **state)
{
	struct taut_batch *batch, *mine = NULL;
	struct taut_load *load;
	struct taut_load_state where;
	struct taut_error err;
	struct world w;
	int status;
	pid_t pid;

	(void)state;
	world_init(&w, 40, NULL);
	load = make_loader(&w, (struct taut_load_options){ .batch = 4 });
	batch = next_batch(load);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int right = taut_load_next(load, -1, &mine, &err) == TAUT_EIO &&
			strstr(err.message, "fork()") && !mine &&
			taut_load_state(load, &where, &err) == TAUT_EIO &&
			taut_load_seek(load, 3, &err) == TAUT_EIO;

		taut_batch_release(batch);
		taut_load_destroy(load);
		_exit(right ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	check_samples(&w, batch);
	taut_batch_release(batch);
	batch = next_batch(load);
	assert_int_equal(batch->number, 1);
	taut_batch_release(batch);
	taut_load_destroy(load);
	world_fini(&w);
}

/* --- the cache ------------------------------------------------------------------------------*/
/* Each item is read once, by whichever of two loaders; then they are hits. */
static void test_cache(void **state)
{
	struct taut_load_options o = {
		.batch = 8,
		.seed = 9,
		.shuffle = true,
		.cache_bytes = 1 << 20,
		.cache_name = (uint64_t)getpid(),
	};
	struct taut_load_counts a, b;
	struct taut_load *load[2];
	struct world w;

	(void)state;
	world_init(&w, 80, NULL);
	load[0] = make_loader(&w, o);
	load[1] = make_loader(&w, o);
	for (uint64_t epoch = 0; epoch < 3; epoch++)
		for (int i = 0; i < 2; i++)
			check_epoch(&w, load[i], &o, epoch, 0);
	taut_load_counts(load[0], &a);
	taut_load_counts(load[1], &b);
	assert_int_equal(a.reads + b.reads, 80);
	assert_int_equal(a.read_bytes + b.read_bytes, 80 * ITEM_BYTES);
	assert_true(a.hits + b.hits >= 2 * 3 * 80 - 80);
	for (int i = 0; i < 2; i++)
		taut_load_destroy(load[i]);
	world_fini(&w);
}

/* --- frameworks ------------------------------------------------------------------------------*/
struct dl { /* DLManagedTensor, as its users see it */
	void *data;
	int32_t device_type, device_id, n_dims;
	uint8_t code, bits;
	uint16_t lanes;
	int64_t *shape, *strides;
	uint64_t byte_offset;
	void *context;
	void (*deleter)(struct dl *self);
};

static void *delete_it(void *tensor)
{
	struct dl *dl = tensor;

	dl->deleter(dl);
	return NULL;
}

static void test_dlpack(void **state)
{
	struct taut_dlpack *data, *labels;
	struct taut_batch *batch;
	struct taut_load *load;
	pthread_t thread;
	struct world w;
	struct dl *dl;

	(void)state;
	world_init(&w, 40, NULL);
	load = make_loader(&w, (struct taut_load_options){ .batch = 4 });
	batch = next_batch(load);
	assert_int_equal(taut_batch_dlpack(batch, false, &data, NULL), TAUT_OK);
	assert_int_equal(taut_batch_dlpack(batch, true, &labels, NULL), TAUT_OK);
	dl = (struct dl *)data;
	assert_ptr_equal(dl->data, batch->data);
	assert_int_equal(dl->device_type, 1);
	assert_int_equal(dl->n_dims, 4);
	assert_int_equal(dl->code, 1);
	assert_int_equal(dl->bits, 8);
	assert_int_equal(dl->lanes, 1);
	assert_int_equal(dl->shape[0], 4);
	assert_int_equal(dl->shape[1], SIDE);
	assert_int_equal(dl->shape[2], SIDE);
	assert_int_equal(dl->shape[3], 3);
	assert_int_equal(dl->strides[0], ITEM_BYTES);
	assert_int_equal(dl->strides[3], 1);
	assert_int_equal(dl->byte_offset, 0);
	dl = (struct dl *)labels;
	assert_ptr_equal(dl->data, batch->labels);
	assert_int_equal(dl->n_dims, 1);
	assert_int_equal(dl->code, 0);
	assert_int_equal(dl->bits, 64);
	/* The last holder is another thread, after the loader's end. */
	taut_batch_release(batch);
	taut_dlpack_delete(labels);
	taut_load_destroy(load);
	assert_int_equal(batch->items[0], 0);
	assert_int_equal(pthread_create(&thread, NULL, delete_it, data), 0);
	pthread_join(thread, NULL);
	taut_dlpack_delete(NULL);
	world_fini(&w);
}

/* --- how it goes -------------------------------------------------------------------------------*/
static void test_counts(void **state)
{
	struct taut_load_options o = {
		.batch = 10, .store = "slow", .slow_ns = 5000000, .n_reads = 10
	};
	struct taut_load_counts counts;
	struct taut_prepare_shape shape;
	uint32_t times[40] = { 0 };
	struct taut_load *load;
	const char *note;
	size_t bytes;
	struct world w;

	(void)state;
	world_init(&w, 40, NULL);
	load = make_loader(&w, o);
	assert_int_equal(taut_load_batches(load), 4);
	take(load, 4, times);
	taut_load_counts(load, &counts);
	assert_int_equal(counts.batches, 4);
	assert_int_equal(counts.samples, 40);
	assert_true(counts.reads >= 40);
	assert_int_equal(counts.read_bytes, counts.reads * ITEM_BYTES);
	assert_int_equal(counts.hits, 0);
	assert_int_equal(counts.n_workers, 2);
	/* Ten reads of 5 ms at a time: the job waits for them, and nobody prepares. */
	assert_true(counts.waited_ns >= 4 * 4000000);
	assert_true(counts.fetch_ns <= counts.waited_ns);
	assert_true(counts.fetch_ns >= counts.waited_ns / 2);
	assert_true(counts.prepare_ns > 0);
	assert_true(counts.idle_ns > 0);
	assert_string_equal(taut_load_store(load, &note), "slow");
	assert_string_equal(note, "");
	taut_load_shape(load, &shape);
	assert_int_equal(shape.bytes, ITEM_BYTES);
	assert_int_equal(shape.type, TAUT_PIXEL_U8);
	assert_non_null(taut_load_memory(load, &bytes));
	assert_true(bytes >= 4 * 10 * ITEM_BYTES);
	taut_load_destroy(load);
	world_fini(&w);
}

static void refused(
	const struct world *w, struct taut_load_options options, const char *line)
{
	struct taut_error err = { .offset = -1 };
	struct taut_load *load = NULL;

	options.prepare = &as_they_are;
	assert_int_equal(taut_load_create(w->set, &options, &load, &err), TAUT_EINVAL);
	if (line)
		assert_string_equal(err.message, line);
	assert_null(load);
}

static void test_refused(void **state)
{
	struct world w;

	(void)state;
	world_init(&w, 10, NULL);
	refused(&w, (struct taut_load_options){ .depth = 1 },
		"loader: depth is 1, expected 2 to 1024");
	refused(&w, (struct taut_load_options){ .n_reads = 5000 },
		"loader: n_reads is 5000, expected 1 to 4096");
	refused(&w, (struct taut_load_options){ .n_workers = 2000 },
		"loader: n_workers is 2000, expected 1 to 1024");
	refused(&w, (struct taut_load_options){ .batch = 11, .tail = TAUT_LOAD_DROP },
		"loader: 10 items do not fill one batch of 11 on 1 ranks, and the tail is "
		"dropped");
	refused(&w, (struct taut_load_options){ .rank = 1 }, NULL);
	refused(&w, (struct taut_load_options){ .store = "flie" },
		"no store \"flie\": did you mean \"file\"?");
	world_fini(&w);
}

static void test_memory(void **state)
{
	struct taut_load_options o = {
		.batch = 2, .n_workers = 2, .prepare = &as_they_are, .n_reads = 2
	};
	taut_status status = TAUT_ENOMEM;
	struct world w;

	(void)state;
	world_init(&w, 10, NULL);
	for (long n = 0; status != TAUT_OK; n++) {
		struct taut_load *load = NULL;
		struct taut_error err;

		alloc_fail_after(n);
		status = taut_load_create(w.set, &o, &load, &err);
		alloc_fail_never();
		if (status == TAUT_OK)
			taut_load_destroy(load);
		else
			assert_int_equal(status, TAUT_ENOMEM);
		assert_true(n < 1000);
	}
	world_fini(&w);
}

/* An item for which there is no memory is a fault that says so, and no crash. */
static void test_memory_later(void **state)
{
	struct world w;

	(void)state;
	world_init(&w, 40, NULL);
	for (long n = 0; n < 12; n++) {
		struct taut_load *load = make_loader(
			&w, (struct taut_load_options){ .batch = 4 });
		struct taut_batch *batch;
		taut_status status = TAUT_OK;

		alloc_fail_after(n);
		for (int i = 0; i < 30 && status == TAUT_OK; i++) {
			status = taut_load_next(load, -1, &batch, NULL);
			if (status == TAUT_OK)
				taut_batch_release(batch);
		}
		alloc_fail_never();
		assert_true(status == TAUT_OK || status == TAUT_ENOMEM);
		taut_load_destroy(load);
	}
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_list_refused),
		cmocka_unit_test(test_wait),
		cmocka_unit_test(test_resume),
		cmocka_unit_test(test_seek),
		cmocka_unit_test(test_other_set),
		cmocka_unit_test(test_skip),
		cmocka_unit_test(test_fatal),
		cmocka_unit_test(test_vanished),
		cmocka_unit_test(test_hold),
		cmocka_unit_test(test_destroy),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_cache),
		cmocka_unit_test(test_dlpack),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_memory_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
