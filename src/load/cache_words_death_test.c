/* Participants that take turns at every step on shared words, in an order drawn from a
 * seed, and die between any two: their next incarnation goes on in the same seat. Some
 * that count as dead still make a few steps, as a process may that is being killed. */
#include "tests/support/unit.h"

#include <string.h>
#include <ucontext.h>

#include "load/cache_words.h"
#include "load/draw.h"

enum {
	RUNS = 1000,
	ACTORS = 4,
	ITEMS = 12,
	UNITS = 24, /* of capacity; the items need some 40 */
	TURNS = 600,
	STACK = 64 << 10,
	NOBODY = ACTORS,
};

struct actor {
	ucontext_t context;
	struct tauti_cache_words words;
	bool gone;     /* counts as dead */
	int last_turns; /* that it still has when it is gone */
	_Alignas(16) char stack[STACK];
};

static struct world {
	ucontext_t scheduler;
	struct actor actors[ACTORS];
	struct tauti_draw draw;
	struct tauti_cache_words words; /* one who watches */
	uint32_t turn;
	uint32_t content[UNITS]; /* the item that was written there, plus 1 */
	uint64_t bytes[ITEMS];
	uint32_t n_hits, n_deaths, n_taken;
} world;

static void step(void *state)
{
	(void)state;
	if (world.turn != NOBODY)
		swapcontext(&world.actors[world.turn].context, &world.scheduler);
}

static bool lives(void *state, uint32_t seat, uint32_t generation)
{
	(void)state;
	return seat < ACTORS && !world.actors[seat].gone &&
		world.actors[seat].words.generation == generation;
}

static uint64_t units(uint32_t item)
{
	return (world.bytes[item] + 63) / 64;
}

/* An item may be written again over itself, never over another. */
static void write_item(uint32_t item, uint64_t place)
{
	for (uint64_t i = 0; i < units(item); i++) {
		uint32_t *at = &world.content[place / 64 + i];

		assert_true(*at == 0 || *at == item + 1);
		*at = item + 1;
		step(NULL);
	}
}

static void read_item(uint32_t item, uint64_t place)
{
	for (uint64_t i = 0; i < units(item); i++)
		assert_int_equal(world.content[place / 64 + i], item + 1);
}

static void act(uint32_t item, const struct tauti_cache_words *words)
{
	uint64_t place;
	enum tauti_cache_answer answer =
		tauti_cache_words_look(words, item, world.bytes[item], &place);

	if (answer == TAUTI_CACHE_HERE) {
		world.n_hits++;
		read_item(item, place);
	} else if (answer == TAUTI_CACHE_MINE && place != UINT64_MAX) {
		world.n_taken++;
		write_item(item, place);
		if (tauti_draw_below(&world.draw, 3) == 0)
			tauti_cache_words_drop(words, item);
		else
			tauti_cache_words_fill(words, item);
	}
}

static void live(void)
{
	for (;;)
		act((uint32_t)tauti_draw_below(&world.draw, ITEMS),
			&world.actors[world.turn].words);
}

static void be_born(uint32_t id)
{
	struct actor *actor = &world.actors[id];

	actor->gone = false;
	actor->words.generation = (actor->words.generation + 1) & 0x3ffff;
	assert_int_equal(getcontext(&actor->context), 0);
	actor->context.uc_stack.ss_sp = actor->stack;
	actor->context.uc_stack.ss_size = sizeof actor->stack;
	actor->context.uc_link = NULL;
	makecontext(&actor->context, live, 0);
}

static void begin(uint64_t seed)
{
	struct taut_error err;

	world.draw = tauti_draw_begin(seed, 2, 0);
	world.turn = NOBODY;
	memset(world.content, 0, sizeof world.content);
	for (uint32_t i = 0; i < ITEMS; i++)
		world.bytes[i] = 1 + tauti_draw_below(&world.draw, 400);
	assert_int_equal(
		tauti_cache_words_init(&world.words, ITEMS, UNITS * 64, &err), TAUT_OK);
	world.words.step = step;
	world.words.lives = lives;
	for (uint32_t i = 0; i < ACTORS; i++) {
		world.actors[i].words = world.words;
		world.actors[i].words.seat = i;
		be_born(i);
	}
	world.words.seat = ACTORS;
}

static void take_turn(void)
{
	uint32_t id = (uint32_t)tauti_draw_below(&world.draw, ACTORS);
	struct actor *actor = &world.actors[id];

	if (actor->gone && actor->last_turns-- == 0)
		be_born(id);
	if (!actor->gone && tauti_draw_below(&world.draw, 25) == 0) {
		world.n_deaths++;
		actor->gone = true;
		actor->last_turns = (int)tauti_draw_below(&world.draw, 4);
		return;
	}
	world.turn = id;
	assert_int_equal(swapcontext(&world.scheduler, &actor->context), 0);
	world.turn = NOBODY;
}

/* Rooms are apart, none is lost, and who was told never had none. */
static void check_rooms(void)
{
	uint32_t owner[UNITS] = { 0 };
	uint64_t used = tauti_cache_words_used_bytes(&world.words), sum = 0;

	assert_true(used <= UNITS * 64);
	for (uint32_t i = 0; i < ITEMS; i++) {
		uint64_t place = tauti_cache_words_place(&world.words, i);

		if (place == UINT64_MAX) {
			assert_int_equal(tauti_cache_words_state(&world.words, i),
				TAUTI_WORD_NEVER);
			assert_true(used + units(i) * 64 > UNITS * 64);
			continue;
		}
		for (uint64_t u = 0; u < units(i); u++) {
			assert_int_equal(owner[place / 64 + u], 0);
			owner[place / 64 + u] = i + 1;
		}
		sum += units(i) * 64;
	}
	assert_int_equal(sum, used);
}

/* All are gone: whoever comes then gets each item, or the room for it, or never. */
static void end(void)
{
	uint64_t place;

	for (uint32_t i = 0; i < ACTORS; i++)
		world.actors[i].gone = true;
	for (uint32_t i = 0; i < ITEMS; i++) {
		enum tauti_cache_answer answer = tauti_cache_words_look(
			&world.words, i, world.bytes[i], &place);

		assert_int_not_equal(answer, TAUTI_CACHE_COMING);
		if (answer == TAUTI_CACHE_HERE) {
			read_item(i, place);
		} else if (place != UINT64_MAX) {
			write_item(i, place);
			assert_true(tauti_cache_words_fill(&world.words, i));
		}
	}
	check_rooms();
	for (uint32_t i = 0; i < ITEMS; i++)
		if (tauti_cache_words_touch(&world.words, i, world.bytes[i]))
			read_item(i, tauti_cache_words_place(&world.words, i));
	tauti_cache_words_fini(&world.words);
}

static void test_deaths(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < RUNS; seed++) {
		begin(seed);
		for (int turn = 0; turn < TURNS; turn++)
			take_turn();
		end();
	}
	/* That it was tried: about one death in 30 turns. */
	assert_in_range(world.n_deaths, RUNS * TURNS / 60, RUNS * TURNS / 20);
	assert_true(world.n_hits > RUNS * 10);
	assert_true(world.n_taken > RUNS * ITEMS / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deaths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
