/* Made-up jobs: 2 to 4 ranks of two threads each, tasks of any type, size and
 * priority, made ready in an order that no other rank has, not all of them in every
 * iteration, waited for in one of three ways. Every element is compared with the
 * sum in the order of the ranks, so results do not depend on pieces, credit, what is
 * fused, groups, or halves. Two in three narrow what is of float32. In some of them a rank ends at any moment: then each other one
 * is told, or was done.
 *
 * TAUT_WORLDS=N runs more, TAUT_WORLD_SEED=N one. */
#include "sync/ranks.h"

#include <sched.h>

enum { TASKS = 24, THREADS = 2, SMALL = 40, LARGE = 2000 };

enum death { LIVES, GIVES_UP, LEAVES, DEATHS };

struct task {
	enum taut_type type;
	uint64_t count;
	int64_t priority;
	double factor;
	uint64_t offset; /* in a rank's memory */
	uint32_t group;  /* the first of those that it goes with */
};

struct world {
	struct ranks ranks;
	uint64_t seed;
	struct taut_sync_options options;
	uint32_t n_tasks, n_iterations;
	struct task tasks[TASKS];
	uint64_t bytes; /* of a rank's memory */
	bool all_used;
	uint32_t way; /* of waiting */
	uint32_t tunes_at;
	/* Who ends, when, and how. */
	enum death death;
	uint32_t dies, dies_at, dies_after;
};

struct place { /* a rank's */
	struct world *world;
	struct rank *rank;
	char *memory;
	pthread_barrier_t barrier;
	atomic_bool ended; /* a call failed, or it dies */
	atomic_uint n_ready;
};

struct caller {
	struct place *place;
	uint32_t id;
	uint64_t random;
};

static bool is_used(
	const struct world *world, uint32_t iteration, uint32_t task)
{
	uint64_t state = world->seed * 31 + iteration * 1009 +
		world->tasks[task].group;

	return world->all_used || ranks_below(&state, 4);
}

static uint64_t value_of(const struct world *world, uint32_t rank,
	uint32_t task, uint32_t iteration, uint64_t i)
{
	uint64_t seed = world->seed << 40 ^ (uint64_t)rank << 36 ^
		(uint64_t)task << 28 ^ (uint64_t)iteration << 20 ^ i;

	return ranks_bits(world->tasks[task].type,
		ranks_value(world->tasks[task].type, seed));
}

static uint64_t sum_of(const struct world *world, uint32_t task,
	uint32_t iteration, uint64_t i)
{
	const struct task *it = &world->tasks[task];
	enum taut_type wire = world->options.wire;
	uint64_t sum = ranks_nothing(it->type);

	if (it->type == TAUT_FLOAT32 && wire != TAUT_FLOAT32) {
		sum = ranks_nothing(wire);
		for (uint32_t r = 0; r < world->ranks.n; r++)
			sum = ranks_sum(wire, sum, ranks_narrow(wire,
				value_of(world, r, task, iteration, i),
				it->factor), 1);
		return ranks_widen(wire, sum);
	}
	for (uint32_t r = 0; r < world->ranks.n; r++)
		sum = ranks_sum(it->type, sum,
			value_of(world, r, task, iteration, i), it->factor);
	return ranks_bits(it->type, sum);
}

/* --- a rank's threads --------------------------------------------------------------*/

static void fill(struct place *place, uint32_t task, uint32_t iteration)
{
	const struct world *world = place->world;
	const struct task *it = &world->tasks[task];
	size_t size = taut_type_bytes(it->type);

	for (uint64_t i = 0; i < it->count; i++)
		ranks_store(place->memory + it->offset, size, i,
			value_of(world, place->rank->id, task, iteration, i));
}

static void check(struct place *place, uint32_t task, uint32_t iteration)
{
	const struct world *world = place->world;
	const struct task *it = &world->tasks[task];
	size_t size = taut_type_bytes(it->type);

	for (uint64_t i = 0; i < it->count; i++) {
		uint64_t got = ranks_load(place->memory + it->offset, size, i);
		uint64_t right = sum_of(world, task, iteration, i);

		if (got == right)
			continue;
		fprintf(stderr, "seed %lu: rank %u: task %u, iteration %u, "
			"element %lu of %s: %#lx, not %#lx\n",
			(unsigned long)world->seed, place->rank->id, task,
			iteration, (unsigned long)i, taut_type_name(it->type),
			(unsigned long)got, (unsigned long)right);
		RANK_CHECK(place->rank, !"the sum");
		return;
	}
}

/* All has ended: only where a rank was to end, and with a line. */
static bool is_end(struct place *place, taut_status status,
	const struct taut_error *err)
{
	const struct world *world = place->world;
	bool gives_up = world->death == GIVES_UP &&
		place->rank->id == world->dies;

	if (!status)
		return false;
	atomic_store(&place->ended, true);
	if (world->death == LIVES || !err->message[0] ||
		status != (gives_up ? TAUT_ENOMEM : TAUT_EIO)) {
		fprintf(stderr, "seed %lu: %d: %s\n",
			(unsigned long)world->seed, (int)status, err->message);
		RANK_CHECK(place->rank, !"that end");
	}
	return true;
}

/* Does this rank end here, before it makes one more ready? */
static bool dies(struct place *place, uint32_t iteration)
{
	const struct world *world = place->world;

	if (world->death == LIVES || place->rank->id != world->dies ||
		iteration != world->dies_at ||
		atomic_fetch_add(&place->n_ready, 1) < world->dies_after)
		return false;
	if (world->death == GIVES_UP)
		taut_sync_fail(place->rank->sync, TAUT_ENOMEM, "it dies");
	atomic_store(&place->ended, true);
	return true;
}

static bool make_ready(
	struct caller *caller, const uint32_t *tasks, uint32_t n, uint32_t iteration)
{
	struct place *place = caller->place;
	struct taut_error err = { .message = "" };

	for (uint32_t i = 0; i < n; i++) {
		void *data = place->memory +
			place->world->tasks[tasks[i]].offset;

		if (ranks_below(&caller->random, 8) == 0)
			sched_yield();
		fill(place, tasks[i], iteration);
		if (dies(place, iteration) || is_end(place,
			(ranks_below(&caller->random, 3) ? taut_sync_ready :
				taut_sync_ready_more)(place->rank->sync,
				tasks[i], data, &err), &err))
			return false;
	}
	return true;
}

/* In another order than they were made ready. */
static void await_each(struct caller *caller, const uint32_t *tasks, uint32_t n,
	uint32_t iteration)
{
	struct place *place = caller->place;
	struct taut_error err = { .message = "" };

	for (uint32_t i = 0; i < n; i++) {
		uint32_t task = tasks[n - 1 - i];

		if (is_end(place, taut_sync_wait(place->rank->sync, task, -1,
			&err), &err))
			return;
		check(place, task, iteration);
	}
}

static void await_all(struct caller *caller, const uint32_t *tasks, uint32_t n,
	uint32_t iteration)
{
	struct place *place = caller->place;
	struct taut_error err = { .message = "" };

	if (is_end(place, taut_sync_wait(place->rank->sync, TAUT_NONE, -1,
		&err), &err))
		return;
	for (uint32_t i = 0; i < n; i++)
		check(place, tasks[i], iteration);
}

static void take(struct caller *caller, uint32_t n, uint32_t iteration)
{
	struct place *place = caller->place;
	struct taut_error err = { .message = "" };
	uint32_t task = TAUT_NONE;

	while (n--) {
		if (is_end(place, taut_sync_next(place->rank->sync, -1, &task,
			&err), &err))
			return;
		check(place, task, iteration);
	}
}

static uint32_t list_tasks(struct caller *caller, uint32_t iteration,
	uint32_t *tasks, uint32_t *ret_all)
{
	const struct world *world = caller->place->world;
	uint32_t n = 0;

	*ret_all = 0;
	for (uint32_t t = 0; t < world->n_tasks; t++) {
		if (!is_used(world, iteration, t))
			continue;
		++*ret_all;
		if (t % THREADS == caller->id)
			tasks[n++] = t;
	}
	for (uint32_t i = n; i > 1; i--) {
		uint32_t k = (uint32_t)ranks_below(&caller->random, i);
		uint32_t task = tasks[i - 1];

		tasks[i - 1] = tasks[k];
		tasks[k] = task;
	}
	return n;
}

static void iterate(struct caller *caller, uint32_t iteration)
{
	struct world *world = caller->place->world;
	uint32_t tasks[TASKS], n_all, n;

	n = list_tasks(caller, iteration, tasks, &n_all);
	if (!make_ready(caller, tasks, n, iteration))
		return;
	if (caller->place->rank->id == world->dies && world->death == LEAVES &&
		iteration == world->dies_at) {
		atomic_store(&caller->place->ended, true);
		return;
	}
	if (world->way == 0)
		await_each(caller, tasks, n, iteration);
	else if (world->way == 1)
		await_all(caller, tasks, n, iteration);
	else if (caller->id == 0)
		take(caller, n_all, iteration);
}

/* What is not summed by a task, and new limits: between iterations, by one. */
static void between(struct caller *caller, uint32_t iteration)
{
	struct place *place = caller->place;
	const struct world *world = place->world;
	uint64_t value = iteration + place->rank->id, n = world->ranks.n;
	struct taut_coll_call call = { .type = TAUT_UINT64, .output = &value,
		.count = 1 };
	struct taut_error err = { .message = "" };

	if (caller->id)
		return;
	if (iteration % 3 == 1) {
		if (is_end(place, taut_sync_run(
			place->rank->sync, &call, &err), &err))
			return;
		RANK_CHECK(place->rank,
			value == n * iteration + n * (n - 1) / 2);
	}
	if (iteration == world->tunes_at)
		(void)is_end(place, taut_sync_tune(place->rank->sync,
			64 << world->seed % 8, 256 << world->seed % 5,
			world->seed % 3 * 300, &err), &err);
}

static void *call(void *context)
{
	struct caller *caller = context;
	struct place *place = caller->place;
	bool ended;

	for (uint32_t i = 1; i <= place->world->n_iterations; i++) {
		between(caller, i);
		pthread_barrier_wait(&place->barrier);
		if (!atomic_load(&place->ended))
			iterate(caller, i);
		pthread_barrier_wait(&place->barrier);
		ended = atomic_load(&place->ended);
		pthread_barrier_wait(&place->barrier); /* all see the same */
		if (ended)
			break;
	}
	return NULL;
}

static void live(struct rank *rank)
{
	struct world *world = rank->all->context;
	struct place place = { .world = world, .rank = rank,
		.memory = malloc(world->bytes) };
	struct caller callers[THREADS];
	pthread_t threads[THREADS];
	uint32_t task;

	pthread_barrier_init(&place.barrier, NULL, THREADS);
	for (uint32_t t = 0; t < world->n_tasks; t++) {
		RANK_OK(rank, taut_sync_declare(rank->sync,
			world->tasks[t].type, world->tasks[t].count,
			world->tasks[t].priority, world->tasks[t].factor,
			&task, why));
		if (world->tasks[t].group < t)
			RANK_OK(rank, taut_sync_join(rank->sync, why));
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		callers[i] = (struct caller){ .place = &place, .id = i,
			.random = world->seed * 97 + rank->id * 7 + i };
		if (pthread_create(&threads[i], NULL, call, &callers[i]))
			abort();
	}
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	taut_sync_destroy(rank->sync);
	rank->sync = NULL;
	pthread_barrier_destroy(&place.barrier);
	free(place.memory);
}

/* --- worlds ------------------------------------------------------------------------*/

static void make_tasks(struct world *world, uint64_t *random)
{
	static const double factors[] = { 0, 1, 0.5, 1.0 / 3 };
	bool packed = ranks_below(random, 2);
	uint32_t n_types = ranks_below(random, 2) ? 2 : TAUT_TYPES;
	bool grouped = ranks_below(random, 2) && !world->options.halves;

	world->n_tasks = 1 + (uint32_t)ranks_below(random, TASKS);
	for (uint32_t t = 0; t < world->n_tasks; t++) {
		struct task *task = &world->tasks[t];
		bool large = ranks_below(random, 6) == 0;

		task->type = (enum taut_type)ranks_below(random, n_types);
		task->count =
			1 + ranks_below(random, large ? LARGE : SMALL);
		task->priority = (int64_t)ranks_below(random, 6) - 3;
		task->group = t && grouped && ranks_below(random, 3) ?
			task[-1].group : t;
		task->factor = task->type <= TAUT_BFLOAT16 ?
			factors[ranks_below(random, 4)] : 0;
		world->bytes = (world->bytes + 7) / 8 * 8 +
			(packed ? 0 : 8);
		task->offset = world->bytes;
		world->bytes += task->count * taut_type_bytes(task->type);
	}
}

static void make_world(struct world *world, uint64_t seed, bool dying)
{
	static const enum taut_type wires[] = { TAUT_FLOAT32, TAUT_FLOAT16,
		TAUT_BFLOAT16 };
	uint64_t random = seed;
	struct taut_sync_options *options = &world->options;

	memset(world, 0, sizeof *world);
	world->seed = seed;
	options->ordered = true;
	options->wire = wires[seed % 3];
	options->halves = ranks_below(&random, 3) == 0;
	options->order = ranks_below(&random, 4) ? TAUT_SCHED_AGREED
						 : TAUT_SCHED_DECLARED;
	options->piece_bytes = UINT64_C(64) << ranks_below(&random, 12);
	options->credit_bytes = ranks_below(&random, 3) *
		(UINT64_C(64) << ranks_below(&random, 10));
	options->fuse_bytes = ranks_below(&random, 3) * 400;
	world->all_used = options->order == TAUT_SCHED_DECLARED;
	world->n_iterations = 2 + (uint32_t)ranks_below(&random, 8);
	world->way = (uint32_t)ranks_below(&random, 3);
	world->tunes_at = (uint32_t)ranks_below(&random, 12);
	world->ranks.n = 2 + (uint32_t)ranks_below(&random, SYNC_RANKS - 1);
	make_tasks(world, &random);
	if (!dying)
		return;
	world->death = (enum death)(1 + ranks_below(&random, DEATHS - 1));
	world->dies = (uint32_t)ranks_below(&random, world->ranks.n);
	world->dies_at = 1 + (uint32_t)ranks_below(&random, world->n_iterations);
	world->dies_after = (uint32_t)ranks_below(&random, world->n_tasks + 1);
}

static void run_world(uint64_t seed, bool dying)
{
	struct world *world = malloc(sizeof *world);
	uint32_t n;

	assert_non_null(world);
	make_world(world, seed, dying);
	n = world->ranks.n;
	ranks_create(&world->ranks, n, &world->options);
	world->ranks.context = world;
	ranks_each(&world->ranks, live);
	ranks_destroy(&world->ranks);
	free(world);
}

static uint64_t environment(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static void run_worlds(uint64_t n, bool dying)
{
	uint64_t first = environment("TAUT_WORLD_SEED", 0);

	if (getenv("TAUT_WORLD_SEED")) {
		run_world(first, dying);
		return;
	}
	n = environment("TAUT_WORLDS", n);
	for (uint64_t seed = 1; seed <= n; seed++)
		run_world(seed, dying);
}

static void test_worlds(void **state)
{
	(void)state;
	run_worlds(60, false);
}

static void test_dying_worlds(void **state)
{
	(void)state;
	run_worlds(60, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_worlds),
		cmocka_unit_test(test_dying_worlds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
