/* A pool in several processes: a fork, a kill, a crowd at the door, and strangers there. */
#include "load/pool_by_hand.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "base/now.h"

enum { CROWD = 16, STRANGER = 65534 };

static void *shared_page(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(page, MAP_FAILED);
	return page;
}

static void wait_for(_Atomic uint32_t *number, uint32_t at_least)
{
	int64_t until_ns = tauti_now_ns() + 60 * SECOND_NS;

	while (atomic_load(number) < at_least && tauti_now_ns() < until_ns)
		usleep(500);
}

/* --- several processes ---------------------------------------------------------------*/

static int use_as_copy(struct tauti_pool *pool)
{
	if (!tauti_pool_is_copy(pool) ||
		strcmp(tauti_pool_memory(pool), "of the parent") != 0)
		return 1;
	if (tauti_pool_reserve(pool, 64 << 20))
		return 2;
	if (!tauti_pool_seat_lives(
		    pool, tauti_pool_seat(pool), tauti_pool_generation(pool)))
		return 3;
	tauti_pool_close(pool);
	return 0;
}

static void test_copy(void **state)
{
	uint64_t name = fingerprint(9);
	struct tauti_pool *pool = open_pool(name), *other;
	pid_t pid;

	(void)state;
	strcpy(tauti_pool_memory(pool), "of the parent");
	assert_int_equal(status_of(child(use_as_copy, pool)), 0);
	/* Nothing is lost by it. */
	other = open_pool(name);
	assert_int_equal(tauti_pool_inode(other), tauti_pool_inode(pool));
	assert_true(tauti_pool_seat_lives(
		other, tauti_pool_seat(pool), tauti_pool_generation(pool)));
	tauti_pool_close(other);
	/* A child that lives on holds neither the seat nor the door. */
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	tauti_pool_close(pool);
	assert_true(is_free(name));
	kill(pid, SIGKILL);
	assert_int_equal(status_of(pid), 128 + SIGKILL);
}

struct seen {
	_Atomic uint32_t ready, go, seat, generation, makers;
	_Atomic uint64_t inode;
	_Atomic uint32_t others;
	_Atomic uint32_t here[4]; /* process of the participant of that number */
};

static pid_t participant(uint64_t name, struct seen *seen, uint32_t number)
{
	pid_t pid = fork();
	struct tauti_pool *pool;

	assert_true(pid >= 0);
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pool = open_pool(name);
	if (!pool)
		_exit(1);
	seen->here[number] = (uint32_t)getpid();
	seen->seat = tauti_pool_seat(pool);
	seen->generation = tauti_pool_generation(pool);
	seen->inode = tauti_pool_inode(pool);
	seen->ready++;
	wait_for(&seen->go, 1);
	tauti_pool_close(pool);
	_exit(0);
}

/* The maker is killed. It is known at once, and the pool lives on in the others. */
static void test_kill(void **state)
{
	uint64_t name = fingerprint(11);
	struct seen *seen = shared_page();
	struct tauti_pool *pool, *late;

	(void)state;
	for (uint32_t i = 0; i < 20; i++) {
		pid_t pid;

		memset(seen, 0, sizeof *seen);
		pid = participant(name, seen, 0);
		wait_for(&seen->ready, 1);
		pool = open_pool(name);
		assert_false(tauti_pool_is_maker(pool));
		assert_int_equal(tauti_pool_inode(pool), seen->inode);
		assert_true(tauti_pool_seat_lives(pool, seen->seat, seen->generation));
		kill(pid, SIGKILL);
		assert_int_equal(status_of(pid), 128 + SIGKILL);
		assert_false(tauti_pool_seat_lives(pool, seen->seat, seen->generation));
		late = open_pool(name);
		assert_int_equal(tauti_pool_inode(late), seen->inode);
		assert_int_equal(tauti_pool_seat(late), seen->seat);
		assert_int_equal(tauti_pool_generation(late), seen->generation + 1);
		tauti_pool_close(pool);
		tauti_pool_close(late);
		assert_true(is_free(name));
	}
	munmap(seen, 4096);
}

/* All killed: nothing stays. */
static void test_kill_all(void **state)
{
	uint64_t name = fingerprint(12);
	struct seen *seen = shared_page();
	pid_t pids[3];

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		pids[i] = participant(name, seen, i);
	wait_for(&seen->ready, 3);
	assert_false(is_free(name));
	for (int i = 0; i < 3; i++)
		kill(pids[i], SIGKILL);
	for (int i = 0; i < 3; i++)
		assert_int_equal(status_of(pids[i]), 128 + SIGKILL);
	assert_true(is_free(name));
	munmap(seen, 4096);
}

static pid_t racer(uint64_t name, struct seen *seen)
{
	pid_t pid = fork();
	struct tauti_pool *pool;
	uint64_t inode = 0;

	assert_true(pid >= 0);
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	seen->ready++;
	while (!seen->go)
		;
	pool = open_pool(name);
	if (!pool)
		_exit(1);
	seen->makers += tauti_pool_is_maker(pool);
	if (!atomic_compare_exchange_strong(
		    &seen->inode, &inode, tauti_pool_inode(pool)) &&
		inode != tauti_pool_inode(pool))
		seen->others++;
	seen->seat++;
	wait_for(&seen->seat, CROWD);
	tauti_pool_close(pool);
	_exit(0);
}

static void test_race(void **state)
{
	struct seen *seen = shared_page();

	(void)state;
	for (uint64_t round = 0; round < 20; round++) {
		uint64_t name = fingerprint(100 + round);
		pid_t pids[CROWD];

		memset(seen, 0, sizeof *seen);
		for (int i = 0; i < CROWD; i++)
			pids[i] = racer(name, seen);
		wait_for(&seen->ready, CROWD);
		seen->go = 1;
		for (int i = 0; i < CROWD; i++)
			assert_int_equal(status_of(pids[i]), 0);
		assert_int_equal(seen->makers, 1);
		assert_int_equal(seen->others, 0);
		assert_int_equal(seen->seat, CROWD);
		assert_true(is_free(name));
	}
	munmap(seen, 4096);
}

static void wait_for_all(struct seen *seen, const pid_t *pids)
{
	int64_t until_ns = tauti_now_ns() + 60 * SECOND_NS;

	for (int i = 0; i < 4; i++)
		while (seen->here[i] != (uint32_t)pids[i] && tauti_now_ns() < until_ns)
			usleep(500);
}

/* Participants that are killed, some while they come, one at least always there: the pool
 * stays the same. */
static void test_come_and_go(void **state)
{
	uint64_t name = fingerprint(13), x = 1, inode;
	struct seen *seen = shared_page();
	pid_t pids[4];

	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		pids[i] = participant(name, seen, i);
	wait_for_all(seen, pids);
	inode = seen->inode;
	for (uint32_t round = 0; round < 150; round++) {
		uint32_t i;

		x = x * 6364136223846793005u + 1442695040888963407u;
		i = (uint32_t)(x >> 62);
		usleep((useconds_t)(x >> 50 & 0x7ff));
		kill(pids[i], SIGKILL);
		assert_int_equal(status_of(pids[i]), 128 + SIGKILL);
		pids[i] = participant(name, seen, i);
		/* Three of four may be on their way. */
		if (round % 3 == 2)
			wait_for_all(seen, pids);
		assert_int_equal(seen->inode, inode);
	}
	for (int i = 0; i < 4; i++)
		kill(pids[i], SIGKILL);
	for (int i = 0; i < 4; i++)
		assert_int_equal(status_of(pids[i]), 128 + SIGKILL);
	assert_true(is_free(name));
	munmap(seen, 4096);
}

/* --- strangers -----------------------------------------------------------------------*/

static void test_no_answer(void **state)
{
	struct tauti_pool_options options = options_of(fingerprint(14));
	char room[64], line[200];
	int64_t began_ns;
	int fd;

	(void)state;
	door_name(room, sizeof room, options.fingerprint);
	fd = squat(room);
	options.patience_ns = SECOND_NS / 5;
	began_ns = tauti_now_ns();
	snprintf(line, sizeof line,
		"pool %s: no answer within 200 ms from who holds its door", room);
	refused(&options, TAUT_EAGAIN, line);
	assert_in_range(tauti_now_ns() - began_ns, SECOND_NS / 5, 30 * SECOND_NS);
	close(fd);
}

static pid_t answer_with(int listener, const char *text)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		int guest = accept(listener, NULL, NULL);

		if (guest >= 0 && text)
			(void)!write(guest, text, strlen(text));
		close(guest);
	}
}

/* Whoever hangs up is tried again; whoever says something else is no pool. */
static void test_garbage_behind_door(void **state)
{
	static const char *const texts[] = { NULL, "hm?",
		"TAUTDOOR a line of more than the bytes which a hello has" };
	struct tauti_pool_options options = options_of(fingerprint(15));
	char room[64], line[200];

	(void)state;
	door_name(room, sizeof room, options.fingerprint);
	options.patience_ns = SECOND_NS / 5;
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		int fd = squat(room);
		pid_t pid = answer_with(fd, texts[i]);

		snprintf(line, sizeof line, texts[i] ?
			"pool %s: what has taken its name is no pool of version 1" :
			"pool %s: no answer within 200 ms from who holds its door",
			room);
		refused(&options, texts[i] ? TAUT_EMATCH : TAUT_EAGAIN, line);
		kill(pid, SIGKILL);
		status_of(pid);
		close(fd);
	}
}

static int knock(const char *name, int *ret_fd)
{
	socklen_t len;
	struct sockaddr_un address = address_of(name, &len);

	*ret_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	return connect(*ret_fd, (struct sockaddr *)&address, len);
}

/* Connections that say nothing, talk, or hang up; none keeps others out. */
static void test_garbage_at_door(void **state)
{
	uint64_t name = fingerprint(16);
	struct tauti_pool *pool = open_pool(name), *other;
	int fds[200];

	(void)state;
	for (int i = 0; i < 200; i++) {
		assert_int_equal(knock(tauti_pool_name(pool), &fds[i]), 0);
		if (i % 3 == 0)
			(void)!send(fds[i], "let me in", 9, MSG_NOSIGNAL);
		if (i % 3 == 1)
			close(fds[i]);
	}
	other = open_pool(name);
	assert_non_null(other);
	assert_int_equal(tauti_pool_inode(other), tauti_pool_inode(pool));
	for (int i = 0; i < 200; i++)
		if (i % 3 != 1)
			close(fds[i]);
	tauti_pool_close(other);
	tauti_pool_close(pool);
	assert_true(is_free(name));
}

static int come_as_stranger(struct tauti_pool *pool)
{
	char byte[64];
	int fd;

	if (setuid(STRANGER) != 0)
		return 1;
	if (knock(tauti_pool_name(pool), &fd) != 0)
		return 2;
	/* Hung up without a word. */
	return read(fd, byte, sizeof byte) == 0 ? 0 : 3;
}

/* The name of the user who runs the test, held by another. */
static int sit_as_stranger(struct tauti_pool *pool)
{
	char room[64];

	door_name(room, sizeof room, (uint64_t)(uintptr_t)pool);
	if (setuid(STRANGER) != 0 || squat(room) < 0)
		return 1;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* setuid() has undone it */
	pause();
	return 0;
}

static void test_other_users(void **state)
{
	uint64_t name = fingerprint(17);
	struct tauti_pool_options options = options_of(name);
	struct tauti_pool *pool;
	char room[64], line[200];
	pid_t pid;

	(void)state;
	if (geteuid() != 0) {
		print_message("only root can become somebody else\n");
		skip();
	}
	pool = open_pool(name);
	assert_int_equal(status_of(child(come_as_stranger, pool)), 0);
	tauti_pool_close(pool);
	pid = child(sit_as_stranger, (struct tauti_pool *)(uintptr_t)name);
	while (is_free(name))
		usleep(1000);
	door_name(room, sizeof room, name);
	snprintf(line, sizeof line,
		"pool %s: user 65534 has taken its name, expected user 0", room);
	refused(&options, TAUT_EIO, line);
	kill(pid, SIGKILL);
	status_of(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copy),
		cmocka_unit_test(test_kill),
		cmocka_unit_test(test_kill_all),
		cmocka_unit_test(test_race),
		cmocka_unit_test(test_come_and_go),
		cmocka_unit_test(test_no_answer),
		cmocka_unit_test(test_garbage_behind_door),
		cmocka_unit_test(test_garbage_at_door),
		cmocka_unit_test(test_other_users),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
