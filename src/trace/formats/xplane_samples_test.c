/* Real profiles, where they are at hand: what TensorFlow's own protobuf
 * classes count in them, in Python. */
#include "trace/test_support.h"

#include <unistd.h>

#define SHARED "../shared/traces/tensorflow/34.83.195.179_6003.xplane.pb"
#define OWN "examples/tensorflow/mirrored"

static struct taut_run *open_path(const char *path)
{
	struct taut_run *run = NULL;
	struct taut_error err = { 0 };
	if (taut_run_open(&path, 1, NULL, &run, &err) != TAUT_OK)
		fail_msg("%s", err.message);
	return run;
}

static int64_t stream_ns(const struct taut_trace *t, int64_t device,
	int64_t stream)
{
	int64_t sum = 0;
	for (size_t i = 0; i < t->n_events; i++) {
		const struct taut_lane *lane = &t->lanes[t->lane[i]];
		if (lane->kind == TAUT_LANE_STREAM && lane->pid == device &&
			lane->tid == stream)
			sum += t->dur_ns[i];
	}
	return sum;
}

static size_t count(const struct taut_trace *t, enum taut_kind kind)
{
	size_t n = 0;
	for (size_t i = 0; i < t->n_events; i++)
		n += t->kind[i] == kind;
	return n;
}

/* 2020, two of eight GPUs at work. Its events and one step, which the rows of
 * the devices tell and no thread has. */
static void test_two_gpus(void **state)
{
	(void)state;
	if (access(SHARED, R_OK) != 0)
		skip();
	struct taut_run *run = open_path(SHARED);
	const struct taut_trace *t = &run->traces[0];
	assert_int_equal(t->n_events, 20635 + 1);
	assert_int_equal(t->base_ns, 1821805006);
	assert_int_equal(count(t, TAUT_KIND_KERNEL), 1330);
	assert_int_equal(count(t, TAUT_KIND_STEP), 1);
	assert_int_equal(t->n_copies, 226);
	assert_int_equal(stream_ns(t, 4, 134), 14825385);
	assert_int_equal(stream_ns(t, 4, 135), 153853);
	assert_int_equal(stream_ns(t, 4, 136), 39456);
	assert_int_equal(stream_ns(t, 6, 142), 14865363);
	assert_int_equal(stream_ns(t, 6, 143), 197536);
	assert_string_equal(t->host, "34.83.195.179");
	taut_run_close(run);
}

static void test_own_recording(void **state)
{
	(void)state;
	static const struct {
		size_t events;
		int64_t dur_ns, first_ns;
	} told[] = {
		{ 2103, 6553488926, 1795277386482485876 },
		{ 2097, 6287164276, 1795277386502390932 },
	};
	struct taut_run *run = open_path(OWN);
	assert_int_equal(run->n_traces, 2);
	for (int r = 0; r < 2; r++) {
		const struct taut_trace *t = &run->traces[r];
		int64_t dur_ns = 0;
		for (size_t i = 0; i < t->n_events; i++)
			dur_ns += t->dur_ns[i];
		assert_int_equal(t->rank, r);
		assert_int_equal(t->n_events, told[r].events);
		assert_int_equal(dur_ns, told[r].dur_ns);
		assert_int_equal(t->base_ns, told[r].first_ns);
		assert_int_equal(count(t, TAUT_KIND_STEP), 4);
		assert_int_equal(count(t, TAUT_KIND_COMM), 16);
		assert_int_equal(t->events_lost, 0);
	}
	taut_run_close(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_gpus),
		cmocka_unit_test(test_own_recording),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
