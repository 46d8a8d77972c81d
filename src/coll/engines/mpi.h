/* mpi.h - an engine over messages of MPI, whichever library that is: its functions
 * are handed in, and no mpi.h is used.
 *
 * A message is an envelope (who, tag, bytes) with tag 0 of MPI, and, when it is long,
 * its bytes with another tag, which the envelope names. MPI's tags are too small for
 * ours. Each rank has some receives of envelopes from anybody under way; what comes
 * and nobody asked for yet waits here, and long bytes at their sender.
 *
 * MPI cannot sleep: wait() looks, less and less often. destroy() takes in what others
 * sent, until they leave as well, so that nothing of the callers' memory is under way
 * afterwards; it gives up after a second.
 *
 * Threads: as the engine's face says; MPI must allow the thread that is in it. */
#ifndef TAUT_COLL_ENGINES_MPI_H
#define TAUT_COLL_ENGINES_MPI_H

#include "coll/coll.h"

/* Handles as they travel in registers; in memory they have handle_bytes. */
struct tauti_mpi_calls {
	uint32_t handle_bytes; /* 4 or 8 */
	int any_source, undefined;
	void *status_ignore;
	uintptr_t byte; /* MPI_BYTE */
	int (*isend)(const void *data, int n, uintptr_t type, int to, int tag,
		uintptr_t comm, void *request);
	int (*irecv)(void *data, int n, uintptr_t type, int from, int tag,
		uintptr_t comm, void *request);
	int (*testsome)(int n, void *requests, int *n_done, int *indices,
		void *statuses);
	int (*cancel)(void *request);
	int (*wait)(void *request, void *status);
	int (*request_free)(void *request);
};

/* comm: one that nobody else sends over, with as many ranks; the caller frees it after
 * the engine. calls is copied. TAUT_ENOMEM; TAUT_EIO: MPI fails. */
TAUT_NODISCARD taut_status tauti_mpi_engine_create(
	const struct tauti_mpi_calls *calls, uintptr_t comm, uint32_t rank,
	uint32_t n_ranks, struct tauti_engine *ret_engine,
	struct taut_error *reterr);

#endif /* TAUT_COLL_ENGINES_MPI_H */
