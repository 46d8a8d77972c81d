/* taut/cost.h - what things cost: where the hosts stand, what each transfer
 * takes of their links and cores, what each operator does, and laws for sizes
 * that were never measured.
 *
 * A recording measures; a law only carries a measurement to another size. So a
 * changed transfer is the recorded one times law(new) / law(old), which keeps
 * the scatter of the job itself, and a law alone is used where there is
 * nothing like it in the recording.
 *
 * Rates are shares of the recorded link: a resource of capacity 1 is the link
 * as it was, and `amount` is the nanoseconds that a transfer takes of it when
 * it has it alone. No nominal bandwidth need be known for that.
 *
 * Owner:   taut_costs owns its tables and borrows from the graph.
 * Threads: read-only once made; the laws are pure functions.
 * Units:   nanoseconds, bytes. */
#ifndef TAUT_COST_H
#define TAUT_COST_H

#include <taut/play.h>
#include <taut/replay.h>

TAUT_BEGIN_DECLS

/* --- laws: how a collective is carried out ------------------------------------
 * p ranks, S bytes (of one rank's input; of all-gather: of its output). */
enum taut_algorithm {
	TAUT_ALGO_AS_RECORDED, /* not known; taken for a ring */
	TAUT_ALGO_RING,
	TAUT_ALGO_TREE,            /* TAUT_WAY_TREE, pipelined */
	TAUT_ALGO_HALVING_DOUBLING, /* TAUT_WAY_HALVING: Rabenseifner */
	TAUT_ALGO_HIERARCHICAL,    /* TAUT_WAY_HOSTS: in a host, over hosts, in
	                              a host */
	TAUT_ALGO_BLUECONNECT,     /* reduce-scatter and all-gather by dimension */
	TAUT_ALGO_SERVER,          /* push to and pull from parameter servers */
	TAUT_ALGO_DIRECT,          /* TAUT_WAY_DIRECT */
	TAUT_ALGO_FLAT,            /* TAUT_WAY_FLAT */
	TAUT_ALGO_DOUBLING,        /* TAUT_WAY_DOUBLING */
	TAUT_ALGORITHMS
};
TAUT_API const char *taut_algorithm_name(enum taut_algorithm algorithm);

/* What one collective asks of the busiest host, rank or server, over all of its
 * messages. Less than two ranks: nothing. */
struct taut_law {
	double network_bytes; /* out of, or into, a host */
	double local_bytes;   /* out of, or into, a rank, inside of a host */
	double messages;      /* one after another: how often latency is paid */
	double reduced_bytes; /* added up by a core */
};

/* Kinds that an algorithm has no way for go round a ring: of DIRECT, FLAT,
 * DOUBLING, TREE, HALVING_DOUBLING and HIERARCHICAL taut_coll_has() tells (a
 * reduce, an all-to-all and a barrier there are not); BLUECONNECT knows all-reduce,
 * SERVER broadcast and reduce too. PUSH, PULL and PUSHPULL always have servers. */
struct taut_law_in {
	enum taut_coll_kind kind;
	enum taut_algorithm algorithm;
	uint32_t ranks, hosts; /* hosts that the ranks are spread over evenly,
	                          neighbours beside each other */
	uint32_t servers;      /* of SERVER, spread likewise; 0: one a host */
	double bytes;
	const struct taut_law *counted; /* by byte, of all that stands before
	                                   bytes; NULL: by formula */
};
/* Formulas there are of rings, BLUECONNECT, SERVER, of DIRECT and FLAT but for their
 * broadcasts, and of an all-reduce by HIERARCHICAL over hosts of one size that are no
 * power of two; without `counted`, what has none is taken for a ring. */
TAUT_API struct taut_law taut_law(const struct taut_law_in *in);

/* The law by byte; bytes and counted are not read. What has no formula is counted from
 * the schedules that a communicator carries out (taut_play_count()). TAUT_ENOMEM;
 * TAUT_EINVAL: more ranks than TAUT_COLL_RANKS in a schedule. */
TAUT_API TAUT_NODISCARD taut_status taut_law_count(const struct taut_law_in *in,
	struct taut_law *ret_by_byte, struct taut_error *reterr);

/* --- a line through measurements -------------------------------------------------
 * y = alpha + beta x, by least absolute deviations, which one stray value does
 * not move; standard errors by bootstrap with a fixed seed. alpha and beta are
 * not below 0. With fewer than three different x, alpha is 0 and its error is
 * as large as the least y; where all x are 0, alpha is their median. No point:
 * all is 0. TAUT_EINVAL: an x or y is negative or no number; TAUT_ENOMEM. */
struct taut_line {
	double alpha, beta;
	double alpha_error, beta_error; /* one standard error */
	double scatter; /* median |y - line| / line */
	uint32_t n;
};
TAUT_API TAUT_NODISCARD taut_status taut_line_fit(const double *x,
	const double *y, uint32_t n, struct taut_line *ret_line,
	struct taut_error *reterr);

/* --- where things stand -----------------------------------------------------------*/
struct taut_host {
	double up, down; /* of the recorded rate of its link to the network: 1 */
	double local;    /* of each rank's way to the others of its host */
};
struct taut_site {
	uint32_t n_hosts;
	struct taut_host *hosts;
	uint32_t n_ranks;
	uint32_t *host_of; /* by rank (index in run->traces) */
	double *core;      /* by rank: capacity of what computes; 1 */
	double backbone;   /* all traffic between hosts passes it; 0: there is
	                      none that could be full */
};

/* What one collective takes, by index in graph->collectives. */
struct taut_transfer {
	double amount;      /* ns of the busiest link, alone on it */
	int64_t latency_ns; /* before anything moves */
	double core;        /* of a core, while it moves at rate 1; >= 0 */
	uint8_t on_network; /* members on several hosts: else it uses `local` */
};

/* Resources, uses and flows of all collectives of a graph. A collective whose
 * amount and latency are 0 has no flow: its time is its own. On the network it
 * takes 1 of the way out of, and into, the host of every member (of a send: out
 * of the one, into the other), and of a backbone 1 for each host that sends; on
 * one host 1 of each member's way to the others. Lanes that compute stand on
 * their rank's core: host threads of a rank without a device, streams of one
 * with a device; neither communication nor a loader's workers.
 * Owns its arrays; destroy it with taut_sharing_destroy(). TAUT_ENOMEM;
 * TAUT_EINVAL: a rank of the graph stands on no host, or a host's link or a
 * core has no capacity. */
TAUT_API TAUT_NODISCARD taut_status taut_sharing_create(
	const struct taut_graph *graph, const struct taut_site *site,
	const struct taut_transfer *transfers,
	struct taut_sharing **ret_sharing, struct taut_error *reterr);
TAUT_API void taut_sharing_destroy(struct taut_sharing *sharing); /* NULL: fine */

/* --- what a recording tells ---------------------------------------------------------*/
struct taut_cost_class { /* transfers of one kind in groups of one size */
	enum taut_coll_kind kind;
	int32_t group_size;
	int on_network;
	struct taut_line line; /* time of the link, alone on it, against law
	                          network_bytes (or local_bytes). n 0: no time was
	                          this class's own; the line is another's.
	                          alpha is half of the most that it can be, and
	                          alpha_error as much and half of what the clocks
	                          are unsure, unless sizes over a factor of four
	                          tell it */
	int64_t least_bytes, most_bytes; /* of one rank's input */
	double rate_gbs;  /* 1 / beta: goodput of the link */
};

struct taut_costs {
	const struct taut_graph *graph;
	struct taut_site site;
	struct taut_transfer *transfers; /* by collective, as recorded */
	uint32_t *hosts_of; /* by collective: hosts that it is spread over; a
	                       member that was not recorded counts as one */
	int64_t *dur_ns;  /* by op: at speed 1; of transfers what is left alone */
	uint32_t n_classes;
	struct taut_cost_class *classes;
	uint32_t *class_of; /* by collective; TAUT_NONE: it moves nothing, or
	                       its bytes are not known */
	double *byte_ns;    /* by collective: what a byte of its link took, over
	                       all transfers that were under way with it; 0: not
	                       known */
	/* How much slower a rank computes while a transfer moves at rate 1:
	 * from operations of one name and sizes that ran under transfers in some
	 * places and alone in others. 0 where too few did; drag_error says how
	 * far it may be off. */
	double drag, drag_error;
	uint32_t n_drag; /* operations compared */
};
/* Everything from the recording alone. With these, a replay gives back the
 * recording to within a nanosecond an operation. Hosts: ranks whose recordings
 * name the same one share it; where none is named, ranks with the same (rank -
 * device); else each rank has its own. Barriers, and what moves no bytes or has
 * no other member, have no flow. TAUT_ENOMEM; else as taut_replay(). */
TAUT_API TAUT_NODISCARD taut_status taut_costs_create(
	const struct taut_graph *graph, struct taut_costs **ret_costs,
	struct taut_error *reterr);
TAUT_API void taut_costs_destroy(struct taut_costs *costs); /* NULL is fine */

/* The law of a collective of the recording, as it was carried out: to change a
 * field of, and hand to taut_costs_transfer(). */
TAUT_API struct taut_law_in taut_costs_law_in(
	const struct taut_costs *costs, uint32_t collective);

/* How a transfer of the recording becomes one of another size, way or group:
 * amounts by network_bytes (local_bytes), latencies by messages. like is the
 * collective of the recording nearest to it; TAUT_NONE: the class's line alone.
 * The line is that of the nearest class: the same sort of link, then the same
 * kind, then the nearest size of group (its beta is by byte on the link, its
 * alpha by message, so another size needs no other law). It also stands in
 * where like used the other sort of link and a class knows the new one; where
 * none does, a byte is taken to cost as much on either.
 * error: -1, 0 or 1 standard errors (or any number) of the class's line. Of a
 * carried transfer it moves the split between latency and amount alone: one
 * that does not change costs what was recorded. bytes of `as`: see
 * struct taut_law_in. */
TAUT_API struct taut_transfer taut_costs_transfer(
	const struct taut_costs *costs, uint32_t like,
	const struct taut_law_in *as, double error);

/* The hosts and links of a recording, to play collectives on (taut/play.h): rate and
 * latency of a message from the line of the class with the most points, of those
 * between hosts and of those in a host. What was not recorded is never full and takes
 * no time; nor does a rank's own work, of which a recording does not tell.
 * ret_hosts: site.n_hosts; ret_net keeps it, and borrows from costs. */
TAUT_API void taut_costs_net(const struct taut_costs *costs,
	struct taut_play_host *ret_hosts, struct taut_play_net *ret_net);

/* --- work: what an operator does, by the sizes of its inputs -----------------------
 * Sizes are those of PyTorch's profiler (record_shapes): taut_trace.sizes. It
 * does not write the sizes of outputs, so they are worked out here, and types
 * are not kept: an element counts as four bytes. (Of one type alone, another
 * width is another bandwidth in the fit, and ratios stay.)
 *
 *     product of M x K and K x N       2 M N K
 *     convolution                      2 outputs (weights / output channels)
 *     the same, transposed             2 inputs (weights / input channels)
 *     its backward part                twice that
 *     attention, of L keys of D        4 queries L D; backward 10 (FlashAttention
 *                                      computes the scores again; arXiv 2307.08691)
 *     recurrent layer                  2 (inputs / features) weights; backward twice
 *     one by one                       an element of what all inputs make together
 *                                      1; norms and softmax 5, backward 8
 *     look-ups, copies                 0
 *
 * Bytes: each operand once, as if all else stayed in a cache; a recurrent
 * layer's weights once for each step of its sequence. */
enum taut_opwork_kind {
	TAUT_OPWORK_NONE,      /* a view, an allocation, a call of others */
	TAUT_OPWORK_PRODUCT,
	TAUT_OPWORK_CONV,
	TAUT_OPWORK_ATTENTION,
	TAUT_OPWORK_RECURRENT,
	TAUT_OPWORK_POINTWISE,
	TAUT_OPWORK_NORM,      /* norms, softmax, losses, sums */
	TAUT_OPWORK_POOL,
	TAUT_OPWORK_LOOKUP,    /* embeddings, gathers */
	TAUT_OPWORK_COPY,
	TAUT_OPWORK_OTHER,     /* not known: bytes alone, of its inputs and of
	                          one output like the largest */
	TAUT_OPWORK_KINDS
};
TAUT_API const char *taut_opwork_kind_name(enum taut_opwork_kind kind);

enum taut_opwork_role { /* by the operator's signature */
	TAUT_ROLE_IN,      /* may be weights all the same: of mm nobody can tell */
	TAUT_ROLE_WEIGHT,
	TAUT_ROLE_OUT,
	TAUT_ROLE_WEIGHT_OUT, /* the gradient of one */
};
#define TAUT_MOST_DIMS 6
#define TAUT_ELEMENT_BYTES 4
#define TAUT_MOST_OPERANDS 16
struct taut_operand {
	double elements;
	double passes;  /* how often it is read or written: 1, mostly */
	enum taut_opwork_role role;
	uint32_t n_dims; /* as told; 0: more than TAUT_MOST_DIMS, or of several
	                    tensors together */
	int64_t dim[TAUT_MOST_DIMS];
};
struct taut_opwork {
	enum taut_opwork_kind kind;
	double flops, bytes;
	uint32_t n_operands;
	struct taut_operand operands[TAUT_MOST_OPERANDS];
};
/* sizes: "[[16, 512, 4, 4], [512]]". outputs: elements of what a convolution
 * makes, where its backward part tells; 0: taken for as wide and high as its
 * input. 0: no sizes, or none that are read here; *ret_work is untouched. */
TAUT_API int taut_opwork_of(const char *name, const char *sizes, double outputs,
	struct taut_opwork *ret_work);

/* --- roofline: time by work ------------------------------------------------------------
 * time = max(flops / F, bytes / B) + c (Williams et al., CACM 52(4), 2009), or,
 * where computing and moving take turns, as packing and multiplying on one core
 * do, flops / F + bytes / B + c. Fitted to the logarithms of times, so that an
 * operator of microseconds counts as much as one of milliseconds, by least
 * squares with Huber's weights, which strays do not move. */
struct taut_opwork_time {
	double flops, bytes, time_ns;
};
struct taut_roofline {
	double ns_per_flop, ns_per_byte, fixed_ns; /* 1 / F, 1 / B, c */
	/* One standard error of each, of its logarithm: 0.1 is a tenth. INFINITY:
	 * the samples do not tell it. */
	double flop_error, byte_error, fixed_error;
	int turns;      /* the sum, not the maximum */
	double spread;  /* median |measured / roofline - 1| */
	uint32_t n;
};
/* form: 0 the maximum, 1 the sum, -1 whichever leaves less spread, of equal
 * ones the maximum. No samples: all is 0. TAUT_EINVAL: a time is not above 0, or
 * flops or bytes are negative or no number; TAUT_ENOMEM. */
TAUT_API TAUT_NODISCARD taut_status taut_roofline_fit(
	const struct taut_opwork_time *samples, uint32_t n, int form,
	struct taut_roofline *ret_roofline, struct taut_error *reterr);
TAUT_API double taut_roofline_ns(
	const struct taut_roofline *roofline, double flops, double bytes);

/* How operators of one name used their host or device. */
struct taut_opwork_fit {
	const char *name; /* NULL: of all of a kind, or all there are */
	enum taut_opwork_kind kind; /* NONE: of all there are */
	int own; /* 0: too few sizes, or too near to each other: the roofline of
	            its kind (of all), times an efficiency of its own */
	struct taut_roofline roofline;
};
/* Operators of a recording by what they did: one row for each operator and
 * sizes, whatever rank and step. Of host threads where there is no device, else
 * of what operators launched. */
struct taut_opwork_row {
	const char *name, *sizes; /* "aten::addmm", as the trace has them */
	struct taut_opwork work;
	double time_ns;         /* median of one call; 0: it was never timed */
	uint32_t n_calls;
	uint32_t fit;           /* in fits; of no meaning without calls */
};
struct taut_rooflines {
	const struct taut_graph *graph;
	int of_devices;
	uint32_t n_rows, n_fits;
	struct taut_opwork_row *rows;  /* in the order in which they were met */
	struct taut_opwork_fit *fits;  /* all, kinds, names by kind; none is
	                                  there without samples */
	uint32_t *row_of;              /* by op; TAUT_NONE */
	uint32_t *call_of; /* by op: row of its rank's trace that is the operator
	                      at work; TAUT_NONE */
	uint32_t n_traces;
	uint32_t **row_at; /* by trace, event of a thread: of the operator at
	                      work that it is, or is within; TAUT_NONE */
	struct taut_names *names;
};
/* dur_ns: by op, NULL: as recorded. A recording without sizes has no rows.
 * TAUT_ENOMEM. */
TAUT_API TAUT_NODISCARD taut_status taut_rooflines_create(
	const struct taut_graph *graph, const int64_t *dur_ns,
	struct taut_rooflines **ret_rooflines, struct taut_error *reterr);
TAUT_API void taut_rooflines_destroy(struct taut_rooflines *rooflines);
/* What an operator like that of a row with calls would take for other work; for
 * ratios: its own scatter is not in it. */
TAUT_API double taut_rooflines_ns(const struct taut_rooflines *rooflines,
	uint32_t row, const struct taut_opwork *work);

TAUT_END_DECLS
#endif /* TAUT_COST_H */
