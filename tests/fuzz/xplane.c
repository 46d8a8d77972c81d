/* xplane.c - any bytes as an XPlane file. The outcome must keep what trace.h
 * promises, and must be the same to the last column whether 32 bytes are held
 * at a time or many. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/builder.h"
#include "trace/format.h"
#include "trace/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "broken: %s\n", #condition); \
			abort(); \
		} \
	} while (0)

struct outcome {
	taut_status status;
	struct taut_error err;
	struct tauti_builder builder;
	struct taut_trace trace;
};

static void read_all(
	const uint8_t *data, size_t size, size_t window, struct outcome *o)
{
	struct tauti_stream *stream = NULL;
	memset(o, 0, sizeof *o);
	MUST(tauti_builder_init(&o->builder, "t") == TAUT_OK);
	o->builder.window_bytes = window;
	o->status = tauti_stream_open_memory(
		"t", data, size, &stream, &o->err);
	if (o->status == TAUT_OK)
		o->status = tauti_format_xplane.read(
			stream, &o->builder, &o->err);
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
			MUST(i == t->lane_begin[lane] ||
				t->start_ns[i - 1] <= t->start_ns[i]);
		}
	}
}

static void check_comms(const struct taut_trace *t)
{
	uint32_t names = taut_names_count(t->names);
	for (size_t i = 0; i < t->n_comms; i++) {
		const struct taut_comm_args *a = &t->comms[i];
		MUST(taut_trace_comm(t, a->event) == a);
		MUST(!i || t->comms[i - 1].event < a->event);
		MUST(a->collective < names && a->group_name < names);
		MUST(a->dtype < names && a->seq >= -1);
	}
}

/* The steps of a trace stand on one lane, one after the other. */
static void check_steps(const struct taut_trace *t)
{
	size_t last = t->n_events;
	for (size_t i = 0; i < t->n_events; i++) {
		if (t->kind[i] != TAUT_KIND_STEP)
			continue;
		if (last < t->n_events) {
			MUST(t->lane[i] == t->lane[last]);
			MUST(t->start_ns[i] >=
				t->start_ns[last] + t->dur_ns[last]);
		}
		last = i;
	}
}

static void check(const struct taut_trace *t)
{
	MUST(t->n_events > 0);
	MUST(t->events_lost <= t->events_seen);
	for (size_t i = 0; i < t->n_events; i++) {
		MUST(t->kind[i] < TAUT_KIND_COUNT);
		MUST(t->name[i] < taut_names_count(t->names));
		MUST(t->start_ns[i] >= 0 && t->dur_ns[i] >= 0);
		MUST(t->start_ns[i] <= INT64_MAX - t->dur_ns[i]);
		for (const char *c = taut_trace_name(t, i); *c; c++)
			MUST((unsigned char)*c >= ' ');
		MUST(t->kind[i] != TAUT_KIND_COMM || taut_trace_comm(t, i));
	}
	check_lanes(t);
	check_comms(t);
	check_steps(t);
}

#define SAME(column) \
	MUST(memcmp(a->column, b->column, a->n_events * sizeof *a->column) == \
		0)

static void compare(const struct taut_trace *a, const struct taut_trace *b)
{
	MUST(a->n_events == b->n_events && a->n_lanes == b->n_lanes);
	MUST(a->base_ns == b->base_ns && a->truncated == b->truncated);
	MUST(a->events_seen == b->events_seen);
	MUST(a->events_lost == b->events_lost);
	SAME(start_ns);
	SAME(dur_ns);
	SAME(name);
	SAME(lane);
	SAME(correlation);
	SAME(sequence);
	SAME(kind);
	MUST(a->n_comms == b->n_comms && a->n_copies == b->n_copies);
	MUST(taut_names_count(a->names) == taut_names_count(b->names));
}

static void same_outcome(const struct outcome *a, const struct outcome *b)
{
	MUST(a->status == b->status);
	MUST(strcmp(a->err.message, b->err.message) == 0);
	MUST(a->builder.notes.count == b->builder.notes.count);
	for (size_t i = 0; i < a->builder.notes.count; i++)
		MUST(strcmp(a->builder.notes.data[i],
			     b->builder.notes.data[i]) == 0);
	if (a->status == TAUT_OK) {
		check(&a->trace);
		compare(&a->trace, &b->trace);
		return;
	}
	MUST(a->status == TAUT_EFORMAT && a->err.message[0]);
	MUST(!strchr(a->err.message, '\n'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct outcome small, usual;
	if (size && tauti_format_xplane.probe((const char *)data, size))
		MUST(data[0] == '\n');
	read_all(data, size, 32, &small);
	read_all(data, size, 0, &usual);
	same_outcome(&small, &usual);
	tauti_builder_fini(&small.builder);
	tauti_builder_fini(&usual.builder);
	return 0;
}
