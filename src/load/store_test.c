/* What store.h says, of every store of the table; then what is of one alone. Files hold
 * what the null store makes up, so that all of them are asked the same. */
#include "tests/support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/now.h"
#include "load/draw.h"
#include "load/store.h"
#include "load/stores/slow.h"
#include "tests/support/alloc_fail.h"

enum { N_FILES = 40, LARGEST = 1300000 };

static char folder[] = "/tmp/taut-store-XXXXXX";
static uint64_t sizes[N_FILES];
static char paths[N_FILES][64];

/* --- files -------------------------------------------------------------------------------*/
static unsigned char made_up(uint64_t file, uint64_t at)
{
	return (unsigned char)(tauti_store_word(file, at / 8) >> at % 8 * 8);
}

static void write_file(const char *path, uint64_t file, uint64_t bytes)
{
	unsigned char *text = malloc(bytes + 1);
	FILE *out = fopen(path, "wb");

	assert_non_null(text);
	assert_non_null(out);
	for (uint64_t i = 0; i < bytes; i++)
		text[i] = made_up(file, i);
	assert_int_equal(fwrite(text, 1, bytes, out), bytes);
	assert_int_equal(fclose(out), 0);
	free(text);
}

static int make_files(void **state)
{
	struct tauti_draw draw = tauti_draw_begin(1, 2, 3);

	(void)state;
	assert_non_null(mkdtemp(folder));
	for (uint32_t i = 0; i < N_FILES; i++) {
		/* None, a byte, about a page, larger than a bounce; the rest anything. */
		static const uint64_t first[] = { 0, 1, 4095, 4096, 4097, LARGEST };

		sizes[i] = i < 6 ? first[i] : tauti_draw_below(&draw, 200000);
		snprintf(paths[i], sizeof paths[i], "%s/%u", folder, i);
		write_file(paths[i], i, sizes[i]);
	}
	return 0;
}

static int remove_files(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < N_FILES; i++)
		unlink(paths[i]);
	return rmdir(folder);
}

/* --- reads -------------------------------------------------------------------------------*/
struct all { /* reads that somebody waits for */
	pthread_mutex_t lock;
	pthread_cond_t news;
	uint32_t n_over;
	struct tauti_store *store;
	uint32_t n_more; /* to be begun from inside done() */
};

struct one {
	struct tauti_store_read read; /* first */
	struct all *all;
	taut_status status;
	uint32_t times;
};

static void init_all(struct all *all, struct tauti_store *store)
{
	memset(all, 0, sizeof *all);
	pthread_mutex_init(&all->lock, NULL);
	pthread_cond_init(&all->news, NULL);
	all->store = store;
}

static void over(struct tauti_store_read *read, taut_status status)
{
	struct one *one = (struct one *)read;
	struct all *all = one->all;

	pthread_mutex_lock(&all->lock);
	one->status = status;
	one->times++;
	all->n_over++;
	pthread_cond_signal(&all->news);
	pthread_mutex_unlock(&all->lock);
}

static void until_over(struct all *all, uint32_t n)
{
	pthread_mutex_lock(&all->lock);
	while (all->n_over < n)
		pthread_cond_wait(&all->news, &all->lock);
	pthread_mutex_unlock(&all->lock);
}

static void ask(struct one *one, struct all *all, uint32_t file, uint64_t offset,
	uint64_t bytes, bool whole)
{
	memset(one, 0, sizeof *one);
	one->all = all;
	one->read.path = paths[file];
	one->read.file = file;
	one->read.offset = offset;
	one->read.bytes = bytes;
	one->read.whole = whole;
	one->read.into = malloc(bytes + 1);
	one->read.done = over;
	assert_non_null(one->read.into);
	((unsigned char *)one->read.into)[bytes] = 0xa5;
}

static struct tauti_store_read *list(struct one *ones, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		ones[i].read.next = i + 1 < n ? &ones[i + 1].read : NULL;
	return &ones[0].read;
}

static void check_bytes(const struct one *one)
{
	const unsigned char *got = one->read.into;
	uint64_t wrong = 0;

	assert_int_equal(one->status, TAUT_OK);
	assert_int_equal(one->times, 1);
	for (uint64_t i = 0; i < one->read.bytes; i++)
		wrong += got[i] != made_up(one->read.file, one->read.offset + i);
	assert_int_equal(wrong, 0);
	assert_int_equal(got[one->read.bytes], 0xa5);
}

static void check_all(struct one *ones, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		check_bytes(&ones[i]);
		free(ones[i].read.into);
	}
}

static void open_or_fail(const char *name, const struct tauti_store_options *options,
	struct tauti_store *ret_store)
{
	struct taut_error err = { .offset = -1 };

	if (tauti_store_open(name, options, ret_store, &err) != TAUT_OK)
		fail_msg("%s: %s", name ? name : "best", err.message);
}

/* --- the contract ------------------------------------------------------------------------*/
static void whole_files(const char *name, const struct tauti_store_options *options)
{
	struct tauti_store store;
	struct one ones[N_FILES];
	struct all all;

	open_or_fail(name, options, &store);
	init_all(&all, &store);
	for (int turn = 0; turn < 5; turn++) {
		for (uint32_t i = 0; i < N_FILES; i++)
			ask(&ones[i], &all, i, 0, sizes[i], true);
		all.n_over = 0;
		tauti_store_begin(&store, list(ones, N_FILES));
		until_over(&all, N_FILES);
		check_all(ones, N_FILES);
	}
	tauti_store_close(&store);
}

static void pieces(const char *name, const struct tauti_store_options *options)
{
	enum { N = 300 };
	struct tauti_draw draw = tauti_draw_begin(4, 5, 6);
	struct tauti_store store;
	struct one ones[N];
	struct all all;

	open_or_fail(name, options, &store);
	init_all(&all, &store);
	for (uint32_t i = 0; i < N; i++) {
		uint32_t file = (uint32_t)tauti_draw_below(&draw, N_FILES);
		uint64_t at = tauti_draw_below(&draw, sizes[file] + 1);
		uint64_t most = sizes[file] - at;

		ask(&ones[i], &all, file, at,
			tauti_draw_below(&draw, most + 1), false);
	}
	tauti_store_begin(&store, list(ones, N));
	until_over(&all, N);
	tauti_store_close(&store);
	check_all(ones, N);
}

struct beginner {
	struct tauti_store *store;
	struct one *ones;
	uint32_t n;
};

static void *begin_each(void *context)
{
	struct beginner *b = context;

	for (uint32_t i = 0; i < b->n; i++)
		tauti_store_begin(b->store, list(&b->ones[i], 1));
	return NULL;
}

static void from_threads(const char *name, const struct tauti_store_options *options)
{
	enum { THREADS = 4, EACH = 200, N = THREADS * EACH };
	struct one *ones = calloc(N, sizeof *ones);
	struct beginner beginners[THREADS];
	pthread_t threads[THREADS];
	struct tauti_store store;
	struct all all;

	assert_non_null(ones);
	open_or_fail(name, options, &store);
	init_all(&all, &store);
	for (uint32_t i = 0; i < N; i++)
		ask(&ones[i], &all, 6 + i % 30, i % 7, sizes[6 + i % 30] / 2,
			i % 3 == 0);
	for (uint32_t i = 0; i < THREADS; i++) {
		beginners[i] = (struct beginner){ &store, ones + i * EACH, EACH };
		assert_int_equal(pthread_create(&threads[i], NULL, begin_each,
			&beginners[i]), 0);
	}
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	until_over(&all, N);
	tauti_store_close(&store);
	check_all(ones, N);
	free(ones);
}

/* Ends one, and begins it again, for as many times as are left; on one chain. */
static void begin_again(struct tauti_store_read *read, taut_status status)
{
	struct one *one = (struct one *)read;
	struct all *all = one->all;
	bool more;

	if (status == TAUT_OK)
		one->times++;
	pthread_mutex_lock(&all->lock);
	more = status == TAUT_OK && all->n_more && all->n_more--;
	if (!more) {
		all->n_over++;
		pthread_cond_signal(&all->news);
	}
	pthread_mutex_unlock(&all->lock);
	if (more) {
		read->next = NULL;
		tauti_store_begin(all->store, read);
	}
}

static void inside_done(const char *name, const struct tauti_store_options *options)
{
	enum { CHAINS = 3, MORE = 500 };
	struct one ones[CHAINS];
	struct tauti_store store;
	struct all all;
	uint32_t times = 0;

	open_or_fail(name, options, &store);
	init_all(&all, &store);
	all.n_more = MORE;
	for (uint32_t i = 0; i < CHAINS; i++) {
		ask(&ones[i], &all, 2 + i, 0, sizes[2 + i], i % 2);
		ones[i].read.done = begin_again;
	}
	tauti_store_begin(&store, list(ones, CHAINS));
	until_over(&all, CHAINS);
	tauti_store_close(&store);
	for (uint32_t i = 0; i < CHAINS; i++) {
		times += ones[i].times;
		free(ones[i].read.into);
	}
	assert_int_equal(times, CHAINS + MORE);
}

/* Each is done once, whatever the moment; and later ones are refused. */
static void stopped(const char *name, const struct tauti_store_options *options)
{
	enum { N = 200 };

	for (int turn = 0; turn < 20; turn++) {
		struct one *ones = calloc(N + 1, sizeof *ones);
		struct tauti_store store;
		struct all all;

		assert_non_null(ones);
		open_or_fail(name, options, &store);
		init_all(&all, &store);
		for (uint32_t i = 0; i <= N; i++)
			ask(&ones[i], &all, i % N_FILES, 0, sizes[i % N_FILES],
				i % 2);
		tauti_store_begin(&store, list(ones, N));
		if (turn)
			usleep((unsigned)turn * 50);
		tauti_store_stop(&store);
		tauti_store_begin(&store, list(&ones[N], 1));
		tauti_store_close(&store);
		assert_int_equal(all.n_over, N + 1);
		assert_int_equal(ones[N].status, TAUT_EAGAIN);
		for (uint32_t i = 0; i <= N; i++) {
			assert_int_equal(ones[i].times, 1);
			if (ones[i].status == TAUT_OK)
				check_bytes(&ones[i]);
			else
				assert_int_equal(ones[i].status, TAUT_EAGAIN);
			free(ones[i].read.into);
		}
		free(ones);
	}
}

static taut_status read_one(const char *name, struct one *one)
{
	struct tauti_store_options options = { 0 };
	struct tauti_store store;
	struct all all;
	struct tauti_store_read asked = one->read;

	open_or_fail(name, &options, &store);
	init_all(&all, &store);
	memset(one, 0, sizeof *one);
	one->read = asked;
	one->all = &all;
	tauti_store_begin(&store, list(one, 1));
	until_over(&all, 1);
	tauti_store_close(&store);
	assert_int_equal(one->times, 1);
	return one->status;
}

static void faults(const char *name)
{
	char room[100], line[256];

	for (int whole = 0; whole < 2; whole++) {
		struct one one = { .read = {
			.path = "/nowhere/at all", .file = 7, .bytes = 10,
			.whole = whole, .into = room, .done = over } };

		assert_int_equal(read_one(name, &one), TAUT_EIO);
		assert_int_equal(one.read.err.code, TAUT_EIO);
		assert_string_equal(one.read.err.message, "/nowhere/at all: cannot open "
			"for 10 bytes at 0: No such file or directory");
		one.read.path = folder;
		assert_int_equal(read_one(name, &one), TAUT_EIO);
		snprintf(line, sizeof line, "%s: cannot read 10 bytes at 0: Is a "
			"directory", folder);
		assert_string_equal(one.read.err.message, line);
		/* 4,096 bytes are there; of the 90 that are asked for, 46. */
		one.read.path = paths[3];
		one.read.offset = 4050;
		one.read.bytes = 90;
		assert_int_equal(read_one(name, &one), TAUT_EFORMAT);
		assert_int_equal(one.read.err.offset, 4096);
		snprintf(line, sizeof line, "%s: ends at byte 4096, where 90 bytes "
			"from 4050 on were expected", paths[3]);
		assert_string_equal(one.read.err.message, line);
		assert_int_equal((unsigned char)room[45], made_up(3, 4095));
	}
}

static void test_contract(void **state)
{
	static const struct tauti_store_options plain = { 0 },
		narrow = { .n_threads = 1, .depth = 1, .n_files = 2 };

	(void)state;
	for (size_t i = 0; tauti_stores[i]; i++) {
		const char *name = tauti_stores[i]->name;

		whole_files(name, &plain);
		whole_files(name, &narrow);
		pieces(name, &plain);
		pieces(name, &narrow);
		from_threads(name, &plain);
		from_threads(name, &narrow);
		inside_done(name, &plain);
		inside_done(name, &narrow);
		stopped(name, &plain);
		stopped(name, &narrow);
		if (strcmp(name, "null") != 0)
			faults(name);
	}
}

/* --- of one alone --------------------------------------------------------------------------*/
/* As a disk has it: nobody comes back before all have gone. */
static void over_together(struct tauti_store_read *read, taut_status status)
{
	struct one *one = (struct one *)read;
	struct all *all = one->all;
	struct timespec until;

	one->status = status;
	one->times++;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 20;
	pthread_mutex_lock(&all->lock);
	all->n_over++;
	pthread_cond_broadcast(&all->news);
	while (all->n_over < all->n_more)
		if (pthread_cond_timedwait(&all->news, &all->lock, &until))
			break;
	pthread_mutex_unlock(&all->lock);
}

/* Whoever begins reads wakes one thread, and that one the next: as many as there are. */
static void test_threads_wake_each_other(void **state)
{
	enum { N = 6 };
	const struct tauti_store_options options = { .n_threads = N };
	struct tauti_store store;
	struct one ones[N];
	struct all all;

	(void)state;
	for (int turn = 0; turn < 20; turn++) {
		open_or_fail("file", &options, &store);
		init_all(&all, &store);
		all.n_more = N;
		for (uint32_t i = 0; i < N; i++) {
			ask(&ones[i], &all, i, 0, sizes[i], true);
			ones[i].read.done = over_together;
		}
		tauti_store_begin(&store, list(ones, N));
		until_over(&all, N);
		tauti_store_close(&store);
		check_all(ones, N);
	}
}

static void test_direct(void **state)
{
	struct tauti_store_options options = { .direct = true, .cold = true };
	int fd = open(paths[3], O_RDONLY | O_DIRECT);

	(void)state;
	if (fd < 0)
		skip(); /* this file system has no such thing */
	close(fd);
	whole_files("file", &options);
	pieces("file", &options);
	options.direct = false;
	whole_files("file", &options);
	pieces("file", &options);
}

/* A bucket drains by the byte: exactly so long after so many, however they come. */
static void test_due(void **state)
{
	struct tauti_slow slow = { .rate_bytes_s = 3000000000, .latency_ns = 7000 };
	struct tauti_draw draw = tauti_draw_begin(7, 8, 9);
	uint64_t sum = 0;
	int64_t due_ns = 0;

	(void)state;
	for (int i = 0; i < 10000; i++) {
		uint64_t bytes = tauti_draw_below(&draw, 100);

		sum += bytes;
		due_ns = tauti_slow_due(&slow, 1000, bytes);
		assert_int_equal(due_ns, 1000 + (int64_t)(sum / 3) + 7000);
	}
	/* After a pause it begins anew: what was not used is gone. */
	assert_int_equal(tauti_slow_due(&slow, due_ns + 1000000, 3000000),
		due_ns + 1000000 + 1000000 + 7000);
	slow = (struct tauti_slow){ .latency_ns = 5 };
	assert_int_equal(tauti_slow_due(&slow, 100, UINT64_MAX), 105);
	assert_int_equal(tauti_slow_due(&slow, 50, UINT64_MAX), 105);
}

static void test_slow_time(void **state)
{
	struct tauti_store_options options = {
		.inner = "null",
		.rate_bytes_s = 20000000,
		.latency_ns = 3000000,
	};
	struct tauti_store store;
	struct one ones[10];
	struct all all;
	int64_t from_ns;

	(void)state;
	open_or_fail("slow", &options, &store);
	init_all(&all, &store);
	for (uint32_t i = 0; i < 10; i++)
		ask(&ones[i], &all, i, 0, 100000, true);
	from_ns = tauti_now_ns();
	tauti_store_begin(&store, list(ones, 10));
	until_over(&all, 1);
	assert_true(tauti_now_ns() - from_ns >= 5000000 + 3000000);
	until_over(&all, 10); /* 1 MB at 20 MB/s, and the latency once */
	assert_true(tauti_now_ns() - from_ns >= 50000000 + 3000000);
	tauti_store_close(&store);
	check_all(ones, 10);
}

/* A clock that stands still holds reads until it is moved and something happens. */
static int64_t by_hand(void *state)
{
	return __atomic_load_n((int64_t *)state, __ATOMIC_SEQ_CST);
}

static void test_slow_clock(void **state)
{
	int64_t now_ns = 1000;
	struct tauti_store_options options = {
		.inner = "null",
		.rate_bytes_s = 1000000000,
		.latency_ns = INT64_C(1000000000000),
		.clock = { by_hand, &now_ns },
	};
	struct tauti_store store;
	struct one ones[2];
	struct all all;

	(void)state;
	open_or_fail("slow", &options, &store);
	init_all(&all, &store);
	ask(&ones[0], &all, 8, 0, 1000, true);
	ask(&ones[1], &all, 9, 0, 1000, true);
	tauti_store_begin(&store, list(&ones[0], 1));
	__atomic_store_n(&now_ns, 1000 + 999 + options.latency_ns, __ATOMIC_SEQ_CST);
	tauti_store_begin(&store, list(&ones[1], 1));
	usleep(20000);
	assert_int_equal(ones[0].times, 0);
	__atomic_store_n(&now_ns, 1000 + 1000 + options.latency_ns, __ATOMIC_SEQ_CST);
	tauti_store_begin(&store, NULL); /* it looks at its clock */
	until_over(&all, 1);
	assert_int_equal(ones[0].times, 1);
	/* What was read is not lost by a stop. */
	tauti_store_close(&store);
	check_all(ones, 2);
}

static void test_descriptors_bound(void **state)
{
	struct rlimit before, narrow;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	narrow = before;
	narrow.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &narrow), 0);
	pieces("file", &(struct tauti_store_options){ 0 });
	whole_files("file", &(struct tauti_store_options){ 0 });
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void refused(const char *name, const struct tauti_store_options *options,
	const char *line)
{
	struct tauti_store store = { 0 };
	struct taut_error err = { .offset = -1 };

	assert_int_equal(tauti_store_open(name, options, &store, &err), TAUT_EINVAL);
	assert_string_equal(err.message, line);
	assert_null(store.table);
}

static void test_refused(void **state)
{
	(void)state;
	refused("flie", &(struct tauti_store_options){ 0 },
		"no store \"flie\": did you mean \"file\"?");
	refused("zzzzzzzz", &(struct tauti_store_options){ 0 },
		"no store \"zzzzzzzz\"");
	refused("file", &(struct tauti_store_options){ .n_threads = 65 },
		"65 threads for the store, at most 64");
	refused("slow", &(struct tauti_store_options){ .inner = "slow" },
		"a slow store is not below another one");
	refused("slow", &(struct tauti_store_options){ .latency_ns = -1 },
		"a latency of -1 ns, at least 0");
}

/* Asked for and not there, or not with such options: files, and it is said. */
static void test_instead(void **state)
{
	struct tauti_store_options options = { .cold = true };
	struct tauti_store store;

	(void)state;
	open_or_fail("uring", &options, &store);
	assert_string_equal(store.table->name, "file");
	assert_memory_equal(store.note, "no uring: ", 10);
	tauti_store_close(&store);
	open_or_fail(NULL, &options, &store);
	assert_string_equal(store.table->name, "file");
	assert_string_equal(store.note, "");
	tauti_store_close(&store);
}

static void test_memory(void **state)
{
	(void)state;
	for (size_t i = 0; tauti_stores[i]; i++) {
		struct tauti_store_options options = { .depth = 2 };
		struct tauti_store store;
		struct taut_error err;
		taut_status status = TAUT_ENOMEM;

		for (long n = 0; status != TAUT_OK; n++) {
			alloc_fail_after(n);
			status = tauti_store_open(
				tauti_stores[i]->name, &options, &store, &err);
			alloc_fail_never();
			if (status != TAUT_OK)
				assert_int_equal(status, TAUT_ENOMEM);
			assert_true(n < 100);
		}
		tauti_store_close(&store);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_contract),
		cmocka_unit_test(test_threads_wake_each_other),
		cmocka_unit_test(test_direct),
		cmocka_unit_test(test_due),
		cmocka_unit_test(test_slow_time),
		cmocka_unit_test(test_slow_clock),
		cmocka_unit_test(test_descriptors_bound),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_instead),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, make_files, remove_files);
}
