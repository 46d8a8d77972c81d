/* A pool in one process: what it is, seats, memory, and what is refused. */
#include "load/pool_by_hand.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "tests/support/alloc_fail.h"

static void test_alone(void **state)
{
	uint64_t name = fingerprint(1);
	int before = descriptors();
	struct tauti_pool *pool = open_pool(name);
	char room[64];

	(void)state;
	assert_non_null(pool);
	door_name(room, sizeof room, name);
	assert_string_equal(tauti_pool_name(pool), room);
	assert_true(tauti_pool_is_maker(pool));
	assert_false(tauti_pool_is_copy(pool));
	assert_int_equal(tauti_pool_bytes(pool), 64 << 20);
	assert_true(tauti_pool_reserved_bytes(pool) >= KIB);
	assert_int_equal((uintptr_t)tauti_pool_memory(pool) % 4096, 0);
	for (int i = 0; i < KIB; i++)
		assert_int_equal(((char *)tauti_pool_memory(pool))[i], 0);
	assert_false(is_free(name));
	assert_true(tauti_pool_seat_lives(
		pool, tauti_pool_seat(pool), tauti_pool_generation(pool)));
	assert_false(tauti_pool_seat_lives(
		pool, tauti_pool_seat(pool), tauti_pool_generation(pool) + 1));
	assert_false(tauti_pool_seat_lives(pool, 255, 0));
	assert_false(tauti_pool_seat_lives(pool, TAUTI_POOL_SEATS, 0));
	tauti_pool_close(pool);
	tauti_pool_close(NULL);
	assert_true(is_free(name));
	for (int i = 0; i < 1000; i++) {
		tauti_pool_close(open_pool(name));
		assert_true(is_free(name));
	}
	assert_int_equal(descriptors(), before);
}

static void test_twice_in_a_process(void **state)
{
	uint64_t name = fingerprint(2);
	struct tauti_pool *a = open_pool(name), *b = open_pool(name), *c;
	uint32_t seat = tauti_pool_seat(a), generation = tauti_pool_generation(a);

	(void)state;
	assert_true(tauti_pool_is_maker(a));
	assert_false(tauti_pool_is_maker(b));
	assert_int_equal(tauti_pool_inode(a), tauti_pool_inode(b));
	assert_int_not_equal(tauti_pool_seat(a), tauti_pool_seat(b));
	strcpy(tauti_pool_memory(a), "said once");
	assert_string_equal(tauti_pool_memory(b), "said once");
	/* The one leaves, and the other's seat is still its own. */
	tauti_pool_close(a);
	assert_false(tauti_pool_seat_lives(b, seat, generation));
	assert_true(tauti_pool_seat_lives(
		b, tauti_pool_seat(b), tauti_pool_generation(b)));
	assert_false(is_free(name));
	/* And the seat that is free has another generation. */
	c = open_pool(name);
	assert_int_equal(tauti_pool_inode(c), tauti_pool_inode(b));
	assert_string_equal(tauti_pool_memory(c), "said once");
	assert_int_equal(tauti_pool_seat(c), seat);
	assert_int_equal(tauti_pool_generation(c), generation + 1);
	assert_false(tauti_pool_seat_lives(b, seat, generation));
	tauti_pool_close(b);
	tauti_pool_close(c);
	assert_true(is_free(name));
}

static void test_options(void **state)
{
	struct tauti_pool_options options = options_of(fingerprint(3));
	struct tauti_pool *pool = open_pool(options.fingerprint);
	char room[64], line[200];

	(void)state;
	door_name(room, sizeof room, options.fingerprint);
	options.bytes++;
	snprintf(line, sizeof line,
		"pool %s: it has 67108864 bytes, expected 67108865", room);
	refused(&options, TAUT_EMATCH, line);
	tauti_pool_close(pool);
	options.keep_ns = 1;
	refused(&options, TAUT_EINVAL,
		"pool: keep_ns is 1, expected 0: a pool ends with its last participant");
	options.keep_ns = 0;
	options.first_bytes = options.bytes + 1;
	refused(&options, TAUT_EINVAL,
		"pool: 67108865 bytes, 67108866 of them at first: expected at most "
		"2^46, and no more at first than in all");
	options.first_bytes = 0;
	alloc_fail_after(0);
	refused(&options, TAUT_ENOMEM, "pool: no memory");
	alloc_fail_never();
}

/* A failing request anywhere leaves nothing. */
static void test_memory(void **state)
{
	struct tauti_pool_options options = options_of(fingerprint(4));
	struct tauti_pool *pool = NULL;
	int before = descriptors();
	taut_status status;

	(void)state;
	for (long n = 0; !pool && n < 50; n++) {
		alloc_fail_after(n);
		status = tauti_pool_open(&options, &pool, NULL);
		alloc_fail_never();
		assert_int_equal(status, pool ? TAUT_OK : TAUT_ENOMEM);
		if (!pool)
			assert_int_equal(descriptors(), before);
	}
	assert_non_null(pool);
	tauti_pool_close(pool);
	assert_int_equal(descriptors(), before);
}

static void test_seats(void **state)
{
	static struct tauti_pool *pools[TAUTI_POOL_SEATS];
	struct tauti_pool_options options = options_of(fingerprint(5));
	char room[64], line[200];

	(void)state;
	options.bytes = KIB;
	door_name(room, sizeof room, options.fingerprint);
	for (int i = 0; i < TAUTI_POOL_SEATS; i++)
		assert_int_equal(tauti_pool_open(&options, &pools[i], NULL), TAUT_OK);
	snprintf(line, sizeof line, "pool %s: all of its 256 seats are taken", room);
	refused(&options, TAUT_EAGAIN, line);
	for (uint32_t i = 0; i < TAUTI_POOL_SEATS; i++)
		assert_true(tauti_pool_seat_lives(
			pools[0], i, tauti_pool_generation(pools[i])));
	tauti_pool_close(pools[100]);
	assert_int_equal(tauti_pool_open(&options, &pools[100], NULL), TAUT_OK);
	assert_int_equal(tauti_pool_generation(pools[100]), 2);
	for (int i = 0; i < TAUTI_POOL_SEATS; i++)
		tauti_pool_close(pools[i]);
}

/* --- memory --------------------------------------------------------------------------*/

static void test_reserve(void **state)
{
	struct tauti_pool *pool = open_pool(fingerprint(6));
	struct tauti_pool *other = open_pool(fingerprint(6));
	char *memory = tauti_pool_memory(pool);

	(void)state;
	assert_true(tauti_pool_reserve(pool, 1));
	assert_int_equal(tauti_pool_reserved_bytes(pool), KIB);
	assert_true(tauti_pool_reserve(pool, 5 << 20));
	assert_in_range(tauti_pool_reserved_bytes(pool), 5 << 20, 63 << 20);
	memset(memory, 1, 5 << 20);
	assert_int_equal(
		tauti_pool_reserved_bytes(other), tauti_pool_reserved_bytes(pool));
	assert_true(tauti_pool_reserve(other, 64 << 20));
	assert_int_equal(tauti_pool_reserved_bytes(pool), 64 << 20);
	memory[(64 << 20) - 1] = 1;
	assert_int_equal(((char *)tauti_pool_memory(other))[(64 << 20) - 1], 1);
	assert_false(tauti_pool_reserve(pool, (64 << 20) + 1));
	tauti_pool_close(pool);
	tauti_pool_close(other);
}

static int reserve_with_limit(struct tauti_pool *pool)
{
	const struct rlimit limit = { 3 << 20, 3 << 20 };
	uint64_t name = fingerprint(7);

	(void)pool;
	pool = open_pool(name);
	if (!pool || setrlimit(RLIMIT_FSIZE, &limit) != 0)
		return 1;
	/* Not the step, but what is asked for. */
	if (!tauti_pool_reserve(pool, 2 << 20))
		return 2;
	memset(tauti_pool_memory(pool), 1, 2 << 20);
	if (tauti_pool_reserve(pool, 3 << 20))
		return 3;
	if (tauti_pool_reserved_bytes(pool) >= 3 << 20)
		return 4;
	if (!tauti_pool_reserve(pool, 2 << 20))
		return 5;
	tauti_pool_close(pool);
	return 0;
}

static void test_no_more_memory(void **state)
{
	(void)state;
	assert_int_equal(status_of(child(reserve_with_limit, NULL)), 0);
}

static int open_with_few_descriptors(struct tauti_pool *pool)
{
	struct tauti_pool_options options = options_of(fingerprint(8));
	struct rlimit limit = { (rlim_t)descriptors(), 4096 };
	taut_status status = TAUT_OK;

	/* One more each time: none of what fails on the way may hang. */
	for (int more = 0; more < 8 && limit.rlim_cur > 3; more++) {
		limit.rlim_cur = limit.rlim_cur + (more > 0);
		if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
			return 1;
		status = tauti_pool_open(&options, &pool, NULL);
		if (status == TAUT_OK)
			break;
		if (status != TAUT_EIO)
			return 2;
	}
	if (status != TAUT_OK)
		return 3;
	tauti_pool_close(pool);
	return 0;
}

static void test_few_descriptors(void **state)
{
	(void)state;
	assert_int_equal(status_of(child(open_with_few_descriptors, NULL)), 0);
}

/* As a program does that does not know of the pool: it opens the same file and closes it,
 * which would end a lock of the whole process. */
static void test_close_of_same_file(void **state)
{
	struct tauti_pool *pool = open_pool(fingerprint(10));
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *row;
	int n = 0;

	(void)state;
	while ((row = readdir(folder)) != NULL) {
		char path[300], target[300] = "";
		int fd;

		snprintf(path, sizeof path, "/proc/self/fd/%s", row->d_name);
		if (readlink(path, target, sizeof target - 1) < 0 ||
			!strstr(target, "memfd:taut-pool"))
			continue;
		fd = open(path, O_RDWR | O_CLOEXEC);
		assert_true(fd >= 0);
		close(fd);
		n++;
	}
	closedir(folder);
	assert_int_equal(n, 1);
	assert_true(tauti_pool_seat_lives(
		pool, tauti_pool_seat(pool), tauti_pool_generation(pool)));
	tauti_pool_close(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_twice_in_a_process),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_seats),
		cmocka_unit_test(test_reserve),
		cmocka_unit_test(test_no_more_memory),
		cmocka_unit_test(test_few_descriptors),
		cmocka_unit_test(test_close_of_same_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
