/* The core in made-up worlds: delays, reordering, workers that leave or are lost at
 * any moment, against an oracle. From a seed; no clock and no network.
 *
 * Worker w pushes 2^w (times what the round says) in every element, so that a sum
 * tells by itself whose pushes are in it, exactly. */
#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

#include "server/server.h"

enum { WORKERS = 5, PARTS = 4, COUNT = 3, ROUNDS = 4, THINGS = 4096,
	STEPS_MOST = 20000 };

/* Something that is on its way. SENT: an answer has come, and who sent it does not know yet:
 * what its worker asks for next may be there before. */
enum thing_kind { ASK, RECEIVE, ANSWER, SENT };
struct thing {
	enum thing_kind kind;
	uint32_t worker, part, ask, round, contributors;
	void *into;
	const void *data;
	double seen[COUNT]; /* of an answer: as it was when it began */
};

struct worker {
	bool is_there, is_gone, in_peace;
	uint32_t round[PARTS];       /* pushed */
	uint32_t pulled[PARTS];
	uint32_t n_sent;             /* things of that kind */
	bool busy[PARTS];
	uint32_t dies_at, n_asked; /* after so many asks; TAUT_NONE: never */
};

struct world {
	uint64_t seed;
	struct taut_server_options options;
	struct tauti_core *core;
	struct worker workers[WORKERS];
	struct thing things[THINGS];
	size_t n_things;
	uint32_t n_workers, n_parts;
	double result[PARTS][ROUNDS + 1]; /* of a round; 0: nobody saw it yet */
	double async_sum[PARTS];
	/* What lies in memory that the server has, too, of workers that are near. */
	bool near[WORKERS];
	double board[WORKERS][PARTS][COUNT];
};

static uint32_t below(struct world *world, uint32_t n)
{
	world->seed = world->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((world->seed >> 33) % n);
}

static void put(struct world *world, struct thing thing)
{
	assert_true(world->n_things < THINGS);
	world->things[world->n_things++] = thing;
}

static void on_receive(void *context, uint32_t worker, uint32_t part,
	uint32_t round, void *into, size_t bytes)
{
	struct world *world = context;

	assert_int_equal(bytes, COUNT * sizeof(double));
	assert_false(world->workers[worker].is_gone);
	put(world, (struct thing){ .kind = RECEIVE, .worker = worker,
		.part = part, .round = round, .into = into });
}

static void on_answer(void *context, uint32_t worker, uint32_t part,
	uint32_t round, const void *data, size_t bytes, uint32_t contributors)
{
	struct world *world = context;
	struct thing thing = { .kind = ANSWER, .worker = worker, .part = part,
		.round = round, .data = data, .contributors = contributors };

	assert_false(world->workers[worker].is_gone);
	memcpy(thing.seen, data, bytes);
	if (world->near[worker])
		memcpy(world->board[worker][(part - 1) / 3], data, bytes);
	put(world, thing);
}

static const void *on_find(void *context, uint32_t worker, uint32_t part,
	uint32_t round, size_t bytes)
{
	struct world *world = context;

	assert_int_equal(bytes, COUNT * sizeof(double));
	assert_int_equal(round, world->workers[worker].round[(part - 1) / 3]);
	return world->near[worker] ? world->board[worker][(part - 1) / 3] : NULL;
}

static double pushed_by(uint32_t worker, uint32_t round)
{
	return (double)((uint64_t)1 << worker) + 1024.0 * round *
		(double)((uint64_t)1 << (6 * worker));
}

static void ask(struct world *world, uint32_t w, uint32_t part)
{
	struct worker *worker = &world->workers[w];

	put(world, (struct thing){ .kind = ASK, .worker = w, .part = 3 * part + 1,
		.ask = TAUTI_ASK_PUSH | TAUTI_ASK_PULL,
		.round = ++worker->round[part] });
	for (int i = 0; world->near[w] && i < COUNT; i++)
		world->board[w][part][i] = pushed_by(w, worker->round[part]);
	worker->busy[part] = true;
}

static void start(struct world *world, uint64_t seed)
{
	static const struct tauti_core_calls calls = { on_receive, on_answer,
		NULL, on_find };
	struct tauti_part_said said[PARTS];
	uint32_t may_die;

	*world = (struct world){ .seed = seed * 77 + 5 };
	world->n_workers = 1 + below(world, WORKERS);
	world->n_parts = 1 + below(world, PARTS);
	world->options = (struct taut_server_options){
		.n_workers = world->n_workers, .async = below(world, 3) == 0,
		.unordered = below(world, 2),
		.landing_bytes = below(world, 2) ? 0 : 2 * COUNT * 8 *
			(1 + below(world, 3)) };
	if (world->options.async && below(world, 2)) {
		world->options.bounded = true;
		world->options.staleness = below(world, 3);
	}
	may_die = below(world, 3);
	if (may_die)
		world->options.on_loss = TAUT_SERVER_CONTINUE;
	assert_int_equal(tauti_core_create(&world->options, &calls, world,
		&world->core, NULL), TAUT_OK);
	for (uint32_t i = 0; i < world->n_parts; i++)
		said[i] = (struct tauti_part_said){ 3 * i + 1, TAUT_FLOAT64,
			COUNT, i };
	for (uint32_t w = 0; w < world->n_workers; w++) {
		struct worker *worker = &world->workers[w];

		assert_int_equal(tauti_core_join(world->core, w, NULL), TAUT_OK);
		assert_int_equal(tauti_core_declare(world->core, w, said,
			world->n_parts, NULL), TAUT_OK);
		world->near[w] = below(world, 2);
		worker->is_there = true;
		worker->dies_at = below(world, 2) && (may_die || seed % 7 == 0) ?
			below(world, ROUNDS * PARTS) : TAUT_NONE;
	}
}

static void lose(struct world *world, uint32_t w)
{
	size_t kept = 0;

	for (size_t i = 0; i < world->n_things; i++) {
		if (world->things[i].worker == w)
			continue;
		world->things[kept++] = world->things[i];
	}
	world->n_things = kept;
	memset(world->board[w], 0xff, sizeof world->board[w]); /* no numbers */
	world->workers[w].is_gone = true;
	tauti_core_lost(world->core, w, "there", "it died");
}

/* The workers whose pushes of the round are in the value. */
static void check_sync(struct world *world, const struct thing *thing)
{
	uint32_t part = (thing->part - 1) / 3, n = 0;
	double value = thing->seen[0], rest = value;

	for (uint32_t w = world->n_workers; w-- > 0;) {
		double one = pushed_by(w, thing->round);
		bool in = rest >= one;

		rest -= in ? one : 0;
		n += in;
		/* Who is there is in it. */
		assert_true(in || world->workers[w].is_gone);
	}
	assert_true(rest == 0);
	assert_int_equal(n, thing->contributors);
	assert_true(thing->round <= ROUNDS);
	/* All see the same. */
	if (world->result[part][thing->round] != 0)
		assert_true(world->result[part][thing->round] == value);
	world->result[part][thing->round] = value;
	assert_int_equal(thing->round, world->workers[thing->worker].round[part]);
}

static void check_async(struct world *world, const struct thing *thing)
{
	uint32_t part = (thing->part - 1) / 3;
	double value = thing->seen[0], own = 0;

	assert_true(value >= world->async_sum[part]); /* never back */
	world->async_sum[part] = value;
	for (uint32_t r = 1; r <= world->workers[thing->worker].round[part]; r++)
		own += pushed_by(thing->worker, r);
	assert_true(value >= own); /* one's own pushes are in it */
	if (!world->options.bounded)
		return;
	for (uint32_t w = 0; w < world->n_workers; w++)
		if (!world->workers[w].is_gone)
			assert_true(world->workers[w].round[part] +
				world->options.staleness >=
				world->workers[thing->worker].round[part]);
}

static void arrive(struct world *world, size_t i)
{
	struct thing thing = world->things[i];
	uint32_t part = (thing.part - 1) / 3;
	struct worker *worker = &world->workers[thing.worker];

	world->things[i] = world->things[--world->n_things];
	switch (thing.kind) {
	case ASK:
		assert_int_equal(tauti_core_ask(world->core, thing.worker,
			thing.part, thing.ask, thing.round, NULL), TAUT_OK);
		break;
	case RECEIVE:
		for (int k = 0; k < COUNT; k++)
			((double *)thing.into)[k] =
				pushed_by(thing.worker, thing.round);
		tauti_core_received(world->core, thing.worker, thing.part);
		break;
	case ANSWER:
		/* It did not change while it went. */
		assert_memory_equal(thing.seen, thing.data, sizeof thing.seen);
		for (int k = 1; k < COUNT; k++)
			assert_true(thing.seen[k] == thing.seen[0]);
		if (world->options.async)
			check_async(world, &thing);
		else
			check_sync(world, &thing);
		worker->pulled[part]++;
		worker->busy[part] = false;
		worker->n_sent++;
		thing.kind = SENT;
		put(world, thing);
		break;
	case SENT:
		assert_memory_equal(thing.seen, thing.data, sizeof thing.seen);
		worker->n_sent--;
		tauti_core_answered(world->core, thing.worker, thing.part);
		break;
	}
}

/* Something that a worker may do; false: nothing. */
static bool act(struct world *world, uint32_t w)
{
	struct worker *worker = &world->workers[w];
	bool all = true;

	if (worker->is_gone)
		return false;
	if (worker->n_asked >= worker->dies_at) {
		lose(world, w);
		return true;
	}
	for (uint32_t i = 0; i < world->n_parts; i++) {
		uint32_t part = (i + w) % world->n_parts;

		all &= worker->pulled[part] == ROUNDS;
		if (worker->busy[part] || worker->round[part] == ROUNDS)
			continue;
		worker->n_asked++;
		ask(world, w, part);
		return true;
	}
	if (!all || worker->n_sent)
		return false;
	assert_true(tauti_core_is_idle(world->core, w));
	worker->is_gone = worker->in_peace = true;
	tauti_core_left(world->core, w);
	return true;
}

static void run(struct world *world)
{
	for (int step = 0; step < STEPS_MOST; step++) {
		uint32_t from = below(world, world->n_workers);
		bool acted = false;

		if (tauti_core_over(world->core) ||
			tauti_core_fault(world->core, NULL))
			return;
		if (below(world, 2) && tauti_core_go_on(world->core))
			continue;
		if (world->n_things && below(world, 3)) {
			arrive(world, below(world, (uint32_t)world->n_things));
			continue;
		}
		for (uint32_t i = 0; i < world->n_workers && !acted; i++)
			acted = act(world, (from + i) % world->n_workers);
		if (!acted && !tauti_core_go_on(world->core)) {
			assert_true(world->n_things > 0); /* else it stands still */
			arrive(world, below(world, (uint32_t)world->n_things));
		}
	}
	fail_msg("no end");
}

static void finish(struct world *world)
{
	struct taut_error why;
	bool some_lost = false;

	for (uint32_t w = 0; w < world->n_workers; w++)
		some_lost |= world->workers[w].is_gone &&
			!world->workers[w].in_peace;
	if (world->options.on_loss == TAUT_SERVER_END && some_lost) {
		assert_int_equal(tauti_core_fault(world->core, &why), TAUT_EIO);
		assert_non_null(strstr(why.message, "(there) is gone: it died"));
		assert_int_equal(strncmp(why.message, "worker ", 7), 0);
	} else {
		assert_int_equal(tauti_core_fault(world->core, &why), TAUT_OK);
		for (uint32_t w = 0; w < world->n_workers; w++)
			for (uint32_t i = 0; i < world->n_parts; i++)
				if (world->workers[w].in_peace)
					assert_int_equal(world->workers[w]
						.pulled[i], ROUNDS);
	}
	tauti_core_destroy(world->core);
}

static void test_worlds(void **state)
{
	static struct world world;
	const char *one = getenv("TAUT_SEED");

	(void)state;
	for (uint64_t seed = 0; seed < 10000; seed++) {
		if (one && seed != strtoull(one, NULL, 10))
			continue;
		start(&world, seed);
		run(&world);
		finish(&world);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_worlds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
