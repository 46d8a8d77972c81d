/* What XPlane files say, read from small ones written by hand. */
#include "trace/test_support.h"

#include "tests/support/alloc_fail.h"
#include "trace/formats/xplane_write.h"

static struct taut_run *open_space(const struct bytes *space)
{
	struct taut_run *run = NULL;
	struct taut_error err = { 0 };
	if (taut_run_open_memory("t.xplane.pb", space->at, space->len, -1,
		    &run, &err) != TAUT_OK)
		fail_msg("%s", err.message);
	return run;
}

static const char *lane_name(const struct taut_trace *t, uint32_t lane)
{
	return taut_names_text(t->names, t->lanes[lane].name);
}

/* The only event of that name. */
static size_t find(const struct taut_trace *t, const char *name)
{
	size_t found = t->n_events;
	for (size_t i = 0; i < t->n_events; i++) {
		if (strcmp(taut_trace_name(t, i), name) != 0)
			continue;
		assert_int_equal(found, t->n_events);
		found = i;
	}
	if (found == t->n_events)
		fail_msg("no event %s", name);
	return found;
}

static const char *text_of(const struct taut_trace *t, uint32_t name)
{
	return taut_names_text(t->names, name);
}

/* --- threads and devices -------------------------------------------------- */

static void put_environment(struct bytes *space, int64_t start_ns)
{
	struct plane p;
	struct bytes stat = { .len = 0 };
	begin_plane(&p, "Task Environment");
	put_number(&stat, 1,
		id_of(p.stats, &p.n_stats, "profile_start_time"));
	put_number(&stat, 3, start_ns);
	put_names(&p, 5, p.stats, p.n_stats);
	p.n_stats = 0;
	put_in(&p.bytes, 6, &stat);
	end_plane(&p, space);
}

static void test_threads(void **state)
{
	(void)state;
	struct bytes space = { .len = 0 }, line, event;
	struct plane p;
	begin_plane(&p, "/host:CPU");
	begin_line(&line, 77, "tf_Compute/77", 15000);
	begin_event(&p, &event, "dense/MatMul:MatMul", 0, 0);
	event.len = 0; /* times in picoseconds: 1.9 and 3.2 ns behind */
	put_number(&event, 1, 1);
	put_number(&event, 2, 1900);
	put_number(&event, 3, 1300);
	put_in(&line, 4, &event);
	add_event(&p, &line, "ExecutorState::Process", 10, 5);
	add_event(&p, &line, "MemoryAllocation", 12, 0);
	add_event(&p, &line, "Iterator\n\xff::Root", 20, 5);
	put_in(&p.bytes, 3, &line);
	end_plane(&p, &space);
	put_environment(&space, 1700000000000000000);
	put_text(&space, 4, "node7:6003");

	struct taut_run *run = open_space(&space);
	const struct taut_trace *t = &run->traces[0];
	assert_string_equal(t->format, "xplane");
	assert_string_equal(t->host, "node7");
	assert_int_equal(t->n_events, 3);
	assert_int_equal(t->events_seen, 4);
	assert_int_equal(t->events_lost, 0);
	assert_int_equal(t->base_ns, 1700000000000015001);
	assert_int_equal(t->start_ns[0], 0);
	assert_int_equal(t->dur_ns[0], 2);
	assert_int_equal(t->kind[0], TAUT_KIND_OP);
	assert_int_equal(t->kind[1], TAUT_KIND_ANNOTATION);
	assert_string_equal(taut_trace_name(t, 2), "Iterator \xef\xbf\xbd::Root");
	assert_int_equal(t->n_lanes, 1);
	assert_int_equal(t->lanes[0].kind, TAUT_LANE_THREAD);
	assert_int_equal(t->lanes[0].tid, 77);
	assert_string_equal(lane_name(t, 0), "tf_Compute/77");
	assert_false(t->truncated);
	taut_run_close(run);
}

/* JAX writes the same files: calls of its compiled functions tell, and its version where
 * the profile has it. */
static void test_jax(void **state)
{
	static const char *const tell[] = { "PjitFunction(step)", "jax_version",
		"PjitFunctions" };

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct bytes space = { .len = 0 }, line, event;
		struct taut_run *run;
		const char *framework;
		struct plane p;

		begin_plane(&p, "/host:CPU");
		begin_line(&line, 1, "python", 500);
		begin_event(&p, &event, i == 1 ? "call" : tell[i], 50, 9);
		if (i == 1)
			add_text(&p, &event, tell[i], "0.10.2");
		put_in(&line, 4, &event);
		put_in(&p.bytes, 3, &line);
		end_plane(&p, &space);
		run = open_space(&space);
		framework = taut_trace_fact(&run->traces[0], "framework");
		if (i == 2)
			assert_null(framework);
		else
			assert_string_equal(framework, "jax");
		taut_run_close(run);
	}
}

static void put_device(struct bytes *space)
{
	struct bytes line, event;
	struct plane p;
	begin_plane(&p, "/device:GPU:3");
	begin_line(&line, 134, "Stream #134(Compute)", 500);
	begin_event(&p, &event, "some_kernel", 100, 30);
	add_number(&p, &event, "correlation_id", 72);
	put_in(&line, 4, &event);
	put_in(&p.bytes, 3, &line);
	begin_line(&line, 135, "Stream #135(MemcpyH2D)", 500);
	begin_event(&p, &event, "MemcpyH2D", 90, 4);
	add_number(&p, &event, "correlation_id", 71);
	add_ref(&p, &event, "memcpy_details",
		"kind_src:pageable size:6144 dest:3 async:1");
	put_in(&line, 4, &event);
	put_in(&p.bytes, 3, &line);
	begin_line(&line, -7, "TensorFlow Ops", 500);
	add_event(&p, &line, "dense/MatMul:MatMul", 100, 30);
	put_in(&p.bytes, 3, &line);
	end_plane(&p, space);
}

static void put_launches(struct bytes *space)
{
	struct bytes line, event;
	struct plane p;
	begin_plane(&p, "/host:CPU");
	begin_line(&line, 1, "python", 500);
	begin_event(&p, &event, "cuLaunchKernel", 50, 9);
	add_number(&p, &event, "correlation_id", 72);
	put_in(&line, 4, &event);
	put_in(&p.bytes, 3, &line);
	end_plane(&p, space);
}

static void test_devices(void **state)
{
	(void)state;
	struct bytes space = { .len = 0 };
	put_launches(&space);
	put_device(&space);
	struct taut_run *run = open_space(&space);
	const struct taut_trace *t = &run->traces[0];
	size_t kernel = find(t, "some_kernel"), copy = find(t, "MemcpyH2D");
	size_t launch = find(t, "cuLaunchKernel");
	assert_int_equal(t->kind[kernel], TAUT_KIND_KERNEL);
	assert_int_equal(t->kind[launch], TAUT_KIND_RUNTIME);
	assert_int_equal(t->correlation[kernel], 72);
	assert_int_equal(t->correlation[launch], 72);
	assert_int_equal(t->kind[copy], TAUT_KIND_MEMCPY);
	assert_int_equal(taut_trace_copy(t, copy)->bytes, 6144);
	const struct taut_lane *lane = &t->lanes[t->lane[kernel]];
	assert_int_equal(lane->kind, TAUT_LANE_STREAM);
	assert_int_equal(lane->pid, 3);
	assert_int_equal(lane->tid, 134);
	size_t range = find(t, "dense/MatMul:MatMul");
	assert_int_equal(t->kind[range], TAUT_KIND_GPU_RANGE);
	assert_int_equal(t->lanes[t->lane[range]].kind, TAUT_LANE_OTHER);
	taut_run_close(run);
}

/* --- steps ---------------------------------------------------------------- */

static void add_step(struct plane *p, struct bytes *line, const char *name,
	int64_t number, int64_t start_ns, int64_t dur_ns, bool taut)
{
	struct bytes event;
	begin_event(p, &event, name, start_ns, dur_ns);
	add_number(p, &event, "step_num", number);
	if (taut)
		add_number(p, &event, "taut", 1);
	put_in(line, 4, &event);
}

static void read_steps(const struct bytes *space, const int64_t *numbers,
	size_t n)
{
	struct taut_run *run = open_space(space);
	const struct taut_trace *t = &run->traces[0];
	size_t found = 0;
	for (size_t i = 0; i < t->n_events; i++) {
		if (t->kind[i] != TAUT_KIND_STEP) {
			assert_int_equal(t->sequence[i], 0);
			continue;
		}
		assert_true(found < n);
		assert_int_equal(t->sequence[i], numbers[found++] + 1);
	}
	assert_int_equal(found, n);
	taut_run_close(run);
}

/* Keras marks its steps, and the program may mark them once more inside. */
static void test_marked_steps(void **state)
{
	(void)state;
	struct bytes space = { .len = 0 }, line;
	struct plane p;
	begin_plane(&p, "/host:CPU");
	begin_line(&line, 1, "python", 0);
	add_step(&p, &line, "train", 7, 0, 100, false);
	add_step(&p, &line, "train", 1007, 10, 80, false);
	add_step(&p, &line, "train", 8, 100, 90, false);
	put_in(&p.bytes, 3, &line);
	begin_line(&line, 2, "other", 0);
	add_step(&p, &line, "evaluate", 3, 0, 50, false);
	put_in(&p.bytes, 3, &line);
	end_plane(&p, &space);
	read_steps(&space, (const int64_t[]){ 7, 8 }, 2);
}

static void test_tauts_own_steps_win(void **state)
{
	(void)state;
	struct bytes space = { .len = 0 }, line;
	struct plane p;
	begin_plane(&p, "/host:CPU");
	begin_line(&line, 1, "python", 0);
	add_step(&p, &line, "train", 12, 0, 95, true);
	add_step(&p, &line, "train", 0, 90, 100, false);
	add_step(&p, &line, "train", 13, 95, 100, true);
	add_step(&p, &line, "train", 1, 190, 100, false);
	put_in(&p.bytes, 3, &line);
	end_plane(&p, &space);
	read_steps(&space, (const int64_t[]){ 12, 13 }, 2);
}

static void put_device_steps(struct bytes *space, const char *name,
	int64_t start_ns, int64_t dur_ns)
{
	struct bytes line, event;
	struct plane p;
	begin_plane(&p, name);
	begin_line(&line, -9, "Steps", 1000);
	begin_event(&p, &event, "5", start_ns, dur_ns);
	add_number(&p, &event, "group_id", 2);
	add_text(&p, &event, "step_name", "5");
	put_in(&line, 4, &event);
	put_in(&p.bytes, 3, &line);
	end_plane(&p, space);
}

/* A step is what all devices did for it, and the host: from 1020 to 1400. */
static void test_steps_of_devices(void **state)
{
	(void)state;
	struct bytes space = { .len = 0 }, line, event;
	struct plane p;
	begin_plane(&p, "/host:CPU");
	begin_line(&line, 4, "tf_gpu_private_0", 1000);
	begin_event(&p, &event, "ExecutorState::Process", 20, 50);
	add_number(&p, &event, "group_id", 2);
	put_in(&line, 4, &event);
	add_event(&p, &line, "FunctionRun", 80, 5);
	put_in(&p.bytes, 3, &line);
	begin_line(&line, 3, "python3", 1000);
	add_event(&p, &line, "EagerExecute", 0, 500);
	put_in(&p.bytes, 3, &line);
	end_plane(&p, &space);
	put_device_steps(&space, "/device:GPU:0", 100, 200);
	put_device_steps(&space, "/device:GPU:1", 150, 250);
	struct taut_run *run = open_space(&space);
	const struct taut_trace *t = &run->traces[0];
	size_t step = find(t, "step");
	assert_int_equal(t->kind[step], TAUT_KIND_STEP);
	assert_int_equal(t->sequence[step], 6);
	assert_int_equal(t->base_ns + t->start_ns[step], 1020);
	assert_int_equal(t->dur_ns[step], 380);
	assert_string_equal(lane_name(t, t->lane[step]), "python3");
	taut_run_close(run);
}

/* A worker runs functions for its coordinator, on any thread of a pool. */
static void test_functions_run_for_others(void **state)
{
	(void)state;
	struct bytes space = { .len = 0 }, line, event;
	struct plane p;
	begin_plane(&p, "/host:CPU");
	for (int i = 0; i < 2; i++) {
		begin_line(&line, 10 + i, "tf_Compute/x", 1000 * i);
		add_event(&p, &line, "EagerService:Enqueue", 0, 500);
		begin_event(&p, &event, "EagerExecute", 10, 400);
		add_number(&p, &event, "is_func", 1);
		put_in(&line, 4, &event);
		add_event(&p, &line, "dense/MatMul:MatMul", 20, 30);
		begin_event(&p, &event, "EagerExecute", 450, 10);
		add_number(&p, &event, "is_func", 1);
		put_in(&line, 4, &event);
		put_in(&p.bytes, 3, &line);
	}
	end_plane(&p, &space);
	struct taut_run *run = open_space(&space);
	const struct taut_trace *t = &run->traces[0];
	unsigned steps = 0, inside = 0;
	for (size_t i = 0; i < t->n_events; i++) {
		bool own = strcmp(lane_name(t, t->lane[i]),
			"functions run for others") == 0;
		steps += t->kind[i] == TAUT_KIND_STEP;
		inside += own && t->kind[i] == TAUT_KIND_OP;
		if (t->kind[i] == TAUT_KIND_STEP)
			assert_true(own && t->dur_ns[i] == 400);
	}
	assert_int_equal(steps, 2);
	assert_int_equal(inside, 2);
	taut_run_close(run);
}

/* --- communication -------------------------------------------------------- */

static void add_collective(struct plane *p, struct bytes *line,
	const char *name, int64_t instance, int64_t start_ns, int64_t dur_ns)
{
	struct bytes event;
	begin_event(p, &event, name, start_ns, dur_ns);
	add_number(p, &event, "instance_key", instance);
	add_number(p, &event, "group_key", 4);
	put_in(line, 4, &event);
}

static void put_collectives(struct bytes *space)
{
	struct bytes line, event;
	struct plane p;
	begin_plane(&p, "/host:CPU");
	begin_line(&line, 1, "python", 0);
	add_step(&p, &line, "train", 3, 0, 1000, true);
	begin_event(&p, &event, "taut_collective", 1, 0);
	add_text(&p, &event, "taut_op", "CollectiveReduceV2");
	add_text(&p, &event, "taut_dtype", "float32");
	add_number(&p, &event, "taut_elements", 1024);
	put_in(&line, 4, &event);
	begin_event(&p, &event, "taut_job", 2, 0);
	add_number(&p, &event, "taut_rank", 1);
	add_number(&p, &event, "taut_world_size", 2);
	add_text(&p, &event, "taut_role", "worker 1");
	put_in(&line, 4, &event);
	put_in(&p.bytes, 3, &line);
	begin_line(&line, 2, "collective_ops/2", 0);
	begin_event(&p, &event, "CollectiveExecutor::CompleteParams", 90, 5);
	add_number(&p, &event, "group_key", 4);
	add_number(&p, &event, "group_size", 2);
	put_in(&line, 4, &event);
	add_collective(&p, &line, "CollectiveReduceV2:CollectiveReduceV2", 160,
		100, 50);
	add_event(&p, &line, "Loop", 105, 40);
	put_in(&p.bytes, 3, &line);
	begin_line(&line, 3, "collective_ops/3", 0);
	add_collective(&p, &line, "gather:CollectiveGatherV2", 161, 120, 50);
	add_collective(&p, &line, "gather_1:CollectiveGatherV2", 162, 180, 5);
	put_in(&p.bytes, 3, &line);
	end_plane(&p, space);
}

static void test_collectives(void **state)
{
	(void)state;
	struct bytes space = { .len = 0 };
	put_collectives(&space);
	struct taut_run *run = open_space(&space);
	const struct taut_trace *t = &run->traces[0];
	assert_int_equal(t->rank, 1);
	assert_int_equal(t->world_size, 2);
	assert_int_equal(t->n_facts, 1);
	assert_string_equal(t->facts[0].key, "tf.role");
	assert_string_equal(t->facts[0].value, "worker 1");
	assert_int_equal(t->n_comms, 3);
	size_t i = find(t, "CollectiveReduceV2:CollectiveReduceV2");
	const struct taut_comm_args *a = taut_trace_comm(t, i);
	assert_int_equal(t->kind[i], TAUT_KIND_COMM);
	assert_string_equal(text_of(t, a->collective), "allreduce");
	assert_string_equal(text_of(t, a->group_name), "group 4");
	assert_string_equal(text_of(t, a->dtype), "float32");
	assert_int_equal(a->in_elements, 1024);
	assert_int_equal(a->group_size, 2);
	assert_int_equal(a->seq, 160);
	assert_int_equal(a->src_rank, -1);
	size_t k = find(t, "gather:CollectiveGatherV2");
	a = taut_trace_comm(t, k);
	assert_string_equal(text_of(t, a->collective), "allgather");
	assert_int_equal(a->in_elements, -1);
	/* Two at a time take two lanes, and a third one that is free. */
	assert_string_equal(lane_name(t, t->lane[i]), "communication 1");
	assert_string_equal(lane_name(t, t->lane[k]), "communication 2");
	k = find(t, "gather_1:CollectiveGatherV2");
	assert_string_equal(lane_name(t, t->lane[k]), "communication 1");
	taut_run_close(run);
}

/* Where a device moves the bytes, the host's event only enqueues. */
static void test_collectives_of_a_device(void **state)
{
	(void)state;
	struct bytes space = { .len = 0 }, line;
	struct plane p;
	put_collectives(&space);
	begin_plane(&p, "/device:GPU:0");
	begin_line(&line, 20, "Stream #20(Compute)", 0);
	add_event(&p, &line, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 120, 9);
	put_in(&p.bytes, 3, &line);
	end_plane(&p, &space);
	struct taut_run *run = open_space(&space);
	const struct taut_trace *t = &run->traces[0];
	size_t i = find(t, "CollectiveReduceV2:CollectiveReduceV2");
	assert_int_equal(t->kind[i], TAUT_KIND_OP);
	assert_int_equal(taut_trace_comm(t, i)->seq, 160);
	assert_string_equal(lane_name(t, t->lane[i]), "collective_ops/2");
	taut_run_close(run);
}

#define WORKER "/job:worker/replica:0/task:0"
#define SERVER "/job:ps/replica:0/task:1"
#define KEY(from, to) from "/device:CPU:0;6076ea3d;" to "/device:CPU:0;edge;0:0"

static void add_half(struct plane *p, struct bytes *line, bool done,
	const char *name, int64_t at_ns, int64_t context)
{
	struct bytes event;
	begin_event(p, &event, done ? "ExecutorState::ProcessAsync::Done" :
				      "ExecutorState::ProcessAsync::Start",
		at_ns, 5);
	add_ref(p, &event, "name", name);
	add_ref(p, &event, "kernel_type", "_Recv");
	add_number(p, &event, "step_id", -4101);
	add_number(p, &event, done ? "_c" : "_p", context);
	put_in(line, 4, &event);
}

static void add_send(struct plane *p, struct bytes *line, const char *name,
	int64_t start_ns, const char *key)
{
	struct bytes event;
	begin_event(p, &event, name, start_ns, 7);
	add_ref(p, &event, "key", key);
	put_in(line, 4, &event);
}

static void test_sends_and_receives(void **state)
{
	(void)state;
	struct bytes space = { .len = 0 }, line, event;
	struct plane p;
	begin_plane(&p, "/host:CPU");
	begin_line(&line, 1, "tf_Compute/1", 0);
	begin_event(&p, &event, "ExecutorState::Process", 100, 200);
	add_number(&p, &event, "id", -4101);
	put_in(&line, 4, &event);
	add_half(&p, &line, false, "read/part_0/_10", 110, 51);
	add_half(&p, &line, false, "local/_3", 120, 52);
	add_half(&p, &line, false, "cut/_9", 125, 53);
	add_send(&p, &line, "grad/part_0/_44:_Send", 150, KEY(WORKER, SERVER));
	add_send(&p, &line, "local/_4:_Send", 160, KEY(WORKER, WORKER));
	add_send(&p, &line, "loss/_6:_Send", 170,
		KEY(WORKER, "/job:chief/replica:0/task:0"));
	add_send(&p, &line, "late/_8:_Send", 350, KEY(WORKER, SERVER));
	put_in(&p.bytes, 3, &line);
	begin_line(&line, 2, "tf_GrpcWorkerEnvQueues/2", 0);
	add_half(&p, &line, true, "read/part_0/_10", 210, 51);
	add_half(&p, &line, true, "local/_3", 165, 52);
	put_in(&p.bytes, 3, &line);
	end_plane(&p, &space);

	struct taut_run *run = open_space(&space);
	const struct taut_trace *t = &run->traces[0];
	size_t i = find(t, "read/part_0:_Recv");
	const struct taut_comm_args *a = taut_trace_comm(t, i);
	assert_int_equal(t->kind[i], TAUT_KIND_COMM);
	assert_int_equal(t->base_ns + t->start_ns[i], 110);
	assert_int_equal(t->dur_ns[i], 100);
	assert_string_equal(text_of(t, a->collective), "recv");
	assert_string_equal(
		text_of(t, a->group_name), "read/part_0 > " WORKER);
	assert_int_equal(a->seq, -4101 & 0xffffffffffff);
	i = find(t, "grad/part_0/_44:_Send");
	a = taut_trace_comm(t, i);
	assert_int_equal(t->kind[i], TAUT_KIND_COMM);
	assert_string_equal(text_of(t, a->collective), "send");
	assert_string_equal(
		text_of(t, a->group_name), "grad/part_0 > " SERVER);
	assert_int_equal(a->seq, -4101 & 0xffffffffffff);
	assert_int_equal(t->kind[find(t, "local/_4:_Send")], TAUT_KIND_OP);
	assert_int_equal(t->kind[find(t, "loss/_6:_Send")], TAUT_KIND_OP);
	/* Not in the run of a function that is told: no number. */
	assert_int_equal(
		taut_trace_comm(t, find(t, "late/_8:_Send"))->seq, -1);
	unsigned comms = 0;
	for (i = 0; i < t->n_events; i++)
		comms += t->kind[i] == TAUT_KIND_COMM;
	assert_int_equal(comms, 3);
	taut_run_close(run);
}

/* --- faults --------------------------------------------------------------- */

static void whole_space(struct bytes *space)
{
	space->len = 0;
	put_collectives(space);
	put_device(space);
	put_environment(space, 1700000000000000000);
}

/* Cut anywhere, a file is read as far as its events have names, or refused
 * in one line. */
static void test_cut_anywhere(void **state)
{
	(void)state;
	struct bytes space;
	size_t most = 0;
	whole_space(&space);
	for (size_t len = 1; len < space.len; len++) {
		struct taut_run *run = NULL;
		struct taut_error err = { 0 };
		taut_status status = taut_run_open_memory(
			"t", space.at, len, -1, &run, &err);
		if (status == TAUT_OK) {
			assert_true(run->traces[0].n_events >= most);
			most = run->traces[0].n_events;
		} else {
			assert_int_equal(status, TAUT_EFORMAT);
			assert_true(strncmp(err.message, "t: ", 3) == 0);
			assert_null(strchr(err.message, '\n'));
			assert_int_equal(most, 0);
		}
		taut_run_close(run);
	}
	assert_true(most >= 6);
	struct taut_run *run = open_space(&space);
	assert_int_equal(run->traces[0].n_events, most);
	assert_false(run->traces[0].truncated);
	assert_int_equal(run->n_notes, 1); /* one of two ranks is here */
	taut_run_close(run);
}

static const char *refused(const struct bytes *space)
{
	static struct taut_error err;
	struct taut_run *run = NULL;
	assert_int_equal(taut_run_open_memory("t", space->at, space->len, -1,
				 &run, &err),
		TAUT_EFORMAT);
	return err.message;
}

static void test_nothing_to_read(void **state)
{
	(void)state;
	struct bytes space = { .len = 0 };
	struct plane p;
	put_environment(&space, 5);
	assert_string_equal(refused(&space),
		"t: is a TensorFlow or JAX profile without an event of a host "
		"thread or a device");
	space.len = 0;
	begin_plane(&p, "/host:CPU");
	put(&p.bytes, "\x1a\x7f", 2); /* a line longer than its plane */
	end_plane(&p, &space);
	assert_string_equal(refused(&space),
		"t: byte 13: no XPlane field; expected a TensorFlow or JAX "
		"profile");
}

static void test_events_that_are_lost(void **state)
{
	(void)state;
	struct bytes space = { .len = 0 }, line, event = { .len = 0 };
	struct plane p;
	begin_plane(&p, "/host:CPU");
	begin_line(&line, 1, "python", 0);
	add_event(&p, &line, "fine", 1, 1);
	put_bytes(&line, 4, "\x08\x01\x12\x05", 4); /* no whole field */
	begin_event(&p, &event, "fine", 1, 1);
	put_number(&event, 3, -5); /* ends before it begins */
	put_in(&line, 4, &event);
	event.len = 0;
	put_number(&event, 1, 99); /* of no name */
	put_in(&line, 4, &event);
	put_in(&p.bytes, 3, &line);
	end_plane(&p, &space);
	struct taut_run *run = open_space(&space);
	const struct taut_trace *t = &run->traces[0];
	assert_int_equal(t->n_events, 1);
	assert_int_equal(t->events_seen, 4);
	assert_int_equal(t->events_lost, 2);
	assert_int_equal(run->n_notes, 3);
	assert_non_null(strstr(run->notes[0], "1 event left out (no protobuf)"));
	assert_non_null(strstr(run->notes[1], "no readable time"));
	taut_run_close(run);
}

static void test_memory_that_runs_out(void **state)
{
	(void)state;
	struct bytes space;
	whole_space(&space);
	for (long n = 0;; n++) {
		struct taut_run *run = NULL;
		struct taut_error err = { 0 };
		alloc_fail_after(n);
		taut_status status = taut_run_open_memory(
			"t", space.at, space.len, -1, &run, &err);
		alloc_fail_never();
		taut_run_close(run);
		if (status == TAUT_OK)
			break;
		assert_int_equal(status, TAUT_ENOMEM);
		assert_true(n < 10000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_jax),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_marked_steps),
		cmocka_unit_test(test_tauts_own_steps_win),
		cmocka_unit_test(test_steps_of_devices),
		cmocka_unit_test(test_functions_run_for_others),
		cmocka_unit_test(test_collectives),
		cmocka_unit_test(test_collectives_of_a_device),
		cmocka_unit_test(test_sends_and_receives),
		cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_nothing_to_read),
		cmocka_unit_test(test_events_that_are_lost),
		cmocka_unit_test(test_memory_that_runs_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
