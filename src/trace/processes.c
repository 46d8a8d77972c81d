/* processes.c - what each process of a recording timed itself, from
 * RUN/processes/<host>-<pid>.json (docs/recording.md). */
#include "trace/processes.h"

#include <dirent.h>
#include <string.h>

#include "trace/recording.h"
#include "trace/stream.h"
#include "trace/tree.h"

enum { MOST_FAULTS = 1 << 30, MOST_FAULT_NS = 100000000 }; /* more is a slip */

struct reading {
	struct taut_arena *arena;
	struct taut_trace *traces;
	uint32_t n_traces;
	struct taut_error *err;
};

static int64_t ns_of(const struct tauti_value *step_ms, const char *key)
{
	const struct tauti_value *v = tauti_tree_get(step_ms, key);

	if (!v || (v->kind != TAUTI_VALUE_INT && v->kind != TAUTI_VALUE_DOUBLE) ||
		!(v->number > 0) || v->number > 1e9)
		return 0;
	return (int64_t)(v->number * 1e6 + 0.5);
}

/* All three, or nothing. */
static void take_faults(struct taut_trace *t, const struct tauti_value *told)
{
	int64_t with = tauti_tree_int(tauti_tree_get(told, "recorded"), -1);
	int64_t without = tauti_tree_int(tauti_tree_get(told, "unrecorded"), -1);
	int64_t ns = ns_of(told, "fault_ms");

	if (with < 0 || with > MOST_FAULTS || without < 0 ||
		without > MOST_FAULTS || !ns || ns > MOST_FAULT_NS)
		return;
	t->faults_recorded = with;
	t->faults_unrecorded = without;
	t->fault_ns = ns;
}

static void take(struct reading *r, const struct tauti_value *root)
{
	const struct tauti_value *times = tauti_tree_get(root, "step_ms");
	int64_t rank = tauti_tree_int(tauti_tree_get(root, "rank"), -1);
	int64_t with = ns_of(times, "recorded");
	int64_t without = ns_of(times, "unrecorded");
	int64_t passes = ns_of(times, "unrecorded_passes");
	int64_t issue = ns_of(times, "unrecorded_issue");

	if (!with || !without)
		return;
	for (uint32_t i = 0; i < r->n_traces; i++)
		if (r->traces[i].rank == rank) {
			r->traces[i].step_recorded_ns = with;
			r->traces[i].step_unrecorded_ns = without;
			r->traces[i].issue_unrecorded_ns =
				passes ? passes : issue;
			r->traces[i].issue_to_update = passes > 0;
			take_faults(&r->traces[i],
				tauti_tree_get(root, "step_faults"));
		}
}

/* What is no such file says nothing: only memory is a failure. */
static taut_status read_file(struct reading *r, const char *path)
{
	struct tauti_stream *stream = NULL;
	struct tauti_values values;
	struct tauti_value *root = NULL;
	taut_status status = tauti_stream_open_file(path, NULL, &stream, r->err);

	if (status)
		return status == TAUT_ENOMEM ? status : TAUT_OK;
	status = tauti_values_init(&values, stream, 0, r->err);
	if (!status)
		status = tauti_values_next(&values, r->arena, &root, r->err);
	if (!status && root)
		take(r, root);
	tauti_values_fini(&values);
	tauti_stream_close(stream);
	return status == TAUT_ENOMEM ? status : TAUT_OK;
}

static bool is_json(const char *name)
{
	size_t len = strlen(name);

	return len > 5 && name[0] != '.' && !strcmp(name + len - 5, ".json");
}

taut_status tauti_processes_read(const char *folder, struct taut_arena *arena,
	struct taut_trace *traces, uint32_t n_traces, struct taut_error *err)
{
	struct reading r = { arena, traces, n_traces, err };
	const char *path = taut_arena_printf(
		arena, "%s/" TAUTI_RECORDING_PROCESSES, folder);
	DIR *dir = path ? opendir(path) : NULL;
	struct dirent *entry;
	taut_status status = path ? TAUT_OK : taut_error_set(
		err, TAUT_ENOMEM, -1, "%s: no memory", folder);

	while (!status && dir && (entry = readdir(dir)) != NULL) {
		const char *file;

		if (!is_json(entry->d_name))
			continue;
		file = taut_arena_printf(arena, "%s/%s", path, entry->d_name);
		status = file ? read_file(&r, file) : taut_error_set(
			err, TAUT_ENOMEM, -1, "%s: no memory", path);
	}
	if (dir)
		closedir(dir);
	return status;
}
