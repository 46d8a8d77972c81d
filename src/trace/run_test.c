#include "trace/test_support.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/write_log.h"

/* A folder that goes away with all that was put into it. */
struct folder {
	char path[64];
	char files[16][160];
	int n;
};

static void setup(struct folder *f)
{
	memset(f, 0, sizeof *f);
	strcpy(f->path, "/tmp/taut-run-XXXXXX");
	assert_non_null(mkdtemp(f->path));
}

static void cleanup(struct folder *f)
{
	while (f->n--)
		remove(f->files[f->n]);
	remove(f->path);
}

static char *name_file(struct folder *f, const char *name)
{
	assert_true(f->n < 16);
	char *path = f->files[f->n++];
	size_t len = strlen(f->path);
	assert_true(len + strlen(name) + 2 <= sizeof f->files[0]);
	memcpy(path, f->path, len);
	path[len] = '/';
	strcpy(path + len + 1, name);
	return path;
}

static const char *put(struct folder *f, const char *name, const char *text)
{
	char *path = name_file(f, name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	return path;
}

static void put_folder(struct folder *f, const char *name)
{
	assert_int_equal(mkdir(name_file(f, name), 0700), 0);
}

/* A trace of one event; info is what stands before the events. */
#define TRACE(info, name) \
	"{" info "\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"cpu_op\"," \
	"\"name\":\"" name "\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1}]}"
#define RANK(rank) "\"distributedInfo\":{\"rank\":" #rank "},"

static struct taut_run *open_all(const char *const *paths, size_t n,
	const struct taut_run_options *options)
{
	struct taut_run *run = NULL;
	struct taut_error err = { 0 };
	if (taut_run_open(paths, n, options, &run, &err) != TAUT_OK)
		fail_msg("%s", err.message);
	return run;
}

static struct taut_run *open_folder(const struct folder *f)
{
	const char *paths[] = { f->path };
	return open_all(paths, 1, NULL);
}

static void check_refusal(const char *path, taut_status expected,
	const char *part)
{
	struct taut_run *run = NULL;
	struct taut_error err = { 0 };
	assert_int_equal(
		taut_run_open(&path, 1, NULL, &run, &err), expected);
	assert_int_equal(err.code, expected);
	if (!strstr(err.message, part))
		fail_msg("%s", err.message);
	assert_null(run);
}

static const char *name_at(const struct taut_run *run, uint32_t i)
{
	return taut_trace_name(&run->traces[i], 0);
}

/* The trace says its rank before its name does. */
static void test_ranks_from_traces_and_names(void **state)
{
	(void)state;
	struct folder f;
	setup(&f);
	put(&f, "rank7.json", TRACE(RANK(2), "says 2"));
	put(&f, "rank1.json", TRACE("", "named 1"));
	put(&f, "x_0.json", TRACE("", "named 0"));
	struct taut_run *run = open_folder(&f);
	assert_int_equal(run->n_traces, 3);
	for (int32_t i = 0; i < 3; i++)
		assert_int_equal(run->traces[i].rank, i);
	assert_string_equal(name_at(run, 0), "named 0");
	assert_string_equal(name_at(run, 1), "named 1");
	assert_string_equal(name_at(run, 2), "says 2");
	assert_string_equal(run->path, f.path);
	taut_run_close(run);
	cleanup(&f);
}

static void test_ranks_given(void **state)
{
	(void)state;
	struct folder f;
	setup(&f);
	const char *paths[] = { put(&f, "a.json", TRACE(RANK(0), "a")),
		put(&f, "b.json", TRACE(RANK(0), "b")) };
	static const int32_t ranks[] = { 1, 0 };
	struct taut_run *run = open_all(paths, 2,
		&(struct taut_run_options){ .ranks = ranks });
	assert_string_equal(name_at(run, 0), "b");
	assert_string_equal(name_at(run, 1), "a");
	taut_run_close(run);
	cleanup(&f);
}

static void test_one_without_a_rank_is_rank_0(void **state)
{
	(void)state;
	struct folder f;
	setup(&f);
	put(&f, "trace.json", TRACE("", "a"));
	struct taut_run *run = open_folder(&f);
	assert_int_equal(run->traces[0].rank, 0);
	taut_run_close(run);
	put(&f, "rank1.json", TRACE("", "b"));
	run = open_folder(&f);
	assert_int_equal(run->n_traces, 2);
	assert_string_equal(name_at(run, 0), "a");
	taut_run_close(run);
	put(&f, "again.json", TRACE("", "c"));
	check_refusal(f.path, TAUT_EMATCH, "its rank cannot be told");
	cleanup(&f);
}

static void test_one_rank_twice(void **state)
{
	(void)state;
	struct folder f;
	setup(&f);
	put(&f, "a.json", TRACE(RANK(3), "a"));
	put(&f, "b.json", TRACE(RANK(3), "b"));
	check_refusal(f.path, TAUT_EMATCH,
		"b.json: says that it is rank 3, as ");
	cleanup(&f);
}

/* One level down, no further; what is no trace is passed by. */
static void test_folders(void **state)
{
	(void)state;
	struct folder f;
	setup(&f);
	put_folder(&f, "rank0");
	put(&f, "rank0/trace.json", TRACE("", "a"));
	put_folder(&f, "rank1");
	put(&f, "rank1/trace.json", TRACE("", "b"));
	put_folder(&f, "rank1/deeper");
	put(&f, "rank1/deeper/trace.json", TRACE(RANK(1), "c"));
	put(&f, "README.md", "# text");
	put(&f, "run.sh", "");
	put(&f, "run.log", "[info] text");
	put(&f, ".rank3.json", TRACE("", "d"));
	put(&f, "meta.json", "{\"a\":1}");
	put(&f, "et.json", "{\"schema\":\"1.0.1\",\"nodes\":[]}");
	struct taut_run *run = open_folder(&f);
	assert_int_equal(run->n_traces, 2);
	assert_string_equal(name_at(run, 1), "b");
	assert_int_equal(run->n_notes, 3);
	assert_non_null(strstr(run->notes[2], "run.log: "));
	assert_non_null(strstr(run->notes[0], "et.json: is a PyTorch "
					      "execution trace"));
	assert_non_null(strstr(run->notes[1], "meta.json: is JSON without "
					      "traceEvents"));
	assert_non_null(strstr(run->notes[1], "(left out)"));
	taut_run_close(run);
	cleanup(&f);
}

static void test_what_cannot_be_opened(void **state)
{
	(void)state;
	struct folder f;
	setup(&f);
	check_refusal(f.path, TAUT_EFORMAT,
		"no trace of a known format in this folder (0 files");
	put(&f, "notes.txt", "text");
	check_refusal(f.path, TAUT_EFORMAT, "in this folder (1 files");
	check_refusal("/no/such/place", TAUT_EIO,
		"/no/such/place: No such file or directory");
	/* A trace that is cut before its first event is not passed by. */
	put(&f, "rank0.json", "{\"traceEvents\":[{\"ph\":");
	check_refusal(f.path, TAUT_EFORMAT, "rank0.json: ends at byte 22");
	struct taut_run *run = NULL;
	struct taut_error err;
	assert_int_equal(
		taut_run_open(NULL, 0, NULL, &run, &err), TAUT_EINVAL);
	taut_run_close(NULL);
	cleanup(&f);
}

static void test_missing_ranks_are_told(void **state)
{
	(void)state;
	struct folder f;
	setup(&f);
	put(&f, "rank2.json", TRACE("\"distributedInfo\":{\"rank\":2,"
				    "\"world_size\":4},", "a"));
	struct taut_run *run = open_folder(&f);
	assert_int_equal(run->n_notes, 1);
	assert_non_null(strstr(
		run->notes[0], ": 1 of the job's 4 ranks is here"));
	taut_run_close(run);
	cleanup(&f);
}

/* What JAX writes: one profile in two forms, of which the smaller one is for
 * viewers. By its name alone it is read. */
static void test_one_profile_in_two_forms(void **state)
{
	(void)state;
	struct folder f;
	char path[128];
	const char *paths[] = { path };
	struct taut_run *run = NULL;
	setup(&f);
	put(&f, "host1.xplane.pb", TRACE("", "a"));
	put(&f, "host1.trace.json.gz", TRACE("", "b"));
	run = open_folder(&f);
	assert_int_equal(run->n_traces, 1);
	assert_string_equal(name_at(run, 0), "a");
	assert_int_equal(run->n_notes, 1);
	assert_non_null(strstr(run->notes[0], "host1.trace.json.gz: the "
		"profile of the .xplane.pb beside it once more (left out)"));
	taut_run_close(run);
	snprintf(path, sizeof path, "%s/host1.trace.json.gz", f.path);
	assert_int_equal(taut_run_open(paths, 1, NULL, &run, NULL), TAUT_OK);
	assert_string_equal(name_at(run, 0), "b");
	taut_run_close(run);
	cleanup(&f);
}

static void test_hosts(void **state)
{
	(void)state;
	struct folder f;
	setup(&f);
	put(&f, "nodeA_12.1700000000000.pt.trace.json",
		TRACE(RANK(0), "a"));
	put(&f, "nodeB_13.1700000000000.pt.trace.json",
		TRACE(RANK(1) "\"host_name\":\"said\",", "b"));
	struct taut_run *run = open_folder(&f);
	assert_string_equal(run->traces[0].host, "nodeA");
	assert_string_equal(run->traces[1].host, "said");
	taut_run_close(run);
	cleanup(&f);
}

struct seen {
	uint64_t done, total;
};

static void see(void *state, const char *what, uint64_t done, uint64_t total)
{
	struct seen *seen = state;
	assert_non_null(what);
	assert_true(done >= seen->done && done <= total);
	seen->done = done;
	seen->total = total;
}

/* The same result on one thread as on many; progress reaches its total. */
static void test_threads_and_progress(void **state)
{
	(void)state;
	struct folder f;
	setup(&f);
	uint64_t bytes = 0;
	for (int i = 0; i < 12; i++) {
		char name[32];
		snprintf(name, sizeof name, "rank%d.json", i);
		put(&f, name, TRACE("", "a"));
		bytes += strlen(TRACE("", "a"));
	}
	for (unsigned threads = 1; threads < 5; threads++) {
		struct seen seen = { 0, 0 };
		struct taut_run_options options = {
			.threads = threads,
			.progress = { see, &seen },
		};
		const char *paths[] = { f.path };
		struct taut_run *run = open_all(paths, 1, &options);
		assert_int_equal(run->n_traces, 12);
		for (int32_t i = 0; i < 12; i++)
			assert_int_equal(run->traces[i].rank, i);
		assert_int_equal(seen.total, bytes);
		assert_int_equal(seen.done, bytes);
		taut_run_close(run);
	}
	cleanup(&f);
}

/* The folder of a rank is one trace: what the profiler wrote, and logs. */
static void test_recording(void **state)
{
	(void)state;
	struct folder f;
	struct wl w = wl_begin(1, 2);
	setup(&f);
	put(&f, "recording.json",
		"{\"taut\":\"0.1.0\",\"complete\":false,"
		"\"problems\":[\"rank 0: was killed\",\"and \\u0041\"]}");
	put_folder(&f, "processes");
	put(&f, "processes/mpi-1.tautlog", "not looked at");
	put(&f, "processes/a-1.json", "{\"rank\": 1, \"step_ms\": "
		"{\"recorded\": 2.5, \"unrecorded\": 2.25, "
		"\"unrecorded_issue\": 0.75, \"unrecorded_passes\": 0.5}}");
	put(&f, "processes/a-2.json", "{\"rank\": 0, \"step_ms\": "
		"{\"recorded\": 7.5, \"unrecorded\": 7.25}}");
	put(&f, "processes/a-3.json", "{\"rank\": 1, \"step_ms\": "
		"{\"recorded\": 9, \"unrecorded\": null}}");
	put(&f, "processes/a-4.json", "{\"rank\": 1, \"step_ms\"");
	put_folder(&f, "rank1");
	put(&f, "rank1/torch.json",
		"{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"cpu_op\","
		"\"name\":\"op\",\"pid\":100,\"tid\":100,\"ts\":5,"
		"\"dur\":1}],\"baseTimeNanoseconds\":1700000000000000000}");
	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_LOAD_WAIT, "wait", 100, 5, 0, 4);
	wl_write(&w, name_file(&f, "rank1/torch.tautlog"));
	w = wl_begin(1, 2);
	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_LOAD, "batch", 101, 1, 4, 4);
	/* before the profiler began, and after it had ended */
	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_LOAD, "batch", 101, 1, 3, 3);
	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_LOAD, "batch", 101, 7, 1, 5);
	wl_write(&w, name_file(&f, "rank1/a-loader.tautlog"));
	/* of a rank that was killed while it recorded */
	put_folder(&f, "rank0");
	w = wl_begin(0, 2);
	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_LOAD_WAIT, "wait", 90, 5, 0, 4);
	wl_write(&w, name_file(&f, "rank0/torch.tautlog"));

	struct taut_run *run = open_folder(&f);
	assert_int_equal(run->n_traces, 1);
	const struct taut_trace *t = &run->traces[0];
	assert_string_equal(t->format, "kineto");
	assert_non_null(strstr(t->path, "rank1/torch.json"));
	assert_int_equal(t->rank, 1);
	assert_int_equal(t->world_size, 2);
	assert_int_equal(t->step_recorded_ns, 2500000);
	assert_int_equal(t->step_unrecorded_ns, 2250000);
	assert_int_equal(t->issue_unrecorded_ns, 500000);
	assert_true(t->issue_to_update);
	assert_int_equal(t->n_lanes, 2);
	assert_int_equal(t->n_events, 3);
	assert_int_equal(t->base_ns, WL_EPOCH_NS + 1000);
	assert_string_equal(taut_trace_name(t, 0), "op");
	assert_int_equal(t->start_ns[0], 4000);
	assert_int_equal(t->kind[1], TAUT_KIND_LOAD_WAIT);
	assert_int_equal(t->kind[2], TAUT_KIND_LOAD);
	assert_int_equal(t->correlation[2], 4);
	assert_int_equal(run->n_notes, 4);
	assert_non_null(strstr(run->notes[3], "rank0/torch.tautlog: tells"));
	assert_non_null(strstr(run->notes[0], "recording.json: rank 0: was"));
	assert_non_null(strstr(run->notes[1], "and A"));
	assert_non_null(strstr(run->notes[2], "1 of the job's 2 ranks"));
	taut_run_close(run);
	put(&f, "rank1/other.json", TRACE("", "a"));
	check_refusal(f.path, TAUT_EMATCH, "is a second trace of one rank");
	cleanup(&f);
}

/* A rank that died in its recording is missing; the others are there. */
static void test_rank_without_its_profile(void **state)
{
	(void)state;
	struct folder f;
	struct wl w = wl_begin(1, 2);
	setup(&f);
	put_folder(&f, "rank0");
	put(&f, "rank0/torch.json", TRACE(RANK(0), "a"));
	put_folder(&f, "rank1");
	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_LOAD_WAIT, "wait", 100, 5, 0, 4);
	wl_write(&w, name_file(&f, "rank1/torch.tautlog"));
	struct taut_run *run = open_folder(&f);
	assert_int_equal(run->n_traces, 1);
	assert_int_equal(run->traces[0].rank, 0);
	assert_non_null(strstr(run->notes[run->n_notes - 1],
		"rank1/torch.tautlog: tells nothing of what the rank did"));
	taut_run_close(run);
	cleanup(&f);
}

/* Every recorder of a rank counts from one: its numbers are no other's. */
static void test_numbers_of_recorders(void **state)
{
	static const char *const logs[] = { "rank0/mpi.tautlog",
		"rank0/nccl.tautlog" };
	(void)state;
	struct folder f;
	setup(&f);
	put_folder(&f, "rank0");
	put(&f, "rank0/torch.json",
		"{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"cuda_runtime\","
		"\"name\":\"cudaLaunchKernel\",\"pid\":100,\"tid\":100,"
		"\"ts\":5,\"dur\":1,\"args\":{\"correlation\":1}}],"
		"\"baseTimeNanoseconds\":1700000000000000000}");
	for (int i = 0; i < 2; i++) {
		struct wl w = wl_begin(0, 1);
		wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_RUNTIME, "wait", 200 + i,
			5, 1, 1);
		wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_RUNTIME, "wait", 200 + i,
			6, 1, 1);
		wl_write(&w, name_file(&f, logs[i]));
	}
	struct taut_run *run = open_folder(&f);
	const struct taut_trace *t = &run->traces[0];
	assert_int_equal(t->n_events, 5);
	assert_int_equal(t->correlation[0], 1);
	for (size_t i = 1; i < 5; i += 2) {
		assert_int_not_equal(t->correlation[i], 1);
		assert_int_equal(t->correlation[i], t->correlation[i + 1]);
	}
	assert_int_not_equal(t->correlation[1], t->correlation[3]);
	taut_run_close(run);
	cleanup(&f);
}

/* A file is judged by itself, whatever was read before it. */
static void test_sources_stand_alone(void **state)
{
	static const char whole[] =
		"{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"cpu_op\","
		"\"name\":\"op\",\"pid\":100,\"tid\":100,\"ts\":5,"
		"\"dur\":1}],\"baseTimeNanoseconds\":1700000000000000000}";
	(void)state;
	struct folder f;
	struct wl w = wl_begin(0, 1);
	setup(&f);
	put_folder(&f, "rank0");
	wl_event(&w, TAUTI_LOG_SPAN, TAUT_KIND_OP, "own", 100, 5, 1, 0);
	w.header.reserved++; /* never came */
	wl_write(&w, name_file(&f, "rank0/a.tautlog"));
	assert_int_equal(
		truncate(f.files[f.n - 1], (off_t)wl_bytes(&w) - 128), 0);
	put(&f, "rank0/other", "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":"
		"\"a game\",\"name\":\"op\",\"pid\":1,\"tid\":1,"
		"\"ts\":5,\"dur\":1}]}");

	struct taut_run *run = open_folder(&f);
	assert_string_equal(run->traces[0].format, "event log");
	assert_int_equal(run->traces[0].n_events, 1);
	assert_true(run->traces[0].truncated);
	taut_run_close(run);
	put(&f, "rank0/torch.json", whole);
	run = open_folder(&f);
	assert_string_equal(run->traces[0].format, "kineto");
	assert_int_equal(run->traces[0].n_events, 2);
	assert_int_equal(run->traces[0].events_seen, 2);
	assert_int_equal(run->traces[0].bytes_read,
		wl_bytes(&w) - 128 + strlen(whole));
	assert_true(run->traces[0].truncated);
	taut_run_close(run);
	cleanup(&f);
}

static void test_recording_of_nothing(void **state)
{
	(void)state;
	struct folder f;
	setup(&f);
	const char *path = put(&f, "recording.json",
		"{\"problems\":[\"no optimiser step was made\"]}");
	check_refusal(f.path, TAUT_EFORMAT,
		"recording.json: no optimiser step was made; nothing was");
	assert_int_equal(remove(path), 0);
	f.n--;
	put(&f, "recording.json", "{\"problems\":[7");
	check_refusal(f.path, TAUT_EFORMAT, "is not what taut record writes");
	cleanup(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranks_from_traces_and_names),
		cmocka_unit_test(test_ranks_given),
		cmocka_unit_test(test_one_without_a_rank_is_rank_0),
		cmocka_unit_test(test_one_rank_twice),
		cmocka_unit_test(test_folders),
		cmocka_unit_test(test_what_cannot_be_opened),
		cmocka_unit_test(test_missing_ranks_are_told),
		cmocka_unit_test(test_one_profile_in_two_forms),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_threads_and_progress),
		cmocka_unit_test(test_recording),
		cmocka_unit_test(test_rank_without_its_profile),
		cmocka_unit_test(test_numbers_of_recorders),
		cmocka_unit_test(test_sources_stand_alone),
		cmocka_unit_test(test_recording_of_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
