/* embeddings.c - which rows the ranks look up, as their recordings tell.
 *
 * Each rank tells how many of an embedding's rows it looked up in a step, and the least
 * of their hashes, which are the same on all ranks: of all rows of all ranks the least K
 * hashes are known then, and if the Kth of n that are spread evenly over [0, 1) is h,
 * n is (K - 1) / h (Bar-Yossef et al., Counting Distinct Elements in a Data Stream,
 * 2002; Beyer et al., SIGMOD 2007), to one part in sqrt(K - 2). Fewer are counted. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "whatif/rows.h"

enum {
	MOST_HASHES = 512, /* of a rank: python/taut/_torch_rows.py */
	MOST_EMBEDDINGS = 1024, /* others go as wholes */
};

static const char key_begin[] = "embedding.";

typedef TAUT_VEC(uint32_t) hashes;

struct told { /* by one rank */
	uint32_t rows, row_bytes, looked_up, other;
	hashes least; /* ascending */
};

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(
		err, TAUT_ENOMEM, -1, "no memory for embeddings");
}

/* --- one fact ------------------------------------------------------------------------ */

/* *at is behind it, and behind a space where something comes. */
static bool read_number(const char **at, int base, uint32_t *ret)
{
	size_t n = strspn(*at, base == 16 ? "0123456789abcdef" : "0123456789");
	unsigned long long value = strtoull(*at, NULL, base);
	const char *end = *at + n;

	if (!n || n > 10 || value > UINT32_MAX ||
		(*end && (*end != ' ' || !end[1])))
		return false;
	*at = end + (*end == ' ');
	*ret = (uint32_t)value;
	return true;
}

static taut_status wrong(const struct taut_fact *fact, uint32_t rank,
	const char *what, struct taut_error *err)
{
	return taut_error_set(err, TAUT_EINVAL, -1, "rows: fact %.80s of rank %"
		PRIu32 ": %s; found '%.40s'", fact->key, rank, what, fact->value);
}

/* "ROWS BYTES LOOKED-UP OTHER HASH...", hashes in hexadecimal digits. */
static taut_status read(const struct taut_fact *fact, uint32_t rank,
	struct told *ret, struct taut_error *err)
{
	const char *at = fact->value;
	uint32_t hash;

	taut_vec_clear(&ret->least);
	if (!read_number(&at, 10, &ret->rows) ||
		!read_number(&at, 10, &ret->row_bytes) ||
		!read_number(&at, 10, &ret->looked_up) ||
		!read_number(&at, 10, &ret->other))
		return wrong(fact, rank, "expected four numbers, of rows, "
			"bytes of one, those looked up, and other uses", err);
	if (!ret->rows || !ret->row_bytes || ret->looked_up > ret->rows ||
		ret->row_bytes > INT64_MAX / ret->rows)
		return wrong(fact, rank, "expected rows of some bytes, and no "
			"more looked up than there are", err);
	while (*at) {
		size_t n = ret->least.count;

		if (n == MOST_HASHES || !read_number(&at, 16, &hash) ||
			(n && hash <= ret->least.data[n - 1]))
			return wrong(fact, rank, "expected hashes of rows, "
				"ascending, 512 at most", err);
		if (!taut_vec_push(&ret->least, hash))
			return no_memory(err);
	}
	if (ret->least.count != (ret->looked_up < MOST_HASHES ?
		ret->looked_up : MOST_HASHES))
		return wrong(fact, rank, "expected a hash for each row, or 512",
			err);
	return TAUT_OK;
}

/* --- all ranks ------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void keep_distinct(hashes *all)
{
	size_t n = 0;

	if (all->count)
		qsort(all->data, all->count, sizeof *all->data, ascending);
	for (size_t i = 0; i < all->count; i++)
		if (!n || all->data[n - 1] != all->data[i])
			all->data[n++] = all->data[i];
	all->count = n;
}

struct union_of {
	hashes all;
	bool is_whole;       /* every hash of every rank */
	uint64_t most, sum;  /* of a rank; of them all */
};

static uint32_t distinct(struct union_of *u, uint32_t rows)
{
	double n;

	keep_distinct(&u->all);
	n = (double)u->all.count;
	if (!u->is_whole)
		n = (MOST_HASHES - 1) / (((double)u->all.data[
			MOST_HASHES - 1] + 1) / 0x1p32);
	if (n > (double)u->sum)
		n = (double)u->sum;
	if (n < (double)u->most)
		n = (double)u->most;
	return n < rows ? (uint32_t)n : rows;
}

/* *ret_same: all ranks tell of it, and of an embedding of the same form. */
static taut_status join(const struct taut_run *run, const struct taut_fact *fact,
	struct told *told, struct union_of *u, struct tauti_embedding *ret,
	bool *ret_same, struct taut_error *err)
{
	taut_status status = TAUT_OK;

	*ret_same = true;
	u->is_whole = true;
	u->most = u->sum = 0;
	taut_vec_clear(&u->all);
	for (size_t r = 0; !status && *ret_same && r < run->n_traces; r++) {
		struct taut_fact of = { fact->key,
			taut_trace_fact(&run->traces[r], fact->key) };

		*ret_same = of.value != NULL;
		if (!of.value)
			break;
		status = read(&of, (uint32_t)r, told, err);
		if (status)
			break;
		if (!r)
			*ret = (struct tauti_embedding) {
				fact->key + sizeof key_begin - 1, told->rows,
				told->row_bytes, 0, told->other };
		*ret_same = told->rows == ret->rows &&
			told->row_bytes == ret->row_bytes &&
			told->other == ret->other;
		u->is_whole &= told->looked_up <= MOST_HASHES;
		u->sum += told->looked_up;
		if (told->looked_up > u->most)
			u->most = told->looked_up;
		for (size_t i = 0; i < told->least.count; i++)
			if (!taut_vec_push(&u->all, told->least.data[i]))
				return no_memory(err);
	}
	if (!status && *ret_same)
		ret->looked_up = distinct(u, ret->rows);
	return status;
}

/* Of several models those of one name cannot be told apart. */
static bool is_one(const struct taut_trace *t, const struct taut_fact *fact)
{
	uint32_t n = 0;

	if (strncmp(fact->key, key_begin, sizeof key_begin - 1))
		return false;
	for (size_t i = 0; i < t->n_facts; i++)
		n += !strcmp(t->facts[i].key, fact->key);
	return n == 1;
}

taut_status tauti_embeddings(const struct taut_run *run, struct taut_arena *arena,
	struct tauti_embedding **ret_list, uint32_t *ret_n, struct taut_error *err)
{
	const struct taut_trace *first = run && run->n_traces ?
		run->traces : NULL;
	size_t n_facts = first ? first->n_facts : 0;
	struct tauti_embedding *list = TAUT_ARENA_ARRAY(
		arena, struct tauti_embedding, MOST_EMBEDDINGS);
	struct told told = { 0 };
	struct union_of u = { .is_whole = true };
	uint32_t n = 0;
	taut_status status = list ? TAUT_OK : no_memory(err);

	for (size_t i = 0; !status && i < n_facts && n < MOST_EMBEDDINGS; i++) {
		bool same;

		if (!is_one(first, &first->facts[i]))
			continue;
		status = join(run, &first->facts[i], &told, &u, &list[n],
			&same, err);
		n += !status && same;
	}
	taut_vec_free(&told.least);
	taut_vec_free(&u.all);
	if (!status) {
		*ret_list = list;
		*ret_n = n;
	}
	return status;
}
