/* wrap_coll.c - collectives: each as a call that blocks, as one that only
 * begins, and as one that is prepared once and started often; those with one
 * count a buffer also with counts of MPI_Count (_c). */
#include "record/mpi/wrap.h"

/* --- how much a collective moves ------------------------------------------------- */

static int size_of(tauti_mpi_handle comm)
{
	int n = 0;

	tauti_mpi.real.comm_size(comm, &n);
	return n;
}

static bool is_inter(tauti_mpi_handle comm)
{
	int inter = 0;

	tauti_mpi.real.comm_test_inter(comm, &inter);
	return inter;
}

/* With whom data is exchanged: of an intercommunicator, the other group. As
 * many counts do arrays of them have. */
static int peers_of(tauti_mpi_handle comm)
{
	int n = 0;

	if (!is_inter(comm))
		return size_of(comm);
	tauti_mpi.real.comm_remote_size(comm, &n);
	return n;
}

static int rank_in(tauti_mpi_handle comm)
{
	int rank = -1;

	tauti_mpi.real.comm_rank(comm, &rank);
	return rank;
}

/* Are the root's arguments there? In an intercommunicator root is a rank of
 * the other group, and the root itself passes MPI_ROOT. */
static bool is_root(tauti_mpi_handle comm, int root)
{
	return is_inter(comm) ? root == tauti_mpi.abi->root :
		rank_in(comm) == root;
}

static bool is_in_place(const void *buf)
{
	return (uintptr_t)buf == tauti_mpi.abi->in_place;
}

static int64_t sum_of(const int *counts, int n)
{
	int64_t sum = 0;

	for (int i = 0; i < n; i++)
		sum += counts[i];
	return sum;
}

/* Own part of what all have; 0 outside of an array. */
#define OWN(counts, comm) (rank_in(comm) >= 0 ? (counts)[rank_in(comm)] : 0)

/* What is not told in this call (buffers of others' roots, or MPI_IN_PLACE)
 * is as large as the other side. */
static void sizes(struct tauti_mpi_coll *c, int64_t in,
	tauti_mpi_handle in_type, int64_t out, tauti_mpi_handle out_type)
{
	c->in = in < 0 ? out : in;
	c->in_type = in < 0 ? out_type : in_type;
	c->out = out < 0 ? in : out;
	c->out_type = out < 0 ? in_type : out_type;
}

static void same(struct tauti_mpi_coll *c, int64_t n, tauti_mpi_handle type)
{
	sizes(c, n, type, n, type);
}

static int64_t unless_in_place(const void *buf, int64_t n)
{
	return is_in_place(buf) ? -1 : n;
}

/* --- the three ways -------------------------------------------------------------------- */

#define RUN(span, fits, call) \
	if (!(fits)) \
		return TAUTI_MPI_TOO_LARGE; \
	tauti_mpi_enter(&span); \
	rc = next call; \
	tauti_mpi_leave(&span)

/* What is prepared now may be started in the window. */
#define DESCRIBE(word, describe, always) \
	struct tauti_mpi_coll c = { .collective = word, .comm = comm, \
		.in = -1, .out = -1, .root = -1 }; \
	if (always || tauti_mpi.writes) { \
		describe; \
	}

#define BLOCKING(name, word, fits, describe, args, ...) \
	TAUTI_MPI_WRAP(name, args, __VA_ARGS__) \
	{ \
		struct tauti_mpi_span span; \
		int rc; \
\
		RUN(span, fits, args); \
		if (span.outer && !rc) { \
			DESCRIBE(word, describe, false) \
			tauti_mpi_collective("MPI_" #name, &span, &c); \
		} \
		return rc; \
	}

#define BEGINNING(name, word, fits, describe, persistent, args, ...) \
	TAUTI_MPI_WRAP(name, args, __VA_ARGS__) \
	{ \
		struct tauti_mpi_span span; \
		int rc; \
\
		RUN(span, fits, args); \
		if (span.outer && !rc) { \
			DESCRIBE(word, describe, persistent) \
			tauti_mpi_icollective("MPI_" #name, &span, &c, \
				tauti_mpi_load(request, 0), persistent); \
		} \
		return rc; \
	}

#define THREE(plain, begins, prepares, word, fits, describe, args, ...) \
	BLOCKING(plain, word, fits, describe, args, __VA_ARGS__) \
	BEGINNING(begins, word, fits, describe, false, \
		(TAUTI_MPI_UNPACK args, request), __VA_ARGS__, \
		void *request) \
	BEGINNING(prepares, word, fits, describe, true, \
		(TAUTI_MPI_UNPACK args, info, request), __VA_ARGS__, \
		tauti_mpi_handle info, void *request)

#define FITS(n) tauti_mpi_fits(n)

/* With counts of both widths. */
#define BOTH(family, plain, begins) \
	family(int, plain, begins, plain##_init) \
	family(int64_t, plain##_c, begins##_c, plain##_init_c)

typedef tauti_mpi_handle handle;

/* --- each --------------------------------------------------------------------------------- */

THREE(Barrier, Ibarrier, Barrier_init, "barrier", true, (void)0, (comm),
	handle comm)

#define BCAST(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "broadcast", FITS(n), \
		(same(&c, n, type), c.root = root), \
		(buf, n, type, root, comm), \
		void *buf, count n, handle type, int root, handle comm)
BOTH(BCAST, Bcast, Ibcast)

#define REDUCE(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "reduce", FITS(n), \
		(same(&c, n, type), c.root = root), \
		(in, out, n, type, op, root, comm), \
		const void *in, void *out, count n, handle type, handle op, \
		int root, handle comm)
BOTH(REDUCE, Reduce, Ireduce)

#define LIKE_ALLREDUCE(count, plain, begins, prepares, word) \
	THREE(plain, begins, prepares, word, FITS(n), same(&c, n, type), \
		(in, out, n, type, op, comm), \
		const void *in, void *out, count n, handle type, handle op, \
		handle comm)
#define ALLREDUCE(count, plain, begins, prepares) \
	LIKE_ALLREDUCE(count, plain, begins, prepares, "allreduce")
#define SCAN(count, plain, begins, prepares) \
	LIKE_ALLREDUCE(count, plain, begins, prepares, "scan")
#define EXSCAN(count, plain, begins, prepares) \
	LIKE_ALLREDUCE(count, plain, begins, prepares, "exscan")
BOTH(ALLREDUCE, Allreduce, Iallreduce)
BOTH(SCAN, Scan, Iscan)
BOTH(EXSCAN, Exscan, Iexscan)

#define REDUCE_SCATTER(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "reduce_scatter", true, \
		sizes(&c, sum_of(counts, size_of(comm)), type, \
			OWN(counts, comm), type), \
		(in, out, counts, type, op, comm), \
		const void *in, void *out, const count *counts, handle type, \
		handle op, handle comm)
REDUCE_SCATTER(int, Reduce_scatter, Ireduce_scatter, Reduce_scatter_init)

#define REDUCE_SCATTER_BLOCK(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "reduce_scatter", FITS(n), \
		sizes(&c, (int64_t)n * size_of(comm), type, n, type), \
		(in, out, n, type, op, comm), \
		const void *in, void *out, count n, handle type, handle op, \
		handle comm)
BOTH(REDUCE_SCATTER_BLOCK, Reduce_scatter_block, Ireduce_scatter_block)

#define ALLGATHER(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "allgather", FITS(n_in) && FITS(n_out), \
		sizes(&c, is_in_place(in) ? n_out : n_in, \
			is_in_place(in) ? out_type : in_type, \
			(int64_t)n_out * peers_of(comm), out_type), \
		(in, n_in, in_type, out, n_out, out_type, comm), \
		const void *in, count n_in, handle in_type, void *out, \
		count n_out, handle out_type, handle comm)
BOTH(ALLGATHER, Allgather, Iallgather)

#define ALLGATHERV(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "allgather", FITS(n_in), \
		sizes(&c, is_in_place(in) ? OWN(counts, comm) : n_in, \
			is_in_place(in) ? out_type : in_type, \
			sum_of(counts, peers_of(comm)), out_type), \
		(in, n_in, in_type, out, counts, places, out_type, comm), \
		const void *in, count n_in, handle in_type, void *out, \
		const count *counts, const count *places, handle out_type, \
		handle comm)
ALLGATHERV(int, Allgatherv, Iallgatherv, Allgatherv_init)

#define ALLTOALL(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "alltoall", FITS(n_in) && FITS(n_out), \
		sizes(&c, unless_in_place(in, \
				(int64_t)n_in * peers_of(comm)), in_type, \
			(int64_t)n_out * peers_of(comm), out_type), \
		(in, n_in, in_type, out, n_out, out_type, comm), \
		const void *in, count n_in, handle in_type, void *out, \
		count n_out, handle out_type, handle comm)
BOTH(ALLTOALL, Alltoall, Ialltoall)

#define ALLTOALLV(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "alltoall", true, \
		sizes(&c, is_in_place(in) ? -1 : \
				sum_of(in_counts, peers_of(comm)), in_type, \
			sum_of(out_counts, peers_of(comm)), out_type), \
		(in, in_counts, in_places, in_type, out, out_counts, \
			out_places, out_type, comm), \
		const void *in, const count *in_counts, const count *in_places, \
		handle in_type, void *out, const count *out_counts, \
		const count *out_places, handle out_type, handle comm)
ALLTOALLV(int, Alltoallv, Ialltoallv, Alltoallv_init)

/* Every peer has a type of its own: bytes. */
static int64_t bytes_of(const int *counts, const void *types, int n)
{
	int64_t sum = 0;

	for (int i = 0; i < n; i++) {
		int bytes = 0;

		tauti_mpi.real.type_size(
			tauti_mpi_load(types, (size_t)i), &bytes);
		sum += (int64_t)counts[i] * bytes;
	}
	return sum;
}

#define ALLTOALLW(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "alltoall", true, \
		sizes(&c, is_in_place(in) ? -1 : \
				bytes_of(in_counts, in_types, peers_of(comm)), \
			tauti_mpi.abi->byte, \
			bytes_of(out_counts, out_types, peers_of(comm)), \
			tauti_mpi.abi->byte), \
		(in, in_counts, in_places, in_types, out, out_counts, \
			out_places, out_types, comm), \
		const void *in, const count *in_counts, const count *in_places, \
		const void *in_types, void *out, const count *out_counts, \
		const count *out_places, const void *out_types, handle comm)
ALLTOALLW(int, Alltoallw, Ialltoallw, Alltoallw_init)

/* The root's arguments alone tell what arrives there. */
#define GATHER(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "gather", FITS(n_in) && FITS(n_out), \
		(sizes(&c, is_in_place(in) ? n_out : n_in, \
			is_in_place(in) ? out_type : in_type, \
			is_root(comm, root) ? \
				(int64_t)n_out * peers_of(comm) : -1, \
			out_type), c.root = root), \
		(in, n_in, in_type, out, n_out, out_type, root, comm), \
		const void *in, count n_in, handle in_type, void *out, \
		count n_out, handle out_type, int root, handle comm)
BOTH(GATHER, Gather, Igather)

#define GATHERV(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "gather", FITS(n_in), \
		(sizes(&c, is_in_place(in) ? OWN(counts, comm) : n_in, \
			is_in_place(in) ? out_type : in_type, \
			is_root(comm, root) ? \
				sum_of(counts, peers_of(comm)) : -1, \
			out_type), c.root = root), \
		(in, n_in, in_type, out, counts, places, out_type, root, \
			comm), \
		const void *in, count n_in, handle in_type, void *out, \
		const count *counts, const count *places, handle out_type, \
		int root, handle comm)
GATHERV(int, Gatherv, Igatherv, Gatherv_init)

#define SCATTER(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "scatter", FITS(n_in) && FITS(n_out), \
		(sizes(&c, is_root(comm, root) ? \
				(int64_t)n_in * peers_of(comm) : -1, in_type, \
			is_in_place(out) ? n_in : n_out, \
			is_in_place(out) ? in_type : out_type), \
			c.root = root), \
		(in, n_in, in_type, out, n_out, out_type, root, comm), \
		const void *in, count n_in, handle in_type, void *out, \
		count n_out, handle out_type, int root, handle comm)
BOTH(SCATTER, Scatter, Iscatter)

#define SCATTERV(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "scatter", FITS(n_out), \
		(sizes(&c, is_root(comm, root) ? \
				sum_of(counts, peers_of(comm)) : -1, in_type, \
			is_in_place(out) ? OWN(counts, comm) : n_out, \
			is_in_place(out) ? in_type : out_type), \
			c.root = root), \
		(in, counts, places, in_type, out, n_out, out_type, root, \
			comm), \
		const void *in, const count *counts, const count *places, \
		handle in_type, void *out, count n_out, handle out_type, \
		int root, handle comm)
SCATTERV(int, Scatterv, Iscatterv, Scatterv_init)

/* Neighbours wait for neighbours alone, so these are of no known kind. */
#define NEIGHBOR(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "neighbors", FITS(n_in) && FITS(n_out), \
		sizes(&c, n_in, in_type, -1, in_type), \
		(in, n_in, in_type, out, n_out, out_type, comm), \
		const void *in, count n_in, handle in_type, void *out, \
		count n_out, handle out_type, handle comm)
BOTH(NEIGHBOR, Neighbor_allgather, Ineighbor_allgather)
BOTH(NEIGHBOR, Neighbor_alltoall, Ineighbor_alltoall)

#define NEIGHBOR_GATHERV(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "neighbors", FITS(n_in), \
		sizes(&c, n_in, in_type, -1, in_type), \
		(in, n_in, in_type, out, counts, places, out_type, comm), \
		const void *in, count n_in, handle in_type, void *out, \
		const count *counts, const count *places, handle out_type, \
		handle comm)
NEIGHBOR_GATHERV(int, Neighbor_allgatherv, Ineighbor_allgatherv,
	Neighbor_allgatherv_init)

#define NEIGHBOR_ALLTOALLV(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "neighbors", true, (void)0, \
		(in, in_counts, in_places, in_type, out, out_counts, \
			out_places, out_type, comm), \
		const void *in, const count *in_counts, const count *in_places, \
		handle in_type, void *out, const count *out_counts, \
		const count *out_places, handle out_type, handle comm)
NEIGHBOR_ALLTOALLV(int, Neighbor_alltoallv, Ineighbor_alltoallv,
	Neighbor_alltoallv_init)

#define NEIGHBOR_ALLTOALLW(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "neighbors", true, (void)0, \
		(in, in_counts, in_places, in_types, out, out_counts, \
			out_places, out_types, comm), \
		const void *in, const count *in_counts, \
		const intptr_t *in_places, const void *in_types, void *out, \
		const count *out_counts, const intptr_t *out_places, \
		const void *out_types, handle comm)
NEIGHBOR_ALLTOALLW(int, Neighbor_alltoallw, Ineighbor_alltoallw,
	Neighbor_alltoallw_init)
