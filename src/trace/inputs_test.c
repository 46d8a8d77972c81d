#include "tests/support/unit.h"

#include <string.h>

#include "trace/inputs.h"

static void test_ranks(void **state)
{
	(void)state;
	static const struct {
		const char *path;
		int rank;
	} cases[] = {
		{ "rank0.pt.trace.json.gz", 0 },
		{ "run/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz", 34 },
		{ "sampled_rank-1.json", 1 },
		{ "trace_rank_12.json", 12 },
		{ "Rank[3].json", 3 },
		{ "worker0.1623143089861.pt.trace.json.gz", 0 },
		{ "worker_7.json", 7 },
		{ "megatron_kineto_5.json", 5 },
		{ "a/rank2/trace.json", 2 },
		{ "a/worker-4/trace.json.gz", 4 },
		{ "rank9/rank1.json", 1 },
		{ "workload.12.et", 12 },
		{ "chakra.3.et.gz", 3 },
		{ "chakra.4.json", 4 },
		{ "trace.4.json", -1 },
		{ "7.et", -1 },
		{ "trace.json", -1 },
		{ "/", -1 },
		{ "", -1 },
		{ "franks2.json", -1 },
		{ "rank.json", -1 },
		{ "benchmark_result_2869224_1695835535_trace.json.gz", -1 },
		{ "bert-small-uncased__1016001.json.gz", -1 },
		/* <host>_<pid>.<time>: neither the pid nor the host's
		 * number is a rank. */
		{ "node1_12345.1700000000000.pt.trace.json", -1 },
		{ "worker3_123.1700000000000.pt.trace.json.gz", -1 },
		{ "rank3_123.1700000000000.pt.trace.json", 3 },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (tauti_rank_of_path(cases[i].path) != cases[i].rank)
			fail_msg("%s: %d", cases[i].path,
				(int)tauti_rank_of_path(cases[i].path));
}

static void test_ranks_at_the_end(void **state)
{
	(void)state;
	assert_int_equal(tauti_rank_at_end("a/torchcomm_fr_trace_3"), 3);
	assert_int_equal(tauti_rank_at_end("/tmp/dump12"), 12);
	assert_int_equal(tauti_rank_at_end("a9/dump"), -1);
	assert_int_equal(tauti_rank_at_end("trace.3"), -1);
	assert_int_equal(tauti_rank_at_end("dump_1700000000"), -1);
	assert_int_equal(tauti_rank_at_end(""), -1);
}

static void test_hosts(void **state)
{
	(void)state;
	const char *host = NULL;
	const char *path = "runs/gpu_04_2311.1700000000000.pt.trace.json.gz";
	size_t len = tauti_host_of_path(path, &host);
	assert_int_equal(len, 6);
	assert_memory_equal(host, "gpu_04", 6);
	assert_int_equal(
		tauti_host_of_path("worker0.1623143089861.pt.trace.json",
			&host), 0);
	assert_int_equal(tauti_host_of_path(
				 "rank-34.Jul_15_10_52_41.1074.pt.trace.json",
				 &host), 0);
	assert_int_equal(tauti_host_of_path("h_1.1700000000000.json", &host),
		0);
	assert_int_equal(tauti_host_of_path(".pt.trace.json", &host), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_ranks_at_the_end),
		cmocka_unit_test(test_hosts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
