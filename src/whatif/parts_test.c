/* parts_test.c - blocks with gaps, of seeds: at every moment their parts are
 * together what each gap, by itself, leaves of what the others do. */
#include <math.h>

#include "tests/support/alloc_fail.h"
#include "tests/support/unit.h"
#include "whatif/parts.h"

enum { OPS = 24, BLOCKS = 3, MOST_GAPS = 6, OP_NS = 10 };

/* Operations of OP_NS behind each other; blocks from the first to the last. */
struct job {
	int64_t start_ns[OPS], dur_ns[OPS];
	struct taut_run run;
	struct taut_graph graph;
	struct taut_block blocks[BLOCKS];
	struct taut_memory_rank rank;
	struct taut_memory memory;
	double scale[BLOCKS];
	struct tauti_whatif w;
};

struct hole {
	uint32_t until, again;
	double share;
};

static uint32_t draw(uint32_t *seed, uint32_t most)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (*seed >> 8) % most;
}

static void begin(struct job *j)
{
	*j = (struct job){ .run.n_traces = 1, .rank = { .n_blocks = BLOCKS } };
	j->graph = (struct taut_graph){ .run = &j->run, .n_ops = OPS,
		.start_ns = j->start_ns, .dur_ns = j->dur_ns };
	j->memory = (struct taut_memory){ &j->graph, BLOCKS, j->blocks,
		&j->rank };
	for (int i = 0; i < OPS; i++) {
		j->start_ns[i] = i * OP_NS;
		j->dur_ns[i] = OP_NS;
	}
	for (int i = 0; i < BLOCKS; i++) {
		j->blocks[i] = (struct taut_block){ 1000 * (i + 1), 0, OPS - 1,
			0.25, 0.75 };
		j->scale[i] = 1 << i;
	}
	j->w = (struct tauti_whatif){ .graph = &j->graph,
		.memory = &j->memory, .block_scale = j->scale,
		.arena = taut_arena_create() };
	assert_non_null(j->w.arena);
}

static double instant(uint32_t op, double at)
{
	return OP_NS * (op + at);
}

/* Of the parts of blocks of so many bytes. */
static double height(const struct tauti_parts *p, int64_t bytes, double at)
{
	double sum = 0;

	for (uint32_t i = 0; i < p->memory.n_blocks; i++) {
		const struct taut_block *b = &p->memory.blocks[i];

		if (b->bytes == bytes && at >= instant(b->from_op, b->from_at) &&
			at < instant(b->to_op, b->to_at))
			sum += p->scale.data[i];
	}
	return sum;
}

static double left(const struct hole *holes, uint32_t n, uint32_t op)
{
	double product = 1;

	for (uint32_t i = 0; i < n; i++)
		if (holes[i].until < op && op < holes[i].again)
			product *= 1 - holes[i].share;
	return product;
}

static void check_seed(uint32_t seed)
{
	static const double shares[] = { 0.25, 0.5, 1, 0.1 };
	struct hole holes[BLOCKS][MOST_GAPS];
	uint32_t n[BLOCKS];
	struct tauti_parts p;
	struct taut_error err = { 0 };
	struct job j;

	begin(&j);
	for (uint32_t b = 0; b < BLOCKS; b++) {
		n[b] = draw(&seed, MOST_GAPS + 1);
		for (uint32_t i = 0; i < n[b]; i++) {
			uint32_t until = 1 + draw(&seed, OPS - 3);
			uint32_t again = until + 1 +
				draw(&seed, OPS - 2 - until);

			holes[b][i] = (struct hole){ until, again,
				shares[draw(&seed, 4)] };
			assert_int_equal(tauti_add_gap(&j.w, b, until, again,
				holes[b][i].share, &err), TAUT_OK);
		}
	}
	assert_int_equal(tauti_parts_make(&j.w, &p, &err), TAUT_OK);
	assert_int_equal(p.memory.ranks->n_blocks, p.memory.n_blocks);
	for (uint32_t b = 0; b < BLOCKS; b++)
		for (uint32_t op = 1; op + 1 < OPS; op++) {
			double is = height(&p, 1000 * (b + 1),
				instant(op, 0.5)) / j.scale[b];

			if (fabs(is - left(holes[b], n[b], op)) > 1e-12)
				fail_msg("block %u, op %u: %g", b, op, is);
		}
	tauti_parts_fini(&p);
	taut_arena_destroy(j.w.arena);
}

static void test_seeds(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 3000; seed++)
		check_seed(seed);
}

/* One that would end before it begins is none. */
static void test_order(void **state)
{
	struct tauti_parts p;
	struct taut_error err = { 0 };
	struct job j;

	(void)state;
	begin(&j);
	assert_int_equal(tauti_add_gap(&j.w, 0, 5, 5, 1, &err), TAUT_OK);
	assert_int_equal(tauti_add_gap(&j.w, 0, 9, 3, 1, &err), TAUT_OK);
	assert_int_equal(tauti_parts_make(&j.w, &p, &err), TAUT_OK);
	assert_int_equal(p.memory.n_blocks, BLOCKS);
	tauti_parts_fini(&p);
	taut_arena_destroy(j.w.arena);
}

static void test_no_memory(void **state)
{
	taut_status status = TAUT_ENOMEM;

	(void)state;
	for (long at = 0; status; at++) {
		struct tauti_parts p = { .ranks = NULL };
		struct taut_error err = { 0 };
		struct job j;

		begin(&j);
		alloc_fail_after(at);
		status = tauti_add_gap(&j.w, 1, 2, 20, 0.5, &err);
		if (!status)
			status = tauti_add_gap(&j.w, 1, 4, 9, 0.5, &err);
		if (!status)
			status = tauti_parts_make(&j.w, &p, &err);
		alloc_fail_never();
		assert_true(!status || status == TAUT_ENOMEM);
		tauti_parts_fini(&p);
		taut_arena_destroy(j.w.arena);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seeds),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
