/* server.c - what a worker says to a server: declarations, asks, in any order, of
 * two workers; with messages that arrive or do not, and workers that go. The first
 * byte has the server's options. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 4096, WORKERS = 2, UNDER_WAY = 64 };

struct going {
	bool answers;
	uint32_t worker, part;
	void *into;
	const void *data;
	size_t bytes;
};

struct net {
	struct going going[UNDER_WAY];
	size_t n;
	bool full, near;
};

static void begin(struct net *net, const struct going *going)
{
	if (net->n < UNDER_WAY)
		net->going[net->n++] = *going;
	else
		net->full = true;
}

static void on_receive(void *context, uint32_t worker, uint32_t part,
	uint32_t round, void *into, size_t bytes)
{
	const struct going going = { false, worker, part, into, NULL, bytes };

	(void)round;
	begin(context, &going);
}

static void on_answer(void *context, uint32_t worker, uint32_t part,
	uint32_t round, const void *data, size_t bytes, uint32_t contributors)
{
	const struct going going = { true, worker, part, NULL, data, bytes };

	(void)round;
	if (!contributors || contributors > WORKERS)
		abort();
	begin(context, &going);
}

static void end_one(struct tauti_core *core, struct net *net, uint8_t which)
{
	struct going going;
	uint8_t sum = 0;
	size_t at;

	if (!net->n)
		return;
	at = which % net->n;
	going = net->going[at];
	net->n--;
	net->going[at] = net->going[net->n];
	if (going.answers) {
		for (size_t i = 0; i < going.bytes; i++)
			sum ^= ((const uint8_t *)going.data)[i];
		if (going.bytes > (size_t)1 << 20 && sum == 1)
			abort();
		tauti_core_answered(core, going.worker, going.part);
	} else {
		memset(going.into, which, going.bytes);
		tauti_core_received(core, going.worker, going.part);
	}
}

static void lose(struct tauti_core *core, struct net *net, uint32_t worker)
{
	size_t kept = 0;

	for (size_t i = 0; i < net->n; i++)
		if (net->going[i].worker != worker)
			net->going[kept++] = net->going[i];
	net->n = kept;
	tauti_core_lost(core, worker, "x", "y");
}

/* A table of what stands in the data; the number of bytes taken. */
static size_t declare(struct tauti_core *core, struct net *net,
	uint32_t worker, const uint8_t *data, size_t size)
{
	struct tauti_part_said said[8];
	size_t n = size ? data[0] % 8 : 0, at = 1;

	for (size_t i = 0; i < n; i++, at += TAUTI_SAID_BYTES)
		if (at + TAUTI_SAID_BYTES > size ||
			!tauti_said_read(data + at, &said[i])) {
			lose(core, net, worker);
			return size;
		}
	if (tauti_core_declare(core, worker, said, n, NULL))
		lose(core, net, worker);
	return at;
}

static size_t step(struct tauti_core *core, struct net *net,
	const uint8_t *data, size_t size)
{
	uint32_t worker = data[0] & 1;
	bool here = tauti_core_presence(core, worker) <= TAUTI_DECLARED;
	struct tauti_asked asked;

	if (data[0] & 16)
		(void)tauti_core_go_on(core);
	switch (data[0] >> 1 & 3) {
	case 0:
		if (here)
			return 1 + declare(core, net, worker, data + 1, size - 1);
		break;
	case 1:
		if (size < 1 + TAUTI_ASK_BYTES)
			return size;
		if (here && (!tauti_asked_read(data + 1, &asked) ||
			tauti_core_ask(core, worker, asked.part, asked.ask,
				asked.round, NULL)))
			lose(core, net, worker);
		return 1 + TAUTI_ASK_BYTES;
	case 2:
		end_one(core, net, data[0]);
		break;
	default:
		if (here && (data[0] & 64))
			lose(core, net, worker);
		else if (here && tauti_core_is_idle(core, worker))
			tauti_core_left(core, worker);
		break;
	}
	return 1;
}

/* What the odd workers push, where they are near. */
static const void *on_find(void *context, uint32_t worker, uint32_t part,
	uint32_t round, size_t bytes)
{
	static const uint8_t board[1 << 20];
	const struct net *net = context;

	(void)part;
	(void)round;
	if (bytes > sizeof board)
		abort(); /* more than the memory that there is */
	return net->near && worker % 2 ? board : NULL;
}

/* Whatever another one says, this side is neither silent for long nor busy with beats. */
static void read_greeting(const struct tauti_greeting *own, const uint8_t *words)
{
	int64_t beat_ns = tauti_greeting_beat_ns(own, words);
	struct taut_error err;

	(void)!tauti_greeting_check(own, words, "it", &err);
	if (beat_ns < 2500000 || beat_ns > own->lost_after_ns / 4)
		abort();
}

/* What is read is nothing, or what a server would have made: no other shared memory
 * is opened. */
static void read_name(const uint8_t *data)
{
	char name[TAUTI_BOARD_NAME_BYTES];

	if (!tauti_board_read(data, name) || !name[0])
		return;
	if (strlen(name) != 38 || memcmp(name, "/taut-", 6) != 0)
		abort();
	for (const char *c = name + 6; *c; c++)
		if ((*c < '0' || *c > '9') && (*c < 'a' || *c > 'f'))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct tauti_core_calls calls = { on_receive, on_answer,
		NULL, on_find };
	struct taut_server_options options = { .n_workers = WORKERS,
		.memory_bytes = 1 << 20, .landing_bytes = 256 };
	struct net net = { .n = 0 };
	struct tauti_core *core;
	uint8_t words[TAUTI_GREETING_BYTES] = { 0 };
	static const struct tauti_greeting own = { .version = TAUTI_WIRE_VERSION,
		.n_servers = 1, .n_workers = 2, .mode = TAUT_SERVER_SUMS,
		.lost_after_ns = 1000000000 };

	if (size < 1 || size > MOST)
		return 0;
	net.near = data[0] & 64;
	options.async = data[0] & 1;
	options.unordered = data[0] & 2;
	options.bounded = options.async && (data[0] & 4);
	options.on_loss = data[0] & 8 ? TAUT_SERVER_CONTINUE : TAUT_SERVER_END;
	options.update.rule = (enum taut_server_rule)(data[0] >> 4 & 3);
	memcpy(words, data, size < sizeof words ? size : sizeof words);
	read_greeting(&own, words);
	if (size >= TAUTI_BOARD_BYTES)
		read_name(data);
	if (tauti_core_create(&options, &calls, &net, &core, NULL))
		return 0;
	for (uint32_t w = 0; w < WORKERS; w++)
		if (tauti_core_join(core, w, NULL))
			abort();
	for (size_t at = 1; at < size && !net.full;)
		at += step(core, &net, data + at, size - at);
	tauti_core_destroy(core);
	return 0;
}
