/* stalls_out.h - renderers of what a job waits for: what was measured, and what changes
 * would give. Each writes to an open stream; TAUT_EIO when it refuses. */
#ifndef TAUT_REPORT_STALLS_OUT_H
#define TAUT_REPORT_STALLS_OUT_H

#include <stdio.h>

#include <taut/report.h>
#include <taut/stalls.h>

enum tauti_stalls_table {
	TAUTI_STALLS_ASKED, /* changes that the user has named */
	TAUTI_STALLS_CACHE,
	TAUTI_STALLS_WORKERS,
	TAUTI_STALLS_CORES,
	TAUTI_STALLS_RATE,
	TAUTI_STALLS_BATCH,
	TAUTI_STALLS_JOBS,
	TAUTI_STALLS_TABLES,
};

struct tauti_stalls_row { /* an epoch after a change */
	enum tauti_stalls_table table;
	const char *what;     /* as the user has named it; else NULL */
	struct taut_stalls_change change;
	double cache_share;   /* of the set, where the change has a cache */
	struct taut_stalls_epoch epoch;
	const char *why_not;  /* NULL: epoch is */
};

struct tauti_stalls_view {
	const char *command; /* or the folder that was read */
	struct taut_stalls_result result;
	uint64_t forgotten, forgotten_bytes; /* files, of all hosts */
	const char *const *notes;            /* what is missing, and why */
	size_t n_notes;
	bool has_storage; /* else it is what the job got */
	struct taut_stalls_storage storage;
	bool has_model; /* else nothing below is */
	struct taut_stalls_model model;
	uint64_t page_cache_bytes, set_bytes;
	struct taut_stalls_epoch now;
	const struct tauti_stalls_row *rows; /* table by table */
	size_t n_rows;
	const struct taut_stalls_advice *advice;
	size_t n_advice;
	struct taut_stalls_needs needs;
};

taut_status tauti_stalls_text(const struct tauti_stalls_view *view,
	const struct taut_text_options *options, FILE *out, struct taut_error *reterr);
taut_status tauti_stalls_json(const struct tauti_stalls_view *view, FILE *out,
	struct taut_error *reterr);

/* "place", "half", "cached", "part", "cold". */
const char *tauti_stalls_phase_name(enum taut_stalls_phase phase);
/* "none", "keep", "lru", "linux". */
const char *tauti_stalls_cache_name(enum taut_feed_cache cache);

#endif /* TAUT_REPORT_STALLS_OUT_H */
