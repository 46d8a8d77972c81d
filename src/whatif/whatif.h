/* whatif.h - what the files of this room share.
 *
 * predict.c runs a prediction: facts of the job, costs, each change in turn
 * (apply), the changed graph with its sharing, a replay, the step time. To know
 * how sure it is, it does all of that again with one uncertain cost at a time
 * at either end of its range. A transformation is one file and one row of
 * table.c; it only edits, and says what it assumed. */
#ifndef TAUT_WHATIF_INTERNAL_H
#define TAUT_WHATIF_INTERNAL_H

#include <stdbool.h>

#include <taut/memory.h>
#include <taut/whatif.h>

#include "base/vec.h"

/* In a note of graphs: where a pass would be several. */
#define TAUTI_WAITS_WITHIN "the host waits for the device within the passes"

enum { TAUTI_MOST_OPS = 20000000 }; /* of an edit; some 4 GB */
enum { TAUTI_MOST_CHANGES = 64 };   /* of a stack */

/* --- parameters, read (params.c) ----------------------------------------------- */
struct tauti_change { /* one change, split into texts; see params.c */
	const struct tauti_transformation *is;
	const char *const *values; /* beside is->info.parameters; "": left out */
	const char *text;          /* as given, for messages */
};
/* TAUT_EINVAL: no such change or key (names the nearest one), no value where
 * one must be. Texts live in arena. */
taut_status tauti_change_read(const char *text, struct taut_arena *arena,
	struct tauti_change *ret_change, struct taut_error *err);
bool tauti_param_given(const struct tauti_change *c, size_t i);
/* TAUT_EINVAL: "link: latency: expected <expected>, found '4gbot'". */
taut_status tauti_param_wrong(const struct tauti_change *c, size_t i,
	const char *expected, struct taut_error *err);
/* Each reads values[i]; TAUT_EINVAL names the change, the key and the form. */
taut_status tauti_param_count(const struct tauti_change *c, size_t i,
	uint32_t least, uint32_t most, uint32_t *ret, struct taut_error *err);
taut_status tauti_param_number(const struct tauti_change *c, size_t i,
	double least, double most, double *ret, struct taut_error *err);
/* "2x", "0.5x", "+25%", "-10%": a factor; "" where values[i] is none of these
 * is TAUT_EINVAL. *ret_is_factor false: it is an absolute value of its unit:
 * bit/s ("4gbit", "1.5Gbit/s", "100mbit"), bytes ("25MB", "25MiB"),
 * nanoseconds ("10us", "1.5ms"), plain, or bytes/s ("500MB/s", "4gbit").
 * Nothing is below 0; 0 may be. */
enum tauti_unit { TAUTI_BITS_PER_S, TAUTI_BYTES, TAUTI_NS, TAUTI_PLAIN,
	TAUTI_BYTES_PER_S };
taut_status tauti_param_scaled(const struct tauti_change *c, size_t i,
	enum tauti_unit unit, bool *ret_is_factor, double *ret,
	struct taut_error *err);
/* Several sizes, "1MiB+4MiB"? */
bool tauti_param_is_row(const struct tauti_change *c, size_t i);
/* Bytes of each of a row, or of the one that there is; above 0, in arena. */
taut_status tauti_param_sizes(const struct tauti_change *c, size_t i,
	struct taut_arena *arena, double **ret_bytes, uint32_t *ret_n,
	struct taut_error *err);
/* "40%", without a sign: *ret is 0.4. False: values[i] is something else. */
bool tauti_param_share(const struct tauti_change *c, size_t i, double *ret);
/* Index among the words of the form "a|b|c". */
taut_status tauti_param_word(const struct tauti_change *c, size_t i,
	uint32_t *ret, struct taut_error *err);

/* Hosts that ranks name; those that name none have one each (settings.c). */
uint32_t tauti_run_hosts(const struct taut_run *run);

/* --- the job as a framework's user sees it (job.c) ------------------------------ */
enum tauti_phase {
	TAUTI_PHASE_NONE,     /* between phases, or not known */
	TAUTI_PHASE_DATA,     /* the main thread gets its batch */
	TAUTI_PHASE_FORWARD,
	TAUTI_PHASE_BACKWARD,
	TAUTI_PHASE_OPTIMIZER,
};

struct tauti_job_step { /* one rank, one step */
	uint32_t rank, step; /* index in graph->steps */
	uint32_t first_gradient, n_gradients; /* in gradients: collectives that
	                        sum gradients, in the order of their arrival */
};

struct tauti_job {
	uint8_t *phase; /* by op of the graph: enum tauti_phase, of host slices by
	                   where they are, of device work by what launched it */
	uint32_t *step_of; /* by op: index in graph->steps; TAUT_NONE outside */
	uint32_t n_steps;
	struct tauti_job_step *steps;
	uint32_t *gradients; /* collective indices */
	uint8_t *within;     /* by collective, 1: an all-reduce that the forward
	                        or backward pass itself waits for, as tensor
	                        parallelism makes them: not of gradients */
	bool has_device;     /* computation is on streams, not host threads */
};
taut_status tauti_job_create(const struct taut_graph *graph,
	struct tauti_job **ret_job, struct taut_error *err);
void tauti_job_destroy(struct tauti_job *job);

/* --- a prediction under way -------------------------------------------------------- */
/* How a collective of the edit is carried out; zero: as recorded. */
struct tauti_way {
	uint8_t algorithm;  /* enum taut_algorithm */
	uint8_t from;       /* the same of what it is like, as recorded; AS_RECORDED:
	                       it is taken for a ring */
	uint32_t servers;
	double wire;   /* bytes on the wire / bytes; 0: 1 */
	double core;   /* cost on the cores / as recorded; 0: 1 */
	double core_ns; /* of each rank's core, beside what its bytes take */
	/* The collective of the recording that it is carried over from, + 1; 0:
	 * the one that it is, or is a copy of. */
	uint32_t like;
	/* What so many bytes would have taken in the recording, in the group and
	 * way of `like`, where that is put together of several; bytes 0: what
	 * like took. */
	double put_bytes, put_amount, put_latency_ns;
	/* Of a link that no recording shows: nanoseconds for a byte of the law,
	 * for each of its messages, and the share of a core. 0: as recorded. */
	double ns_per_byte, message_ns, drag;
	double share;  /* of what it takes else; 0: 1. Where bytes, which say
	                  more, are not known */
};

/* What may be otherwise than assumed: each is tried at both ends. */
enum tauti_doubt {
	TAUTI_DOUBT_NONE,
	TAUTI_DOUBT_LINE,   /* latency and rate of links, two standard errors */
	TAUTI_DOUBT_DRAG,   /* slow-down of computation under transfers */
	TAUTI_DOUBT_RECORDER, /* what recording cost, which is taken off */
	TAUTI_DOUBT_MODEL,  /* a transformation's own: tauti_range() */
	TAUTI_DOUBTS
};

/* Of what other gaps leave of a block of memory, a share is given back when one
 * host operation of the graph ends, and asked for again when another starts. */
struct tauti_gap {
	uint32_t until_op, again_op;
	double share;
	const struct tauti_gap *next;
};

/* Of the forward pass, done again right before its backward part: copies stand
 * behind each time that it is done, or all of them on another lane. */
struct tauti_again {
	uint32_t times; /* beside the first one */
	bool elsewhere;
};

/* Main lanes of ranks of the edit, as far as they were looked for. Behind an undo that
 * takes lanes away one asks before others come, or resets. */
struct tauti_mains {
	uint32_t n_lanes; /* that were looked at: the first ones of the edit */
	uint32_t room;
	uint32_t *of; /* by rank, below room; TAUT_NONE. In the arena */
};

struct tauti_whatif {
	const struct taut_graph *graph;
	const struct tauti_job *job;
	const struct taut_costs *costs;
	struct taut_edit *edit; /* dur_ns are those of costs->dur_ns */
	struct taut_site site;  /* changed by transformations; hosts of ranks by
	                           rank of the edit: its arrays, which are its
	                           own, grow with tauti_add_host() and
	                           tauti_place_rank() */
	double latency;         /* of all links / as recorded; 1 */
	double latency_add_ns;  /* and this much on each message over the network
	                           after that; 0 */
	bool no_transfers;      /* none takes time, or costs a core anything */
	struct tauti_pipes *pipes; /* of stages; NULL: not looked for yet */
	TAUT_VEC(struct tauti_way) ways; /* by collective of the edit; read it by
	                                    tauti_way_of(): may be short */
	double *waits; /* by op of the edit, waits_room of them: as
	                  tauti_wait_share() where a change said it, + 1; 0:
	                  as recorded. In the arena */
	uint32_t waits_room;
	double samples_factor;
	struct tauti_kernel *kernels; /* by name of the graph, as far as they were asked
	                           for; see kernels.h. In the arena; NULL: none is kept */
	const struct taut_memory *memory; /* NULL: no allocations recorded */
	double *block_scale;    /* by block of memory: its bytes / as recorded */
	const struct tauti_gap **gaps; /* by block of memory, newest first; NULL:
	                           all are kept. In the arena */
	uint32_t *sums;         /* by block of memory: the op of the graph that adds
	                           it to the one before it in its step, where a
	                           step has several; TAUT_NONE. NULL: none has.
	                           In the arena */
	struct tauti_again *again; /* by op of the graph; NULL: nothing is done
	                           again. In the arena */
	bool loads_laid;        /* what workers prepare was laid anew */
	uint32_t parts;         /* of a batch, whose passes are done in turn; 1 */
	uint32_t rounds;        /* batches before each update; 1 */
	enum tauti_doubt doubt;
	int side;               /* of the doubt: -1 the faster, 1 the slower */
	uint32_t doubted;       /* MODEL: the change whose ranges are tried */
	uint32_t applying;      /* the change being applied, by place */
	uint8_t *ranged;        /* by place: asked for a range whose low end (1)
	                           or high one (2) is another than central */
	struct taut_arena *arena; /* until the prediction is made */
	TAUT_VEC(const char *) notes; /* in arena; of the central run */
	uint32_t hosts_room, ranks_room; /* of site's arrays */
	struct tauti_mains *mains; /* of tauti_main_lane(), in the arena; NULL: it looks
	                              at all lanes each time */
	struct tauti_schedule *schedule; /* NULL: transfers begin when they can;
	                                    see schedule.h */
	struct tauti_rows *rows; /* gradients that go by rows; NULL: none; see
	                            rows.h */
};

/* One line for the user, once for each distinct text. */
taut_status tauti_note(struct tauti_whatif *w, struct taut_error *err,
	const char *fmt, ...) TAUT_PRINTF(3, 4);
/* A number of a model that may as well be anything from low (the faster) to
 * high (the slower): central, or an end while this change is in doubt. All
 * ranges of one change go to the same end together. */
double tauti_range(const struct tauti_whatif *w, double low, double central,
	double high);
struct tauti_way tauti_way_of(const struct tauti_whatif *w, uint32_t collective);
taut_status tauti_set_way(struct tauti_whatif *w, uint32_t collective,
	const struct tauti_way *way, struct taut_error *err);
/* A new host like that of rank `like`. */
taut_status tauti_add_host(struct tauti_whatif *w, uint32_t like,
	uint32_t *ret_host, struct taut_error *err);
/* After taut_edit_copy_rank(). */
taut_status tauti_place_rank(struct tauti_whatif *w, uint32_t rank,
	uint32_t host, double core, struct taut_error *err);

/* TAUT_EINVAL where the edit would come to n_ops operations, more than a
 * prediction takes; as many of what the change makes would do: "4 ranks". */
taut_status tauti_check_ops(const char *change, double n_ops, double most,
	const char *of_what, struct taut_error *err);

/* Blocks asked for during a phase, and given back during one, grow by a factor;
 * phases: 1 << enum tauti_phase, or-ed; bit 31: not in the recording. Nothing
 * happens where no allocations were recorded. */
#define TAUTI_NOT_RECORDED ((uint32_t)1 << 31)
void tauti_scale_blocks(struct tauti_whatif *w, uint32_t from_phases,
	uint32_t to_phases, double factor);
/* So many times the samples: what a batch is and what is made of it grow, but
 * not gradients of weights. */
taut_status tauti_scale_samples(
	struct tauti_whatif *w, double factor, struct taut_error *err);
/* The same of passes alone, and what they compute: of these operations (by op of
 * the graph, 1), and of blocks of memory that they ask for and give back. Says
 * what it is told by, in the words of this change. */
taut_status tauti_scale_passes(struct tauti_whatif *w,
	const struct tauti_change *change, double factor, const uint8_t *only,
	struct taut_error *err);
/* Gradients of a step's micro-batches are added up: w->sums. */
taut_status tauti_sum_gradients(
	struct tauti_whatif *w, struct taut_error *err);
/* A block of memory is not kept all the time; it is where until_op ends behind
 * the start of again_op. */
taut_status tauti_add_gap(struct tauti_whatif *w, uint32_t block,
	uint32_t until_op, uint32_t again_op, double share,
	struct taut_error *err);

/* Everything beside the edit as recorded; before the first change. */
taut_status tauti_whatif_reset(struct tauti_whatif *w, struct taut_error *err);

/* --- transformations ------------------------------------------------------------------ */
struct tauti_transformation {
	struct taut_transformation_info info;
	taut_status (*apply)(struct tauti_whatif *w,
		const struct tauti_change *change, struct taut_error *err);
};
/* One row each, in the order of the help; NULL-terminated (table.c). */
extern const struct tauti_transformation *const tauti_transformations[];

#endif /* TAUT_WHATIF_INTERNAL_H */
