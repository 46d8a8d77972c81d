/* wrap_comm.c - communicators: who makes them, so that they get names that
 * all members agree on. */
#include "record/mpi/wrap.h"

typedef tauti_mpi_handle handle;

/* A call in which all of parent take part and wait for each other. */
static void created(const char *name, const struct tauti_mpi_span *span,
	handle parent, const char *how, const void *ret_comm)
{
	struct tauti_mpi_coll coll = { .collective = "comm_create",
		.comm = parent, .in = -1, .out = -1, .root = -1 };
	int64_t child;

	if (!span->outer)
		return;
	tauti_mpi_lock();
	child = tauti_mpi_comm_child(parent);
	tauti_mpi_comm_created(
		parent, child, how, tauti_mpi_load(ret_comm, 0));
	tauti_mpi_unlock();
	tauti_mpi_collective(name, span, &coll);
}

/* One in which only the new one's members do. */
static void created_apart(const char *name, const struct tauti_mpi_span *span,
	const char *how, const void *ret_comm)
{
	if (!span->outer)
		return;
	tauti_mpi_lock();
	tauti_mpi_comm_created(0, -1, how, tauti_mpi_load(ret_comm, 0));
	tauti_mpi_write_runtime(name, span, 0);
	tauti_mpi_unlock();
}

#define CREATES(name, how, args, ...) \
	TAUTI_MPI_WRAP(name, args, __VA_ARGS__) \
	{ \
		struct tauti_mpi_span span; \
		int rc; \
\
		tauti_mpi_enter(&span); \
		rc = next args; \
		tauti_mpi_leave(&span); \
		if (!rc) \
			created("MPI_" #name, &span, comm, how, ret_comm); \
		return rc; \
	}

CREATES(Comm_dup, "dup", (comm, ret_comm), handle comm, void *ret_comm)
CREATES(Comm_dup_with_info, "dup", (comm, info, ret_comm), handle comm,
	handle info, void *ret_comm)
CREATES(Comm_create, "create", (comm, group, ret_comm), handle comm,
	handle group, void *ret_comm)
CREATES(Comm_split, "split", (comm, color, key, ret_comm), handle comm,
	int color, int key, void *ret_comm)
CREATES(Comm_split_type, "split", (comm, type, key, info, ret_comm),
	handle comm, int type, int key, handle info, void *ret_comm)
CREATES(Cart_create, "cart", (comm, n, dims, periods, reorder, ret_comm),
	handle comm, int n, const int *dims, const int *periods, int reorder,
	void *ret_comm)
CREATES(Cart_sub, "cart", (comm, remain, ret_comm), handle comm,
	const int *remain, void *ret_comm)
CREATES(Graph_create, "graph", (comm, n, index, edges, reorder, ret_comm),
	handle comm, int n, const int *index, const int *edges, int reorder,
	void *ret_comm)
CREATES(Dist_graph_create, "graph", (comm, n, sources, degrees, targets,
	weights, info, reorder, ret_comm),
	handle comm, int n, const int *sources, const int *degrees,
	const int *targets, const int *weights, handle info, int reorder,
	void *ret_comm)
CREATES(Dist_graph_create_adjacent, "graph", (comm, n_in, sources, in_weights,
	n_out, targets, out_weights, info, reorder, ret_comm),
	handle comm, int n_in, const int *sources, const int *in_weights,
	int n_out, const int *targets, const int *out_weights, handle info,
	int reorder, void *ret_comm)
CREATES(Intercomm_merge, "merge", (comm, high, ret_comm), handle comm,
	int high, void *ret_comm)

TAUTI_MPI_WRAP(Comm_create_group, (comm, group, tag, ret_comm),
	handle comm, handle group, int tag, void *ret_comm)
{
	struct tauti_mpi_span span;
	int rc;

	tauti_mpi_enter(&span);
	rc = next(comm, group, tag, ret_comm);
	tauti_mpi_leave(&span);
	if (!rc)
		created_apart("MPI_Comm_create_group", &span, "group",
			ret_comm);
	return rc;
}

TAUTI_MPI_WRAP(Intercomm_create, (local, local_leader, peer, remote_leader,
	tag, ret_comm), handle local, int local_leader, handle peer,
	int remote_leader, int tag, void *ret_comm)
{
	struct tauti_mpi_span span;
	int rc;

	tauti_mpi_enter(&span);
	rc = next(local, local_leader, peer, remote_leader, tag, ret_comm);
	tauti_mpi_leave(&span);
	if (!rc)
		created_apart("MPI_Intercomm_create", &span, "intercomm",
			ret_comm);
	return rc;
}

/* The new one cannot be asked for its members before the request is done. */
#define CREATES_LATER(name, args, ...) \
	TAUTI_MPI_WRAP(name, args, __VA_ARGS__) \
	{ \
		struct tauti_mpi_span span; \
		int rc; \
\
		tauti_mpi_enter(&span); \
		rc = next args; \
		tauti_mpi_leave(&span); \
		if (span.outer && !rc) { \
			tauti_mpi_lock(); \
			tauti_mpi_comm_promised(comm, \
				tauti_mpi_load(ret_comm, 0)); \
			tauti_mpi_write_runtime("MPI_" #name, &span, 0); \
			tauti_mpi_unlock(); \
		} \
		return rc; \
	}

CREATES_LATER(Comm_idup, (comm, ret_comm, request), handle comm,
	void *ret_comm, void *request)
CREATES_LATER(Comm_idup_with_info, (comm, info, ret_comm, request),
	handle comm, handle info, void *ret_comm, void *request)

#define FREES(name) \
	TAUTI_MPI_WRAP(name, (comm), void *comm) \
	{ \
		struct tauti_mpi_span span; \
		handle freed = 0; \
		int rc; \
\
		tauti_mpi_enter(&span); \
		if (span.outer) \
			freed = tauti_mpi_load(comm, 0); \
		rc = next(comm); \
		tauti_mpi_leave(&span); \
		if (span.outer && !rc) { \
			tauti_mpi_lock(); \
			tauti_mpi_comm_freed(freed); \
			tauti_mpi_unlock(); \
		} \
		return rc; \
	}
FREES(Comm_free)
FREES(Comm_disconnect)
