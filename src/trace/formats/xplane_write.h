/* xplane_write.h - writes XPlane files, for tests of their reader. */
#ifndef TAUT_TRACE_XPLANE_WRITE_H
#define TAUT_TRACE_XPLANE_WRITE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "tests/support/unit.h"

struct bytes {
	size_t len;
	char at[16384];
};

static inline void put(struct bytes *b, const void *at, size_t len)
{
	assert_true(b->len + len <= sizeof b->at);
	memcpy(b->at + b->len, at, len);
	b->len += len;
}

static inline void put_varint(struct bytes *b, uint64_t value)
{
	for (; value >= 0x80; value >>= 7) {
		char byte = (char)(value | 0x80);
		put(b, &byte, 1);
	}
	char last = (char)value;
	put(b, &last, 1);
}

static inline void put_number(struct bytes *b, unsigned field, int64_t value)
{
	put_varint(b, field << 3);
	put_varint(b, (uint64_t)value);
}

static inline void put_bytes(
	struct bytes *b, unsigned field, const void *at, size_t len)
{
	put_varint(b, field << 3 | 2);
	put_varint(b, len);
	put(b, at, len);
}

static inline void put_text(struct bytes *b, unsigned field, const char *text)
{
	put_bytes(b, field, text, strlen(text));
}

static inline void put_in(
	struct bytes *b, unsigned field, const struct bytes *message)
{
	put_bytes(b, field, message->at, message->len);
}

/* --- XPlane --------------------------------------------------------------- */

/* A plane while it is written; its names get their ids at first use. */
struct plane {
	struct bytes bytes;
	const char *events[64], *stats[64];
	int n_events, n_stats;
};

static inline int64_t id_of(const char **names, int *n, const char *name)
{
	for (int i = 0; i < *n; i++)
		if (!strcmp(names[i], name))
			return i + 1;
	assert_true(*n < 64);
	names[(*n)++] = name;
	return *n;
}

static inline void begin_plane(struct plane *p, const char *name)
{
	memset(p, 0, sizeof *p);
	put_text(&p->bytes, 2, name);
}

static inline void begin_line(
	struct bytes *line, int64_t id, const char *name, int64_t at_ns)
{
	line->len = 0;
	put_number(line, 1, id);
	put_text(line, 2, name);
	put_number(line, 3, at_ns);
}

/* An event from start_ns, counted from the line's time, on. */
static inline void begin_event(struct plane *p, struct bytes *event,
	const char *name, int64_t start_ns, int64_t dur_ns)
{
	event->len = 0;
	put_number(event, 1, id_of(p->events, &p->n_events, name));
	put_number(event, 2, start_ns * 1000);
	put_number(event, 3, dur_ns * 1000);
}

static inline void add_number(
	struct plane *p, struct bytes *event, const char *name, int64_t value)
{
	struct bytes stat = { .len = 0 };
	put_number(&stat, 1, id_of(p->stats, &p->n_stats, name));
	put_number(&stat, 4, value);
	put_in(event, 4, &stat);
}

static inline void add_text(struct plane *p, struct bytes *event,
	const char *name, const char *text)
{
	struct bytes stat = { .len = 0 };
	put_number(&stat, 1, id_of(p->stats, &p->n_stats, name));
	put_text(&stat, 5, text);
	put_in(event, 4, &stat);
}

/* The text as TensorFlow writes most: the name of a stat that stands for
 * it. */
static inline void add_ref(struct plane *p, struct bytes *event,
	const char *name, const char *text)
{
	struct bytes stat = { .len = 0 };
	put_number(&stat, 1, id_of(p->stats, &p->n_stats, name));
	put_number(&stat, 7, id_of(p->stats, &p->n_stats, text));
	put_in(event, 4, &stat);
}

/* An event without stats, whole. */
static inline void add_event(struct plane *p, struct bytes *line,
	const char *name, int64_t start_ns, int64_t dur_ns)
{
	struct bytes event;
	begin_event(p, &event, name, start_ns, dur_ns);
	put_in(line, 4, &event);
}

static inline void put_names(
	struct plane *p, unsigned field, const char **names, int n)
{
	for (int i = 0; i < n; i++) {
		struct bytes meta = { .len = 0 }, entry = { .len = 0 };
		put_number(&meta, 1, i + 1);
		put_text(&meta, 2, names[i]);
		put_number(&entry, 1, i + 1);
		put_in(&entry, 2, &meta);
		put_in(&p->bytes, field, &entry);
	}
}

static inline void end_plane(struct plane *p, struct bytes *space)
{
	put_names(p, 4, p->events, p->n_events);
	put_names(p, 5, p->stats, p->n_stats);
	put_in(space, 1, &p->bytes);
}

#endif /* TAUT_TRACE_XPLANE_WRITE_H */
