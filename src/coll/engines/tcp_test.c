/* The engine over TCP: what comes in slices of any kind, nonsense, ranks that end, and how
 * ranks connect. */
#include "tests/support/ranks.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include "coll/engines/tcp.h"
#include "tests/support/alloc_fail.h"
#include "tests/support/link_local.h"
#include "tests/support/waits.h"

static const int64_t second_ns = 1000000000;

/* --- an engine whose other end is the test's -----------------------------------------------*/

struct pair {
	struct tauti_engine engine; /* of rank 0 */
	int other;                  /* what rank 1 says and hears */
};

static struct pair pair_of(const int ends[2], uint32_t n_ranks)
{
	struct tauti_tcp *tcp = NULL;

	assert_int_equal(tauti_tcp_open(0, n_ranks, &tcp, NULL), TAUT_OK);
	assert_int_equal(tauti_tcp_give(tcp, 1, ends[0], NULL), TAUT_OK);
	return (struct pair){ { &tauti_tcp_engine, tcp }, ends[1] };
}

static struct pair pair_make(void)
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	return pair_of(ends, 2);
}

static struct pair pair_over_tcp(uint32_t n_ranks)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof at;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	int ends[2] = { socket(AF_INET, SOCK_STREAM, 0) };

	assert_int_equal(bind(listener, (void *)&at, sizeof at), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (void *)&at, &bytes), 0);
	assert_int_equal(connect(ends[0], (void *)&at, sizeof at), 0);
	ends[1] = accept(listener, NULL, NULL);
	assert_int_not_equal(ends[1], -1);
	assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	close(listener);
	return pair_of(ends, n_ranks);
}

static void pair_end(struct pair *pair)
{
	pair->engine.table->destroy(pair->engine.context);
	if (pair->other >= 0)
		close(pair->other);
}

static void progress(struct pair *pair)
{
	struct taut_error err = { .message = "" };

	if (pair->engine.table->progress(pair->engine.context, &err))
		fail_msg("%s", err.message);
}

static size_t put_head(uint8_t *to, uint64_t tag, uint64_t bytes)
{
	for (int i = 0; i < 8; i++) {
		to[i] = (uint8_t)(tag >> 8 * i);
		to[8 + i] = (uint8_t)(bytes >> 8 * i);
	}
	return TAUTI_TCP_HEAD;
}

static uint64_t draw(uint64_t *state, uint64_t below)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state % below;
}

/* --- slices -------------------------------------------------------------------------------*/

enum { MESSAGES = 12, FLOATS = 50000 };

struct message {
	struct wait wait;
	size_t count; /* of floats */
	bool reduces, asked;
	float *sent, *into, *own;
};

static void ask(struct pair *pair, struct message *message, uint64_t tag)
{
	const struct taut_coll_engine *table = pair->engine.table;
	void *engine = pair->engine.context;

	message->asked = true;
	wait_init(&message->wait);
	assert_int_equal(message->reduces ? table->recv_reduce(engine, 1, tag,
		TAUT_FLOAT32, TAUT_SUM, message->into, message->own, message->count,
		&message->wait.request, NULL) : table->recv(engine, 1, tag, message->into,
		message->count * 4, &message->wait.request, NULL), TAUT_OK);
}

static struct message message_make(uint64_t *state)
{
	size_t count = draw(state, 3) ? draw(state, 60) : draw(state, FLOATS);
	struct message message = { .count = count, .reduces = draw(state, 2),
		.sent = malloc(count * 4 + 1), .into = malloc(count * 4 + 1),
		.own = malloc(count * 4 + 1) };

	for (size_t i = 0; i < count; i++) {
		message.sent[i] = (float)draw(state, 1000);
		message.own[i] = (float)draw(state, 1000);
		message.into[i] = -1;
	}
	return message;
}

static void message_check(struct message *message)
{
	assert_true(message->wait.over);
	assert_int_equal(message->wait.status, TAUT_OK);
	for (size_t i = 0; i < message->count; i++)
		if (message->into[i] != message->sent[i] +
			(message->reduces ? message->own[i] : 0))
			fail_msg("element %zu of %zu is %g", i, message->count,
				(double)message->into[i]);
	free(message->sent);
	free(message->into);
	free(message->own);
}

/* One after the other, each asked for before it comes, while it does, or after it. */
static void play_slices(uint64_t seed)
{
	struct pair pair = pair_make();
	struct message messages[MESSAGES];
	uint8_t *stream = NULL;
	size_t bytes = 0, at = 0, asked = 0;
	uint64_t state = seed;

	for (uint32_t i = 0; i < MESSAGES; i++) {
		size_t of_data;

		messages[i] = message_make(&state);
		of_data = messages[i].count * 4;
		stream = realloc(stream, bytes + TAUTI_TCP_HEAD + of_data);
		bytes += put_head(stream + bytes, i, of_data);
		memcpy(stream + bytes, messages[i].sent, of_data);
		bytes += of_data;
	}
	while (at < bytes || asked < MESSAGES) {
		size_t most = draw(&state, 3) ? 40 : 200000;
		size_t some = 1 + draw(&state, most);
		ssize_t n;

		if (some > bytes - at)
			some = bytes - at;
		n = some ? send(pair.other, stream + at, some, MSG_DONTWAIT) : 0;
		at += n > 0 ? (size_t)n : 0;
		if (draw(&state, 4) == 0 && asked < MESSAGES) {
			uint32_t i = (uint32_t)draw(&state, MESSAGES);

			while (messages[i].asked)
				i = (i + 1) % MESSAGES;
			ask(&pair, &messages[i], i);
			asked++;
		}
		if (draw(&state, 3))
			progress(&pair);
	}
	for (int i = 0; i < 100; i++)
		progress(&pair);
	for (uint32_t i = 0; i < MESSAGES; i++)
		message_check(&messages[i]);
	free(stream);
	pair_end(&pair);
}

static void test_slices(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++)
		play_slices(seed * 0x9E3779B97F4A7C15u);
}

/* What goes out is its head and its bytes, in the order of the sends, also where the other
 * side takes it slowly. */
static void test_what_goes_out(void **state)
{
	enum { BYTES = 3 << 20 };
	struct pair pair = pair_make();
	const struct taut_coll_engine *table = pair.engine.table;
	uint8_t *big = malloc(BYTES), *heard = malloc(BYTES + 64), expected[16];
	const uint32_t peer = 1;
	struct wait waits[3];
	size_t have = 0;

	(void)state;
	for (size_t i = 0; i < BYTES; i++)
		big[i] = (uint8_t)(i * 7 + (i >> 10));
	for (int i = 0; i < 3; i++)
		wait_init(&waits[i]);
	assert_int_equal(table->send(pair.engine.context, &peer, 1, 5, big, BYTES,
		&waits[0].request, NULL), TAUT_OK);
	assert_int_equal(table->send(pair.engine.context, &peer, 1, 6, "", 0,
		&waits[1].request, NULL), TAUT_OK);
	assert_int_equal(table->send(pair.engine.context, &peer, 1, 7, "end", 3,
		&waits[2].request, NULL), TAUT_OK);
	assert_false(waits[0].over || waits[1].over || waits[2].over);
	while (have < BYTES + 51) {
		ssize_t n = recv(pair.other, heard + have, BYTES + 64 - have, MSG_DONTWAIT);

		have += n > 0 ? (size_t)n : 0;
		progress(&pair);
	}
	assert_true(waits[0].over && waits[1].over && waits[2].over);
	put_head(expected, 5, BYTES);
	assert_memory_equal(heard, expected, 16);
	assert_memory_equal(heard + 16, big, BYTES);
	put_head(expected, 6, 0);
	assert_memory_equal(heard + 16 + BYTES, expected, 16);
	put_head(expected, 7, 3);
	assert_memory_equal(heard + 32 + BYTES, expected, 16);
	assert_memory_equal(heard + 48 + BYTES, "end", 3);
	free(big);
	free(heard);
	pair_end(&pair);
}

/* --- sleep --------------------------------------------------------------------------------*/

/* The other side says so many bytes. Whether that wakes who sleeps, though what was there
 * before has been taken. */
static bool wakes(struct pair *pair, const uint8_t *bytes, size_t n)
{
	const struct taut_coll_engine *table = pair->engine.table;
	struct pollfd fd = { .fd = table->fd(pair->engine.context), .events = POLLIN };

	while (table->arm(pair->engine.context, NULL) == TAUT_EAGAIN)
		;
	assert_int_equal(poll(&fd, 1, 0), 0);
	assert_int_equal(send(pair->other, bytes, n, 0), n);
	return poll(&fd, 1, 50) == 1;
}

/* By the first bytes of a message, and then by a good deal of it or its end. */
static void test_what_wakes(void **state)
{
	enum { BYTES = 600000, ALL = TAUTI_TCP_HEAD + BYTES };
	struct pair pair = pair_over_tcp(2);
	uint8_t *stream = calloc(1, 2 * ALL), *into = malloc(BYTES);
	const uint8_t *at = stream;
	struct wait waits[2];

	(void)state;
	for (uint64_t i = 0; i < 2; i++) {
		put_head(stream + i * ALL, i, BYTES);
		wait_init(&waits[i]);
		assert_int_equal(pair.engine.table->recv(pair.engine.context, 1, i, into,
			BYTES, &waits[i].request, NULL), TAUT_OK);
	}
	assert_true(wakes(&pair, at, 1));
	assert_true(wakes(&pair, at + 1, TAUTI_TCP_HEAD));
	at += 1 + TAUTI_TCP_HEAD; /* the second byte of the message is next */
	assert_false(wakes(&pair, at, 200000));
	assert_false(wakes(&pair, at + 200000, 1000)); /* which arm() has taken before */
	at += 201000;
	assert_true(wakes(&pair, at, 300000));
	at += 300000;
	assert_false(wakes(&pair, at, 90000));
	assert_true(wakes(&pair, at + 90000, BYTES - 1 - 591000));
	assert_true(wakes(&pair, stream + ALL, 1));
	assert_true(waits[0].over && !waits[1].over);
	close(pair.other);
	pair.other = -1;
	pair_end(&pair);
	free(stream);
	free(into);
}

/* Says a part of a message, as it is taken in. */
static void say_zeros(struct pair *pair, size_t bytes)
{
	static const uint8_t zeros[1 << 16];

	while (bytes) {
		size_t most = bytes < sizeof zeros ? bytes : sizeof zeros;
		ssize_t some = send(pair->other, zeros, most, MSG_DONTWAIT);

		progress(pair);
		bytes -= some > 0 ? (size_t)some : 0;
	}
}

/* Says a message of that many bytes, all of it. */
static void say_message(struct pair *pair, uint64_t tag, size_t bytes)
{
	uint8_t head[TAUTI_TCP_HEAD];

	assert_int_equal(send(pair->other, head, put_head(head, tag, bytes), 0), sizeof head);
	say_zeros(pair, bytes);
	progress(pair);
}

/* Who slept amid a message and only looks from then on sees its end, and the next one, also
 * among so many ranks that the system is asked which of them has something. */
static void test_looks_after_sleep(void **state)
{
	enum { BYTES = 300000 };
	struct pair pair = pair_over_tcp(5);
	const struct taut_coll_engine *table = pair.engine.table;
	uint8_t head[TAUTI_TCP_HEAD], *into = malloc(BYTES);
	struct wait waits[2];
	int64_t until_ns;

	(void)state;
	for (uint64_t i = 0; i < 2; i++) {
		wait_init(&waits[i]);
		assert_int_equal(table->recv(pair.engine.context, 1, i, into, BYTES,
			&waits[i].request, NULL), TAUT_OK);
	}
	put_head(head, 0, BYTES);
	assert_int_equal(send(pair.other, head, sizeof head, 0), sizeof head);
	while (table->arm(pair.engine.context, NULL) == TAUT_EAGAIN)
		;
	say_zeros(&pair, BYTES);
	say_message(&pair, 1, BYTES);
	until_ns = tauti_now_ns() + 5 * second_ns;
	while (!waits[1].over && tauti_now_ns() < until_ns)
		progress(&pair);
	assert_true(waits[0].over && waits[1].over);
	free(into);
	pair_end(&pair);
}

/* --- nonsense -----------------------------------------------------------------------------*/

static void expect_nonsense(uint64_t tag, uint64_t bytes)
{
	struct pair pair = pair_make();
	struct taut_error err = { .message = "" };
	uint8_t head[TAUTI_TCP_HEAD];

	put_head(head, tag, bytes);
	assert_int_equal(send(pair.other, head, sizeof head, 0), sizeof head);
	assert_int_equal(pair.engine.table->progress(pair.engine.context, &err),
		TAUT_EFORMAT);
	assert_string_equal(err.message, "what rank 1 sends is no message");
	assert_int_equal(pair.engine.table->progress(pair.engine.context, NULL),
		TAUT_EFORMAT);
	pair_end(&pair);
}

static void test_nonsense(void **state)
{
	(void)state;
	expect_nonsense(UINT64_C(1) << TAUT_COLL_TAG_BITS, 4);
	expect_nonsense(3, TAUTI_TCP_MOST_BYTES + 1);
	expect_nonsense(3, UINT64_MAX);
}

/* One that says that it is a terabyte takes no memory for what has not come. */
static void test_a_long_promise(void **state)
{
	struct pair pair = pair_make();
	uint8_t head[TAUTI_TCP_HEAD];
	struct wait wait;

	(void)state;
	put_head(head, 3, TAUTI_TCP_MOST_BYTES);
	assert_int_equal(send(pair.other, head, sizeof head, 0), sizeof head);
	assert_int_equal(send(pair.other, "abc", 3, 0), 3);
	progress(&pair);
	assert_true(pair.engine.table->arrived(pair.engine.context, 3, UINT64_MAX));
	wait_init(&wait);
	assert_int_equal(pair.engine.table->recv(pair.engine.context, 1, 3, head, 3,
		&wait.request, NULL), TAUT_OK);
	assert_int_equal(wait.status, TAUT_EMATCH);
	pair_end(&pair);
}

/* --- one that goes ------------------------------------------------------------------------*/

/* The memory of a long message that nobody had asked for waits for the next long one, and
 * not for a few bytes that may lie there for long. */
static void test_rooms(void **state)
{
	enum { LONG = 1 << 20 };
	struct pair pair = pair_make();
	const struct tauti_tcp *tcp = pair.engine.context;

	(void)state;
	say_message(&pair, 1, LONG);
	assert_true(tauti_tcp_discard(pair.engine.context, 1, 1));
	assert_true(tcp->unused_bytes >= LONG);
	say_message(&pair, 2, 16);
	assert_true(tcp->unused_bytes >= LONG);
	say_message(&pair, 3, LONG);
	assert_int_equal(tcp->unused_bytes, 0);
	assert_true(tauti_tcp_discard(pair.engine.context, 1, 2));
	assert_true(tauti_tcp_discard(pair.engine.context, 1, 3));
	pair_end(&pair);
}

/* What it said is still heard; what it did not say is missed, a little later. */
static void test_it_closes(void **state)
{
	struct pair pair = pair_make();
	const struct taut_coll_engine *table = pair.engine.table;
	struct taut_error err = { .message = "" };
	int64_t begun_ns = tauti_now_ns();
	uint8_t head[TAUTI_TCP_HEAD];
	struct wait waits[2];
	char heard = 0;

	(void)state;
	put_head(head, 3, 1);
	assert_int_equal(send(pair.other, head, sizeof head, 0), sizeof head);
	assert_int_equal(send(pair.other, "x", 1, 0), 1);
	close(pair.other);
	pair.other = -1;
	for (int i = 0; i < 10; i++)
		progress(&pair);
	wait_init(&waits[0]);
	wait_init(&waits[1]);
	assert_int_equal(table->recv(pair.engine.context, 1, 3, &heard, 1,
		&waits[0].request, NULL), TAUT_OK);
	assert_int_equal(until_over(&pair.engine, &waits[0], 1, &err), TAUT_OK);
	assert_int_equal(heard, 'x');
	assert_int_equal(table->recv(pair.engine.context, 1, 4, &heard, 1,
		&waits[1].request, NULL), TAUT_OK);
	assert_int_equal(until_over(&pair.engine, &waits[1], 1, &err), TAUT_EIO);
	assert_string_equal(err.message, "rank 1 is gone: its connection closed");
	assert_true(tauti_now_ns() - begun_ns < 10 * second_ns);
	pair_end(&pair);
	assert_int_equal(waits[1].status, TAUT_EIO);
}

/* Who only sends to it hears of it, too. */
static void test_a_send_to_nobody(void **state)
{
	struct pair pair = pair_make();
	struct taut_error err = { .message = "" };
	const uint32_t peer = 1;
	struct wait wait;

	(void)state;
	close(pair.other);
	pair.other = -1;
	wait_init(&wait);
	assert_int_equal(pair.engine.table->send(pair.engine.context, &peer, 1, 3, "x", 1,
		&wait.request, NULL), TAUT_OK);
	assert_int_equal(until_over(&pair.engine, &wait, 1, &err), TAUT_EIO);
	assert_string_equal(err.message, "rank 1 is gone: its connection closed");
	pair_end(&pair);
	assert_int_equal(wait.status, TAUT_EIO);
}

/* --- leaving ------------------------------------------------------------------------------*/

/* Sends more than the other side's system has room for, all of which this one has then. */
static size_t leave_amid(struct pair *pair)
{
	enum { BYTES = 300000 };
	static const uint8_t data[BYTES];
	const uint32_t peer = 1;
	int little = 1 << 16, much = 1 << 20;
	struct wait wait;

	*pair = pair_over_tcp(2);
	assert_int_equal(setsockopt(pair->other, SOL_SOCKET, SO_RCVBUF, &little,
		sizeof little), 0);
	assert_int_equal(setsockopt(((struct tauti_tcp *)pair->engine.context)->peers[1].fd,
		SOL_SOCKET, SO_SNDBUF, &much, sizeof much), 0);
	wait_init(&wait);
	assert_int_equal(pair->engine.table->send(pair->engine.context, &peer, 1, 3, data,
		BYTES, &wait.request, NULL), TAUT_OK);
	assert_true(wait.over);
	return TAUTI_TCP_HEAD + BYTES;
}

static void *destroy(void *context)
{
	struct tauti_engine *engine = context;

	engine->table->destroy(engine->context);
	return NULL;
}

static size_t hear_all(struct pair *pair)
{
	uint8_t heard[4096];
	size_t bytes = 0;
	ssize_t n;

	while ((n = recv(pair->other, heard, sizeof heard, 0)) > 0)
		bytes += (size_t)n;
	return bytes;
}

/* What was sent comes, also where the other side had something to say that is not heard any
 * more. */
static void test_leaves_amid_messages(void **state)
{
	struct pair pair;
	size_t bytes = leave_amid(&pair);
	pthread_t thread;

	(void)state;
	assert_int_equal(send(pair.other, "before it leaves", 16, 0), 16);
	assert_int_equal(pthread_create(&thread, NULL, destroy, &pair.engine), 0);
	usleep(50000);
	(void)!send(pair.other, "while it does", 13, MSG_NOSIGNAL);
	assert_int_equal(hear_all(&pair), bytes);
	pthread_join(thread, NULL);
	close(pair.other);
}

static int64_t time_of_destroy(struct pair *pair)
{
	int64_t began_ns = tauti_now_ns();

	pair_end(pair);
	return tauti_now_ns() - began_ns;
}

/* Not for long where nobody reads, and not at all where all has come. */
static void test_leaving_takes(void **state)
{
	struct pair pair;
	const uint32_t peer = 1;
	struct wait wait;
	int64_t slow_ns, quick_ns;

	(void)state;
	leave_amid(&pair);
	slow_ns = time_of_destroy(&pair);
	assert_true(slow_ns > second_ns && slow_ns < 10 * second_ns);
	pair = pair_over_tcp(2);
	wait_init(&wait);
	assert_int_equal(pair.engine.table->send(pair.engine.context, &peer, 1, 3, "x", 1,
		&wait.request, NULL), TAUT_OK);
	quick_ns = time_of_destroy(&pair);
	assert_true(wait.over && quick_ns < second_ns);
}

/* --- memory -------------------------------------------------------------------------------*/

static void test_memory(void **state)
{
	struct tauti_tcp *tcp = NULL;
	taut_status status = TAUT_ENOMEM;
	struct pair pair;
	const uint32_t peer = 1;
	struct wait wait;
	long n;
	char byte;

	(void)state;
	for (n = 0; status; n++) {
		alloc_fail_after(n);
		status = tauti_tcp_open(0, 2, &tcp, NULL);
		alloc_fail_never();
		assert_true(!status || status == TAUT_ENOMEM);
	}
	assert_true(n > 3);
	tauti_tcp_engine.destroy(tcp);
	pair = pair_make();
	wait_init(&wait);
	for (long k = 0; k < 2; k++) {
		alloc_fail_after(k);
		status = pair.engine.table->send(pair.engine.context, &peer, 1, 3, "x", 1,
			&wait.request, NULL);
		alloc_fail_never();
		assert_int_equal(status, k || !wait.over ? TAUT_ENOMEM : TAUT_OK);
	}
	pair_end(&pair);
	assert_false(wait.over);
	pair = pair_make();
	alloc_fail_after(0);
	assert_int_equal(pair.engine.table->recv(pair.engine.context, 1, 3, &byte, 1,
		&wait.request, NULL), TAUT_ENOMEM);
	alloc_fail_never();
	assert_false(wait.over);
	pair_end(&pair);
}

/* --- connecting ---------------------------------------------------------------------------
 * Ranks that take part in the meeting as those do that connect. MUTE calls nobody and
 * listens nowhere; ANOTHER is at its place, and does not know what it should. HOARDER
 * calls rank 0 when the process may open nothing more. */

enum role { JOINS, MUTE, ANOTHER, HOARDER };
enum { MOST = 100 };

struct job {
	char where[96];
	const char *host; /* NULL: 127.0.0.1 */
	struct sockaddr_in6 at; /* where who pretends says it is; none: there, too */
	enum role roles[MOST];
	const uint32_t *host_of; /* by rank; NULL: each has its own */
	int64_t within_ns;
	struct taut_error error[MOST];
	int room[MOST]; /* the least that a connection has for what comes */
	int64_t try_ns; /* 0: they cannot do without */
	bool without[MOST];
};

static taut_status pretend(struct tauti_meet *meet, const struct ranks_one *one,
	struct taut_error *err)
{
	const struct job *job = one->shared;
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t bytes = sizeof at;
	int listener = socket(AF_INET, SOCK_STREAM, 0), guest = -1;
	uint8_t card[40] = { 4, 1 }, all[40 * MOST], nothing[24] = { 0 };
	uint32_t fine[2] = { 0, TAUT_NONE }, told[2 * MOST];
	struct rlimit files, few;
	taut_status status;

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (struct sockaddr *)&at, bytes) || listen(listener, 8) ||
		getsockname(listener, (struct sockaddr *)&at, &bytes))
		return TAUT_EIO;
	memcpy(card + 2, &at.sin_port, 2);
	memcpy(card + 4, &at.sin_addr, 4);
	if (job->at.sin6_family == AF_INET6) {
		card[0] = 6;
		card[1] = 0;
		memcpy(card + 4, &job->at.sin6_addr, 16);
		memcpy(card + 20, &job->at.sin6_scope_id, 4);
	}
	if (job->roles[one->rank] == MUTE)
		close(listener);
	status = tauti_meet_gather(meet, card, sizeof card, all, err);
	if (!status && job->roles[one->rank] == ANOTHER) {
		guest = accept(listener, NULL, NULL);
		(void)!write(guest, nothing, sizeof nothing);
	}
	getrlimit(RLIMIT_NOFILE, &files);
	few = (struct rlimit){ 4, files.rlim_max }; /* and poll() takes no more */
	if (!status && job->roles[one->rank] == HOARDER) {
		guest = socket(AF_INET, SOCK_STREAM, 0);
		memcpy(&at.sin_port, all + 2, 2);
		setrlimit(RLIMIT_NOFILE, &few);
		(void)!connect(guest, (struct sockaddr *)&at, bytes);
	}
	if (!status)
		status = tauti_meet_gather(meet, fine, sizeof fine, told, err);
	setrlimit(RLIMIT_NOFILE, &files);
	if (guest >= 0)
		close(guest);
	if (job->roles[one->rank] != MUTE)
		close(listener);
	return status;
}

static int least_room(const struct tauti_tcp *tcp)
{
	int least = INT_MAX;

	for (uint32_t i = 0; i < tcp->n_ranks; i++) {
		int room = 0;
		socklen_t bytes = sizeof room;

		if (tcp->peers[i].fd < 0)
			continue;
		getsockopt(tcp->peers[i].fd, SOL_SOCKET, SO_RCVBUF, &room, &bytes);
		if (room < least)
			least = room;
	}
	return least;
}

static void *rank_main(void *context)
{
	struct ranks_one *one = context;
	struct job *job = one->shared;
	struct taut_error *err = &job->error[one->rank];
	struct tauti_meet_options options = { one->rank, one->n_ranks, job->where, "s",
		job->within_ns, 20 * second_ns, false };
	struct tauti_meet *meet = NULL;
	struct tauti_engine engine = { NULL, NULL };
	taut_status status = tauti_meet_create(&options, &meet, err);

	if (!status && job->roles[one->rank] != JOINS)
		status = pretend(meet, one, err);
	else if (!status && job->try_ns)
		status = tauti_tcp_try(meet, one->rank, one->n_ranks, NULL, job->try_ns,
			&engine, &job->without[one->rank], err);
	else if (!status)
		status = tauti_tcp_create(meet, one->rank, one->n_ranks,
			job->host_of, &engine, err);
	err->code = status;
	if (engine.table)
		job->room[one->rank] = least_room(engine.context);
	if (engine.table)
		engine.table->destroy(engine.context);
	tauti_meet_destroy(meet);
	return NULL;
}

static void run(struct job *job, uint32_t n_ranks)
{
	struct ranks_one ones[MOST];

	if (!job->within_ns)
		job->within_ns = 20 * second_ns;
	snprintf(job->where, sizeof job->where, "%s:%u",
		job->host ? job->host : "127.0.0.1", ranks_free_port());
	ranks_start(ones, 0, n_ranks, rank_main, job);
	ranks_join(ones, 0, n_ranks);
}

static void expect_line(const struct job *job, uint32_t rank, const char *line)
{
	assert_int_equal(job->error[rank].code, TAUT_EIO);
	assert_string_equal(job->error[rank].message, line);
}

static void test_all_connect(void **state)
{
	struct job job = { .within_ns = 0 };

	(void)state;
	run(&job, 9);
	for (uint32_t i = 0; i < 9; i++)
		if (job.error[i].code)
			fail_msg("rank %u: %s", i, job.error[i].message);
}

/* More at once than there is room for: no rank is dropped before it has spoken. */
static void test_many_call(void **state)
{
	static const uint32_t host_of[MOST] = { 1 }; /* all call rank 0, and nobody else */

	(void)state;
	for (int turn = 0; turn < 3; turn++) {
		struct job job = { .host_of = host_of };

		run(&job, MOST);
		for (uint32_t i = 0; i < MOST; i++)
			if (job.error[i].code)
				fail_msg("rank %u: %s", i, job.error[i].message);
	}
}

/* What the system allows without a lock on the size; 0: it is not known. */
static long most_room(void)
{
	FILE *file = fopen("/proc/sys/net/ipv4/tcp_rmem", "re");
	long least, usual, most = 0;

	if (file && fscanf(file, "%ld %ld %ld", &least, &usual, &most) != 3)
		most = 0;
	if (file)
		fclose(file);
	return most;
}

/* From the first message on, and not when the system has learnt of it. */
static void test_room(void **state)
{
	struct job job = { .within_ns = 0 };

	(void)state;
	if (most_room() < 4 << 20)
		skip();
	run(&job, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(job.room[i] >= 1 << 20);
}

/* The highest calls, and nobody is there: all hear it from the first that sees it. */
static void test_nobody_listens(void **state)
{
	struct job job = { .roles = { [1] = MUTE } };

	(void)state;
	run(&job, 3);
	expect_line(&job, 2, "TCP: rank 2 has no way to rank 1: Connection refused");
	expect_line(&job, 0,
		"TCP: rank 2 has no connection to rank 1: there is no way to it");
}

/* The number that a host has for a link is its own: another one calls by its own. */
static void test_by_a_link(void **state)
{
	struct job job = { .roles = { [1] = MUTE } };
	char host[64];

	(void)state;
	if (!link_local(&job.at, host, sizeof host))
		skip();
	job.host = host;
	job.at.sin6_scope_id = 12345;
	run(&job, 3);
	expect_line(&job, 2, "TCP: rank 2 has no way to rank 1: Connection refused");
}

static void test_nobody_calls(void **state)
{
	struct job job = { .roles = { [1] = MUTE }, .within_ns = second_ns };

	(void)state;
	run(&job, 2);
	expect_line(&job, 0, "rank 1 does not answer by TCP within 0.75 s");
}

/* Who calls cannot be let in: it says why, and sleeps meanwhile. */
static void test_nobody_is_let_in(void **state)
{
	struct job job = { .roles = { [1] = HOARDER }, .within_ns = second_ns };
	clock_t began = clock();

	(void)state;
	run(&job, 2);
	expect_line(&job, 0, "rank 1 does not answer by TCP within 0.75 s, and nobody can "
		"be let in: Too many open files");
	assert_true(clock() - began < CLOCKS_PER_SEC / 5);
}

/* Who can do without waits no longer than it says, and all hear that they go without. */
static void test_tries(void **state)
{
	struct job good = { .try_ns = 20 * second_ns };
	struct job mute = { .roles = { [1] = MUTE }, .try_ns = second_ns / 2 };
	int64_t began_ns;

	(void)state;
	run(&good, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(!good.error[i].code && !good.without[i]);
	began_ns = tauti_now_ns();
	run(&mute, 2);
	assert_true(tauti_now_ns() - began_ns < 10 * second_ns);
	expect_line(&mute, 0, "rank 1 does not answer by TCP within 0.5 s");
	assert_true(mute.without[0]);
}

static void test_somebody_else_is_there(void **state)
{
	struct job job = { .roles = { [0] = ANOTHER } };

	(void)state;
	run(&job, 2);
	expect_line(&job, 1, "TCP: rank 1 has no way to rank 0: somebody else is there");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slices),
		cmocka_unit_test(test_what_goes_out),
		cmocka_unit_test(test_what_wakes),
		cmocka_unit_test(test_looks_after_sleep),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_a_long_promise),
		cmocka_unit_test(test_rooms),
		cmocka_unit_test(test_it_closes),
		cmocka_unit_test(test_a_send_to_nobody),
		cmocka_unit_test(test_leaves_amid_messages),
		cmocka_unit_test(test_leaving_takes),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_all_connect),
		cmocka_unit_test(test_many_call),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_nobody_listens),
		cmocka_unit_test(test_by_a_link),
		cmocka_unit_test(test_nobody_calls),
		cmocka_unit_test(test_nobody_is_let_in),
		cmocka_unit_test(test_tries),
		cmocka_unit_test(test_somebody_else_is_there),
	};

	return cmocka_run_group_tests_name("TCP", tests, NULL, NULL);
}
