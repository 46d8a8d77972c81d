/* any_trace.h - any bytes as a trace of JSON, of one format or of that which
 * the first bytes tell. The outcome must keep what trace.h promises. Read
 * through a window of 64 bytes and through the usual one, it must be the same
 * to the last column, unless the text holds raw control bytes: how simdjson
 * marks those depends on what else is in the window. */
#ifndef TAUT_FUZZ_ANY_TRACE_H
#define TAUT_FUZZ_ANY_TRACE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/builder.h"
#include "trace/format.h"
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

struct outcome {
	const struct tauti_format *format; /* NULL: it was given */
	taut_status status;
	struct taut_error err;
	struct tauti_builder builder;
	struct taut_trace trace;
};

/* only: the format; NULL: by its probe. */
static void read_all(const struct tauti_format *only, const uint8_t *data,
	size_t size, size_t window, struct outcome *o)
{
	struct tauti_stream *stream = NULL;
	memset(o, 0, sizeof *o);
	MUST(tauti_builder_init(&o->builder, "t") == TAUT_OK);
	o->builder.window_bytes = window;
	o->status = tauti_stream_open_memory(
		"t", data, size, &stream, &o->err);
	if (o->status == TAUT_OK)
		o->status = only ?
			only->read(stream, &o->builder, &o->err) :
			tauti_format_read(
				stream, &o->builder, &o->format, &o->err);
	if (o->status == TAUT_OK)
		o->status = tauti_builder_finish(
			&o->builder, &o->trace, &o->err);
	tauti_stream_close(stream);
}

static void check_lanes(const struct taut_trace *t)
{
	MUST(t->lane_begin[0] == 0);
	MUST(t->lane_begin[t->n_lanes] == t->n_events);
	for (uint32_t lane = 0; lane < t->n_lanes; lane++) {
		MUST(t->lanes[lane].name < taut_names_count(t->names));
		for (uint32_t i = t->lane_begin[lane];
			i < t->lane_begin[lane + 1]; i++) {
			MUST(t->lane[i] == lane);
			if (i == t->lane_begin[lane])
				continue;
			MUST(t->start_ns[i - 1] <= t->start_ns[i]);
			MUST(t->start_ns[i - 1] < t->start_ns[i] ||
				t->dur_ns[i - 1] >= t->dur_ns[i]);
		}
	}
}

static void check_args(const struct taut_trace *t)
{
	for (size_t i = 0; i < t->n_syncs; i++) {
		MUST(taut_trace_sync(t, t->syncs[i].event) == &t->syncs[i]);
		MUST(!i || t->syncs[i - 1].event < t->syncs[i].event);
	}
	for (size_t i = 0; i < t->n_comms; i++) {
		MUST(taut_trace_comm(t, t->comms[i].event) == &t->comms[i]);
		MUST(!i || t->comms[i - 1].event < t->comms[i].event);
		MUST(t->comms[i].collective < taut_names_count(t->names));
		MUST(t->comms[i].dtype < taut_names_count(t->names));
		MUST(t->comms[i].group_name < taut_names_count(t->names));
		MUST(t->comms[i].group_desc < taut_names_count(t->names));
		MUST(t->comms[i].group_ranks < taut_names_count(t->names));
	}
	for (size_t i = 0; i < t->n_loads; i++) {
		const struct taut_load_args *load = &t->loads[i];

		MUST(taut_trace_load(t, load->event) == load);
		MUST(!taut_trace_comm(t, load->event));
		MUST(!i || t->loads[i - 1].event < load->event);
		MUST(load->cpu_ns >= 0 &&
			load->cpu_ns <= t->dur_ns[load->event]);
		MUST(load->queued_ns <= t->dur_ns[load->event]);
	}
	for (size_t i = 0; i < t->n_copies; i++) {
		MUST(taut_trace_copy(t, t->copies[i].event) ==
			&t->copies[i]);
		MUST(!i || t->copies[i - 1].event < t->copies[i].event);
	}
}

static void check(const struct taut_trace *t)
{
	MUST(t->events_lost <= t->events_seen);
	for (size_t i = 0; i < t->n_events; i++) {
		MUST(t->kind[i] < TAUT_KIND_COUNT);
		MUST(t->name[i] < taut_names_count(t->names));
		MUST(t->start_ns[i] >= 0 && t->dur_ns[i] >= 0);
		MUST(t->start_ns[i] <= INT64_MAX - t->dur_ns[i]);
		for (const char *c = taut_trace_name(t, i); *c; c++)
			MUST((unsigned char)*c >= ' ');
	}
	check_lanes(t);
	check_args(t);
}

static void compare(const struct taut_trace *a, const struct taut_trace *b)
{
	MUST(a->n_events == b->n_events && a->n_lanes == b->n_lanes);
	MUST(a->events_seen == b->events_seen);
	MUST(a->events_lost == b->events_lost);
	MUST(taut_names_count(a->names) == taut_names_count(b->names));
	MUST(trace_digest(0, a) == trace_digest(0, b));
}

static void same_text(const char *small, const char *usual)
{
	if (strcmp(small, usual) == 0)
		return;
	fprintf(stderr, "64 bytes: %s\nusual:    %s\n", small, usual);
	abort();
}

static void same_outcome(
	const struct outcome *small, const struct outcome *usual)
{
	MUST(small->status == usual->status);
	same_text(small->err.message, usual->err.message);
	MUST(small->builder.notes.count == usual->builder.notes.count);
	for (size_t i = 0; i < usual->builder.notes.count; i++)
		same_text(small->builder.notes.data[i],
			usual->builder.notes.data[i]);
	if (usual->status == TAUT_OK)
		compare(&small->trace, &usual->trace);
}

static void check_outcome(const struct outcome *o)
{
	if (o->status == TAUT_OK) {
		/* shapes are lent to a trace, and are none */
		MUST(o->trace.n_events > 0 ||
			o->format == &tauti_format_shapes);
		check(&o->trace);
		return;
	}
	MUST(o->status == TAUT_EFORMAT);
	MUST(o->err.message[0]);
	MUST(!strchr(o->err.message, '\n'));
}

/* Gzip bytes are control bytes, so compressed texts count as such. */
static int has_control_bytes(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (data[i] < 0x20 && !strchr("\t\n\r", data[i] ? data[i] : 1))
			return 1;
	return 0;
}

static inline int check_any_trace(
	const struct tauti_format *only, const uint8_t *data, size_t size)
{
	struct outcome small, usual;
	read_all(only, data, size, 64, &small);
	read_all(only, data, size, 0, &usual);
	check_outcome(&small);
	check_outcome(&usual);
	if (!has_control_bytes(data, size))
		same_outcome(&small, &usual);
	tauti_builder_fini(&small.builder);
	tauti_builder_fini(&usual.builder);
	return 0;
}

#endif /* TAUT_FUZZ_ANY_TRACE_H */
