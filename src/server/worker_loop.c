/* worker_loop.c - the thread of a worker; see worker.h. */
#include "server/worker.h"

#include <fenv.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

static const uint32_t server_rank = 0; /* in the engine of two */
static const int64_t tell_ns = 500000000;
static const int64_t move_ns = 10000000; /* at a time: then links are looked after */

/* What the thread knows besides. */
struct loop {
	struct taut_server_worker *worker;
	uint8_t **tables; /* what each server is told; until the end */
	struct taut_coll_request *told; /* 4 a server: what is declared, as two; the
	                                   goodbye; whether it has the board */
	uint8_t (*asks)[3][TAUTI_ASK_BYTES];
	bool has_declared, says_goodbye;
	uint32_t n_awaited; /* boards: nothing is pushed before all are known */
	int64_t goodbye_ns;
};

static void gone(struct taut_server_worker *worker,
	const struct tauti_server_link *server, const char *why)
{
	struct taut_error line;

	taut_error_set(&line, TAUT_EIO, -1, "server %u (%.200s) is gone: "
		"%.200s", (unsigned)(server - worker->servers), server->name,
		why);
	tauti_worker_fail(worker, &line);
}

/* --- messages --------------------------------------------------------------------------------- */

static taut_status send_to(struct taut_server_worker *worker,
	struct tauti_server_link *server, uint64_t tag, const void *data,
	size_t bytes, struct taut_coll_request *request)
{
	struct taut_error err = { .message = "" };
	taut_status status = server->engine.table->send(server->engine.context,
		&server_rank, 1, tag, data, bytes, request, &err);

	if (status)
		gone(worker, server, err.message);
	return status;
}

static taut_status ask(struct taut_server_worker *worker,
	struct tauti_server_link *server, const struct tauti_asked *asked,
	uint8_t words[TAUTI_ASK_BYTES], struct taut_coll_request *request)
{
	tauti_asked_write(asked, words);
	return send_to(worker, server, tauti_tag_of(TAUTI_TAG_ASK, 0,
		server->n_asked++), words, TAUTI_ASK_BYTES, request);
}

static void forget(struct taut_coll_request *request, taut_status status)
{
	(void)request; /* a fault is the link's or the engine's to tell */
	(void)status;
}

static void no_memory(struct taut_server_worker *worker)
{
	struct taut_error line;

	taut_error_set(&line, TAUT_ENOMEM, -1, "worker: out of memory");
	tauti_worker_fail(worker, &line);
}

/* --- declaring ---------------------------------------------------------------------------------- */

static uint32_t count_parts(
	const struct taut_server_worker *worker, uint32_t server)
{
	uint32_t n = 0;

	for (size_t i = 0; i < worker->n_trips; i++)
		n += worker->trips[i].place.server == server;
	return n;
}

/* As the server places them: in the order of its table. */
static void place_on_board(struct taut_server_worker *worker, uint32_t server)
{
	size_t at = 0;

	for (size_t k = 0; k < worker->n_trips; k++) {
		struct tauti_trip *trip = &worker->trips[k];

		if (trip->place.server != server)
			continue;
		trip->at = at;
		at = tauti_board_next(at, (size_t)trip->place.count *
			taut_type_bytes(trip->type));
	}
	worker->servers[server].board_bytes = at;
}

/* Inside the engine. */
static void on_board(struct taut_coll_request *request, taut_status status)
{
	struct tauti_server_link *server = (struct tauti_server_link *)request;

	server->board_came = !status;
}

static void await_board(struct loop *loop, struct tauti_server_link *server)
{
	struct tauti_engine *engine = &server->engine;
	struct taut_error err = { .message = "" };

	if (!server->near)
		return;
	server->board_request = (struct taut_coll_request){ on_board };
	loop->n_awaited++;
	if (engine->table->recv(engine->context, server_rank,
		tauti_tag_of(TAUTI_TAG_BOARD, 0, 0), server->board_words,
		sizeof server->board_words, &server->board_request, &err))
		gone(loop->worker, server, err.message);
}

/* A board that cannot be opened is none: all goes over the engine then. */
static void take_board(struct loop *loop, uint32_t i)
{
	struct tauti_server_link *server = &loop->worker->servers[i];
	struct tauti_asked asked = { TAUTI_ASK_BOARD, 0, 0 };
	char name[TAUTI_BOARD_NAME_BYTES];

	server->board_came = false;
	loop->n_awaited--;
	if (!tauti_board_read(server->board_words, name)) {
		gone(loop->worker, server, "it answers what was not asked");
		return;
	}
	if (!name[0])
		return;
	asked.part = !tauti_board_open(
		name, server->board_bytes, &server->board, NULL);
	(void)ask(loop->worker, server, &asked, loop->asks[i][2],
		&loop->told[4 * i + 3]);
}

/* True: one had come. */
static bool take_boards(struct loop *loop)
{
	bool some = false;

	for (uint32_t i = 0; i < loop->worker->n_servers && loop->n_awaited; i++)
		if (loop->worker->servers[i].board_came) {
			some = true;
			take_board(loop, i);
		}
	return some;
}

static void declare_to(struct loop *loop, uint32_t i)
{
	struct taut_server_worker *worker = loop->worker;
	const struct tauti_asked asked = { TAUTI_ASK_DECLARE,
		count_parts(worker, i), 0 };
	uint8_t *at = malloc((size_t)asked.part * TAUTI_SAID_BYTES + 1);

	if (!at) {
		no_memory(worker);
		return;
	}
	loop->tables[i] = at;
	place_on_board(worker, i);
	for (size_t k = 0; k < worker->n_trips; k++) {
		const struct tauti_trip *trip = &worker->trips[k];
		const struct tauti_part_said said = { trip->part, trip->type,
			trip->place.count, trip->hash };

		if (trip->place.server != i)
			continue;
		tauti_said_write(&said, at);
		at += TAUTI_SAID_BYTES;
	}
	if (!ask(worker, &worker->servers[i], &asked, loop->asks[i][0],
		&loop->told[4 * i]))
		(void)send_to(worker, &worker->servers[i],
			tauti_tag_of(TAUTI_TAG_TABLE, 0, 0), loop->tables[i],
			(size_t)asked.part * TAUTI_SAID_BYTES,
			&loop->told[4 * i + 1]);
	await_board(loop, &worker->servers[i]);
}

/* Once there is something to declare, and before it is asked for. */
static void declare(struct loop *loop)
{
	struct taut_server_worker *worker = loop->worker;
	bool is_open;

	pthread_mutex_lock(&worker->mutex);
	is_open = worker->is_open;
	pthread_mutex_unlock(&worker->mutex);
	if (!is_open || loop->has_declared)
		return;
	loop->has_declared = true;
	for (uint32_t i = 0; i < worker->n_servers; i++)
		declare_to(loop, i);
}

/* --- trips ------------------------------------------------------------------------------------------ */

static void receive(struct tauti_trip *trip, int i, uint64_t tag, void *into,
	size_t bytes)
{
	struct tauti_engine *engine = &trip->server->engine;
	struct taut_error err = { .message = "" };

	trip->halves[1].pending++;
	if (!engine->table->recv(engine->context, server_rank, tag, into, bytes,
		&trip->halves[1].requests[i].request, &err))
		return;
	trip->halves[1].pending--;
	gone(trip->worker, trip->server, err.message);
}

static void send(struct tauti_trip *trip, int i, uint64_t tag,
	const void *data, size_t bytes)
{
	trip->halves[0].pending++;
	if (send_to(trip->worker, trip->server, tag, data, bytes,
		&trip->halves[0].requests[i].request))
		trip->halves[0].pending--;
}

static struct tauti_asked what_to_ask(
	struct tauti_trip *trip, enum taut_server_verb verb)
{
	struct tauti_asked asked = { 0, trip->part, 0 };

	if (verb == TAUT_SERVER_PUSH || verb == TAUT_SERVER_PUSH_PULL)
		asked.ask = TAUTI_ASK_PUSH;
	if (verb == TAUT_SERVER_FIRST && trip->worker->worker == 0)
		asked.ask = TAUTI_ASK_FIRST;
	if (verb != TAUT_SERVER_PUSH)
		asked.ask |= TAUTI_ASK_PULL;
	trip->pushed += asked.ask & TAUTI_ASK_PUSH;
	asked.round = trip->pushed;
	return asked;
}

static void scale(const struct tauti_trip *trip,
	const struct tauti_worker_key *key, uint8_t *data)
{
	if (tauti_scales(trip->type) && (key->factor > 0 || key->factor < 0) &&
		(key->factor > 1 || key->factor < 1))
		tauti_scale(trip->type, data, key->factor, trip->place.count);
}

static void begin_halves(struct tauti_trip *trip, uint64_t number)
{
	for (int i = 0; i < 2; i++) {
		struct tauti_half *half = &trip->halves[i];

		half->pending = 1; /* so that it cannot end before all began */
		half->status = TAUT_OK;
		half->is_started = half->is_over = false;
	}
	trip->halves[0].number = number;
	trip->halves[0].is_started = true;
}

/* The part's own memory. */
static uint8_t *data_of(const struct tauti_trip *trip)
{
	return trip->worker->keys[trip->place.key].data +
		trip->place.first * taut_type_bytes(trip->type);
}

static size_t bytes_of(const struct tauti_trip *trip)
{
	return (size_t)trip->place.count * taut_type_bytes(trip->type);
}

/* NULL: what it carries is sent. */
static uint8_t *board_of(const struct tauti_trip *trip)
{
	uint8_t *base = trip->server->board.base;

	return base ? base + trip->at : NULL;
}

/* What was pulled is on the board. */
static void read_board(const struct tauti_trip *trip)
{
	tauti_board_copy(data_of(trip), board_of(trip), bytes_of(trip));
}

static void push(struct tauti_trip *trip)
{
	trip->goes = true;
	send(trip, 1, tauti_tag_of(TAUTI_TAG_PUSH, trip->part, trip->pushed),
		data_of(trip), bytes_of(trip));
}

/* The half does not end before it has come: what is pushed is under way until the server
 * has a place for it, also where it has gone ahead. */
static void await_go(struct tauti_trip *trip)
{
	struct tauti_engine *engine = &trip->server->engine;
	struct taut_error err = { .message = "" };

	trip->goes = false;
	trip->halves[0].pending++;
	if (!engine->table->recv(engine->context, server_rank,
		tauti_tag_of(TAUTI_TAG_GO, trip->part, 0), trip->go, sizeof trip->go,
		&trip->go_request, &err))
		return;
	trip->halves[0].pending--;
	gone(trip->worker, trip->server, err.message);
}

/* Where what is pulled goes. */
static void await_answer(struct tauti_trip *trip)
{
	if (trip->pulls)
		receive(trip, 0, tauti_tag_of(TAUTI_TAG_ANSWER, trip->part, 0),
			trip->answer, sizeof trip->answer);
	if (trip->pulls && !board_of(trip))
		receive(trip, 1, tauti_tag_of(TAUTI_TAG_DATA, trip->part, 0),
			data_of(trip), bytes_of(trip));
	tauti_half_done(&trip->halves[1], TAUT_OK);
}

/* At once, where the server has room for it or it is known to keep what lies there. */
static bool goes_ahead(struct tauti_trip *trip)
{
	size_t bytes = bytes_of(trip);

	if (bytes <= TAUTI_AT_ONCE_BYTES)
		return true;
	if (trip->server->ahead_bytes + bytes > TAUTI_AHEAD_BYTES)
		return false;
	trip->server->ahead_bytes += bytes;
	return true;
}

/* Its answer cannot have come before. Awaited from the first, those of all parts would be
 * looked through for each GO. */
static void push_late(struct tauti_trip *trip)
{
	await_answer(trip);
	push(trip);
}

/* True: a push was asked for. */
static bool push_some(struct taut_server_worker *worker, int64_t until_ns)
{
	bool some = false;

	while (worker->may_go && !(some && tauti_now_ns() >= until_ns)) {
		struct tauti_trip *trip = worker->may_go;
		struct tauti_answer go;

		some = true;
		worker->may_go = trip->next;
		if (!worker->may_go)
			worker->may_go_at = &worker->may_go;
		if (trip->go_status)
			gone(worker, trip->server, "its connection broke");
		else if (!tauti_answer_read(trip->go, &go) || go.part != trip->part ||
			go.round != trip->pushed)
			gone(worker, trip->server, "it answers what was not asked");
		else if (trip->goes)
			trip->server->ahead_bytes -= bytes_of(trip);
		else
			push_late(trip);
		tauti_half_done(&trip->halves[0], TAUT_OK);
	}
	return some;
}

/* Asks for both at once: what is pulled is sent as soon as it is there. */
static void begin_push(struct taut_server_worker *worker,
	struct tauti_trip *trip, uint64_t number)
{
	const struct tauti_worker_key *key = &worker->keys[trip->place.key];
	uint8_t *data = data_of(trip), *board = board_of(trip);
	size_t bytes = bytes_of(trip);
	struct tauti_asked asked = what_to_ask(trip, key->verb);
	bool pushes = asked.ask & (TAUTI_ASK_PUSH | TAUTI_ASK_FIRST);
	bool sends = pushes && !board, at_once = sends && goes_ahead(trip);

	trip->pulls = asked.ask & TAUTI_ASK_PULL;
	begin_halves(trip, number);
	if (!worker->n_under_way++)
		worker->busy_from_ns = tauti_now_ns();
	if (asked.ask & TAUTI_ASK_PUSH)
		scale(trip, key, data);
	if (pushes && board)
		tauti_board_copy(board, data, bytes);
	if (sends && bytes > TAUTI_AT_ONCE_BYTES)
		await_go(trip);
	if (!sends || at_once)
		await_answer(trip);
	tauti_asked_write(&asked, trip->ask);
	send(trip, 0, tauti_tag_of(TAUTI_TAG_ASK, 0, trip->server->n_asked++),
		trip->ask, sizeof trip->ask);
	if (at_once)
		push(trip);
	tauti_half_done(&trip->halves[0], TAUT_OK);
}

static void note(struct taut_server_worker *worker,
	const struct tauti_trip *trip, uint32_t contributors)
{
	struct tauti_worker_key *key = &worker->keys[trip->place.key];
	uint64_t bytes = trip->place.count * taut_type_bytes(trip->type);
	bool pushed = key->verb == TAUT_SERVER_PUSH ||
		key->verb == TAUT_SERVER_PUSH_PULL ||
		(key->verb == TAUT_SERVER_FIRST && !worker->worker);

	pthread_mutex_lock(&worker->mutex);
	if (trip->pulls && contributors < key->contributors)
		key->contributors = contributors;
	worker->counts.pushed_bytes += pushed ? bytes : 0;
	worker->counts.pulled_bytes += trip->pulls ? bytes : 0;
	if (!--worker->n_under_way)
		worker->counts.busy_ns += tauti_now_ns() -
			worker->busy_from_ns;
	pthread_mutex_unlock(&worker->mutex);
}

/* When both the scheduler and the wire are that far. */
static void finish_half(
	struct taut_server_worker *worker, struct tauti_half *half)
{
	struct taut_error err = { .message = "" };
	struct tauti_answer answer = { 0, 0, 0 };

	if (!half->is_started || !half->is_over)
		return;
	if (half == &half->trip->halves[1]) {
		(void)!tauti_answer_read(half->trip->answer, &answer);
		note(worker, half->trip, answer.contributors);
	}
	if (taut_sched_finished(worker->sched, half->number, &err))
		tauti_worker_fail(worker, &err);
}

static void begin_piece(struct taut_server_worker *worker,
	const struct taut_sched_piece *piece)
{
	struct tauti_trip *trip = &worker->trips[piece->task / 2];

	if (piece->task % 2 == 0) {
		begin_push(worker, trip, piece->number);
		return;
	}
	trip->halves[1].number = piece->number;
	trip->halves[1].is_started = true;
	finish_half(worker, &trip->halves[1]);
}

/* What the scheduler has started since, until then at most. True: there may be more. */
static bool begin_pieces(struct loop *loop, int64_t until_ns)
{
	struct taut_server_worker *worker = loop->worker;

	for (;;) {
		struct taut_sched_piece piece = { .task = 0 };
		bool some;

		declare(loop);
		pthread_mutex_lock(&worker->mutex);
		some = worker->queue_count && !worker->fault.code &&
			loop->has_declared && !loop->n_awaited;
		if (some) {
			piece = worker->queue[worker->queue_from];
			worker->queue_from = (worker->queue_from + 1) %
				(2 * worker->n_trips);
			worker->queue_count--;
		}
		pthread_mutex_unlock(&worker->mutex);
		if (!some)
			return false;
		begin_piece(worker, &piece);
		if (tauti_now_ns() >= until_ns)
			return true;
	}
}

static void end_half(struct taut_server_worker *worker, struct tauti_half *half)
{
	struct tauti_trip *trip = half->trip;
	bool pulled = half == &trip->halves[1] && trip->pulls;
	struct tauti_answer answer;

	if (half->status) {
		gone(worker, trip->server, half->status == TAUT_EMATCH ?
			"a message of it has another size than it should" :
			"its connection broke");
		return;
	}
	if (pulled && (!tauti_answer_read(trip->answer, &answer) ||
		answer.part != trip->part)) {
		gone(worker, trip->server, "it answers what was not asked");
		return;
	}
	if (pulled && board_of(trip))
		read_board(trip);
	half->is_over = true;
	finish_half(worker, half);
}

static bool settle(struct taut_server_worker *worker, int64_t until_ns)
{
	bool some = false;

	while (worker->ended && !(some && tauti_now_ns() >= until_ns)) {
		struct tauti_half *half = worker->ended;

		worker->ended = half->next;
		if (!worker->ended)
			worker->ended_at = &worker->ended;
		some = true;
		end_half(worker, half);
	}
	return some;
}

/* --- links ------------------------------------------------------------------------------------------- */

static void listen_to(struct loop *loop, struct tauti_server_link *server)
{
	struct taut_server_worker *worker = loop->worker;
	struct tauti_frame frame;
	taut_status status = TAUT_OK;
	struct taut_error line;
	char text[400];

	while (status == TAUT_OK && !server->has_left) {
		status = tauti_link_read(&server->link, &frame);
		if (status == TAUT_OK && frame.kind == TAUTI_LOST) {
			tauti_frame_line(&frame, text, sizeof text);
			taut_error_set(&line, TAUT_EIO, -1, "%s", text);
			tauti_worker_fail(worker, &line);
			return;
		}
		if (status == TAUT_OK) {
			server->has_left = frame.kind == TAUTI_LEAVE;
			if (server->has_left && !loop->says_goodbye)
				gone(worker, server, "it left before this worker");
			server->link.watched = true;
		} else if (status != TAUT_EAGAIN) {
			gone(worker, server,
				tauti_link_why(&server->link, status));
		}
	}
	(void)tauti_link_write(&server->link);
}

static void look_after_links(struct loop *loop)
{
	struct taut_server_worker *worker = loop->worker;
	int64_t now_ns;

	for (uint32_t i = 0; i < worker->n_servers; i++)
		listen_to(loop, &worker->servers[i]);
	now_ns = tauti_now_ns();
	for (uint32_t i = 0; i < worker->n_servers; i++) {
		struct tauti_server_link *server = &worker->servers[i];
		int64_t silent_ns = now_ns - server->link.heard_ns;
		struct taut_error text;

		if (server->has_left || silent_ns < worker->lost_after_ns)
			continue;
		taut_error_set(&text, TAUT_OK, -1, "it says nothing for %.3g s",
			(double)silent_ns / 1e9);
		gone(worker, server, text.message);
	}
	if (now_ns < worker->beat_ns)
		return;
	worker->beat_ns = now_ns + worker->beat_every_ns;
	for (uint32_t i = 0; i < worker->n_servers; i++) {
		struct tauti_link *link = &worker->servers[i].link;

		if (!worker->servers[i].has_left && tauti_link_idle(link) &&
			tauti_link_put(link, TAUTI_BEAT, NULL, 0))
			(void)tauti_link_write(link);
	}
}

/* --- the end ------------------------------------------------------------------------------------------- */

static void tell_all(struct taut_server_worker *worker)
{
	int64_t until_ns = tauti_meet_now_ns() + tell_ns;
	struct taut_error why;

	if (!tauti_worker_fault(worker, &why))
		return;
	for (uint32_t i = 0; i < worker->n_servers; i++) {
		struct tauti_link *link = &worker->servers[i].link;

		if (!worker->servers[i].has_left && tauti_link_tell(
			link, worker->worker, TAUT_EIO, why.message))
			tauti_links_flush(link, 1, until_ns);
		tauti_link_close(link);
	}
}

static void say_goodbye(struct loop *loop)
{
	static const struct tauti_asked asked = { TAUTI_ASK_LEAVE, 0, 0 };
	struct taut_server_worker *worker = loop->worker;

	loop->says_goodbye = true;
	loop->goodbye_ns = tauti_now_ns();
	for (uint32_t i = 0; i < worker->n_servers; i++)
		(void)ask(worker, &worker->servers[i], &asked, loop->asks[i][1],
			&loop->told[4 * i + 2]);
}

/* True: it is over. */
static bool leave(struct loop *loop)
{
	struct taut_server_worker *worker = loop->worker;
	struct taut_error line;
	bool leaves, busy, all = true;

	pthread_mutex_lock(&worker->mutex);
	leaves = worker->leaves && !worker->fault.code;
	busy = worker->n_busy > 0;
	pthread_mutex_unlock(&worker->mutex);
	if (!leaves)
		return false;
	if (busy) {
		taut_error_set(&line, TAUT_EIO, -1, "worker %" PRIu32 " left "
			"in the middle of a round", worker->worker);
		tauti_worker_fail(worker, &line);
		return false;
	}
	if (!loop->says_goodbye)
		say_goodbye(loop);
	for (uint32_t i = 0; i < worker->n_servers; i++)
		all &= worker->servers[i].has_left;
	return all || tauti_now_ns() - loop->goodbye_ns >=
		worker->lost_after_ns;
}

/* --- turns ------------------------------------------------------------------------------------------------ */

/* True: there is more, and the time is over. */
static bool move(struct loop *loop)
{
	struct taut_server_worker *worker = loop->worker;
	struct taut_error err = { .message = "" };
	int64_t until_ns = tauti_earlier_ns(
		tauti_now_ns() + move_ns, worker->beat_ns);
	bool some;

	do {
		some = begin_pieces(loop, until_ns);
		for (uint32_t i = 0; i < worker->n_servers; i++) {
			struct tauti_server_link *server = &worker->servers[i];

			if (!server->has_left && server->engine.table->progress(
				server->engine.context, &err))
				gone(worker, server, err.message);
		}
		some |= push_some(worker, until_ns);
		some |= settle(worker, until_ns);
		some |= take_boards(loop);
	} while (some && tauti_now_ns() < until_ns);
	return some;
}

/* busy: looks only. */
static void sleep_some(struct loop *loop, bool busy)
{
	struct taut_server_worker *worker = loop->worker;
	int64_t timeout_ns = busy ? 0 : worker->beat_ns - tauti_now_ns();
	struct taut_error err = { .message = "" };
	uint64_t count;
	size_t n = 0;

	worker->polls[n++] = (struct pollfd){ .fd = worker->wake_fd,
		.events = POLLIN };
	for (uint32_t i = 0; i < worker->n_servers; i++) {
		struct tauti_server_link *server = &worker->servers[i];
		struct tauti_engine *engine = &server->engine;

		if (server->has_left)
			continue;
		if (busy || engine->table->arm(engine->context, &err) ||
			worker->ended ||
			worker->may_go || server->board_came)
			timeout_ns = 0; /* a fault is seen in the next turn */
		worker->polls[n++] = (struct pollfd){ .events = POLLIN,
			.fd = engine->table->fd(engine->context) };
		worker->polls[n++] = (struct pollfd){ .fd = server->link.fd,
			.events = (short)(POLLIN |
				(tauti_link_idle(&server->link) ? 0 : POLLOUT)) };
	}
	pthread_mutex_lock(&worker->mutex);
	worker->counts.sleeps += timeout_ns > 0;
	pthread_mutex_unlock(&worker->mutex);
	tauti_poll(worker->polls, n, timeout_ns);
	(void)!read(worker->wake_fd, &count, sizeof count);
}

static bool prepare(struct loop *loop)
{
	uint32_t n = loop->worker->n_servers;

	loop->tables = calloc(n, sizeof *loop->tables);
	loop->told = calloc(4 * (size_t)n, sizeof *loop->told);
	loop->asks = calloc(n, sizeof *loop->asks);
	for (uint32_t i = 0; loop->told && i < 4 * n; i++)
		loop->told[i].done = forget;
	return loop->tables && loop->told && loop->asks;
}

/* Engines first: what they read is freed after them. */
static void finish(struct loop *loop)
{
	struct taut_server_worker *worker = loop->worker;

	tell_all(worker);
	for (uint32_t i = 0; i < worker->n_servers; i++) {
		struct tauti_engine *engine = &worker->servers[i].engine;

		engine->table->destroy(engine->context);
		engine->table = NULL;
		if (loop->tables)
			free(loop->tables[i]);
		tauti_link_close(&worker->servers[i].link);
	}
	free(loop->tables);
	free(loop->told);
	free(loop->asks);
}

/* A program may have told its threads to flush small numbers to zero, and threads
 * that they make inherit it. */
void *tauti_worker_loop(void *context)
{
	struct loop loop = { .worker = context };
	struct taut_server_worker *worker = context;
	bool busy;

	(void)fesetenv(FE_DFL_ENV);
	if (!prepare(&loop))
		no_memory(worker);
	while (!tauti_worker_fault(worker, NULL)) {
		/* A closed link is seen before an engine hears of it. */
		look_after_links(&loop);
		if (tauti_worker_fault(worker, NULL))
			break;
		declare(&loop);
		busy = move(&loop);
		if (leave(&loop))
			break;
		if (!tauti_worker_fault(worker, NULL))
			sleep_some(&loop, busy);
	}
	finish(&loop);
	return NULL;
}
