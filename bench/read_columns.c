/* SPDX-License-Identifier: Apache-2.0
 * read_columns.c - reading one trace to columns beside a bare simdjson walk
 * over the same bytes, one thread, best of several.
 *
 *     read_columns trace.json[.gz] [rounds]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <taut/trace.h>

#include "trace/stream.h"
#include "walk.h"

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The whole inflated text, padded for simdjson; NULL after a message. */
static char *load(const char *path, size_t *ret_len)
{
	struct taut_error err;
	struct tauti_stream *stream;
	if (tauti_stream_open_file(path, NULL, &stream, &err) != TAUT_OK) {
		fprintf(stderr, "%s\n", err.message);
		return NULL;
	}
	char *text = NULL;
	size_t len = 0, room = (size_t)4 << 20, got;
	for (;;) {
		char *more = realloc(text, room + BENCH_WALK_PAD);
		if (!more)
			break;
		text = more;
		if (tauti_stream_read(stream, text + len, room - len, &got,
			    &err) != TAUT_OK) {
			fprintf(stderr, "%s\n", err.message);
			break;
		}
		len += got;
		if (len < room) {
			memset(text + len, 0, BENCH_WALK_PAD);
			tauti_stream_close(stream);
			*ret_len = len;
			return text;
		}
		room *= 2;
	}
	tauti_stream_close(stream);
	free(text);
	return NULL;
}

struct result {
	double seconds;
	uint64_t events, values;
};

static int columns(const char *path, const char *text, size_t len,
	struct result *ret)
{
	struct taut_error err;
	struct taut_run *run;
	double begin = now_s();
	if (taut_run_open_memory(path, text, len, 0, &run, &err) != TAUT_OK) {
		fprintf(stderr, "%s\n", err.message);
		return 1;
	}
	ret->seconds = now_s() - begin;
	ret->events = run->traces[0].events_seen;
	ret->values = run->traces[0].n_events;
	taut_run_close(run);
	return 0;
}

static int walk(const char *text, size_t len, int raw, struct result *ret)
{
	double begin = now_s();
	ret->values = bench_walk(text, len, raw);
	ret->seconds = now_s() - begin;
	return ret->values == 0;
}

static void better(struct result *best, struct result one)
{
	if (best->seconds == 0 || one.seconds < best->seconds)
		*best = one;
}

int main(int argc, char **argv)
{
	size_t len = 0;
	if (argc < 2) {
		fprintf(stderr, "usage: read_columns TRACE [ROUNDS]\n");
		return 2;
	}
	int rounds = argc > 2 ? atoi(argv[2]) : 20;
	char *text = load(argv[1], &len);
	if (!text)
		return 1;
	struct result full = { 0 }, raw = { 0 }, read = { 0 }, one;
	for (int i = 0; i < rounds; i++) {
		if (columns(argv[1], text, len, &one))
			return 1;
		better(&read, one);
		if (walk(text, len, 0, &one))
			return 1;
		better(&full, one);
		if (walk(text, len, 1, &one))
			return 1;
		better(&raw, one);
	}
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	double mb = (double)len / 1e6;
	printf("%s: %.1f MB, %llu events, %llu values\n", argv[1], mb,
		(unsigned long long)read.events,
		(unsigned long long)full.values);
	printf("  columns    %8.1f MB/s  %6.2f Mevents/s  (%llu rows)\n",
		mb / read.seconds, (double)read.events / read.seconds / 1e6,
		(unsigned long long)read.values);
	printf("  walk       %8.1f MB/s  columns take %.2f of its time\n",
		mb / full.seconds, read.seconds / full.seconds);
	printf("  walk, raw  %8.1f MB/s  columns take %.2f of its time\n",
		mb / raw.seconds, read.seconds / raw.seconds);
	printf("  peak memory %.1f MB, of which the text %.1f MB\n",
		(double)usage.ru_maxrss / 1e3, mb);
	free(text);
	return 0;
}
