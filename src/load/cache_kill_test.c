/* Processes that fill one cache and look in it while one after the other is killed. At the
 * end what is there is right, the counts add up, and nothing is left. */
#include "tests/support/unit.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/now.h"
#include "load/cache.h"
#include "load/draw.h"
#include "load/pool_traces.h"

enum {
	ROUNDS = 50,
	MOST_WORKERS = 8,
	ITEMS = 4000,
	MOST_BYTES = 20000,
	CAPACITY = 30 << 20, /* the items have some 40 MB */
};

#define ROUND_NS INT64_C(200000000)
#define SECOND_NS INT64_C(1000000000)

/* What the workers tell, in memory that outlives them. */
struct board {
	_Atomic uint64_t hits, misses, coming; /* that a look has answered */
	_Atomic uint32_t stop, wrong, ready;
	char line[200];
};

static struct board *board;

static uint64_t bytes_of(uint32_t item)
{
	struct tauti_draw draw = tauti_draw_begin(1, 0, item);

	return 1 + tauti_draw_below(&draw, MOST_BYTES);
}

static unsigned char byte_of(uint32_t item, uint64_t i)
{
	return (unsigned char)((item * 2654435761u >> 13) + i * 7 + (i >> 8));
}

static bool is_right(uint32_t item, const unsigned char *at)
{
	uint64_t bytes = bytes_of(item);

	for (uint64_t i = 0; i < bytes; i++)
		if (at[i] != byte_of(item, i))
			return false;
	return true;
}

static void fetch(uint32_t item, unsigned char *at)
{
	uint64_t bytes = bytes_of(item);

	for (uint64_t i = 0; i < bytes; i++)
		at[i] = byte_of(item, i);
}

static void meet(struct tauti_cache *cache, struct tauti_draw *draw)
{
	uint32_t item = (uint32_t)tauti_draw_below(draw, ITEMS);
	void *at;

	switch (tauti_cache_look(cache, item, bytes_of(item), &at)) {
	case TAUTI_CACHE_HERE:
		board->hits++;
		board->wrong += !is_right(item, at);
		break;
	case TAUTI_CACHE_COMING:
		board->coming++;
		board->wrong += !tauti_cache_wait(cache, item, 60 * SECOND_NS);
		break;
	case TAUTI_CACHE_MINE:
		board->misses++;
		if (!at)
			break;
		fetch(item, at);
		if (tauti_draw_below(draw, 16) == 0)
			tauti_cache_drop(cache, item);
		else
			tauti_cache_fill(cache, item);
		break;
	}
}

static void work(const struct tauti_cache_options *options, uint64_t seed)
{
	struct tauti_draw draw = tauti_draw_begin(seed, 4, 0);
	struct tauti_cache *cache;
	struct taut_error err;

	if (tauti_cache_open(options, &cache, &err) != TAUT_OK) {
		memcpy(board->line, err.message, sizeof board->line - 1);
		board->wrong++;
		_exit(1);
	}
	board->ready++;
	while (!board->stop)
		meet(cache, &draw);
	tauti_cache_close(cache);
	_exit(0);
}

static pid_t start(const struct tauti_cache_options *options, uint64_t seed)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		work(options, seed);
	}
	return pid;
}

/* All of what is kept is right; what was left unfinished can be finished, in its room; and
 * then no room is wasted. */
static void check_end(struct tauti_cache *cache, uint32_t n_kills)
{
	struct tauti_cache_counts counts;
	uint64_t rooms = 0, least_never = UINT64_MAX, kept = 0;
	uint32_t n_kept = 0;
	void *at;

	tauti_cache_counts(cache, &counts);
	assert_in_range(counts.hits - board->hits, 0, n_kills);
	assert_in_range(counts.misses - board->misses, 0, n_kills);
	assert_in_range(counts.coming - board->coming, 0, n_kills);
	assert_in_range(counts.hits + counts.misses + counts.coming - board->hits -
			board->misses - board->coming, 0, n_kills);
	for (uint32_t item = 0; item < ITEMS; item++) {
		uint64_t bytes = bytes_of(item), room = (bytes + 63) / 64 * 64;
		enum tauti_cache_answer answer =
			tauti_cache_look(cache, item, bytes, &at);

		assert_int_not_equal(answer, TAUTI_CACHE_COMING);
		if (!at) {
			least_never = room < least_never ? room : least_never;
			continue;
		}
		if (answer == TAUTI_CACHE_MINE) {
			fetch(item, at);
			tauti_cache_fill(cache, item);
		}
		assert_true(is_right(item, at));
		rooms += room;
		kept += bytes;
		n_kept++;
	}
	tauti_cache_counts(cache, &counts);
	assert_int_equal(counts.used_bytes, rooms);
	assert_int_equal(counts.kept_items, n_kept);
	assert_int_equal(counts.kept_bytes, kept);
	assert_true(rooms <= CAPACITY);
	assert_true(least_never != UINT64_MAX && rooms + least_never > CAPACITY);
	/* And still right after the last was written. */
	for (uint32_t item = 0; item < ITEMS; item++)
		if (tauti_cache_look(cache, item, bytes_of(item), &at) ==
			TAUTI_CACHE_HERE)
			assert_true(is_right(item, at));
}

static bool is_free(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	bool bound;

	memcpy(address.sun_path + 1, name, strlen(name));
	bound = bind(fd, (struct sockaddr *)&address,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			strlen(name))) == 0;
	close(fd);
	return bound;
}

static void check_round(uint64_t seed)
{
	struct tauti_draw draw = tauti_draw_begin(seed, 5, 0);
	uint32_t n = 2 + (uint32_t)tauti_draw_below(&draw, MOST_WORKERS - 1);
	struct tauti_cache_options options = {
		.fingerprint = (uint64_t)getpid() << 32 | seed,
		.n_items = ITEMS,
		.bytes = CAPACITY,
		.patience_ns = 30 * SECOND_NS,
	};
	struct tauti_cache *cache;
	pid_t pids[MOST_WORKERS];
	uint32_t n_kills = 0;
	int64_t until_ns;
	char name[64];
	int status;

	memset(board, 0, sizeof *board);
	assert_int_equal(tauti_cache_open(&options, &cache, NULL), TAUT_OK);
	strcpy(name, tauti_pool_name(tauti_cache_pool(cache)));
	for (uint32_t i = 0; i < n; i++)
		pids[i] = start(&options, seed * 1000 + i);
	until_ns = tauti_now_ns() + ROUND_NS;
	/* On a host with much else to do it takes longer until something has happened. */
	while (tauti_now_ns() < until_ns || n_kills <= 5 || !board->ready ||
		!board->misses) {
		uint32_t i = (uint32_t)tauti_draw_below(&draw, n);

		usleep((useconds_t)tauti_draw_below(&draw, 15000));
		kill(pids[i], SIGKILL);
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		n_kills++;
		pids[i] = start(&options, seed * 1000 + n + n_kills);
	}
	board->stop = 1;
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	if (board->wrong)
		print_message("%s\n", board->line);
	assert_int_equal(board->wrong, 0);
	check_end(cache, n_kills);
	tauti_cache_close(cache);
	assert_true(is_free(name));
}

static void test_kills(void **state)
{
	int shared = traces("/dev/shm");

	(void)state;
	board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(board, MAP_FAILED);
	for (uint64_t seed = 0; seed < ROUNDS; seed++)
		check_round(seed);
	assert_int_equal(traces("/dev/shm"), shared);
	assert_int_equal(traces("/proc/self/fd"), 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	munmap(board, sizeof *board);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kills),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
