/* One engine for short messages and one for longer ones: the contract, over TCP and UCX;
 * what lies in the wrong one; who is asked how often; what is measured. */
#include "coll/engines/contract.h"

#include <sys/eventfd.h>

#include "coll/engines/ranks_meet.h"
#include "tests/support/alloc_fail.h"

enum { MOST_BYTES = 4096 };

/* --- the contract ---------------------------------------------------------------------*/

static bool swapped; /* UCX for the short ones */

static taut_status make(void *engines, uint32_t rank, struct tauti_engine *ret_engine,
	struct taut_error *err)
{
	struct ranks_meet *it = engines;
	struct tauti_engine tcp, ucx;
	taut_status status = ranks_meet_rank(it, rank, err);

	if (!status)
		status = tauti_ucx_create(it->meets[rank], rank, it->n_ranks, &ucx, err);
	if (!status)
		status = tauti_tcp_create(
			it->meets[rank], rank, it->n_ranks, NULL, &tcp, err);
	return status ? status : tauti_by_size_create(MOST_BYTES, swapped ? ucx : tcp,
		swapped ? tcp : ucx, ret_engine, err);
}

static const struct contract contract = { ranks_meet_begin, make, ranks_meet_end };

static void run_body(void (*body)(struct contract_rank *rank))
{
	const struct contract_how how = { &contract, NULL, CONTRACT_RANKS };

	for (int i = 0; i < 2; i++) {
		swapped = i;
		contract_run_body(&how, CONTRACT_RANKS, body);
	}
	swapped = false;
}

/* --- sizes ----------------------------------------------------------------------------*/

static void around_body(struct contract_rank *rank)
{
	for (size_t bytes = MOST_BYTES - 3; bytes <= MOST_BYTES + 3; bytes++)
		contract_one_size(rank, bytes);
}

static void test_around(void **state)
{
	(void)state;
	run_body(around_body);
}

/* Who sleeps is woken by what comes by either. */
static void sleeps_body(struct contract_rank *rank)
{
	static uint8_t data[CONTRACT_RANKS][100000];
	static const size_t sizes[] = { 100, 100000, 100000, 0, 100000, 100 };
	struct contract_request request;

	for (uint32_t i = 0; i < 12; i++) {
		uint8_t *mine = data[rank->id];
		size_t bytes = sizes[i % 6];

		contract_fill(mine, bytes, 0, i);
		if (rank->id % 2 == i / 6) {
			contract_sleep_ms(5);
			contract_send(rank, rank->id ^ 1, i, mine, bytes, &request);
		} else {
			memset(mine, 0, bytes);
			contract_recv(rank, rank->id ^ 1, i, mine, bytes, &request);
			while (!request.n_done)
				contract_wait(rank, -1), contract_progress(rank);
		}
		contract_until_good(rank, &request, 1);
		contract_expect(rank, contract_same(mine, bytes, 0, i));
	}
}

static void test_sleeps(void **state)
{
	(void)state;
	run_body(sleeps_body);
}

/* --- lengths that differ --------------------------------------------------------------*/

/* Its memory is left alone from then on, and the tag may be used again. */
static void again_body(struct contract_rank *rank)
{
	enum { LONG = 100000 };
	static uint8_t out[CONTRACT_RANKS][LONG], wrong[CONTRACT_RANKS][LONG],
		right[CONTRACT_RANKS][LONG];
	uint8_t *memory = wrong[rank->id];
	struct contract_request requests[4];
	uint32_t peer = rank->id ^ 1;

	for (int turn = 0; turn < 2; turn++) {
		size_t sent = turn ? LONG : 64, asked = turn ? 64 : LONG;

		memset(memory, 0, LONG);
		contract_fill(out[rank->id], LONG, rank->id, 5);
		contract_recv(rank, peer, 5, memory, asked, &requests[0]);
		contract_send(rank, peer, 5, out[rank->id], sent, &requests[1]);
		contract_until(rank, requests, 2);
		contract_expect(rank, requests[0].status == TAUT_EMATCH);
		contract_meet(rank);
		memset(memory, 0, LONG);
		contract_send(rank, peer, 5, out[rank->id], asked, &requests[2]);
		contract_meet(rank);
		contract_recv(rank, peer, 5, right[rank->id], asked, &requests[3]);
		contract_until_good(rank, requests + 2, 2);
		contract_expect(rank, contract_same(right[rank->id], asked, peer, 5));
		for (size_t i = 0; i < LONG; i++)
			contract_expect(rank, memory[i] == 0);
	}
}

static void test_again(void **state)
{
	(void)state;
	run_body(again_body);
}

/* It is found without sleep, too. */
static void looks_body(struct contract_rank *rank)
{
	uint8_t out[MOST_BYTES + 1] = { 0 }, in[MOST_BYTES + 1];
	struct contract_request requests[2];
	uint32_t peer = rank->id ^ 1;
	int64_t began_s = 0;

	contract_recv(rank, peer, 1, in, MOST_BYTES + rank->id % 2, &requests[0]);
	contract_send(rank, peer, 1, out, MOST_BYTES + rank->id % 2, &requests[1]);
	while (!requests[0].n_done || !requests[1].n_done) {
		contract_watch(rank, &began_s);
		contract_progress(rank);
	}
	contract_expect(rank, requests[0].status == TAUT_EMATCH);
}

static void test_looks(void **state)
{
	(void)state;
	run_body(looks_body);
}

/* Two ranks may send messages of different lengths with the same tag: that is no fault,
 * also where one lies unasked for while the other is waited for. */
static void other_peer_body(struct contract_rank *rank)
{
	enum { LONG = 100000 };
	static uint8_t out[CONTRACT_RANKS][LONG], in[CONTRACT_RANKS][LONG];
	struct contract_request requests[CONTRACT_RANKS];

	for (int turn = 0; turn < 20; turn++) {
		contract_meet(rank);
		if (rank->id) {
			size_t bytes = rank->id % 2 ? 64 : LONG;

			if (rank->id == 2)
				contract_sleep_ms(2);
			contract_fill(out[rank->id], bytes, rank->id, 9);
			contract_send(rank, 0, 9, out[rank->id], bytes, requests);
			contract_until_good(rank, requests, 1);
			continue;
		}
		contract_recv(rank, 2, 9, in[2], LONG, &requests[0]);
		for (int i = 0; i < 3000; i++)
			contract_progress(rank);
		contract_until_good(rank, requests, 1);
		contract_recv(rank, 1, 9, in[1], 64, &requests[1]);
		contract_recv(rank, 3, 9, in[3], 64, &requests[2]);
		contract_until_good(rank, requests + 1, 2);
		for (uint32_t i = 1; i < 4; i++)
			contract_expect(rank,
				contract_same(in[i], i % 2 ? 64 : LONG, i, 9));
	}
}

static void test_other_peer(void **state)
{
	(void)state;
	run_body(other_peer_body);
}

/* --- a rank that goes -----------------------------------------------------------------*/

/* What it sent before is still received; what else is waited for, by either, ends with its
 * name. */
static void gone_body(struct contract_rank *rank)
{
	enum { LONG = 100000 };
	static uint8_t out[CONTRACT_RANKS][LONG], in[CONTRACT_RANKS][LONG];
	struct contract_request requests[2], more;
	struct taut_error err = { .message = "" };
	uint32_t last = rank->n - 1;
	int64_t began_s = 0;

	if (rank->id != last) {
		contract_meet(rank); /* it has gone */
		contract_recv(rank, last, 1, in[rank->id], 64, &requests[0]);
		contract_recv(rank, last, 2, in[rank->id], LONG, &requests[1]);
		contract_until_good(rank, requests, 2);
		contract_recv(rank, last, 3, in[rank->id], rank->id % 2 ? 64 : LONG, &more);
		while (!err.message[0] &&
			!rank->table->progress(rank->engine, &err)) {
			contract_watch(rank, &began_s);
			(void)rank->table->wait(rank->engine, -1, &err);
		}
		contract_expect(rank, strstr(err.message, "rank 3 is gone: ") != NULL);
		contract_meet(rank); /* so that no other is gone as well */
		rank->table->destroy(rank->engine);
		rank->table = NULL;
		contract_expect(rank, more.n_done == 1 && more.status == TAUT_EIO);
		return;
	}
	contract_send_all(rank, (const uint32_t[]){ 0, 1, 2 }, 3, 1, out[last], 64,
		&requests[0]);
	contract_send_all(rank, (const uint32_t[]){ 0, 1, 2 }, 3, 2, out[last], LONG,
		&requests[1]);
	contract_until_good(rank, requests, 2);
	rank->table->destroy(rank->engine);
	rank->table = NULL;
	contract_meet(rank);
	contract_meet(rank);
}

static void test_gone(void **state)
{
	(void)state;
	run_body(gone_body);
}

/* --- with engines that are made up ----------------------------------------------------*/

/* Takes notes of what it is asked, and ends what it is told to. */
struct fake {
	struct taut_coll_request *sent, *received;
	uint32_t n_sends, n_recvs, n_moves, n_arms;
	taut_status status; /* of a send, a receive, and of arming */
	bool destroyed;
	int fd;
};

static taut_status fake_send(void *engine, const uint32_t *peers, uint32_t n_peers,
	uint64_t tag, const void *data, size_t bytes, struct taut_coll_request *request,
	struct taut_error *err)
{
	struct fake *fake = engine;

	(void)peers;
	(void)n_peers;
	(void)tag;
	(void)data;
	(void)bytes;
	(void)err;
	fake->sent = request;
	fake->n_sends += !fake->status;
	return fake->status;
}

static taut_status fake_recv(void *engine, uint32_t peer, uint64_t tag, void *data,
	size_t bytes, struct taut_coll_request *request, struct taut_error *err)
{
	struct fake *fake = engine;

	(void)peer;
	(void)tag;
	(void)data;
	(void)bytes;
	(void)err;
	fake->received = request;
	fake->n_recvs += !fake->status;
	return fake->status;
}

static taut_status fake_progress(void *engine, struct taut_error *err)
{
	(void)err;
	((struct fake *)engine)->n_moves++;
	return TAUT_OK;
}

static taut_status fake_arm(void *engine, struct taut_error *err)
{
	struct fake *fake = engine;

	(void)err;
	fake->n_arms++;
	return fake->status;
}

static int fake_fd(void *engine)
{
	return ((struct fake *)engine)->fd;
}

static bool fake_arrived(void *engine, uint64_t tag, uint64_t mask)
{
	(void)engine;
	(void)tag;
	(void)mask;
	return false;
}

static void fake_destroy(void *engine)
{
	((struct fake *)engine)->destroyed = true;
}

static const struct taut_coll_engine small_table = { .name = "small",
	.send = fake_send, .recv = fake_recv, .progress = fake_progress,
	.arm = fake_arm, .fd = fake_fd, .arrived = fake_arrived,
	.destroy = fake_destroy };
static const struct taut_coll_engine large_table = { .name = "large",
	.max_message_bytes = 1 << 30, .send = fake_send, .recv = fake_recv,
	.progress = fake_progress, .arm = fake_arm, .fd = fake_fd,
	.arrived = fake_arrived, .destroy = fake_destroy };

struct made_up {
	struct fake small, large;
	struct tauti_engine engine;
	struct contract_request request;
};

static taut_status made_up_create(struct made_up *it)
{
	return tauti_by_size_create(MOST_BYTES,
		(struct tauti_engine){ &small_table, &it->small },
		(struct tauti_engine){ &large_table, &it->large }, &it->engine, NULL);
}

static void made_up_init(struct made_up *it)
{
	*it = (struct made_up){ .request.request.done = contract_done };
	it->small.fd = eventfd(0, EFD_CLOEXEC);
	it->large.fd = eventfd(0, EFD_CLOEXEC);
}

static void made_up_fini(struct made_up *it)
{
	it->engine.table->destroy(it->engine.context);
	assert_true(it->small.destroyed && it->large.destroyed);
	close(it->small.fd);
	close(it->large.fd);
}

static taut_status ask(struct made_up *it, bool sends, size_t bytes)
{
	static char data[MOST_BYTES + 1];
	const uint32_t peer = 1;

	it->request.n_done = 0;
	return sends ? it->engine.table->send(it->engine.context, &peer, 1, 7, data,
		bytes, &it->request.request, NULL) : it->engine.table->recv(
		it->engine.context, 1, 7, data, bytes, &it->request.request, NULL);
}

static void move(struct made_up *it, uint32_t times)
{
	it->small.n_moves = it->large.n_moves = 0;
	for (uint32_t i = 0; i < times; i++)
		assert_int_equal(
			it->engine.table->progress(it->engine.context, NULL), TAUT_OK);
}

static void ask_and_end(struct made_up *it, bool sends, size_t bytes, taut_status status)
{
	struct fake *one = bytes > MOST_BYTES ? &it->large : &it->small;
	struct taut_coll_request *begun;

	assert_int_equal(ask(it, sends, bytes), TAUT_OK);
	begun = sends ? one->sent : one->received;
	assert_int_equal(it->request.n_done, 0);
	begun->done(begun, status);
	assert_int_equal(it->request.n_done, 1);
	assert_int_equal(it->request.status, status);
}

static void test_picks(void **state)
{
	struct made_up it;

	(void)state;
	made_up_init(&it);
	assert_int_equal(made_up_create(&it), TAUT_OK);
	assert_string_equal(it.engine.table->name, "small+large");
	assert_int_equal(it.engine.table->max_message_bytes, 1 << 30);
	for (int sends = 0; sends < 2; sends++) {
		ask_and_end(&it, sends, 0, TAUT_OK);
		ask_and_end(&it, sends, MOST_BYTES, TAUT_EMATCH);
		ask_and_end(&it, sends, MOST_BYTES + 1, TAUT_EIO);
		assert_int_equal(sends ? it.small.n_sends : it.small.n_recvs, 2);
		assert_int_equal(sends ? it.large.n_sends : it.large.n_recvs, 1);
	}
	made_up_fini(&it);
}

/* Who has nothing under way is asked seldom, and at first still each time. */
static void test_costs(void **state)
{
	struct made_up it;

	(void)state;
	made_up_init(&it);
	assert_int_equal(made_up_create(&it), TAUT_OK);
	move(&it, 100);
	assert_int_equal(ask(&it, true, MOST_BYTES + 1), TAUT_OK);
	move(&it, 1600);
	assert_int_equal(it.large.n_moves, 1600);
	assert_int_equal(it.small.n_moves, 100);
	it.large.sent->done(it.large.sent, TAUT_OK);
	assert_int_equal(ask(&it, false, 1), TAUT_OK);
	move(&it, 10);
	assert_int_equal(it.large.n_moves, 10);
	move(&it, 1600);
	assert_int_equal(it.small.n_moves, 1600);
	assert_in_range(it.large.n_moves, 100, 110);
	it.small.received->done(it.small.received, TAUT_OK);
	made_up_fini(&it);
}

static void tell(const struct fake *fake, bool of_news)
{
	uint64_t one = 1;

	assert_int_equal(of_news ? write(fake->fd, &one, sizeof one) :
		read(fake->fd, &one, sizeof one), sizeof one);
}

static void expect_wait(struct made_up *it, int64_t timeout_ns)
{
	assert_int_equal(it->engine.table->wait(it->engine.context, timeout_ns, NULL),
		TAUT_OK);
}

/* Each tells; who told is asked next, however long it was quiet; who is armed already is
 * not armed again. */
static void test_sleep(void **state)
{
	struct made_up it;

	(void)state;
	made_up_init(&it);
	assert_int_equal(made_up_create(&it), TAUT_OK);
	for (int turn = 0; turn < 2; turn++) {
		struct fake *one = turn ? &it.large : &it.small;

		move(&it, 33);
		it.small.n_arms = it.large.n_arms = 0;
		expect_wait(&it, 1000);
		expect_wait(&it, 1000);
		assert_int_equal(it.small.n_arms, 1);
		assert_int_equal(it.large.n_arms, 1);
		tell(one, true);
		expect_wait(&it, -1);
		move(&it, 1);
		assert_int_equal(one->n_moves, 1);
		tell(one, false);
		expect_wait(&it, 1000);
		assert_int_equal(one->n_arms, 2);
	}
	it.engine.table->wake(it.engine.context);
	expect_wait(&it, -1);
	it.small.status = TAUT_EAGAIN;
	assert_int_equal(ask(&it, true, 1), TAUT_EAGAIN); /* which disarms it */
	expect_wait(&it, -1);
	assert_int_equal(it.engine.table->arm(it.engine.context, NULL), TAUT_EAGAIN);
	it.small.status = TAUT_OK;
	assert_int_equal(it.engine.table->arm(it.engine.context, NULL), TAUT_OK);
	made_up_fini(&it);
}

static void test_memory(void **state)
{
	struct made_up it;
	taut_status status = TAUT_ENOMEM;
	long n;

	(void)state;
	made_up_init(&it);
	for (n = 0; status; n++) {
		alloc_fail_after(n);
		status = made_up_create(&it);
		alloc_fail_never();
		assert_true(!status || status == TAUT_ENOMEM);
		assert_false(it.small.destroyed || it.large.destroyed);
	}
	assert_true(n > 1);
	for (int sends = 0; sends < 2; sends++) {
		alloc_fail_after(0);
		status = ask(&it, sends, 1);
		alloc_fail_never();
		assert_int_equal(status, TAUT_ENOMEM);
	}
	/* What an engine does not begin is not under way. */
	it.small.status = TAUT_EIO;
	assert_int_equal(ask(&it, true, 1), TAUT_EIO);
	assert_int_equal(ask(&it, false, 1), TAUT_EIO);
	it.small.status = TAUT_OK;
	move(&it, 100);
	move(&it, 160);
	assert_int_equal(it.small.n_moves, 10);
	made_up_fini(&it);
}

/* --- what is measured -----------------------------------------------------------------*/

/* An engine that takes its time from so many bytes on; or for most sends, and not for a
 * whole round of each four. */
struct slow {
	struct taut_coll_engine table;
	struct tauti_engine inner;
	size_t from;
	int ms;
	bool now_and_then;
	uint32_t n_sends;
};

static taut_status slow_send(void *engine, const uint32_t *peers, uint32_t n_peers,
	uint64_t tag, const void *data, size_t bytes, struct taut_coll_request *request,
	struct taut_error *err)
{
	struct slow *slow = engine;

	bool is_quick = slow->now_and_then && slow->n_sends++ / 4 % 4 == 0;

	if (bytes >= slow->from && !is_quick)
		contract_sleep_ms(slow->ms);
	return slow->inner.table->send(slow->inner.context, peers, n_peers, tag, data,
		bytes, request, err);
}

static taut_status slow_recv(void *engine, uint32_t peer, uint64_t tag, void *data,
	size_t bytes, struct taut_coll_request *request, struct taut_error *err)
{
	struct slow *slow = engine;

	return slow->inner.table->recv(
		slow->inner.context, peer, tag, data, bytes, request, err);
}

static taut_status slow_progress(void *engine, struct taut_error *err)
{
	struct slow *slow = engine;

	return slow->inner.table->progress(slow->inner.context, err);
}

static taut_status slow_wait(void *engine, int64_t timeout_ns, struct taut_error *err)
{
	struct slow *slow = engine;

	return slow->inner.table->wait(slow->inner.context, timeout_ns, err);
}

static void slow_destroy(void *engine)
{
	struct slow *slow = engine;

	slow->inner.table->destroy(slow->inner.context);
}

static struct tauti_engine slow_make(struct slow *slow, size_t from, int ms)
{
	slow->from = from;
	slow->ms = ms;
	slow->now_and_then = false;
	slow->n_sends = 0;
	slow->table = (struct taut_coll_engine){ .name = "slow", .send = slow_send,
		.recv = slow_recv, .progress = slow_progress, .wait = slow_wait,
		.destroy = slow_destroy };
	return (struct tauti_engine){ &slow->table, slow };
}

struct measured {
	char where[64];
	const uint32_t *host_of;
	size_t small_from, large_from; /* bytes that are slow */
	int small_ms, large_ms;
	bool now_and_then;             /* large is not slow */
	uint32_t quits;                /* which rank goes in place of measuring */
	size_t most[RANKS_MOST];
	struct taut_error err[RANKS_MOST];
};

static void *measure_main(void *context)
{
	struct ranks_one *one = context;
	struct measured *job = one->shared;
	struct taut_error *err = &job->err[one->rank];
	struct tauti_meet_options options = { one->rank, one->n_ranks, job->where, "s",
		INT64_C(20000000000), INT64_C(20000000000), false };
	struct tauti_meet *meet = NULL;
	struct slow slow[2];
	struct tauti_engine engines[2] = {
		slow_make(&slow[0], job->small_from, job->small_ms),
		slow_make(&slow[1], job->large_from, job->large_ms) };
	taut_status status = tauti_meet_create(&options, &meet, err);

	slow[1].now_and_then = job->now_and_then;
	for (int i = 0; i < 2 && !status; i++)
		status = tauti_tcp_create(meet, one->rank, one->n_ranks, NULL,
			&slow[i].inner, err);
	if (!status && one->rank != job->quits)
		status = tauti_by_size_measure(meet, one->rank, one->n_ranks,
			job->host_of, false, &engines[0], &engines[1],
			&job->most[one->rank], err);
	err->code = status;
	for (int i = 0; i < 2; i++)
		if (engines[i].table)
			slow_destroy(&slow[i]);
	tauti_meet_destroy(meet);
	return NULL;
}

static void measure(struct measured *job, uint32_t n_ranks)
{
	struct ranks_one ones[RANKS_MOST];

	snprintf(job->where, sizeof job->where, "127.0.0.1:%u", ranks_free_port());
	ranks_start(ones, 0, n_ranks, measure_main, job);
	ranks_join(ones, 0, n_ranks);
}

static void expect_of(struct measured job, uint32_t n_ranks, size_t most)
{
	job.quits = TAUT_NONE;
	measure(&job, n_ranks);
	for (uint32_t i = 0; i < n_ranks; i++) {
		if (job.err[i].code)
			fail_msg("rank %u: %s", i, job.err[i].message);
		assert_int_equal(job.most[i], most);
	}
}

static void expect_most(uint32_t n_ranks, const uint32_t *host_of, size_t small_from,
	size_t large_from, size_t most)
{
	expect_of((struct measured){ .host_of = host_of, .small_from = small_from,
		.large_from = large_from, .small_ms = 9, .large_ms = 3 }, n_ranks, most);
}

static void test_measures(void **state)
{
	static const uint32_t two[] = { 0, 1 }, three[] = { 0, 0, 2, 3, 2, 3 },
		four[] = { 7, 2, 9, 4 };

	(void)state;
	expect_most(2, two, SIZE_MAX, 0, SIZE_MAX); /* small is the quicker one always */
	expect_most(2, two, 0, SIZE_MAX, 0);     /* never */
	expect_most(2, two, 4097, 0, 4096);
	expect_most(2, two, 32769, 0, 32768);
	expect_most(4, four, 65, 64, 64);
	expect_most(6, three, SIZE_MAX, 0, SIZE_MAX);
}

/* What takes as long goes by small; and what counts is not the best of large. */
static void test_as_good(void **state)
{
	static const uint32_t two[] = { 0, 1 };
	/* So long that a host which does other things does not make an eighth of them. */
	struct measured job = { .host_of = two, .small_ms = 20, .large_ms = 20 };

	(void)state;
	expect_of(job, 2, SIZE_MAX);
	job.small_ms = 4;
	job.large_ms = 8;
	job.now_and_then = true;
	expect_of(job, 2, SIZE_MAX);
}

/* A rank that goes meanwhile is named, and nobody waits for it. */
static void test_one_goes(void **state)
{
	static const uint32_t host_of[] = { 0, 1, 1 };
	struct measured job = { .host_of = host_of, .small_from = SIZE_MAX,
		.large_from = SIZE_MAX, .quits = 1 };
	int64_t began_ns = ranks_now_ns();

	(void)state;
	measure(&job, 3);
	assert_int_equal(job.err[0].code, TAUT_EIO);
	assert_int_equal(job.err[2].code, TAUT_EIO);
	assert_non_null(strstr(job.err[0].message, "rank 1"));
	assert_non_null(strstr(job.err[2].message, "rank 1"));
	assert_true(ranks_now_ns() - began_ns < INT64_C(10000000000));
}

static int run_own(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_picks),
		cmocka_unit_test(test_costs),
		cmocka_unit_test(test_sleep),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_measures),
		cmocka_unit_test(test_as_good),
		cmocka_unit_test(test_one_goes),
		cmocka_unit_test(test_around),
		cmocka_unit_test(test_sleeps),
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_looks),
		cmocka_unit_test(test_other_peer),
		cmocka_unit_test(test_gone),
	};

	return cmocka_run_group_tests_name("by size", tests, NULL, NULL);
}

int main(void)
{
	int failed;

	ranks_ucx_in_sanitizer();
	failed = run_own();
	for (int i = 0; i < 2; i++) {
		swapped = i;
		failed += contract_run(&contract);
	}
	return failed;
}
