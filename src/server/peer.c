/* peer.c - one worker, as its server sees it; see serve.h. */
#include "server/serve.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const uint32_t worker_rank = 1; /* in the engine of two */

void tauti_peer_doom(struct tauti_peer *peer, const char *fmt, ...)
{
	char line[400];
	va_list args;

	if (peer->doomed)
		return;
	va_start(args, fmt);
	vsnprintf(line, sizeof line, fmt, args);
	va_end(args);
	taut_error_set(&peer->why, TAUT_EIO, -1, "%s", line);
	peer->doomed = true;
}

/* --- operations --------------------------------------------------------------------------- */

/* Called from inside the engine: only takes notice. */
static void on_done(struct taut_coll_request *request, taut_status status)
{
	struct tauti_op *op = ((struct tauti_request *)request)->op;
	struct tauti_peer *peer = op->peer;

	if (!op->status)
		op->status = status;
	if (--op->pending)
		return;
	op->next = NULL;
	*peer->ended_at = op;
	peer->ended_at = &op->next;
}

/* NULL: no memory; the peer is doomed. */
static struct tauti_op *op_begin(struct tauti_peer *peer, enum tauti_op_kind kind,
	uint32_t part, uint32_t round, size_t bytes)
{
	struct tauti_op *op = peer->unused;

	if (peer->doomed)
		return NULL;
	if (op)
		peer->unused = op->next;
	else
		op = malloc(sizeof *op);
	if (!op) {
		tauti_peer_doom(peer, "the server is out of memory");
		return NULL;
	}
	/* One more, so that it cannot end before all of it began. */
	*op = (struct tauti_op){ .peer = peer, .kind = kind, .pending = 1,
		.part = part, .round = round, .bytes = bytes,
		.start_ns = tauti_now_ns() };
	for (int i = 0; i < 2; i++)
		op->requests[i] = (struct tauti_request){ { on_done }, op };
	return op;
}

static void began(struct tauti_op *op, taut_status status,
	const struct taut_error *err)
{
	if (!status)
		return;
	tauti_peer_doom(op->peer, "%s", err->message);
	on_done(&op->requests[0].request, status);
}

static void op_recv(struct tauti_op *op, uint64_t tag, void *into, size_t bytes)
{
	struct tauti_engine *engine = &op->peer->engine;
	struct taut_error err = { .message = "" };

	op->pending++;
	began(op, engine->table->recv(engine->context, worker_rank, tag, into,
		bytes, &op->requests[0].request, &err), &err);
}

static void op_send(struct tauti_op *op, int i, uint64_t tag, const void *data,
	size_t bytes)
{
	struct tauti_engine *engine = &op->peer->engine;
	struct taut_error err = { .message = "" };

	op->pending++;
	began(op, engine->table->send(engine->context, &worker_rank, 1, tag,
		data, bytes, &op->requests[i].request, &err), &err);
}

static void all_began(struct tauti_op *op)
{
	on_done(&op->requests[0].request, TAUT_OK);
}

/* --- what is begun ------------------------------------------------------------------------- */

static void await_ask(struct tauti_peer *peer, uint32_t number)
{
	struct tauti_op *op = op_begin(
		peer, TAUTI_OP_ASK, 0, number, TAUTI_ASK_BYTES);

	if (!op)
		return;
	op_recv(op, tauti_tag_of(TAUTI_TAG_ASK, 0, number), op->words,
		sizeof op->words);
	all_began(op);
}

taut_status tauti_peer_begin(struct tauti_peer *peer, struct taut_error *reterr)
{
	for (uint32_t i = 0; i < TAUTI_ASKS_AHEAD; i++)
		await_ask(peer, i);
	if (peer->doomed && reterr)
		*reterr = peer->why;
	return peer->doomed ? peer->why.code : TAUT_OK;
}

static void say_go(struct tauti_peer *peer, uint32_t part, uint32_t round)
{
	struct tauti_op *op = op_begin(peer, TAUTI_OP_GO, part, round, TAUTI_ANSWER_BYTES);
	const struct tauti_answer go = { part, round, 0 };

	if (!op)
		return;
	tauti_answer_write(&go, op->words);
	op_send(op, 0, tauti_tag_of(TAUTI_TAG_GO, part, 0), op->words, sizeof op->words);
	all_began(op);
}

/* A long push stays with its worker until there is a place for it. One that has come ahead
 * is there, wherever the GO is. */
void tauti_peer_receive(struct tauti_peer *peer, uint32_t part, uint32_t round,
	void *into, size_t bytes)
{
	struct tauti_op *op = op_begin(peer, TAUTI_OP_PUSH, part, round, bytes);

	if (!op)
		return;
	op_recv(op, tauti_tag_of(TAUTI_TAG_PUSH, part, round), into, bytes);
	all_began(op);
	if (bytes > TAUTI_AT_ONCE_BYTES)
		say_go(peer, part, round);
}

void tauti_peer_answer(struct tauti_peer *peer, uint32_t part, uint32_t round,
	const void *data, size_t bytes, uint32_t contributors, size_t at)
{
	struct tauti_op *op = op_begin(peer, TAUTI_OP_ANSWER, part, round, bytes);
	const struct tauti_answer answer = { part, round, contributors };

	if (!op)
		return;
	tauti_answer_write(&answer, op->words);
	if (peer->has_board)
		tauti_board_copy(peer->board.base + at, data, bytes);
	op_send(op, 0, tauti_tag_of(TAUTI_TAG_ANSWER, part, 0), op->words,
		sizeof op->words);
	if (!peer->has_board)
		op_send(op, 1, tauti_tag_of(TAUTI_TAG_DATA, part, 0), data,
			bytes);
	all_began(op);
}

static void await_table(struct tauti_peer *peer, uint32_t n)
{
	size_t bytes = (size_t)n * TAUTI_SAID_BYTES;
	struct tauti_op *op;

	if (peer->has_declared || n > TAUTI_PARTS_MOST) {
		tauti_peer_doom(peer, "it declares twice, or too much");
		return;
	}
	peer->has_declared = true;
	peer->n_table = n;
	peer->table = malloc(bytes ? bytes : 1);
	if (!peer->table)
		tauti_peer_doom(peer, "the server is out of memory");
	op = op_begin(peer, TAUTI_OP_TABLE, 0, 0, bytes);
	if (!op)
		return;
	peer->awaits_table = true;
	op_recv(op, tauti_tag_of(TAUTI_TAG_TABLE, 0, 0), peer->table, bytes);
	all_began(op);
}

/* --- what has ended ------------------------------------------------------------------------- */

/* A worker of this host that gets everything over the network. */
static void note_unshared(struct taut_server *server,
	const struct tauti_peer *peer, const char *why)
{
	if (!server->unshared.code)
		taut_error_set(&server->unshared, TAUT_EIO, -1, "worker %" PRIu32
			" of this host shares no memory with the server: %.400s",
			peer->worker, why);
}

/* A board for all of its parts, where there is memory; errors as of that. */
static taut_status make_board(struct taut_server *server,
	struct tauti_peer *peer, struct taut_error *reterr)
{
	size_t bytes = tauti_core_bytes(server->core);
	uint64_t most = server->options.memory_bytes;
	struct taut_server_counts counts;

	if (!bytes) /* no part lives here */
		return TAUT_OK;
	tauti_core_counts(server->core, &counts);
	if (most && counts.state_bytes + server->board_bytes + bytes > most)
		return taut_error_set(reterr, TAUT_EIO, -1, "memory to be "
			"shared: %zu bytes more are over the limit of %" PRIu64,
			bytes, most);
	return tauti_board_create(bytes, &peer->board, reterr);
}

/* Without a board a name that is empty. */
static void offer_board(struct taut_server *server, struct tauti_peer *peer)
{
	struct taut_error why;
	struct tauti_op *op;

	if (make_board(server, peer, &why))
		note_unshared(server, peer, why.message);
	else
		server->board_bytes += peer->board.bytes;
	tauti_board_write(peer->board.name, peer->board_words);
	op = op_begin(peer, TAUTI_OP_BOARD, 0, 0, sizeof peer->board_words);
	if (!op)
		return;
	op_send(op, 0, tauti_tag_of(TAUTI_TAG_BOARD, 0, 0), peer->board_words,
		sizeof peer->board_words);
	all_began(op);
}

/* It counts no longer, for others may have one. */
static void close_board(struct taut_server *server, struct tauti_peer *peer)
{
	if (peer->board.base)
		server->board_bytes -= peer->board.bytes;
	tauti_board_close(&peer->board);
}

/* It has opened the board, or could not. */
static void take_board(
	struct taut_server *server, struct tauti_peer *peer, bool has_it)
{
	if (peer->has_board || (has_it && !peer->board.base)) {
		tauti_peer_doom(peer, "it has a board that nobody gave it");
		return;
	}
	peer->has_board = has_it;
	if (has_it) {
		tauti_board_settle(&peer->board);
		return;
	}
	note_unshared(server, peer, "it could not open it");
	close_board(server, peer);
}

static void take_table(struct taut_server *server, struct tauti_peer *peer)
{
	struct tauti_part_said *said = calloc(
		peer->n_table ? peer->n_table : 1, sizeof *said);
	struct taut_error err = { .message = "out of memory" };
	taut_status status = said ? TAUT_OK : TAUT_ENOMEM;

	for (uint32_t i = 0; i < peer->n_table && !status; i++)
		if (!tauti_said_read(peer->table +
			(size_t)i * TAUTI_SAID_BYTES, &said[i]))
			status = taut_error_set(&err, TAUT_EFORMAT, -1,
				"what it declares is no list of parts");
	if (!status)
		status = tauti_core_declare(server->core, peer->worker, said,
			peer->n_table, &err);
	if (status)
		tauti_peer_doom(peer, "%s", err.message);
	else if (peer->near)
		offer_board(server, peer);
	free(said);
	free(peer->table);
	peer->table = NULL;
}

static void take_ask(struct taut_server *server, struct tauti_peer *peer,
	const uint8_t *words)
{
	struct taut_error err = { .message = "" };
	struct tauti_asked asked;

	if (peer->leaves || !tauti_asked_read(words, &asked))
		tauti_peer_doom(peer, "it asks for what is not there");
	else if (asked.ask == TAUTI_ASK_DECLARE)
		await_table(peer, asked.part);
	else if (asked.ask == TAUTI_ASK_LEAVE)
		peer->leaves = true;
	else if (asked.ask == TAUTI_ASK_BOARD)
		take_board(server, peer, asked.part);
	else if (tauti_core_ask(server->core, peer->worker, asked.part,
		asked.ask, asked.round, &err))
		tauti_peer_doom(peer, "%s", err.message);
}

static void recycle(struct tauti_peer *peer, struct tauti_op *op)
{
	op->next = peer->unused;
	peer->unused = op;
}

/* Asks are handled in the order in which they were sent, and those after a table
 * when that is there. False: there is none now. */
static bool take_next_ask(struct taut_server *server, struct tauti_peer *peer)
{
	uint32_t i = peer->n_asked % TAUTI_ASKS_AHEAD;
	struct tauti_op *op = peer->asks[i];

	if (!op || peer->awaits_table)
		return false;
	peer->asks[i] = NULL;
	take_ask(server, peer, op->words);
	recycle(peer, op);
	await_ask(peer, peer->n_asked + TAUTI_ASKS_AHEAD);
	peer->n_asked++;
	return true;
}

static void tell_event(struct taut_server *server, const struct tauti_op *op,
	enum taut_server_did did)
{
	const struct taut_server_event event = { .did = did, .part = op->part,
		.worker = op->peer->worker, .round = op->round,
		.bytes = op->bytes, .start_ns = op->start_ns,
		.end_ns = tauti_now_ns() };

	if (server->options.event)
		server->options.event(server->options.context, &event);
}

static void take_op(struct taut_server *server, struct tauti_peer *peer,
	struct tauti_op *op)
{
	switch (op->kind) {
	case TAUTI_OP_ASK:
		peer->asks[op->round % TAUTI_ASKS_AHEAD] = op;
		return; /* take_next_ask() gives it back */
	case TAUTI_OP_TABLE:
		take_table(server, peer);
		peer->awaits_table = false;
		break;
	case TAUTI_OP_GO:
	case TAUTI_OP_BOARD:
		break;
	case TAUTI_OP_PUSH:
		tell_event(server, op, TAUT_SERVER_DID_PUSH);
		tauti_core_received(server->core, peer->worker, op->part);
		break;
	case TAUTI_OP_ANSWER:
		tell_event(server, op, TAUT_SERVER_DID_PULL);
		tauti_core_answered(server->core, peer->worker, op->part);
		break;
	}
	recycle(peer, op);
}

static struct tauti_op *next_ended(struct tauti_peer *peer)
{
	struct tauti_op *op = peer->ended;

	if (op) {
		peer->ended = op->next;
		if (!peer->ended)
			peer->ended_at = &peer->ended;
	}
	return op;
}

/* False: nothing has ended. */
static bool settle_one(struct taut_server *server, struct tauti_peer *peer)
{
	struct tauti_op *op;

	if (take_next_ask(server, peer))
		return true;
	op = next_ended(peer);
	if (!op)
		return false;
	if (!op->status) {
		take_op(server, peer, op);
		return true;
	}
	tauti_peer_doom(peer, op->status == TAUT_EMATCH ?
		"a message of it has another size than it should" :
		"its connection broke");
	recycle(peer, op);
	return true;
}

/* What is ended may end more: asks that came early are there as soon as they are awaited. */
bool tauti_peer_settle(
	struct taut_server *server, struct tauti_peer *peer, int64_t until_ns)
{
	bool some = false;

	while (!peer->doomed && settle_one(server, peer)) {
		some = true;
		if (tauti_now_ns() >= until_ns)
			break;
	}
	return some;
}

void tauti_peer_destroy(struct taut_server *server, struct tauti_peer *peer)
{
	struct tauti_op *op;

	if (!peer)
		return;
	peer->engine.table->destroy(peer->engine.context);
	while ((op = next_ended(peer)))
		recycle(peer, op);
	for (uint32_t i = 0; i < TAUTI_ASKS_AHEAD; i++)
		if (peer->asks[i])
			recycle(peer, peer->asks[i]);
	while (peer->unused) {
		op = peer->unused;
		peer->unused = op->next;
		free(op);
	}
	close_board(server, peer);
	tauti_link_close(&peer->link);
	free(peer->table);
	free(peer);
}
