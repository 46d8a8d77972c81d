/* sample_report.h - a report made by hand, for tests of what prints one: four
 * ranks on two hosts, two steps each, rank 2 late, one C++ kernel, names with
 * everything that JSON must escape. Numbers are round, so that expected ones
 * can be worked out in one's head.
 * Owner: all of it is constant or static; nothing is to be freed. */
#ifndef TAUT_TESTS_SAMPLE_REPORT_H
#define TAUT_TESTS_SAMPLE_REPORT_H

#include <taut/report.h>

#define SAMPLE_MS(ms) ((int64_t)((ms) * 1000000LL))

#define SAMPLE_STEP(of, number, at, compute, move, wait, host, hidden) \
	{ .rank = (of), .id = (number), .start_ns = SAMPLE_MS(at), \
		.measured_ns = SAMPLE_MS((compute) + (move) + (wait) + (host)), \
		.replayed_ns = SAMPLE_MS((compute) + (move) + (wait) + (host)) + \
			1000, \
		.ns = { SAMPLE_MS(compute), SAMPLE_MS(move), SAMPLE_MS(wait), \
			SAMPLE_MS(host), 0, 0, 0 }, \
		.overlapped_ns = SAMPLE_MS(hidden) }

static const struct taut_report_step sample_steps[] = {
	SAMPLE_STEP(0, 10, 0, 60, 20, 30, 10, 5),
	SAMPLE_STEP(0, 11, 120, 60, 10, 20, 10, 5),
	SAMPLE_STEP(1, 10, 0, 60, 20, 30, 10, 5),
	SAMPLE_STEP(1, 11, 120, 60, 10, 20, 10, 5),
	SAMPLE_STEP(2, 10, 0, 60, 20, 0, 40, 5),
	SAMPLE_STEP(2, 11, 120, 60, 10, 0, 30, 5),
	SAMPLE_STEP(3, 10, 0, 60, 20, 30, 10, 5),
	SAMPLE_STEP(3, 11, 120, 60, 10, 20, 10, 5),
};

static const struct taut_report_span sample_spans[] = {
	{ 0, SAMPLE_MS(210), SAMPLE_MS(120), SAMPLE_MS(80), SAMPLE_MS(10),
		12.5 },
	{ 1, SAMPLE_MS(210), SAMPLE_MS(120), SAMPLE_MS(80), SAMPLE_MS(10),
		12.5 },
	{ 2, SAMPLE_MS(210), SAMPLE_MS(120), SAMPLE_MS(30), SAMPLE_MS(60),
		25 },
	{ 3, SAMPLE_MS(210), SAMPLE_MS(120), SAMPLE_MS(80), SAMPLE_MS(10),
		12.5 },
};

static const struct taut_report_coll sample_colls[] = {
	{ "all-reduce", "tp \"0\"", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL("
		"ncclDevComm*, unsigned long, ncclWork*)", 4, 6,
		6 * 25000000, SAMPLE_MS(30), SAMPLE_MS(144), 62.5, 24 },
	{ "send/recv", "", "ncclKernel_SendRecv", -1, 2, -1, SAMPLE_MS(2),
		SAMPLE_MS(6), 0, 8 },
};

static const struct taut_report_link sample_links[] = {
	{ 1, 2, 1, 40, 40 * 524288, SAMPLE_MS(2), SAMPLE_MS(12), SAMPLE_MS(4) },
	{ 2, -1, 0, 40, 40 * 524288, 0, SAMPLE_MS(1), SAMPLE_MS(4) },
};

static const struct taut_report_late sample_late[] = {
	{ .rank = 2, .last_arrivals = 6, .wait_ns = 0,
		.caused_ns = SAMPLE_MS(50),
		.excess_ns = { 0, 0, 0, SAMPLE_MS(44), SAMPLE_MS(2), 0, 0 },
		.cause = TAUT_CAT_HOST_BOUND, .cause_op = "aten::copy_",
		.cause_op_ns = SAMPLE_MS(31), .stall_ns = SAMPLE_MS(28),
		.cause_module = "Block_2" },
	{ .rank = 0, .last_arrivals = 1, .wait_ns = SAMPLE_MS(50),
		.caused_ns = 1000, .excess_ns = { 0 },
		.cause = TAUT_CAT_COMPUTE, .cause_op = "", .cause_module = "" },
};

#define SAMPLE_KERNEL \
	"void at::native::vectorized_elementwise_kernel<4, at::native::" \
	"CUDAFunctor_add<float>, at::detail::Array<char*, 3> >(int)"

static const struct taut_report_segment sample_path[] = {
	{ .rank = 2, .op = 0, .n_ops = 4, .lane = "thread 7 (python)",
		.name = "aten::copy_", .module = "Block_2",
		.category = TAUT_CAT_HOST_BOUND, .dur_ns = SAMPLE_MS(80) },
	{ .rank = 2, .op = 9, .n_ops = 1, .lane = "stream 7",
		.name = SAMPLE_KERNEL, .module = "",
		.category = TAUT_CAT_COMPUTE, .start_ns = SAMPLE_MS(80),
		.dur_ns = SAMPLE_MS(120) },
	{ .rank = 0, .op = 12, .n_ops = 1, .lane = "stream 9",
		.name = "tab\there \"quoted\" back\\slash \xff\xc3\xa9",
		.module = "", .category = TAUT_CAT_COMM_EXPOSED,
		.start_ns = SAMPLE_MS(200), .dur_ns = SAMPLE_MS(20) + 1 },
};

static const struct taut_report_share sample_ops[] = {
	{ SAMPLE_KERNEL, TAUT_CAT_COMPUTE, 12345, SAMPLE_MS(120) },
	{ "aten::copy_", TAUT_CAT_HOST_BOUND, 8, SAMPLE_MS(80) },
	{ "ncclKernel_SendRecv", TAUT_CAT_COMM_EXPOSED, 2, SAMPLE_MS(20) + 1 },
};

static const struct taut_report_share sample_modules[] = {
	{ "Block_2", TAUT_CAT_HOST_BOUND, 8, SAMPLE_MS(80) },
};

static const struct taut_report_removal sample_removals[] = {
	{ "late-ranks", "late ranks as fast as the others", SAMPLE_MS(75),
		SAMPLE_MS(25) },
	{ "transfer", "communication transfer", SAMPLE_MS(90), SAMPLE_MS(10) },
	{ "copy", "copies and fills", SAMPLE_MS(100), 0 },
};

static const int32_t sample_late_ranks[] = { 2 };
static const struct taut_report_finding sample_findings[] = {
	{ "late-ranks", "Rank 2 holds the others back: last at 6 of 8 "
		"collectives, for which the others waited 25.0 ms a step; the "
		"cause is on its host.", "rank 2: aten::copy_ took 31.0 ms "
		"longer than elsewhere", SAMPLE_MS(25), 1, sample_late_ranks,
		2, SAMPLE_MS(10), SAMPLE_MS(40) },
	{ "transfer", "Transfers that no computation hides take 15.0 ms of a "
		"step.", "", SAMPLE_MS(10), 0, NULL, -1, 0, 0 },
};

static const struct taut_report_clock sample_clocks[] = {
	{ "alpha", 0, 0, 2.5, 8 },
	{ "beta", -40.25, 1.5, 3.125, 8 },
};

static const int32_t sample_ranks[] = { 0, 1, 2, 3 };
static const char *const sample_hosts[] = { "alpha", "alpha", "beta", "beta" };
static const int64_t sample_waits[] = { SAMPLE_MS(50), SAMPLE_MS(50), 0,
	SAMPLE_MS(50) };
static const uint32_t sample_lasts[] = { 1, 0, 6, 1 };
static const char *const sample_notes[] = {
	"rank3.json: ends before it is whole; 1 event lost",
};

static const struct taut_run sample_run = { .path = "runs/sample" };
static const struct taut_graph sample_graph = {
	.n_ops = 4321, .n_edges = 1200, .n_lanes = 9,
	.edges_of = { 500, 100, 100, 50, 400, 50 },
	.n_backward = 3, .worst_backward_ns = 250000, .n_unmatched = 1,
	.unmatched = "rank 1 has 7 all-reduces, rank 0 has 8",
	.n_launches_cut = 2,
};

static const struct taut_report sample_report = {
	.run = &sample_run, .graph = &sample_graph,
	.n_ranks = 4, .ranks = sample_ranks, .hosts = sample_hosts,
	.n_steps = 8, .steps = sample_steps, .steady_ns = SAMPLE_MS(100),
	.n_spans = 4, .spans = sample_spans,
	.replay_error_pct_max = 0.001, .replay_error_pct_mean = 0.0009,
	.replay_steady_ns = SAMPLE_MS(100) + 1000, .unexplained_pct = 1.25,
	.n_clocks = 2, .clocks = sample_clocks,
	.coll_count = 8, .coll_complete = 7,
	.coll_transfer_ns = SAMPLE_MS(32), .coll_wait_ns = sample_waits,
	.coll_last_arrivals = sample_lasts,
	.n_colls = 2, .colls = sample_colls,
	.n_links = 2, .links = sample_links,
	.n_late = 2, .late = sample_late,
	.stall_count = 14, .stall_ns = SAMPLE_MS(28),
	.n_path = 3, .path = sample_path,
	.n_path_ops = 3, .n_path_modules = 1,
	.path_ops = sample_ops, .path_modules = sample_modules,
	.path_ns = { SAMPLE_MS(120), SAMPLE_MS(20) + 1, 0, SAMPLE_MS(80), 0, 0,
		0 },
	.n_removals = 3, .removals = sample_removals,
	.n_findings = 2, .findings = sample_findings,
	.n_notes = 1, .notes = sample_notes,
};

#endif /* TAUT_TESTS_SAMPLE_REPORT_H */
