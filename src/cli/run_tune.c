/* run_tune.c - see run_tune.h. */
#include "cli/run_tune.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cli/out.h"
#include "cli/term.h"
#include "cli/tuned.h"
#include "cli/whatif_tune.h"

static taut_status no_memory(const struct env_setting *s)
{
	return taut_error_set(s->err, TAUT_ENOMEM, -1, "no memory");
}

/* --- what is asked for --------------------------------------------------------------*/

static bool is_way(const char *text)
{
	for (int way = 0; way < TAUT_WAYS; way++)
		if (!strcmp(text,
			taut_coll_way_name((enum taut_coll_way)way)))
			return true;
	return false;
}

static bool is_asked_well(const struct run_tune *v)
{
	if (v->way && !is_way(v->way)) {
		term_complain("run: --way: expected auto, ring, direct, "
			"halving, doubling, tree, hosts or flat, found '%s'",
			v->way);
		return false;
	}
	if (v->tune && v->tuned) {
		term_complain("run: expected --tune or --tuned");
		return false;
	}
	if ((v->from || v->save) && !v->tune) {
		term_complain("run: --%s is of a --tune",
			v->from ? "from" : "save");
		return false;
	}
	return true;
}

/* --- the environment ------------------------------------------------------------------*/

static taut_status set_bytes(const struct env_setting *s, const char *variable,
	uint64_t bytes)
{
	const char *text = taut_arena_printf(s->arena, "%" PRIu64, bytes);

	return text ? env_set(s, variable, text) : no_memory(s);
}

static taut_status set_tuned(const char *path, const struct env_setting *s)
{
	struct taut_setting setting;
	taut_status status = tuned_read(path, &setting, s->err);

	if (!status)
		status = set_bytes(s, "TAUT_RUN_PIECE", setting.piece_bytes);
	if (!status)
		status = set_bytes(s, "TAUT_RUN_CREDIT", setting.credit_bytes);
	if (!status)
		status = set_bytes(s, "TAUT_RUN_FUSE", setting.fuse_bytes);
	return status ? status : env_set(
		s, "TAUT_RUN_WAY", taut_coll_way_name(setting.way));
}

/* The job may go to another folder. */
static taut_status set_save(const char *path, const struct env_setting *s)
{
	char here[4096];
	taut_status status = out_check(path, s->err);

	if (status)
		return status;
	if (*path != '/') {
		if (!getcwd(here, sizeof here))
			return taut_error_set(s->err, TAUT_EIO, -1,
				"the working folder has no name");
		path = taut_arena_printf(s->arena, "%s/%s", here, path);
	}
	return path ? env_set(s, "TAUT_RUN_TUNE_SAVE", path) : no_memory(s);
}

static taut_status set_from(const char *path, const struct env_setting *s)
{
	struct taut_run *run = NULL;
	struct taut_graph *graph = NULL;
	const struct taut_run_options open = { 0 };
	const struct taut_graph_options build = { 0 };
	const char *words;
	taut_status status = taut_run_open(&path, 1, &open, &run, s->err);

	if (!status)
		status = taut_graph_build(run, &build, &graph, s->err);
	if (!status)
		status = whatif_tune_words(graph, s->arena, &words, s->err);
	if (!status)
		status = env_set(s, "TAUT_RUN_TUNE_FROM", words);
	taut_graph_destroy(graph);
	taut_run_close(run);
	return status;
}

taut_status run_tune_set(const struct run_tune *values,
	const struct env_setting *s, bool *ret_wrong)
{
	taut_status status = TAUT_OK;

	*ret_wrong = !is_asked_well(values);
	if (*ret_wrong)
		return TAUT_OK;
	if (values->tuned)
		status = set_tuned(values->tuned, s);
	if (!status && values->way)
		status = env_set(s, "TAUT_RUN_WAY", values->way);
	if (!status && values->tune)
		status = env_set(s, "TAUT_RUN_TUNE", "on");
	if (!status && values->save)
		status = set_save(values->save, s);
	if (!status && values->from)
		status = set_from(values->from, s);
	return status;
}
