/* run_plan.c - see run_plan.h. */
#include "cli/run_plan.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/measured.h"
#include "cli/term.h"

static taut_status no_memory(struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, -1, "no memory");
}

/* --- before the job ------------------------------------------------------------------ */

static taut_status set_decisions(
	const struct taut_plan *plan, const struct env_setting *s)
{
	const struct taut_plan_setting *settings;
	uint32_t n;
	taut_status status = taut_plan_settings(
		plan, s->arena, &settings, &n, s->err);

	for (uint32_t i = 0; !status && i < n; i++)
		status = env_set(s, settings[i].name, settings[i].value);
	return status;
}

/* The job may go to another folder. */
static taut_status find_path(
	const char *path, const struct env_setting *s, const char **ret_path)
{
	char here[4096];

	if (*path != '/') {
		if (!getcwd(here, sizeof here))
			return taut_error_set(s->err, TAUT_EIO, -1,
				"the working folder has no name");
		path = taut_arena_printf(s->arena, "%s/%s", here, path);
	}
	*ret_path = path;
	return path ? TAUT_OK : no_memory(s->err);
}

/* A rank's file of an older job must not be taken for one of this. */
static taut_status make_folder(const char *path, struct taut_error *err)
{
	DIR *dir;
	const struct dirent *entry;
	bool empty = true;

	if (mkdir(path, 0777) && errno != EEXIST)
		return taut_error_set(err, TAUT_EIO, -1,
			"%.300s: cannot be made: %s", path, strerror(errno));
	dir = opendir(path);
	if (!dir)
		return taut_error_set(err, TAUT_EIO, -1,
			"%.300s: cannot be read: %s", path, strerror(errno));
	while ((entry = readdir(dir)) != NULL)
		empty &= entry->d_name[0] == '.';
	closedir(dir);
	return empty ? TAUT_OK : taut_error_set(err, TAUT_EIO, -1,
		"%.300s: expected a folder that is new or empty", path);
}

static taut_status set_folder(const struct run_plan *values,
	const struct env_setting *s, struct run_planned *planned)
{
	const char *tmp = getenv("TMPDIR");
	char *made;
	taut_status status;

	if (values->measure) {
		status = find_path(values->measure, s, &planned->folder);
		return status ? status : make_folder(planned->folder, s->err);
	}
	made = taut_arena_printf(s->arena, "%s/taut-measure-XXXXXX",
		tmp && *tmp == '/' ? tmp : "/tmp");
	if (!made)
		return no_memory(s->err);
	if (!mkdtemp(made))
		return taut_error_set(s->err, TAUT_EIO, -1,
			"%.300s: cannot be made: %s", made, strerror(errno));
	planned->folder = made;
	planned->is_ours = true;
	return TAUT_OK;
}

taut_status run_plan_set(const struct run_plan *values,
	const struct env_setting *s, struct run_planned *ret_planned)
{
	struct run_planned planned = { 0 };
	taut_status status = TAUT_OK;

	*ret_planned = planned;
	if (values->plan)
		status = taut_plan_read(values->plan, &planned.plan, s->err);
	if (!status && planned.plan)
		status = set_decisions(planned.plan, s);
	if (!status && (values->plan || values->measure))
		status = set_folder(values, s, &planned);
	if (!status && planned.folder)
		status = env_set(s, "TAUT_RUN_MEASURE", planned.folder);
	if (!status && planned.is_ours)
		status = env_set(s, "TAUT_RUN_MEASURE_HERE", planned.folder);
	if (status)
		taut_plan_destroy(planned.plan);
	else
		*ret_planned = planned;
	return status;
}

/* --- behind it --------------------------------------------------------------------------- */

/* " (290.1 to 334.0)"; "" where the plan has no interval. */
static const char *interval_of(const struct taut_plan *plan,
	struct taut_arena *arena)
{
	const char *text = "";

	if (plan->low_ns < plan->high_ns)
		text = taut_arena_printf(arena, " (%.1f to %.1f)",
			(double)plan->low_ns / 1e6,
			(double)plan->high_ns / 1e6);
	return text ? text : "";
}

/* ", the mean 100.2"; "" where that is what the median says. */
static const char *mean_of(const struct measured *m, struct taut_arena *arena)
{
	const char *text = "";

	if (llabs(m->mean_ns - m->median_ns) * 20 >= m->median_ns)
		text = taut_arena_printf(
			arena, ", the mean %.1f", (double)m->mean_ns / 1e6);
	return text ? text : "";
}

static void tell_measured(const struct run_planned *planned, const char *why,
	const struct measured *m, struct taut_arena *arena)
{
	const struct taut_plan *plan = planned->plan;
	double measured = (double)m->median_ns / 1e6, predicted;

	if (!m->n_steps) {
		term_complain("no step was measured: %s", *why ? why :
			"the job made none behind those that are left out, or "
			"none of its ranks is on this host");
		return;
	}
	if (!plan || plan->after_ns <= 0) {
		term_complain("measured: %.1f ms a step, the median of %u of "
			"%u ranks%s", measured, m->n_steps, m->n_ranks,
			mean_of(m, arena));
		return;
	}
	predicted = (double)plan->after_ns / 1e6;
	term_complain("predicted: %.1f ms a step%s, before %.1f; measured: "
		"%.1f ms, the median of %u of %u ranks%s: %+.1f %%",
		predicted, interval_of(plan, arena),
		(double)plan->before_ns / 1e6, measured, m->n_steps,
		m->n_ranks, mean_of(m, arena), 100 * (measured / predicted - 1));
}

static void remove_folder(const char *path, struct taut_arena *arena)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)) != NULL) {
		const char *file = entry->d_name[0] == '.' ? NULL :
			taut_arena_printf(
				arena, "%s/%s", path, entry->d_name);

		if (file)
			unlink(file);
	}
	if (dir)
		closedir(dir);
	rmdir(path);
}

unsigned run_plan_tell(const struct run_planned *planned, const char *why,
	struct taut_arena *arena)
{
	struct taut_error err = { .message = "" };
	struct measured m = { 0 };

	if (!planned->folder)
		return 0;
	if (measured_read(planned->folder, arena, &m, &err))
		term_complain("%s", err.message);
	else
		tell_measured(planned, why, &m, arena);
	for (uint32_t i = 0; i < m.n_missed; i++)
		term_complain("not made: %s", m.missed[i]);
	return m.n_ranks;
}

void run_plan_end(struct run_planned *planned, struct taut_arena *arena)
{
	if (planned->is_ours)
		remove_folder(planned->folder, arena);
	taut_plan_destroy(planned->plan);
	*planned = (struct run_planned){ 0 };
}
