/* chakra.c - MLCommons Chakra execution traces: a row of protobuf messages,
 * each behind its length. The first says what the whole is, every other is a
 * node. A message that is broken costs that node alone, for the length says
 * where the next one begins. */
#include "trace/formats/chakra.h"

#include <stdlib.h>
#include <string.h>

#include "trace/format.h"
#include "trace/stream.h"

enum {
	LENGTH_MAX = 10, /* bytes of a length */
	LONG = 1024, /* first bytes of which so many are seen */
};

/* --- probing ------------------------------------------------------------------ */

/* Metadata holds texts (the version) and attributes, which begin with a
 * name. Where it is cut, one field at least must be whole. */
static bool is_metadata(struct tauti_wire w, bool cut)
{
	struct tauti_field f, in;
	size_t whole = 0;
	for (; tauti_wire_next(&w, &f); whole++) {
		if (f.type != TAUTI_WIRE_BYTES || f.number > 2)
			return false;
		struct tauti_wire attribute = tauti_wire_in(&f);
		if (f.number == 2 && (!tauti_wire_next(&attribute, &in) ||
					     in.number != 1 ||
					     in.type != TAUTI_WIRE_BYTES))
			return false;
	}
	if (!cut || !w.broken)
		return !w.broken;
	return whole && (*w.at == 0x0a || *w.at == 0x12); /* either field */
}

/* A node begins with its id, which only node 0 leaves out. */
static bool is_node(const uint8_t *at, const uint8_t *end)
{
	struct tauti_wire w = tauti_wire_of(at, (size_t)(end - at));
	uint64_t len;
	if (!tauti_wire_varint(&w, &len) || w.at == w.end)
		return false;
	return *w.at == 0x08 || *w.at == 0x12;
}

static bool probe_chakra(const char *head, size_t len)
{
	const uint8_t *bytes = (const uint8_t *)head;
	struct tauti_wire w = tauti_wire_of(bytes, len);
	uint64_t first;
	if (!tauti_wire_varint(&w, &first))
		return false;
	size_t left = (size_t)(w.end - w.at);
	/* All steps of a run may be an attribute, so it may be long; what is
	 * short and ends inside it was never a trace. */
	if (first > left)
		return len >= LONG && first <= TAUTI_FEED_MAX &&
		       is_metadata(tauti_wire_of(w.at, left), true);
	if (!is_metadata(tauti_wire_of(w.at, (size_t)first), false))
		return false;
	return first < left && is_node(w.at + first, w.end);
}

/* --- reading ------------------------------------------------------------------ */

struct reader {
	struct chakra *c;
	struct tauti_feed feed;
	bool any; /* the first message, the metadata, is read */
	bool ended, cut;
};

static taut_status no_memory(const struct chakra *c)
{
	return taut_error_set(c->err, TAUT_ENOMEM, -1,
		"%s: no memory for %zu nodes", c->builder->path,
		c->nodes.count);
}

/* The length that stands next. *ret_head is 0 where none can be read. */
static void read_length(
	const struct reader *r, uint64_t *ret_len, size_t *ret_head)
{
	size_t seen = r->feed.held < LENGTH_MAX ? r->feed.held : LENGTH_MAX;
	struct tauti_wire w = tauti_wire_of(r->feed.at, seen);
	*ret_head = 0;
	if (tauti_wire_varint(&w, ret_len))
		*ret_head = (size_t)(w.at - r->feed.at);
}

static void lose(struct reader *r, enum tauti_lost why)
{
	r->c->builder->events_seen++;
	tauti_builder_lose(r->c->builder, why, r->feed.offset);
}

/* The message of len bytes that is held. */
static taut_status take_message(struct reader *r, size_t head, size_t len)
{
	struct chakra *c = r->c;
	const uint8_t *at = r->feed.at + head;
	bool memory = true, good;
	if (!r->any) {
		good = tauti_chakra_metadata(c, at, len, &memory);
	} else {
		good = tauti_chakra_node(c, at, len, &memory);
		if (good)
			c->builder->events_seen++;
		else if (memory)
			lose(r, TAUTI_LOST_BROKEN);
	}
	r->any = true;
	return memory && c->nodes.count < TAUT_NONE ? TAUT_OK : no_memory(c);
}

static taut_status read_message(struct reader *r)
{
	struct taut_error *err = r->c->err;
	uint64_t len = 0;
	size_t head;
	taut_status status = tauti_feed_want(&r->feed, LENGTH_MAX, err);
	if (status != TAUT_OK)
		return status;
	r->ended = !r->feed.held;
	if (r->ended)
		return TAUT_OK;
	read_length(r, &len, &head);
	if (!head) {
		r->ended = r->cut = true;
		return TAUT_OK;
	}
	if (len > TAUTI_FEED_MAX - LENGTH_MAX) {
		uint64_t end = r->feed.offset + head + len;
		lose(r, TAUTI_LOST_LARGE);
		status = tauti_feed_skip(&r->feed, head + len, err);
		r->ended = r->cut = r->feed.offset < end;
		return status;
	}
	status = tauti_feed_want(&r->feed, head + (size_t)len, err);
	if (status != TAUT_OK)
		return status;
	if (r->feed.held < head + len) {
		r->ended = r->cut = true;
		return TAUT_OK;
	}
	status = take_message(r, head, (size_t)len);
	tauti_feed_take(&r->feed, head + (size_t)len);
	return status;
}

/* To the end of the stream, for its checksum. */
static taut_status drain(struct reader *r)
{
	taut_status status =
		tauti_feed_skip(&r->feed, UINT64_MAX, r->c->err);
	r->c->builder->bytes_read = r->feed.offset;
	return status;
}

/* --- the end ------------------------------------------------------------------ */

static const char *const lost_text[TAUTI_LOST_COUNT] = {
	[TAUTI_LOST_BROKEN] = "not what the schema says",
	[TAUTI_LOST_LARGE] = "larger than 16 MiB",
};

static taut_status add_notes(struct chakra *c)
{
	struct tauti_builder *b = c->builder;
	taut_status status = tauti_builder_note_lost(b, "node", lost_text);
	if (status == TAUT_OK && c->scheduled)
		status = tauti_builder_note(b,
			"is a Chakra trace without start times; its %zu nodes "
			"are run by their waits and durations, one at a time "
			"on each thread and stream",
			c->nodes.count);
	if (status == TAUT_OK && c->scheduled && c->circles)
		status = tauti_builder_note(b,
			"%llu nodes wait for themselves by way of others; they "
			"begin when nothing else can",
			(unsigned long long)c->circles);
	if (status == TAUT_OK && c->scheduled && c->dangling)
		status = tauti_builder_note(b,
			"%llu waits are for nodes that are not in the file; "
			"they are left out",
			(unsigned long long)c->dangling);
	return status;
}

/* Which times do the nodes tell? */
static void look_at_times(
	const struct chakra *c, bool *ret_starts, bool *ret_durations)
{
	*ret_starts = *ret_durations = false;
	for (size_t i = 0; i < c->nodes.count; i++) {
		*ret_starts |= c->nodes.data[i].start_ns != 0;
		*ret_durations |= c->nodes.data[i].dur_ns != 0;
	}
}

static taut_status refuse(struct chakra *c)
{
	struct tauti_builder *b = c->builder;
	if (!c->nodes.count)
		return taut_error_set(c->err, TAUT_EFORMAT,
			(int64_t)b->bytes_read,
			"%s: is a Chakra trace without %s node (%llu bytes)",
			b->path, b->truncated ? "a whole" : "any",
			(unsigned long long)b->bytes_read);
	if (c->no_work)
		return taut_error_set(c->err, TAUT_EFORMAT, -1,
			"%s: is a Chakra trace of whose %zu nodes none is "
			"work: they are metadata, or of no type",
			b->path, c->nodes.count);
	return taut_error_set(c->err, TAUT_EFORMAT, -1,
		"%s: is a Chakra trace whose %zu nodes have neither start "
		"times nor durations; give one that was linked with the "
		"profiler's trace, or that trace itself",
		b->path, c->nodes.count);
}

taut_status tauti_chakra_finish(struct chakra *c)
{
	bool starts, durations;
	look_at_times(c, &starts, &durations);
	if (!durations && !starts)
		return refuse(c);
	taut_status status = tauti_chakra_find_waits(c);
	if (status == TAUT_OK)
		status = tauti_chakra_lanes(c);
	if (status == TAUT_OK && !starts)
		status = tauti_chakra_schedule(c);
	if (status == TAUT_OK)
		status = tauti_chakra_rows(c);
	c->no_work = c->builder->n_rows == c->builder->first_row;
	if (status == TAUT_OK && c->no_work)
		return refuse(c);
	if (status == TAUT_OK)
		status = add_notes(c);
	return status == TAUT_ENOMEM ? no_memory(c) : status;
}

void tauti_chakra_fini(struct chakra *c)
{
	taut_vec_free(&c->nodes);
	taut_vec_free(&c->data_deps);
	taut_vec_free(&c->ctrl_deps);
	taut_vec_free(&c->comms);
	taut_vec_free(&c->steps);
	taut_vec_free(&c->scratch);
}

static taut_status settle(struct reader *r, const struct tauti_stream *stream)
{
	struct tauti_builder *b = r->c->builder;
	taut_status status = TAUT_OK;
	b->truncated = r->cut || tauti_stream_is_cut(stream);
	if (b->truncated && r->c->nodes.count)
		status = tauti_builder_note(b,
			"ends early at byte %llu, inside a node; what is "
			"whole is kept: %zu nodes",
			(unsigned long long)b->bytes_read,
			r->c->nodes.count);
	return status == TAUT_OK ? tauti_chakra_finish(r->c) :
				   no_memory(r->c);
}

static taut_status read_chakra(struct tauti_stream *stream,
	struct tauti_builder *builder, struct taut_error *err)
{
	struct taut_error own;
	struct chakra c = { .builder = builder, .err = err ? err : &own };
	struct reader r = { .c = &c };
	taut_status status = tauti_feed_init(
		&r.feed, stream, builder->window_bytes, c.err);
	while (status == TAUT_OK && !r.ended)
		status = read_message(&r);
	if (status == TAUT_OK)
		status = drain(&r);
	if (status == TAUT_OK)
		status = settle(&r, stream);
	tauti_feed_fini(&r.feed);
	tauti_chakra_fini(&c);
	return status;
}

const struct tauti_format tauti_format_chakra = {
	.name = "chakra",
	.probe = probe_chakra,
	.read = read_chakra,
};
