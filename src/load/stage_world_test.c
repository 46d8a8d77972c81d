/* Made-up hosts whose jobs share a stage, each step that others may see chosen from a seed:
 * every member that lives delivers every position once, in order, and right, whoever is
 * killed, slow, detached or late; nothing is published twice; nobody waits for ever.
 * TAUT_WORLDS=N runs other than 2,000, TAUT_WORLD_SEED=N one alone. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "load/draw.h"
#include "load/stage.h"

enum {
	WORLDS = 2000,
	MOST_MEMBERS = 6,
	MOST_PLACES = 12,
	MOST_AHEAD = 8,
	MOST_POSITIONS = 60,
	PLACE_BYTES = 64,
	STACK_BYTES = 64 << 10,
	MOST_STEPS = 400000,
};

enum life { UNBORN, LIVES, KILLED, ENDED };

struct world;

struct member {
	struct world *world;
	struct tauti_stage stage;
	ucontext_t here;
	char *stack;
	enum life life;
	uint32_t id;
	uint64_t first, cursor;  /* first: where it joins */
	uint64_t delivered;      /* positions, in order */
	uint64_t weight;         /* how often it runs */
	bool done[MOST_POSITIONS + 1];
	bool fails;              /* some of what it makes is dropped */
	uint32_t ahead, patience, waited, n_private, n_torn;
};

struct world {
	uint64_t seed;
	struct tauti_draw draw;
	ucontext_t scheduler;
	struct member members[MOST_MEMBERS];
	struct member *running;
	uint32_t n_members, generation_shift;
	uint64_t n_places, n_positions;
	uint32_t published[MOST_POSITIONS];
	bool calm; /* nobody dies, joins late, drops, or has no patience */
	void *memory;
	struct { uint64_t torn, taken, detached, full, made_alone, killed; } seen;
};

static uint64_t pick(struct world *world, uint64_t n)
{
	return tauti_draw_below(&world->draw, n);
}

static bool lives(void *context, struct tauti_stage_seat seat)
{
	struct member *member = context;
	struct member *it = &member->world->members[seat.seat];

	return seat.generation == it->stage.me.generation && it->life == LIVES;
}

static void between(void *context)
{
	struct member *member = context;

	swapcontext(&member->here, &member->world->scheduler);
}

static void fill(unsigned char *bytes, uint64_t position)
{
	struct tauti_draw draw = tauti_draw_begin(7, 0, position);

	for (size_t i = 0; i < PLACE_BYTES; i++)
		bytes[i] = (unsigned char)tauti_draw_u64(&draw);
}

static bool is_right(const unsigned char *bytes, uint64_t position)
{
	unsigned char right[PLACE_BYTES];

	fill(right, position);
	return memcmp(bytes, right, PLACE_BYTES) == 0;
}

/* --- a member ----------------------------------------------------------------------*/

static void make(struct member *member, uint64_t position)
{
	unsigned char bytes[PLACE_BYTES];

	for (uint64_t n = pick(member->world, 6); n > 0; n--)
		between(member);
	if (member->fails && pick(member->world, 4) == 0) {
		tauti_stage_drop(&member->stage, position);
		return;
	}
	fill(bytes, position);
	tauti_stage_publish(&member->stage, position, bytes, sizeof bytes);
	member->world->published[position]++;
}

static void copy(struct member *member, uint64_t position)
{
	unsigned char bytes[PLACE_BYTES];

	if (tauti_stage_copy(&member->stage, position, bytes, sizeof bytes)) {
		if (!is_right(bytes, position))
			fail_msg("world %lu: member %u copied something else at %lu",
				member->world->seed, member->id, position);
	} else {
		member->n_torn++;
	}
}

/* Whether anything could be done about it. */
static bool try_one(struct member *member, uint64_t position)
{
	struct world *world = member->world;

	switch (tauti_stage_look(&member->stage, position)) {
	case TAUTI_STAGE_HERE:
		copy(member, position);
		break;
	case TAUTI_STAGE_MINE:
		make(member, position);
		break;
	case TAUTI_STAGE_PRIVATE:
		member->n_private++;
		break;
	case TAUTI_STAGE_COMING:
		return false;
	case TAUTI_STAGE_FULL:
		world->seen.full++;
		(void)tauti_stage_bury(&member->stage);
		if (member->waited > member->patience)
			(void)tauti_stage_detach(&member->stage, position);
		return false;
	}
	member->done[position] = true;
	return true;
}

static bool try_some(struct member *member)
{
	uint64_t end = member->cursor + member->ahead;

	if (end > member->world->n_positions)
		end = member->world->n_positions;
	for (uint64_t p = member->cursor; p < end; p++)
		if (!member->done[p] && try_one(member, p))
			return true;
	return false;
}

static void deliver(struct member *member)
{
	uint64_t was = member->cursor;

	while (member->done[member->cursor]) {
		member->cursor++;
		member->delivered++;
	}
	if (member->cursor != was)
		tauti_stage_move(&member->stage, member->cursor);
}

static void live(struct member *member)
{
	if (!member->world->calm)
		assert_int_equal(tauti_stage_join(&member->stage, member->first, NULL),
			TAUT_OK);
	while (member->cursor < member->world->n_positions) {
		member->waited = try_some(member) ? 0 : member->waited + 1;
		deliver(member);
		between(member);
	}
	tauti_stage_leave(&member->stage);
	member->life = ENDED;
}

static struct world *the_world; /* makecontext() passes no pointers */

static void enter(void)
{
	struct member *member = the_world->running;

	live(member);
	swapcontext(&member->here, &member->world->scheduler);
}

/* --- a world -----------------------------------------------------------------------*/

static void draw_member(struct world *world, uint32_t id)
{
	struct member *member = &world->members[id];
	uint64_t most = world->n_places < MOST_AHEAD ? world->n_places : MOST_AHEAD;

	member->world = world;
	member->id = id;
	member->weight = world->calm || pick(world, 3) ? 8 : 1;
	member->ahead = 1 + (uint32_t)pick(world, most);
	member->patience = world->calm ? UINT32_MAX : (uint32_t)pick(world, 200);
	member->fails = !world->calm && pick(world, 3) == 0;
	if (!world->calm && pick(world, 4) == 0)
		member->first = pick(world, world->n_positions);
	tauti_stage_lay(&member->stage, world->memory, world->n_places, PLACE_BYTES);
	member->stage.me = (struct tauti_stage_seat){ id, (uint32_t)pick(world, 4096) };
	member->stage.lives = lives;
	member->stage.between = between;
	member->stage.context = member;
}

static void begin(struct world *world, struct member *member)
{
	member->stack = malloc(STACK_BYTES);
	assert_non_null(member->stack);
	assert_int_equal(getcontext(&member->here), 0);
	member->here.uc_stack.ss_sp = member->stack;
	member->here.uc_stack.ss_size = STACK_BYTES;
	member->here.uc_link = NULL;
	makecontext(&member->here, enter, 0);
	member->life = LIVES;
	member->cursor = member->first;
	if (!world->calm)
		return;
	/* All are there before one has gone on. */
	member->stage.between = NULL;
	assert_int_equal(tauti_stage_join(&member->stage, 0, NULL), TAUT_OK);
	member->stage.between = between;
}

static void draw_world(struct world *world, uint64_t seed)
{
	uint64_t bytes;

	memset(world, 0, sizeof *world);
	world->seed = seed;
	world->draw = tauti_draw_begin(seed, 0, 0);
	world->calm = pick(world, 4) == 0;
	world->n_members = 1 + (uint32_t)pick(world, MOST_MEMBERS);
	world->n_places = 1 + pick(world, MOST_PLACES);
	world->n_positions = 1 + pick(world, MOST_POSITIONS);
	bytes = tauti_stage_bytes(world->n_places, PLACE_BYTES);
	world->memory = aligned_alloc(64, bytes);
	assert_non_null(world->memory);
	memset(world->memory, 0, bytes);
	for (uint32_t i = 0; i < world->n_members; i++)
		draw_member(world, i);
	for (uint32_t i = 0; i < world->n_members; i++)
		if (!world->members[i].first)
			begin(world, &world->members[i]);
}

static uint32_t count_of(const struct world *world, enum life life)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < world->n_members; i++)
		n += world->members[i].life == life;
	return n;
}

static struct member *next_member(struct world *world)
{
	for (;;) {
		struct member *it = &world->members[pick(world, world->n_members)];

		if (it->life == LIVES && pick(world, 8) < it->weight)
			return it;
	}
}

static void disturb(struct world *world)
{
	struct member *it = &world->members[pick(world, world->n_members)];

	if (it->life == UNBORN && pick(world, 50) == 0) {
		begin(world, it);
	} else if (!world->calm && it->life == LIVES && pick(world, 400) == 0) {
		it->life = KILLED;
		world->seen.killed++;
	}
}

static void run(struct world *world)
{
	the_world = world;
	for (uint64_t steps = 0;; steps++) {
		disturb(world);
		if (!count_of(world, LIVES)) {
			if (!count_of(world, UNBORN))
				return;
			continue;
		}
		if (steps > MOST_STEPS)
			fail_msg("world %lu does not end", world->seed);
		world->running = next_member(world);
		swapcontext(&world->scheduler, &world->running->here);
	}
}

static void check_member(const struct world *world, const struct member *member)
{
	if (member->life == ENDED &&
		member->delivered != world->n_positions - member->first)
		fail_msg("world %lu: member %u delivered %lu of %lu", world->seed, member->id,
			member->delivered, world->n_positions - member->first);
	if (world->calm && (member->n_private || member->n_torn))
		fail_msg("world %lu: member %u made %u for itself", world->seed, member->id,
			member->n_private + member->n_torn);
}

static void check_world(struct world *world)
{
	struct tauti_stage_counts *counts = &world->members[0].stage.shared->counts;
	uint64_t published = 0;

	for (uint32_t i = 0; i < world->n_members; i++)
		check_member(world, &world->members[i]);
	for (uint64_t p = 0; p < world->n_positions; p++) {
		published += world->published[p];
		if (world->published[p] > 1 || (world->calm && world->published[p] != 1))
			fail_msg("world %lu: %lu was published %u times", world->seed, p,
				world->published[p]);
	}
	if (!world->seen.killed) {
		assert_int_equal(counts->made, published);
		assert_int_equal(counts->taken, 0);
	}
	if (world->calm)
		assert_int_equal(counts->copied, published * (world->n_members - 1));
}

static void add_up(struct world *all, struct world *world)
{
	struct tauti_stage_counts *counts = &world->members[0].stage.shared->counts;

	all->seen.torn += counts->torn;
	all->seen.taken += counts->taken;
	all->seen.detached += counts->detached;
	all->seen.full += world->seen.full;
	all->seen.killed += world->seen.killed;
	for (uint32_t i = 0; i < world->n_members; i++)
		all->seen.made_alone += world->members[i].n_private;
}

static void run_world(struct world *world, uint64_t seed, struct world *all)
{
	draw_world(world, seed);
	run(world);
	check_world(world);
	add_up(all, world);
	for (uint32_t i = 0; i < world->n_members; i++)
		free(world->members[i].stack);
	free(world->memory);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static void test_worlds(void **state)
{
	static struct world world, all;
	uint64_t one = number_of("TAUT_WORLD_SEED", UINT64_MAX);
	uint64_t n = number_of("TAUT_WORLDS", WORLDS);

	(void)state;
	if (one != UINT64_MAX) {
		run_world(&world, one, &all);
		return;
	}
	for (uint64_t seed = 0; seed < n; seed++)
		run_world(&world, seed, &all);
	printf("torn %lu, taken %lu, detached %lu, full %lu, alone %lu, killed %lu\n",
		all.seen.torn, all.seen.taken, all.seen.detached, all.seen.full,
		all.seen.made_alone, all.seen.killed);
	if (n < WORLDS)
		return;
	/* The worlds reach what they are to try. */
	assert_true(all.seen.torn > 10);
	assert_true(all.seen.taken > 100);
	assert_true(all.seen.detached > 100);
	assert_true(all.seen.full > 1000);
	assert_true(all.seen.made_alone > 100);
	assert_true(all.seen.killed > 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_worlds) };

#ifdef __SANITIZE_THREAD__
	return UNIT_SKIP; /* contexts of one thread: nothing to see */
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
