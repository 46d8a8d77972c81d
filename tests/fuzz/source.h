/* source.h - what fuzz targets of small readers share: any bytes as a source
 * of a trace, and what trace.h promises of what comes out. */
#ifndef TAUT_TESTS_FUZZ_SOURCE_H
#define TAUT_TESTS_FUZZ_SOURCE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/builder.h"
#include "trace/format.h"
#include "trace/stream.h"

#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "broken: %s\n", #condition); \
			abort(); \
		} \
	} while (0)

struct source {
	taut_status status;
	struct taut_error err;
	struct tauti_builder builder;
	struct taut_trace trace;
};

static inline void source_begin(struct source *s, size_t window)
{
	memset(s, 0, sizeof *s);
	MUST(tauti_builder_init(&s->builder, "t") == TAUT_OK);
	s->builder.window_bytes = window;
}

/* One more file of the trace. */
static inline void source_read(
	struct source *s, const void *bytes, size_t len)
{
	struct tauti_stream *stream = NULL;
	const struct tauti_format *format = NULL;
	if (s->status != TAUT_OK)
		return;
	s->status = tauti_stream_open_memory(
		"t", bytes, len, &stream, &s->err);
	if (s->status == TAUT_OK)
		s->status = tauti_format_read(
			stream, &s->builder, &format, &s->err);
	if (s->status == TAUT_OK)
		tauti_builder_next_source(&s->builder);
	tauti_stream_close(stream);
}

static inline void source_check_lanes(const struct taut_trace *t)
{
	MUST(t->lane_begin[0] == 0);
	MUST(t->lane_begin[t->n_lanes] == t->n_events);
	for (uint32_t lane = 0; lane < t->n_lanes; lane++)
		for (uint32_t i = t->lane_begin[lane];
			i < t->lane_begin[lane + 1]; i++) {
			MUST(t->lane[i] == lane);
			MUST(i == t->lane_begin[lane] ||
				t->start_ns[i - 1] <= t->start_ns[i]);
		}
}

static inline void source_check(const struct taut_trace *t)
{
	uint32_t names = taut_names_count(t->names);
	MUST(t->n_events > 0);
	MUST(t->events_lost <= t->events_seen);
	for (size_t i = 0; i < t->n_events; i++) {
		MUST(t->kind[i] < TAUT_KIND_COUNT && t->name[i] < names);
		MUST(t->start_ns[i] >= 0 && t->dur_ns[i] >= 0);
		MUST(t->start_ns[i] <= INT64_MAX - t->dur_ns[i]);
		for (const char *c = taut_trace_name(t, i); *c; c++)
			MUST((unsigned char)*c >= ' ');
	}
	for (size_t i = 0; i < t->n_comms; i++) {
		const struct taut_comm_args *c = &t->comms[i];
		MUST(taut_trace_comm(t, c->event) == c);
		MUST(!i || t->comms[i - 1].event < c->event);
		MUST(c->collective < names && c->dtype < names);
		MUST(c->group_name < names && c->group_desc < names);
		MUST(c->group_ranks < names);
		MUST(c->in_elements >= -1 && c->out_elements >= -1);
	}
	source_check_lanes(t);
}

/* Finishes it and checks what came out. */
static inline void source_end(struct source *s)
{
	if (s->status == TAUT_OK)
		s->status = tauti_builder_finish(
			&s->builder, &s->trace, &s->err);
	if (s->status == TAUT_OK) {
		source_check(&s->trace);
		return;
	}
	MUST(s->status == TAUT_EFORMAT);
	MUST(s->err.message[0] && !strchr(s->err.message, '\n'));
}

#define SOURCE_SAME(column) \
	MUST(memcmp(a->column, b->column, \
		     a->n_events * sizeof *a->column) == 0)

/* Two readings of the same bytes, with windows of different sizes. */
static inline void source_same(
	const struct source *x, const struct source *y)
{
	const struct taut_trace *a = &x->trace, *b = &y->trace;
	MUST(x->status == y->status);
	MUST(strcmp(x->err.message, y->err.message) == 0);
	MUST(x->builder.notes.count == y->builder.notes.count);
	if (x->status != TAUT_OK)
		return;
	MUST(a->n_events == b->n_events && a->n_comms == b->n_comms);
	SOURCE_SAME(start_ns);
	SOURCE_SAME(dur_ns);
	SOURCE_SAME(name);
	SOURCE_SAME(lane);
	SOURCE_SAME(correlation);
	SOURCE_SAME(args);
	SOURCE_SAME(kind);
}

#endif /* TAUT_TESTS_FUZZ_SOURCE_H */
