/* whatif_tune.h - taut whatif --tune: what each setting of the exchange of
 * gradients would give; and for taut run, which starts a search from there. */
#ifndef TAUT_CLI_WHATIF_TUNE_H
#define TAUT_CLI_WHATIF_TUNE_H

#include "cli/job.h"
#include "report/tune_out.h"

struct whatif_tune {
	struct taut_text_options text;
	bool json;
	const char *save; /* file for the best one; NULL: none */
	unsigned threads;
};

/* Exit status; complains. */
int whatif_tune(const struct job *job, const struct whatif_tune *how,
	const char *const *changes, size_t n);

/* What each setting of a recorded job would take, as python/taut/_tune.py reads it:
 * "PIECE/CREDIT/FUSE/WAY=NS" with blanks between, in arena. */
taut_status whatif_tune_words(const struct taut_graph *graph,
	struct taut_arena *arena, const char **ret_words,
	struct taut_error *err);

#endif /* TAUT_CLI_WHATIF_TUNE_H */
