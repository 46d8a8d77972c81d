/* trace_check.h - any bytes through one format's reader, and what trace.h
 * promises of every outcome. */
#ifndef TAUT_TESTS_FUZZ_TRACE_CHECK_H
#define TAUT_TESTS_FUZZ_TRACE_CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/builder.h"
#include "trace/format.h"
#include "trace/formats/flight.h"
#include "trace/stream.h"

#include "tests/fuzz/trace_digest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "broken: %s\n", #condition); \
			abort(); \
		} \
	} while (0)

static inline void check_row(const struct taut_trace *t, size_t i)
{
	MUST(t->kind[i] < TAUT_KIND_COUNT);
	MUST(t->name[i] < taut_names_count(t->names));
	MUST(t->start_ns[i] >= 0 && t->dur_ns[i] >= 0);
	MUST(t->start_ns[i] <= INT64_MAX - t->dur_ns[i]);
	MUST(t->lane[i] < t->n_lanes);
	for (const char *c = taut_trace_name(t, i); *c; c++)
		MUST((unsigned char)*c >= ' ');
}

static inline void check_trace(const struct taut_trace *t)
{
	MUST(t->lane_begin[0] == 0);
	MUST(t->lane_begin[t->n_lanes] == t->n_events);
	for (size_t i = 0; i < t->n_events; i++)
		check_row(t, i);
	for (uint32_t l = 0; l < t->n_lanes; l++) {
		MUST(t->lanes[l].name < taut_names_count(t->names));
		for (uint32_t i = t->lane_begin[l] + 1;
			i < t->lane_begin[l + 1]; i++)
			MUST(t->start_ns[i - 1] <= t->start_ns[i]);
	}
	for (size_t i = 0; i < t->n_syncs; i++)
		MUST(taut_trace_sync(t, t->syncs[i].event) == &t->syncs[i]);
	for (size_t i = 0; i < t->n_memory; i++) {
		MUST(t->memory[i].lane < t->n_lanes && t->memory[i].bytes);
		MUST(i == 0 || t->memory[i - 1].at_ns <= t->memory[i].at_ns);
	}
	for (size_t i = 0; i < t->n_copies; i++)
		MUST(taut_trace_copy(t, t->copies[i].event) ==
			&t->copies[i]);
	for (size_t i = 0; i < t->n_loads; i++) {
		const struct taut_load_args *load = &t->loads[i];

		MUST(taut_trace_load(t, load->event) == load);
		MUST(!taut_trace_comm(t, load->event));
		MUST(load->cpu_ns >= 0 &&
			load->cpu_ns <= t->dur_ns[load->event]);
		MUST(load->queued_ns <= t->dur_ns[load->event]);
	}
	for (size_t i = 0; i < t->n_comms; i++) {
		MUST(taut_trace_comm(t, t->comms[i].event) == &t->comms[i]);
		MUST(t->comms[i].collective < taut_names_count(t->names));
		MUST(t->comms[i].group_name < taut_names_count(t->names));
		MUST(t->comms[i].dtype < taut_names_count(t->names));
		MUST(t->comms[i].group_desc < taut_names_count(t->names));
		MUST(t->comms[i].group_ranks < taut_names_count(t->names));
	}
}

/* What the dumps say together; true: they are at odds with each other. */
static inline bool compare_dumps(const struct taut_trace *dumps, size_t n)
{
	struct taut_arena *arena = taut_arena_create();
	tauti_lines lines = { 0 };
	bool odds = false;
	MUST(arena);
	MUST(tauti_flight_compare(dumps, n, arena, &lines) == TAUT_OK);
	for (size_t i = 0; i < lines.count; i++) {
		MUST(!strchr(lines.data[i], '\n'));
		odds |= strstr(lines.data[i], ", which rank") ||
			strstr(lines.data[i], "have gone different ways") ||
			strstr(lines.data[i], "must pass the same");
	}
	taut_vec_free(&lines);
	taut_arena_destroy(arena);
	return odds;
}

/* Two dumps that are alike but for their rank; then one with other sizes; then
 * one whose groups, of the same names, are of other ranks, so that what they
 * say together is at odds only where each is with itself. */
static inline void check_compare(struct taut_trace trace, const char *format)
{
	size_t n = trace.n_comms, names = taut_names_count(trace.names);
	struct taut_comm_args *comms = malloc((n + 1) * sizeof *comms);
	bool all_told = names > 2;
	MUST(comms);
	trace.format = format;
	struct taut_trace both[] = { trace, trace };
	both[1].rank = trace.rank + 1;
	compare_dumps(both, 2);
	both[1].comms = comms;
	for (size_t i = 0; i < n; i++) {
		comms[i] = trace.comms[i];
		comms[i].in_elements ^= 1;
	}
	compare_dumps(both, 2);
	for (size_t i = 0; i < n; i++) {
		uint32_t ranks = comms[i].group_ranks;
		all_told = all_told && ranks;
		comms[i].group_ranks = ranks > 1 ? ranks - 1 :
						   (uint32_t)(names - 1);
	}
	MUST(!compare_dumps(both, 2) || !all_told ||
		compare_dumps(both, 1) || compare_dumps(both + 1, 1));
	free(comms);
}

static inline taut_status read_as(const struct tauti_format *format,
	struct tauti_stream *stream, struct tauti_builder *builder,
	struct taut_error *err)
{
	const char *head;
	size_t len;
	taut_status status = tauti_stream_peek(stream, &head, &len, err);
	if (status != TAUT_OK)
		return status;
	if (!len || !format->probe(head, len))
		return taut_error_set(err, TAUT_EFORMAT, 0, "not wanted");
	return format->read(stream, builder, err);
}

/* Reads data where the format wants it, checks every rank of it. window 0:
 * the usual. ret_digest (may be NULL): of all ranks. */
static inline taut_status check_bytes(const struct tauti_format *format,
	const uint8_t *data, size_t size, size_t window, uint64_t *ret_digest)
{
	uint64_t digest = 0;
	struct tauti_builder builder;
	struct tauti_stream *stream = NULL;
	struct taut_error err = { 0 };
	struct taut_trace trace;
	MUST(tauti_builder_init(&builder, "t") == TAUT_OK);
	builder.window_bytes = window;
	taut_status status =
		tauti_stream_open_memory("t", data, size, &stream, &err);
	if (status == TAUT_OK)
		status = read_as(format, stream, &builder, &err);
	tauti_stream_close(stream);
	for (struct tauti_builder *b = &builder; b && status == TAUT_OK;
		b = b->next) {
		MUST(tauti_builder_finish(b, &trace, &err) == TAUT_OK);
		check_trace(&trace);
		check_compare(trace, format->name);
		digest = trace_digest(digest, &trace);
	}
	if (status != TAUT_OK) {
		MUST(status == TAUT_EFORMAT || status == TAUT_EIO);
		MUST(err.message[0] && !strchr(err.message, '\n'));
	}
	tauti_builder_fini(&builder);
	if (ret_digest)
		*ret_digest = digest;
	return status;
}

#endif /* TAUT_TESTS_FUZZ_TRACE_CHECK_H */
