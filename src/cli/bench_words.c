/* bench_words.c - see bench.h: what the command line and launchers say. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/opt.h"

#define MOST_BYTES ((uint64_t)1 << 40)

/* --- sizes -------------------------------------------------------------------------*/

static bool add_size(struct bench_plan *plan, uint64_t bytes)
{
	if (plan->n_sizes == BENCH_MOST_SIZES)
		return false;
	plan->sizes[plan->n_sizes++] = bytes;
	return true;
}

/* "FROM", "FROM:TO" or "FROM:TO:FACTOR" */
static bool take_range(const char **at, struct bench_plan *plan)
{
	uint64_t from, to, factor = 4;

	if (!opt_bytes(at, MOST_BYTES, &from))
		return false;
	to = from;
	if (**at == ':' && (++*at, !opt_bytes(at, MOST_BYTES, &to)))
		return false;
	if (**at == ':' && (++*at, !opt_bytes(at, MOST_BYTES, &factor)))
		return false;
	if (from < 1 || to < from || factor < 2)
		return false;
	for (;; from *= factor) {
		if (!add_size(plan, from))
			return false;
		if (from > to / factor)
			return true;
	}
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

bool bench_read_sizes(
	const char *text, struct bench_plan *plan, struct taut_error *err)
{
	const char *at = text;

	plan->n_sizes = 0;
	while (take_range(&at, plan)) {
		if (!*at) {
			qsort(plan->sizes, plan->n_sizes, sizeof *plan->sizes,
				by_number);
			return true;
		}
		if (*at++ != ',')
			break;
	}
	taut_error_set(err, TAUT_EINVAL, -1, "--sizes: expected at most %d "
		"sizes like 4:256M:4 or 1K,32M, found '%s'", BENCH_MOST_SIZES,
		text);
	return false;
}

bool bench_read_bytes(const char *option, const char *text,
	uint64_t *ret_bytes, struct taut_error *err)
{
	const char *at = text;

	if (opt_bytes(&at, MOST_BYTES, ret_bytes) && !*at && *ret_bytes)
		return true;
	taut_error_set(err, TAUT_EINVAL, -1, "--%s: expected bytes like 4096, "
		"64K or 4M, found '%s'", option, text);
	return false;
}

/* --- names -----------------------------------------------------------------------------*/

static bool same_name(const char *a, const char *b)
{
	for (;; a++, b++) {
		a += strspn(a, "-_");
		b += strspn(b, "-_");
		if (*a != *b || !*a)
			return *a == *b;
	}
}

bool bench_read_name(const char *option, const char *text, unsigned n,
	const char *(*name)(unsigned i), unsigned *ret_i,
	struct taut_error *err)
{
	const char *names[32], *near;
	char all[256] = "";
	size_t len = 0;

	for (unsigned i = 0; i < n && i < 32; i++) {
		names[i] = name(i);
		if (same_name(text, names[i])) {
			*ret_i = i;
			return true;
		}
		len += (size_t)snprintf(all + len, sizeof all - len, "%s%s",
			!i ? "" : i + 1 < n ? ", " : " or ", names[i]);
		if (len >= sizeof all)
			len = sizeof all - 1;
	}
	near = opt_nearest(text, names, n < 32 ? n : 32);
	if (near)
		taut_error_set(err, TAUT_EINVAL, -1, "%s: no '%s'; did you "
			"mean %s?", option, text, near);
	else
		taut_error_set(err, TAUT_EINVAL, -1, "%s: expected %s, found "
			"'%s'", option, all, text);
	return false;
}

/* --- launchers -------------------------------------------------------------------------*/

/* How launchers tell a rank its place. Where a host and port come too, the port
 * is that of the launcher's own store: ours is the next one. */
static const struct launcher {
	const char *rank, *size, *meet, *host, *port;
	const char *within; /* not believed without this; may be NULL */
} launchers[] = {
	{ "TAUT_RANK", "TAUT_RANKS", "TAUT_MEET", NULL, NULL, NULL },
	{ "RANK", "WORLD_SIZE", NULL, "MASTER_ADDR", "MASTER_PORT", NULL },
	{ "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL, NULL, NULL, NULL },
	{ "PMI_RANK", "PMI_SIZE", NULL, NULL, NULL, NULL },
	/* The script of a job is told that it is task 0, and is in no step of srun. */
	{ "SLURM_PROCID", "SLURM_NTASKS", NULL, NULL, NULL, "SLURM_STEP_ID" },
};

/* Of the environment; false when it is not there or no number below `most`. */
static bool number_of(const char *name, unsigned long most,
	uint32_t *ret_number)
{
	const char *text = getenv(name);
	unsigned long number;
	char *end;

	if (!text || !isdigit((unsigned char)*text))
		return false;
	number = strtoul(text, &end, 10);
	if (*end || number >= most)
		return false;
	*ret_number = (uint32_t)number;
	return true;
}

static const struct launcher *find_launcher(struct bench_place *place)
{
	for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++)
		if (number_of(launchers[i].rank, UINT32_MAX, &place->rank) &&
			number_of(launchers[i].size, UINT32_MAX,
				&place->n_ranks) &&
			(!launchers[i].within || getenv(launchers[i].within)))
			return &launchers[i];
	return NULL;
}

static const char *meet_of(
	const struct launcher *launcher, struct bench_place *place)
{
	const char *host;
	uint32_t port;

	if (launcher->meet)
		return getenv(launcher->meet);
	if (!launcher->host)
		return NULL;
	host = getenv(launcher->host);
	if (!host || !number_of(launcher->port, 65535, &port))
		return NULL;
	snprintf(place->meet_text, sizeof place->meet_text, "%s:%u", host,
		(unsigned)port + 1);
	return place->meet_text;
}

bool bench_find_place(unsigned ranks, const char *meet,
	struct bench_place *ret_place, struct taut_error *err)
{
	struct bench_place *place = ret_place;
	const struct launcher *launcher;
	unsigned cores = taut_cores();

	*place = (struct bench_place){ .n_ranks = ranks };
	launcher = ranks ? NULL : find_launcher(place);
	if (!launcher && meet) {
		taut_error_set(err, TAUT_EINVAL, -1, ranks ?
			"--meet: ranks that --ranks makes meet by themselves" :
			"--meet: nothing says which rank this is: expected "
			"$TAUT_RANK and $TAUT_RANKS, or a launcher's");
		return false;
	}
	if (ranks)
		return true;
	if (!launcher) {
		*place = (struct bench_place){ .n_ranks = cores < 2 ? 2 :
			cores > BENCH_MOST_RANKS ? BENCH_MOST_RANKS : cores };
		return true;
	}
	place->launched = true;
	place->meet = meet ? meet : meet_of(launcher, place);
	if (place->n_ranks && place->rank < place->n_ranks && place->meet)
		return true;
	taut_error_set(err, TAUT_EINVAL, -1, place->meet ?
		"$%s is no rank of $%s" : "$%s and $%s are set: expected "
		"--meet HOST:PORT, or --ranks for ranks of its own",
		launcher->rank, launcher->size);
	return false;
}
