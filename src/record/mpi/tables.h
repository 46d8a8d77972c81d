/* tables.h - the interposer's tables, taken in one piece at the start. */
#ifndef TAUT_RECORD_MPI_TABLES_H
#define TAUT_RECORD_MPI_TABLES_H

#include "record/mpi/mpi.h"

enum {
	TAUTI_MPI_OP_CHAINS = 4096,
	TAUTI_MPI_LANE_WORDS = TAUTI_MPI_OPS / 64,
	TAUTI_MPI_SHARED = 8,
	TAUTI_MPI_TEXTS = 1024,
};

struct tauti_mpi_known_type {
	tauti_mpi_handle handle;
	struct tauti_mpi_type type;
};

struct tauti_mpi_known_text {
	const char *text;
	uint32_t id;
};

struct tauti_mpi_pair { /* uid 0: free */
	uint32_t uid;
	int32_t peer, tag;
	uint32_t direction;
	uint32_t count;
};

struct tauti_mpi_tables {
	struct tauti_mpi_op ops[TAUTI_MPI_OPS];
	struct tauti_mpi_op *free_ops;
	uint32_t n_fresh; /* ops[n_fresh..] were never used */
	struct tauti_mpi_op *first[TAUTI_MPI_OP_CHAINS];
	struct tauti_mpi_op *last[TAUTI_MPI_OP_CHAINS];
	uint64_t n_entered;
	uint64_t lanes[TAUTI_MPI_LANE_WORDS]; /* bits: taken */
	int64_t lane_end_ns[TAUTI_MPI_OPS];   /* of the last one on it */
	uint32_t n_named;                     /* lanes below are named */
	/* Requests that stand for many operations which are all done. */
	tauti_mpi_handle shared[TAUTI_MPI_SHARED];
	uint32_t n_shared;
	struct tauti_mpi_pair pairs[TAUTI_MPI_PAIRS];
	uint32_t n_pairs;
	struct tauti_mpi_known_text texts[TAUTI_MPI_TEXTS];
	struct tauti_mpi_known_type types[TAUTI_MPI_TYPES];
};

#endif /* TAUT_RECORD_MPI_TABLES_H */
