/* measured.h - what the ranks of a job that taut run measured have written: a file a
 * rank, rank-N.json (docs/running.md). The files are foreign: they may hold
 * anything.
 *
 * Owner:   texts lie in the arena that is handed in.
 * Threads: none are touched.
 * Units:   nanoseconds, bytes. */
#ifndef TAUT_CLI_MEASURED_H
#define TAUT_CLI_MEASURED_H

#include <stdbool.h>
#include <stdint.h>

#include <taut/base.h>

struct measured {
	uint32_t n_ranks;     /* that wrote; 0: none */
	uint32_t n_steps;     /* of all of them, that count */
	int64_t median_ns;    /* of these; 0: none */
	/* What a step costs: the mean of blocks of steps that follow each other, but for the
	 * shortest and the longest tenth of the blocks. A rare pause does not count; what
	 * returns every few steps does, as loader workers that deliver in bursts. */
	int64_t mean_ns;
	int64_t error_ns;     /* one standard error of that mean */
	int64_t memory_bytes; /* peak of the rank that needed most; -1: not known */
	uint32_t n_missed;    /* decisions that were not made, and why */
	const char **missed;
};

/* Of a folder. TAUT_EIO: it cannot be read; TAUT_EFORMAT: a file is not what a rank
 * writes. */
TAUT_NODISCARD taut_status measured_read(const char *folder,
	struct taut_arena *arena, struct measured *ret_measured,
	struct taut_error *err);
/* The text of one file alone. */
TAUT_NODISCARD taut_status measured_parse(const char *text, size_t bytes,
	const char *name, struct taut_arena *arena,
	struct measured *ret_measured, struct taut_error *err);

/* The mean of a is shorter than that of b by more than two standard errors of both, and by at least the
 * share. */
bool measured_is_better(const struct measured *a, const struct measured *b,
	double share);

#endif /* TAUT_CLI_MEASURED_H */
