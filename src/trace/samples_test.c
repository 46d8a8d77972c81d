/* Real traces of ten years, where they are at hand: what another program
 * (Python's json and decimal) counted in them. */
#include "trace/test_support.h"

#include <unistd.h>

#define FOLDER "../shared/traces/pytorch/"

static const struct sample {
	const char *path;
	size_t events, kernels; /* complete events (ph X) */
	int64_t dur_ns;		/* of all */
	int64_t first_ns;	/* earliest start */
} samples[] = {
	{ "hta/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz", 113, 14,
		52276266, 1739836029603018756 },
	{ "hta/call_stack/backward_thread.json", 7, 1,
		521799000, 1666149715033200000 },
	{ "hta/cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz", 16, 0,
		3635095146, 1721065959525586016 },
	{ "hta/critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz", 868, 79,
		307784449000, 1695835542481129000 },
	{ "hta/critical_path/cuda_event_sync/event_sync_trace.json.gz", 33, 4,
		11285000, 1707417525509335000 },
	{ "hta/critical_path/cuda_event_sync_multi_stream/event_sync_trace.json.gz", 57, 3,
		65876000, 1712867402305721000 },
	{ "hta/critical_path/end_to_end/simple_add/input/trace.json.gz", 838, 79,
		306668311000, 1694039968933321000 },
	{ "hta/critical_path/end_to_end/simple_add/output/overlaid_critical_path_trace.json.gz", 838, 79,
		306668311000, 1694039968933321000 },
	{ "hta/critical_path/simple_add/benchmark_result_493459_1694039959_trace.json.gz", 838, 79,
		306668311000, 1694039968933321000 },
	{ "hta/cupti_profiler/benchmark_result_924719_1679055439_trace.json.gz", 2324, 0,
		109939346000, 1679055451545746000 },
	{ "hta/execution_trace/benchmark_simple_add_trace.json.gz", 56, 4,
		98922557000, 1689360788459677000 },
	{ "hta/timeline_analysis/sampled_rank-0.json.gz", 4811, 1154,
		7917027000, 1682725897226747000 },
	{ "hta/trace_filter/sampled_rank-0.json.gz", 4811, 1154,
		7917027000, 1682725897226747000 },
	{ "hta/trace_filter/sampled_rank-1.json.gz", 4676, 1104,
		8020966000, 1682725897227300000 },
	{ "hta/triton_example/triton_example.json.gz", 8, 1,
		13693360730, 1730156790742269099 },
	{ "megatron-tp8-a100/rank0.pt.trace.json.gz", 9816, 690,
		2764206000, 1706850122845782000 },
	{ "megatron-tp8-a100/rank1.pt.trace.json.gz", 10422, 690,
		2928586000, 1706850122825552000 },
	{ "megatron-tp8-a100/rank2.pt.trace.json.gz", 10330, 690,
		2783129000, 1706850122830935000 },
	{ "megatron-tp8-a100/rank3.pt.trace.json.gz", 10457, 690,
		3126348000, 1706850122820844000 },
	{ "megatron-tp8-a100/rank4.pt.trace.json.gz", 10487, 690,
		2798800000, 1706850122815539000 },
	{ "megatron-tp8-a100/rank5.pt.trace.json.gz", 10227, 690,
		2900816000, 1706850122815794000 },
	{ "megatron-tp8-a100/rank6.pt.trace.json.gz", 10188, 690,
		2815116000, 1706850122815332000 },
	{ "megatron-tp8-a100/rank7.pt.trace.json.gz", 10499, 690,
		2776124000, 1706850122820994000 },
	{ "param/linear_kineto.json.gz", 61950, 8716,
		7529068000, 1689180447559362000 },
	{ "param/resnet_kineto.json.gz", 75548, 9628,
		50952445000, 1689179597340511000 },
	{ "resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz", 44666, 8772,
		4924245000, 1623142623460016000 },
	{ "resnet50_num_workers_0/worker0.1623143566756.pt.trace.json.gz", 44666, 8772,
		4457144000, 1623143093496439000 },
	{ "tracelens/eager_trace.json.gz", 22355, 768,
		2118013220, 1768554939862757064 },
	{ "tracelens/gaunernst_bert-small-uncased__1016001.json.gz", 2060, 60,
		174107606, 1752830083332500684 },
	{ "tracelens/resnet_act_checkpoint.json.gz", 49208, 2995,
		1650444422, 1770932723222487063 },
	{ "tracelens/trace.json.gz", 115, 12,
		52480481, 1778681579046038437 },
};

#define N_SAMPLES (sizeof samples / sizeof *samples)

static struct taut_run *open_path(const char *path)
{
	struct taut_run *run = NULL;
	struct taut_error err = { 0 };
	if (taut_run_open(&path, 1, NULL, &run, &err) != TAUT_OK)
		fail_msg("%s", err.message);
	return run;
}

static void check_sample(const struct sample *s)
{
	char path[256];
	snprintf(path, sizeof path, FOLDER "%s", s->path);
	struct taut_run *run = open_path(path);
	const struct taut_trace *t = &run->traces[0];
	size_t kernels = 0;
	int64_t dur_ns = 0;
	for (size_t i = 0; i < t->n_events; i++) {
		kernels += t->kind[i] == TAUT_KIND_KERNEL;
		dur_ns += t->dur_ns[i];
	}
	if (t->n_events != s->events || kernels != s->kernels ||
		dur_ns != s->dur_ns || t->base_ns != s->first_ns)
		fail_msg("%s: %zu events, %zu kernels, %lld ns, from %lld",
			path, t->n_events, kernels, (long long)dur_ns,
			(long long)t->base_ns);
	assert_int_equal(t->events_lost, 0);
	assert_false(t->truncated);
	taut_run_close(run);
}

static void test_samples(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_SAMPLES; i++)
		check_sample(&samples[i]);
}

static void test_eight_ranks(void **state)
{
	(void)state;
	struct taut_run *run = open_path(FOLDER "megatron-tp8-a100");
	assert_int_equal(run->n_traces, 8);
	assert_int_equal(run->n_notes, 0);
	for (int32_t i = 0; i < 8; i++) {
		assert_int_equal(run->traces[i].rank, i);
		assert_int_equal(run->traces[i].world_size, 8);
		/* 85 all-reduces: operator, record and annotation. */
		assert_int_equal(run->traces[i].n_comms, 255);
	}
	taut_run_close(run);
}

static void test_execution_traces_are_joined(void **state)
{
	(void)state;
	struct taut_run *run = open_path(FOLDER "hta/execution_trace");
	assert_int_equal(run->n_traces, 1);
	assert_int_equal(run->n_notes, 1);
	assert_non_null(strstr(run->notes[0], "36 of its 36 operators"));
	taut_run_close(run);
}

/* A stream's items are serial: it is what the lanes are for. Two microseconds
 * are what writers round away. */
static void test_streams_are_serial(void **state)
{
	(void)state;
	struct taut_run *run = open_path(FOLDER "megatron-tp8-a100");
	for (uint32_t r = 0; r < run->n_traces; r++) {
		const struct taut_trace *t = &run->traces[r];
		for (size_t i = 1; i < t->n_events; i++) {
			uint32_t lane = t->lane[i];
			if (t->lanes[lane].kind != TAUT_LANE_STREAM ||
				t->lane[i - 1] != lane)
				continue;
			assert_true(t->start_ns[i] + 2000 >=
				t->start_ns[i - 1] + t->dur_ns[i - 1]);
		}
	}
	taut_run_close(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_samples),
		cmocka_unit_test(test_eight_ranks),
		cmocka_unit_test(test_execution_traces_are_joined),
		cmocka_unit_test(test_streams_are_serial),
	};
	if (access(FOLDER, R_OK) != 0)
		return UNIT_SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
