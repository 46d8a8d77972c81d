/* wrap_coll.c - collectives: each as a call that blocks, as one that only
 * begins, and as one that is prepared once and started often; each with
 * counts of int and (_c) of MPI_Count. */
#include "record/mpi/wrap.h"

/* --- how much a collective moves ------------------------------------------------- */

static int size_of(tauti_mpi_handle comm)
{
	int n = 0;

	tauti_mpi.real.comm_size(comm, &n);
	return n;
}

static int rank_in(tauti_mpi_handle comm)
{
	int rank = -1;

	tauti_mpi.real.comm_rank(comm, &rank);
	return rank;
}

static bool is_in_place(const void *buf)
{
	return (uintptr_t)buf == tauti_mpi.abi->in_place;
}

static int64_t sum_ints(const int *counts, int n)
{
	int64_t sum = 0;

	for (int i = 0; i < n; i++)
		sum += counts[i];
	return sum;
}

static int64_t sum_longs(const int64_t *counts, int n)
{
	int64_t sum = 0;

	for (int i = 0; i < n; i++)
		sum += counts[i];
	return sum;
}

#define SUM(counts, n) \
	_Generic((counts), const int *: sum_ints, \
		const int64_t *: sum_longs)(counts, n)

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

#define RUN(span, call) \
	tauti_mpi_enter(&span); \
	rc = next call; \
	tauti_mpi_leave(&span)

#define DESCRIBE(word, describe) \
	struct tauti_mpi_coll c = { .collective = word, .comm = comm, \
		.in = -1, .out = -1, .root = -1 }; \
	if (tauti_mpi.writes) { \
		describe; \
	}

#define BLOCKING(name, word, describe, args, ...) \
	TAUTI_MPI_WRAP(name, args, __VA_ARGS__) \
	{ \
		struct tauti_mpi_span span; \
		int rc; \
\
		RUN(span, args); \
		if (span.outer && !rc) { \
			DESCRIBE(word, describe) \
			tauti_mpi_collective("MPI_" #name, &span, &c); \
		} \
		return rc; \
	}

#define BEGINNING(name, word, describe, persistent, args, ...) \
	TAUTI_MPI_WRAP(name, args, __VA_ARGS__) \
	{ \
		struct tauti_mpi_span span; \
		int rc; \
\
		RUN(span, args); \
		if (span.outer && !rc) { \
			DESCRIBE(word, describe) \
			tauti_mpi_icollective("MPI_" #name, &span, &c, \
				tauti_mpi_load(request, 0), persistent); \
		} \
		return rc; \
	}

#define THREE(plain, begins, prepares, word, describe, args, ...) \
	BLOCKING(plain, word, describe, args, __VA_ARGS__) \
	BEGINNING(begins, word, describe, false, \
		(TAUTI_MPI_UNPACK args, request), __VA_ARGS__, \
		void *request) \
	BEGINNING(prepares, word, describe, true, \
		(TAUTI_MPI_UNPACK args, info, request), __VA_ARGS__, \
		tauti_mpi_handle info, void *request)

/* With counts of both widths. */
#define BOTH(family, plain, begins) \
	family(int, plain, begins, plain##_init) \
	family(int64_t, plain##_c, begins##_c, plain##_init_c)

typedef tauti_mpi_handle handle;

/* --- each --------------------------------------------------------------------------------- */

THREE(Barrier, Ibarrier, Barrier_init, "barrier", (void)0, (comm), handle comm)

#define BCAST(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "broadcast", \
		(same(&c, n, type), c.root = root), \
		(buf, n, type, root, comm), \
		void *buf, count n, handle type, int root, handle comm)
BOTH(BCAST, Bcast, Ibcast)

#define REDUCE(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "reduce", \
		(same(&c, n, type), c.root = root), \
		(in, out, n, type, op, root, comm), \
		const void *in, void *out, count n, handle type, handle op, \
		int root, handle comm)
BOTH(REDUCE, Reduce, Ireduce)

#define LIKE_ALLREDUCE(count, plain, begins, prepares, word) \
	THREE(plain, begins, prepares, word, same(&c, n, type), \
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
	THREE(plain, begins, prepares, "reduce_scatter", \
		sizes(&c, SUM(counts, size_of(comm)), type, \
			OWN(counts, comm), type), \
		(in, out, counts, type, op, comm), \
		const void *in, void *out, const count *counts, handle type, \
		handle op, handle comm)
BOTH(REDUCE_SCATTER, Reduce_scatter, Ireduce_scatter)

#define REDUCE_SCATTER_BLOCK(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "reduce_scatter", \
		sizes(&c, (int64_t)n * size_of(comm), type, n, type), \
		(in, out, n, type, op, comm), \
		const void *in, void *out, count n, handle type, handle op, \
		handle comm)
BOTH(REDUCE_SCATTER_BLOCK, Reduce_scatter_block, Ireduce_scatter_block)

#define ALLGATHER(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "allgather", \
		sizes(&c, is_in_place(in) ? n_out : n_in, \
			is_in_place(in) ? out_type : in_type, \
			(int64_t)n_out * size_of(comm), out_type), \
		(in, n_in, in_type, out, n_out, out_type, comm), \
		const void *in, count n_in, handle in_type, void *out, \
		count n_out, handle out_type, handle comm)
BOTH(ALLGATHER, Allgather, Iallgather)

#define ALLGATHERV(at, count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "allgather", \
		sizes(&c, is_in_place(in) ? OWN(counts, comm) : n_in, \
			is_in_place(in) ? out_type : in_type, \
			SUM(counts, size_of(comm)), out_type), \
		(in, n_in, in_type, out, counts, places, out_type, comm), \
		const void *in, count n_in, handle in_type, void *out, \
		const count *counts, const at *places, handle out_type, \
		handle comm)
ALLGATHERV(int, int, Allgatherv, Iallgatherv, Allgatherv_init)
ALLGATHERV(intptr_t, int64_t, Allgatherv_c, Iallgatherv_c, Allgatherv_init_c)

#define ALLTOALL(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "alltoall", \
		sizes(&c, unless_in_place(in, \
				(int64_t)n_in * size_of(comm)), in_type, \
			(int64_t)n_out * size_of(comm), out_type), \
		(in, n_in, in_type, out, n_out, out_type, comm), \
		const void *in, count n_in, handle in_type, void *out, \
		count n_out, handle out_type, handle comm)
BOTH(ALLTOALL, Alltoall, Ialltoall)

#define ALLTOALLV(at, count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "alltoall", \
		sizes(&c, is_in_place(in) ? -1 : \
				SUM(in_counts, size_of(comm)), in_type, \
			SUM(out_counts, size_of(comm)), out_type), \
		(in, in_counts, in_places, in_type, out, out_counts, \
			out_places, out_type, comm), \
		const void *in, const count *in_counts, const at *in_places, \
		handle in_type, void *out, const count *out_counts, \
		const at *out_places, handle out_type, handle comm)
ALLTOALLV(int, int, Alltoallv, Ialltoallv, Alltoallv_init)
ALLTOALLV(intptr_t, int64_t, Alltoallv_c, Ialltoallv_c, Alltoallv_init_c)

/* Every peer has a type of its own: bytes. */
#define SUM_TYPED(counts, types, n, sum) \
	for (int i = 0; i < n; i++) { \
		int bytes = 0; \
\
		tauti_mpi.real.type_size(tauti_mpi_load(types, (size_t)i), \
			&bytes); \
		sum += (int64_t)(counts)[i] * bytes; \
	}

static int64_t typed_ints(const int *counts, const void *types, int n)
{
	int64_t sum = 0;

	SUM_TYPED(counts, types, n, sum)
	return sum;
}

static int64_t typed_longs(const int64_t *counts, const void *types, int n)
{
	int64_t sum = 0;

	SUM_TYPED(counts, types, n, sum)
	return sum;
}

#define TYPED(counts, types, n) \
	_Generic((counts), const int *: typed_ints, \
		const int64_t *: typed_longs)(counts, types, n)

#define ALLTOALLW(at, count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "alltoall", \
		sizes(&c, is_in_place(in) ? -1 : \
				TYPED(in_counts, in_types, size_of(comm)), \
			tauti_mpi.abi->byte, \
			TYPED(out_counts, out_types, size_of(comm)), \
			tauti_mpi.abi->byte), \
		(in, in_counts, in_places, in_types, out, out_counts, \
			out_places, out_types, comm), \
		const void *in, const count *in_counts, const at *in_places, \
		const void *in_types, void *out, const count *out_counts, \
		const at *out_places, const void *out_types, handle comm)
ALLTOALLW(int, int, Alltoallw, Ialltoallw, Alltoallw_init)
ALLTOALLW(intptr_t, int64_t, Alltoallw_c, Ialltoallw_c, Alltoallw_init_c)

/* The root's arguments alone tell what arrives there. */
#define GATHER(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "gather", \
		(sizes(&c, is_in_place(in) ? n_out : n_in, \
			is_in_place(in) ? out_type : in_type, \
			rank_in(comm) == root ? \
				(int64_t)n_out * size_of(comm) : -1, \
			out_type), c.root = root), \
		(in, n_in, in_type, out, n_out, out_type, root, comm), \
		const void *in, count n_in, handle in_type, void *out, \
		count n_out, handle out_type, int root, handle comm)
BOTH(GATHER, Gather, Igather)

#define GATHERV(at, count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "gather", \
		(sizes(&c, is_in_place(in) ? OWN(counts, comm) : n_in, \
			is_in_place(in) ? out_type : in_type, \
			rank_in(comm) == root ? \
				SUM(counts, size_of(comm)) : -1, \
			out_type), c.root = root), \
		(in, n_in, in_type, out, counts, places, out_type, root, \
			comm), \
		const void *in, count n_in, handle in_type, void *out, \
		const count *counts, const at *places, handle out_type, \
		int root, handle comm)
GATHERV(int, int, Gatherv, Igatherv, Gatherv_init)
GATHERV(intptr_t, int64_t, Gatherv_c, Igatherv_c, Gatherv_init_c)

#define SCATTER(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "scatter", \
		(sizes(&c, rank_in(comm) == root ? \
				(int64_t)n_in * size_of(comm) : -1, in_type, \
			is_in_place(out) ? n_in : n_out, \
			is_in_place(out) ? in_type : out_type), \
			c.root = root), \
		(in, n_in, in_type, out, n_out, out_type, root, comm), \
		const void *in, count n_in, handle in_type, void *out, \
		count n_out, handle out_type, int root, handle comm)
BOTH(SCATTER, Scatter, Iscatter)

#define SCATTERV(at, count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "scatter", \
		(sizes(&c, rank_in(comm) == root ? \
				SUM(counts, size_of(comm)) : -1, in_type, \
			is_in_place(out) ? OWN(counts, comm) : n_out, \
			is_in_place(out) ? in_type : out_type), \
			c.root = root), \
		(in, counts, places, in_type, out, n_out, out_type, root, \
			comm), \
		const void *in, const count *counts, const at *places, \
		handle in_type, void *out, count n_out, handle out_type, \
		int root, handle comm)
SCATTERV(int, int, Scatterv, Iscatterv, Scatterv_init)
SCATTERV(intptr_t, int64_t, Scatterv_c, Iscatterv_c, Scatterv_init_c)

/* Neighbours wait for neighbours alone, so these are of no known kind. */
#define NEIGHBOR(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "neighbors", \
		sizes(&c, n_in, in_type, -1, in_type), \
		(in, n_in, in_type, out, n_out, out_type, comm), \
		const void *in, count n_in, handle in_type, void *out, \
		count n_out, handle out_type, handle comm)
BOTH(NEIGHBOR, Neighbor_allgather, Ineighbor_allgather)
BOTH(NEIGHBOR, Neighbor_alltoall, Ineighbor_alltoall)

#define NEIGHBOR_GATHERV(at, count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "neighbors", \
		sizes(&c, n_in, in_type, -1, in_type), \
		(in, n_in, in_type, out, counts, places, out_type, comm), \
		const void *in, count n_in, handle in_type, void *out, \
		const count *counts, const at *places, handle out_type, \
		handle comm)
NEIGHBOR_GATHERV(int, int, Neighbor_allgatherv, Ineighbor_allgatherv,
	Neighbor_allgatherv_init)
NEIGHBOR_GATHERV(intptr_t, int64_t, Neighbor_allgatherv_c,
	Ineighbor_allgatherv_c, Neighbor_allgatherv_init_c)

#define NEIGHBOR_ALLTOALLV(at, count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "neighbors", (void)0, \
		(in, in_counts, in_places, in_type, out, out_counts, \
			out_places, out_type, comm), \
		const void *in, const count *in_counts, const at *in_places, \
		handle in_type, void *out, const count *out_counts, \
		const at *out_places, handle out_type, handle comm)
NEIGHBOR_ALLTOALLV(int, int, Neighbor_alltoallv, Ineighbor_alltoallv,
	Neighbor_alltoallv_init)
NEIGHBOR_ALLTOALLV(intptr_t, int64_t, Neighbor_alltoallv_c,
	Ineighbor_alltoallv_c, Neighbor_alltoallv_init_c)

#define NEIGHBOR_ALLTOALLW(count, plain, begins, prepares) \
	THREE(plain, begins, prepares, "neighbors", (void)0, \
		(in, in_counts, in_places, in_types, out, out_counts, \
			out_places, out_types, comm), \
		const void *in, const count *in_counts, \
		const intptr_t *in_places, const void *in_types, void *out, \
		const count *out_counts, const intptr_t *out_places, \
		const void *out_types, handle comm)
BOTH(NEIGHBOR_ALLTOALLW, Neighbor_alltoallw, Ineighbor_alltoallw)
