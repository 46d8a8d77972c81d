/* An all-reduce of one message from each to each. One process plays all ranks, in any
 * order, some of which send and receive message by message instead; then threads
 * do. What comes early, late, wrong, or never. */
#include "coll/engines/shm_ranks.h"

#include "tests/support/alloc_fail.h"

enum { RANKS = 5, CHANNELS = 3, CALLS = 10, WINDOW = 4, WORLDS = 60 };

static const struct taut_coll_engine *table_of(struct job *job, uint32_t rank)
{
	return job->ranks[rank].engine.table;
}

/* --- one all-reduce ---------------------------------------------------------------------*/

struct part { /* of a rank in it */
	struct taut_coll_flat flat; /* first: done() gets it */
	int n_done;
	taut_status status;
	unsigned char *input, *output, *beside;
	/* of one that sends and receives */
	struct event sent, got[RANKS];
	unsigned char *come[RANKS];
	bool begun, by_steps;
};

static void note_part(struct taut_coll_request *request, taut_status status)
{
	struct part *part = (struct part *)request;

	part->n_done++;
	part->status = status;
}

static taut_status begin_flat(struct rank *rank, struct part *part, uint64_t tag,
	enum taut_type type, enum taut_reduction reduction, size_t count)
{
	part->n_done = 0;
	part->flat = (struct taut_coll_flat){ .request.done = note_part,
		.tag = tag, .type = type, .reduction = reduction,
		.into = part->output, .from = part->input,
		.beside = part->beside, .count = count, .peer = TAUT_NONE };
	return rank->engine.table->flat(
		rank->engine.context, &part->flat, &rank->err);
}

/* Of one element of 4 bytes. */
static taut_status begin_small(struct rank *rank, struct part *part,
	uint32_t *values, uint64_t tag)
{
	*part = (struct part){ .input = (void *)&values[0],
		.output = (void *)&values[1], .beside = (void *)&values[2] };
	return begin_flat(rank, part, tag, TAUT_INT32, TAUT_SUM, 1);
}

/* --- worlds -----------------------------------------------------------------------------*/

struct call {
	enum taut_type type;
	enum taut_reduction reduction;
	size_t count, bytes;
	struct part parts[RANKS];
};

struct world {
	uint64_t random;
	uint32_t n, next[RANKS][CHANNELS], over[RANKS][CHANNELS];
	struct job job;
	struct call calls[CHANNELS][CALLS];
};

static uint64_t pick(struct world *world, uint64_t below)
{
	uint64_t x = world->random += UINT64_C(0x9E3779B97F4A7C15);

	x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
	return (x ^ (x >> 31)) % below;
}

static unsigned char *room(size_t bytes)
{
	unsigned char *at = malloc(bytes + 1);

	assert_non_null(at);
	return at;
}

static void draw_part(struct world *world, const struct call *call,
	struct part *part)
{
	bool in_place = pick(world, 2);

	part->by_steps = pick(world, 4) == 0;
	part->input = room(call->bytes);
	for (size_t i = 0; i < call->bytes; i++)
		part->input[i] = (unsigned char)pick(world, 256);
	part->output = in_place ? part->input : room(call->bytes);
	part->beside = room(call->bytes);
}

static void draw_call(struct world *world, struct call *call)
{
	static const size_t most[] = { 1, 4, 12, 300, 3000, BIG / 8 };

	call->type = (enum taut_type)pick(world, TAUT_CARRIED_TYPES);
	do
		call->reduction = (enum taut_reduction)pick(
			world, TAUT_REDUCTIONS);
	while (!taut_reduces(call->type, call->reduction));
	call->count = 1 + pick(world, most[pick(world, pick(world, 9) ? 5 : 6)]);
	if (call->count > BIG / taut_type_bytes(call->type))
		call->count = BIG / taut_type_bytes(call->type);
	call->bytes = call->count * taut_type_bytes(call->type);
	for (uint32_t i = 0; i < world->n; i++)
		draw_part(world, call, &call->parts[i]);
}

/* What all have to end with, before anybody begins. */
static unsigned char *sum_of(struct world *world, struct call *call)
{
	unsigned char *sum = room(call->bytes);

	memcpy(sum, call->parts[0].input, call->bytes);
	for (uint32_t i = 1; i < world->n; i++)
		taut_reduce(call->type, call->reduction, sum, sum,
			call->parts[i].input, call->count);
	return sum;
}

static void begin_steps(struct world *world, uint32_t me, struct call *call,
	uint64_t tag)
{
	struct rank *rank = &world->job.ranks[me];
	struct part *part = &call->parts[me];
	uint32_t peers[RANKS], n = 0;

	for (uint32_t i = 0; i < world->n; i++)
		if (i != me)
			peers[n++] = i;
	part->sent = (struct event){ .request.done = note };
	assert_int_equal(rank->engine.table->send(rank->engine.context, peers, n,
		tag, part->input, call->bytes, &part->sent.request, NULL),
		TAUT_OK);
	for (uint32_t i = 0; i < n; i++) {
		part->come[peers[i]] = room(call->bytes);
		assert_int_equal(recv_one(rank, peers[i], tag,
			part->come[peers[i]], call->bytes,
			&part->got[peers[i]]), TAUT_OK);
	}
}

static void begin_call(struct world *world, uint32_t me, uint32_t channel)
{
	uint32_t k = world->next[me][channel]++;
	struct call *call = &world->calls[channel][k];
	struct part *part = &call->parts[me];
	uint64_t tag = (uint64_t)channel << 40 | k << 12;

	part->begun = true;
	if (part->by_steps)
		begin_steps(world, me, call, tag);
	else
		assert_int_equal(begin_flat(&world->job.ranks[me], part, tag,
			call->type, call->reduction, call->count), TAUT_OK);
}

static bool is_over(const struct world *world, uint32_t me,
	const struct part *part)
{
	if (!part->by_steps)
		return part->n_done > 0;
	for (uint32_t i = 0; i < world->n; i++)
		if (i != me && !part->got[i].n_done)
			return false;
	return part->sent.n_done;
}

/* The oldest call of a channel may be over. */
static void look(struct world *world, uint32_t me, uint32_t channel)
{
	uint32_t *over = &world->over[me][channel];

	while (*over < world->next[me][channel] && is_over(world, me,
		&world->calls[channel][*over].parts[me]))
		++*over;
}

static void step(struct world *world)
{
	uint32_t me = (uint32_t)pick(world, world->n);
	uint32_t channel = (uint32_t)pick(world, CHANNELS);
	struct rank *rank = &world->job.ranks[me];
	uint32_t next = world->next[me][channel];

	if (next < CALLS && next - world->over[me][channel] < WINDOW &&
		pick(world, 3) == 0) {
		begin_call(world, me, channel);
	} else {
		if (pick(world, 4) == 0)
			assert_int_equal(rank->engine.table->wait(
				rank->engine.context, 0, NULL), TAUT_OK);
		assert_int_equal(progress(rank), TAUT_OK);
	}
	look(world, me, channel);
}

static bool all_over(const struct world *world)
{
	for (uint32_t i = 0; i < world->n; i++)
		for (uint32_t c = 0; c < CHANNELS; c++)
			if (world->over[i][c] < CALLS)
				return false;
	return true;
}

static void check_part(struct world *world, struct call *call, uint32_t me,
	unsigned char *const *inputs, const unsigned char *sum)
{
	struct part *part = &call->parts[me];

	if (part->by_steps) {
		for (uint32_t i = 0; i < world->n; i++) {
			if (i != me)
				assert_memory_equal(part->come[i], inputs[i],
					call->bytes);
			free(part->come[i]);
		}
	} else {
		assert_int_equal(part->n_done, 1);
		assert_int_equal(part->status, TAUT_OK);
		assert_memory_equal(part->output, sum, call->bytes);
	}
	if (part->output != part->input)
		free(part->output);
	free(part->input);
	free(part->beside);
}

static void run_world(struct world *world, uint64_t seed)
{
	static unsigned char *sums[CHANNELS][CALLS];
	static unsigned char *inputs[CHANNELS][CALLS][RANKS];
	uint64_t n_steps = 0;

	*world = (struct world){ .random = seed };
	world->n = 2 + (uint32_t)pick(world, RANKS - 1);
	make(&world->job, world->n);
	for (uint32_t c = 0; c < CHANNELS; c++)
		for (uint32_t k = 0; k < CALLS; k++) {
			struct call *call = &world->calls[c][k];

			draw_call(world, call);
			sums[c][k] = sum_of(world, call);
			for (uint32_t i = 0; i < world->n; i++) {
				inputs[c][k][i] = room(call->bytes);
				memcpy(inputs[c][k][i], call->parts[i].input,
					call->bytes);
			}
		}
	for (; !all_over(world); n_steps++) {
		assert_true(n_steps < 1000000); /* a deadlock */
		step(world);
	}
	for (uint32_t c = 0; c < CHANNELS; c++)
		for (uint32_t k = 0; k < CALLS; k++)
			for (uint32_t i = 0; i < world->n; i++)
				check_part(world, &world->calls[c][k], i,
					inputs[c][k], sums[c][k]);
	for (uint32_t c = 0; c < CHANNELS; c++)
		for (uint32_t k = 0; k < CALLS; k++) {
			free(sums[c][k]);
			for (uint32_t i = 0; i < world->n; i++)
				free(inputs[c][k][i]);
		}
	for (uint32_t i = 0; i < world->n; i++) {
		const struct tauti_shm *it = engine_of(&world->job, i);

		assert_null(it->flats);
		assert_int_equal(it->asked.n, 0);
		assert_int_equal(it->come.n, 0);
	}
	end(&world->job);
}

static void test_worlds(void **state)
{
	struct world *world = malloc(sizeof *world);

	(void)state;
	assert_non_null(world);
	for (uint64_t seed = 1; seed <= WORLDS; seed++)
		run_world(world, seed);
	free(world);
}

/* --- threads ----------------------------------------------------------------------------*/

enum { ROUNDS = 400 };

static uint32_t value_of(uint32_t rank, uint32_t round, size_t i)
{
	return rank * 1000003u + round * 101u + (uint32_t)i;
}

static void sum_one(struct rank *rank, struct part *part, uint32_t round,
	size_t count)
{
	uint32_t *data = (void *)part->input;

	for (size_t i = 0; i < count; i++)
		data[i] = value_of(rank->rank, round, i);
	if (begin_flat(rank, part, round, TAUT_INT32, TAUT_SUM, count))
		abort();
	while (!part->n_done) {
		if (progress(rank) != TAUT_OK)
			abort();
		if (!part->n_done && rank->engine.table->wait(
				rank->engine.context, -1, &rank->err) != TAUT_OK)
			abort();
	}
	for (size_t i = 0; i < count; i++) {
		uint32_t sum = 0;

		for (uint32_t k = 0; k < rank->job->n_ranks; k++)
			sum += value_of(k, round, i);
		rank->err.offset += data[i] != sum;
	}
}

static void sum_many(struct rank *rank)
{
	static const size_t counts[] = { 1, 10, 11, 250, 266, 267, 3000 };
	struct part part = { .input = calloc(1, BIG), .beside = calloc(1, BIG) };

	if (!part.input || !part.beside)
		abort();
	part.output = part.input;
	rank->err.offset = 0;
	for (uint32_t round = 0; round < ROUNDS; round++)
		sum_one(rank, &part, round, round % 50 == 49 ? BIG / 4 :
			counts[round % 7]);
	free(part.input);
	free(part.beside);
}

static void sum_asleep(struct rank *rank)
{
	struct tauti_shm *it = rank->engine.context;

	it->spin_ns = 0;
	it->n_yields = 0;
	sum_many(rank);
}

static void sum_fenced(struct rank *rank)
{
	((struct tauti_shm *)rank->engine.context)->map.fenced = true;
	sum_asleep(rank);
}

static void run_sums(uint32_t n, void (*work)(struct rank *rank))
{
	struct job job;

	begin(&job, n, NULL, work);
	run_threads(&job);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(job.ranks[i].status, TAUT_OK);
		assert_int_equal(job.ranks[i].err.offset, 0);
	}
	end(&job);
}

static void test_threads(void **state)
{
	(void)state;
	for (uint32_t n = 2; n < 5; n++)
		run_sums(n, sum_many);
	run_sums(2, sum_asleep);
	run_sums(4, sum_asleep);
	run_sums(3, sum_fenced);
}

/* --- what was taken out of its FIFO ------------------------------------------------------*/

static void send_value(struct job *job, uint32_t from, uint32_t to, uint64_t tag,
	uint32_t value)
{
	struct event sent;

	assert_int_equal(send_one(&job->ranks[from], to, tag, &value,
		sizeof value, &sent), TAUT_OK);
	expect(&sent, 1, TAUT_OK);
}

/* Who asks for something else of a rank keeps what came before it. */
static void keep(struct job *job, uint32_t me, uint32_t from)
{
	static struct event got[RANKS];
	static uint32_t value[RANKS];

	assert_int_equal(recv_one(&job->ranks[me], from, 1000 + from,
		&value[from], sizeof value[from], &got[from]), TAUT_OK);
	assert_int_equal(got[from].n_done, 0);
}

/* Each of four ranks waits for the three others, whose messages come in any order and
 * are kept: it sleeps until it can go on, and not longer. */
static void test_kept(void **state)
{
	static const uint32_t orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 },
		{ 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };

	(void)state;
	for (uint32_t me = 0; me < 4; me++)
		for (size_t o = 0; o < 6; o++) {
			uint32_t values[3] = { 1u << me }, come = 0;
			struct job job;
			struct part part;
			struct tauti_shm *it;

			make(&job, 4);
			it = engine_of(&job, me);
			assert_int_equal(begin_small(&job.ranks[me], &part,
				values, 7), TAUT_OK);
			for (uint32_t i = 0; i < 3; i++) {
				uint32_t from = (me + 1 + orders[o][i]) % 4;
				uint32_t at = it->flats->at;
				bool can;

				send_value(&job, from, me, 7, 1u << from);
				keep(&job, me, from);
				come |= 1u << from;
				can = it->flats->sum ? come >> at & 1 :
					(come & 3) == 3;
				assert_int_equal(tauti_shm_flat_kept(it), can);
				if (can)
					assert_int_equal(table_of(&job, me)->wait(
						it, -1, NULL), TAUT_OK);
				assert_int_equal(progress(&job.ranks[me]),
					TAUT_OK);
			}
			assert_int_equal(part.n_done, 1);
			assert_int_equal(values[1], 15);
			end(&job);
		}
}

/* Nothing waits behind a message that a flat will take: in the end it is kept. */
static void test_nothing_behind(void **state)
{
	uint32_t values[3] = { 1 }, value = 0;
	struct part part;
	struct job job;
	struct tauti_shm *it;
	int turns = 0;

	(void)state;
	make(&job, 3);
	it = engine_of(&job, 0);
	assert_int_equal(begin_small(&job.ranks[0], &part, values, 7), TAUT_OK);
	send_value(&job, 2, 0, 7, 4);
	send_value(&job, 2, 0, 8, 5);
	for (; !table_of(&job, 0)->arrived(it, 8, UINT64_MAX); turns++) {
		assert_true(turns < 100);
		assert_int_equal(progress(&job.ranks[0]), TAUT_OK);
	}
	send_value(&job, 1, 0, 7, 2);
	assert_int_equal(progress(&job.ranks[0]), TAUT_OK);
	assert_int_equal(part.n_done, 1);
	assert_int_equal(values[1], 7);
	assert_int_equal(recv_one(&job.ranks[0], 2, 8, &value, sizeof value,
		&(struct event){ 0 }), TAUT_OK);
	assert_int_equal(value, 5);
	end(&job);
}

/* --- what is full, wrong, or refused -----------------------------------------------------*/

enum { MANY = 600 };

static bool any_flats(struct job *job)
{
	for (uint32_t i = 0; i < job->n_ranks; i++)
		if (engine_of(job, i)->flats)
			return true;
	return false;
}

/* More than the FIFOs hold, and than there are slots. In place, while what is to be
 * sent waits for room. */
static void run_full(size_t count)
{
	static struct part parts[3][MANY];
	uint32_t n = count > 1 ? 3 * TAUTI_SHM_MOST_SLOTS : MANY;
	uint32_t *data = calloc(3 * (size_t)n * count, sizeof *data);
	uint32_t *beside = calloc(n * count, sizeof *beside);
	struct job job;

	assert_true(data && beside);
	make(&job, 3);
	for (uint32_t r = 0; r < 3; r++)
		for (uint32_t i = 0; i < n; i++) {
			uint32_t *at = data + (r * (size_t)n + i) * count;

			at[count - 1] = i << r * 2;
			parts[r][i] = (struct part){ .input = (void *)at,
				.output = (void *)at,
				.beside = (void *)(beside + i * count) };
			assert_int_equal(begin_flat(&job.ranks[r], &parts[r][i],
				i, TAUT_INT32, TAUT_SUM, count), TAUT_OK);
		}
	for (int turn = 0; turn < 4000 && any_flats(&job); turn++)
		assert_int_equal(progress(&job.ranks[turn % 3]), TAUT_OK);
	for (uint32_t r = 0; r < 3; r++)
		for (uint32_t i = 0; i < n; i++) {
			assert_int_equal(parts[r][i].n_done, 1);
			assert_int_equal(parts[r][i].status, TAUT_OK);
			assert_int_equal(data[(r * (size_t)n + i + 1) * count - 1],
				i + (i << 2) + (i << 4));
		}
	end(&job);
	free(data);
	free(beside);
}

static void test_full(void **state)
{
	(void)state;
	run_full(1);
	run_full(SHORT); /* 4 times as many bytes */
}

/* One of the others has another length, and is named. */
static void test_lengths(void **state)
{
	(void)state;
	for (uint32_t me = 0; me < 4; me++)
		for (uint32_t bad = 0; bad < 4; bad++) {
			uint32_t values[3] = { 1, 0, 0 };
			uint64_t wide = 1;
			struct event sent;
			struct part part;
			struct job job;

			if (bad == me)
				continue;
			make(&job, 4);
			assert_int_equal(begin_small(&job.ranks[me], &part,
				values, 7), TAUT_OK);
			for (uint32_t i = 0; i < 4; i++)
				if (i != me)
					assert_int_equal(send_one(&job.ranks[i],
						me, 7, &wide, i == bad ? 8 : 4,
						&sent), TAUT_OK);
			assert_int_equal(progress(&job.ranks[me]), TAUT_OK);
			assert_int_equal(part.n_done, 1);
			assert_int_equal(part.status, TAUT_EMATCH);
			assert_int_equal(part.flat.peer, bad);
			end(&job);
		}
}

static void test_nonsense(void **state)
{
	uint32_t values[3] = { 1 };
	struct tauti_shm_line *line;
	struct part part, second;
	struct job job;

	(void)state;
	make(&job, 2);
	assert_int_equal(begin_small(&job.ranks[1], &part, values, 7), TAUT_OK);
	line = engine_of(&job, 0)->peers[1].out.lines;
	line->slot = TAUTI_SHM_MOST_SLOTS;
	line->sequence = 1;
	for (int i = 0; i < 100 && !part.n_done; i++)
		(void)progress(&job.ranks[1]);
	assert_int_equal(progress(&job.ranks[1]), TAUT_EFORMAT);
	assert_non_null(strstr(job.ranks[1].err.message, "rank 0"));
	assert_int_equal(part.n_done, 1);
	assert_int_equal(part.status, TAUT_EFORMAT);
	assert_int_equal(begin_small(&job.ranks[1], &second, values, 8),
		TAUT_EFORMAT);
	assert_int_equal(second.n_done, 0);
	end(&job);
}

static void test_refused(void **state)
{
	static const uint32_t host_of[] = { 0, 0, 1 };
	static char data[BIG + 4];
	uint32_t values[3] = { 1 };
	struct part part;
	struct job job;

	(void)state;
	begin(&job, 3, host_of, NULL);
	run_threads(&job);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(begin_small(&job.ranks[i], &part, values, 7),
			TAUT_EINVAL);
		assert_int_equal(part.n_done, 0);
	}
	end(&job);
	make(&job, 2);
	part = (struct part){ .input = (void *)data, .output = (void *)data };
	assert_int_equal(begin_flat(&job.ranks[0], &part, 7, TAUT_INT32,
		TAUT_SUM, sizeof data / 4), TAUT_EINVAL);
	assert_int_equal(part.n_done, 0);
	end(&job);
}

/* What is under way when the engine goes: some of it waits for room. */
static void test_destroy(void **state)
{
	static struct part parts[MANY];
	uint32_t values[3] = { 1 };
	struct job job;

	(void)state;
	make(&job, 2);
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(begin_small(&job.ranks[0], &parts[i], values,
			i), TAUT_OK);
	assert_int_not_equal(engine_of(&job, 0)->n_queued, 0);
	end(&job);
	for (uint32_t i = 0; i < MANY; i++) {
		assert_int_equal(parts[i].n_done, 1);
		assert_int_equal(parts[i].status, TAUT_EIO);
	}
}

/* Nothing began, and the other rank has seen nothing of it. */
static void test_no_memory(void **state)
{
	static struct part parts[MANY];
	uint32_t values[3] = { 1 }, n = 0;
	struct job job;

	(void)state;
	make(&job, 2);
	alloc_fail_after(0);
	assert_int_equal(begin_small(&job.ranks[0], &parts[0], values, 0),
		TAUT_ENOMEM);
	alloc_fail_never();
	assert_false(tauti_shm_any(&engine_of(&job, 1)->peers[0].in));
	while (!engine_of(&job, 0)->n_queued) {
		assert_true(n < MANY);
		assert_int_equal(begin_small(&job.ranks[0], &parts[n], values,
			n), TAUT_OK);
		n++;
	}
	alloc_fail_after(1); /* what it sends has to wait */
	assert_int_equal(begin_small(&job.ranks[0], &parts[n], values, n),
		TAUT_ENOMEM);
	alloc_fail_never();
	assert_int_equal(parts[n].n_done, 0);
	end(&job);
	assert_int_equal(parts[n].n_done, 0);
	assert_int_equal(parts[n - 1].n_done, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_worlds),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_nothing_behind),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_destroy),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
