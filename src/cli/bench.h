/* bench.h - taut bench, in parts.
 *
 *     cmd_bench.c      the command line, and what is printed when
 *     bench_words.c    sizes, names and the environment, read
 *     bench_launch.c   ranks: processes, threads, or what a launcher started
 *     bench_measure.c  one rank: how long one size takes
 *     bench_values.c   what is sent, and whether the right thing came
 *     bench_tune.c     which way is best for each size
 *     bench_out.c      the table, as text and as JSON
 *
 * All ranks do the same in the same order; what they decide by, such as how often
 * to repeat, they agree on first through the communicator that they measure. */
#ifndef TAUT_CLI_BENCH_H
#define TAUT_CLI_BENCH_H

#include <stdio.h>

#include <taut/coll.h>

enum {
	BENCH_MOST_SIZES = 128,
	BENCH_MOST_CHOICES = BENCH_MOST_SIZES + 64, /* one a factor of 2 beyond them */
	BENCH_MOST_RANKS = 256,
};

/* What is measured: the same on every rank. */
struct bench_plan {
	enum taut_coll_verb verb;
	enum taut_type type;
	enum taut_reduction reduction;
	enum taut_coll_way way;
	uint64_t pass_bytes;
	uint32_t at_once, root;
	const char *engine;        /* "inproc": threads; NULL: as taut_comm */
	uint64_t sizes[BENCH_MOST_SIZES]; /* bytes */
	size_t n_sizes;
	unsigned warmup, repeats;  /* 0: by how long one takes */
	bool check, in_place, tune;
};

/* Who runs it. */
struct bench_place {
	bool launched;   /* this process is one rank; else all are made here */
	uint32_t rank, n_ranks;
	const char *meet;
	char meet_text[280];
};

/* Of one size. Times are those of the slowest rank. */
struct bench_row {
	uint64_t bytes, count;
	struct taut_coll_choice choice;
	double median_ns, least_ns, p90_ns;
	uint32_t samples, batch; /* each sample is of so many calls */
	uint64_t wrong;          /* elements, on all ranks */
};

/* Of rank 0. */
struct bench_result {
	char engine[32];
	uint32_t n_ranks, n_hosts;
	size_t n_rows;
	struct bench_row rows[BENCH_MOST_SIZES];
	size_t n_choices; /* of a tuning: from small to large */
	struct taut_coll_choice choices[BENCH_MOST_CHOICES];
};

/* --- bench_words.c -------------------------------------------------------------------
 * Each returns false after filling err with what was expected. */

/* "4:256M:4", "1K,32M": bytes, K, M and G being powers of 1024. */
bool bench_read_sizes(
	const char *text, struct bench_plan *plan, struct taut_error *err);
bool bench_read_bytes(const char *option, const char *text,
	uint64_t *ret_bytes, struct taut_error *err);
/* The number of the name among n that name() has; '-' and '_' do not count. */
bool bench_read_name(const char *option, const char *text, unsigned n,
	const char *(*name)(unsigned i), unsigned *ret_i,
	struct taut_error *err);
/* Where this process stands: what was asked for by --ranks (0: nothing) and
 * --meet (NULL), else what the environment says, else all cores here. */
bool bench_find_place(unsigned ranks, const char *meet,
	struct bench_place *ret_place, struct taut_error *err);

/* --- bench_launch.c --------------------------------------------------------------------*/

/* Do the buffers of the ranks that are made here fit in so many bytes? 0: nobody
 * knows, so they do. TAUT_ENOMEM: they do not. */
taut_status bench_find_room(const struct bench_plan *plan,
	const struct bench_place *place, uint64_t left_bytes,
	struct taut_error *err);
/* Runs this process's part of the plan, or all of it. On rank 0 result is filled. */
taut_status bench_launch(const struct bench_plan *plan,
	const struct bench_place *place, struct bench_result *result,
	struct taut_error *err);

/* --- bench_measure.c -------------------------------------------------------------------*/

struct bench_rank {
	const struct bench_plan *plan;
	struct taut_comm *comm;
	uint32_t rank, n_ranks;
	void *input, *output; /* input NULL: in place */
	struct taut_progress progress; /* of rank 0; else nothing */
};

/* All sizes, or the tuning. result may be NULL but on rank 0. */
taut_status bench_rank_run(struct bench_rank *rank,
	struct bench_result *result, struct taut_error *err);
/* A call of the plan's kind. */
struct taut_coll_call bench_call(const struct bench_rank *rank,
	uint64_t bytes);
/* The most of all ranks, of each. */
taut_status bench_agree(struct bench_rank *rank, int64_t *values, size_t n,
	enum taut_reduction reduction, struct taut_error *err);
/* The same call again and again for about budget_ns, `least` samples or more; fills
 * the times of row. */
taut_status bench_time(struct bench_rank *rank,
	const struct taut_coll_call *call, int64_t budget_ns, uint32_t least,
	struct bench_row *row, struct taut_error *err);
/* One call with known inputs: fills wrong of row. Leaves zeros where the next calls
 * work, which in place they stay. */
taut_status bench_check(struct bench_rank *rank,
	const struct taut_coll_call *call, struct bench_row *row,
	struct taut_error *err);
void bench_tell(const struct bench_rank *rank, const char *what,
	uint64_t done, uint64_t total);

/* --- bench_values.c --------------------------------------------------------------------
 * Small whole numbers, exact in every type, that follow from rank and place. */

/* The rank's input, into to[0..count). */
void bench_fill(const struct bench_rank *rank, uint64_t count, void *to);
/* Elements of output that are not what they must be after a call. */
uint64_t bench_count_wrong(const struct bench_rank *rank, uint64_t count);

/* --- bench_tune.c ------------------------------------------------------------------------*/

/* Measures all that the plan leaves open, and fills rows and choices. */
taut_status bench_tune(struct bench_rank *rank, struct bench_result *result,
	struct taut_error *err);
/* The choices, as taut_comm_options.table is read. */
taut_status bench_write_table(const struct bench_result *result, FILE *out,
	struct taut_error *err);

/* --- bench_out.c -------------------------------------------------------------------------*/

/* Bytes that each link must carry for one byte of the buffer: what busbw is. */
double bench_bus_factor(enum taut_coll_verb verb, uint32_t n_ranks);
taut_status bench_text(const struct bench_plan *plan,
	const struct bench_result *result, FILE *out, struct taut_error *err);
taut_status bench_json(const struct bench_plan *plan,
	const struct bench_result *result, FILE *out, struct taut_error *err);

#endif /* TAUT_CLI_BENCH_H */
