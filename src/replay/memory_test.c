/* Blocks of memory: paired, laid on operations, moved by a replay. */
#include "tests/support/unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <taut/memory.h>

#include "tests/support/alloc_fail.h"
#include "tests/support/write_trace.h"

struct job {
	struct wt w;
	struct taut_run *run;
	struct taut_graph *graph;
	struct taut_memory *memory;
	int64_t *end_ns;
};

/* [memory] as PyTorch writes it. address 0: as in 2021, without totals. */
static void memory_event(struct wt *w, double at_us, int bytes, int total,
	int address, int device)
{
	/* never the first: the operators come before */
	fprintf(w->out, ",\n{\"ph\": \"i\", \"cat\": \"cpu_instant_event\", "
		"\"s\": \"t\", \"name\": \"[memory]\", \"pid\": 1, "
		"\"tid\": 10, \"ts\": %.3f, \"args\": {", at_us);
	if (address)
		fprintf(w->out, "\"Total Allocated\": %d, \"Addr\": %d, ",
			total, address);
	fprintf(w->out, "\"Bytes\": %d, \"Device Id\": %d, "
		"\"Device Type\": %d}}", bytes, device, device >= 0);
}

/* a 0..100, b 100..300, c 300..400 us. */
static struct job begin(void)
{
	struct job job = { .w = wt_begin() };

	wt_rank(&job.w, 0);
	wt_event(&job.w, "cpu_op", "a", 1, 10, 0, 100, "");
	wt_event(&job.w, "cpu_op", "b", 1, 10, 100, 200, "");
	wt_event(&job.w, "cpu_op", "c", 1, 10, 300, 100, "");
	return job;
}

static void open_job(struct job *job)
{
	struct taut_error err;

	job->run = wt_open(&job->w);
	assert_int_equal(taut_graph_build(job->run, NULL, &job->graph, &err), 0);
	assert_int_equal(taut_memory_create(job->graph, &job->memory, &err), 0);
	job->end_ns = calloc(job->graph->n_ops + 1, sizeof *job->end_ns);
	for (uint32_t i = 0; i < job->graph->n_ops; i++)
		job->end_ns[i] = job->graph->start_ns[i] + job->graph->dur_ns[i];
}

static void end(struct job *job)
{
	free(job->end_ns);
	taut_memory_destroy(job->memory);
	taut_graph_destroy(job->graph);
	taut_run_close(job->run);
	wt_end(&job->w);
}

static struct taut_memory_peak peak(
	const struct job *job, const int64_t *start_ns, const double *scale)
{
	struct taut_memory_peak peak;
	struct taut_error err;

	assert_int_equal(taut_memory_peaks(job->memory, start_ns, job->end_ns,
		scale, &peak, &err), 0);
	return peak;
}

static const char *op_name(const struct job *job, uint32_t op)
{
	return op == TAUT_NONE ? "" : taut_names_text(
		job->graph->names, job->graph->name[op]);
}

/* 100 lives a..c, 40 lives in b alone, 30 from c on; of 1000 there before. */
static void blocks_are_paired(void **state)
{
	struct job job = begin();

	(void)state;
	memory_event(&job.w, 50, 100, 1100, 7, 0);
	memory_event(&job.w, 150, 40, 1140, 8, 0);
	memory_event(&job.w, 250, -40, 1100, 8, 0);
	memory_event(&job.w, 310, -100, 1000, 7, 0);
	memory_event(&job.w, 350, 30, 1030, 8, 0);
	open_job(&job);
	const struct taut_memory_rank *rank = &job.memory->ranks[0];
	const struct taut_block *b = job.memory->blocks;

	assert_int_equal(job.memory->n_blocks, 3);
	assert_int_equal(rank->device, 0);
	assert_int_equal(rank->base_bytes, 1000);
	assert_int_equal(rank->peak_bytes, 1140);
	assert_int_equal(rank->n_unasked, 0);
	assert_string_equal(op_name(&job, b[0].from_op), "a");
	assert_string_equal(op_name(&job, b[0].to_op), "c");
	assert_true(b[0].from_at == 0.5 && b[0].to_at == 0.1);
	assert_int_equal(b[2].to_op, TAUT_NONE);
	struct taut_memory_peak top = peak(&job, job.graph->start_ns, NULL);
	assert_int_equal(top.bytes, 1140);
	assert_string_equal(op_name(&job, top.op), "b");
	double scale[] = { 0.5, 0, 1 };
	assert_int_equal(peak(&job, job.graph->start_ns, scale).bytes, 1050);
	end(&job);
}

/* Another order of operations is another peak: with b behind c, 100 is gone
 * when 40 is asked for. */
static void a_peak_follows_the_times(void **state)
{
	struct job job = begin();
	int64_t start_ns[16];

	(void)state;
	memory_event(&job.w, 50, 100, 100, 7, -1);
	memory_event(&job.w, 150, 40, 140, 8, -1);
	memory_event(&job.w, 250, -40, 100, 8, -1);
	memory_event(&job.w, 350, -100, 0, 7, -1);
	open_job(&job);
	assert_true(job.graph->n_ops <= 16);
	assert_int_equal(peak(&job, job.graph->start_ns, NULL).bytes, 140);
	for (uint32_t i = 0; i < job.graph->n_ops; i++) {
		bool is_b = !strcmp(op_name(&job, i), "b");

		start_ns[i] = job.graph->start_ns[i] + (is_b ? 1000000 : 0);
		job.end_ns[i] += is_b ? 1000000 : 0;
	}
	assert_int_equal(peak(&job, start_ns, NULL).bytes, 100);
	end(&job);
}

/* What came before the recording and goes in it was there: without a total,
 * the base is at least that. */
static void what_was_there_before(void **state)
{
	struct job job = begin();

	(void)state;
	memory_event(&job.w, 10, 8, 0, 0, 0);
	memory_event(&job.w, 20, 16, 0, 0, 0);
	memory_event(&job.w, 30, -16, 0, 0, 0);
	memory_event(&job.w, 120, -500, 0, 0, 0);
	open_job(&job);
	const struct taut_memory_rank *rank = &job.memory->ranks[0];

	assert_int_equal(rank->n_unasked, 1);
	assert_int_equal(rank->peak_bytes, 524);
	assert_int_equal(rank->base_bytes, 0);
	assert_int_equal(peak(&job, job.graph->start_ns, NULL).bytes, 524);
	end(&job);
}

/* Of the host's memory that is not known: its total may hold what is long gone,
 * and what is seen to go is by chance. */
static void what_the_host_had_before(void **state)
{
	struct job job = begin();

	(void)state;
	memory_event(&job.w, 10, 8, 5008, 7, -1);
	memory_event(&job.w, 20, -300, 4708, 9, -1);
	memory_event(&job.w, 30, 16, 4724, 8, -1);
	memory_event(&job.w, 120, -16, 4708, 8, -1);
	open_job(&job);
	const struct taut_memory_rank *rank = &job.memory->ranks[0];

	assert_int_equal(job.memory->n_blocks, 2);
	assert_int_equal(rank->n_unasked, 1);
	assert_int_equal(rank->peak_bytes, 24);
	assert_int_equal(rank->base_bytes, 0);
	assert_int_equal(peak(&job, job.graph->start_ns, NULL).bytes, 24);
	end(&job);
}

/* A device's memory is the job's; what the host asks for beside it is not. */
static void the_device_is_chosen(void **state)
{
	struct job job = begin();

	(void)state;
	memory_event(&job.w, 10, 4096, 4096, 3, -1);
	memory_event(&job.w, 12, 4096, 8192, 4, -1);
	memory_event(&job.w, 20, 64, 64, 5, 1);
	open_job(&job);
	assert_int_equal(job.memory->ranks[0].device, 1);
	assert_int_equal(job.memory->ranks[0].peak_bytes, 64);
	end(&job);
}

/* One process with several devices: each event is looked at once, however many
 * there are. */
static void a_device_of_many_is_chosen_at_once(void **state)
{
	enum { EVENTS = 120000 };
	struct job job = begin();
	struct taut_memory *again;
	struct taut_error err;
	clock_t from, took;

	(void)state;
	for (int i = 0; i < EVENTS; i++)
		memory_event(&job.w, 50 + i * 1e-3, i % 6 < 3 ? 64 : -64, 64,
			1 + i % 3, i % 3);
	memory_event(&job.w, 300, 64, 64, 9, 2);
	open_job(&job);
	assert_int_equal(job.memory->ranks[0].device, 2);
	assert_int_equal(job.memory->ranks[0].n_events, EVENTS / 3 + 1);
	from = clock();
	assert_int_equal(taut_memory_create(job.graph, &again, &err), 0);
	took = clock() - from;
	taut_memory_destroy(again);
	assert_true(took < CLOCKS_PER_SEC);
	end(&job);
}

static void nothing_recorded(void **state)
{
	struct job job = begin();

	(void)state;
	open_job(&job);
	assert_int_equal(job.memory->n_blocks, 0);
	assert_int_equal(job.memory->ranks[0].peak_bytes, -1);
	assert_int_equal(peak(&job, job.graph->start_ns, NULL).bytes, -1);
	end(&job);
}

/* What a asked for the second time is gone when the second b is over. */
static void sums_are_carried(const struct job *job,
	const struct taut_graph *twice, const uint32_t *like)
{
	const uint32_t rank_like[] = { 0 };
	uint32_t n = job->graph->n_ops, sum[] = { 0, TAUT_NONE };
	struct taut_memory *carried;
	struct taut_error err;

	while (strcmp(op_name(job, sum[0]), "b"))
		sum[0]++;
	assert_int_equal(taut_memory_carry(job->memory, twice, like, rank_like,
		NULL, sum, &carried, &err), 0);
	assert_int_equal(carried->n_blocks, 4);
	assert_int_equal(carried->blocks[0].to_op,
		job->memory->blocks[0].to_op);
	assert_int_equal(carried->blocks[1].to_op, sum[0] + n);
	assert_true(carried->blocks[1].to_at == 1);
	taut_memory_destroy(carried);
}

/* a, b and c twice over: each of the two has its own 40 of b, and what a asked
 * for goes with the c of the same turn. Halved, and b's gone. */
static void blocks_are_carried(void **state)
{
	struct job job = begin();
	struct taut_memory *carried;
	struct taut_error err;
	const uint32_t rank_like[] = { 0 };
	const double scale[] = { 0.5, 0 };

	(void)state;
	memory_event(&job.w, 50, 100, 1100, 7, 0);
	memory_event(&job.w, 150, 40, 1140, 8, 0);
	memory_event(&job.w, 250, -40, 1100, 8, 0);
	memory_event(&job.w, 310, -100, 1000, 7, 0);
	open_job(&job);

	uint32_t n = job.graph->n_ops, like[32], lane_begin[] = { 0, 2 * n };
	uint32_t lane[32] = { 0 };
	int64_t start_ns[32], end_ns[32];
	struct taut_graph_lane lanes[] = { job.graph->lanes[0] };
	struct taut_graph twice = *job.graph;
	struct taut_memory_peak top;

	assert_true(2 * n <= 32 && job.graph->n_lanes == 1);
	for (uint32_t i = 0; i < 2 * n; i++) {
		like[i] = i % n;
		start_ns[i] = job.graph->start_ns[i % n] + (i < n ? 0 : 400000);
		end_ns[i] = start_ns[i] + job.graph->dur_ns[i % n];
	}
	twice.n_ops = 2 * n;
	twice.lane = lane;
	twice.lanes = lanes;
	twice.lane_begin = lane_begin;
	assert_int_equal(taut_memory_carry(job.memory, &twice, like, rank_like,
		NULL, NULL, &carried, &err), 0);
	assert_int_equal(carried->n_blocks, 4);
	assert_int_equal(carried->blocks[1].from_op,
		carried->blocks[0].from_op + n);
	assert_int_equal(carried->blocks[1].to_op,
		carried->blocks[0].to_op + n);
	assert_int_equal(taut_memory_peaks(carried, start_ns, end_ns, NULL,
		&top, &err), 0);
	assert_int_equal(top.bytes, 1140);
	taut_memory_destroy(carried);
	assert_int_equal(taut_memory_carry(job.memory, &twice, like, rank_like,
		scale, NULL, &carried, &err), 0);
	assert_int_equal(taut_memory_peaks(carried, start_ns, end_ns, NULL,
		&top, &err), 0);
	assert_int_equal(top.bytes, 1050);
	taut_memory_destroy(carried);
	sums_are_carried(&job, &twice, like);
	end(&job);
}

static void no_memory_is_said(void **state)
{
	struct job job = begin();
	struct taut_error err;
	struct taut_memory *memory = NULL;
	taut_status status;
	long n = 0;

	(void)state;
	memory_event(&job.w, 50, 100, 1100, 7, 0);
	memory_event(&job.w, 150, 40, 1140, 8, 0);
	open_job(&job);
	do {
		alloc_fail_after(n++);
		status = taut_memory_create(job.graph, &memory, &err);
		alloc_fail_never();
		assert_true(!status || status == TAUT_ENOMEM);
	} while (status);
	assert_true(n > 2);
	taut_memory_destroy(memory);
	end(&job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_are_paired),
		cmocka_unit_test(a_peak_follows_the_times),
		cmocka_unit_test(what_was_there_before),
		cmocka_unit_test(what_the_host_had_before),
		cmocka_unit_test(the_device_is_chosen),
		cmocka_unit_test(a_device_of_many_is_chosen_at_once),
		cmocka_unit_test(nothing_recorded),
		cmocka_unit_test(blocks_are_carried),
		cmocka_unit_test(no_memory_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
