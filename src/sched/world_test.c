/* Ten thousand made-up worlds: never a deadlock, the same sequence on all ranks,
 * and that of the rule; every task done once an iteration; every crash an error
 * on every other rank in bounded time. TAUT_WORLDS=N runs other than 10,000,
 * TAUT_WORLD_SEED=N one alone. */
#include "sched/world.h"

#ifdef __SANITIZE_THREAD__
enum { WORLDS = 2000 }; /* slow, and there is but one thread */
#else
enum { WORLDS = 10000 };
#endif

/* --- what kind of world ------------------------------------------------------------*/

static struct slow_limits draw_limits(struct world *world)
{
	static const uint64_t aligns[] = { 0, 1, 8, 100 };
	struct slow_limits limits = { .align_bytes = world->n_tasks % 2 ?
		aligns[world->seed % 4] : 1 };

	if (world_pick(world, 4))
		limits.piece_bytes = 128 + world_pick(world, 1024);
	if (world_pick(world, 4))
		limits.credit_bytes = 1 + world_pick(world, 4096);
	if (world_pick(world, 2))
		limits.fuse_bytes = 1 + world_pick(world, 2048);
	return limits;
}

static void draw_tasks(struct world *world)
{
	uint64_t most = world_pick(world, 3) ? 2048 : 200;
	bool in_pairs = world_pick(world, 4) == 0;
	bool in_groups = world_pick(world, 3) == 0;

	world->n_tasks = 1 + (uint32_t)world_pick(
		world, world_pick(world, 16) ? 14 : SLOW_TASKS / 2);
	for (uint32_t i = 0; i < world->n_tasks; i++) {
		struct slow_task *it = &world->tasks[i];

		*it = (struct slow_task){ 1 + world_pick(world, most),
			(int64_t)world_pick(world, world->n_tasks) - 3,
			TAUT_NONE, false, 0 };
		if (i && (in_pairs ? i >= world->n_tasks / 2 :
			world_pick(world, 6) == 0))
			it->after = (uint32_t)world_pick(world, i);
		it->joins = i && in_groups && it->after == TAUT_NONE &&
			it[-1].after == TAUT_NONE && world_pick(world, 3);
	}
}

/* Of which each iteration has some: where none comes after them. */
static void draw_parts(struct world *world)
{
	bool has_heir[SLOW_TASKS] = { false };

	if (world_pick(world, 2))
		return;
	for (uint32_t i = 0; i < world->n_tasks; i++)
		if (world->tasks[i].after != TAUT_NONE)
			has_heir[i] = has_heir[world->tasks[i].after] = true;
	for (uint32_t i = 0; i < world->n_tasks; i++)
		if (!has_heir[i] && world_pick(world, 2))
			world->tasks[i].parts =
				1 + (uint32_t)world_pick(world, 1000);
}

/* Tasks that no rank uses in an iteration; one is always used. */
static void draw_iterations(struct world *world)
{
	struct slow_limits limits = draw_limits(world);

	world->n_iterations = 1 + (uint32_t)world_pick(world, WORLD_ITERATIONS);
	world->crosses = world_pick(world, 2);
	for (uint32_t k = 0; k <= world->n_iterations; k++) {
		if (!world->crosses && world_pick(world, 2))
			limits = draw_limits(world);
		world->limits[k] = limits;
		for (uint32_t i = 0; i < world->n_tasks; i++)
			world->used[k][i] = i == 0 || world->crosses ||
				world->order == TAUT_SCHED_DECLARED ||
				(world->tasks[i].joins ? world->used[k][i - 1] :
				world_pick(world, 8));
	}
	world->limits[0] = world->limits[1];
}

static void draw_crash(struct world *world)
{
	static const enum world_crash kinds[] = { WORLD_DIES, WORLD_DIES,
		WORLD_START_FAILS, WORLD_AGREE_FAILS };

	if (world_pick(world, 4))
		return;
	world->crash = kinds[world_pick(world, 4)];
	if (world->crash == WORLD_DIES && world->order == TAUT_SCHED_ALONE)
		world->crash = WORLD_START_FAILS;
	world->crash_rank = (uint32_t)world_pick(world, world->n_ranks);
	world->crash_call = world_pick(world, 40);
	if (world->crash == WORLD_DIES)
		world_push(world, (int64_t)world_pick(world,
			1000 + 40 * (uint64_t)world->compute_ns), WORLD_CRASH,
			0, 0);
}

static int64_t draw_scale(struct world *world)
{
	static const int64_t scales[] = { 0, 1, 10, 100, 1000 };

	return scales[world_pick(world, 5)];
}

static void draw_world(struct world *world, uint64_t seed)
{
	memset(world, 0, sizeof *world);
	world->seed = world->random = seed;
	world->order = world_pick(world, 8) ? TAUT_SCHED_AGREED :
		world_pick(world, 2) ? TAUT_SCHED_DECLARED : TAUT_SCHED_ALONE;
	world->n_ranks = 1 + (uint32_t)world_pick(world, WORLD_RANKS);
	world->slots = 1 + (uint32_t)world_pick(world, 4);
	world->inlined = world_pick(world, 2);
	world->compute_ns = draw_scale(world);
	world->jitter_ns = draw_scale(world);
	world->word_ns = draw_scale(world);
	world->piece_ns = draw_scale(world);
	draw_tasks(world);
	draw_parts(world);
	draw_iterations(world);
	draw_crash(world);
}

/* --- ranks -------------------------------------------------------------------------*/

static void begin_rank(struct world *world, uint32_t id)
{
	static const struct taut_sched_engine engine = {
		world_start, world_agree, world_done };
	struct world_rank *rank = &world->ranks[id];
	struct taut_sched_options options = { .order = world->order,
		.n_ranks = world->n_ranks,
		.piece_bytes = world->limits[1].piece_bytes,
		.align_bytes = world->limits[1].align_bytes,
		.credit_bytes = world->limits[1].credit_bytes,
		.fuse_bytes = world->limits[1].fuse_bytes };
	uint32_t task;

	rank->world = world;
	rank->id = id;
	rank->limits = world->limits[1];
	rank->own = (struct slow){ .order = world->order,
		.tasks = world->tasks, .n_tasks = world->n_tasks };
	rank->own_channel.n_members = 1;
	rank->slow = world_agrees(world) ? &world->slow : &rank->own;
	rank->channel = world->order == TAUT_SCHED_ALONE ?
		&rank->own_channel : &world->channel;
	assert_int_equal(taut_sched_create(
		&options, &engine, rank, &rank->sched, NULL), TAUT_OK);
	for (uint32_t i = 0; i < world->n_tasks; i++) {
		assert_int_equal(taut_sched_declare(rank->sched,
			world->tasks[i].bytes, world->tasks[i].priority,
			world->tasks[i].after, &task, NULL), TAUT_OK);
		assert_int_equal(task, i);
		if (world->tasks[i].joins)
			assert_int_equal(
				taut_sched_join(rank->sched, NULL), TAUT_OK);
	}
	world_push(world, world_delay(world, world->compute_ns), WORLD_NEXT,
		id, 0);
}

static void end_rank(struct world_rank *rank)
{
	taut_sched_destroy(rank->sched);
	free(rank->own.pieces);
	taut_vec_free(&rank->own_channel.transfers);
	taut_vec_free(&rank->finished);
	taut_vec_free(&rank->sent_finished);
}

/* --- what must hold ----------------------------------------------------------------*/

static bool is_finished_everywhere(const struct world *world, size_t number)
{
	for (uint32_t i = 0; i < world->n_ranks; i++) {
		const struct world_rank *rank = &world->ranks[i];

		if (number >= rank->finished.count ||
			!rank->finished.data[number])
			return false;
	}
	return true;
}

static bool has_begun_all(const struct world *world,
	const struct world_rank *rank, uint32_t task)
{
	const struct slow *slow = &world->slow;

	for (uint32_t i = slow_group(slow, task);
		i < slow_group_end(slow, task); i++)
		if (rank->begun[i] <= slow->complete[task])
			return false;
	return true;
}

static bool is_open_everywhere(const struct world *world)
{
	for (uint32_t t = 0; t < world->n_tasks; t++) {
		uint32_t i = 0;

		while (i < world->n_ranks &&
			has_begun_all(world, &world->ranks[i], t))
			i++;
		if (i == world->n_ranks)
			return true;
	}
	return false;
}

/* Could a piece be committed, if all ranks knew what all know? */
static bool is_lazy(const struct world *world)
{
	uint64_t credit = world->ranks[0].limits.credit_bytes, under_way = 0;

	if (!is_open_everywhere(world))
		return false;
	for (size_t k = world->slow.first; k < world->slow.n; k++)
		if (!is_finished_everywhere(world, k))
			under_way += world->slow.pieces[k].piece.bytes;
	return !credit || under_way < credit;
}

static bool has_begun(const struct world_rank *rank)
{
	return rank->n_events > 0;
}

/* No word is on its way: then nobody waits for one, and there is nothing to be
 * said that would lead to something. */
static void check_quiet(const struct world *world)
{
	bool all_begun = true;

	if (!world_agrees(world) || world->n_control)
		return;
	for (uint32_t i = 0; i < world->n_ranks; i++) {
		if (world->ranks[i].failed || world->ranks[i].dead)
			return;
		all_begun = all_begun && has_begun(&world->ranks[i]);
	}
	if (!all_begun)
		return;
	for (uint32_t i = 0; i < world->n_ranks; i++)
		WORLD_CHECK(world, world->ranks[i].n_entered ==
			world->ranks[i].n_answered, "rank %u waits for words "
			"that nobody sends", i);
	WORLD_CHECK(world, !is_lazy(world), "nobody says what all wait for");
}

static void check_counts(struct world *world, struct world_rank *rank)
{
	struct taut_sched_counts counts;
	uint64_t n_events = 0;

	taut_sched_counts(rank->sched, &counts);
	for (uint32_t i = 0; i < world->n_ranks; i++)
		n_events += world->ranks[i].n_events;
	WORLD_CHECK(world, counts.rounds == rank->n_answered &&
		counts.rounds <= 1 + n_events, "%llu rounds, %llu events",
		(unsigned long long)counts.rounds, (unsigned long long)n_events);
	WORLD_CHECK(world, counts.pieces == rank->n_started &&
		counts.starts == rank->calls, "wrong counts");
	world->n_overtaken += counts.overtaken;
}

static void check_end(struct world *world, struct world_rank *rank)
{
	if (rank->dead)
		return;
	for (uint32_t i = 0; i < world->n_tasks; i++)
		WORLD_CHECK(world, rank->done[i] ==
			rank->begun[world_root(world, i)],
			"deadlock: rank %u waits for task %u", rank->id, i);
	if (rank->failed)
		return;
	WORLD_CHECK(world, world->crosses ?
		rank->begun[0] == world->n_iterations :
		rank->iteration == world->n_iterations,
		"rank %u does not come to its end", rank->id);
	check_counts(world, rank);
}

/* --- running -----------------------------------------------------------------------*/

static void happen(struct world *world, const struct world_event *event)
{
	struct world_rank *rank = &world->ranks[event->rank];

	if (event->what == WORLD_CRASH) {
		world_crash(world);
		return;
	}
	if (rank->dead)
		return;
	switch (event->what) {
	case WORLD_NEXT:
		world_next(rank);
		break;
	case WORLD_READY:
		world_ready(rank, (uint32_t)event->number);
		break;
	case WORLD_FINISH:
		world_end_transfer(rank, event->number);
		break;
	case WORLD_ASKED:
		world_returned(rank, taut_sched_asked(
			rank->sched, event->number, &rank->err));
		break;
	case WORLD_WORDS_COME:
		world_words_come(rank);
		break;
	case WORLD_AGREED:
		world_agreed(rank, event->number);
		break;
	default:
		world_learn(rank);
	}
}

static void check_started(const struct world *world)
{
	for (uint32_t i = 0; i < world->n_ranks; i++) {
		const struct world_rank *rank = &world->ranks[i];

		WORLD_CHECK(world, rank->failed || rank->dead ||
			rank->n_started == world_committed(rank),
			"rank %u does not start what it may", i);
	}
}

static void run_world(struct world *world, uint64_t seed)
{
	draw_world(world, seed);
	world->slow = (struct slow){ .order = world->order,
		.tasks = world->tasks, .n_tasks = world->n_tasks };
	world->channel.n_members = world->n_ranks;
	for (uint32_t i = 0; i < world->n_ranks; i++)
		begin_rank(world, i);
	while (world->events.count) {
		struct world_event event = world_pop(world);

		world->now_ns = event.at_ns;
		happen(world, &event);
		check_started(world);
		check_quiet(world);
	}
	for (uint32_t i = 0; i < world->n_ranks; i++)
		check_end(world, &world->ranks[i]);
}

static void free_world(struct world *world)
{
	for (uint32_t i = 0; i < world->n_ranks; i++)
		end_rank(&world->ranks[i]);
	free(world->slow.pieces);
	taut_vec_free(&world->channel.transfers);
	taut_vec_free(&world->events);
	taut_vec_free(&world->committed);
}

static void test_worlds(void **state)
{
	const char *one = getenv("TAUT_WORLD_SEED"), *n = getenv("TAUT_WORLDS");
	uint64_t first = one ? strtoull(one, NULL, 10) : 1;
	uint64_t end = first + (one ? 1 : n ? strtoull(n, NULL, 10) : WORLDS);
	uint64_t pieces = 0, overtaken = 0, fused = 0, rounds = 0, crashed = 0;
	uint64_t grouped = 0, parts = 0;
	struct world *world = malloc(sizeof *world);

	(void)state;
	assert_non_null(world);
	for (uint64_t seed = first; seed < end; seed++) {
		run_world(world, seed);
		pieces += world->n_pieces;
		overtaken += world->n_overtaken;
		fused += world->n_fused;
		grouped += world->n_grouped;
		parts += world->n_parts;
		rounds += world->n_rounds;
		for (uint32_t i = 0; i < world->n_ranks; i++)
			crashed += world->ranks[i].failed;
		free_world(world);
	}
	free(world);
	print_message("%llu worlds: %llu pieces, %llu overtaken, %llu fused, "
		"%llu in groups, %llu of parts, %llu rounds, %llu ranks failed\n",
		(unsigned long long)(end - first), (unsigned long long)pieces,
		(unsigned long long)overtaken, (unsigned long long)fused,
		(unsigned long long)grouped, (unsigned long long)parts,
		(unsigned long long)rounds, (unsigned long long)crashed);
	assert_true(one || (pieces > end && overtaken > end && fused > end &&
		grouped > end && parts > end && rounds > end && crashed > end / 10));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_worlds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
