/* log_test.c - what was written is in the file, whatever happens then. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <taut/record.h>

#include "base/log_format.h"
#include "record/log.h"
#include "tests/support/alloc_fail.h"
#include "tests/support/unit.h"

static char folder[] = "/tmp/taut-log-XXXXXX";
static char path[64];

static struct taut_log *open_log(uint32_t capacity)
{
	struct taut_log_options options = { .source = "test", .rank = -1,
		.world_size = -1, .local_rank = -1, .capacity = capacity };
	struct taut_error err = { .message = "" };
	struct taut_log *log = NULL;

	unlink(path);
	assert_int_equal(taut_log_open(path, &options, &log, &err), TAUT_OK);
	return log;
}

/* --- the file, read by the rule of log_format.h --------------------------------*/

struct file {
	struct tauti_log_header header;
	struct tauti_log_record *records;
	uint64_t n; /* in the file */
	size_t bytes;
};

static struct file read_file(void)
{
	struct file file = { .n = 0 };
	FILE *in = fopen(path, "rb");
	struct stat at;

	assert_non_null(in);
	assert_int_equal(fstat(fileno(in), &at), 0);
	file.bytes = (size_t)at.st_size;
	assert_int_equal(fread(&file.header, sizeof file.header, 1, in), 1);
	fseek(in, TAUTI_LOG_HEADER_BYTES, SEEK_SET);
	file.n = (file.bytes - TAUTI_LOG_HEADER_BYTES) /
		TAUTI_LOG_RECORD_BYTES;
	file.records = calloc(file.n + 1, sizeof *file.records);
	assert_int_equal(fread(file.records, sizeof *file.records, file.n, in),
		file.n);
	fclose(in);
	return file;
}

/* The text of an id as a static string; NULL: is not there. */
static const char *text_of(const struct file *file, uint32_t id)
{
	static char text[TAUTI_LOG_TEXT_BYTES + 1];

	for (uint64_t i = 0; i < file->n; i++) {
		const struct tauti_log_record *at = &file->records[i];

		if (at->type != TAUTI_LOG_TEXT)
			continue;
		if (at->name == id) {
			memcpy(text, at + 1, at->u.text.bytes);
			text[at->u.text.bytes] = '\0';
			return text;
		}
		i += (at->u.text.bytes + 127) / 128;
	}
	return NULL;
}

static uint64_t count(const struct file *file, enum tauti_log_type type)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < file->n; i++) {
		n += file->records[i].type == type;
		if (file->records[i].type == TAUTI_LOG_TEXT)
			i += (file->records[i].u.text.bytes + 127) / 128;
	}
	return n;
}

static const struct tauti_log_record *first(
	const struct file *file, enum tauti_log_type type)
{
	for (uint64_t i = 0; i < file->n; i++) {
		if (file->records[i].type == type)
			return &file->records[i];
		if (file->records[i].type == TAUTI_LOG_TEXT)
			i += (file->records[i].u.text.bytes + 127) / 128;
	}
	return NULL;
}

/* --- tests -----------------------------------------------------------------------*/

static void test_the_header(void **state)
{
	(void)state;
	int64_t before = taut_log_now();
	struct taut_log *log = open_log(16);
	char host[65], clock[64];

	taut_log_ranks(log, 3, 4, -1);
	taut_log_ranks(log, -1, -1, 1);
	taut_log_state(log, "waits for step 10");
	taut_log_close(log);
	struct file file = read_file();

	gethostname(host, sizeof host);
	tauti_log_clock_name(clock, sizeof clock);
	assert_memory_equal(file.header.magic, TAUTI_LOG_MAGIC, 8);
	assert_int_equal(file.header.header_bytes, 4096);
	assert_int_equal(file.header.record_bytes, 128);
	assert_int_equal(file.header.rank, 3);
	assert_int_equal(file.header.world_size, 4);
	assert_int_equal(file.header.local_rank, 1);
	assert_int_equal(file.header.pid, getpid());
	assert_int_equal(file.header.capacity, 16);
	assert_int_equal(file.header.reserved, 0);
	assert_in_range(file.header.opened_ns, before, taut_log_now());
	assert_in_range(file.header.closed_ns, file.header.opened_ns,
		taut_log_now());
	assert_string_equal(file.header.source, "test");
	assert_int_equal(strncmp(file.header.host, host, 63), 0);
	assert_string_equal(file.header.clock, clock);
	assert_true(strlen(clock) > 36); /* a boot id and more */
	assert_string_equal(file.header.state, "waits for step 10");
	assert_int_equal(file.bytes, 4096);
	free(file.records);
}

static void write_one_of_each(struct taut_log *log)
{
	taut_log_lane(log, 77, "progress");
	taut_log_span(log, taut_log_text(log, "step"), 5, 77, 100, 200, 9);
	taut_log_comm(log, taut_log_text(log, "MPI_Bcast"), 7, 78, 300, 400, 0,
		&(struct taut_log_comm){ .collective =
			taut_log_text(log, "broadcast"), .group =
			taut_log_text(log, "world"), .in_elements = 5,
			.out_elements = -1, .seq = 2, .group_size = 4,
			.src = -1, .dst = -1, .root = 1 });
	taut_log_chunk(log, taut_log_text(log, "chunk"), 79, 500, 600, 9,
		&(struct taut_log_chunk){ .peer = 1, .channel = 2, .step = 3,
			.sends = 1, .bytes = 4096, .gpu_late_ns = 10,
			.peer_late_ns = 20, .network_ns = 70 });
	taut_log_load(log, taut_log_text(log, "batch"), 14, 80, 600, 700, 4,
		&(struct taut_log_load){ .cpu_ns = 60, .queued_ns = -1,
			.others_ns = 7, .read_bytes = 8192,
			.storage_bytes = 4096, .samples = 16 });
	taut_log_gradient(log, 2, 7, taut_log_text(log, "float16"), 1000);
	taut_log_sum_call(log, 2, 7, 5, 77, 800, 900);
	taut_log_piece(log, 850, 890, &(struct taut_log_piece){ .exchange = 2,
		.task = 7, .group = taut_log_text(log, "taut 1.1"),
		.group_ranks = taut_log_text(log, "[0, 2]"), .group_size = 2,
		.message = 11, .bytes = 500 });
	taut_log_fact(log, "world", "0,1,2,3");
	taut_log_clock(log, &(struct taut_clock_offset){ .at_ns = 700,
		.offset_ns = -30, .half_width_ns = 8, .answers = 3 });
}

static void test_each_record(void **state)
{
	(void)state;
	struct taut_log *log = open_log(64);

	write_one_of_each(log);
	taut_log_close(log);
	struct file file = read_file();
	const struct tauti_log_record *at = first(&file, TAUTI_LOG_LANE);

	assert_int_equal(at->lane, 77);
	assert_string_equal(text_of(&file, at->name), "progress");
	at = first(&file, TAUTI_LOG_SPAN);
	assert_string_equal(text_of(&file, at->name), "step");
	assert_int_equal(at->kind, 5);
	assert_int_equal(at->start_ns, 100);
	assert_int_equal(at->end_ns, 200);
	assert_int_equal(at->correlation, 9);
	at = first(&file, TAUTI_LOG_COMM);
	assert_string_equal(text_of(&file, at->u.comm.collective), "broadcast");
	assert_string_equal(text_of(&file, at->u.comm.group), "world");
	assert_int_equal(at->u.comm.in_elements, 5);
	assert_int_equal(at->u.comm.out_elements, -1);
	assert_int_equal(at->u.comm.seq, 2);
	assert_int_equal(at->u.comm.group_size, 4);
	assert_int_equal(at->u.comm.root, 1);
	at = first(&file, TAUTI_LOG_GRADIENT);
	assert_int_equal(at->u.gradient.exchange, 2);
	assert_int_equal(at->u.gradient.task, 7);
	assert_int_equal(at->u.gradient.elements, 1000);
	assert_string_equal(text_of(&file, at->u.gradient.dtype), "float16");
	at = first(&file, TAUTI_LOG_SUM_CALL);
	assert_int_equal(at->lane, 77);
	assert_int_equal(at->start_ns, 800);
	assert_int_equal(at->end_ns, 900);
	assert_int_equal(at->u.sum_call.exchange, 2);
	assert_int_equal(at->u.sum_call.task, 7);
	assert_int_equal(at->u.sum_call.waits, 1);
	at = first(&file, TAUTI_LOG_PIECE);
	assert_int_equal(at->start_ns, 850);
	assert_int_equal(at->end_ns, 890);
	assert_int_equal(at->u.piece.exchange, 2);
	assert_int_equal(at->u.piece.task, 7);
	assert_int_equal(at->u.piece.message, 11);
	assert_int_equal(at->u.piece.bytes, 500);
	assert_int_equal(at->u.piece.group_size, 2);
	assert_string_equal(text_of(&file, at->u.piece.group), "taut 1.1");
	assert_string_equal(text_of(&file, at->u.piece.group_ranks), "[0, 2]");
	at = first(&file, TAUTI_LOG_CHUNK);
	assert_int_equal(at->u.chunk.peer, 1);
	assert_int_equal(at->u.chunk.bytes, 4096);
	assert_int_equal(at->u.chunk.network_ns, 70);
	at = first(&file, TAUTI_LOG_LOAD);
	assert_int_equal(at->kind, 14);
	assert_int_equal(at->correlation, 4);
	assert_int_equal(at->u.load.cpu_ns, 60);
	assert_int_equal(at->u.load.queued_ns, -1);
	assert_int_equal(at->u.load.others_ns, 7);
	assert_int_equal(at->u.load.read_bytes, 8192);
	assert_int_equal(at->u.load.storage_bytes, 4096);
	assert_int_equal(at->u.load.samples, 16);
	at = first(&file, TAUTI_LOG_FACT);
	assert_string_equal(text_of(&file, at->name), "world");
	assert_string_equal(text_of(&file, at->u.fact.value), "0,1,2,3");
	at = first(&file, TAUTI_LOG_CLOCK);
	assert_int_equal(at->start_ns, 700);
	assert_int_equal(at->u.clock.offset_ns, -30);
	assert_int_equal(at->u.clock.half_width_ns, 8);
	assert_int_equal(file.n, file.header.reserved); /* cut to what is used */
	free(file.records);
}

static void test_texts(void **state)
{
	(void)state;
	static char longest[TAUTI_LOG_TEXT_BYTES + 100];
	struct taut_log *log = open_log(2048);
	uint32_t a = taut_log_text(log, "a"), b = taut_log_text(log, "b");

	assert_true(a && b && a != b);
	assert_int_equal(taut_log_text(log, "a"), a);
	assert_int_equal(taut_log_text(log, ""), 0);
	assert_int_equal(taut_log_text(log, NULL), 0);
	memset(longest, 'x', sizeof longest - 1);
	uint32_t all = taut_log_text(log, longest);

	longest[300] = 'y';
	uint32_t other = taut_log_text(log, longest);

	assert_true(all && other && all != other);
	taut_log_close(log);
	struct file file = read_file();

	assert_string_equal(text_of(&file, b), "b");
	assert_int_equal(strlen(text_of(&file, all)), TAUTI_LOG_TEXT_BYTES);
	assert_int_equal(text_of(&file, other)[300], 'y');
	assert_int_equal(count(&file, TAUTI_LOG_TEXT), 4);
	free(file.records);
}

static void test_texts_beyond_the_table(void **state)
{
	(void)state;
	struct taut_log *log = open_log(2 * TAUTI_LOG_MOST_TEXTS + 10);
	char text[16];

	for (uint32_t i = 0; i < TAUTI_LOG_MOST_TEXTS; i++) {
		snprintf(text, sizeof text, "%u", i);
		assert_int_equal(taut_log_text(log, text), i + 1);
	}
	assert_int_equal(taut_log_text(log, "one more"), 0);
	assert_int_equal(taut_log_text(log, "4711"), 4712);
	taut_log_close(log);
	struct file file = read_file();

	assert_string_equal(text_of(&file, 4712), "4711");
	free(file.records);
}

static void test_what_has_no_room_is_counted(void **state)
{
	(void)state;
	struct taut_log *log = open_log(4);

	for (int i = 0; i < 3; i++)
		taut_log_span(log, 0, 1, 2, i, i + 1, 0);
	assert_int_equal(taut_log_text(log, "needs two slots"), 0);
	taut_log_span(log, 0, 1, 2, 3, 4, 0);
	taut_log_close(log);
	struct file file = read_file();

	assert_int_equal(count(&file, TAUTI_LOG_SPAN), 3);
	assert_int_equal(file.header.reserved, 6);
	assert_int_equal(file.n, 4);
	free(file.records);
}

enum { N_WRITERS = 4, N_EACH = 5000 };

static void *write_many(void *context)
{
	struct taut_log *log = context;
	char text[16];

	for (int i = 0; i < N_EACH; i++) {
		snprintf(text, sizeof text, "text %d", i % 100);
		uint32_t name = taut_log_text(log, text);

		taut_log_span(log, name, 1, i % 100, i, 2 * i, (uint32_t)i);
		if (i % 1000 == 0)
			taut_log_state(log, text);
	}
	return NULL;
}

/* No record is torn and every text is there once. */
static void test_threads(void **state)
{
	(void)state;
	struct taut_log *log = open_log(N_WRITERS * N_EACH + 200);
	pthread_t threads[N_WRITERS];

	for (int i = 0; i < N_WRITERS; i++)
		assert_int_equal(pthread_create(
			&threads[i], NULL, write_many, log), 0);
	for (int i = 0; i < N_WRITERS; i++)
		pthread_join(threads[i], NULL);
	taut_log_close(log);
	struct file file = read_file();

	assert_int_equal(count(&file, TAUTI_LOG_SPAN), N_WRITERS * N_EACH);
	assert_int_equal(count(&file, TAUTI_LOG_TEXT), 100);
	for (uint64_t i = 0; i < file.n; i++) {
		const struct tauti_log_record *at = &file.records[i];

		if (at->type != TAUTI_LOG_SPAN)
			continue;
		assert_int_equal(at->end_ns, 2 * at->start_ns);
		assert_int_equal(at->correlation, at->start_ns);
		assert_int_equal(at->lane, at->start_ns % 100);
	}
	free(file.records);
}

/* In a child, nothing that is done to the parent's log reaches the file. */
static void test_a_child_does_not_write(void **state)
{
	(void)state;
	struct taut_log *log = open_log(64);
	int status;

	taut_log_span(log, 0, 1, 2, 3, 4, 0);
	pid_t child = fork();

	if (!child) {
		taut_log_ranks(log, 9, 9, 9);
		taut_log_state(log, "child");
		write_one_of_each(log);
		taut_log_close(log);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	taut_log_span(log, 0, 1, 2, 5, 6, 0);
	taut_log_close(log);
	struct file file = read_file();

	assert_int_equal(file.header.rank, -1);
	assert_string_equal(file.header.state, "");
	assert_int_equal(file.header.reserved, 2);
	assert_int_equal(count(&file, TAUTI_LOG_SPAN), 2);
	free(file.records);
}

/* All is in the file, which is not closed and no longer locked. */
static void test_a_killed_process(void **state)
{
	(void)state;
	unlink(path);
	pid_t child = fork();
	int status;

	if (!child) {
		struct taut_log *log = open_log(64);

		write_one_of_each(log);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	struct file file = read_file();

	assert_int_equal(file.header.closed_ns, 0);
	assert_int_equal(file.n, 64);
	assert_int_equal(count(&file, TAUTI_LOG_SPAN), 1);
	assert_int_equal(count(&file, TAUTI_LOG_CLOCK), 1);
	int fd = open(path, O_RDONLY);

	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	close(fd);
	free(file.records);
}

static void test_locked_while_open(void **state)
{
	(void)state;
	struct taut_log *log = open_log(4);
	int fd = open(path, O_RDONLY);

	assert_int_not_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	taut_log_close(log);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	close(fd);
}

static void expect_refused(const char *where, uint32_t capacity,
	taut_status expected, const char *says)
{
	struct taut_log_options options = { .source = "x",
		.capacity = capacity };
	struct taut_error err = { .message = "" };
	struct taut_log *log = NULL;

	assert_int_equal(taut_log_open(where, &options, &log, &err), expected);
	assert_null(log);
	if (!strstr(err.message, says))
		fail_msg("'%s' has no '%s'", err.message, says);
}

static void test_refusals(void **state)
{
	(void)state;
	struct rlimit before, limit;

	taut_log_close(NULL);
	taut_log_close(open_log(4));
	expect_refused(path, 4, TAUT_EIO, "File exists");
	unlink(path);
	expect_refused("/proc/none/x", 4, TAUT_EIO, "cannot be created");
	expect_refused(path, UINT32_MAX, TAUT_EINVAL, "at most 134217728");
	getrlimit(RLIMIT_FSIZE, &before);
	limit = before;
	limit.rlim_cur = 8192;
	setrlimit(RLIMIT_FSIZE, &limit);
	expect_refused(path, 64, TAUT_EIO, "cannot reserve 12288 bytes");
	setrlimit(RLIMIT_FSIZE, &before);
	assert_int_not_equal(access(path, F_OK), 0); /* nothing stays */
}

static void test_no_memory(void **state)
{
	(void)state;
	struct taut_log_options options = { .source = "x", .capacity = 4 };
	struct taut_log *log = NULL;
	struct taut_error err;
	taut_status status = TAUT_ENOMEM;

	unlink(path);
	for (long n = 0; status; n++) {
		alloc_fail_after(n);
		status = taut_log_open(path, &options, &log, &err);
		alloc_fail_never();
		if (status) {
			assert_int_equal(status, TAUT_ENOMEM);
			assert_int_not_equal(access(path, F_OK), 0);
		}
	}
	taut_log_close(log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_header),
		cmocka_unit_test(test_each_record),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_texts_beyond_the_table),
		cmocka_unit_test(test_what_has_no_room_is_counted),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_a_child_does_not_write),
		cmocka_unit_test(test_a_killed_process),
		cmocka_unit_test(test_locked_while_open),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_no_memory),
	};

	if (!mkdtemp(folder))
		return 1;
	snprintf(path, sizeof path, "%s/log", folder);
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	unlink(path);
	rmdir(folder);
	return failed;
}
