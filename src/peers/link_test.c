/* Frames over a pair of sockets: in pieces, in the middle of what, with what must not come. */
#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peers/peers.h"
#include "tests/support/alloc_fail.h"

enum { BYTES = 3 << 20 };

struct pair {
	struct tauti_peers_link a, b;
	struct tauti_peers_out outs[3]; /* not on the stack: links have them to the end */
	uint32_t n_gone;
	uint8_t *data, *room;
};

static int set_up(void **state)
{
	struct pair *p = calloc(1, sizeof *p);
	int fds[2];

	assert_non_null(p);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	tauti_peers_link_open(&p->a, fds[0], 0);
	tauti_peers_link_open(&p->b, fds[1], 0);
	p->data = malloc(BYTES);
	p->room = calloc(1, BYTES);
	assert_true(p->data && p->room);
	for (uint32_t i = 0; i < BYTES; i++)
		p->data[i] = (uint8_t)(i * 31 + (i >> 12));
	*state = p;
	return 0;
}

static int tear_down(void **state)
{
	struct pair *p = *state;

	tauti_peers_link_close(&p->a);
	tauti_peers_link_close(&p->b);
	free(p->data);
	free(p->room);
	free(p);
	return 0;
}

static void gone(void *context, struct tauti_peers_out *out)
{
	struct pair *p = context;

	(void)out;
	p->n_gone++;
}

static const struct tauti_peers_frame item = { TAUTI_PEERS_ITEM, 77,
	UINT64_C(0x1234567890), BYTES };

static void expect_frame(struct pair *p, const struct tauti_peers_frame *is)
{
	struct tauti_peers_frame frame;

	assert_int_equal(tauti_peers_link_read(&p->b, 5, &frame), TAUTI_PEERS_FRAME);
	assert_int_equal(frame.kind, is->kind);
	assert_int_equal(frame.number, is->number);
	assert_int_equal(frame.item, is->item);
	assert_int_equal(frame.bytes, is->bytes);
	assert_int_equal(p->b.heard_ns, 5);
}

/* Both sides by turns, until the body is there. */
static void carry(struct pair *p)
{
	struct tauti_peers_frame frame;
	enum tauti_peers_heard heard = TAUTI_PEERS_NOTHING;

	for (int i = 0; heard == TAUTI_PEERS_NOTHING && i < 100000; i++) {
		assert_true(tauti_peers_link_write(&p->a, 3, gone, p));
		heard = tauti_peers_link_read(&p->b, 5, &frame);
	}
	assert_int_equal(heard, TAUTI_PEERS_WHOLE);
}

/* Of more than a socket takes at once; behind it another, and one without a body. */
static void items(void **state)
{
	struct pair *p = *state;
	struct tauti_peers_out *outs = p->outs;
	const struct tauti_peers_frame ask = { TAUTI_PEERS_ASK, 1, 2, 3 };

	tauti_peers_link_put(&p->a, &outs[0], &item, p->data);
	tauti_peers_link_put(&p->a, &outs[1], &ask, NULL);
	tauti_peers_link_put(&p->a, &outs[2], &item, p->data);
	assert_true(tauti_peers_link_write(&p->a, 3, gone, p));
	assert_int_equal(p->n_gone, 0); /* nobody reads */
	expect_frame(p, &item);
	p->b.into = p->room;
	p->b.left = BYTES;
	carry(p);
	assert_memory_equal(p->data, p->room, BYTES);
	assert_true(tauti_peers_link_write(&p->a, 3, gone, p));
	expect_frame(p, &ask);
	expect_frame(p, &item);
	p->b.into = NULL; /* passed over */
	p->b.left = BYTES;
	carry(p);
	assert_int_equal(p->n_gone, 3);
	assert_int_equal(p->a.said_ns, 3);
}

/* Byte for byte. */
static void pieces(void **state)
{
	struct pair *p = *state;
	struct tauti_peers_out *out = &p->outs[0];
	struct tauti_peers_frame small = item, frame;

	small.bytes = 5;
	tauti_peers_link_put(&p->a, out, &small, p->data);
	for (int i = 0; i < TAUTI_PEERS_HEAD; i++) {
		assert_int_equal(tauti_peers_link_read(&p->b, 5, &frame),
			TAUTI_PEERS_NOTHING);
		assert_int_equal(send(p->a.fd, out->head + i, 1, 0), 1);
	}
	expect_frame(p, &small);
	p->b.into = p->room;
	p->b.left = 5;
	for (int i = 0; i < 5; i++) {
		assert_int_equal(tauti_peers_link_read(&p->b, 5, &frame),
			TAUTI_PEERS_NOTHING);
		assert_int_equal(send(p->a.fd, p->data + i, 1, 0), 1);
	}
	assert_int_equal(
		tauti_peers_link_read(&p->b, 5, &frame), TAUTI_PEERS_WHOLE);
	assert_memory_equal(p->data, p->room, 5);
}

/* The cache's memory goes: what has not begun is refused, the rest of what has is kept. */
static void detached(void **state)
{
	struct pair *p = *state;
	struct tauti_peers_out *outs = p->outs;
	struct tauti_peers_frame none = item;
	uint8_t *copy = malloc(BYTES);

	assert_non_null(copy);
	memcpy(copy, p->data, BYTES);
	tauti_peers_link_put(&p->a, &outs[0], &item, p->data);
	tauti_peers_link_put(&p->a, &outs[1], &item, p->data);
	assert_true(tauti_peers_link_write(&p->a, 3, gone, p));
	alloc_fail_after(0);
	assert_false(tauti_peers_link_detach(&p->a));
	alloc_fail_never();
	assert_true(tauti_peers_link_detach(&p->a));
	assert_true(tauti_peers_link_detach(&p->a)); /* again: nothing more to do */
	memset(p->data, 0, BYTES);
	expect_frame(p, &item);
	p->b.into = p->room;
	p->b.left = BYTES;
	carry(p);
	assert_memory_equal(copy, p->room, BYTES);
	assert_null(p->a.rest);
	assert_true(tauti_peers_link_write(&p->a, 3, gone, p));
	none.kind = TAUTI_PEERS_NONE;
	expect_frame(p, &none);
	assert_int_equal(p->n_gone, 2);
	free(copy);
}

static void nonsense(void **state)
{
	static const uint8_t heads[][4] = { { 'X', 'p', TAUTI_PEERS_VERSION, 1 },
		{ 'T', 'm', TAUTI_PEERS_VERSION, 1 },
		{ 'T', 'p', TAUTI_PEERS_VERSION + 1, 1 },
		{ 'T', 'p', TAUTI_PEERS_VERSION, 0 },
		{ 'T', 'p', TAUTI_PEERS_VERSION, TAUTI_PEERS_KINDS } };
	struct pair *p = *state;
	struct tauti_peers_frame frame;

	for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
		uint8_t bytes[TAUTI_PEERS_HEAD] = { 0 };

		memcpy(bytes, heads[i], 4);
		assert_int_equal(send(p->a.fd, bytes, sizeof bytes, 0), sizeof bytes);
		assert_int_equal(tauti_peers_link_read(&p->b, 5, &frame),
			TAUTI_PEERS_CLOSED);
		p->b.have = 0;
	}
	tauti_peers_link_close(&p->a);
	assert_int_equal(
		tauti_peers_link_read(&p->b, 5, &frame), TAUTI_PEERS_CLOSED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(items, set_up, tear_down),
		cmocka_unit_test_setup_teardown(pieces, set_up, tear_down),
		cmocka_unit_test_setup_teardown(detached, set_up, tear_down),
		cmocka_unit_test_setup_teardown(nonsense, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
