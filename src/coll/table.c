/* table.c - which way a call takes. rows.c reads and writes rows. */
#include "coll/table.h"

#include <stdlib.h>

/* --- what is built in ------------------------------------------------------------------
 * Few rows, by what holds anywhere: one step for what is tiny; in one host each
 * with each, for memory is as near to all (HOSTS, which on one host is DIRECT
 * without its order); between hosts the fewest steps first and the fewest bytes
 * later; where hosts have several ranks, each byte between
 * hosts once. A file of measured rows comes before them. */

enum hosts { ONE, ALONE, SEVERAL }; /* on one; one rank each; some with more */

static const struct built_in {
	enum taut_coll_verb verb;
	enum hosts hosts;
	uint32_t least_ranks, most_ranks;
	uint64_t from_bytes;
	enum taut_coll_way way;
	uint64_t pass_bytes;
	uint32_t passes_at_once;
} built_in[] = {
	{ TAUT_ALLREDUCE, ONE, 1, TAUT_NONE, 0, TAUT_WAY_FLAT, 0, 1 },
	{ TAUT_ALLREDUCE, ONE, 1, TAUT_NONE, 8 << 10, TAUT_WAY_HOSTS, 0, 1 },
	{ TAUT_ALLREDUCE, ONE, 1, TAUT_NONE, 4 << 20, TAUT_WAY_HOSTS,
		1 << 20, 2 },
	/* Two ranks: each takes all of the other's, which is as many bytes from one
	 * core to the other, and one step instead of two. */
	{ TAUT_ALLREDUCE, ONE, 2, 2, 0, TAUT_WAY_FLAT, 256 << 10, 4 },
	{ TAUT_ALLREDUCE, ALONE, 1, 4, 0, TAUT_WAY_FLAT, 0, 1 },
	{ TAUT_ALLREDUCE, ALONE, 5, TAUT_NONE, 0, TAUT_WAY_DOUBLING, 0, 1 },
	{ TAUT_ALLREDUCE, ALONE, 1, TAUT_NONE, 8 << 10, TAUT_WAY_HALVING, 0, 1 },
	/* of two ranks each takes all of the other's in one step; halves would take two,
	 * and are as many bytes */
	{ TAUT_ALLREDUCE, ALONE, 2, 2, 0, TAUT_WAY_FLAT, 0, 1 },
	/* where ranks are no power of two, halving sends up to twice as much */
	{ TAUT_ALLREDUCE, ALONE, 3, 3, 8 << 10, TAUT_WAY_DIRECT, 0, 1 },
	{ TAUT_ALLREDUCE, ALONE, 5, 7, 128 << 10, TAUT_WAY_RING, 0, 1 },
	{ TAUT_ALLREDUCE, ALONE, 1, TAUT_NONE, 1 << 20, TAUT_WAY_RING,
		2 << 20, 2 },
	{ TAUT_ALLREDUCE, ALONE, 2, 2, 1 << 20, TAUT_WAY_FLAT, 1 << 20, 2 },
	/* but each adds up all of it then, where half would do: of what is large that is the
	 * dearer of the two */
	{ TAUT_ALLREDUCE, ALONE, 2, 2, 4 << 20, TAUT_WAY_DIRECT, 4 << 20, 4 },
	/* of few ranks the fewest steps: each is a wait for the slowest. Passes fill the
	 * link meanwhile; smaller ones cost more than they fill */
	{ TAUT_ALLREDUCE, ALONE, 4, 4, 512 << 10, TAUT_WAY_DIRECT, 0, 1 },
	{ TAUT_ALLREDUCE, ALONE, 3, 4, 1 << 20, TAUT_WAY_DIRECT, 512 << 10, 4 },
	{ TAUT_ALLREDUCE, ALONE, 3, 4, 4 << 20, TAUT_WAY_DIRECT, 1 << 20, 4 },
	{ TAUT_ALLREDUCE, SEVERAL, 1, 4, 0, TAUT_WAY_FLAT, 0, 1 },
	{ TAUT_ALLREDUCE, SEVERAL, 5, TAUT_NONE, 0, TAUT_WAY_DOUBLING, 0, 1 },
	{ TAUT_ALLREDUCE, SEVERAL, 1, TAUT_NONE, 8 << 10, TAUT_WAY_HOSTS, 0, 1 },
	{ TAUT_ALLREDUCE, SEVERAL, 1, TAUT_NONE, 1 << 20, TAUT_WAY_HOSTS,
		1 << 20, 4 },

	{ TAUT_REDUCE_SCATTER, ONE, 1, TAUT_NONE, 0, TAUT_WAY_DIRECT, 0, 1 },
	{ TAUT_REDUCE_SCATTER, ONE, 1, TAUT_NONE, 4 << 20, TAUT_WAY_DIRECT,
		2 << 20, 2 },
	{ TAUT_REDUCE_SCATTER, ALONE, 1, TAUT_NONE, 0, TAUT_WAY_DIRECT, 0, 1 },
	{ TAUT_REDUCE_SCATTER, ALONE, 1, TAUT_NONE, 1 << 20, TAUT_WAY_RING,
		2 << 20, 2 },
	{ TAUT_REDUCE_SCATTER, SEVERAL, 1, TAUT_NONE, 0, TAUT_WAY_DIRECT, 0, 1 },
	{ TAUT_REDUCE_SCATTER, SEVERAL, 1, TAUT_NONE, 64 << 10, TAUT_WAY_HOSTS,
		0, 1 },
	{ TAUT_REDUCE_SCATTER, SEVERAL, 1, TAUT_NONE, 1 << 20, TAUT_WAY_HOSTS,
		1 << 20, 4 },

	{ TAUT_ALLGATHER, ONE, 1, TAUT_NONE, 0, TAUT_WAY_DIRECT, 0, 1 },
	{ TAUT_ALLGATHER, ONE, 1, TAUT_NONE, 4 << 20, TAUT_WAY_DIRECT,
		2 << 20, 2 },
	{ TAUT_ALLGATHER, ALONE, 1, TAUT_NONE, 0, TAUT_WAY_DIRECT, 0, 1 },
	{ TAUT_ALLGATHER, ALONE, 1, TAUT_NONE, 1 << 20, TAUT_WAY_RING,
		2 << 20, 2 },
	{ TAUT_ALLGATHER, SEVERAL, 1, TAUT_NONE, 0, TAUT_WAY_DIRECT, 0, 1 },
	{ TAUT_ALLGATHER, SEVERAL, 1, TAUT_NONE, 64 << 10, TAUT_WAY_HOSTS,
		0, 1 },
	{ TAUT_ALLGATHER, SEVERAL, 1, TAUT_NONE, 1 << 20, TAUT_WAY_HOSTS,
		1 << 20, 4 },

	{ TAUT_BROADCAST, ONE, 1, TAUT_NONE, 0, TAUT_WAY_FLAT, 0, 1 },
	{ TAUT_BROADCAST, ONE, 1, TAUT_NONE, 4 << 20, TAUT_WAY_FLAT,
		1 << 20, 4 },
	{ TAUT_BROADCAST, ALONE, 1, 4, 0, TAUT_WAY_FLAT, 0, 1 },
	{ TAUT_BROADCAST, ALONE, 5, TAUT_NONE, 0, TAUT_WAY_TREE, 0, 1 },
	{ TAUT_BROADCAST, ALONE, 1, TAUT_NONE, 256 << 10, TAUT_WAY_TREE,
		256 << 10, 8 },
	{ TAUT_BROADCAST, SEVERAL, 1, TAUT_NONE, 0, TAUT_WAY_HOSTS, 0, 1 },
	{ TAUT_BROADCAST, SEVERAL, 1, TAUT_NONE, 1 << 20, TAUT_WAY_HOSTS,
		1 << 20, 4 },
};
enum { N_BUILT_IN = sizeof built_in / sizeof *built_in };

/* The way, or another that the verb has. */
static enum taut_coll_way that_is(
	enum taut_coll_verb verb, enum taut_coll_way way)
{
	static const enum taut_coll_way others[] = { TAUT_WAY_DIRECT,
		TAUT_WAY_FLAT, TAUT_WAY_TREE, TAUT_WAY_RING, TAUT_WAY_HALVING,
		TAUT_WAY_DOUBLING };

	if (taut_coll_has(verb, way))
		return way;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (taut_coll_has(verb, others[i]))
			return others[i];
	return way;
}

/* --- what holds for a communicator -----------------------------------------------------*/

struct place {
	uint32_t n_ranks, n_hosts;
	const struct taut_coll_choice *rows;
	size_t n_rows;
};

static enum hosts hosts_of(const struct place *place)
{
	if (place->n_hosts <= 1)
		return ONE;
	return place->n_hosts == place->n_ranks ? ALONE : SEVERAL;
}

static bool built_in_fits(const struct built_in *row,
	const struct place *place, enum taut_coll_verb verb)
{
	return row->verb == verb && row->hosts == hosts_of(place) &&
		row->least_ranks <= place->n_ranks &&
		row->most_ranks >= place->n_ranks;
}

/* 0: it does not; else the more the better. */
static int row_fits(const struct taut_coll_choice *row,
	const struct place *place, enum taut_coll_verb verb)
{
	if (row->verb != verb ||
		(row->n_ranks && row->n_ranks != place->n_ranks) ||
		(row->n_hosts && row->n_hosts != place->n_hosts))
		return 0;
	return 1 + 2 * (row->n_hosts != 0) + (row->n_ranks != 0);
}

static struct taut_coll_choice choose(const struct place *place,
	enum taut_coll_verb verb, uint64_t bytes)
{
	struct taut_coll_choice choice = { .verb = verb };
	int best = 0;

	for (size_t i = 0; i < N_BUILT_IN; i++) {
		const struct built_in *row = &built_in[i];

		if (!built_in_fits(row, place, verb) || row->from_bytes > bytes)
			continue;
		choice.way = that_is(verb, row->way);
		choice.pass_bytes = row->pass_bytes;
		choice.passes_at_once = row->passes_at_once;
	}
	for (size_t i = 0; i < place->n_rows; i++) {
		const struct taut_coll_choice *row = &place->rows[i];
		int fits = row_fits(row, place, verb);

		if (!fits || row->from_bytes > bytes || fits < best ||
			(fits == best && row->from_bytes < choice.from_bytes))
			continue;
		best = fits;
		choice = *row;
	}
	choice.n_ranks = place->n_ranks;
	choice.n_hosts = place->n_hosts;
	choice.from_bytes = bytes;
	return choice;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The sizes at which the choice may change, from 0; from_bytes has room. */
static size_t find_steps(const struct place *place, enum taut_coll_verb verb,
	uint64_t *from_bytes)
{
	size_t n = 0, n_different = 0;

	from_bytes[n++] = 0;
	for (size_t i = 0; i < N_BUILT_IN; i++)
		if (built_in_fits(&built_in[i], place, verb))
			from_bytes[n++] = built_in[i].from_bytes;
	for (size_t i = 0; i < place->n_rows; i++)
		if (row_fits(&place->rows[i], place, verb))
			from_bytes[n++] = place->rows[i].from_bytes;
	qsort(from_bytes, n, sizeof *from_bytes, by_size);
	for (size_t i = 0; i < n; i++)
		if (!i || from_bytes[i] != from_bytes[n_different - 1])
			from_bytes[n_different++] = from_bytes[i];
	return n_different;
}

taut_status tauti_table_init(struct tauti_table *table, uint32_t n_ranks,
	uint32_t n_hosts, const struct taut_coll_choice *rows, size_t n_rows,
	struct taut_error *reterr)
{
	struct place place = { n_ranks, n_hosts, rows, n_rows };
	size_t most = 1 + N_BUILT_IN + n_rows;
	uint64_t *steps = calloc(most, sizeof *steps);

	table->rows = calloc(TAUT_VERBS * most, sizeof *table->rows);
	if (!steps || !table->rows) {
		free(steps);
		tauti_table_fini(table);
		return taut_error_set(reterr, TAUT_ENOMEM, -1,
			"table of collectives: out of memory");
	}
	table->first[0] = 0;
	for (int verb = 0; verb < TAUT_VERBS; verb++) {
		size_t n = find_steps(
			&place, (enum taut_coll_verb)verb, steps);
		uint32_t first = table->first[verb];

		for (size_t i = 0; i < n; i++)
			table->rows[first + i] = choose(&place,
				(enum taut_coll_verb)verb, steps[i]);
		table->first[verb + 1] = first + (uint32_t)n;
	}
	free(steps);
	return TAUT_OK;
}

void tauti_table_fini(struct tauti_table *table)
{
	free(table->rows);
	table->rows = NULL;
}

const struct taut_coll_choice *tauti_table_choice(
	const struct tauti_table *table, enum taut_coll_verb verb,
	uint64_t bytes)
{
	const struct taut_coll_choice *row =
		&table->rows[table->first[verb + 1] - 1];

	while (row->from_bytes > bytes)
		row--;
	return row;
}
