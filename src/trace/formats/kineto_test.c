/* What the files of different years say, read from small texts. */
#include "trace/test_support.h"

#define HEAD "{\"traceEvents\":["
#define TAIL "]}"
/* A complete event; rest is what follows dur, with its comma. */
#define EVENT(cat, name, pid, tid, ts, dur, rest) \
	"{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"pid\":" pid \
	",\"tid\":" tid ",\"ts\":" ts ",\"dur\":" dur rest "}"
#define ARGS(text) ",\"args\":{" text "}"

static const struct taut_trace *first(const struct taut_run *run)
{
	assert_int_equal(run->n_traces, 1);
	return &run->traces[0];
}

static const char *name_of(const struct taut_trace *t, uint32_t id)
{
	return taut_names_text(t->names, id);
}

static void test_one_event(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HEAD EVENT("cpu_op", "aten::mm", "5",
		"6", "1706850122845782.125", "3.5",
		ARGS("\"External id\":9,\"Sequence number\":41,"
		     "\"Fwd thread id\":0")) TAIL);
	const struct taut_trace *t = first(run);
	assert_int_equal(t->n_events, 1);
	assert_string_equal(t->format, "kineto");
	assert_string_equal(taut_trace_name(t, 0), "aten::mm");
	assert_int_equal(t->kind[0], TAUT_KIND_OP);
	assert_int_equal(t->base_ns + t->start_ns[0], 1706850122845782125);
	assert_int_equal(t->dur_ns[0], 3500);
	assert_int_equal(t->sequence[0], 42);
	assert_int_equal(t->flags[0], 0);
	assert_int_equal(t->correlation[0], 0);
	assert_int_equal(t->args[0], TAUT_NONE);
	assert_int_equal(t->n_lanes, 1);
	assert_int_equal(t->lanes[0].kind, TAUT_LANE_THREAD);
	assert_int_equal(t->lanes[0].pid, 5);
	assert_int_equal(t->lanes[0].tid, 6);
	assert_int_equal(t->rank, 0);
	assert_int_equal(t->world_size, -1);
	assert_string_equal(t->host, "");
	assert_false(t->truncated);
	assert_int_equal(run->n_notes, 0);
	taut_run_close(run);
}

static enum taut_kind kind_of(const char *category)
{
	char text[256];
	snprintf(text, sizeof text,
		HEAD EVENT("%s", "x", "0", "7", "1", "1", "") ","
			EVENT("cpu_op", "x", "0", "7", "9", "1", "") TAIL,
		category);
	struct taut_run *run = open_text(text);
	const struct taut_trace *t = first(run);
	enum taut_kind kind = (enum taut_kind)t->kind[
		t->start_ns[0] == 0 ? 0 : 1];
	taut_run_close(run);
	return kind;
}

static void test_categories(void **state)
{
	(void)state;
	assert_int_equal(kind_of("cpu_op"), TAUT_KIND_OP);
	assert_int_equal(kind_of("Operator"), TAUT_KIND_OP);
	assert_int_equal(kind_of("user_annotation"), TAUT_KIND_ANNOTATION);
	assert_int_equal(kind_of("python_function"), TAUT_KIND_PYTHON);
	assert_int_equal(kind_of("cuda_runtime"), TAUT_KIND_RUNTIME);
	assert_int_equal(kind_of("cuda_driver"), TAUT_KIND_RUNTIME);
	assert_int_equal(kind_of("Runtime"), TAUT_KIND_RUNTIME);
	assert_int_equal(kind_of("kernel"), TAUT_KIND_KERNEL);
	assert_int_equal(kind_of("Kernel"), TAUT_KIND_KERNEL);
	assert_int_equal(kind_of("gpu_memcpy"), TAUT_KIND_MEMCPY);
	assert_int_equal(kind_of("Memcpy"), TAUT_KIND_MEMCPY);
	assert_int_equal(kind_of("gpu_memset"), TAUT_KIND_MEMSET);
	assert_int_equal(kind_of("Memset"), TAUT_KIND_MEMSET);
	assert_int_equal(kind_of("cuda_sync"), TAUT_KIND_SYNC);
	assert_int_equal(kind_of("gpu_user_annotation"), TAUT_KIND_GPU_RANGE);
	assert_int_equal(kind_of("overhead"), TAUT_KIND_OVERHEAD);
	assert_int_equal(kind_of("Trace"), TAUT_KIND_OTHER);
	assert_int_equal(kind_of("cpu_operator"), TAUT_KIND_OTHER);
}

/* In 2021 tids were strings and marks were operators. */
static void test_files_of_2021(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HEAD
		EVENT("Operator", "ProfilerStep#4", "5", "\"6\"", "1", "9",
			"") ","
		EVENT("Operator", "Optimizer.step#SGD.step", "5", "\"6\"",
			"2", "3", "") ","
		EVENT("Operator", "enumerate(DataLoader)#X.__next__", "5",
			"6", "3", "1", "") ","
		EVENT("Operator", "aten::add", "5", "\"6\"", "4", "1",
			ARGS("\"Fwd thread id\":1,\"Sequence number\":0")) ","
		EVENT("Kernel", "k", "0", "\"stream 7\"", "5", "1",
			ARGS("\"device\":0,\"stream\":7,"
			     "\"correlation\":33")) TAIL);
	const struct taut_trace *t = first(run);
	assert_int_equal(t->n_lanes, 2);
	static const uint8_t kinds[] = { TAUT_KIND_STEP,
		TAUT_KIND_ANNOTATION, TAUT_KIND_ANNOTATION, TAUT_KIND_OP,
		TAUT_KIND_KERNEL };
	assert_memory_equal(t->kind, kinds, sizeof kinds);
	assert_int_equal(t->flags[3], TAUT_EVENT_BACKWARD);
	assert_int_equal(t->sequence[3], 1);
	assert_int_equal(t->lanes[1].kind, TAUT_LANE_STREAM);
	assert_int_equal(t->lanes[1].tid, 7);
	assert_int_equal(t->correlation[4], 33);
	taut_run_close(run);
}

/* The cheapest range that PyTorch has looks like an operator. */
static void test_modules_as_operators(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HEAD
		EVENT("cpu_op", "nn.Module: block.0", "5", "6", "1", "9",
			"") ","
		EVENT("cpu_op", "nn.Modul", "5", "6", "2", "3", "") TAIL);
	const struct taut_trace *t = first(run);

	assert_int_equal(t->kind[0], TAUT_KIND_PYTHON);
	assert_int_equal(t->kind[1], TAUT_KIND_OP);
	taut_run_close(run);
}

/* The streams of a device stay serial: what is no item has its own lane. */
static void test_device_lanes(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HEAD
		EVENT("kernel", "k", "0", "7", "1", "1",
			ARGS("\"device\":2,\"stream\":20")) ","
		EVENT("gpu_user_annotation", "step", "2", "20", "1", "5",
			"") ","
		EVENT("cuda_sync", "Stream Sync", "2", "1000020", "2", "1",
			ARGS("\"device\":2,\"stream\":20,"
			     "\"cuda_sync_kind\":\"Stream Sync\"")) ","
		EVENT("gpu_memcpy", "c", "2", "20", "3", "1",
			ARGS("\"bytes\":4096")) ","
		EVENT("cuda_sync", "Stream Sync", "2", "1000020", "3", "1",
			ARGS("\"correlation\":1")) ","
		EVENT("cuda_sync", "Context Sync", "2", "-1", "4", "1",
			ARGS("\"device\":2,\"stream\":4294967295")) ","
		"{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":2,\"tid\":20,"
		"\"args\":{\"name\":\"stream 20 \"}}" TAIL);
	const struct taut_trace *t = first(run);
	assert_int_equal(t->n_lanes, 4);
	assert_int_equal(t->lanes[0].kind, TAUT_LANE_STREAM);
	assert_int_equal(t->lanes[0].pid, 2);
	assert_int_equal(t->lanes[0].tid, 20);
	assert_string_equal(name_of(t, t->lanes[0].name), "stream 20");
	assert_int_equal(t->lane_begin[1], 2);
	for (int i = 1; i < 4; i++)
		assert_int_equal(t->lanes[i].kind, TAUT_LANE_OTHER);
	assert_int_equal(t->n_syncs, 3);
	assert_int_equal(t->n_copies, 1);
	assert_int_equal(taut_trace_copy(t, 1)->bytes, 4096);
	assert_int_equal(t->syncs[0].kind, TAUT_SYNC_CONTEXT);
	assert_int_equal(t->syncs[0].stream, -1);
	for (int i = 1; i < 3; i++) {
		assert_int_equal(t->syncs[i].kind, TAUT_SYNC_STREAM);
		assert_int_equal(t->syncs[i].stream, 20);
	}
	taut_run_close(run);
}

static void test_sync_args(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HEAD
		EVENT("cuda_sync", "Stream Wait Event", "0", "20", "1", "1",
			ARGS("\"cuda_sync_kind\":\"Stream Wait Event\","
			     "\"wait_on_stream\":7,"
			     "\"wait_on_cuda_event_record_corr_id\":5169,"
			     "\"wait_on_cuda_event_id\":11,\"stream\":20,"
			     "\"correlation\":5170,\"device\":0")) ","
		EVENT("cuda_sync", "Event Sync", "0", "-1", "2", "1",
			ARGS("\"cuda_sync_kind\":\"Event Sync\","
			     "\"wait_on_stream\":7,\"wait_on_cuda_event_record"
			     "_corr_id\":-1,\"stream\":-1")) TAIL);
	const struct taut_trace *t = first(run);
	const struct taut_sync_args *wait = NULL, *event = NULL;
	for (size_t i = 0; i < t->n_syncs; i++)
		*(t->syncs[i].kind == TAUT_SYNC_STREAM_WAIT ? &wait :
							      &event) =
			&t->syncs[i];
	assert_non_null(wait);
	assert_int_equal(wait->stream, 20);
	assert_int_equal(wait->wait_stream, 7);
	assert_int_equal(wait->wait_correlation, 5169);
	assert_int_equal(wait->event_id, 11);
	assert_int_equal(t->correlation[wait->event], 5170);
	assert_non_null(event);
	assert_int_equal(event->kind, TAUT_SYNC_EVENT);
	assert_int_equal(event->wait_correlation, -1);
	assert_int_equal(event->event_id, -1);
	taut_run_close(run);
}

static void test_collective_said_plainly(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HEAD
		EVENT("kernel", "ncclDevKernel", "0", "7", "1", "1",
			ARGS("\"Collective name\":\"send\","
			     "\"In msg nelems\":25136,"
			     "\"Out msg nelems\":201088,\"Group size\":8,"
			     "\"dtype\":\"BFloat16\","
			     "\"In split size\":\"[]\","
			     "\"Process Group Name\":\"3\","
			     "\"Process Group Description\":\"pp\","
			     "\"Process Group Ranks\":\"[0, 1, ...]\","
			     "\"Global rank start\":0,"
			     "\"Global rank stride\":2,"
			     "\"Src Rank\":1,\"Dst Rank\":3,\"Seq\":17,"
			     "\"Comms Id\":99")) TAIL);
	const struct taut_trace *t = first(run);
	const struct taut_comm_args *c = taut_trace_comm(t, 0);
	assert_non_null(c);
	assert_string_equal(name_of(t, c->collective), "send");
	assert_string_equal(name_of(t, c->dtype), "BFloat16");
	assert_string_equal(name_of(t, c->group_name), "3");
	assert_string_equal(name_of(t, c->group_desc), "pp");
	assert_string_equal(name_of(t, c->group_ranks), "[0, 1, ...]");
	assert_int_equal(c->in_elements, 25136);
	assert_int_equal(c->out_elements, 201088);
	assert_int_equal(c->group_size, 8);
	assert_int_equal(c->rank_start, 0);
	assert_int_equal(c->rank_stride, 2);
	assert_int_equal(c->src_rank, 1);
	assert_int_equal(c->dst_rank, 3);
	assert_int_equal(c->seq, 17);
	assert_int_equal(c->comms_id, 99);
	assert_int_equal(c->local_group, -1);
	taut_run_close(run);
}

/* Where its arguments are told, and of operators that have it there. */
static void test_frozen_norm(void **state)
{
#define SAYS(training) ARGS("\"Concrete Inputs\":[\"\",\"\",\"\",\"\",\"\"," \
	training "]")
	struct taut_run *run = open_text(HEAD
		EVENT("cpu_op", "aten::batch_norm", "1", "1", "1", "9",
			SAYS("\"False\",\"0.1\"")) ","
		EVENT("cpu_op", "aten::batch_norm", "1", "1", "11", "9",
			SAYS("\"True\",\"0.1\"")) ","
		EVENT("cpu_op", "aten::native_batch_norm", "1", "1", "21", "9",
			SAYS("\"False\"")) ","
		EVENT("cpu_op", "aten::dropout", "1", "1", "31", "9",
			SAYS("\"False\"")) ","
		EVENT("cpu_op", "aten::batch_norm", "1", "1", "41", "9",
			ARGS("\"Concrete Inputs\":[\"\",\"False\"]")) ","
		EVENT("cpu_op", "aten::batch_norm", "1", "1", "51", "9",
			SAYS("[1]")) ","
		EVENT("cpu_op", "aten::batch_norm", "1", "1", "61", "9",
			ARGS("\"Sequence number\":3")) TAIL);
	const struct taut_trace *t = first(run);
	static const int frozen[] = { 1, 0, 1, 0, 0, 0, 0 };

	(void)state;
	assert_int_equal(t->n_events, 7);
	for (int i = 0; i < 7; i++)
		assert_int_equal(t->flags[i] & TAUT_EVENT_FROZEN,
			frozen[i] ? TAUT_EVENT_FROZEN : 0);
	taut_run_close(run);
#undef SAYS
}

/* Early 2024 and before: from the operators' arguments. */
static void test_collective_by_position(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HEAD
		EVENT("cpu_op", "c10d::_allgather_base_", "1", "1", "1", "9",
			ARGS("\"Input type\":[\"signed char\",\"signed char\","
			     "\"\"],\"Input Dims\":[[1073741824],[16777216],"
			     "[]]")) ","
		EVENT("cpu_op", "record_param_comms", "1", "1", "2", "7",
			ARGS("\"Concrete Inputs\":[\"\",\"337\","
			     "\"93825114103440\",\"0\",\"\",\"[]\",\"[]\","
			     "\"8\"],\"Input type\":[\"TensorList\","
			     "\"Scalar\",\"Scalar\",\"Scalar\",\"\","
			     "\"ScalarList\",\"ScalarList\",\"Scalar\"],"
			     "\"Input Dims\":[[[4,2048],[3]],[],[],[],[],[],"
			     "[],[]]")) ","
		EVENT("user_annotation", "nccl:_all_gather_base", "1", "1",
			"3", "5", ARGS("\"Input type\":[\"c10::Half\"],"
				       "\"Input Dims\":[[4,2048]]")) ","
		/* A wait: no tensors. */
		EVENT("cpu_op", "record_param_comms", "1", "1", "20", "1",
			ARGS("\"Concrete Inputs\":[\"337\",\"0\",\"0\",\"\","
			     "\"[]\",\"[]\",\"1\"],\"Input type\":[\"Scalar\","
			     "\"Scalar\",\"Scalar\",\"\",\"ScalarList\","
			     "\"ScalarList\",\"Scalar\"],\"Input Dims\":[[],"
			     "[],[],[],[],[],[]]")) TAIL);
	const struct taut_trace *t = first(run);
	assert_int_equal(t->n_comms, 3);
	const struct taut_comm_args *c = t->comms;
	assert_string_equal(name_of(t, c[0].collective), "_allgather_base");
	assert_int_equal(c[0].in_elements, 16777216);
	assert_int_equal(c[0].out_elements, 1073741824);
	assert_string_equal(name_of(t, c[0].dtype), "Char");
	assert_int_equal(c[1].in_elements, 4 * 2048 + 3);
	assert_int_equal(c[1].seq, 337);
	assert_int_equal(c[1].group_size, 8);
	assert_int_equal(c[1].local_group, 93825114103440);
	assert_int_equal(c[1].collective, 0);
	assert_string_equal(name_of(t, c[2].collective), "_all_gather_base");
	assert_string_equal(name_of(t, c[2].dtype), "Half");
	assert_int_equal(c[2].in_elements, 4 * 2048);
	taut_run_close(run);
}

static void test_sizes_that_are_not_said(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HEAD
		EVENT("cpu_op", "c10d::allreduce_", "1", "1", "1", "1",
			ARGS("\"Input Dims\":[[],[]],"
			     "\"Input type\":[\"TensorList\",\"\"]")) ","
		EVENT("cpu_op", "nccl:all_reduce", "1", "1", "2", "1",
			ARGS("\"Input Dims\":[[]],"
			     "\"Input type\":[\"float\"]")) ","
		EVENT("cpu_op", "gloo:broadcast", "1", "1", "3", "1",
			ARGS("\"Input Dims\":[[9000000000,9000000000,9]],"
			     "\"Input type\":[\"float\"]")) ","
		EVENT("cpu_op", "gloo:barrier", "1", "1", "4", "1",
			ARGS("\"Input Dims\":\"[]\"")) TAIL);
	const struct taut_trace *t = first(run);
	assert_int_equal(t->n_comms, 4);
	assert_int_equal(t->comms[0].in_elements, -1);
	assert_int_equal(t->comms[1].in_elements, 1); /* a single number */
	assert_int_equal(t->comms[2].in_elements, -1); /* beyond 64 bits */
	assert_int_equal(t->comms[3].in_elements, -1);
	assert_string_equal(
		name_of(t, t->comms[3].collective), "barrier");
	taut_run_close(run);
}

/* Gradients: what is put into place, and DDP's copies into and out of its
 * buckets. A tensor of any other operator is not kept. */
static void test_gradients(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HEAD
		EVENT("cpu_op", "torch::distributed::reducer::mul_out", "1",
			"1", "9", "1", ARGS("\"Input Dims\":[[2]],"
			"\"Input type\":[\"c10::Half\"]")) ","
		EVENT("cpu_op", "torch::autograd::AccumulateGrad", "1", "1",
			"1", "1", ARGS("\"Input Dims\":[[512,256,3,3]],"
			"\"Input type\":[\"float\"]")) ","
		EVENT("cpu_op", "torch::autograd::AccumulateGrad", "1", "1",
			"2", "1", ARGS("\"Input Dims\":[[7]],"
			"\"Input type\":[\"void*\"]")) ","
		EVENT("cpu_op", "torch::autograd::AccumulateGrad", "1", "1",
			"3", "1", "") ","
		EVENT("cpu_op", "torch::add", "1", "1", "4", "1",
			ARGS("\"Input Dims\":[[7]],"
			"\"Input type\":[\"float\"]")) TAIL);
	const struct taut_trace *t = first(run);
	assert_int_equal(t->n_tensors, 2);
	assert_int_equal(t->tensors[0].event, 0);
	assert_int_equal(t->tensors[0].bytes, 512 * 256 * 9 * 4);
	assert_int_equal(t->tensors[1].event, 4);
	assert_int_equal(taut_trace_tensor(t, 4)->bytes, 4);
	for (size_t i = 1; i < 4; i++)
		assert_null(taut_trace_tensor(t, i));
	for (size_t i = 0; i < t->n_events; i++)
		assert_null(taut_trace_comm(t, i));
	taut_run_close(run);
}

static void test_rocm_copies(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HEAD
		EVENT("cuda_runtime", "hipMemcpyAsync", "1", "1", "1", "1",
			ARGS("\"size\":2560,\"correlation\":117")) ","
		EVENT("gpu_memcpy", "c", "0", "0", "3", "1",
			ARGS("\"correlation\":117")) ","
		EVENT("gpu_memcpy", "c", "0", "0", "5", "1",
			ARGS("\"correlation\":118")) TAIL);
	const struct taut_trace *t = first(run);
	assert_int_equal(t->n_copies, 1);
	assert_int_equal(t->copies[0].bytes, 2560);
	assert_int_equal(t->correlation[t->copies[0].event], 117);
	taut_run_close(run);
}

/* Sizes of inputs are kept as they are written, each text once. */
static void test_sizes_of_inputs(void **state)
{
	(void)state;
	char many[600], *all;
	memset(many, '1', sizeof many);
	many[sizeof many - 1] = '\0';
	assert_true(asprintf(&all, HEAD
		EVENT("cpu_op", "aten::mm", "1", "1", "1", "1",
			ARGS("\"Input Dims\":[[16, 4],[4, 2]]")) ","
		EVENT("cpu_op", "aten::mm", "1", "1", "2", "1",
			ARGS("\"Input Dims\":[[16, 4],[4, 2]]")) ","
		EVENT("cpu_op", "aten::ones", "1", "1", "3", "1",
			ARGS("\"Input Dims\":[[]]")) ","
		EVENT("cpu_op", "aten::cat", "1", "1", "4", "1",
			ARGS("\"Input Dims\":[[%s]]")) ","
		EVENT("cpu_op", "aten::t", "1", "1", "5", "1",
			ARGS("\"Input Dims\":\"[[3]]\"")) ","
		EVENT("cpu_op", "aten::t", "1", "1", "6", "1", "") TAIL,
		many) > 0);
	struct taut_run *run = open_text(all);
	const struct taut_trace *t = first(run);
	assert_string_equal(name_of(t, t->sizes[0]), "[[16, 4],[4, 2]]");
	assert_int_equal(t->sizes[1], t->sizes[0]);
	for (size_t i = 2; i < 6; i++)
		assert_int_equal(t->sizes[i], 0);
	taut_run_close(run);
	free(all);
}

static void test_begin_and_end(void **state)
{
	(void)state;
#define AT(ph, name, ts) \
	"{\"ph\":\"" ph "\",\"cat\":\"cpu_op\",\"name\":\"" name \
	"\",\"pid\":1,\"tid\":1,\"ts\":" ts "}"
	struct taut_run *run = open_text(HEAD AT("B", "a", "10") ","
		AT("B", "b", "11") ",{\"ph\":\"E\",\"pid\":1,\"tid\":1,"
		"\"ts\":12.5}," AT("B", "c", "13") "," AT("E", "c", "15") ","
		AT("E", "", "16") "," AT("E", "", "17") ","
		AT("B", "open", "18") "," AT("B", "back", "20") ","
		AT("E", "", "19") "," AT("B", "last", "20.5") TAIL);
#undef AT
	const struct taut_trace *t = first(run);
	static const int64_t durs[] = { 6000, 1500, 2000, 2500, 0, 0 };
	assert_int_equal(t->n_events, 6);
	assert_memory_equal(t->dur_ns, durs, sizeof durs);
	assert_int_equal(t->flags[0], 0);
	assert_int_equal(t->flags[3], TAUT_EVENT_CUT);
	assert_int_equal(t->flags[4], TAUT_EVENT_CUT);
	assert_int_equal(t->flags[5], TAUT_EVENT_CUT);
	assert_int_equal(t->events_lost, 1);
	assert_int_equal(run->n_notes, 2);
	assert_non_null(strstr(run->notes[0], "an end (ph E) without"));
	assert_non_null(strstr(run->notes[1], "1 events end before"));
	taut_run_close(run);
}

static void test_places_that_are_texts(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HEAD
		EVENT("cpu_op", "a", "1", "-2", "1", "1", "") ","
		EVENT("Trace", "PyTorch Profiler (0)", "\"Spans\"",
			"\"PyTorch Profiler\"", "1", "1", "") ","
		EVENT("user_annotation", "x", "\"\"", "\"\"", "2", "1", "")
		TAIL);
	const struct taut_trace *t = first(run);
	assert_int_equal(t->n_lanes, 3);
	assert_int_equal(t->lanes[0].kind, TAUT_LANE_THREAD);
	assert_int_equal(t->lanes[0].tid, -2);
	int spans = 0;
	for (uint32_t i = 1; i < 3; i++) {
		assert_int_equal(t->lanes[i].kind, TAUT_LANE_OTHER);
		spans += strcmp(name_of(t, t->lanes[i].name),
				 "PyTorch Profiler") == 0;
	}
	assert_int_equal(spans, 1);
	taut_run_close(run);
}

/* One row for each id; what is no device, or half of one, does no harm. */
static void test_devices(void **state)
{
	(void)state;
	struct taut_run *run = open_text(
		"{\"deviceProperties\":[{\"id\":0,\"name\":\"NVIDIA A40\","
		"\"x\":[{\"id\":9}],\"computeMajor\":8,\"computeMinor\":6,"
		"\"numSms\":84},{},{\"name\":\"nameless\"},{\"id\":1},"
		"{\"id\":0,\"name\":\"again\"},{\"id\":2,"
		"\"computeMajor\":\"?\"}],\"traceEvents\":["
		EVENT("kernel", "k", "0", "7", "1", "2", "") TAIL);
	const struct taut_trace *t = first(run);
	assert_int_equal(t->n_devices, 3);
	assert_int_equal(t->devices[0].id, 0);
	assert_string_equal(t->devices[0].name, "NVIDIA A40");
	assert_int_equal(t->devices[0].major, 8);
	assert_int_equal(t->devices[0].minor, 6);
	assert_int_equal(t->devices[0].multiprocessors, 84);
	assert_int_equal(t->devices[1].id, 1);
	assert_string_equal(t->devices[1].name, "");
	assert_int_equal(t->devices[1].major, -1);
	assert_int_equal(t->devices[2].major, -1);
	taut_run_close(run);
	run = open_text("{\"deviceProperties\":{\"id\":0},\"traceEvents\":["
		EVENT("kernel", "k", "0", "7", "1", "2", "") TAIL);
	assert_int_equal(first(run)->n_devices, 0);
	taut_run_close(run);
}

/* Keys stand in any order, before and after the events; unknown ones, white
 * space and empty objects do no harm. */
static void test_keys_in_any_order(void **state)
{
	(void)state;
	struct taut_run *run = open_text(
		" \n{ \"deviceProperties\" : [ { \"id\" : 0 , \"x\": [1, {}]"
		"} ] , \"traceEvents\" : [ {} , { \"args\" : { \"a\" : [ \"}\""
		" ] , \"correlation\" : 5 } , \"dur\" : 1 , \"ts\" : 2 , "
		"\"tid\" : 3 , \"pid\" : 4 , \"name\" : \"n\" , \"category\" "
		": 3 , \"cat\" : \"kernel\" , \"ph\" : \"X\" } , { } ] , "
		"\"unknown\" : { \"traceEvents\" : [ 1 ] } , "
		"\"distributedInfo\" : { \"backend\" : \"nccl\" , \"rank\" : "
		"3 , \"world_size\" : 16 , \"ranks\" : \"[0, 1]\" , "
		"\"pg_count\" : 2 , "
		"\"pg_config\" : [ { \"rank\" : 9 } ] } , \"host_name\" : "
		"\"gpu\\u0031\" , \"displayTimeUnit\" : \"ms\" , "
		"\"baseTimeNanoseconds\" : 1735632360000000000 } \n ");
	const struct taut_trace *t = first(run);
	assert_int_equal(t->n_events, 1);
	assert_int_equal(t->events_seen, 3);
	assert_int_equal(t->correlation[0], 5);
	assert_int_equal(t->rank, 3);
	assert_int_equal(t->world_size, 16);
	assert_int_equal(t->process_groups, 2);
	assert_string_equal(t->host, "gpu1");
	assert_int_equal(
		t->base_ns + t->start_ns[0], 1735632360000002000);
	assert_string_equal(run->notes[0],
		"t.json: 1 of the job's 16 ranks is here");
	taut_run_close(run);
}

/* Sorted, with a pg_config as a flight recorder's dump has it, and with more
 * than the first bytes hold before the first key that is of Kineto alone. */
static void test_sorted_keys(void **state)
{
	(void)state;
	char text[8192];
	snprintf(text, sizeof text,
		"{\"baseTimeNanoseconds\":5,\"deviceProperties\":[],"
		"\"displayTimeUnit\":\"ms\",\"distributedInfo\":{"
		"\"backend\":\"nccl\",\"pg_config\":[{\"pg_name\":\"0\"}],"
		"\"rank\":3},%6000s\"schemaVersion\":1,\"traceEvents\":[%s]}",
		"", EVENT("cpu_op", "a", "1", "1", "1", "1", ""));
	struct taut_run *run = open_text(text);
	assert_string_equal(first(run)->format, "kineto");
	assert_int_equal(first(run)->rank, 3);
	taut_run_close(run);
}

static void test_byte_order_mark(void **state)
{
	(void)state;
	static const char text[] = "\xef\xbb\xbf [" EVENT("cpu_op", "a", "1",
		"1", "1", "1", "") "]";
	struct taut_run *run = open_text(text);
	assert_int_equal(first(run)->n_events, 1);
	assert_int_equal(first(run)->bytes_read, sizeof text - 1 - 3);
	taut_run_close(run);
	char packed[sizeof text + 256];
	struct taut_error err = { 0 };
	size_t len = gzip_member(text, sizeof text - 1, packed);
	assert_int_equal(taut_run_open_memory(
		"t.gz", packed, len, 0, &run, &err), TAUT_OK);
	assert_int_equal(first(run)->n_events, 1);
	taut_run_close(run);
}

static void test_bare_array(void **state)
{
	(void)state;
	struct taut_run *run = open_text("[" EVENT("cpu_op", "a", "1", "1",
		"1", "1", "") "," EVENT("cpu_op", "b", "1", "1", "2", "1", "")
		"]");
	assert_int_equal(first(run)->n_events, 2);
	assert_false(first(run)->truncated);
	taut_run_close(run);
}

static void test_names_are_texts(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HEAD
		EVENT("cpu_op", "a\\\"b\\u00e9", "1", "1", "1", "1", "") ","
		EVENT("cpu_op", "a\nb", "1", "1", "2", "1", "") ","
		EVENT("cpu_op", "\xff", "1", "1", "3", "1", "") TAIL);
	const struct taut_trace *t = first(run);
	assert_string_equal(taut_trace_name(t, 0), "a\"b\xc3\xa9");
	assert_string_equal(taut_trace_name(t, 1), "a b");
	assert_string_equal(taut_trace_name(t, 2), "\xef\xbf\xbd");
	assert_int_equal(t->events_lost, 0);
	taut_run_close(run);
}

/* The builds of March 2024: "5.7" is 5 us and 7 ns. */
static int64_t start_of(const char *unit, const char *a, const char *b)
{
	char text[512];
	snprintf(text, sizeof text, HEAD
		EVENT("cpu_op", "a", "1", "1", "0", "%s", "") ","
		EVENT("cpu_op", "b", "1", "1", "100", "%s", "")
		"],\"displayTimeUnit\":\"%s\"}", a, b, unit);
	struct taut_run *run = open_text(text);
	int64_t dur = first(run)->dur_ns[0];
	taut_run_close(run);
	return dur;
}

static void test_unpadded_nanoseconds(void **state)
{
	(void)state;
	assert_int_equal(start_of("ns", "5.7", "1.10"), 5007);
	assert_int_equal(start_of("ns", "5.70", "1.123"), 5070);
	/* A leading zero, or more than three digits: decimals. */
	assert_int_equal(start_of("ns", "5.7", "1.05"), 5700);
	assert_int_equal(start_of("ns", "5.7", "1.1234"), 5700);
	/* Too little is known: what JSON means. */
	assert_int_equal(start_of("ns", "5.7", "1.125"), 5700);
	assert_int_equal(start_of("ms", "5.7", "1.10"), 5700);
	assert_int_equal(start_of("ns", "5.700", "1.125"), 5700);
}

static void test_events_that_are_left_out(void **state)
{
	(void)state;
	struct taut_run *run = open_text(HEAD
		EVENT("cpu_op", "a", "1", "1", "1", "1", "") ","
		EVENT("cpu_op", "a", "1", "1", "null", "1", "") ","
		EVENT("cpu_op", "a", "1", "1", "1e30", "1", "") ","
		EVENT("cpu_op", "a", "1", "1", "5", "-1", "") ","
		EVENT("cpu_op", "a", "1", "true", "5", "1", "") ","
		"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"tid\":1,\"ts\":7},"
		"{\"ph\":\"C\",\"name\":\"counter\",\"ts\":7},"
		"{\"ph\":\"s\",\"id\":1,\"ts\":7}" TAIL);
	const struct taut_trace *t = first(run);
	assert_int_equal(t->events_seen, 8);
	assert_int_equal(t->events_lost, 4);
	assert_int_equal(t->n_events, 2);
	assert_int_equal(t->dur_ns[1], 0);
	assert_int_equal(t->flags[1], TAUT_EVENT_CUT);
	assert_int_equal(run->n_notes, 3);
	assert_non_null(strstr(run->notes[0],
		"2 events left out (no readable ts or dur), the first at "
		"byte "));
	assert_non_null(strstr(run->notes[1],
		"2 events left out (no readable pid or tid)"));
	assert_non_null(strstr(run->notes[2], "1 events end before"));
	taut_run_close(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_event),
		cmocka_unit_test(test_categories),
		cmocka_unit_test(test_files_of_2021),
		cmocka_unit_test(test_modules_as_operators),
		cmocka_unit_test(test_device_lanes),
		cmocka_unit_test(test_sync_args),
		cmocka_unit_test(test_collective_said_plainly),
		cmocka_unit_test(test_collective_by_position),
		cmocka_unit_test(test_frozen_norm),
		cmocka_unit_test(test_sizes_that_are_not_said),
		cmocka_unit_test(test_gradients),
		cmocka_unit_test(test_rocm_copies),
		cmocka_unit_test(test_sizes_of_inputs),
		cmocka_unit_test(test_begin_and_end),
		cmocka_unit_test(test_places_that_are_texts),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_keys_in_any_order),
		cmocka_unit_test(test_sorted_keys),
		cmocka_unit_test(test_byte_order_mark),
		cmocka_unit_test(test_bare_array),
		cmocka_unit_test(test_names_are_texts),
		cmocka_unit_test(test_unpadded_nanoseconds),
		cmocka_unit_test(test_events_that_are_left_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
