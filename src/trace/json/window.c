/* window.c - drop, fill, mark. */
#include "trace/json/window.h"

#include <stdlib.h>
#include <string.h>

#include "trace/json/index.h"
#include "trace/stream.h"

static taut_status out_of_memory(
	const struct tauti_window *w, struct taut_error *err)
{
	return taut_error_set(err, TAUT_ENOMEM, (int64_t)w->offset,
		"%s: no memory to hold byte %llu and what follows",
		tauti_stream_name(w->stream), (unsigned long long)w->offset);
}

static taut_status grow(
	struct tauti_window *w, size_t capacity, struct taut_error *err)
{
	char *buffer = realloc(w->buffer, capacity + TAUTI_WINDOW_PAD);
	if (!buffer)
		return out_of_memory(w, err);
	w->buffer = buffer;
	if (tauti_index_grow(w->index, capacity) != TAUT_OK)
		return out_of_memory(w, err);
	w->capacity = capacity;
	return TAUT_OK;
}

taut_status tauti_window_init(struct tauti_window *w,
	struct tauti_stream *stream, size_t usual, struct taut_error *err)
{
	memset(w, 0, sizeof *w);
	w->stream = stream;
	w->usual = usual ? usual : TAUTI_WINDOW_BYTES;
	w->want = w->capacity = w->usual;
	w->buffer = malloc(w->capacity + TAUTI_WINDOW_PAD);
	w->index = tauti_index_create(w->capacity);
	taut_status status = w->buffer && w->index ?
		tauti_window_next(w, 0, err) : out_of_memory(w, err);
	if (status != TAUT_OK)
		tauti_window_fini(w);
	return status;
}

void tauti_window_fini(struct tauti_window *w)
{
	free(w->buffer);
	tauti_index_destroy(w->index);
	w->buffer = NULL;
	w->index = NULL;
}

/* Makes the buffer hold want bytes of text, if the stream has them. */
static taut_status fill(struct tauti_window *w, struct taut_error *err)
{
	if (w->len - w->begin >= w->want || w->ended)
		return TAUT_OK;
	memmove(w->buffer, w->buffer + w->begin, w->len - w->begin);
	w->len -= w->begin;
	w->begin = 0;
	if (w->want > w->capacity) {
		taut_status status = grow(w, w->want, err);
		if (status != TAUT_OK)
			return status;
	}
	size_t got = 0, room = w->capacity - w->len;
	taut_status status = tauti_stream_read(
		w->stream, w->buffer + w->len, room, &got, err);
	if (status != TAUT_OK)
		return status;
	w->len += got;
	w->ended = got < room;
	memset(w->buffer + w->len, 0, TAUTI_WINDOW_PAD);
	return TAUT_OK;
}

static taut_status mark(struct tauti_window *w, struct taut_error *err)
{
	size_t held = w->len - w->begin;
	w->span = held < w->want ? held : w->want;
	w->last = w->ended && w->span == held;
	w->text = w->buffer + w->begin;
	uint32_t *at = NULL;
	if (tauti_index_run(w->index, w->buffer + w->begin, w->span, &at,
		    &w->n) != TAUT_OK)
		return taut_error_set(err, TAUT_EFORMAT, (int64_t)w->offset,
			"%s: byte %llu: not readable as JSON",
			tauti_stream_name(w->stream),
			(unsigned long long)w->offset);
	for (uint32_t i = 0; i < TAUTI_INDEX_SPARE; i++)
		at[w->n + i] = (uint32_t)held; /* the padding's first zero */
	w->at = at;
	return TAUT_OK;
}

bool tauti_window_is_full(const struct tauti_window *w)
{
	return w->span >= TAUTI_WINDOW_MAX;
}

static taut_status advance(
	struct tauti_window *w, size_t used, struct taut_error *err)
{
	w->begin += used;
	w->offset += used;
	taut_status status = fill(w, err);
	return status == TAUT_OK ? mark(w, err) : status;
}

taut_status tauti_window_next(
	struct tauti_window *w, size_t used, struct taut_error *err)
{
	if (used == 0 && w->at) {
		if (tauti_window_is_full(w))
			return taut_error_set(err, TAUT_EFORMAT,
				(int64_t)w->offset,
				"%s: byte %llu: one value is larger than "
				"%zu MiB",
				tauti_stream_name(w->stream),
				(unsigned long long)w->offset,
				TAUTI_WINDOW_MAX >> 20);
		w->want = w->span * 2;
	} else if (w->want < w->usual) {
		w->want *= 2;
	} else if (w->want > w->usual && used > w->want / 2) {
		w->want = w->usual;
	}
	return advance(w, used, err);
}

taut_status tauti_window_restart(
	struct tauti_window *w, size_t used, struct taut_error *err)
{
	w->want = w->usual < TAUTI_WINDOW_MIN ? w->usual : TAUTI_WINDOW_MIN;
	return advance(w, used, err);
}
