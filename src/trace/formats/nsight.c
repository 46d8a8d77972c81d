/* nsight.c - SQLite exports of Nsight Systems (nsys export --type sqlite). */
#include "trace/formats/nsight.h"

#include <stdlib.h>
#include <string.h>

#include "trace/format.h"

static bool probe(const char *head, size_t len)
{
	return len >= 15 && memcmp(head, "SQLite format 3", 15) == 0;
}

/* --- processes and rows -------------------------------------------------- */

static taut_status add_process(
	struct nsight *n, int64_t id, struct nsight_process **ret_process)
{
	struct nsight_process process = { .id = id, .device = -1 };
	process.builder = n->processes.count ?
		tauti_builder_another(n->builder) : n->builder;
	if (!process.builder || !taut_vec_push(&n->processes, process))
		return nsight_no_memory(n);
	n->recent = (uint32_t)n->processes.count - 1;
	*ret_process = &n->processes.data[n->recent];
	return TAUT_OK;
}

taut_status tauti_nsight_process(
	struct nsight *n, int64_t id, struct nsight_process **ret_process)
{
	*ret_process = NULL;
	if (n->one_process)
		id = 0;
	if (n->recent < n->processes.count &&
		n->processes.data[n->recent].id == id) {
		*ret_process = &n->processes.data[n->recent];
		return TAUT_OK;
	}
	for (uint32_t i = 0; i < n->processes.count; i++) {
		if (n->processes.data[i].id != id)
			continue;
		n->recent = i;
		*ret_process = &n->processes.data[i];
		return TAUT_OK;
	}
	if (n->may_add && n->processes.count < NSIGHT_PROCESSES_MAX)
		return add_process(n, id, ret_process);
	n->strange++;
	return TAUT_OK;
}

taut_status tauti_nsight_row(struct nsight *n, struct nsight_process *process,
	int64_t start_ns, int64_t end_ns, struct tauti_row **ret_row)
{
	struct tauti_builder *b = process->builder;
	*ret_row = NULL;
	b->events_seen++;
	if (start_ns <= -TAUTI_TIME_LIMIT_NS || start_ns >= TAUTI_TIME_LIMIT_NS ||
		end_ns >= TAUTI_TIME_LIMIT_NS) {
		tauti_builder_lose(b, TAUTI_LOST_TIME, 0);
		return TAUT_OK;
	}
	struct tauti_row *row = tauti_builder_row(b);
	if (!row)
		return nsight_no_memory(n);
	row->start_ns = start_ns;
	row->dur_ns = end_ns > start_ns ? end_ns - start_ns : 0;
	if (end_ns < start_ns)
		row->flags |= TAUT_EVENT_CUT;
	*ret_row = row;
	return TAUT_OK;
}

/* --- the whole ----------------------------------------------------------- */

static taut_status is_export(struct nsight *n)
{
	if (tauti_nsight_has(n, "NVTX_EVENTS") ||
		tauti_nsight_has(n, "CUPTI_ACTIVITY_KIND_KERNEL") ||
		tauti_nsight_has(n, "CUPTI_ACTIVITY_KIND_RUNTIME"))
		return TAUT_OK;
	n->builder->other_kind = true;
	return taut_error_set(n->err, TAUT_EFORMAT, -1,
		"%s: is an SQLite database, but no Nsight Systems export: it "
		"has no table of kernels, runtime calls or NVTX ranges",
		n->builder->path);
}

static taut_status read_tables(struct nsight *n)
{
	taut_status status = tauti_nsight_read_texts(n);
	if (status == TAUT_OK)
		status = tauti_nsight_read_device(n);
	if (status == TAUT_OK)
		status = tauti_nsight_read_syncs(n);
	if (status == TAUT_OK)
		status = tauti_nsight_read_host(n);
	return status;
}

static taut_status says_nothing(struct nsight *n)
{
	for (size_t i = 0; i < n->processes.count; i++) {
		const struct tauti_builder *b = n->processes.data[i].builder;
		if (b->n_rows > b->first_row)
			return TAUT_OK;
	}
	return taut_error_set(n->err, TAUT_EFORMAT, -1,
		"%s: an Nsight Systems export without a kernel, runtime call "
		"or NVTX range that could be read%s", n->builder->path,
		n->builder->truncated ? ": it is damaged or cut" : "");
}

static taut_status note_lost(struct nsight *n)
{
	for (size_t i = 0; i < n->processes.count; i++) {
		struct tauti_builder *b = n->processes.data[i].builder;
		uint64_t lost = b->lost[TAUTI_LOST_TIME];
		if (lost && tauti_builder_note(b, "%llu rows without a "
			"readable time are left out",
			(unsigned long long)lost) != TAUT_OK)
			return nsight_no_memory(n);
	}
	if (n->empty) {
		n->builder->truncated = true;
		if (tauti_builder_note(n->builder, "%llu rows of device work "
			"without times are left out: the export is damaged or "
			"cut", (unsigned long long)n->empty) != TAUT_OK)
			return nsight_no_memory(n);
	}
	if (n->strange && tauti_builder_note(n->builder,
		"%llu rows of processes that did not work on a device are "
		"left out", (unsigned long long)n->strange) != TAUT_OK)
		return nsight_no_memory(n);
	return TAUT_OK;
}

static void fini(struct nsight *n)
{
	for (size_t i = 0; i < n->processes.count; i++) {
		struct nsight_process *p = &n->processes.data[i];
		taut_vec_free(&p->contexts);
		taut_vec_free(&p->ranges);
		taut_vec_free(&p->records);
		taut_vec_free(&p->open);
		free(p->name_of);
	}
	taut_vec_free(&n->processes);
	taut_vec_free(&n->texts);
	taut_vec_free(&n->scratch);
	taut_arena_destroy(n->arena);
	sqlite3_close(n->db);
}

static taut_status read_nsight(struct tauti_stream *stream,
	struct tauti_builder *builder, struct taut_error *err)
{
	struct nsight n = { .builder = builder, .err = err };
	n.arena = taut_arena_create();
	taut_status status = n.arena ? tauti_nsight_open(&n, stream) :
				       nsight_no_memory(&n);
	if (status == TAUT_OK)
		status = is_export(&n);
	if (status == TAUT_OK)
		status = read_tables(&n);
	if (status == TAUT_OK)
		status = says_nothing(&n);
	if (status == TAUT_OK)
		status = tauti_nsight_mark_steps(&n);
	if (status == TAUT_OK)
		status = tauti_nsight_tell_ranks(&n);
	if (status == TAUT_OK)
		status = note_lost(&n);
	fini(&n);
	return status;
}

const struct tauti_format tauti_format_nsight = {
	.name = "nsight",
	.probe = probe,
	.read = read_nsight,
};
