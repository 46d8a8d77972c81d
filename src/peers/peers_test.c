/* Ranks that are told to be on different hosts, each on a thread of this process: what comes,
 * how often storage is read, who is let in, what is refused. */
#include "peers/peers_world.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "coll/meet.h"
#include "peers/peers.h"
#include "tests/support/alloc_fail.h"
#include "tests/support/link_local.h"
#include "tests/support/ranks.h"

enum { RANKS = 4, EPOCHS = 4, ITEMS = 96 };

struct rank {
	struct world *world;
	pthread_t thread;
	pthread_barrier_t *barrier; /* NULL: nobody waits for others */
	struct taut_peers_options peers_options;
	struct taut_load_options with; /* what stands here is taken, but for remote */
	uint32_t n_epochs, stop_after; /* batches; 0: none */
	bool takes_all; /* is a job of one rank, and after an epoch waits for the other
	                   to be gone */
	taut_status status;
	struct taut_error err;
	uint32_t wrong;
	uint32_t seen[EPOCHS][ITEMS];
	struct taut_load_counts counts[EPOCHS]; /* at the end of each */
	struct taut_peers_counts peers;
};

static void wait_for_all(struct rank *r)
{
	if (r->barrier)
		pthread_barrier_wait(r->barrier);
}

static void wait_for_leaving(struct taut_peers *peers)
{
	struct taut_peers_counts counts = { .left = 0 };

	while (!counts.left && !counts.lost) {
		usleep(1000);
		taut_peers_counts(peers, &counts);
	}
}

static bool take_epoch(struct rank *r, struct taut_load *load, uint32_t epoch)
{
	struct taut_batch *batch = NULL;

	for (uint32_t n = 0; !r->stop_after || n < r->stop_after; n++) {
		r->status = taut_load_next(load, -1, &batch, &r->err);
		if (r->status != TAUT_OK || !batch)
			return r->status == TAUT_OK;
		r->wrong += wrong_bytes(batch);
		for (uint32_t i = 0; i < batch->count; i++)
			r->seen[epoch][batch->items[i]]++;
		taut_batch_release(batch);
	}
	return false;
}

static void use(struct rank *r, struct taut_peers *peers)
{
	struct taut_load_options options = load_options(
		r->world, &r->peers_options, taut_peers_remote(peers));
	struct taut_load *load = NULL;

	if (r->with.store)
		options.store = r->with.store;
	options.slow_ns = r->with.slow_ns;
	if (r->takes_all)
		options.n_ranks = 1;
	r->status = taut_load_create(r->world->set, &options, &load, &r->err);
	for (uint32_t e = 0; e < r->n_epochs && r->status == TAUT_OK; e++) {
		if (!take_epoch(r, load, e))
			break;
		wait_for_all(r);
		if (r->takes_all && e == 0)
			wait_for_leaving(peers);
		taut_load_counts(load, &r->counts[e]);
	}
	wait_for_all(r); /* what one got, the other has counted */
	taut_peers_counts(peers, &r->peers);
	taut_load_destroy(load);
}

static void *run(void *context)
{
	struct rank *r = context;
	struct taut_peers *peers = NULL;

	r->status = taut_peers_create(r->world->set, &r->peers_options, &peers, &r->err);
	if (r->status == TAUT_OK)
		use(r, peers);
	taut_peers_destroy(peers);
	return NULL;
}

/* hosts: "aab": a rank for each letter. */
static void init_ranks(struct rank *ranks, struct world *w, const char *hosts,
	uint32_t n_items, pthread_barrier_t *barrier)
{
	static const char *const names[] = { "a", "b", "c", "d" };
	uint32_t n = (uint32_t)strlen(hosts);

	memset(ranks, 0, n * sizeof *ranks);
	for (uint32_t i = 0; i < n; i++) {
		ranks[i].world = w;
		ranks[i].n_epochs = EPOCHS;
		ranks[i].barrier = barrier;
		ranks[i].peers_options = peers_options(
			w, i, n, names[hosts[i] - 'a'], n_items);
	}
	if (barrier)
		pthread_barrier_init(barrier, NULL, n);
}

static void play(struct rank *ranks, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(pthread_create(
			&ranks[i].thread, NULL, run, &ranks[i]), 0);
	for (uint32_t i = 0; i < n; i++)
		pthread_join(ranks[i].thread, NULL);
}

static void check_all_ok(const struct rank *ranks, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (ranks[i].status != TAUT_OK)
			fail_msg("rank %u: %s", i, ranks[i].err.message);
		assert_int_equal(ranks[i].wrong, 0);
	}
}

/* Each item once in each epoch, over all ranks. */
static void check_once(const struct rank *ranks, uint32_t n)
{
	check_all_ok(ranks, n);
	for (uint32_t e = 0; e < EPOCHS; e++)
		for (uint32_t item = 0; item < ranks[0].world->n_items; item++) {
			uint32_t seen = 0;

			for (uint32_t i = 0; i < n; i++)
				seen += ranks[i].seen[e][item];
			assert_int_equal(seen, 1);
		}
}

static uint64_t reads_until(const struct rank *ranks, uint32_t n, uint32_t epoch)
{
	uint64_t reads = 0;

	for (uint32_t i = 0; i < n; i++)
		reads += ranks[i].counts[epoch].reads;
	return reads;
}

/* --- what is read --------------------------------------------------------------------*/

/* Two hosts with half the set each: each item is read once by both together, and after the
 * first epoch nothing is read at all. */
static void halves(void **state)
{
	pthread_barrier_t barrier;
	struct rank r[2];
	struct world w;

	(void)state;
	world_init(&w, ITEMS);
	init_ranks(r, &w, "ab", ITEMS / 2, &barrier);
	play(r, 2);
	check_once(r, 2);
	assert_int_equal(reads_until(r, 2, 0), ITEMS);
	assert_int_equal(reads_until(r, 2, EPOCHS - 1), ITEMS);
	for (int i = 0; i < 2; i++) {
		const struct taut_load_counts *last = &r[i].counts[EPOCHS - 1];

		assert_int_equal(r[i].peers.share_items, ITEMS / 2);
		assert_int_equal(r[i].peers.n_hosts, 2);
		assert_int_equal(r[i].peers.lost, 0);
		assert_int_equal(r[i].peers.refused, 0);
		/* It goes on with the next epoch meanwhile. */
		assert_in_range(last->remote_hits, EPOCHS * ITEMS / 8, r[i].peers.came);
		assert_int_equal(last->remote_bytes, last->remote_hits * ITEM_BYTES);
		assert_true(r[1 - i].peers.served >= last->remote_hits);
	}
	world_fini(&w);
}

/* Several ranks of a host share its cache, and read nothing twice. */
static void ranks_of_a_host(void **state)
{
	pthread_barrier_t barrier;
	struct rank r[RANKS];
	struct world w;

	(void)state;
	world_init(&w, ITEMS);
	init_ranks(r, &w, "abab", ITEMS / 2, &barrier);
	play(r, RANKS);
	check_once(r, RANKS);
	assert_int_equal(reads_until(r, RANKS, 0), ITEMS);
	assert_int_equal(reads_until(r, RANKS, EPOCHS - 1), ITEMS);
	world_fini(&w);
}

/* Without room for all: an owner says so, and each reads for himself. */
static void too_small(void **state)
{
	pthread_barrier_t barrier;
	struct rank r[2];
	struct world w;

	(void)state;
	world_init(&w, ITEMS);
	init_ranks(r, &w, "ab", ITEMS / 4, &barrier);
	play(r, 2);
	check_once(r, 2);
	/* What has no room is read in each epoch, and at its end for the next one. */
	assert_in_range(reads_until(r, 2, EPOCHS - 1),
		EPOCHS * ITEMS - (EPOCHS - 1) * (ITEMS / 2), EPOCHS * ITEMS);
	assert_true(r[0].peers.refused > 0);
	world_fini(&w);
}

/* An owner whose storage takes longer than others wait: they read it themselves. */
static void late_answers(void **state)
{
	pthread_barrier_t barrier;
	struct rank r[2];
	struct world w;

	(void)state;
	world_init(&w, 24);
	init_ranks(r, &w, "ab", 24, &barrier);
	for (int i = 0; i < 2; i++) {
		r[i].with.store = "slow";
		r[i].with.slow_ns = 100000000;
		r[i].peers_options.answer_within_ns = 10000000;
	}
	play(r, 2);
	check_once(r, 2);
	assert_true(r[0].peers.late + r[1].peers.late > 0);
	assert_int_equal(r[0].peers.lost + r[1].peers.lost, 0);
	world_fini(&w);
}

/* One leaves in the middle of the first epoch; the other goes on, misses nothing, and keeps
 * what was the first one's where it has room: once it has seen all of that, it reads nothing
 * more. */
static void one_leaves(void **state)
{
	struct rank r[2];
	struct world w;

	(void)state;
	world_init(&w, ITEMS);
	init_ranks(r, &w, "ab", ITEMS, NULL);
	r[0].takes_all = true;
	r[1].stop_after = 3;
	play(r, 2);
	check_all_ok(r, 2);
	for (uint32_t e = 0; e < EPOCHS; e++)
		for (uint32_t i = 0; i < ITEMS; i++)
			assert_int_equal(r[0].seen[e][i], 1);
	assert_int_equal(r[0].peers.left + r[0].peers.lost, 1);
	assert_int_equal(r[0].counts[EPOCHS - 1].reads, r[0].counts[EPOCHS - 2].reads);
	assert_true(r[0].counts[EPOCHS - 1].reads > ITEMS / 2);
	world_fini(&w);
}

/* They meet at an address that means something on their link alone. */
static void by_a_link(void **state)
{
	char host[64], meet[96];
	struct sockaddr_in6 at;
	pthread_barrier_t barrier;
	struct rank r[2];
	struct world w;

	(void)state;
	if (!link_local(&at, host, sizeof host))
		skip();
	world_init(&w, 16);
	init_ranks(r, &w, "ab", 8, &barrier);
	snprintf(meet, sizeof meet, "%s%s", host, strrchr(w.meet, ':'));
	r[0].peers_options.meet = r[1].peers_options.meet = meet;
	play(r, 2);
	check_once(r, 2);
	world_fini(&w);
}

/* --- who is let in -------------------------------------------------------------------*/

static void expect(const struct rank *r, taut_status status, const char *words)
{
	if (r->status != status || !strstr(r->err.message, words))
		fail_msg("%s: '%s', not '%s'", taut_status_name(r->status),
			r->err.message, words);
}

static void strangers(void **state)
{
	struct rank r[2];
	struct world w;

	(void)state;
	world_init(&w, 8);
	init_ranks(r, &w, "ab", 8, NULL);
	r[1].peers_options.secret = "between others";
	r[0].peers_options.meet_within_ns = 2000000000;
	play(r, 2);
	expect(&r[1], TAUT_EIO, "secret");
	expect(&r[0], TAUT_EIO, "");
	world_fini(&w);
}

static void *talk_nonsense(void *context)
{
	const struct world *w = context;
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons((uint16_t)atoi(strchr(w->meet, ':') + 1)) };
	static const char text[] = "GET / HTTP/1.1\r\n\r\n\0\1\2\3\4\5\6\7";

	for (int i = 0; i < 50; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0) {
			ssize_t n = send(fd, text, sizeof text, MSG_NOSIGNAL);

			(void)n;
		}
		usleep(2000);
		close(fd);
	}
	return NULL;
}

static void garbage(void **state)
{
	pthread_barrier_t barrier;
	pthread_t noise;
	struct rank r[2];
	struct world w;

	(void)state;
	world_init(&w, 16);
	init_ranks(r, &w, "ab", 8, &barrier);
	assert_int_equal(pthread_create(&noise, NULL, talk_nonsense, &w), 0);
	play(r, 2);
	pthread_join(noise, NULL);
	check_once(r, 2);
	world_fini(&w);
}

static void other_sets_and_caches(void **state)
{
	struct world w, other;
	struct rank r[2];

	(void)state;
	world_init(&w, 8);
	world_init(&other, 9);
	init_ranks(r, &w, "ab", 8, NULL);
	r[1].world = &other;
	play(r, 2);
	expect(&r[0], TAUT_EMATCH, "rank 1 has another set");
	expect(&r[1], TAUT_EMATCH, "rank 1 has another set");
	init_ranks(r, &w, "aa", 8, NULL);
	r[1].peers_options.cache_bytes++;
	play(r, 2);
	expect(&r[0], TAUT_EMATCH, "another cache_bytes than rank 0 of its host");
	init_ranks(r, &w, "ab", 8, NULL);
	r[1].peers_options.secret = NULL;
	r[0].peers_options.secret = "";
	unsetenv("TAUT_SECRET");
	play(r, 2);
	expect(&r[0], TAUT_EINVAL, "secret");
	expect(&r[1], TAUT_EINVAL, "secret");
	world_fini(&other);
	world_fini(&w);
}

static void options(void **state)
{
	struct taut_peers_options o;
	struct taut_peers *peers = NULL;
	struct taut_error err;
	struct world w;

	(void)state;
	world_init(&w, 8);
	o = peers_options(&w, 0, 1, "a", 0);
	assert_int_equal(taut_peers_create(w.set, &o, &peers, &err), TAUT_EINVAL);
	o = peers_options(&w, 2, 2, "a", 8);
	assert_int_equal(taut_peers_create(w.set, &o, &peers, &err), TAUT_EINVAL);
	o = peers_options(&w, 0, 1, "a", 8);
	o.n_asks = 5000;
	assert_int_equal(taut_peers_create(w.set, &o, &peers, &err), TAUT_EINVAL);
	o = peers_options(&w, 0, 2, "a", 8);
	o.meet = "nowhere";
	assert_int_equal(taut_peers_create(w.set, &o, &peers, &err), TAUT_EINVAL);
	assert_null(peers);
	world_fini(&w);
}

/* --- a rank 0 that is the test's ------------------------------------------------------*/

struct hello { /* as of join.c */
	uint64_t version, host, fingerprint, n_items, cache_bytes, n_asks;
	char where[296];
};

struct by_hand {
	struct taut_peers_options as; /* of rank 0 */
	int listener;
	struct hello mine, all[2];
	taut_status status;
};

static int listen_by_hand(struct hello *hello)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof at;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&at, bytes), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
	assert_int_equal(listen(fd, 4), 0);
	snprintf(hello->where, sizeof hello->where, "127.0.0.1:%u", ntohs(at.sin_port));
	return fd;
}

/* -1: nobody came. */
static int next_caller(const struct by_hand *it)
{
	struct pollfd fd = { .fd = it->listener, .events = POLLIN };

	return poll(&fd, 1, 5000) == 1 ?
		accept4(it->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
}

static taut_status welcome(struct tauti_guest *guest, const char *secret)
{
	struct tauti_frame frame;
	taut_status status;

	do {
		status = tauti_link_await(
			&guest->link, tauti_now_ns() + INT64_C(5000000000), &frame);
		if (status == TAUT_OK)
			status = tauti_guest_take(guest, &frame, secret);
		else
			return TAUT_EIO;
	} while (status == TAUT_EAGAIN);
	if (status != TAUT_OK ||
		!tauti_guest_welcome(guest, secret, TAUTI_WELCOME_IN, 2))
		return TAUT_EIO;
	return tauti_link_write(&guest->link);
}

/* Who comes first is sent away, as by a host that has too much to do. */
static void *open_the_second_time(void *context)
{
	struct by_hand *it = context;
	const struct tauti_meet_options options = { .n_ranks = 2,
		.address = it->as.meet, .secret = it->as.secret,
		.within_ns = it->as.meet_within_ns };
	struct tauti_guest guest = { .link.fd = -1 };
	struct tauti_meet *meet = NULL;
	uint8_t word = 1, words[2];

	it->status = tauti_meet_create(&options, &meet, NULL);
	if (it->status == TAUT_OK)
		it->status = tauti_meet_gather(
			meet, &it->mine, sizeof it->mine, it->all, NULL);
	if (it->status == TAUT_OK) {
		close(next_caller(it));
		tauti_guest_open(&guest, next_caller(it), tauti_now_ns());
		it->status = welcome(&guest, it->as.secret);
	}
	if (it->status == TAUT_OK)
		it->status = tauti_meet_gather(meet, &word, sizeof word, words, NULL);
	tauti_link_close(&guest.link);
	tauti_meet_destroy(meet);
	return NULL;
}

/* A rank that cannot come in at once tries again. */
static void comes_again(void **state)
{
	struct by_hand host = { .status = TAUT_EIO };
	struct taut_peers_options o;
	struct taut_peers *peers = NULL;
	struct taut_error err = { .message = "" };
	pthread_t thread;
	taut_status status;
	struct world w;

	(void)state;
	world_init(&w, 8);
	o = peers_options(&w, 1, 2, "b", 8);
	host.as = peers_options(&w, 0, 2, "a", 8);
	host.mine = (struct hello){ TAUTI_PEERS_VERSION, 1, taut_set_fingerprint(w.set),
		w.n_items, o.cache_bytes, 1, "" };
	host.listener = listen_by_hand(&host.mine);
	assert_int_equal(pthread_create(
		&thread, NULL, open_the_second_time, &host), 0);
	status = taut_peers_create(w.set, &o, &peers, &err);
	pthread_join(thread, NULL);
	if (status != TAUT_OK)
		fail_msg("%s", err.message);
	assert_int_equal(host.status, TAUT_OK);
	taut_peers_destroy(peers);
	close(host.listener);
	world_fini(&w);
}

/* --- loaders -------------------------------------------------------------------------*/

static void one_loader_at_a_time(void **state)
{
	struct taut_peers *peers = NULL;
	struct taut_peers_options o;
	struct taut_load_options with;
	struct taut_load *load = NULL, *second = NULL;
	struct taut_error err;
	struct world w;

	(void)state;
	world_init(&w, 8);
	o = peers_options(&w, 0, 1, "a", 8);
	assert_int_equal(taut_peers_create(w.set, &o, &peers, &err), TAUT_OK);
	with = load_options(&w, &o, taut_peers_remote(peers));
	assert_int_equal(taut_load_create(w.set, &with, &load, &err), TAUT_OK);
	assert_int_equal(taut_load_create(w.set, &with, &second, &err), TAUT_EINVAL);
	assert_non_null(strstr(err.message, "another loader's"));
	taut_load_destroy(load);
	with.cache_bytes++;
	assert_int_equal(taut_load_create(w.set, &with, &second, &err), TAUT_EMATCH);
	with.cache_bytes--;
	with.n_remote = 257;
	assert_int_equal(taut_load_create(w.set, &with, &second, &err), TAUT_EINVAL);
	with.n_remote = 0;
	assert_int_equal(taut_load_create(w.set, &with, &second, &err), TAUT_OK);
	taut_load_destroy(second);
	taut_peers_destroy(peers);
	world_fini(&w);
}

/* A child's copy of the peers has no thread: a loader with them would wait for ever. */
static void child(void **state)
{
	struct taut_peers *peers = NULL;
	struct taut_peers_options o;
	struct taut_load_options with;
	struct taut_load *load = NULL;
	struct taut_error err;
	struct world w;
	int status;
	pid_t pid;

	(void)state;
#ifdef RANKS_TSAN
	skip(); /* which ends a child that makes a thread */
#endif
	world_init(&w, 8);
	o = peers_options(&w, 0, 1, "a", 8);
	assert_int_equal(taut_peers_create(w.set, &o, &peers, &err), TAUT_OK);
	with = load_options(&w, &o, taut_peers_remote(peers));
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(5);
		status = taut_load_create(w.set, &with, &load, &err) == TAUT_EIO &&
			strstr(err.message, "fork()") && !load;
		taut_peers_destroy(peers);
		_exit(status ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_int_equal(taut_load_create(w.set, &with, &load, &err), TAUT_OK);
	taut_load_destroy(load);
	taut_peers_destroy(peers);
	world_fini(&w);
}

/* --- memory --------------------------------------------------------------------------*/

/* What needs others is without them: each request fails once, all is given back. */
static void no_memory(void **state)
{
	struct taut_load_options with;
	struct taut_load *load = NULL;
	struct taut_peers_options o;
	struct taut_peers *peers = NULL;
	taut_status status = TAUT_ENOMEM;
	struct taut_error err;
	struct world w;
	long n = 0;

	(void)state;
	world_init(&w, 8);
	o = peers_options(&w, 0, 1, "a", 8);
	for (; status != TAUT_OK; n++) {
		alloc_fail_after(n);
		status = taut_peers_create(w.set, &o, &peers, &err);
		alloc_fail_never();
		if (status != TAUT_OK)
			assert_int_equal(status, TAUT_ENOMEM);
	}
	assert_true(n > 15);
	with = load_options(&w, &o, taut_peers_remote(peers));
	status = TAUT_ENOMEM;
	for (n = 0; status != TAUT_OK; n++) {
		alloc_fail_after(n);
		status = taut_load_create(w.set, &with, &load, &err);
		alloc_fail_never();
		if (status != TAUT_OK)
			assert_int_equal(status, TAUT_ENOMEM);
	}
	assert_true(n > 15);
	taut_load_destroy(load);
	taut_peers_destroy(peers);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(halves),
		cmocka_unit_test(ranks_of_a_host),
		cmocka_unit_test(too_small),
		cmocka_unit_test(late_answers),
		cmocka_unit_test(one_leaves),
		cmocka_unit_test(by_a_link),
		cmocka_unit_test(strangers),
		cmocka_unit_test(garbage),
		cmocka_unit_test(other_sets_and_caches),
		cmocka_unit_test(options),
		cmocka_unit_test(comes_again),
		cmocka_unit_test(one_loader_at_a_time),
		cmocka_unit_test(child),
		cmocka_unit_test(no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
