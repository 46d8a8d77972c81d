/* write_log.h - event logs in memory, for the tests of what reads them. It
 * writes what it is told, also what no recorder would. */
#ifndef TAUT_TESTS_WRITE_LOG_H
#define TAUT_TESTS_WRITE_LOG_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <taut/trace.h>

#include "base/log_format.h"
#include "tests/support/unit.h"

struct wl {
	union {
		struct tauti_log_header header;
		char page[TAUTI_LOG_HEADER_BYTES];
	};
	struct tauti_log_record records[256];
	uint32_t texts;
};

/* A log of rank of world, closed. */
static inline struct wl wl_begin(int32_t rank, int32_t world)
{
	struct wl w;

	memset(&w, 0, sizeof w);
	memcpy(w.header.magic, TAUTI_LOG_MAGIC, 8);
	w.header.header_bytes = TAUTI_LOG_HEADER_BYTES;
	w.header.record_bytes = TAUTI_LOG_RECORD_BYTES;
	w.header.rank = rank;
	w.header.world_size = world;
	w.header.local_rank = 0;
	w.header.pid = 100;
	w.header.capacity = 256;
	w.header.opened_ns = w.header.closed_ns = 1;
	strcpy(w.header.source, "test");
	snprintf(w.header.host, sizeof w.header.host, "host%d", rank);
	snprintf(w.header.clock, sizeof w.header.clock, "boot/host%d", rank);
	return w;
}

static inline struct tauti_log_record *wl_add(struct wl *w, uint32_t type)
{
	assert_true(w->header.reserved < 256);
	struct tauti_log_record *r = &w->records[w->header.reserved++];
	r->type = type;
	return r;
}

static inline uint32_t wl_text(struct wl *w, const char *text)
{
	size_t len = strlen(text);
	struct tauti_log_record *r = wl_add(w, TAUTI_LOG_TEXT);

	r->name = ++w->texts;
	r->u.text.bytes = (uint32_t)len;
	for (size_t at = 0; at < len; at += sizeof *r) {
		size_t part = len - at < sizeof *r ? len - at : sizeof *r;
		memcpy(wl_add(w, TAUTI_LOG_UNUSED), text + at, part);
	}
	return w->texts;
}

/* Times are microseconds after an instant in 2023. */
#define WL_EPOCH_NS INT64_C(1700000000000000000)

static inline struct tauti_log_record *wl_event(struct wl *w, uint32_t type,
	uint32_t kind, const char *name, int64_t lane, int64_t start_us,
	int64_t dur_us, uint32_t correlation)
{
	uint32_t text = wl_text(w, name);
	struct tauti_log_record *r = wl_add(w, type);

	r->name = text;
	r->kind = kind;
	r->lane = lane;
	r->start_ns = WL_EPOCH_NS + start_us * 1000;
	r->end_ns = r->start_ns + dur_us * 1000;
	r->correlation = correlation;
	return r;
}

/* A collective of `elements` floats over all ranks of the header. */
static inline struct tauti_log_record *wl_comm(struct wl *w, const char *name,
	int64_t lane, int64_t start_us, int64_t dur_us, int64_t seq,
	int64_t elements)
{
	uint32_t what = wl_text(w, name), group = wl_text(w, "world");
	uint32_t dtype = wl_text(w, "Float");
	struct tauti_log_record *r = wl_event(w, TAUTI_LOG_COMM,
		TAUT_KIND_COMM, name, lane, start_us, dur_us, 0);

	r->u.comm.collective = what;
	r->u.comm.group = group;
	r->u.comm.dtype = dtype;
	r->u.comm.in_elements = r->u.comm.out_elements = elements;
	r->u.comm.seq = seq;
	r->u.comm.group_size = w->header.world_size;
	r->u.comm.src = r->u.comm.dst = r->u.comm.root = -1;
	return r;
}

/* A call of an exchange with a gradient: a hand-over, or a wait. */
static inline void wl_sum_call(struct wl *w, uint32_t exchange, uint32_t task,
	int waits, int64_t lane, int64_t start_us, int64_t dur_us)
{
	struct tauti_log_record *r = wl_add(w, TAUTI_LOG_SUM_CALL);

	r->lane = lane;
	r->start_ns = WL_EPOCH_NS + start_us * 1000;
	r->end_ns = r->start_ns + dur_us * 1000;
	r->u.sum_call.exchange = exchange;
	r->u.sum_call.task = task;
	r->u.sum_call.waits = (uint32_t)waits;
}

/* A piece of 100 bytes of an exchange of all ranks. */
static inline struct tauti_log_record *wl_piece(struct wl *w, uint32_t exchange,
	uint32_t task, int64_t message, int64_t start_us, int64_t dur_us)
{
	uint32_t group = wl_text(w, exchange ? "taut 1.2" : "taut 1.1");
	struct tauti_log_record *r = wl_add(w, TAUTI_LOG_PIECE);

	r->start_ns = WL_EPOCH_NS + start_us * 1000;
	r->end_ns = r->start_ns + dur_us * 1000;
	r->u.piece.exchange = exchange;
	r->u.piece.task = task;
	r->u.piece.group = group;
	r->u.piece.group_size = w->header.world_size;
	r->u.piece.message = message;
	r->u.piece.bytes = 100;
	return r;
}

static inline void wl_clock(struct wl *w, int64_t at_us, int64_t offset_ns,
	int64_t half_width_ns)
{
	struct tauti_log_record *r = wl_add(w, TAUTI_LOG_CLOCK);

	r->start_ns = r->end_ns = WL_EPOCH_NS + at_us * 1000;
	r->u.clock.offset_ns = offset_ns;
	r->u.clock.half_width_ns = half_width_ns;
}

static inline size_t wl_bytes(const struct wl *w)
{
	uint64_t n = w->header.reserved < w->header.capacity ?
		w->header.reserved : w->header.capacity;

	return TAUTI_LOG_HEADER_BYTES + (size_t)n * TAUTI_LOG_RECORD_BYTES;
}

static inline void wl_write(const struct wl *w, const char *path)
{
	FILE *file = fopen(path, "wb");

	assert_non_null(file);
	assert_int_equal(fwrite(w, 1, wl_bytes(w), file), wl_bytes(w));
	fclose(file);
}

/* The run of n logs, at most 8. */
static inline struct taut_run *wl_open(const struct wl *logs, int n)
{
	char folder[] = "/tmp/taut-logs-XXXXXX", path[8][64];
	const char *paths[8];
	struct taut_run *run = NULL;
	struct taut_error err = { 0 };

	assert_non_null(mkdtemp(folder));
	for (int i = 0; i < n; i++) {
		snprintf(path[i], sizeof path[i], "%s/%d.tautlog", folder, i);
		wl_write(&logs[i], path[i]);
		paths[i] = path[i];
	}
	if (taut_run_open(paths, (size_t)n, NULL, &run, &err) != TAUT_OK)
		fail_msg("%s", err.message);
	for (int i = 0; i < n; i++)
		remove(path[i]);
	remove(folder);
	return run;
}

#endif /* TAUT_TESTS_WRITE_LOG_H */
