/* write_trace.h - small Kineto traces written by hand, for tests of the rooms
 * above the reader. Each rank is a file in a fresh folder; times are in
 * microseconds.
 *
 *     struct wt w = wt_begin();
 *     wt_rank(&w, 0);
 *     wt_event(&w, "cpu_op", "aten::mm", 1, 10, 0, 50, "");
 *     struct taut_run *run = wt_open(&w);
 *     ...
 *     taut_run_close(run);
 *     wt_end(&w); */
#ifndef TAUT_TESTS_WRITE_TRACE_H
#define TAUT_TESTS_WRITE_TRACE_H

#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <taut/trace.h>

enum { WT_MAX = 16 };

struct wt {
	char folder[64];
	char path[WT_MAX][96];
	int n;
	FILE *out;
	int first, rank;
	int world; /* the job's ranks, told with a host; 0: not told */
};

static inline struct wt wt_begin(void)
{
	struct wt w = { .folder = "/tmp/taut-test-XXXXXX" };

	assert_non_null(mkdtemp(w.folder));
	return w;
}

static inline void wt_close_rank(struct wt *w)
{
	if (!w->out)
		return;
	fprintf(w->out, "\n]}\n");
	fclose(w->out);
	w->out = NULL;
}

static inline void wt_rank(struct wt *w, int rank)
{
	wt_close_rank(w);
	assert_true(w->n < WT_MAX);
	/* By way of a copy: GCC takes folder and path for one object. */
	char path[sizeof w->path[0]];
	snprintf(path, sizeof path, "%s/rank%d.json", w->folder, rank);
	memcpy(w->path[w->n], path, sizeof path);
	w->out = fopen(w->path[w->n++], "w");
	assert_non_null(w->out);
	fprintf(w->out, "{\"schemaVersion\":1,\"distributedInfo\":"
		"{\"rank\":%d},\"traceEvents\":[", rank);
	w->first = 1;
	w->rank = rank;
}

/* What else of the rank's groups is told, as "key":value; before its first event. */
static inline void wt_distributed(struct wt *w, const char *told)
{
	fseek(w->out, 0, SEEK_SET);
	fprintf(w->out, "{\"schemaVersion\":1,\"distributedInfo\":"
		"{\"rank\":%d,%s},\"traceEvents\":[", w->rank, told);
}

/* Names the host of the rank; before its first event. */
static inline void wt_host(struct wt *w, const char *host)
{
	fseek(w->out, 0, SEEK_SET);
	fprintf(w->out, "{\"schemaVersion\":1,\"host_name\":\"%s\","
		"\"distributedInfo\":{\"rank\":%d", host, w->rank);
	if (w->world)
		fprintf(w->out, ",\"world_size\":%d", w->world);
	fprintf(w->out, "},\"traceEvents\":[");
}

/* Describes device 0 of the rank; before its first event. */
static inline void wt_device(
	struct wt *w, const char *name, int major, int minor)
{
	fseek(w->out, 0, SEEK_SET);
	fprintf(w->out, "{\"schemaVersion\":1,\"deviceProperties\":[{\"id\":0,"
		"\"name\":\"%s\",\"computeMajor\":%d,\"computeMinor\":%d}],"
		"\"distributedInfo\":{\"rank\":%d},\"traceEvents\":[", name,
		major, minor, w->rank);
}

/* args is the inside of the object, "" for none: "\"correlation\": 7". */
static inline void wt_event(struct wt *w, const char *cat, const char *name,
	int pid, int tid, double ts, double dur, const char *args)
{
	fprintf(w->out, "%s\n{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\","
		"\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{%s}}",
		w->first ? "" : ",", cat, name, pid, tid, ts, dur, args);
	w->first = 0;
}

/* A launch on a host thread and the kernel that it put on a stream. */
static inline void wt_kernel(struct wt *w, const char *name, int pid, int tid,
	double call, double call_dur, int stream, double ts, double dur,
	int correlation)
{
	char args[128];

	snprintf(args, sizeof args, "\"correlation\":%d", correlation);
	wt_event(w, "cuda_runtime", "cudaLaunchKernel", pid, tid, call,
		call_dur, args);
	snprintf(args, sizeof args, "\"device\":0,\"stream\":%d,"
		"\"correlation\":%d", stream, correlation);
	wt_event(w, "kernel", name, 0, stream, ts, dur, args);
}

static inline struct taut_run *wt_open(struct wt *w)
{
	const char *paths[] = { w->folder };
	struct taut_run *run = NULL;
	struct taut_error err = { 0 };

	wt_close_rank(w);
	if (taut_run_open(paths, 1, NULL, &run, &err))
		fail_msg("%s", err.message);
	return run;
}

/* What a log beside the first rank's trace would tell; facts outlive the run. */
static inline void wt_facts_of(struct taut_run *run, uint32_t rank,
	const struct taut_fact *facts, size_t n)
{
	struct taut_trace *trace =
		(struct taut_trace *)(uintptr_t)&run->traces[rank];

	trace->facts = facts;
	trace->n_facts = n;
}

static inline void wt_facts(
	struct taut_run *run, const struct taut_fact *facts, size_t n)
{
	wt_facts_of(run, 0, facts, n);
}

/* What processes told of a trace's page faults. */
static inline void wt_faults(struct taut_run *run, uint32_t rank, int64_t recorded,
	int64_t own, int64_t fault_ns)
{
	struct taut_trace *trace =
		(struct taut_trace *)(uintptr_t)&run->traces[rank];

	trace->faults_recorded = recorded;
	trace->faults_unrecorded = own;
	trace->fault_ns = fault_ns;
}

static inline void wt_end(struct wt *w)
{
	wt_close_rank(w);
	for (int i = 0; i < w->n; i++)
		unlink(w->path[i]);
	rmdir(w->folder);
}

#endif /* TAUT_TESTS_WRITE_TRACE_H */
