/* The log's form, and one whole log that must not change by a byte.
 * TAUT_WRITE_GOLDEN=1 in the environment writes the log anew; read the
 * difference before you keep it. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taut/replay.h>

#include "by_hand.h"

#define GOLDEN "src/replay/golden/three_ranks.log"

enum { RANKS = 3, LAYERS = 4 };

/* A step of data-parallel training on three ranks: a host thread launches
 * forward and backward kernels; each backward kernel hands its gradient to
 * an all-reduce on a stream of its own; an update waits for the last one.
 * Rank 2's host is slow, rank 1's clock starts late. */
static void add_rank(struct by_hand *hand, int rank, uint32_t *ret_arrive)
{
	uint32_t host[2 * LAYERS + 1], kernel[2 * LAYERS + 1];
	int64_t host_ns = rank == 2 ? 40 : 10 + rank;

	by_hand_lane(hand, rank);
	for (int i = 0; i <= 2 * LAYERS; i++)
		host[i] = by_hand_op(hand, TAUT_OP_LAUNCH, "launch",
			host_ns, i == LAYERS ? 5 : 0);
	uint32_t back = by_hand_op(hand, TAUT_OP_RETURN, "synchronize", 3, 0);
	by_hand_lane(hand, rank);
	for (int i = 0; i <= 2 * LAYERS; i++) {
		const char *name = i < LAYERS ? "forward"
			: i < 2 * LAYERS ? "backward" : "update";
		kernel[i] = by_hand_op(hand, TAUT_OP_KERNEL, name,
			25 + 3 * i, i % 3 - 1);
		by_hand_edge(hand, host[i], kernel[i],
			TAUT_EDGE_LAUNCH | TAUT_EDGE_FROM_START, 6);
	}
	by_hand_lane(hand, rank);
	for (int i = 0; i < LAYERS; i++) {
		ret_arrive[i] = by_hand_op(
			hand, TAUT_OP_ARRIVE, "all-reduce", 0, 0);
		uint32_t transfer = by_hand_op(
			hand, TAUT_OP_TRANSFER, "all-reduce", 50, 0);
		by_hand_edge(hand, kernel[LAYERS + i], ret_arrive[i],
			TAUT_EDGE_STREAM, 2);
		if (i == LAYERS - 1)
			by_hand_edge(hand, transfer, kernel[2 * LAYERS],
				TAUT_EDGE_STREAM, 0);
	}
	by_hand_edge(hand, kernel[2 * LAYERS], back, TAUT_EDGE_SYNC, 1);
}

static struct by_hand *make_three_ranks(void)
{
	struct by_hand *hand = by_hand_create();
	uint32_t arrive[RANKS][LAYERS];
	for (int rank = 0; rank < RANKS; rank++) {
		uint32_t first = (uint32_t)hand->dur_ns.count;
		add_rank(hand, rank, arrive[rank]);
		if (rank)
			by_hand_edge(hand, 0, first,
				TAUT_EDGE_START | TAUT_EDGE_FROM_START,
				rank == 1 ? 17 : -4);
	}
	by_hand_lane(hand, -1);
	for (int i = 0; i < LAYERS; i++) {
		uint32_t join = by_hand_op(
			hand, TAUT_OP_JOIN, "all-reduce", 0, 0);
		for (int rank = 0; rank < RANKS; rank++) {
			by_hand_edge(hand, arrive[rank][i], join,
				TAUT_EDGE_COMM, 0);
			by_hand_edge(hand, join, arrive[rank][i] + 1,
				TAUT_EDGE_COMM, 0);
		}
	}
	return hand;
}

static char *replay_to_text(const struct taut_graph *graph)
{
	struct taut_timeline timeline;
	struct taut_error err;
	char *text;
	size_t len;
	assert_int_equal(taut_timeline_init(&timeline, graph, &err), TAUT_OK);
	assert_int_equal(taut_replay(graph, NULL, &timeline, &err), TAUT_OK);
	FILE *out = open_memstream(&text, &len);
	assert_non_null(out);
	assert_int_equal(taut_replay_log(graph, &timeline, out, &err), TAUT_OK);
	fclose(out);
	taut_timeline_fini(&timeline);
	return text;
}

static char *read_golden(void)
{
	char *text = calloc(1, 65536);
	FILE *in = fopen(GOLDEN, "r");
	assert_non_null(text);
	if (!in)
		fail_msg("%s is missing: run in the source's root", GOLDEN);
	size_t n = fread(text, 1, 65535, in);
	assert_true(n > 0);
	fclose(in);
	return text;
}

static void write_golden(const char *text)
{
	FILE *out = fopen(GOLDEN, "w");
	assert_non_null(out);
	assert_true(fputs(text, out) >= 0);
	assert_int_equal(fclose(out), 0);
}

/* Like assert_string_equal(), but shows the first line that differs. */
static void expect_text(const char *got, const char *want)
{
	int line = 1;
	while (*got && *got == *want) {
		line += *got++ == '\n';
		want++;
	}
	if (*got != *want)
		fail_msg("line %d: got \"%.*s\", expected \"%.*s\"", line,
			(int)strcspn(got, "\n"), got,
			(int)strcspn(want, "\n"), want);
}

static void test_golden_three_ranks(void **state)
{
	(void)state;
	struct by_hand *hand = make_three_ranks();
	char *got = replay_to_text(by_hand_graph(hand));
	if (getenv("TAUT_WRITE_GOLDEN"))
		write_golden(got);
	char *want = read_golden();
	expect_text(got, want);
	free(want);
	free(got);
	by_hand_destroy(hand);
}

static void test_lines(void **state)
{
	(void)state;
	struct by_hand *hand = by_hand_create();
	by_hand_lane(hand, 0);
	by_hand_op(hand, TAUT_OP_HOST, "a b\nc\x7f", 4, 2);
	by_hand_op(hand, TAUT_OP_HOST, "", 4, 0);
	by_hand_lane(hand, 0);
	by_hand_op(hand, TAUT_OP_HOST, "\xc3\xa9", 4, 0);
	char *text = replay_to_text(by_hand_graph(hand));
	assert_string_equal(text,
		"0 4 1 2 \xc3\xa9\n"
		"2 6 0 0 a b c \n"
		"6 10 0 1 \n");
	free(text);
	by_hand_destroy(hand);
}

static void test_nothing_to_write(void **state)
{
	(void)state;
	struct by_hand *hand = by_hand_create();
	char *text = replay_to_text(by_hand_graph(hand));
	assert_string_equal(text, "");
	free(text);
	by_hand_destroy(hand);
}

static void test_full_device(void **state)
{
	(void)state;
	struct by_hand *hand = make_three_ranks();
	const struct taut_graph *graph = by_hand_graph(hand);
	struct taut_timeline timeline;
	struct taut_error err;
	FILE *out = fopen("/dev/full", "w");
	if (!out)
		skip();
	assert_int_equal(taut_timeline_init(&timeline, graph, &err), TAUT_OK);
	assert_int_equal(taut_replay(graph, NULL, &timeline, &err), TAUT_OK);
	assert_int_equal(taut_replay_log(graph, &timeline, out, &err),
		TAUT_EIO);
	assert_int_equal(err.code, TAUT_EIO);
	fclose(out);
	taut_timeline_fini(&timeline);
	by_hand_destroy(hand);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden_three_ranks),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_nothing_to_write),
		cmocka_unit_test(test_full_device),
	};
	return cmocka_run_group_tests_name("replay log", tests, NULL, NULL);
}
