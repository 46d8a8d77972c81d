/* csv_test.c - a graph of seven operations, made by hand. */
#include <stdlib.h>
#include <string.h>

#include "report/tables.h"
#include "tests/support/unit.h"

enum { N_OPS = 7 };

struct sample {
	struct taut_names *names;
	struct taut_trace trace;
	struct taut_run run;
	struct taut_graph graph;
	struct taut_report report;
};

static uint32_t add(struct sample *s, const char *name)
{
	return taut_names_add(s->names, name, strlen(name));
}

/* Lane 0: a thread; lane 1: a stream with a copy and a collective; lane 2:
 * joins, which are of no rank. */
static void make(struct sample *s)
{
	static const struct taut_lane lanes[] = {
		{ TAUT_LANE_THREAD, 1, 42, 0 }, { TAUT_LANE_STREAM, 0, 7, 0 } };
	static const struct taut_graph_lane graph_lanes[] = {
		{ .trace = 0, .trace_lane = 0, .kind = TAUT_LANE_THREAD },
		{ .trace = 0, .trace_lane = 1, .kind = TAUT_LANE_STREAM },
		{ .trace = TAUT_NONE } };
	static const uint32_t lane_begin[] = { 0, 3, 6, 7 };
	static const uint32_t lane[] = { 0, 0, 0, 1, 1, 1, 2 };
	static const int64_t start[] = { 0, 1000, 9000500, 2000, 5000, 6000,
		6000 };
	static const int64_t dur[] = { 1000, 500, 1, 3000, 0, 1234567, 0 };
	static const uint8_t kind[] = { TAUT_OP_HOST, TAUT_OP_LAUNCH,
		TAUT_OP_HOST, TAUT_OP_COPY, TAUT_OP_ARRIVE, TAUT_OP_TRANSFER,
		TAUT_OP_JOIN };
	static const uint32_t event[] = { TAUT_NONE, TAUT_NONE, TAUT_NONE, 5,
		TAUT_NONE, TAUT_NONE, TAUT_NONE };
	static const uint32_t coll[] = { TAUT_NONE, TAUT_NONE, TAUT_NONE,
		TAUT_NONE, 0, 0, 0 };
	static const struct taut_copy_args copies[] = { { 5, 4096 } };
	static const uint32_t args[] = { TAUT_NONE, TAUT_NONE, TAUT_NONE,
		TAUT_NONE, TAUT_NONE, 0 };
	static const uint8_t kinds[] = { 0, 0, 0, 0, 0, TAUT_KIND_MEMCPY };
	static const struct taut_step steps[] = {
		{ .trace = 0, .id = 23, .start_ns = 1000, .end_ns = 5500 },
		{ .trace = 0, .id = 24, .start_ns = 5500, .end_ns = 9000000 } };
	static const uint32_t no_edges[N_OPS + 1];
	static struct taut_collective collective;
	static uint32_t name[N_OPS];

	memset(s, 0, sizeof *s);
	s->names = taut_names_create();
	assert_non_null(s->names);
	name[0] = add(s, "aten::add");
	name[1] = add(s, "a, \"quoted\"\nname");
	name[2] = add(s, "tail");
	name[3] = add(s, "Memcpy HtoD");
	name[4] = name[5] = name[6] = add(s, "nccl");
	collective = (struct taut_collective){ .group = add(s, "tp,0"),
		.bytes = 1024 };
	s->trace = (struct taut_trace){ .rank = 3, .n_events = 6, .kind = kinds,
		.args = args, .copies = copies, .n_copies = 1, .n_lanes = 2,
		.lanes = lanes, .names = s->names };
	s->run = (struct taut_run){ .n_traces = 1, .traces = &s->trace };
	s->graph = (struct taut_graph){ .run = &s->run, .names = s->names,
		.n_ops = N_OPS, .n_lanes = 3, .n_steps = 2,
		.n_collectives = 1, .start_ns = start, .dur_ns = dur,
		.lane = lane, .name = name, .event = event, .collective = coll,
		.kind = kind, .lanes = graph_lanes, .lane_begin = lane_begin,
		.edge_begin = no_edges, .steps = steps,
		.collectives = &collective };
	s->report = (struct taut_report){ .run = &s->run, .graph = &s->graph };
}

static void test_table(void **state)
{
	struct sample s;
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	assert_non_null(out);
	make(&s);
	assert_int_equal(tauti_csv_write(&s.report, out, NULL), TAUT_OK);
	fclose(out);
	assert_string_equal(text,
		"rank,step,name,kind,lane,start_us,duration_us,group,bytes,peer\n"
		"3,,aten::add,host,thread 42,0.000,1.000,,,\n"
		"3,23,\"a, \"\"quoted\"\"\nname\",launch,thread 42,1.000,"
		"0.500,,,\n"
		"3,,tail,host,thread 42,9000.500,0.001,,,\n"
		"3,23,Memcpy HtoD,copy,stream 7,2.000,3.000,,4096,\n"
		"3,23,nccl,arrive,stream 7,5.000,0.000,\"tp,0\",1024,\n"
		"3,24,nccl,transfer,stream 7,6.000,1234.567,\"tp,0\",1024,\n");
	free(text);
	taut_names_destroy(s.names);
}

/* Streams of one number are told apart by their device, threads by their
 * process. */
static void test_lanes(void **state)
{
	static const struct taut_lane lanes[] = {
		{ TAUT_LANE_STREAM, 1, 7, 0 }, { TAUT_LANE_STREAM, 0, 7, 0 } };
	static const struct taut_lane threads[] = {
		{ TAUT_LANE_THREAD, 1, 42, 0 }, { TAUT_LANE_THREAD, 5, 42, 0 } };
	struct sample s;
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	assert_non_null(out);
	make(&s);
	s.trace.lanes = lanes;
	assert_int_equal(tauti_csv_write(&s.report, out, NULL), TAUT_OK);
	s.trace.lanes = threads;
	assert_int_equal(tauti_csv_write(&s.report, out, NULL), TAUT_OK);
	fclose(out);
	assert_non_null(strstr(text, ",aten::add,host,device 1 stream 7,"));
	assert_non_null(strstr(text, ",nccl,arrive,device 0 stream 7,"));
	assert_non_null(strstr(text, ",aten::add,host,process 1 thread 42,"));
	assert_non_null(strstr(text, ",nccl,arrive,process 5 thread 42,"));
	free(text);
	taut_names_destroy(s.names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_lanes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
