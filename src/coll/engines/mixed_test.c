/* Two engines as one: the contract, with shared memory near and UCX, TCP or both far, and
 * what it does with engines that are made up. */
#include "coll/engines/contract.h"

#include <sys/eventfd.h>

#include "coll/engines/ranks_meet.h"
#include "tests/support/alloc_fail.h"

/* --- the contract, for every way to lay ranks on two hosts ---------------------------*/

static const uint32_t *host_of; /* of the run that is on */
static enum { OVER_UCX, OVER_TCP, OVER_BOTH, FARS } over; /* the far one */

static taut_status make_far(struct ranks_meet *it, uint32_t rank,
	struct tauti_engine *ret_far, struct taut_error *err)
{
	struct tauti_engine tcp = { .table = NULL }, ucx = tcp;
	taut_status status = TAUT_OK;

	if (over != OVER_TCP)
		status = tauti_ucx_create(it->meets[rank], rank, it->n_ranks, &ucx, err);
	if (!status && over != OVER_UCX)
		status = tauti_tcp_create(
			it->meets[rank], rank, it->n_ranks, host_of, &tcp, err);
	if (!status && over == OVER_BOTH)
		return tauti_by_size_create(4096, tcp, ucx, ret_far, err);
	*ret_far = over == OVER_TCP ? tcp : ucx;
	return status;
}

static taut_status make(void *engines, uint32_t rank,
	struct tauti_engine *ret_engine, struct taut_error *err)
{
	struct ranks_meet *it = engines;
	struct tauti_engine near, far;
	taut_status status = ranks_meet_rank(it, rank, err);

	if (status == TAUT_OK)
		status = tauti_shm_create(it->meets[rank], rank, it->n_ranks,
			host_of, tauti_cores_enough_here(it->n_ranks), &near,
			err);
	if (status == TAUT_OK)
		status = make_far(it, rank, &far, err);
	if (status == TAUT_OK)
		status = tauti_mixed_create(rank, it->n_ranks, host_of, near,
			far, ret_engine, err);
	return status;
}

/* --- with engines that are made up ------------------------------------------------------*/

/* Takes notes of what it is asked, and ends what it is told to. */
struct fake {
	taut_status send_status;
	struct taut_coll_request *sent, *received;
	uint32_t n_sends, n_peers, peers[8];
	void *data;
	bool destroyed;
	int fd;
};

static taut_status fake_send(void *engine, const uint32_t *peers,
	uint32_t n_peers, uint64_t tag, const void *data, size_t bytes,
	struct taut_coll_request *request, struct taut_error *err)
{
	struct fake *fake = engine;

	(void)tag;
	(void)data;
	(void)bytes;
	(void)err;
	if (fake->send_status)
		return fake->send_status;
	fake->n_sends++;
	fake->n_peers = n_peers;
	memcpy(fake->peers, peers, n_peers * sizeof *peers);
	fake->sent = request;
	return TAUT_OK;
}

static taut_status fake_recv(void *engine, uint32_t peer, uint64_t tag,
	void *data, size_t bytes, struct taut_coll_request *request,
	struct taut_error *err)
{
	struct fake *fake = engine;

	(void)tag;
	(void)bytes;
	(void)err;
	fake->peers[0] = peer;
	fake->data = data;
	fake->received = request;
	return TAUT_OK;
}

static taut_status fake_recv_reduce(void *engine, uint32_t peer, uint64_t tag,
	enum taut_type type, enum taut_reduction reduction, void *into,
	const void *from, size_t count, struct taut_coll_request *request,
	struct taut_error *err)
{
	(void)type;
	(void)reduction;
	(void)from;
	return fake_recv(engine, peer, tag, into, count, request, err);
}

static void fake_destroy(void *engine)
{
	((struct fake *)engine)->destroyed = true;
}

static int fake_fd(void *engine)
{
	return ((struct fake *)engine)->fd;
}

static const struct taut_coll_engine near_table = { .name = "near",
	.max_message_bytes = 4096, .send = fake_send, .recv = fake_recv,
	.recv_reduce = fake_recv_reduce, .destroy = fake_destroy };
static const struct taut_coll_engine far_table = { .name = "far",
	.send = fake_send, .recv = fake_recv, .fd = fake_fd,
	.destroy = fake_destroy };

struct pair {
	struct fake near, far;
	struct tauti_engine engine;
	struct contract_request request;
};

/* Six ranks on three hosts; this one is rank 2, near to 3. */
static void pair_init(struct pair *pair, const uint32_t *hosts)
{
	*pair = (struct pair){ .request.request.done = contract_done };
	pair->far.fd = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(tauti_mixed_create(2, 6, hosts,
		(struct tauti_engine){ &near_table, &pair->near },
		(struct tauti_engine){ &far_table, &pair->far }, &pair->engine,
		NULL), TAUT_OK);
}

static const uint32_t three_hosts[] = { 4, 4, 7, 7, 1, 1 };

static void pair_fini(struct pair *pair)
{
	pair->engine.table->destroy(pair->engine.context);
	assert_true(pair->near.destroyed && pair->far.destroyed);
	close(pair->far.fd);
}

static taut_status pair_send(struct pair *pair, const uint32_t *peers,
	uint32_t n_peers)
{
	return pair->engine.table->send(pair->engine.context, peers, n_peers, 1,
		"", 1, &pair->request.request, NULL);
}

static void test_table(void **state)
{
	struct pair pair;

	(void)state;
	pair_init(&pair, three_hosts);
	assert_string_equal(pair.engine.table->name, "near+far");
	assert_int_equal(pair.engine.table->max_message_bytes, 4096);
	assert_null(pair.engine.table->fd);
	pair_fini(&pair);
}

/* One request for both, which ends with the second and keeps the first fault. */
static void test_split(void **state)
{
	static const uint32_t peers[] = { 5, 3, 0, 1 };
	struct pair pair;

	(void)state;
	pair_init(&pair, three_hosts);
	for (int turn = 0; turn < 3; turn++) {
		pair.request.n_done = 0;
		assert_int_equal(pair_send(&pair, peers, 4), TAUT_OK);
		assert_int_equal(pair.near.n_peers, 1);
		assert_int_equal(pair.near.peers[0], 3);
		assert_int_equal(pair.far.n_peers, 3);
		assert_int_equal(pair.far.peers[0], 5);
		assert_int_equal(pair.far.peers[2], 1);
		pair.far.sent->done(pair.far.sent,
			turn == 1 ? TAUT_EIO : TAUT_OK);
		assert_int_equal(pair.request.n_done, 0);
		pair.near.sent->done(pair.near.sent,
			turn ? TAUT_EMATCH : TAUT_OK);
		assert_int_equal(pair.request.n_done, 1);
		assert_int_equal(pair.request.status, turn == 0 ? TAUT_OK :
			turn == 1 ? TAUT_EIO : TAUT_EMATCH);
	}
	/* To one kind alone it is the caller's own request. */
	assert_int_equal(pair_send(&pair, peers + 2, 2), TAUT_OK);
	assert_ptr_equal(pair.far.sent, &pair.request.request);
	assert_int_equal(pair_send(&pair, peers + 1, 1), TAUT_OK);
	assert_ptr_equal(pair.near.sent, &pair.request.request);
	pair_fini(&pair);
}

static void test_half_begun(void **state)
{
	static const uint32_t peers[] = { 5, 3 };
	struct pair pair;

	(void)state;
	pair_init(&pair, three_hosts);
	pair.far.send_status = TAUT_EIO; /* nothing began */
	assert_int_equal(pair_send(&pair, peers, 2), TAUT_EIO);
	assert_int_equal(pair.near.n_sends, 0);
	pair.far.send_status = TAUT_OK;
	pair.near.send_status = TAUT_ENOMEM; /* one did */
	assert_int_equal(pair_send(&pair, peers, 2), TAUT_OK);
	assert_int_equal(pair.request.n_done, 0);
	pair.far.sent->done(pair.far.sent, TAUT_OK);
	assert_int_equal(pair.request.n_done, 1);
	assert_int_equal(pair.request.status, TAUT_ENOMEM);
	pair_fini(&pair);
}

/* What comes from far lands first, and is reduced into place. */
static void test_landing(void **state)
{
	int32_t from[3] = { 1, 2, 3 }, into[3] = { 0, 0, 0 };
	struct pair pair;

	(void)state;
	pair_init(&pair, three_hosts);
	for (uint32_t turn = 0; turn < 3; turn++) {
		int32_t came[3] = { 10, 20, 30 };

		pair.request.n_done = 0;
		memset(into, 0, sizeof into);
		assert_int_equal(pair.engine.table->recv_reduce(
			pair.engine.context, turn == 2 ? 3 : 4, 9, TAUT_INT32,
			TAUT_SUM, into, from, 3, &pair.request.request, NULL),
			TAUT_OK);
		if (turn == 2) { /* near does it itself */
			assert_ptr_equal(pair.near.data, into);
			break;
		}
		assert_ptr_not_equal(pair.far.data, into);
		memcpy(pair.far.data, came, sizeof came);
		pair.far.received->done(pair.far.received,
			turn ? TAUT_EIO : TAUT_OK);
		assert_int_equal(pair.request.n_done, 1);
		assert_int_equal(pair.request.status, turn ? TAUT_EIO : TAUT_OK);
		assert_int_equal(into[0], turn ? 0 : 11);
		assert_int_equal(into[2], turn ? 0 : 33);
	}
	pair_fini(&pair);
}

static taut_status begin_with_memory(struct pair *pair, int kind)
{
	static const uint32_t peers[] = { 5, 3 };
	int32_t value = 1;

	if (kind == 0)
		return pair_send(pair, peers, 2);
	return pair->engine.table->recv_reduce(pair->engine.context, 4, 9,
		TAUT_INT32, TAUT_SUM, &value, &value, 1,
		&pair->request.request, NULL);
}

static void test_memory(void **state)
{
	(void)state;
	for (int kind = 0; kind < 2; kind++) {
		struct pair pair;
		taut_status status;

		pair_init(&pair, three_hosts);
		for (long n = 0;; n++) {
			alloc_fail_after(n);
			status = begin_with_memory(&pair, kind);
			alloc_fail_never();
			if (status == TAUT_OK)
				break;
			assert_int_equal(status, TAUT_ENOMEM);
		}
		if (kind) {
			memset(pair.far.data, 0, 4);
			pair.far.received->done(pair.far.received, TAUT_EIO);
		} else {
			pair.far.sent->done(pair.far.sent, TAUT_OK);
			pair.near.sent->done(pair.near.sent, TAUT_OK);
		}
		pair_fini(&pair);
	}
}

static void test_no_memory_to_create(void **state)
{
	struct fake near = { .n_sends = 0 }, far = { .n_sends = 0 };
	struct tauti_engine engine = { NULL, NULL };
	long n = 0;


	(void)state;
	far.fd = eventfd(0, EFD_CLOEXEC);
	for (;; n++) {
		taut_status status;

		alloc_fail_after(n);
		status = tauti_mixed_create(2, 6, three_hosts,
			(struct tauti_engine){ &near_table, &near },
			(struct tauti_engine){ &far_table, &far }, &engine, NULL);
		alloc_fail_never();
		if (status == TAUT_OK)
			break;
		assert_int_equal(status, TAUT_ENOMEM);
		assert_false(near.destroyed || far.destroyed);
	}
	assert_true(n >= 2);
	engine.table->destroy(engine.context);
	close(far.fd);
}

static int run_made_up(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_half_begun),
		cmocka_unit_test(test_landing),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_no_memory_to_create),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
	static const uint32_t layouts[][CONTRACT_RANKS] = {
		{ 0, 0, 1, 1 }, { 0, 1, 0, 1 }, { 3, 3, 3, 3 }, { 0, 1, 2, 3 },
	};
	struct contract contract = { ranks_meet_begin, make, ranks_meet_end };
	int failed = run_made_up();

	ranks_ucx_in_sanitizer();
	for (int i = 0; i < 4 * FARS; i++) {
		host_of = layouts[i / FARS];
		over = i % FARS;
		failed += contract_run(&contract);
	}
	return failed;
}
