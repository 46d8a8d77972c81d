/* What NCCL's own plugins write: nccl_inspector.c and nccl_profile.c. */
#include "trace/test_support.h"

#include "tests/support/alloc_fail.h"

#define HEADER "\"header\": {\"id\": \"0xe6\", \"rank\": 4, \"n_ranks\": 8}," \
	" \"metadata\": {\"inspector_output_format_version\": \"v4.0\", " \
	"\"dump_timestamp_us\": 1752867229276385, \"hostname\": \"n1\", " \
	"\"pid\": 43}"
#define SMALL "\"header\": {\"id\": \"0xaa\", \"rank\": 1, \"n_ranks\": 2}," \
	" \"metadata\": {\"dump_timestamp_us\": 1752867229276385, " \
	"\"hostname\": \"n1\", \"pid\": 43}"

static const char verbose[] =
	"{" SMALL ", \"coll_perf\": {\"coll\": \"AllReduce\", \"coll_sn\": 3,"
	" \"coll_msg_size_bytes\": 64, \"coll_exec_time_us\": 12.5}}\n"
	"{" HEADER ", \"coll_perf\": {\"coll\": \"ReduceScatter\", "
	"\"coll_sn\": 1231, \"coll_msg_size_bytes\": 2147483648, "
	"\"coll_exec_time_us\": 41057, \"event_trace_ts\": {"
	"\"coll_start_ts\": 1752867229235059, \"kernel_events\": ["
	"{\"channel_id\": 0, \"kernel_start_ts\": 1752867229235181, "
	"\"kernel_stop_ts\": 1752867229275811},"
	"{\"channel_id\": 1, \"kernel_start_ts\": 1752867229235180, "
	"\"kernel_stop_ts\": 1752867229275810}]}}}\n"
	"{" HEADER ", \"p2p_perf\": {\"p2p\": \"Recv\", \"p2p_sn\": 1, "
	"\"p2p_peer\": 10, \"p2p_msg_size_bytes\": 7, "
	"\"p2p_exec_time_us\": 4}}\n"
	"{\"summary\": {\"complete\": true}}\n";

static uint32_t row_of(const struct taut_trace *t, const char *name,
	enum taut_kind kind)
{
	for (uint32_t i = 0; i < t->n_events; i++)
		if (t->kind[i] == kind &&
			strcmp(taut_trace_name(t, i), name) == 0)
			return i;
	fail_msg("no %s", name);
	return TAUT_NONE;
}

static void test_inspector(void **state)
{
	(void)state;
	struct taut_run *run = open_text(verbose);
	const struct taut_trace *t = &run->traces[0];
	assert_string_equal(t->format, "nccl-inspector");
	assert_string_equal(t->host, "n1");
	assert_int_equal(t->rank, 4); /* in the largest communicator */
	assert_int_equal(t->world_size, 8);
	assert_int_equal(t->n_events, 3);
	uint32_t row = row_of(t, "ReduceScatter", TAUT_KIND_COMM);
	const struct taut_comm_args *args = taut_trace_comm(t, row);
	assert_int_equal(t->start_ns[row] + t->base_ns,
		1752867229235180000);
	assert_int_equal(t->dur_ns[row], 40631000);
	assert_int_equal(args->seq, 1231);
	assert_int_equal(args->group_size, 8);
	assert_int_equal(args->in_elements, 2147483648);
	assert_string_equal(taut_names_text(t->names, args->group_name),
		"0xe6/ReduceScatter");
	row = row_of(t, "AllReduce", TAUT_KIND_COMM);
	assert_int_equal(t->start_ns[row] + t->base_ns,
		1752867229276385000 - 12500);
	assert_int_equal(t->dur_ns[row], 12500);
	row = row_of(t, "Recv", TAUT_KIND_COMM);
	assert_int_equal(taut_trace_comm(t, row)->seq, -1);
	assert_int_equal(run->n_notes, 2);
	assert_non_null(strstr(run->notes[1], "2 operations say how long"));
	taut_run_close(run);
}

static void test_inspector_is_cut(void **state)
{
	(void)state;
	char *text = strdup(verbose);
	assert_non_null(text);
	text[strlen(text) - 80] = '\0';
	struct taut_run *run = open_text(text);
	assert_int_equal(run->traces[0].n_events, 2);
	assert_true(run->traces[0].truncated);
	taut_run_close(run);
	text[200] = '\0';
	if (strstr(text, "inspector_output"))
		assert_non_null(strstr(refusal(text), "without an operation"));
	free(text);
}

#define B(cat, name, id, ts, args) "{\"name\": \"" name "\", \"cat\": \"" \
	cat "\", \"ph\": \"b\", \"id\": " #id ", \"pid\": 9, \"tid\": 1, " \
	"\"ts\": " #ts ", \"args\": {" args "}},\n"
#define E(cat, name, id, ts) "{\"name\": \"" name "\", \"cat\": \"" cat \
	"\", \"ph\": \"e\", \"id\": " #id ", \"pid\": 9, \"tid\": 1, " \
	"\"ts\": " #ts "},\n"

static const char profile[] = "[\n"
	B("COLL_API", "AllReduce", 0, 10.5, "\"datatype\": ncclFloat32, "
		"\"Stream\": 0x262ca50")
	B("COLL", "AllReduce", 0, 11.25, "\"SeqNum\": 5, "
		"\"CommHash\": 12715772615376301750, \"Rank\": 2, "
		"\"Count\": 256, \"Datatype\": \"ncclFloat32\"")
	B("PROXY", "ScheduleSend", 0, 12, "\"Channel\": 3, \"Peer\": 1, "
		"\"ChunkSize\": 4096")
	E("PROXY", "ScheduleSend", 0, 13)
	B("PROXY", "ProgressSend", 0, 13, "\"Channel\": 3, \"Peer\": 1, "
		"\"ChunkSize\": 4096")
	B("NET", "SendGpuWait", 0, 14, "\"Step\": 6")
	E("NET", "SendGpuWait", 0, 16)
	B("NET", "SendPeerWait", 0, 16, "\"Step\": 6")
	E("NET", "SendPeerWait", 0, 17)
	B("NET", "SendWait", 0, 17, "\"Step\": 6")
	E("NET", "SendWait", 0, 21)
	E("PROXY", "ProgressSend", 0, 22)
	E("COLL", "AllReduce", 0, 23)
	E("COLL_API", "AllReduce", 0, 24)
	B("KERNEL_LAUNCH", "KernelLaunch", 0, 0.000000, "\"groupId\": 0")
	E("KERNEL_LAUNCH", "KernelLaunch", 0, 25)
	B("COLL", "AllReduce", 1, 26, "\"SeqNum\": 6, \"Rank\": 2")
	E("COLL", "Reduce", 7, 27)
	"{}]\n";

static void test_profile(void **state)
{
	(void)state;
	struct taut_run *run = open_text(profile);
	const struct taut_trace *t = &run->traces[0];
	assert_string_equal(t->format, "nccl-profile");
	assert_int_equal(t->rank, 2);
	assert_int_equal(t->base_ns, 10500);
	uint32_t row = row_of(t, "AllReduce", TAUT_KIND_COMM);
	const struct taut_comm_args *args = taut_trace_comm(t, row);
	assert_int_equal(t->start_ns[row], 750);
	assert_int_equal(t->dur_ns[row], 11750);
	assert_int_equal(args->seq, 5);
	assert_int_equal(args->in_elements, 256);
	assert_string_equal(
		taut_names_text(t->names, args->dtype), "Float32");
	assert_string_equal(taut_names_text(t->names, args->group_name),
		"b0777fd29824eeb6/AllReduce");
	row = row_of(t, "chunk sent", TAUT_KIND_CHUNK);
	const struct taut_chunk_args *c = &t->chunks[t->args[row]];
	assert_int_equal(t->n_chunks, 1);
	assert_int_equal(c->gpu_late_ns, 2000);
	assert_int_equal(c->peer_late_ns, 1000);
	assert_int_equal(c->network_ns, 4000);
	assert_int_equal(c->channel, 3);
	assert_int_equal(c->peer, 1);
	assert_int_equal(c->step, 6);
	assert_int_equal(c->bytes, 4096);
	assert_int_equal(t->dur_ns[row], 7000);
	row = row_of(t, "KernelLaunch", TAUT_KIND_RUNTIME);
	assert_int_equal(t->start_ns[row], 14500);
	assert_true(t->flags[row] & TAUT_EVENT_CUT);
	assert_int_equal(t->events_lost, 1); /* the end of a Reduce */
	char note[96];
	snprintf(note, sizeof note, "1 event left out (an end without its "
		"begin), the first at byte %zu", (size_t)(strstr(profile,
		"{\"name\": \"Reduce\"") - profile - 2));
	assert_non_null(strstr(run->notes[0], note));
	taut_run_close(run);
}

/* What never ended goes on to the end of the dump. */
static void test_profile_unfinished(void **state)
{
	(void)state;
	struct taut_run *run = open_text(profile);
	const struct taut_trace *t = &run->traces[0];
	for (size_t i = 0; i < t->n_comms; i++) {
		uint32_t row = t->comms[i].event;
		if (t->comms[i].seq != 6)
			continue;
		assert_int_equal(t->dur_ns[row], 1000);
		assert_true(t->flags[row] & TAUT_EVENT_CUT);
	}
	assert_int_equal(t->n_comms, 2);
	taut_run_close(run);
}

/* However many are under way at once, each ends with its own end. */
static void test_profile_of_many_at_once(void **state)
{
	(void)state;
	enum { N = 2000 };
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	assert_non_null(out);
	fprintf(out, "[\n");
	for (int i = 0; i < N; i++)
		fprintf(out, "{\"name\": \"AllReduce\", \"cat\": \"COLL\", "
			"\"ph\": \"b\", \"id\": %d, \"pid\": 9, \"ts\": %d, "
			"\"args\": {\"SeqNum\": %d, \"Rank\": 2}},\n",
			i, 10 + i, i);
	for (int i = 0; i < N; i++)
		fprintf(out, "{\"name\": \"AllReduce\", \"cat\": \"COLL\", "
			"\"ph\": \"e\", \"id\": %d, \"pid\": 9, \"ts\": %d}"
			",\n", i, 5010 + i);
	fprintf(out, "{}]\n");
	fclose(out);
	struct taut_run *run = open_text(text);
	const struct taut_trace *t = &run->traces[0];
	assert_int_equal(t->n_events, N);
	for (size_t i = 0; i < t->n_events; i++)
		assert_int_equal(t->dur_ns[i], 5000000);
	assert_int_equal(t->events_lost, 0);
	taut_run_close(run);
	free(text);
}

static void check_no_memory(const char *text)
{
	taut_status status = TAUT_ENOMEM;
	for (long n = 0; status != TAUT_OK; n++) {
		struct taut_run *run = NULL;
		struct taut_error err = { 0 };
		alloc_fail_after(n);
		status = taut_run_open_memory(
			"t", text, strlen(text), 3, &run, &err);
		alloc_fail_never();
		assert_true(status == TAUT_OK || status == TAUT_ENOMEM);
		taut_run_close(run);
	}
}

static void test_no_memory(void **state)
{
	(void)state;
	check_no_memory(verbose);
	check_no_memory(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_inspector),
		cmocka_unit_test(test_inspector_is_cut),
		cmocka_unit_test(test_profile),
		cmocka_unit_test(test_profile_unfinished),
		cmocka_unit_test(test_profile_of_many_at_once),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
