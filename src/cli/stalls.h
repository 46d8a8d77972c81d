/* stalls.h - the parts of `taut stalls`: the folder that the ranks of a job write to, what
 * this host gives it, and what changes would give. docs/stalls.md has the folder.
 *
 * Owner:   what is found lies in the arena that is handed in.
 * Threads: predictions are made by several; all else by the caller's. */
#ifndef TAUT_CLI_STALLS_H
#define TAUT_CLI_STALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <taut/stalls.h>

#include "base/vec.h"
#include "cli/opt.h"
#include "report/stalls_out.h"

/* --- stalls_folder.c: FOLDER/control, FOLDER/files, FOLDER/job ---------------------------*/

/* What this command adds to what the ranks write. */
struct stalls_job {
	const char *command;
	uint64_t page_cache_bytes;
	bool has_storage;
	struct taut_stalls_storage storage;
	TAUT_VEC(const char *) notes;
};

/* out NULL: a new one among the temporary files. Else it must be new or empty. With the
 * files that the job's processes expect there. TAUT_EIO, TAUT_EINVAL. */
TAUT_NODISCARD taut_status stalls_folder_make(const char *out, struct taut_arena *arena,
	const char **ret_folder, struct taut_error *err);
/* FOLDER/run-NUMBER, of another run of the same job: 2, 3 and so on. */
TAUT_NODISCARD taut_status stalls_folder_make_run(const char *folder, unsigned number,
	struct taut_arena *arena, const char **ret_run, struct taut_error *err);
/* All that may be in it, also of further runs, and it. */
void stalls_folder_remove(const char *folder);
/* How many files were forgotten, and their bytes; and how many processes had what is
 * preloaded: by all runs. 0 where it cannot be read. */
struct stalls_counts {
	uint64_t processes, forgotten, forgotten_bytes;
};
struct stalls_counts stalls_folder_counts(const char *folder);
/* Does it hold what a rank wrote? */
bool stalls_folder_has_ranks(const char *folder);

TAUT_NODISCARD taut_status stalls_job_write(
	const char *folder, const struct stalls_job *job, struct taut_error *err);
/* A folder without one is of a job whose command ended early: then *job stays. */
TAUT_NODISCARD taut_status stalls_job_read(const char *folder, struct taut_arena *arena,
	struct stalls_job *job, struct taut_error *err);

/* --- stalls_host.c -----------------------------------------------------------------------*/

/* Memory that the system has for its page cache beside n_ranks processes, each as large as
 * the largest of those that have ended. */
uint64_t stalls_page_cache(uint32_t n_ranks);

/* --- stalls_words.c ----------------------------------------------------------------------*/

/* "rate=2,workers=8,cache=keep:50%". set_bytes: what shares are of. */
TAUT_NODISCARD taut_status stalls_change_read(const char *words, double set_bytes,
	struct taut_stalls_change *ret_change, struct taut_error *err);

/* --- stalls_predict.c --------------------------------------------------------------------*/

struct stalls_asked {
	struct opt_texts changes;
	struct opt_ranks workers, cores, batches; /* n 0: some that are usual */
};

/* Fills all of view that is predicted. A change that cannot be says why in its row. */
TAUT_NODISCARD taut_status stalls_predict_all(const struct stalls_asked *asked,
	struct taut_arena *arena, struct tauti_stalls_view *view, struct taut_error *err);

#endif /* TAUT_CLI_STALLS_H */
